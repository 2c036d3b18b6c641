# SPDX-License-Identifier: MIT
"""The scan cache: the result of the last save, so that the next one reads only what changed.

A private file, valid while the checkpoint that holds its objects exists. A corrupt one, or one of
another format or worktree, is discarded: its header identifies the worktree by data that an
archive cannot know, as `marshal` must not load untrusted bytes. The file is not rewritten after
small changes: the next save reads those files again.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
import zlib
from contextlib import suppress
from functools import partial
from hashlib import sha1
from typing import Any, NamedTuple

from ckpt import disk
from ckpt.engine.catalog import still_holds
from ckpt.git.index import SKIP_WORKTREE, STAGE, Index, write_state
from ckpt.git.objects import ObjectStore
from ckpt.git.repository import Repository
from ckpt.models import Checkpoint
from ckpt.paths import folders_above
from ckpt.worktree.cache import Record, Records

# -- what a save needs of an unchanged index

_MODE = slice(24, 28)
_GITLINK = (0o160000).to_bytes(4, "big")

Identity = tuple[int, int, int, int, bytes]


class IndexFacts(NamedTuple):
    """`tracked` are the sorted paths, joined by NUL; `is_sparse`: some entries are marked
    skip-worktree; `state` are the entries for this index in a state tree, once written."""

    identity: Identity | None
    tracked: bytes
    gitlinks: dict[bytes, bytes]
    is_sparse: bool
    state: dict[bytes, tuple[int, bytes]] | None = None

    def paths(self) -> tuple[bytes, ...]:
        return tuple(self.tracked.split(b"\0")) if self.tracked else ()


def facts_of(staged: Index, identity: Identity | None) -> IndexFacts:
    entries = staged.entries
    gitlinks = {e.path: e.id for e in entries if e.stat[_MODE] == _GITLINK}
    tracked = [e.path for e in entries]  # already sorted
    if gitlinks or any(e.flags & STAGE for e in entries):
        tracked = sorted({*tracked} - gitlinks.keys())
    return IndexFacts(
        identity=identity,
        tracked=b"\0".join(tracked),
        gitlinks=gitlinks,
        is_sparse=any(entry.flags & SKIP_WORKTREE for entry in entries),
    )


def with_state(objects: ObjectStore, facts: IndexFacts, staged: Index) -> IndexFacts:
    """Write the index's part of a state tree; the files come first, as it may name their blobs."""
    state = write_state(objects, staged).items()
    return facts._replace(state={name: (entry.mode, entry.id) for name, entry in state})


def index_identity(repo: Repository) -> Identity | None:
    """Return the index file's stat data and checksum (zeros with index.skipHash), which change
    whenever git writes it; None without a file."""
    try:
        with open(disk.opened(repo.index_path), "rb", buffering=0) as file:
            status, length = os.fstat(file.fileno()), repo.object_format.oid_length
            end = os.pread(file.fileno(), length, max(status.st_size - length, 0))
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, end


def doubtful_folders(before: IndexFacts, now: IndexFacts) -> set[bytes]:
    """Return the directories whose tracked paths have changed, and their parents."""
    if before.tracked == now.tracked and before.gitlinks == now.gitlinks:
        return set()
    paths = {*before.paths()} ^ {*now.paths()}
    paths |= before.gitlinks.keys() ^ now.gitlinks.keys()
    return {folder for path in paths for folder in (b"", *folders_above(path))}


# -- when stat data can be relied on

_TICK = 100_000_000
_COARSE_TICK = 2_000_000_000  # where times are whole seconds
_SECOND = 1_000_000_000
_EARLIEST = -(1 << 63)  # nanoseconds, the limit of a record; older files are not cached


class Clock(NamedTuple):
    """Decides which stat data are reliable. `began` is by the clock of the file system; only on
    `device` do the times of directories show changes to the names in them."""

    began: int
    device: int | None = None

    def is_settled(self, status: os.stat_result) -> bool:
        """Return whether a change made since the scan began will show in the stat data."""
        mtime, ctime = status.st_mtime_ns, status.st_ctime_ns
        tick = _TICK if ctime % _SECOND else _COARSE_TICK
        return _EARLIEST < mtime < self.began - tick and ctime < self.began - tick

    def is_settled_folder(self, status: os.stat_result) -> bool:
        """Return the same for a directory, in which names may change."""
        return status.st_dev == self.device and self.is_settled(status)


# Nothing is ever settled, so nothing is cached.
NEVER = Clock(0)


def clock(repo: Repository) -> Clock:
    """Return a clock set by the file system, which may be on another machine."""
    try:
        path = os.path.join(repo.private_dir, "lock")
        os.utime(path)
        began = min(os.stat(path).st_mtime_ns, time.time_ns())
        if "device" not in repo.kept:  # once per process
            is_dated = dates_folders(repo.worktree)
            repo.kept["device"] = os.stat(repo.worktree).st_dev if is_dated else None
        device = repo.kept["device"]
        return Clock(began, device if isinstance(device, int) else None)
    except OSError:
        return NEVER


