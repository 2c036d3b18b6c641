# SPDX-License-Identifier: MIT
"""Store files whose bytes on disk differ from git's blob, and give the exact bytes back.

A checkpoint's tree holds what `git add` would store. `raw/<path>` in the state tree holds the
bytes on disk wherever they differ, and where a filter failed: no rule or command is needed to get
them back. A gitlink there only names the bytes: Git LFS has them in its local store, for a pointer
that HEAD has too. Built-in conversions of files over 16 MiB are left out.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from typing import IO, TYPE_CHECKING, NamedTuple

from ckpt import disk
from ckpt.engine.journal import FileState
from ckpt.engine.reading import add_stable, is_fresh, opened, read_stable
from ckpt.git.formats import ObjectID
from ckpt.git.index import Staged
from ckpt.git.loose import LARGEST_WHOLE
from ckpt.git.objects import LARGEST_KEPT, MissingObject, ObjectStore
from ckpt.git.record import read_commit
from ckpt.git.repository import Repository
from ckpt.git.streams import file_pieces
from ckpt.git.trees import FOLDER, GITLINK, REGULAR, Entries, TreeEntry, lookup, walk, write_tree
from ckpt.paths import identity
from ckpt.worktree.scan import Deadline

if TYPE_CHECKING:
    from ckpt.worktree.filters import Conversion, Filters  # imports subprocess

RAW = b"raw"
_LFS = "lfs"
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:[a-z0-9.-]+ .*\n)*?"
    rb"oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,18})\n"
)
_LARGEST_POINTER = 1024
_CACHE = "conversions"
_CACHE_HEADER = b"ckpt conversions 3 "


class Converted(NamedTuple):
    """The id of a file's bytes, which are stored unless they are `in_lfs`.

    `is_plain` if only line endings differ, CRLF throughout: nothing that git could not write.
    """

    raw: ObjectID
    in_lfs: bool = False
    is_plain: bool = False


class Unrestorable(Exception):
    """Bytes that only Git LFS had, and it does not have them; the message says why."""


# The state tree


def write_raw(objects: ObjectStore, converted: Mapping[bytes, Converted]) -> ObjectID | None:
    """Write the tree `raw/`; None if it would be empty."""
    entries = {
        path: TreeEntry(GITLINK if found.in_lfs else REGULAR, found.raw)
        for path, found in converted.items()
    }
    return write_tree(objects, entries) if entries else None


class RawFiles:
    """The tree `raw/` of a checkpoint, opened when the first path is looked up."""

    def __init__(self, objects: ObjectStore, state_tree: ObjectID) -> None:
        self._objects = objects
        self._state_tree = state_tree

    @cached_property
    def tree(self) -> ObjectID | None:
        entry = lookup(self._objects, self._state_tree, RAW)
        return None if entry is None or entry.mode != FOLDER else entry.id

    @cached_property
    def _entries(self) -> dict[bytes, TreeEntry]:
        return {} if self.tree is None else dict(walk(self._objects, self.tree))

    def get(self, path: bytes) -> Converted | None:
        """Return None if the file's bytes are its blob."""
        entry = self._entries.get(path)
        return None if entry is None else Converted(entry.id, entry.mode == GITLINK)


class Smudger:
    """Gives the exact bytes of files."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo

    def pieces(self, state: FileState) -> Iterator[bytes]:
        """MissingObject or Unrestorable at any time until the last piece."""
        objects, origin = self._repo.objects, state.origin
        if origin is None or not origin.in_lfs or objects.has(state.entry.id):
            yield from objects.pieces(state.entry.id)
            return
        content = open_lfs(self._repo, origin.blob)
        if content is None:
            raise Unrestorable("Git LFS does not have its content; see 'git lfs fetch'")
        with content:
            if _file_id(objects, content) != state.entry.id:
                raise Unrestorable("Git LFS has other content for it; see 'git lfs fsck'")
            yield from file_pieces(content.fileno(), os.fstat(content.fileno()).st_size)

    def check(self, state: FileState) -> None:
        """Read all of them, for the errors that this may raise."""
        for _ in self.pieces(state):
            pass


# Git LFS


def open_lfs(repo: Repository, blob: ObjectID) -> IO[bytes] | None:
    """Open the content in the local store that a pointer names; None if it is not there."""
    size = repo.objects.size(blob)
    if size is None or size > _LARGEST_POINTER:
        return None
    pointer = _POINTER.fullmatch(repo.objects.read(blob, b"blob"))
    if pointer is None:
        return None
    oid = pointer[1].decode()
    store = os.path.join(repo.common_dir, repo.config.get("lfs.storage") or "lfs")
    try:
        path = os.path.join(store, "objects", oid[:2], oid[2:4], oid)
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and status.st_size == int(pointer[2]):
        return os.fdopen(fd, "rb")
    os.close(fd)
    return None


def _file_id(objects: ObjectStore, file: IO[bytes]) -> ObjectID:
    return objects.hash_file(file.fileno(), os.fstat(file.fileno()).st_size)


# From files to blobs


def open_filters(repo: Repository, deadline: Deadline | None = None) -> Filters:
    """Open the drivers of git's configuration, in the environment that git gives them."""
    from ckpt.worktree.filters import Filters, read_drivers

    env = dict(repo.env)
    if env.keys() & {"GIT_DIR", "GIT_WORK_TREE"}:
        env |= {"GIT_DIR": repo.git_dir, "GIT_WORK_TREE": repo.worktree}
    # A driver may run git, and that must not wait for the checkpoint being made.
    env["CKPT_DISABLE"] = "1"
    return Filters(
        read_drivers(repo.config.items("filter")),
        top=repo.worktree,
        env=env,
        scratch=repo.private_dir if os.path.isdir(repo.private_dir) else None,
        deadline=deadline,
    )


