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
        recurse=record.asked_recurse,
    )
    journal.remember(repo.private_dir, last)
    journal.remove(repo.private_dir)


def options_to_undo(
    repo: Repository, catalog: Catalog, last: LastRollback, options: RollbackOptions
) -> RollbackOptions:
    return replace(
        options,
        paths=last.paths,
        head=last.head,
        index=last.index,
        overwrite_ignored=last.overwrite,
        recurse=last.recurse,
        consented=_paths_of(repo, catalog, last.target),
        created=frozenset(last.created),
        replaced=frozenset(last.replaced),
        returning=branches_to_return(last.move),
        undoing=True,
    )


def _paths_of(repo: Repository, catalog: Catalog, checkpoint_id: str) -> Container[bytes]:
    """What a rollback may have brought: an undo takes that away without asking."""
    if catalog.commit_of(checkpoint_id) is None:
        return frozenset()
    return FilesOf(repo.objects, ObjectID(catalog.get(checkpoint_id).tree.encode()))
