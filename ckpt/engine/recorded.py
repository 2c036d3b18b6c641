# SPDX-License-Identifier: MIT
"""A checkpoint opened for use: its manifest, trees, index and operation, read when asked for.

Damage shows here, as an error that names the checkpoint. Of a checkpoint that others made, bits
are kept within bounds and no operation is told.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ckpt.engine.conversions import Converted, RawFiles
from ckpt.engine.journal import FileState, Origin
from ckpt.engine.manifest import Manifest, read_manifest
from ckpt.engine.rules import Included, ignore_stack
from ckpt.errors import RollbackError
from ckpt.git import index as staging
from ckpt.git import operation as operation_record
from ckpt.git import record
from ckpt.git.formats import ObjectID
from ckpt.git.index import Index
from ckpt.git.objects import ObjectStore
from ckpt.git.operation import OperationState
from ckpt.git.record import StateFile
from ckpt.git.refs import Head
from ckpt.git.repository import Repository
from ckpt.git.rules import IgnoreTree
from ckpt.git.trees import (
    EXECUTABLE,
    FOLDER,
    GITLINK,
    REGULAR,
    Entries,
    TreeEntry,
    lookup,
    read_limited,
    walk,
)
from ckpt.models import Checkpoint, SkipReason
from ckpt.paths import LARGEST_TEXT, folders_above, folders_of, from_json, to_bytes, to_str
from ckpt.worktree.modes import ANY_BITS, Bounds, Modes

LARGEST_RULES = 1 << 20  # bytes of a foreign file of ignore rules
_DAMAGE = (AttributeError, KeyError, TypeError, ValueError)


@dataclass(frozen=True)
class Recorded:
    """The state in a checkpoint; of a foreign one, permissions are kept within `bounds`."""

    repo: Repository
    checkpoint: Checkpoint
    is_foreign: bool = False
    bounds: Bounds = ANY_BITS

    @property
    def objects(self) -> ObjectStore:
        return self.repo.objects

    @contextmanager
    def _naming(self, what: str, hint: str) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            told = error if type(error) is ValueError else repr(error)
            raise RollbackError(
                f"checkpoint '{self.checkpoint.id}': damaged {what} ({told})", hint=hint
            ) from None

    # -- the parts

    @property
    def tree(self) -> ObjectID:
        return ObjectID(self.checkpoint.tree.encode())

    @cached_property
    def state_tree(self) -> ObjectID:
        return self._state.tree

    @property
    def kept(self) -> tuple[ObjectID, ...]:
        """The commits that it holds besides that of HEAD."""
        return self._state.parents

    @cached_property
    def _state(self) -> record.CommitData:
        return record.read_commit(self.objects, ObjectID(self.checkpoint.state_commit.encode()))

    @cached_property
    def manifest(self) -> Manifest:
        document = record.read_json(self.objects, self.checkpoint, record.MANIFEST)
        with self._naming("manifest", "git ckpt list"):
            found = read_manifest(document)
        return found._replace(modes=found.modes.within(self.bounds))

    @cached_property
    def index(self) -> Index:
        with self._naming("index flags", "git ckpt rollback --no-index leaves the index alone"):
            return staging.read_state(self.objects, self.state_tree)

    @cached_property
    def _index_flags(self) -> dict[str, Any]:
        with self._naming("index flags", "git ckpt rollback --no-index leaves the index alone"):
            return staging.read_flags(self.objects, self.state_tree)

    @cached_property
    def raw_files(self) -> RawFiles:
        return RawFiles(self.objects, self.state_tree)

    @cached_property
    def operation(self) -> OperationState:
        if self.is_foreign:
            return OperationState()
        return operation_record.read_state(self.objects, self.state_tree)

    @cached_property
    def state_files(self) -> dict[bytes, StateFile]:
        bounded = self.bounds.of_file
        with self._naming("state files", "git ckpt rollback ID -- PATH restores other files"):
            files = record.read_files(self.objects, self.state_tree)
            return {p: f._replace(permissions=bounded(f.permissions)) for p, f in files.items()}

    @cached_property
    def head(self) -> Head:
        branch, commit = self.checkpoint.branch, self.checkpoint.head_commit
        if branch is not None and not branch.startswith("refs/"):
            branch = "refs/heads/" + branch
        return Head(
            None if branch is None else branch.encode("utf-8", "surrogateescape"),
            None if commit is None else ObjectID(commit.encode()),
        )

    # -- by path

    @cached_property
    def _trees(self) -> dict[ObjectID, Entries]:
        return {}  # that were read

    def entry_at(self, path: bytes) -> TreeEntry | None:
        return lookup(self.objects, self.tree, path, self._trees)

    def converted(self, path: bytes, entry: TreeEntry | None) -> Converted | None:
        """What the file was on disk, if that is not the blob of its entry."""
        is_file = entry is not None and entry.mode in (REGULAR, EXECUTABLE)
        return self.raw_files.get(path) if is_file else None

    def file_at(self, path: bytes) -> FileState | None:
        """What is at a path on disk in this state."""
        entry = self.entry_at(path)
        if entry is None or entry.mode == FOLDER or path in self.absent:
            return None
        return file_state(path, entry, self.manifest.modes, self.converted(path, entry))

    def has_submodule(self, path: bytes) -> bool:
        entry = self.entry_at(path)
        return entry is not None and entry.mode == GITLINK

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

    def has_folder(self, path: bytes) -> bool:
        """Whether a folder was there that held something of this state, or nothing."""
        if path in self._folders_of_empty:
            return True
        entry = self.entry_at(path) if path else None
        if entry is None or entry.mode != FOLDER or not self.absent:
            return entry is not None and entry.mode == FOLDER
        below = walk(self.objects, entry.id)
        return any(path + b"/" + name not in self.absent for name, _ in below)

    @cached_property
    def _folders_of_empty(self) -> frozenset[bytes]:
        empty = self.manifest.empty_folders
        return frozenset({*empty, *folders_of(empty)})

    # -- what it left out

    def left_out(self, path: bytes, is_folder: bool = False) -> str | None:
        """Why this state says nothing about a path, or None if its absence means absence."""
        skipped = self.manifest.skipped
        for place in (path, *folders_above(path)):
            if place in skipped:
                return skipped[place]
            if place in self.repositories:  # a submodule's too
                return SkipReason.NESTED
        if self._is_tracked(path) or not self._ignore.ignored(path, is_folder):
            return None
        # What was included and is not there, was not there.
        included = Included(self.manifest.include, self._ignores_case)
        return None if included.takes(path, is_folder, self._ignore) else "ignored"

    @cached_property
    def _ignores_case(self) -> bool:
        return self.repo.config.get_bool("core.ignorecase", False)

    def _is_tracked(self, path: bytes) -> bool:
        """Found out without reading the whole index, if case counts."""
        if self._ignores_case:
            return path.lower() in self._folded
        stages = filter(None, staging.stage_trees(self.objects, self.state_tree))
        entries = (lookup(self.objects, tree, path, self._trees) for tree in stages)
        is_staged = any(entry is not None and entry.mode != FOLDER for entry in entries)
        return is_staged or path in self._intended

    @cached_property
    def _intended(self) -> frozenset[bytes]:
        """Paths of which the index says only that they shall be added."""
        with self._naming("index flags", "git ckpt rollback --no-index leaves the index alone"):
            return frozenset(map(from_json, self._index_flags.get("intent_to_add", ())))

    @cached_property
    def _folded(self) -> frozenset[bytes]:
        """As git does it with core.ignoreCase: only the letters of ASCII have a case."""
        return frozenset(entry.path.lower() for entry in self.index.entries)

    @cached_property
    def _ignore(self) -> IgnoreTree:
        stack = ignore_stack(dict(self.manifest.excludes), self._ignores_case)
        return IgnoreTree(stack, self._gitignore, ignore_case=self._ignores_case)

    def _gitignore(self, folder: bytes) -> bytes | None:
        path = folder + b"/.gitignore" if folder else b".gitignore"
        hidden = self.manifest.excludes.get(to_str(path))
        entry = self.entry_at(path)
        if hidden is not None or entry is None or entry.mode not in (REGULAR, EXECUTABLE):
            return hidden
        if self.objects.is_partial and not self.objects.has(entry.id):
            return None  # left out by a sparse checkout, and never fetched
        if self.is_foreign:
            return read_limited(self.objects, entry.id, LARGEST_RULES)
        # As the save went by it, or passed it over.
        is_read = (self.objects.size(entry.id) or 0) <= LARGEST_TEXT
        return self.objects.read(entry.id, b"blob") if is_read else None


def opened(repo: Repository, checkpoint: Checkpoint, known: str | None = None) -> Recorded:
    """A checkpoint opened for a rollback; the commit that is `known` was made here. Of a foreign
    one, files get no wider permissions than new ones do, and no operation is put back."""
    commit = checkpoint.commit
    if commit == known or record.holds(repo.common_dir, checkpoint.id, commit):
        return Recorded(repo, checkpoint)
    umask = os.umask(0o077)  # meanwhile nothing is made that others could read
    os.umask(umask)
    granted = 0o777 & ~umask
    return Recorded(repo, checkpoint, is_foreign=True, bounds=Bounds(granted, granted & 0o700))


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
