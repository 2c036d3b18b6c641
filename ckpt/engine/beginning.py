# SPDX-License-Identifier: MIT
"""The beginning of a rollback: what it will do is written down before the first file changes.

From then on it can be finished and taken back, whatever happens, because the two checkpoints
that this needs are there and whoever drops any looks at the journal first.
"""

from __future__ import annotations

from ckpt.engine import journal
from ckpt.engine.catalog import still_holds
from ckpt.engine.journal import Journal
from ckpt.engine.prepare import Prepared, RollbackOptions
from ckpt.engine.snapshot import LOCK_TIMEOUT
from ckpt.engine.worktree_place import place_of
from ckpt.errors import Refused
from ckpt.models import Checkpoint
from ckpt.store.kernel_lock import prune_lock
from ckpt.store.repository import Repository


def journal_of(
    repo: Repository,
    target: Checkpoint,
    safety: Checkpoint,
    prepared: Prepared,
    options: RollbackOptions,
    name: str,
) -> Journal:
    plan = prepared.plan
    return Journal(
        target=target.id,
        safety=safety.id,
        paths=options.paths,
        actions=tuple(plan.actions),
        make_folders=tuple(plan.make_folders),
        remove_folders=tuple(plan.remove_folders),
        folders=plan.folders,
        index=prepared.changes_index,
        unstaged=prepared.unstaged,
        kept=plan.kept,
        blocked=plan.blocked,
        operation=prepared.changes_operation,
        head=prepared.move,
        asked_index=options.index,
        asked_head=options.head,
        asked_overwrite=options.overwrite_ignored,
        asked_trust=options.trust,
        family=name,
        target_commit=target.commit,
        safety_commit=safety.commit,
        worktree=place_of(repo),
    )


def begin(repo: Repository, record: Journal, target: Checkpoint, safety: Checkpoint) -> None:
    """Write the journal, unless a checkpoint that it needs has gone: whoever drops checkpoints
    has done so and is seen, or comes later and sees the journal."""
    with prune_lock(repo.common_dir, timeout=LOCK_TIMEOUT):
        _check_held(repo, target)
        _check_held(repo, safety)
        journal.write(repo.private_dir, record)


def _check_held(repo: Repository, needed: Checkpoint) -> None:
    """Refuse to begin what could be neither finished nor taken back."""
    if not still_holds(repo, needed.id, needed.tree.encode(), needed.state_commit.encode()):
        raise Refused(
            f"the rollback did not begin: checkpoint '{needed.id}' was dropped meanwhile",
            hint=f"nothing was touched; 'git ckpt restore-dropped {needed.id}' may bring it back",
        )