class Cleaner:
    """Cleans the files of one capture; `converted` are those that differ from their blob.

    The blob of a file in `fixed` follows from its bytes and the attributes alone. Of other files
    whose blob is in the index, `cache` knows what an earlier capture found.
    """

    def __init__(
        self,
        repo: Repository,
        objects: ObjectStore,
        read_staged: Callable[[], Staged],
        head: ObjectID | None,
        deadline: Deadline | None = None,
    ) -> None:
        self._repo = repo
        self._objects = objects
        self._read_staged = read_staged
        self._head = head
        self._trees: dict[ObjectID, Entries] = {}
        self._filters = open_filters(repo, deadline)
        self.cache = ConversionCache(repo.private_dir, repo.worktree)
        self.converted: dict[bytes, Converted] = {}
        self.fixed: set[bytes] = set()
        self._rules: dict[Conversion, str] = {}

    @cached_property
    def _staged(self) -> dict[bytes, ObjectID]:
        entries = self._read_staged().index.entries
        return {e.path: ObjectID(e.id) for e in entries if e.stage in (0, 2)}

    def close(self) -> None:
        self._filters.close()

    def known(self, path: bytes, status: os.stat_result, asked: Conversion) -> ObjectID | None:
        """Return the blob of a file that was converted before and has not changed."""
        known = self.cache.find(path, status, self._rule(asked))
        if known is None or known.blob != self._staged.get(path):
            return None
        if known.converted is not None:
            raw, in_lfs, _ = known.converted
            if not (self._is_in_lfs(path, known.blob) if in_lfs else self._objects.has(raw)):
                return None
            self.converted[path] = known.converted
        return known.blob

    def add(self, path: bytes, full: bytes, asked: Conversion) -> tuple[ObjectID, os.stat_result]:
        """Add a file's blob, with its stat data; VanishedFile or UnreadableFile."""
        blob, converted, status = self._add(path, full, asked)
        if converted is not None:
            self.converted[path] = converted
        # A file whose driver failed has its bytes as the blob, and is tried again.
        failed = converted is not None and converted.raw == blob
        if blob == self._staged.get(path) and path not in self.fixed and not failed:
            known = _Known(identity(status), self._rule(asked), blob, converted)
            self.cache.add(path, status, known)
        return blob, status

    def _rule(self, asked: Conversion) -> str:
        """All that a conversion follows from, apart from the content and the index entry."""
        if asked not in self._rules:
            self._rules[asked] = f"{asked} {self._filters.drivers.get(asked.driver or '')}"
        return self._rules[asked]

    def _add(
        self, path: bytes, full: bytes, asked: Conversion
    ) -> tuple[ObjectID, Converted | None, os.stat_result]:
        has_driver = asked.driver in self._filters.drivers
        if has_driver and asked.driver == _LFS:
            found = self._add_lfs(path, full)
            if found is not None:
                return found
        from ckpt.worktree.filters import Unconvertible

        blob: ObjectID | None
        data, status = read_stable(full, LARGEST_KEPT)
        if data is None:  # a large file
            raw, status = add_stable(self._objects, full)
            blob = self._filtered(path, asked, full, None) if has_driver else raw
        else:
            try:
                blob = self._cleaned(path, asked, full, data)
            except Unconvertible:
                blob = None
            if blob is None or blob != self._objects.hash(b"blob", data):
                raw = self._objects.add(b"blob", data)
            else:
                raw = blob
                if not has_driver and b"\r" not in data:
                    self.fixed.add(path)
        if blob is None:
            return raw, Converted(raw), status
        if blob == raw:
            return raw, None, status
        is_plain = data is not None and asked[2:] == (False, None, None) and _is_crlf(data)
        return blob, Converted(raw, is_plain=is_plain), status

    def _add_lfs(
        self, path: bytes, full: bytes
    ) -> tuple[ObjectID, Converted, os.stat_result] | None:
        """Take the pointer in index and HEAD, if it names just this content in the local store."""
        blob = self._staged.get(path)
        content = open_lfs(self._repo, blob) if blob and self._is_in_lfs(path, blob) else None
        if blob is None or content is None:
            return None
        with content:
            raw = _file_id(self._objects, content)
        found, status = add_stable(self._objects.scratch(), full)
        return (blob, Converted(raw, in_lfs=True), status) if found == raw else None

    def _is_in_lfs(self, path: bytes, blob: ObjectID) -> bool:
        """Tell whether the local store has the content, and `git lfs prune` leaves it there."""
        content = open_lfs(self._repo, blob) if blob == self._head_blob(path) else None
        if content is not None:
            content.close()
        return content is not None

    def _head_blob(self, path: bytes) -> ObjectID | None:
        try:
            tree = self._head_tree
            entry = tree and lookup(self._repo.objects, tree, path, self._trees)
        except MissingObject:
            return None
        return entry.id if entry else None

    @cached_property
    def _head_tree(self) -> ObjectID | None:
        return None if self._head is None else read_commit(self._repo.objects, self._head).tree

    def _cleaned(self, path: bytes, asked: Conversion, full: bytes, data: bytes) -> ObjectID | None:
        """Add what git stores for a file in memory; None if its driver fails."""
        if asked.driver in self._filters.drivers:
            return self._filtered(path, asked, full, data)
        from ckpt.worktree.filters import clean

        return self._put(path, clean(asked, data, lambda: self._index_blob(path, data)))

    def _put(self, path: bytes, data: bytes) -> ObjectID:
        blob = self._objects.hash(b"blob", data)
        # The index keeps it alive.
        if blob == self._staged.get(path) and self._objects.size(blob) == len(data):
            return blob
        return self._objects.add(b"blob", data)

    def _filtered(
        self, path: bytes, asked: Conversion, full: bytes, data: bytes | None
    ) -> ObjectID | None:
        """Run a driver on data, or on the file itself; None if it fails."""
        from ckpt.worktree.filters import FilterFailed, clean

        assert asked.driver is not None
        with self._filters.file() if data is not None else os.fdopen(opened(full), "rb") as source:
            if data is not None:
                source.write(data)
                source.seek(0)
            try:
                output = self._filters.run("clean", asked.driver, path, source)
            except FilterFailed:
                return None
            with output or source as given:
                size = os.fstat(given.fileno()).st_size
                if size > LARGEST_KEPT:
                    return self._objects.add_file(given.fileno(), size)
                given.seek(0)
                text = given.read()
            return self._put(path, clean(asked, text, lambda: self._index_blob(path, text)))

    def _index_blob(self, path: bytes, data: bytes) -> bytes | None:
        blob = self._staged.get(path)
        likely = data.replace(b"\r\n", b"\n")  # quicker to compare than to read
        if blob is None or self._objects.hash(b"blob", likely) == blob:
            return None if blob is None else likely
        try:
            return self._objects.read(blob, b"blob", LARGEST_WHOLE)
        except MissingObject:  # in a partial clone
            return None


