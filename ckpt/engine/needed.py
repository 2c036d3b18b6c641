# SPDX-License-Identifier: MIT
"""The contents that a rollback needs: each is read before the first change, so that damage shows
while there is nothing to take back.

What a filter driver does not give any more is left as it is, and so is what the file system
would not take.
"""

from __future__ import annotations

from contextlib import contextmanager

from ckpt.engine.conversions import Smudger, Unrestorable
from ckpt.engine.restage import needed_blobs
from ckpt.errors import RollbackError
from ckpt.store.objects import MissingObject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ckpt.engine.changes import Action, FileState
    from ckpt.engine.plan import Plan
    from ckpt.store.index import Index
    from ckpt.store.objects import ObjectStore
    from ckpt.worktree.write import Worktree

LONGEST_LINK = 4095
IMPOSSIBLE_LINK = "no file system takes this link target"
IMPOSSIBLE_NAME = "the file system takes no name that long"


def check_contents(
    target: str, objects: ObjectStore, plan: Plan, worktree: Worktree, smudger: Smudger
) -> dict[bytes, str]:
    """Read what is to be written to files; returns what has to be left, with the reasons."""
    lost = {}
    with _naming(target, "'git ckpt list' shows other checkpoints"):
        for action in plan.writes:
            if not worktree.takes_names_of(action.path):
                lost[action.path] = IMPOSSIBLE_NAME
            elif action.after is not None and not _can_be_made(objects, action.after):
                lost[action.path] = IMPOSSIBLE_LINK
            elif action.after is not None and _changes_content(action):
                try:
                    smudger.check(action.after)
                except Unrestorable as error:
                    lost[action.path] = str(error)
    return lost


def check_staged(
    target: str, objects: ObjectStore, index: Index, present: Index, plan: Plan
) -> None:
    """Read what the index shall name, and neither does at present nor is written to files: git
    would commit what is damaged, and find out later."""
    afters = [action.after for action in plan.writes if _changes_content(action)]
    read = {after.entry.id for after in afters if after is not None and after.origin is None}
    with _naming(target, f"'git ckpt rollback --no-index {target}' leaves what is staged"):
        for blob in needed_blobs(index, present) - read:
            if objects.lacks(blob):
                raise MissingObject(blob, "missing staged object")
            if objects.has(blob):  # else it is at the remote of a partial clone
                objects.check(blob, b"blob")


def _changes_content(action: Action) -> bool:
    before, after = action.before, action.after
    return before is None or after is None or before.entry.id != after.entry.id


def _can_be_made(objects: ObjectStore, state: FileState) -> bool:
    """False for a symbolic link that only a tree can hold, not a disk."""
    if not state.is_link:
        return True
    size = objects.size(state.entry.id)
    if size is not None and size > LONGEST_LINK:  # need not be read
        return False
    target = objects.read(state.entry.id, b"blob")
    return 0 < len(target) <= LONGEST_LINK and b"\0" not in target


@contextmanager
def _naming(target: str, way: str) -> Iterator[None]:
    """Say of a missing object whose it is, and what can be done without it."""
    try:
        yield
    except MissingObject as error:
        raise RollbackError(
            f"checkpoint '{target}' is damaged: {error.message}",
            hint=f"nothing was touched; {way}",
            details=error.details,
        ) from error
