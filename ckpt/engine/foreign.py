# SPDX-License-Identifier: MIT
"""Checkpoints that others made, looked at before a ref names them.

All that a rollback would rely on is there and is what it is said to be: names that may reach
a file system, modes that git knows, no entry twice, no tree that unfolds into millions of
files, a manifest and a state that can be read. One that was taken amid a merge or rebase is
refused: its files name commands that git would run.
"""

from __future__ import annotations

from ckpt.engine.recorded import Recorded
from ckpt.errors import CkptError, Refused
from ckpt.models import Checkpoint, Scope
from ckpt.paths import to_str
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.record import read_commit
from ckpt.store.repository import Repository
from ckpt.store.trees import EXECUTABLE, FOLDER, GITLINK, REGULAR, SYMLINK, read_tree

_MODES = frozenset((REGULAR, EXECUTABLE, SYMLINK, GITLINK, FOLDER))
_MOST_FILES = 5_000_000
_MOST_LEVELS = 500
_LONGEST_NAME = 4096
# What NTFS and HFS+ take for `.git`.
_IGNORED_BY_HFS = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)


def check(repo: Repository, checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint that is not whole, or not safe."""
    try:
        _check(repo, checkpoint)
    except _Unsafe as error:
        raise Refused(
            f"checkpoint '{checkpoint.id}' is not imported: {error}", hint="nothing was imported"
        ) from None


class _Unsafe(Exception):
    pass


def _check(repo: Repository, checkpoint: Checkpoint) -> None:
    objects = repo.objects
    state = ObjectID(checkpoint.state_commit.encode())
    commits = [ObjectID(checkpoint.head_commit.encode())] if checkpoint.head_commit else []
    commits += read_commit(objects, state).parents
    for commit in commits:
        if objects.kind(commit) != b"commit":
            raise _Unsafe(f"commit {commit.decode()} is not here; fetch it first")
    trees = _Trees(objects)
    trees.check(ObjectID(checkpoint.tree.encode()))
    trees.check(read_commit(objects, state).tree)
    try:
        operation, _ = checkpoint.operation, checkpoint.state_files
        if checkpoint.scope is Scope.FULL:
            recorded = Recorded(repo, checkpoint)
            _, _, _ = recorded.manifest, recorded.index, recorded.operation
    except CkptError as error:
        raise _Unsafe(error.message) from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _Unsafe(f"it is damaged ({error!r})") from None
    if operation is not None:
        raise _Unsafe(f"a {operation} was under way, whose files may name commands")


class _Trees:
    """Looks at each tree once; `_files` is what is below those that were looked at."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._files: dict[ObjectID, int] = {}
        self._blobs: set[ObjectID] = set()

    def check(self, tree: ObjectID, level: int = 0) -> int:
        """How many files a tree unfolds into."""
        if tree in self._files:
            return self._files[tree]
        if level > _MOST_LEVELS:
            raise _Unsafe("its folders are too deep")
        try:
            entries = read_tree(self._objects, tree)
        except CkptError as error:
            raise _Unsafe(error.message) from None
        names = [name for name, _, _ in entries]
        if len({*names}) < len(names):
            raise _Unsafe("a tree has two entries of one name")
        count = 0
        for name, mode, child in entries:
            _check_entry(name, mode)
            count += self.check(child, level + 1) if mode == FOLDER else 1
            if mode not in (FOLDER, GITLINK):
                self._check_blob(child)
            if count > _MOST_FILES:
                raise _Unsafe("it unfolds into millions of files")
        self._files[tree] = count
        return count

    def _check_blob(self, blob: ObjectID) -> None:
        if blob not in self._blobs and self._objects.kind(blob) != b"blob":
            raise _Unsafe(f"content {blob.decode()} is not there")
        self._blobs.add(blob)


def _check_entry(name: bytes, mode: int) -> None:
    shown = to_str(name).encode("utf-8", "backslashreplace").decode("utf-8")[:80]
    if mode not in _MODES:
        raise _Unsafe(f"'{shown}' has the unknown mode {mode:o}")
    if len(name) > _LONGEST_NAME or _is_git_dir(name):
        raise _Unsafe(f"'{shown}' is no name for a file")


def _is_git_dir(name: bytes) -> bool:
    """Whether some file system would take the name for `.git`."""
    text = name.decode("utf-8", "replace").translate(_IGNORED_BY_HFS).lower()
    windows = text.replace("\\", "/").partition(":")[0].rstrip(". ")
    return text == ".git" or windows in (".git", "git~1") or "/.git" in windows
