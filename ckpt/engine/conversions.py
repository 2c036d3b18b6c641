# SPDX-License-Identifier: MIT
"""Store files whose bytes on disk differ from git's blob, and restore the exact bytes.

A checkpoint's tree holds what `git add` would store; for an unmodified file, the index's blob.
`raw/<path>` in the state tree holds the bytes on disk if they differ or a filter failed, so that no
filter is needed to restore them. A gitlink there only names bytes in the local store of Git LFS,
for a pointer that is also in HEAD.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from io import FileIO
from typing import IO, TYPE_CHECKING, NamedTuple

from ckpt import disk
from ckpt.engine.capture import add_stable, opened, read_stable
from ckpt.engine.journal import FileState
from ckpt.git.index import Index, IndexEntry
from ckpt.git.objects import (
    LARGEST_KEPT,
    LARGEST_WHOLE,
    MissingObject,
    ObjectID,
    ObjectStore,
    file_pieces,
)
from ckpt.git.record import read_commit
from ckpt.git.repository import Repository
from ckpt.git.trees import GITLINK, REGULAR, Entries, TreeEntry, lookup, write_tree
from ckpt.worktree import cache
from ckpt.worktree.scan import Deadline

if TYPE_CHECKING:
    from ckpt.worktree.filters import Conversion  # imports subprocess

RAW = b"raw"
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:[a-z0-9.-]+ .*\n)*?"
    rb"oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,18})\n"
)
_LARGEST_POINTER = 1024


class Converted(NamedTuple):
    """The id of a file's bytes, which are stored unless they are `in_lfs`.

    `is_plain`: only line endings differ, CRLF throughout, as git can write them.
    """

    raw: ObjectID
    in_lfs: bool = False
    is_plain: bool = False


def conversions_of(records: Iterable[cache.Record]) -> dict[bytes, Converted]:
    """Return the files whose bytes differ from their blob."""
    return {
        cache.path_in(record.path, name): Converted(ObjectID(raw), in_lfs, is_plain)
        for record in records
        for name, (_, raw, in_lfs, is_plain) in record.cleaned.items()
        if raw is not None
    }


class Unrestorable(Exception):
    """Content that Git LFS cannot provide; the message says why."""


# The state tree


def write_raw(objects: ObjectStore, converted: Mapping[bytes, Converted]) -> ObjectID | None:
    """Write the tree `raw/`; return None if it would be empty."""
    entries = {
        path: TreeEntry(GITLINK if found.in_lfs else REGULAR, found.raw)
        for path, found in converted.items()
    }
    return write_tree(objects, entries) if entries else None


def pieces(repo: Repository, state: FileState) -> Iterator[bytes]:
    """Yield the exact bytes of a file; any piece may raise MissingObject or Unrestorable."""
    objects = repo.objects
    if not state.in_lfs or objects.has(state.id):
        yield from objects.pieces(state.id)
        return
    content = open_lfs(repo, state.entry.id)
    if content is None:
        raise Unrestorable("Git LFS does not have its content; see 'git lfs fetch'")
    with content:
        size = os.fstat(content.fileno()).st_size
        if objects.hash_file(content.fileno(), size) != state.id:
            raise Unrestorable("Git LFS has other content for it; see 'git lfs fsck'")
        yield from file_pieces(content.fileno(), size)


def open_lfs(repo: Repository, blob: ObjectID) -> FileIO | None:
    """Open a pointer's content in the local store of Git LFS; return None if it is missing."""
    size = repo.objects.size(blob)
    if size is None or size > _LARGEST_POINTER:
        return None
    pointer = _POINTER.fullmatch(repo.objects.read(blob, b"blob"))
    if pointer is None:
        return None
    oid = pointer[1].decode()
    store = os.path.join(repo.common_dir, repo.config.get("lfs.storage") or "lfs")
    try:
        file = FileIO(disk.opened(os.path.join(store, "objects", oid[:2], oid[2:4], oid)))
    except OSError:
        return None
    if os.fstat(file.fileno()).st_size == int(pointer[2]):
        return file
    file.close()
    return None


# From files to blobs