_TABLE = "/proc/self/mountinfo"
_RELIABLE = frozenset(
    b"bcachefs btrfs ext2 ext3 ext4 f2fs jfs nfs nfs4 overlay ramfs reiserfs tmpfs xfs zfs".split()
)


def dates_folders(folder: str) -> bool:
    """Return whether the file system updates a directory's times when names in it change."""
    if not sys.platform.startswith("linux"):
        return sys.platform == "darwin"
    try:
        with open(_TABLE, "rb") as file:
            table = file.read()
    except OSError:
        return False
    place = os.fsencode(os.path.realpath(folder)) + b"/"
    for special in b"\\ \t\n":  # escaped as in the table
        place = place.replace(bytes([special]), b"\\%03o" % special)
    kind, longest = b"", 0
    for line in table.splitlines():
        fields, _, behind = line.partition(b" - ")
        mount = fields.split(b" ")[4]
        if len(mount) >= longest and place.startswith(mount.rstrip(b"/") + b"/"):
            kind, longest = behind.split(b" ")[0], len(mount)
    return kind in _RELIABLE


# -- the cache

_NAME = "scan"
_IN_FILE = "scan in file"  # as last written to the file
_MAGIC = b"ckpt scan 17\n"
_START = len(_MAGIC) + 20 + 8  # bytes: format, worktree and checksum
_MARSHAL = 4
_ONE_IN = 20  # directories that must have changed for the file to be rewritten


class ScanCache(NamedTuple):
    """`rules` and `attributes` are fingerprints of what the records depend on besides the disk and
    the index; with empty rules, they depend on more. `holder` is the id, the tree and the state
    commit of the checkpoint with all objects. `compared` belongs to `snapshot`."""

    rules: bytes
    attributes: bytes
    index: IndexFacts  # type: ignore[assignment]  # tuple.index is not needed
    records: Records
    compared: tuple[Any, ...] | None = None
    holder: tuple[str, bytes, bytes] = ("", b"", b"")


def load(repo: Repository) -> ScanCache | None:
    """Return the cache of a worktree if a checkpoint holds its objects."""
    cache = repo.kept.get(_NAME)
    if not isinstance(cache, ScanCache):
        cache = repo.kept[_IN_FILE] = _read(repo)
    if cache is None or not is_held(repo, cache):
        forget(repo)
        return None
    repo.kept[_NAME] = cache
    return cache


def forget(repo: Repository) -> None:
    """Remove the cache, so that the next capture starts from nothing."""
    repo.kept.pop(_NAME, None)
    repo.kept.pop(_IN_FILE, None)
    with suppress(OSError):
        os.unlink(path_of(repo))


def is_held(repo: Repository, cache: ScanCache | None) -> bool:
    """Return whether the checkpoint that holds a cache's objects still exists."""
    return cache is None or still_holds(repo, *cache.holder)


def held_by(cache: ScanCache, holder: Checkpoint) -> ScanCache:
    """Return the cache with another checkpoint as its holder."""
    return cache._replace(holder=(holder.id, holder.tree.encode(), holder.state_commit.encode()))


def store(repo: Repository, found: ScanCache, holder: Checkpoint) -> None:
    """Keep the result of a save, ignoring write errors."""
    cache = repo.kept[_NAME] = held_by(found, holder)
    before = repo.kept.get(_IN_FILE)
    if isinstance(before, ScanCache) and before.index == cache.index:
        then = before.records
        changed = [p for p, record in cache.records.items() if then.get(p) is not record]
        if len(changed) <= len(then) // _ONE_IN and len(then) == len(cache.records):
            return
    with suppress(OSError):
        disk.replace(path_of(repo), *_dump(repo, cache), durable=False)
        repo.kept[_IN_FILE] = cache


def path_of(repo: Repository) -> str:
    return os.path.join(repo.private_dir, _NAME)


def _dump(repo: Repository, cache: ScanCache) -> list[bytes]:
    rules, attributes, index, records, *rest = cache
    rows = [*map(tuple, records.values())]
    body = marshal.dumps((rules, attributes, tuple(index), rows, *rest), _MARSHAL)
    return [_head(repo, body), body]


def _read(repo: Repository) -> ScanCache | None:
    try:
        # A file that others can read is refused, and rewritten as a private one.
        data = memoryview(disk.read_private(path_of(repo), disk.OPEN))
    except OSError:
        return None
    head, body = data[:_START], data[_START:]
    if head != _head(repo, body):
        return None
    rules, attributes, index, rows, *rest = marshal.loads(body)
    records = {record.path: record for record in map(partial(tuple.__new__, Record), rows)}
    return ScanCache(rules, attributes, IndexFacts._make(index), records, *rest)


def _head(repo: Repository, body: bytes | memoryview) -> bytes:
    """Return the header of a file with that body, for this worktree and no copy of it; `marshal`
    must load no other."""
    status = os.stat(repo.worktree)
    place = repo.worktree, repo.git_dir, status.st_dev, status.st_ino, repo.object_format.name
    return _MAGIC + sha1(ascii(place).encode()).digest() + b"%08x" % zlib.crc32(body)
