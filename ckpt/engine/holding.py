# SPDX-License-Identifier: MIT
"""Hold the bytes of files that are about to be replaced, if only a filter driver gives them.

A checkpoint relies on a driver for files as HEAD has them. That it gave their bytes once does
not mean that it will again, and after a rollback there is nothing else left of them. Nor is
what Git LFS has on this disk safe: `git lfs prune` does not see checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ckpt.engine.changes import Action
from ckpt.engine.contents import VanishedFile, add_stable
from ckpt.engine.origins import Converted, DriverRecipe
from ckpt.engine.plan import Plan
from ckpt.engine.present import Present
from ckpt.models import SkipReason
from ckpt.store.repository import Repository
from ckpt.store.streams import UnreadableFile
from ckpt.values import replace


def hold_changing(repo: Repository, present: Present, plan: Plan) -> None:
    """Have the safety checkpoint hold what the plan changes; what cannot be read is left."""
    unreadable = hold(repo, present, [action.path for action in plan.actions])
    plan.leave(dict.fromkeys(unreadable, str(SkipReason.UNREADABLE)))
    plan.actions = [_as_held(action, present) for action in plan.actions]


def _as_held(action: Action, present: Present) -> Action:
    before, held = action.before, present.converted.get(action.path)
    if before is None or before.origin is None or held is None:
        return action
    origin = replace(before.origin, recipe=held.recipe)
    return replace(action, before=replace(before, origin=origin))


def hold(repo: Repository, present: Present, paths: Iterable[bytes]) -> set[bytes]:
    """Have the present keep these files as they are on disk, where a driver would be needed.

    Returns those that cannot be read. One that has changed since it was captured is left to
    whoever compares it with the present before it is replaced.
    """
    driven = [path for path in paths if _needs_driver(present, path)]
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
            present.converted[path] = Converted(raw, "")
    return unreadable


def _needs_driver(present: Present, path: bytes) -> bool:
    converted = present.converted.get(path)
    return converted is not None and DriverRecipe.parse(converted.recipe) is not None
