# SPDX-License-Identifier: MIT
"""A checkpoint opened for use: its trees, manifest and index, read and checked.

Everything a rollback or a diff needs to know about a state in the past, loaded before
anything is touched. Damage shows here, as an error that names the checkpoint.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cached_property

from ckpt.engine import manifest
from ckpt.engine.changes import FileState, Origin
from ckpt.engine.conversions import Converted, RawFiles
from ckpt.engine.rules import Included, ignore_stack
from ckpt.errors import RollbackError
from ckpt.models import Checkpoint, SkipReason
from ckpt.paths import folders_above, folders_of, from_json, to_bytes, to_str
from ckpt.store import agent_state, made_here, operation_record, record, staging
from ckpt.store.index import Index
from ckpt.store.objects import MissingObject, ObjectID, ObjectStore
from ckpt.store.operation_record import OperationState
from ckpt.store.refs import Head
from ckpt.store.repository import Repository
from ckpt.store.trees import (
    EXECUTABLE,
    FOLDER,
    GITLINK,
    REGULAR,
    Entries,
    TreeEntry,
    diff_trees,
    lookup,
    read_limited,
    walk,
)
from ckpt.values import replace, value_class
from ckpt.worktree.ignore import IgnoreTree
from ckpt.worktree.modes import ANY_BITS, Bounds, Modes
from ckpt.worktree.reach import LARGEST_TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ckpt.store.agent_state import StateFile


LARGEST_RULES = 1 << 20  # of another's file of ignore rules


@value_class(slots=False)
class Recorded:
    """A checkpoint's state; of one that others made, permissions are kept within `bounds`."""

    repo: Repository
    checkpoint: Checkpoint
    is_foreign: bool = False
    bounds: Bounds = ANY_BITS

    @property
    def objects(self) -> ObjectStore:
        return self.repo.objects

    @property
    def tree(self) -> ObjectID:
        return ObjectID(self.checkpoint.tree.encode())

    @cached_property
    def manifest(self) -> manifest.Manifest:
        document = record.read_json(self.objects, self.checkpoint, record.MANIFEST)
        try:
            found = manifest.load(document)
            return replace(found, modes=found.modes.within(self.bounds))
        except ValueError as error:
            raise RollbackError(
                f"checkpoint '{self.checkpoint.id}': {error}", hint="git ckpt list"
            ) from None

    @cached_property
    def index(self) -> Index:
        with self._telling_damage():
            return staging.read_state(self.objects, self.state_tree)

    @cached_property
    def _index_flags(self) -> dict[str, Any]:
        with self._telling_damage():
            return staging.read_flags(self.objects, self.state_tree)

    @contextmanager
    def _telling_damage(self) -> Iterator[None]:
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RollbackError(
                f"checkpoint '{self.checkpoint.id}': damaged index flags ({error!r})",
                hint="git ckpt rollback --no-index leaves the index alone",
            ) from None

    @cached_property
    def raw_files(self) -> RawFiles:
        return RawFiles(self.objects, self.state_tree)

    def converted(self, path: bytes, entry: TreeEntry | None) -> Converted | None:
        """What the file was on disk, if that is not the blob of its entry."""
        if entry is None or entry.mode not in (REGULAR, EXECUTABLE):
            return None
        return self.raw_files.get(path)

    def entry_at(self, path: bytes) -> TreeEntry | None:
        """What its tree has at a path, which may be one of many in the same folder."""
        return lookup(self.objects, self.tree, path, self._trees)

    def file_at(self, path: bytes) -> FileState | None:
        """What is at a path on disk in this state."""
        entry = self.entry_at(path)
        if entry is None or entry.mode == FOLDER or path in self.absent:
            return None
        return file_state(path, entry, self.manifest.modes, self.converted(path, entry))

    @cached_property
    def operation(self) -> OperationState:
        return operation_record.read_state(self.objects, self.state_tree)

    @cached_property
    def state_files(self) -> dict[bytes, StateFile]:
        bounded = self.bounds.of_file
        try:
            files = agent_state.read_files(self.objects, self.state_tree)
            return {p: replace(f, permissions=bounded(f.permissions)) for p, f in files.items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RollbackError(
                f"checkpoint '{self.checkpoint.id}': damaged state files ({error!r})",
                hint="git ckpt rollback ID -- PATH restores other files",
            ) from None

    @cached_property
    def state_tree(self) -> ObjectID:
        return self._state.tree

    @property
    def kept(self) -> tuple[ObjectID, ...]:
        """The commits that it holds besides that of HEAD."""
        return self._state.parents

    @property
    def _state(self) -> record.CommitData:
        return record.read_commit(self.objects, ObjectID(self.checkpoint.state_commit.encode()))

    @cached_property
    def edited(self) -> frozenset[bytes]:
        """Files that differed from what was staged, as far as a partial clone can tell."""
        tree = staging.stage_trees(self.objects, self.state_tree)[0]
        try:
            return frozenset(path for path, _, _ in diff_trees(self.objects, tree, self.tree))
        except MissingObject:
            return frozenset()

    @cached_property
    def head(self) -> Head:
        branch = self.checkpoint.branch
        commit = self.checkpoint.head_commit
        full_name = None
        if branch is not None:
            name = branch.encode("utf-8", "surrogateescape")
            full_name = name if name.startswith(b"refs/") else b"refs/heads/" + name
        return Head(full_name, None if commit is None else ObjectID(commit.encode()))

    def left_out(self, path: bytes, is_folder: bool = False) -> str | None:
        """Why this state says nothing about a path, or None if its absence means absence."""
        skipped = self.manifest.skipped
        for place in (path, *folders_above(path)):
            if place in skipped:
                return skipped[place]
            if place in self.repositories:  # a submodule's too
                return SkipReason.NESTED
        if self._is_tracked(path):
            return None
        if not self._ignore.ignored(path, is_folder):
            return None
        # What was included and is not there, was not there.
        return None if self._included.takes(path, is_folder, self._ignore) else "ignored"

    def has_folder(self, path: bytes) -> bool:
        """Whether a folder was there that held something of this state, or nothing."""
        if self.absent or not path:
            return path in self._folders
        entry = self.entry_at(path)
        if entry is not None and entry.mode == FOLDER:
            return True
        return path in self._folders_of_empty

    def has_submodule(self, path: bytes) -> bool:
        """Whether a folder was a submodule's, which without its folder would be deleted to git."""
        entry = self.entry_at(path)
        return entry is not None and entry.mode == GITLINK

    @cached_property
    def _folders(self) -> frozenset[bytes]:
        """Every folder that was there, so far as it held something of this state or nothing."""
        held = {path for path, _ in walk(self.objects, self.tree)} - self.absent
        return self._folders_of_empty.union(folders_of(held))

    @cached_property
    def _folders_of_empty(self) -> frozenset[bytes]:
        """Those with nothing in them, and all above."""
        empty = self.manifest.empty_folders
        return frozenset({*empty, *folders_of(empty)})

    @cached_property
    def repositories(self) -> frozenset[bytes]:
        """Where a repository was inside the worktree, a submodule's or another."""
        return frozenset(to_bytes(state.path) for state in self.manifest.nested)

    @cached_property
    def absent(self) -> frozenset[bytes]:
        """Files that a sparse checkout left out: in the tree, but not on disk."""
        if not self._index_flags.get("skip_worktree"):
            return frozenset()
        marked = frozenset(entry.path for entry in self.index.entries if entry.skip_worktree)
        return marked - set(self.manifest.unskipped)

    def _is_tracked(self, path: bytes) -> bool:
        if self._ignores_case:
            return path in self._tracked or path.lower() in self._folded
        if "index" in vars(self):
            return path in self._tracked
        entries = (lookup(self.objects, tree, path, self._trees) for tree in self._stages)
        is_staged = any(entry is not None and entry.mode != FOLDER for entry in entries)
        return is_staged or path in self._intended

    @cached_property
    def _trees(self) -> dict[ObjectID, Entries]:
        return {}

    @cached_property
    def _stages(self) -> tuple[ObjectID, ...]:
        return tuple(filter(None, staging.stage_trees(self.objects, self.state_tree)))

    @cached_property
    def _intended(self) -> frozenset[bytes]:
        """Paths of which the index says only that they shall be added."""
        with self._telling_damage():
            return frozenset(map(from_json, self._index_flags.get("intent_to_add", ())))

    @cached_property
    def _tracked(self) -> frozenset[bytes]:
        return frozenset(entry.path for entry in self.index.entries)

    @cached_property
    def _folded(self) -> frozenset[bytes]:
        """As git does it with core.ignoreCase: only the letters of ASCII have a case."""
        return frozenset(path.lower() for path in self._tracked)

    @property
    def _ignores_case(self) -> bool:
        return self.repo.config.get_bool("core.ignorecase", False)

    @cached_property
    def _included(self) -> Included:
        ignore_case = self.repo.config.get_bool("core.ignorecase", False)
        return Included(self.manifest.include, ignore_case)

    @cached_property
    def _ignore(self) -> IgnoreTree:
        ignore_case = self._ignores_case
        stack = ignore_stack(dict(self.manifest.excludes), ignore_case)
        return IgnoreTree(stack, self._gitignore, ignore_case=ignore_case)

    def _gitignore(self, folder: bytes) -> bytes | None:
        path = folder + b"/.gitignore" if folder else b".gitignore"
        hidden = self.manifest.excludes.get(to_str(path))
        if hidden is not None:
            return hidden
        entry = self.entry_at(path)
        if entry is None or entry.mode not in (REGULAR, EXECUTABLE):
            return None
        if self.objects.is_partial and not self.objects.has(entry.id):
            return None  # left out by a sparse checkout, and never fetched
        if self.is_foreign:
            return read_limited(self.objects, entry.id, LARGEST_RULES)
        # As the save went by it, or passed it over.
        is_read = (self.objects.size(entry.id) or 0) <= LARGEST_TEXT
        return self.objects.read(entry.id, b"blob") if is_read else None


def opened(
    repo: Repository, checkpoint: Checkpoint, trust: bool = False, known: str | None = None
) -> Recorded:
    """A checkpoint opened for a rollback, as far as it is trusted; the commit that is `known` was
    made here."""
    commit = checkpoint.commit
    if commit == known or made_here.holds(repo.common_dir, checkpoint.id, commit):
        return Recorded(repo, checkpoint)
    granted = 0o777 & ~_umask()
    bounds = ANY_BITS if trust else Bounds(granted, granted & 0o700)
    return Recorded(repo, checkpoint, is_foreign=True, bounds=bounds)


def _umask() -> int:
    umask = os.umask(0o077)  # meanwhile nothing is made that others could read
    os.umask(umask)
    return umask


def file_state(
    path: bytes, entry: TreeEntry | None, modes: Modes, converted: Converted | None = None
) -> FileState | None:
    """An entry with its permission bits, which only regular files have: a link that has
    some was a plain file with the target in it (core.symlinks)."""
    if entry is None:
        return None
    if entry.mode not in (REGULAR, EXECUTABLE):
        return FileState(entry, modes.others.get(path, 0))
    state = FileState(entry, modes.of(path, entry.mode == EXECUTABLE))
    if converted is None:
        return state
    origin = Origin(entry.id, converted.in_lfs)
    return replace(state, entry=entry._replace(id=converted.raw), origin=origin)
