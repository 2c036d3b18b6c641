# SPDX-License-Identifier: MIT
"""The repositories that a rollback with `--recurse` takes along.

Those of which the target names a checkpoint, each as it must be found: a repository of
its own at its path, that can be locked and written. What is missing is said together
with what to type, before anything is touched in any of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ckpt.engine.head import WITHOUT_HEAD
from ckpt.engine.nested import enter_nested, without_links
from ckpt.engine.plan import SUBMODULE
from ckpt.engine.present import Present
from ckpt.engine.recorded import Recorded
from ckpt.errors import CkptError, Refused, UsageError
from ckpt.models import GONE_REPOSITORY, NestedState, SkipReason
from ckpt.paths import folders_above, is_within, to_bytes, to_str
from ckpt.store.repository import Repository
from ckpt.store.staging import read_staged
from ckpt.store.trees import GITLINK, lookup
from ckpt.worktree.reach import is_nested_repository
from ckpt.worktree.write import Worktree

UNSAVED = "no checkpoint of it"
WITHOUT_RECURSE = "leave the repositories inside alone: repeat the command without --recurse"


class Family:
    """All repositories of one rollback: the name in their journals, and their git dirs."""

    def __init__(self, outermost: Repository) -> None:
        self.name = os.urandom(8).hex()
        self._git_dirs = {outermost.git_dir}

    def enter(self, repo: Repository) -> None:
        if repo.git_dir in self._git_dirs:
            raise Refused(
                f"its git dir '{repo.git_dir}' is that of another work tree here",
                hint=WITHOUT_RECURSE,
            )
        self._git_dirs.add(repo.git_dir)


def members(target: Recorded, limits: tuple[bytes, ...]) -> list[NestedState]:
    """The nested repositories of which the target has a checkpoint, as far as within limits."""
    states = target.manifest.nested
    if states and all(state.checkpoint is None for state in states):
        raise Refused(
            f"checkpoint '{target.checkpoint.id}' has no checkpoints of the repositories in it",
            hint=WITHOUT_RECURSE + "; 'git ckpt save --recurse' saves them too",
        )
    return [
        state
        for state in states
        if state.checkpoint is not None and (not limits or is_within(to_bytes(state.path), limits))
    ]


def gone(target: Recorded, worktree: Worktree, limits: tuple[bytes, ...]) -> dict[bytes, str]:
    """The repositories inside that were there at the checkpoint and are not any more: no rollback
    of the one around them brings them back. Each with what it was."""
    return {
        path: SUBMODULE if target.has_submodule(path) else GONE_REPOSITORY
        for path in target.repositories
        if (not limits or is_within(path, limits)) and not worktree.is_repository(path)
    }


def left_alone(target: Recorded, present: Present, limits: tuple[bytes, ...]) -> dict[bytes, str]:
    """The repositories inside that stay, and are known to be others than they were or new; also
    those that `--recurse` would take back and that may be. Each with what it is."""
    then = {state.path: state for state in target.manifest.nested}
    found = {}
    for here in present.nested:
        path, state = to_bytes(here.path), then.get(here.path)
        if limits and not is_within(path, limits):
            continue
        is_other = state is None or without_links([state]) != (here,)
        is_saved = state is not None and state.checkpoint is not None
        if is_other or (is_saved and here.dirty is not False):
            entry = present.entry(path)
            is_link = entry is not None and entry.mode == GITLINK
            found[path] = SUBMODULE if is_link else str(SkipReason.NESTED)
    return found


def check_limit(target: Recorded, limit: bytes) -> None:
    """A path inside a nested repository is for that repository to put back, unless this one
    tracked it."""
    nested = {to_bytes(state.path): state for state in target.manifest.nested}
    for folder in folders_above(limit):
        entry = lookup(target.objects, target.tree, folder)
        is_link = entry is not None and entry.mode == GITLINK
        if not is_link and (folder not in nested or _tracks(target, limit)):
            continue
        inside = _quoted(to_str(limit[len(folder) + 1 :]))
        checkpoint = nested[folder].checkpoint if folder in nested else None
        there = f"git -C {_quoted(to_str(folder))} ckpt"
        raise UsageError(
            f"'{to_str(limit)}' is inside the repository '{to_str(folder)}'",
            hint=f"{there} rollback {checkpoint} -- {inside}" if checkpoint else f"{there} list",
        )


def _tracks(target: Recorded, limit: bytes) -> bool:
    staged = (entry.path for entry in target.index.entries)
    return not target.is_foreign and any(is_within(path, (limit,)) for path in staged)


def check_there(around: Repository, path: bytes, target: Recorded) -> None:
    """Refuse if there is no repository at a path, with the way to get it back."""
    if not is_nested_repository(os.path.join(os.fsencode(around.worktree), path)):
        raise _absent(around, path, target)


@contextmanager
def entered(around: Repository, path: bytes) -> Iterator[Repository]:
    """The repository at a path, closed at the end."""
    with enter_nested(around, path) as repo:
        repo.check_writable()
        try:
            yield repo
        finally:
            repo.objects.discard()


def _absent(around: Repository, path: bytes, target: Recorded) -> Refused:
    name = to_str(path)
    entry = lookup(target.objects, target.tree, path)
    if entry is None or entry.mode != GITLINK:
        return Refused(f"the repository '{name}' is not there any more", hint=WITHOUT_RECURSE)
    update = f"git submodule update --init -- {_quoted(name)}"
    known = any(e.path == path and e.mode == GITLINK for e in read_staged(around).index.entries)
    first = "" if known else f"git ckpt rollback {target.checkpoint.id} && "
    return Refused(f"submodule '{name}' is not there", hint=first + update)


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Say of an error in which repository it is, by its path from the top."""
    try:
        yield
    except CkptError as error:
        if place and "repository" not in error.details:
            error.details["repository"] = place
            error.message = f"in '{place}': {error.message}"
            error.args = (error.message,)
            if error.hint == WITHOUT_HEAD:
                error.hint = WITHOUT_RECURSE
            elif error.hint is not None:
                error.hint = command(error.hint, place)
        raise


def command(text: str, place: str) -> str:
    """The same commands, to be typed for the repository at a place."""
    there = f"git -C {_quoted(place)} " if place else "git "
    for name in ("ckpt ", "submodule ", "update-ref ", "checkout "):
        text = text.replace("git " + name, there + name)
    return text


def _quoted(text: str) -> str:
    from shlex import quote  # for a hint that few see

    return quote(text)
