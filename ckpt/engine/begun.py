# SPDX-License-Identifier: MIT
"""What an interrupted rollback has left beside the files that it was changing.

Mostly that is a file which it had begun to write, or one that it had just replaced and that a
checkpoint holds: both go. But if somebody wrote to a file at the very moment at which its name
changed hands, and the machine died in the next, it is the only copy of that. It gets its name
back, so that recovery finds it there and saves it; or, if the name is in use, stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from ckpt.engine.apply import look
from ckpt.engine.changes import Action, FileState
from ckpt.engine.conversions import Smudger, Unrestorable
from ckpt.store import staging
from ckpt.store.objects import MissingObject
from ckpt.store.repository import Repository
from ckpt.worktree.unfinished import is_meant_for
from ckpt.worktree.write import Worktree


def clear(
    repo: Repository, worktree: Worktree, smudger: Smudger, actions: tuple[Action, ...]
) -> None:
    """Remove it, unless it was tracked and edited since, or is somebody's own."""
    left = list(_left(worktree, actions))
    entries = staging.read_staged(repo).index.entries if left else ()
    tracked = {entry.path: entry.id for entry in entries}
    for path, meant in left:
        with suppress(PermissionError):
            if path in tracked:
                state = _state(repo, worktree, path)
                is_ours = state is not None and state.entry.id == tracked[path]
            else:
                is_ours = _settle(repo, worktree, smudger, path, meant)
            if is_ours:
                worktree.discard(path)


def _left(
    worktree: Worktree, actions: tuple[Action, ...]
) -> Iterator[tuple[bytes, tuple[Action, ...]]]:
    """Each of these files, and what it may have been meant for."""
    for folder in {action.path.rpartition(b"/")[0] for action in actions}:
        with suppress(PermissionError):  # no save takes them, and files in there are listed
            for path in worktree.unfinished(folder):
                yield path, tuple(action for action in actions if _is_for(path, action))


def _is_for(unfinished: bytes, action: Action) -> bool:
    folder, _, name = action.path.rpartition(b"/")
    within, _, its_name = unfinished.rpartition(b"/")
    return folder == within and is_meant_for(its_name, name)


def _settle(
    repo: Repository,
    worktree: Worktree,
    smudger: Smudger,
    path: bytes,
    meant: tuple[Action, ...],
) -> bool:
    """Whether such a file may go; one that may not gets its name back, if that can be."""
    if not meant or _is_known(repo, worktree, smudger, path, meant):
        return True
    action = meant[0]
    if worktree.lstat(action.path) is not None:
        there = _state(repo, worktree, action.path)
        if there is None or there not in (action.before, action.after):
            return False
    with suppress(FileExistsError):
        worktree.put_back(path, action.path)
    return _is_known(repo, worktree, smudger, path, meant)


def _is_known(
    repo: Repository,
    worktree: Worktree,
    smudger: Smudger,
    path: bytes,
    meant: tuple[Action, ...],
) -> bool:
    """Whether it is gone, or is as one of the two states has it, or as far as it was written."""
    found = _state(repo, worktree, path)
    if found is None:
        return worktree.lstat(path) is None
    for action in meant:
        for state in (action.before, action.after):
            if state is None or found.is_link != state.is_link:
                continue
            if found.entry.id == state.entry.id:
                return True
            if not found.is_link and _begins(worktree, path, smudger.pieces(state)):
                return True
    return False


def _begins(worktree: Worktree, path: bytes, pieces: Iterable[bytes]) -> bool:
    """Whether a file has nothing but the beginning of a content."""
    with worktree.open(path) as file, suppress(MissingObject, Unrestorable):
        for piece in pieces:
            part = file.read(len(piece))
            if part != piece:
                return piece.startswith(part)
        return not file.read(1)
    return False


def _state(repo: Repository, worktree: Worktree, path: bytes) -> FileState | None:
    """What a path holds; None also if it is no file, or cannot be read."""
    try:
        status = worktree.lstat(path)
        return None if status is None else look(repo.objects, worktree, path, status)
    except OSError:
        return None
