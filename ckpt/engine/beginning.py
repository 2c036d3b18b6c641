# SPDX-License-Identifier: MIT
"""The beginning of a rollback: what it will do is written down before the first file changes.

From then on it can be finished and taken back, whatever happens, because the two checkpoints
that this needs are there and whoever drops any looks at the journal first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from ckpt.engine import journal
from ckpt.engine.catalog import still_holds
from ckpt.engine.family import naming
from ckpt.engine.journal import Journal, NestedJournal
from ckpt.engine.prepare import Prepared, RollbackOptions
from ckpt.engine.snapshot import LOCK_TIMEOUT
from ckpt.engine.worktree_place import place_of
from ckpt.errors import Refused
from ckpt.models import Checkpoint
from ckpt.store.kernel_lock import prune_lock
from ckpt.store.repository import Repository
from ckpt.values import value_class


def journal_of(
    repo: Repository,
    target: Checkpoint,
    safety: Checkpoint,
    prepared: Prepared,
    options: RollbackOptions,
    family: str,
    nested: tuple[NestedJournal, ...],
    *,
    recurses: bool,
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
        asked_recurse=recurses,
        asked_trust=options.trust,
        family=family,
        nested=nested,
        target_commit=target.commit,
        safety_commit=safety.commit,
        worktree=place_of(repo),
    )


@value_class
class Beginning:
    """What one repository needs to begin; `place` is its path from the top of the outermost."""

    repo: Repository
    record: Journal
    target: Checkpoint
    safety: Checkpoint
    place: str


def begin(members: Sequence[Beginning]) -> None:
    """Write the journals, the outermost first, unless a checkpoint that one needs has gone.

    Whoever drops checkpoints has done so and is seen, or comes later and sees the journal: none
    is written before all are checked, and no file changes before all are written.
    """
    with ExitStack() as stack:
        for common_dir, place in sorted({m.repo.common_dir: m.place for m in members}.items()):
            with naming(place):
                stack.enter_context(prune_lock(common_dir, timeout=LOCK_TIMEOUT))
        for member in members:
            with naming(member.place):
                _check_held(member.repo, member.target)
                _check_held(member.repo, member.safety)
        for member in members:
            journal.write(member.repo.private_dir, member.record)


def _check_held(repo: Repository, needed: Checkpoint) -> None:
    """Refuse to begin what could be neither finished nor taken back."""
    if not still_holds(repo, needed.id, needed.tree.encode(), needed.state_commit.encode()):
        raise Refused(
            f"the rollback did not begin: checkpoint '{needed.id}' was dropped meanwhile",
            hint=f"nothing was touched; 'git ckpt restore-dropped {needed.id}' may bring it back",
        )
