# SPDX-License-Identifier: MIT
"""A checkpoint opened for use: its manifest, trees, index and operation, read on demand.

A corrupt part raises an error that names the checkpoint. In a foreign checkpoint, the umask limits
the permission bits, and the operation is ignored.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ckpt.engine.conversions import RAW, Converted
from ckpt.engine.journal import FileState
from ckpt.engine.scan_rules import ignore_stack, takes
from ckpt.git import index as staging
from ckpt.git import operation as operation_record
from ckpt.git import record
from ckpt.git.index import Index
from ckpt.git.objects import ObjectID, ObjectStore
from ckpt.git.operation import OperationState
from ckpt.git.record import Manifest, StateFile
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
    walk,
)
from ckpt.models import Checkpoint, Modes, SkipReason
from ckpt.paths import LARGEST_TEXT, folders_above, folders_of, from_json, to_bytes, to_str

if TYPE_CHECKING:
    from ckpt.engine.working_state import Present

LARGEST_RULES = 1 << 20  # bytes of a foreign file of ignore rules
_WITHOUT_INDEX = "git ckpt rollback --no-index leaves the index alone"
_WITHOUT_STATE_FILES = "git ckpt rollback ID -- PATH restores other files"


@dataclass(frozen=True)
class Recorded:
    """The state in a checkpoint. A foreign one has no operation, and no wider permissions than
    those of new files."""

    repo: Repository
    checkpoint: Checkpoint

    @property
    def objects(self) -> ObjectStore:
        return self.repo.objects

    # -- the parts

    @property
    def tree(self) -> ObjectID:
        return ObjectID(self.checkpoint.tree.encode())

    @cached_property
    def state_tree(self) -> ObjectID:
        return self._state.tree

    @property
    def kept(self) -> tuple[ObjectID, ...]:
        """Return the commits it keeps reachable besides HEAD."""
        return self._state.parents

    @cached_property
    def _state(self) -> record.CommitData:
        return record.state_commit(self.objects, self.checkpoint)

    @cached_property
    def _mask(self) -> int:
        if not self.checkpoint.foreign:
            return 0o777
        umask = os.umask(0o077)  # reading the umask means setting it, so set a strict one
        os.umask(umask)
        return 0o777 & ~umask

    @cached_property
    def manifest(self) -> Manifest:
        found = record.read_manifest(self.objects, self.checkpoint)
        return found._replace(modes=found.modes.within(self._mask))

    @cached_property
    def index(self) -> Index:
        with record.damage(self.checkpoint, "index-flags.json", _WITHOUT_INDEX):
            return staging.read_state(self.objects, self.state_tree)

    @cached_property
    def raw_tree(self) -> ObjectID | None:
        """Return the tree of exact contents for files that differ on disk from their blobs."""
        entry = lookup(self.objects, self.state_tree, RAW)
        return None if entry is None or entry.mode != FOLDER else entry.id

    @cached_property
    def _converted(self) -> dict[bytes, Converted]:
        raw = () if self.raw_tree is None else walk(self.objects, self.raw_tree)
        return {path: Converted(entry.id, entry.mode == GITLINK) for path, entry in raw}

    @cached_property
    def operation(self) -> OperationState:
        if self.checkpoint.foreign:
            return OperationState()
        return operation_record.read_state(self.objects, self.state_tree)

    @cached_property
    def state_files(self) -> dict[bytes, StateFile]:
        with record.damage(self.checkpoint, "state", _WITHOUT_STATE_FILES):
            files = record.read_files(self.objects, self.state_tree)
            return {p: f._replace(permissions=f.permissions & self._mask) for p, f in files.items()}

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
        return {}

    def entry_at(self, path: bytes) -> TreeEntry | None:
        return lookup(self.objects, self.tree, path, self._trees)

    def file_at(self, path: bytes) -> FileState | None:
        """Return the file on disk at a path in this state."""
        entry = self.entry_at(path)
        if entry is None and path in self.state_files:
            file = self.state_files[path]
            return None if file.entry is None else FileState.of(file.entry, file.permissions)
        if entry is None or entry.mode == FOLDER or path in self.absent:
            return None
        return file_state(path, entry, self.manifest.modes, self._converted.get(path))

    def has_submodule(self, path: bytes) -> bool:
        entry = self.entry_at(path)
        return entry is not None and entry.mode == GITLINK

    @cached_property
    def repositories(self) -> frozenset[bytes]:
        """Return the paths of nested repositories, including submodules."""
        return frozenset(to_bytes(state.path) for state in self.manifest.nested)

    @cached_property
    def absent(self) -> frozenset[bytes]:
        """Return the files that a sparse checkout left out: in the tree, but not on disk."""
        with record.damage(self.checkpoint, "index-flags.json", _WITHOUT_INDEX):
            flags = staging.read_flags(self.objects, self.state_tree)
            marked = frozenset(map(from_json, flags.get("skip_worktree", ())))
        return marked - set(self.manifest.unskipped) if marked else marked

    def has_folder(self, path: bytes) -> bool:
        """Return whether a directory existed at a path, empty or with saved files."""
        entry = self.entry_at(path) if path else None
        return path in self._folders_of_empty or (entry is not None and entry.mode == FOLDER)

    @cached_property
    def _folders_of_empty(self) -> frozenset[bytes]:
        empty = self.manifest.empty_folders
        return frozenset({*empty, *folders_of(empty)})

    # -- what it left out

    def left_out(self, path: bytes, is_folder: bool = False) -> str | None:
        """Return why this state does not cover a path; None if a path not in it did not exist."""
        skipped = self.manifest.skipped
        for place in (path, *folders_above(path)):
            if place in skipped:
                return skipped[place]
            if place in self.repositories:  # including submodules
                return SkipReason.NESTED
        if not self._ignore.ignored(path, is_folder) or path in self._tracked:
            return None
        # An included file would have been saved.
        is_taken = takes(self.manifest.include, path, is_folder, self._ignore)
        return None if is_taken else "ignored"

    @cached_property
    def _tracked(self) -> frozenset[bytes]:
        return frozenset(entry.path for entry in self.index.entries)

    @cached_property
    def _ignore(self) -> IgnoreTree:
        ignores_case = self.repo.config.get_bool("core.ignorecase", False)
        stack = ignore_stack(dict(self.manifest.excludes), ignores_case)
        return IgnoreTree(stack, self._gitignore, ignore_case=ignores_case)

    def _gitignore(self, folder: bytes) -> bytes | None:
        path = folder + b"/.gitignore" if folder else b".gitignore"
        hidden = self.manifest.excludes.get(to_str(path))
        entry = self.entry_at(path)
        if hidden is not None or entry is None or entry.mode not in (REGULAR, EXECUTABLE):
            return hidden
        if self.objects.is_partial and not self.objects.has(entry.id):
            return None  # left out by a sparse checkout and never fetched
        # The save ignored a larger one, too.
        most = LARGEST_RULES if self.checkpoint.foreign else LARGEST_TEXT
        is_read = (self.objects.size(entry.id) or 0) <= most
        return self.objects.read(entry.id, b"blob") if is_read else None


def file_now(present: Present, path: bytes) -> FileState | None:
    """Return the captured file on disk at a path."""
    entry = None if path in present.absent else present.entry(path)
    return file_state(path, entry, present.modes, present.converted.get(path))


def file_state(
    path: bytes, entry: TreeEntry | None, modes: Modes, converted: Converted | None = None
) -> FileState | None:
    """Return an entry with its permission bits, which only regular files have: a link with such
    bits was a plain file containing the target (core.symlinks)."""
    if entry is None:
        return None
    if entry.mode not in (REGULAR, EXECUTABLE):
        return FileState.of(entry, modes.others.get(path, 0))
    state = FileState.of(entry, modes.of(path, entry.mode == EXECUTABLE))
    if converted is None:
        return state
    return replace(state, id=converted.raw, in_lfs=converted.in_lfs)
