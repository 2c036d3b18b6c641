# SPDX-License-Identifier: MIT
"""State files: named by whoever saves, kept whatever the rules say, and put back.

A checkpoint holds the bytes of each as they were on disk, apart from the worktree's tree: to
save one that is ignored makes neither a diff nor a later checkpoint see it. In a rollback
they are files like all others: the safety checkpoint holds what is there now, the journal
says what becomes of it. One that was not there at the checkpoint is recorded as absent.

Those of somebody else's checkpoint are no more than its other files: what is ignored here, or
left out, stays, whoever calls it a state file.
"""

from __future__ import annotations

import os
import stat

from ckpt.engine.apply import keep, look
from ckpt.engine.changes import Action, FileState
from ckpt.engine.excludes import inside
from ckpt.engine.nested import SUBMODULE
from ckpt.engine.plan import GIT_DIR, Plan, why_unheld
from ckpt.engine.present import Present
from ckpt.engine.recorded import Recorded, file_state
from ckpt.errors import CkptError, UsageError
from ckpt.paths import folders_above, is_within, to_str
from ckpt.store.agent_state import StateFile
from ckpt.store.objects import ObjectStore
from ckpt.store.repository import Repository
from ckpt.store.trees import GITLINK, lookup
from ckpt.worktree.reach import is_repository
from ckpt.worktree.write import UnsafePath, Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def check_places(repo: Repository, paths: Iterable[bytes]) -> None:
    """Refuse a path that is none of the worktree's own files."""
    for path in paths:
        if not path:
            raise UsageError("the worktree itself is no state file", hint="name a file in it")
        place = unfit_place(repo, path)
        if place is not None:
            raise UsageError(
                f"state file '{to_str(path)}' is {place}", hint="name a file of this worktree"
            )


def unfit_place(repo: Repository, path: bytes) -> str | None:
    """Why no state file can be at a path, if that is so."""
    if is_within(path, tuple(inside(repo.worktree, repo.git_dir, repo.common_dir))):
        return GIT_DIR
    top = os.fsencode(repo.worktree)
    if any(is_repository(os.path.join(top, folder)) for folder in folders_above(path)):
        return "inside another repository"
    return None


def read_files(
    repo: Repository, objects: ObjectStore, paths: Iterable[bytes]
) -> dict[bytes, StateFile]:
    """Add what these files hold now to the object store."""
    with Worktree(os.fsencode(repo.worktree), repo.git_dirs) as worktree:
        return {path: _read(objects, worktree, path) for path in sorted(paths)}


def _read(objects: ObjectStore, worktree: Worktree, path: bytes) -> StateFile:
    try:
        around = worktree.in_the_way(path)
        status = worktree.lstat(path)
        if around is not None:
            raise _unreadable(path, f"'{to_str(around)}' is no folder")
        if status is None:
            return StateFile(None, 0)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            raise _unreadable(path, "it is no file")
        state = look(objects, worktree, path, status)
        assert state is not None, "folders and special files were told apart"
        return StateFile(keep(objects, worktree, path, state), state.permissions)
    except (OSError, UnsafePath) as error:
        reason = error.message if isinstance(error, UnsafePath) else (error.strerror or "").lower()
        raise _unreadable(path, reason or "it changes all the time") from None


def _unreadable(path: bytes, reason: str) -> CkptError:
    return CkptError(
        f"cannot read state file '{to_str(path)}': {reason}", hint="name a file that can be read"
    )


def existing(target: Recorded, worktree: Worktree, limits: tuple[bytes, ...]) -> Iterator[bytes]:
    """The state files of a checkpoint in whose places something is now."""
    for path in _within(target, limits):
        if _is_file(worktree, path):
            yield path


def _is_file(worktree: Worktree, path: bytes) -> bool:
    try:
        status = worktree.lstat(path)
    except PermissionError:
        return False
    return status is not None and not stat.S_ISDIR(status.st_mode)


def _within(target: Recorded, limits: tuple[bytes, ...]) -> Iterator[bytes]:
    for path in target.state_files:
        if not limits or is_within(path, limits):
            yield path


def extend(
    plan: Plan,
    present: Present,
    target: Recorded,
    worktree: Worktree,
    limits: tuple[bytes, ...],
) -> None:
    """Plan what becomes of state files that are not in the target's tree: what the present
    holds may go, what it does not is left."""
    for path in _within(target, limits):
        if lookup(target.objects, target.tree, path) is not None:
            continue  # it is planned for like any other
        place = unfit_place(target.repo, path)
        entry = present.entry(path)
        if place is not None or (entry is not None and entry.mode == GITLINK):
            plan.kept[path] = place or SUBMODULE
            continue
        here = file_state(path, entry, present.modes, present.converted.get(path))
        there = _state(target.state_files[path])
        plan.kept.pop(path, None)
        plan.actions = [action for action in plan.actions if action.path != path]
        if here != there:
            plan.actions.append(Action(path, here, there))
            plan.differing.add(path)
        elif there is None and _is_file(worktree, path):
            plan.obstacles.add(path)
            plan.blocked[path] = why_unheld(path, present, worktree)


def _state(file: StateFile) -> FileState | None:
    return None if file.entry is None else FileState(file.entry, file.permissions)
