# SPDX-License-Identifier: MIT
"""The scan cache: what the last save found, so that the next one looks only at what changed.

A private file of the worktree (`scan` in `<git dir>/ckpt`), written after the checkpoint that
holds every object it names, and valid only while that checkpoint is there. A damaged one, or
one of another format or folder, is thrown away: `marshal` must not see bytes that others made,
so it is read only if it names this very folder by what no archive can know of it. Not written
after every small change: what it does not know is read again.
"""

from __future__ import annotations

import marshal
import os
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha1
from typing import Any, NamedTuple

from ckpt import disk
from ckpt.disk import LARGE
from ckpt.engine.catalog import still_holds
from ckpt.engine.reading import NEVER, Clock
from ckpt.engine.summary import Compared
from ckpt.git.formats import ObjectID
from ckpt.git.index import SKIP_WORKTREE, STAGE, Staged
from ckpt.git.repository import Repository
from ckpt.git.trees import TreeEntry
from ckpt.models import Checkpoint
from ckpt.paths import folders_above
from ckpt.worktree.cache import Chunk, Listings, Note
from ckpt.worktree.scan import dates_folders

# -- what a save needs to know of git's index if that is the same as last time

_MODE = slice(24, 28)
_GITLINK = (0o160000).to_bytes(4, "big")
_ATTRIBUTES = b".gitattributes"

Identity = tuple[int, int, int, int, bytes]


class IndexFacts(NamedTuple):
    """`tracked` are the sorted paths, joined by NUL; `is_sparse` if some entries are marked
    skip-worktree. `state` are the entries for this index in a state tree, once written."""

    identity: Identity | None
    mtime_ns: int | None
    tracked: bytes
    gitlinks: dict[bytes, bytes]
    attributes: dict[bytes, bytes]
    is_sparse: bool
    state: dict[bytes, tuple[int, bytes]] | None = None

    def plain(self) -> tuple[Any, ...]:
        """Return the same as data that `marshal` takes."""
        return (
            self.identity,
            self.mtime_ns,
            self.tracked,
            self.gitlinks,
            self.attributes,
            self.is_sparse,
            self.state,
        )

    def paths(self) -> tuple[bytes, ...]:
        return tuple(self.tracked.split(b"\0")) if self.tracked else ()

    def state_entries(self) -> dict[bytes, TreeEntry]:
        assert self.state is not None, "written by every capture"
        return {name: TreeEntry(mode, ObjectID(id)) for name, (mode, id) in self.state.items()}

    def with_state(self, state: Mapping[bytes, TreeEntry]) -> IndexFacts:
        return self._replace(state={name: (e.mode, e.id) for name, e in state.items()})


def facts_of(staged: Staged, identity: Identity | None) -> IndexFacts:
    entries = staged.index.entries
    gitlinks = {e.path: e.id for e in entries if e.stat[_MODE] == _GITLINK}
    tracked = [e.path for e in entries]  # sorted as it is
    if gitlinks or any(e.flags & STAGE for e in entries):
        tracked = sorted({*tracked} - gitlinks.keys())
    return IndexFacts(
        identity=identity,
        mtime_ns=staged.mtime_ns,
        tracked=b"\0".join(tracked),
        gitlinks=gitlinks,
        attributes={e.path: e.id for e in entries if e.path.endswith(_ATTRIBUTES) and not e.stage},
        is_sparse=any(entry.flags & SKIP_WORKTREE for entry in entries),
    )


def index_identity(repo: Repository) -> Identity | None:
    """Return what changes whenever git writes the index; None if there is no index.

    Git puts a new file in its place each time, which ends in a checksum of its own.
    """
    try:
        fd = disk.opened(repo.index_path)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        length = repo.object_format.oid_length
        end = os.pread(fd, length, max(status.st_size - length, 0))
        if not any(end) and status.st_size <= disk.LARGE:  # index.skipHash
            end = repo.object_format.new_hash(os.pread(fd, status.st_size, 0)).digest()
    finally:
        os.close(fd)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, end


def doubtful_folders(before: IndexFacts, now: IndexFacts) -> set[bytes]:
    """Return the folders in which other paths are tracked than before, and all above them."""
    if before.tracked == now.tracked and before.gitlinks == now.gitlinks:
        return set()
    paths = {*before.paths()} ^ {*now.paths()}
    paths |= before.gitlinks.keys() ^ now.gitlinks.keys()
    return {folder for path in paths for folder in (b"", *folders_above(path))}


# -- the cache

_NAME = "scan"
_ANY_FORMAT = b"ckpt scan "
_MAGIC = _ANY_FORMAT + b"8\n"
_START = len(_MAGIC) + 32  # bytes: whose it is, its length and its checksum
_MARSHAL = 4
_ONE_IN = 400  # paths that must have changed for the file to be written again


