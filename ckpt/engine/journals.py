# SPDX-License-Identifier: MIT
"""Which checkpoints a rollback that is not over may need: none of them may go.

The journals of all worktrees tell, and those of the repositories around this one, whose rollbacks
with `--recurse` have begun here. In a repository that several users share, the private files of
one cannot be read by another, who therefore drops nothing of that worktree.
"""

from __future__ import annotations

import os

from ckpt.engine.pending import is_hidden, journal_exists
from ckpt.errors import CkptError, Refused
from ckpt.store.roots import git_dirs, in_worktree, present_worktrees, worktree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ckpt.engine.journal import Journal
    from ckpt.store.repository import Repository


def needed_by_rollbacks(repo: Repository) -> dict[str, str | None]:
    """Checkpoints that interrupted rollbacks name, and the worktrees where these were begun, as
    far as that is known."""
    needed: dict[str, str | None] = {}
    for worktree, record in _around(repo):
        needed |= dict.fromkeys(_named(record), worktree)
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
    return Refused(error.message + in_worktree(git_dir), hint="git ckpt doctor --fix")


def _around(repo: Repository) -> Iterator[tuple[str, Journal]]:
    """What the journals of repositories around this one hold of those inside, and where they are.
    One that cannot be read stops who works there, not here."""
    from ckpt.engine.nested import repository_around

    todo = present_worktrees(repo)
    for worktree in todo:  # which grows meanwhile
        around = repository_around(repo, worktree)
        if around is None:
            continue
        with around:
            if around.worktree not in todo:  # `core.worktree` can lead back to where we were
                todo.append(around.worktree)
            if journal_exists(around.private_dir):
                yield from ((around.worktree, one) for one in _inside(around.private_dir))


def _inside(private_dir: str) -> Iterator[Journal]:
    from ckpt.engine import journal

    try:
        todo = [journal.read(private_dir)]
        for record in todo:
            within = [journal.load(nested.document) for nested in record.nested]
            yield from within
            todo += within
    except CkptError:
        return
