# SPDX-License-Identifier: MIT
"""Are the trees and paths of somebody else's checkpoint such as git would put into a worktree?

Stricter than reading them is: also names that only other file systems take for `.git` are
refused, modes that git does not write, entries out of order, and what unfolds into more files
or levels than a project has. Each tree is opened once, however often it is repeated, and no
stack grows with their depth.
"""

from __future__ import annotations

from ckpt.errors import CkptError
from ckpt.paths import to_str
from ckpt.patterns import lazy_pattern
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.trees import (
    EXECUTABLE,
    FOLDER,
    GITLINK,
    REGULAR,
    SYMLINK,
    UnsafeTree,
    check_name,
    is_null,
    read_tree,
)
from ckpt.worktree.git_names import folded, is_gitmodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Children = list[tuple[bytes, int, ObjectID]]

_MODES = frozenset((REGULAR, EXECUTABLE, SYMLINK, GITLINK, FOLDER))
_MOST_FILES = 5_000_000
_MOST_LEVELS = 500
_LONGEST_NAME = 4096
_OF_NTFS = lazy_pattern(r"(?s)(?:\.git|git~[0-9]+)[. ]*(?::.*)?")


class Unsafe(Exception):
    """Why something of another's cannot be used."""


class TreeCheck:
    """`blobs` are the contents of all trees that were looked at."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._folders: dict[ObjectID, list[ObjectID]] = {}
        self._files: dict[ObjectID, int] = {}
        self._sums: dict[ObjectID, tuple[int, int]] = {}  # files and levels below each tree
        self.blobs: set[ObjectID] = set()

    def check(self, top: ObjectID) -> None:
        todo = [top]
        while todo:
            tree = todo.pop()
            if tree not in self._folders:
                children = self._open(tree)
                folders = [child for _, mode, child in children if mode == FOLDER]
                self._folders[tree] = folders
                self._files[tree] = len(children) - len(folders)
                todo += folders
        self._measure(top)

    def _measure(self, top: ObjectID) -> None:
        """Sum up from the innermost trees, each once."""
        todo = [top]
        while todo:
            tree = todo[-1]
            unknown = [child for child in self._folders[tree] if child not in self._sums]
            if unknown:
                todo += unknown
                continue
            self._sums[todo.pop()] = self._sum(tree)

    def _sum(self, tree: ObjectID) -> tuple[int, int]:
        below = [self._sums[child] for child in self._folders[tree]]
        files = self._files[tree] + sum(files for files, _ in below)
        levels = 1 + max((levels for _, levels in below), default=0)
        if files > _MOST_FILES:
            raise Unsafe("it unfolds into millions of files")
        if levels > _MOST_LEVELS:
            raise Unsafe("its folders are too deep")
        return max(files, 1), levels  # an empty folder counts, too

    def _open(self, tree: ObjectID) -> Children:
        try:
            children = read_tree(self._objects, tree)
        except CkptError as error:
            raise Unsafe(error.message) from None
        names = [name for name, _, _ in children]
        if len({*names}) < len(names):
            raise Unsafe("a tree has two entries of one name")
        keys = [name + b"/" * (mode == FOLDER) for name, mode, _ in children]
        if keys != sorted(keys):
            raise Unsafe("the entries of a tree are not in order")
        for name, mode, child in children:
            check_entry(name, mode)
            if is_null(child):
                raise Unsafe(f"'{shown(name)}' names no object")
            if mode not in (FOLDER, GITLINK):
                self.blobs.add(child)
        return children


def check_blobs(objects: ObjectStore, blobs: Iterable[ObjectID]) -> None:
    """Refuse a content that is not here, or is something else."""
    for blob in blobs:
        if objects.kind(blob) != b"blob":
            raise Unsafe(f"content {blob.decode()} is not there")


def check_entry(name: bytes, mode: int) -> None:
    """Refuse what git would not have in a worktree or an index."""
    if mode not in _MODES:
        raise Unsafe(f"'{shown(name)}' has the unknown mode {mode:o}")
    _check_name(name)
    if mode not in (REGULAR, EXECUTABLE) and is_gitmodules(name):
        raise Unsafe(f"'{shown(name)}' would be '.gitmodules' and is no file")


def check_path(path: bytes) -> None:
    """Refuse a path that no tree could have had: it came in another way."""
    names = path.split(b"/")
    if len(names) > _MOST_LEVELS:
        raise Unsafe("its folders are too deep")
    try:
        for name in names:
            check_name(name)
            _check_name(name)
    except UnsafeTree as error:
        raise Unsafe(error.message) from None


def _check_name(name: bytes) -> None:
    if len(name) > _LONGEST_NAME or is_git_dir(name):
        raise Unsafe(f"'{shown(name)}' is no name for a file")


def is_git_dir(name: bytes) -> bool:
    """Whether some file system would take the name for `.git`, or for a way to it."""
    text = folded(name)
    parts = text.split("\\")
    return text == ".git" or ".." in parts or any(map(_OF_NTFS.fullmatch, parts))


def shown(text: bytes) -> str:
    return to_str(text).encode("utf-8", "backslashreplace").decode("utf-8")[:80]