class Cleaner:
    """Cleans the files of one capture; `failed` are those whose filter failed."""

    def __init__(
        self,
        repo: Repository,
        objects: ObjectStore,
        staged: Index,
        head: ObjectID | None,
        deadline: Deadline | None = None,
    ) -> None:
        from ckpt.worktree.filters import Filters, read_drivers

        self._repo = repo
        self._objects = objects
        self._staged = staged
        self._entries = {e.path: e for e in staged.entries if e.stage in (0, 2)}
        self._head = head
        self._trees: dict[ObjectID, Entries] = {}
        env = dict(repo.env)
        if env.keys() & {"GIT_DIR", "GIT_WORK_TREE"}:
            env |= {"GIT_DIR": repo.git_dir, "GIT_WORK_TREE": repo.worktree}
        # A driver may run git, whose hooks must not wait for this checkpoint.
        env["CKPT_DISABLE"] = "1"
        self._filters = Filters(
            read_drivers(repo.filter_settings),
            top=repo.worktree,
            env=env,
            hung=set(),
            scratch=repo.private_dir if os.path.isdir(repo.private_dir) else None,
            deadline=deadline,
        )
        self.failed: set[bytes] = set()

    def add(
        self, path: bytes, full: bytes, asked: Conversion
    ) -> tuple[ObjectID, os.stat_result, cache.Cleaned | None]:
        """Add a file's blob and return it with stat data; raise VanishedFile or UnreadableFile."""
        data, status = read_stable(full, LARGEST_KEPT)

        def put(objects: ObjectStore) -> tuple[ObjectID, os.stat_result]:
            if data is None:  # a large file
                return add_stable(objects, full)
            return objects.add(b"blob", data), status

        raw, status = put(self._objects.scratch())
        entry, in_lfs = self._entries.get(path), False
        if entry is not None and self._is_unmodified(entry, status):
            blob: ObjectID | None = ObjectID(entry.id)
            in_lfs = asked.driver in self._filters.drivers and self._is_in_lfs(entry, status)
        else:
            blob = self._cleaned(path, asked, full, data)
        if raw != blob and not in_lfs:
            raw, status = put(self._objects)
        base = None if entry is None else entry.id
        if blob is None:
            self.failed.add(path)
        if raw != blob:
            is_plain = data is not None and asked[2:] == (False, None, None) and _is_crlf(data)
            return blob or raw, status, (base, bytes(raw), in_lfs, is_plain)
        if data is not None and asked.driver is None and b"\r" not in data:
            return raw, status, None  # independent of the index
        return raw, status, (base, None, False, False)

    def _is_unmodified(self, entry: IndexEntry, status: os.stat_result) -> bool:
        """Return whether git would consider a file unmodified by its stat data alone."""
        is_same = self._staged.is_unmodified(entry, status, file_mode=False)
        return is_same and self._objects.has(ObjectID(entry.id))

    def _is_in_lfs(self, entry: IndexEntry, status: os.stat_result) -> bool:
        """Return whether Git LFS has the content and `git lfs prune` keeps it."""
        try:
            if self._head_tree is None:
                return False
            blob = lookup(self._repo.objects, self._head_tree, entry.path, self._trees)
        except MissingObject:
            return False
        content = open_lfs(self._repo, blob.id) if blob and blob.id == entry.id else None
        if content is None:
            return False
        with content:
            return os.fstat(content.fileno()).st_size == status.st_size

    @cached_property
    def _head_tree(self) -> ObjectID | None:
        return None if self._head is None else read_commit(self._repo.objects, self._head).tree

    def _cleaned(
        self, path: bytes, asked: Conversion, full: bytes, data: bytes | None
    ) -> ObjectID | None:
        """Add what git stores for a file; return None if its driver fails or git would refuse it.
        Skip the built-in conversions of large files."""
        from ckpt.worktree.filters import Unconvertible, clean

        try:
            if asked.driver is not None and self._filters.drivers.get(asked.driver, "") != "":
                with self._source(full, data) as source:
                    output = self._filters.clean(asked.driver, path, source)
                with output:
                    size = os.fstat(output.fileno()).st_size
                    if size > LARGEST_KEPT:
                        return self._objects.add_file(output.fileno(), size)
                    data = output.read()
            if data is None:
                return add_stable(self._objects, full)[0]
            cleaned = clean(asked, data, lambda: self._index_blob(path))
        except Unconvertible:
            return None
        return self._objects.add(b"blob", cleaned)

    def _source(self, full: bytes, data: bytes | None) -> IO[bytes] | FileIO:
        """Return a file for a driver to read: the data, or the file itself."""
        if data is None:
            return opened(full)
        source = self._filters.file()
        source.write(data)
        source.seek(0)
        return source

    def _index_blob(self, path: bytes) -> bytes | None:
        entry = self._entries.get(path)
        with suppress(MissingObject):  # in a partial clone
            if entry is not None:
                return self._objects.read(ObjectID(entry.id), b"blob", LARGEST_WHOLE)
        return None


def _is_crlf(data: bytes) -> bool:
    return data.count(b"\r\n") == data.count(b"\n") == data.count(b"\r")