@dataclass(frozen=True)
class ScanCache:
    """`rules` and `attributes` stand for all that the listings follow from besides the disk and
    the index; `tree` is that of the checkpoint `holder`, whose state commit is `state`.
    `compared` is for `summary` alone."""

    rules: bytes
    attributes: bytes
    index: IndexFacts
    chunks: list[Chunk]
    holder: str = ""
    tree: bytes = b""
    state: bytes = b""
    compared: Compared | None = None
    unwritten: int = 0

    def notes(self) -> list[Note]:
        return [note for chunk in self.chunks for note in chunk.summary.notes]

    def listings(self) -> Listings:
        return Listings(self.chunks)


def load(repo: Repository) -> ScanCache | None:
    """Return the cache of a worktree, if a checkpoint holds all that it names."""
    cache = repo.kept.get(_NAME)
    if not isinstance(cache, ScanCache):
        cache = _read(repo)
    if cache is None or not is_held(repo, cache):
        forget(repo)
        return None
    repo.kept[_NAME] = cache
    return cache


def forget(repo: Repository) -> None:
    """Let the next capture start from nothing."""
    repo.kept.pop(_NAME, None)
    with suppress(OSError):
        disk.unlink(path_of(repo))


def is_damaged(repo: Repository) -> bool:
    """Tell whether there is a cache file that no version of ckpt has written."""
    try:
        data = disk.read_private(path_of(repo), most=LARGE)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    is_of_another_format = data.startswith(_ANY_FORMAT) and not data.startswith(_MAGIC)
    return not is_of_another_format and not _is_whole(data[:_START], memoryview(data)[_START:])


def is_held(repo: Repository, cache: ScanCache) -> bool:
    """Tell whether the checkpoint is still there that holds the objects."""
    return still_holds(repo, cache.holder, cache.tree, cache.state)


def held_by(cache: ScanCache, holder: Checkpoint) -> ScanCache:
    """Return the cache with another checkpoint that holds its objects."""
    return replace(
        cache,
        holder=holder.id,
        tree=ObjectID(holder.tree.encode()),
        state=ObjectID(holder.state_commit.encode()),
    )


def clock(repo: Repository) -> Clock:
    """Return the time by the clock of the file system, which may be another machine's."""
    try:
        path = os.path.join(repo.private_dir, "lock")
        disk.utime(path)
        began = min(os.stat(path).st_mtime_ns, time.time_ns())
        return Clock(began, os.stat(repo.worktree).st_dev if _dates_folders(repo) else None)
    except OSError:
        return NEVER


def _dates_folders(repo: Repository) -> bool:
    """Ask once in a process."""
    known = repo.kept.get("dates folders")
    if known is None:
        known = repo.kept["dates folders"] = dates_folders(repo.worktree)
    return bool(known)


def store(repo: Repository, found: ScanCache, holder: Checkpoint) -> None:
    """Keep what a save found; that it cannot be written is no error."""
    cache = held_by(found, holder)
    paths = sum(chunk.paths.count(b"\0") + 1 for chunk in cache.chunks)
    path = path_of(repo)
    if cache.unwritten > paths // _ONE_IN:
        with suppress(OSError):
            disk.replace_cache(path, _dump(repo, cache))
            cache = replace(cache, unwritten=0)
    repo.kept[_NAME] = cache


def path_of(repo: Repository) -> str:
    return os.path.join(repo.private_dir, _NAME)


def _identity(repo: Repository) -> bytes:
    """Return what tells this worktree from a copy of it."""
    status = os.stat(repo.worktree)
    place = repo.worktree, repo.git_dir, status.st_dev, status.st_ino, repo.object_format.name
    return sha1(ascii(place).encode()).digest()


def _dump(repo: Repository, cache: ScanCache) -> list[bytes]:
    document: Any = (
        cache.rules,
        cache.attributes,
        cache.index.plain(),
        [chunk.plain() for chunk in cache.chunks],
        cache.holder,
        cache.tree,
        cache.state,
        cache.compared and cache.compared.plain(),
    )
    body = marshal.dumps(document, _MARSHAL)
    return [_MAGIC, _identity(repo), _checksum(body), body]


def _read(repo: Repository) -> ScanCache | None:
    try:
        # One that others can read is made anew, and so closed.
        with open(disk.opened_private(path_of(repo), disk.OPEN, LARGE), "rb") as file:
            head = file.read(_START)
            if not head.startswith(_MAGIC + _identity(repo)):
                return None
            body = file.read()
    except OSError:
        return None
    if not _is_whole(head, body):
        return None
    rules, attributes, index, chunks, holder, tree, state, compared = marshal.loads(body)
    return ScanCache(
        rules=rules,
        attributes=attributes,
        index=IndexFacts(*index),
        chunks=[*map(Chunk.of, chunks)],
        holder=holder,
        tree=ObjectID(tree),
        state=ObjectID(state),
        compared=compared and Compared.of(compared),
    )


def _is_whole(head: bytes, body: bytes | memoryview) -> bool:
    """Tell whether a cache file has all its bytes: `marshal` must not see damaged ones."""
    return head.startswith(_MAGIC) and head.endswith(_checksum(body)) and len(head) == _START


def _checksum(body: bytes | memoryview) -> bytes:
    return len(body).to_bytes(8, "big") + zlib.crc32(body).to_bytes(4, "big")
