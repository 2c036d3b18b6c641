# SPDX-License-Identifier: MIT
"""Hold the bytes of files that are about to be replaced: soon there is nothing else left of them.

A checkpoint relies on a driver for files as HEAD has them. That it gave their bytes once does
not mean that it will again. Nor is what Git LFS has on this disk safe: `git lfs prune` does not
see checkpoints.

And it relies on stat data, by which a file is not read again, and on objects that are there
already. A program that writes through a mapping need not show in the first, and a disk may have
damaged the second. So the few files that a rollback is about to change are read, whatever is
known of them, and so are the objects that hold them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ckpt.engine.apply import keep, look
from ckpt.engine.changes import Action, FileState
from ckpt.engine.contents import VanishedFile, add_stable
from ckpt.engine.conversions import Converted, Smudger, Unrestorable
from ckpt.engine.plan import Plan
from ckpt.engine.present import Present
from ckpt.models import SkipReason
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.repository import Repository
from ckpt.store.streams import UnreadableFile
from ckpt.store.trees import Entries, lookup
from ckpt.values import replace
from ckpt.worktree.write import UnsafePath, Worktree


def hold_changing(repo: Repository, present: Present, plan: Plan) -> None:
    """Have the safety checkpoint hold what the plan changes; what cannot be read is left."""
    unreadable = hold(repo, present, [action.path for action in plan.actions])
    plan.leave(dict.fromkeys(unreadable, str(SkipReason.UNREADABLE)))
    plan.actions = [_as_held(action, present) for action in plan.actions]


def prove_changing(
    repo: Repository, worktree: Worktree, smudger: Smudger, present: Present, plan: Plan
) -> None:
    """Read what the plan changes, and have the present hold it as it is; what cannot be read is
    left alone. The object store is wary meanwhile."""
    unreadable = set()
    for number, action in enumerate(plan.actions):
        try:
            found = _proved(repo, worktree, smudger, present, action)
        except (OSError, UnsafePath):
            unreadable.add(action.path)
            continue
        plan.actions[number] = replace(action, before=found)
    plan.leave(dict.fromkeys(unreadable, str(SkipReason.UNREADABLE)))
    _prove_trees(repo, present, plan)


def _proved(
    repo: Repository, worktree: Worktree, smudger: Smudger, present: Present, action: Action
) -> FileState | None:
    """What a path holds, and the safety checkpoint will hold."""
    objects, path, before = repo.objects, action.path, action.before
    status = worktree.lstat(path) if before is not None else None
    found = None if status is None else look(objects, worktree, path, status)
    if before is None or status is None or found is None:
        return before  # it is looked at again when it is its turn
    if found == before and _is_given_by(smudger, before):
        return before
    entry = keep(objects, worktree, path, found)
    if entry.id != found.entry.id:
        raise UnreadableFile.changing()
    if found == before and path in present.converted:
        present.converted[path] = Converted(entry.id)
        return before if before.origin is None else _as_stored(before)
    present.put(path, entry, status)
    return found


def _is_given_by(smudger: Smudger, state: FileState) -> bool:
    """Whether the object store still gives what it should."""
    try:
        smudger.check(state)
    except (MissingObject, Unrestorable):
        return False
    return True


def _prove_trees(repo: Repository, present: Present, plan: Plan) -> None:
    """Have all trees written again if one on the way to a file is damaged."""
    tree = present.tree(repo.objects)
    read: dict[ObjectID, Entries] = {}  # each once: a folder may have thousands of the files
    try:
        for action in plan.actions:
            lookup(repo.objects, tree, action.path, read)
    except MissingObject:
        path, entry = next(iter(present.entries.items()))
        present.put(path, entry)


def _as_stored(state: FileState) -> FileState:
    assert state.origin is not None
    return replace(state, origin=replace(state.origin, in_lfs=False))


def _as_held(action: Action, present: Present) -> Action:
    before, held = action.before, present.converted.get(action.path)
    if before is None or before.origin is None or held is None or held.in_lfs:
        return action
    return replace(action, before=_as_stored(before))


def hold(repo: Repository, present: Present, paths: Iterable[bytes]) -> set[bytes]:
    """Have the present keep these files as they are on disk, where only Git LFS has them.

    Returns those that cannot be read. One that has changed since it was captured is left to
    whoever compares it with the present before it is replaced.
    """
    driven = [path for path in paths if _is_in_lfs(present, path)]
    unreadable = set()
    for path in driven:
        captured = present.converted[path].raw
        try:
            raw, _ = add_stable(repo.objects, os.path.join(os.fsencode(repo.worktree), path))
        except VanishedFile:
            continue
        except UnreadableFile:
            unreadable.add(path)
            continue
        if raw == captured:
            present.converted[path] = Converted(raw)
    return unreadable


def _is_in_lfs(present: Present, path: bytes) -> bool:
    converted = present.converted.get(path)
    return converted is not None and converted.in_lfs
