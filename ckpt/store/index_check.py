# SPDX-License-Identifier: MIT
"""Is an index that a checkpoint holds one that git could have written?

Git takes its own index at its word: a path in it that leaves the worktree, one that is there
twice, or in a folder that is a file, would be believed by the next `git checkout` or `git
commit`. What comes from trees has been looked at name by name; what comes from JSON has not.
"""

from __future__ import annotations

from itertools import pairwise

from ckpt.store.trees import EXECUTABLE, GITLINK, REGULAR, SYMLINK, UnsafeTree, check_name, is_null

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ckpt.store.index import IndexEntry

_MODES = frozenset((REGULAR, EXECUTABLE, SYMLINK, GITLINK))


def check(entries: Sequence[IndexEntry]) -> None:
    """ValueError for what no git would write; the entries are in git's order."""
    before = None
    for entry in entries:
        if entry.mode not in _MODES:
            raise ValueError(f"an entry of mode {entry.mode:o}")
        if is_null(entry.id):
            raise ValueError("an entry that names no object")
        if entry.intent_to_add:
            check_path(entry.path)
        if before is not None and before.path == entry.path and before.stage == entry.stage:
            raise ValueError("a path is there twice")
        before = entry
    if any(entry.intent_to_add for entry in entries):  # else one tree has all that is staged
        _check_folders(entries)


def _check_folders(entries: Iterable[IndexEntry]) -> None:
    """ValueError for a staged path below another; a zero sorts what is below it right after it."""
    staged = sorted(entry.path.replace(b"/", b"\0") for entry in entries if entry.stage == 0)
    if any(after.startswith(before + b"\0") for before, after in pairwise(staged)):
        raise ValueError("a path is both a file and a folder")


def check_path(path: bytes) -> None:
    """ValueError for a path that is none of a worktree's."""
    try:
        for name in path.split(b"/"):
            check_name(name)
    except UnsafeTree as error:
        raise ValueError(error.message) from None
