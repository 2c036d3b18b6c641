# SPDX-License-Identifier: MIT
"""Check foreign checkpoints: from `git fetch`, a bundle, or a ref written by hand.

A checkpoint is foreign if it is not in the record of those made here. Its trees, paths and modes
are checked before a rollback or an import. `checkpoint` cuts permission bits and drops the
operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from ckpt.engine.checkpoint import LARGEST_RULES, Recorded
from ckpt.errors import CkptError, Refused
from ckpt.git.index import IndexEntry
from ckpt.git.rules import is_gitmodules, is_like_dot_git
from ckpt.git.trees import (
    EXECUTABLE,
    FOLDER,
    GITLINK,
    REGULAR,
    SYMLINK,
    UnsafeTree,
    check_name,
    walk,
)
from ckpt.models import Scope
from ckpt.paths import folders_of, to_bytes, to_str

_MODES = frozenset((REGULAR, EXECUTABLE, SYMLINK, GITLINK, FOLDER))
_LONGEST_PATH = 4096  # bytes, as for git


@lru_cache(1 << 16)
def _check_entry(name: bytes, mode: int) -> None:
    """Refuse a name or mode that git does not allow in a tree."""
    check_name(name)
    shown = to_str(name)[:80]
    if mode not in _MODES:
        raise UnsafeTree(f"'{shown}' has the unknown mode {mode:o}")
    if is_like_dot_git(name):
        raise UnsafeTree(f"'{shown}' is no name for a file")
    if mode not in (REGULAR, EXECUTABLE) and is_gitmodules(name):
        raise UnsafeTree(f"'{shown}' would be '.gitmodules' and is no file")


def check(target: Recorded) -> None:
    """Refuse a foreign checkpoint with unsafe or too many paths."""
    try:
        _ = target.checkpoint.details  # used by the report
        _check_index(target.index.entries)
        for path, mode in _paths(target):
            if len(path) > _LONGEST_PATH:
                raise UnsafeTree(f"a path in it has {len(path):,} bytes")
            *folders, last = path.split(b"/")
            _check_entry(last, mode)
            for name in folders:
                _check_entry(name, FOLDER)
        if target.checkpoint.scope is Scope.FULL:
            for text in target.manifest.excludes.values():  # matching millions of rules takes hours
                if len(text) > LARGEST_RULES:
                    raise UnsafeTree(f"ignore rules of {len(text):,} bytes")
    except CkptError as error:
        raise Refused(
            f"checkpoint '{target.checkpoint.id}' was not made here and is not safe: {error}",
            hint="nothing was touched; 'git ckpt list' shows the others",
        ) from None


def _check_index(entries: Sequence[IndexEntry]) -> None:
    """Refuse conflicting paths, which are possible with intent-to-add entries."""
    staged = [entry.path for entry in entries if not entry.stage]
    if len({*staged}) < len(staged) or not {*staged}.isdisjoint(folders_of(staged)):
        raise UnsafeTree("a path is staged twice, or as a file and as a folder")
    if any(entry.mode == FOLDER for entry in entries):
        raise UnsafeTree("a folder is staged as a file")


def _paths(target: Recorded) -> Iterator[tuple[bytes, int]]:
    for tree in (target.tree, target.state_tree):
        for path, entry in walk(target.objects, tree):  # raises above the size limit
            if not entry.id.strip(b"0"):
                raise UnsafeTree(f"'{to_str(path)[:80]}' names no object")
            yield path, entry.mode
    yield from ((path, REGULAR) for path in target.state_files)
    if target.checkpoint.scope is Scope.FULL:
        manifest = target.manifest
        yield from ((path, FOLDER) for path in manifest.empty_folders)
        yield from ((to_bytes(state.path), FOLDER) for state in manifest.nested)
        yield from ((e.path, e.mode) for e in target.index.entries if e.intent_to_add)
