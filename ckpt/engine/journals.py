# SPDX-License-Identifier: MIT
"""Which checkpoints a rollback that is not over may need: none of them may go.

The journals of all worktrees tell. In a repository that several users share, the private files
of one cannot be read by another, who therefore drops nothing of that worktree.
"""

from __future__ import annotations

import os

from ckpt.engine.pending import is_hidden, journal_exists
from ckpt.errors import Refused
from ckpt.store.roots import git_dirs, in_worktree, worktree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.engine.journal import Journal
    from ckpt.store.repository import Repository


def needed_by_rollbacks(repo: Repository) -> dict[str, str | None]:
    """Checkpoints that interrupted rollbacks name, and the worktrees where these were begun, as
    far as that is known."""
    needed: dict[str, str | None] = {}
    for git_dir in git_dirs(repo):
        found = _read(repo, git_dir)
        if found is not None:
            needed |= dict.fromkeys(_named(found), worktree_of(git_dir))
    return needed


def hidden_worktrees(repo: Repository) -> set[str]:
    """The ids of worktrees of other users, of which nobody can tell here what they need."""
    hidden = (one for one in git_dirs(repo) if is_hidden(os.path.join(one, "ckpt")))
    return {repo.worktree_id_of(git_dir) for git_dir in hidden}


def _named(record: Journal) -> set[str]:
    named = {record.target, record.safety}
    return named if record.edits is None else named | {record.edits}


def _read(repo: Repository, git_dir: str) -> Journal | None:
    private_dir = os.path.join(git_dir, "ckpt")
    if not journal_exists(private_dir):
        return None
    from ckpt.engine import journal

    try:
        return journal.read(private_dir)
    except Refused as error:
        if journal_exists(private_dir):
            raise _elsewhere(repo, git_dir, error) from None
        return None  # that rollback has ended meanwhile


def _elsewhere(repo: Repository, git_dir: str, error: Refused) -> Refused:
    """Say in which worktree a journal is that stops this one too."""
    if git_dir == repo.git_dir:
        return error
    return Refused(error.message + in_worktree(git_dir), hint="git ckpt doctor")
