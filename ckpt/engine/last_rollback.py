# SPDX-License-Identifier: MIT
"""The last rollback that finished in a worktree: remembered, and taken back.

`finish` is the end of every rollback; `options_to_undo` makes of what it remembered the
rollback that undoes it. What `undo` needs to know is decided here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Container

from ckpt.engine import journal
from ckpt.engine.apply import Applied
from ckpt.engine.catalog import Catalog
from ckpt.engine.head import branches_to_return
from ckpt.engine.journal import Journal, LastRollback
from ckpt.engine.prepare import RollbackOptions
from ckpt.models import Checkpoint
from ckpt.store import made_here
from ckpt.store.objects import ObjectID
from ckpt.store.repository import Repository
from ckpt.store.trees import FilesOf
from ckpt.values import replace


def finish(repo: Repository, record: Journal, done: Applied) -> None:
    """The rollback is complete: remember it for `undo`, and forget the journal."""
    put = [a for a in record.actions if a.after is not None and a.path not in done.blocked]
    last = LastRollback(
        record.target,
        record.safety,
        record.paths,
        index=record.asked_index,
        head=record.asked_head,
        overwrite=record.asked_overwrite,
        created=tuple(action.path for action in put if action.before is None),
        replaced=tuple(action.path for action in put if action.before is not None),
        move=record.head,
        target_commit=record.target_commit,
        safety_commit=record.safety_commit,
        worktree=record.worktree,
    )
    journal.remember(repo.private_dir, last)
    journal.remove(repo.private_dir)


def find_same(
    repo: Repository, catalog: Catalog, checkpoint_id: str, commit: str | None, *, trust: bool
) -> Checkpoint:
    """The checkpoint that was noted with the commit that it had, unless another's is there by now
    and is not trusted."""
    found = catalog.get(checkpoint_id)
    same = made_here.is_same(repo.common_dir, found.id, found.commit, commit)
    if not same and not trust:
        from ckpt.engine.way_out import another  # for a refusal that few see

        raise another(repo, found, commit)
    return found


def options_to_undo(
    repo: Repository, catalog: Catalog, last: LastRollback, options: RollbackOptions
) -> RollbackOptions:
    return replace(
        options,
        paths=last.paths,
        head=last.head,
        index=last.index,
        overwrite_ignored=last.overwrite,
        consented=_brought(repo, catalog, last),
        created=frozenset(last.created),
        replaced=frozenset(last.replaced),
        returning=branches_to_return(last.move),
        undoing=True,
        known=last.safety_commit,
    )


def _brought(repo: Repository, catalog: Catalog, last: LastRollback) -> Container[bytes]:
    """What a rollback may have brought: an undo takes that away without asking, unless another's
    checkpoint tells what that is, or what is there instead."""
    if catalog.commit_of(last.target) is None:
        return frozenset()
    target, safety = catalog.get(last.target), catalog.get(last.safety)
    is_own = safety.commit == last.safety_commit or not safety.foreign
    same = made_here.is_same(repo.common_dir, target.id, target.commit, last.target_commit)
    if not is_own or not same:
        return frozenset()
    return FilesOf(repo.objects, ObjectID(target.tree.encode()))
