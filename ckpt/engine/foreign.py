# SPDX-License-Identifier: MIT
"""Checkpoints that others made: by `git fetch`, from a bundle, or with a ref written by hand.

Foreign is what the record of checkpoints made here does not name, whatever it says of itself.
Before a rollback or an import relies on one, its trees, paths and modes are checked here.
Permission bits are cut and its operation left out where it is opened (`recorded.opened`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ckpt.engine.recorded import LARGEST_RULES, Recorded
from ckpt.errors import CkptError, Refused
from ckpt.git.formats import ObjectID
from ckpt.git.index import IndexEntry
from ckpt.git.objects import ObjectStore
from ckpt.git.record import read_commit
from ckpt.git.refs import is_branch
from ckpt.git.repository import Repository
from ckpt.git.rules import folded, is_gitmodules
from ckpt.git.trees import (
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
from ckpt.models import Checkpoint, Scope
from ckpt.paths import to_bytes, to_str

_MODES = frozenset((REGULAR, EXECUTABLE, SYMLINK, GITLINK, FOLDER))
_MOST_FILES = 5_000_000
_MOST_LEVELS = 500
_LONGEST_NAME = 4096
_OF_NTFS = re.compile(r"(?s)(?:\.git|git~[0-9]+)[. ]*(?::.*)?")
_DAMAGE = (AttributeError, KeyError, TypeError, ValueError)


class Unsafe(Exception):
    """Why a foreign object cannot be used."""


class TreeCheck:
    """Walks trees, each once; `blobs` are the contents that they name."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._sums: dict[ObjectID, tuple[int, int]] = {}  # files and levels below each tree
        self.blobs: set[ObjectID] = set()

    def check(self, top: ObjectID) -> None:
        """Raise `Unsafe` if git would not have written a tree below `top`, or if it is huge."""
        folders: dict[ObjectID, list[ObjectID]] = {}
        files: dict[ObjectID, int] = {}
        todo = [top]
        while todo:  # a tree is summed up when those below it are
            tree = todo[-1]
            if tree in self._sums:
                todo.pop()
                continue
            if tree not in folders:
                children = self._open(tree)
                folders[tree] = [child for _, mode, child in children if mode == FOLDER]
                files[tree] = len(children) - len(folders[tree])
            unknown = [child for child in folders[tree] if child not in self._sums]
            if unknown:
                todo += unknown
                if len(todo) > _MOST_FILES:
                    raise Unsafe("it unfolds into millions of files")
                continue
            below = [self._sums[child] for child in folders[tree]]
            total = files[tree] + sum(number for number, _ in below)
            levels = 1 + max((levels for _, levels in below), default=0)
            if total > _MOST_FILES:
                raise Unsafe("it unfolds into millions of files")
            if levels > _MOST_LEVELS:
                raise Unsafe("its folders are too deep")
            self._sums[todo.pop()] = max(total, 1), levels

    def _open(self, tree: ObjectID) -> list[tuple[bytes, int, ObjectID]]:
        try:
            children = list(read_tree(self._objects, tree))
        except CkptError as error:
            raise Unsafe(error.message) from None
        if len({name for name, _, _ in children}) < len(children):
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


def check_target(target: Recorded, *, head: bool) -> None:
    """Refuse to roll back to a foreign checkpoint that is not safe."""
    try:
        _check_parts(target)
        branch = target.head.branch
        if head and branch is not None and not is_branch(branch):
            raise Unsafe(f"HEAD would be at '{shown(branch)}', which is no branch")
    except Unsafe as error:
        raise Refused(
            f"checkpoint '{target.checkpoint.id}' was not made here and is not safe: {error}",
            hint=f"nothing was touched; 'git ckpt show {target.checkpoint.id}' tells more",
        ) from None


def check(repo: Repository, checkpoint: Checkpoint) -> None:
    """Refuse to import a checkpoint that is not whole, or not safe."""
    try:
        _check_import(repo, checkpoint)
    except Unsafe as error:
        raise Refused(
            f"checkpoint '{checkpoint.id}' is not imported: {error}", hint="nothing was imported"
        ) from None


def _check_import(repo: Repository, checkpoint: Checkpoint) -> None:
    from ckpt.engine.verify import fault_behind

    objects = repo.objects
    commits = [ObjectID(checkpoint.head_commit.encode())] if checkpoint.head_commit else []
    commits += read_commit(objects, ObjectID(checkpoint.state_commit.encode())).parents
    for commit in commits:
        if objects.kind(commit) != b"commit":
            raise Unsafe(f"commit {commit.decode()} is not here; fetch it first")
        fault = fault_behind(repo, commit)
        if fault is not None:  # with a ref to it no gc would come to an end
            raise Unsafe(f"commit {commit.decode()} is not whole: {fault}")
    for blob in _check_parts(Recorded(repo, checkpoint, is_foreign=True)):
        if objects.kind(blob) != b"blob":
            raise Unsafe(f"content {blob.decode()} is not there")
    if checkpoint.operation is not None:
        raise Unsafe(f"a {checkpoint.operation} was under way, whose files may name commands")


def _check_parts(target: Recorded) -> set[ObjectID]:
    """Check all that is used of a foreign checkpoint; returns the contents that its trees name."""
    trees = TreeCheck(target.objects)
    try:
        trees.check(target.tree)
        trees.check(target.state_tree)
        _ = target.checkpoint.details  # which the report reads
        for path in _paths_outside_trees(target):
            check_path(path)
        if target.checkpoint.scope is Scope.FULL:
            for entry in _intended(target):
                check_entry(entry.path.rpartition(b"/")[2], entry.mode)
            for text in target.manifest.excludes.values():  # millions of rules would take hours
                if len(text) > LARGEST_RULES:
                    raise Unsafe(f"ignore rules of {len(text):,} bytes")
    except CkptError as error:
        raise Unsafe(error.message) from None
    except _DAMAGE as error:
        raise Unsafe(f"it is damaged ({error!r})") from None
    return trees.blobs


def _paths_outside_trees(target: Recorded) -> Iterator[bytes]:
    """The paths to which something is written and that no tree names."""
    yield from target.state_files
    if target.checkpoint.scope is Scope.FULL:
        yield from target.manifest.empty_folders
        yield from (to_bytes(state.path) for state in target.manifest.nested)
        yield from (entry.path for entry in _intended(target))


def _intended(target: Recorded) -> Iterable[IndexEntry]:
    return (entry for entry in target.index.entries if entry.intent_to_add)