def _is_crlf(data: bytes) -> bool:
    return data.count(b"\r\n") == data.count(b"\n") == data.count(b"\r")


class _Known(NamedTuple):
    identity: tuple[int, ...]
    rule: str
    blob: ObjectID
    converted: Converted | None


class ConversionCache:
    """What conversions gave, so that unchanged files are neither read nor filtered again.

    A private file of the worktree; a damaged one counts as empty. Only files whose blob is in the
    index are kept: these are the many, and the index keeps their blobs alive.
    """

    def __init__(self, private_dir: str, worktree: str) -> None:
        self._path = os.path.join(private_dir, _CACHE)
        self._worktree = worktree
        self._before: dict[bytes, _Known] = {}
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            self._before = self._load()
        self._now: dict[bytes, _Known] = {}

    def find(self, path: bytes, status: os.stat_result, rule: str) -> _Known | None:
        known = self._before.get(path)
        if known is None or known.rule != rule or known.identity != identity(status):
            return None
        self._now[path] = known
        return known

    def add(self, path: bytes, status: os.stat_result, known: _Known) -> None:
        """Keep a file, unless its next change might not show in the stat data."""
        if not is_fresh(status, time.time_ns()):
            self._now[path] = known

    def save(self) -> None:
        """Write the file; an error is ignored."""
        if self._now == self._before:
            return
        rules = list({known.rule: None for known in self._now.values()})
        numbers = {rule: number for number, rule in enumerate(rules)}
        files = [
            (
                *(path.decode("latin-1"), known.identity, numbers[known.rule], known.blob.decode()),
                known.converted and (known.converted.raw.decode(), *known.converted[1:]),
            )
            for path, known in self._now.items()
        ]
        document = {"worktree": self._worktree, "rules": rules, "files": files}
        data = json.dumps(document, separators=(",", ":")).encode("ascii")
        with suppress(OSError):
            disk.replace(self._path, _CACHE_HEADER + _checksum(data) + b"\n" + data)
            self._before = dict(self._now)

    def _load(self) -> dict[bytes, _Known]:
        header, _, data = disk.read_private(self._path).partition(b"\n")
        document = json.loads(data) if header == _CACHE_HEADER + _checksum(data) else {}
        if document.get("worktree") != self._worktree:
            return {}
        found = {}
        for path, status, rule, blob, raw in document["files"]:
            converted = raw and Converted(ObjectID(raw[0].encode()), *raw[1:])
            found[path.encode("latin-1")] = _Known(
                tuple(status), document["rules"][rule], ObjectID(blob.encode()), converted
            )
        return found


def _checksum(data: bytes) -> bytes:
    return sha256(data).hexdigest().encode()
