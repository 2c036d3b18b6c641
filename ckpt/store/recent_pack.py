# SPDX-License-Identifier: MIT
"""The pack of the last save, which the next one writes anew with its own objects in it.

A few objects in one pack take three flushes to be durable, loose ones two each, and every
loose one takes a block of the disk. But a repository with a pack for every save would make
git slow, and make it collect garbage. So a small pack of ours is copied into the next one,
byte for byte, and removed when that is durable and visible; what reads from it meanwhile
looks for the packs anew, as it does when git repacks.

`objects/info/ckpt-packs` names the pack, and those that it replaces, before it is visible:
the next save finds what a killed process left. It says nothing that is believed: a pack is
copied only if it is small and whole, and removed only if all that it holds is in the new
one. Any other pack is git's business.
"""

from __future__ import annotations

import os
import time
from binascii import hexlify
from contextlib import suppress

from ckpt import disk
from ckpt.patterns import lazy_pattern
from ckpt.store.pack_index import DamagedIndex, PackIndex
from ckpt.store.pack_writer import KEPT_BY_US

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from ckpt.store.object_format import ObjectFormat
    from ckpt.store.sharing import Sharing

LARGEST_COPIED = 1 << 18  # which takes a millisecond or two; more would be felt
_NAME = lazy_pattern(rb"pack-(?:[0-9a-f]{40}|[0-9a-f]{64})")
_MOST_NAMES = 64
_NO_DELTA = 4  # up to here, kinds of entries are kinds of objects
_SURELY_DEAD = 3600.0  # seconds, after which no save is about to give a pack its index or its ref
_LONGEST_GC = 12 * 3600.0
# Beside a pack, these say that git has something in mind with it.
_GIT_KEEPS = (".keep", ".promisor", ".bitmap", ".rev", ".mtimes")


class RecentPack:
    """A small pack with its index, held whole."""

    def __init__(self, stem: str, object_format: ObjectFormat) -> None:
        """OSError or DamagedIndex if it is not there, or cannot be copied."""
        length = object_format.oid_length
        data = _small_file(stem + ".pack")
        index = _small_file(stem + ".idx")
        body, checksum = data[:-length], data[-length:]
        if object_format.new_hash(body).digest() != checksum or body[:8] != b"PACK\0\0\0\2":
            raise DamagedIndex("a damaged pack")
        is_whole = object_format.new_hash(index[:-length]).digest() == index[-length:]
        if not is_whole or index[-2 * length : -length] != checksum:
            raise DamagedIndex("an index of another pack")
        self.size = len(data)
        self.entries = _entries(body, PackIndex(index, length).rows())


def _entries(body: bytes, rows: list[tuple[bytes, bytes, int]]) -> list[tuple[bytes, bytes, bytes]]:
    """The id, the checksum and the bytes of each entry; DamagedIndex if any is a delta."""
    rows.sort(key=lambda row: row[2])
    ends = [*(offset for _, _, offset in rows[1:]), len(body)]
    entries = [(i, crc, body[at:end]) for (i, crc, at), end in zip(rows, ends, strict=True)]
    if not all(entry and 0 < entry[0] >> 4 & 7 <= _NO_DELTA for _, _, entry in entries):
        raise DamagedIndex("a pack that is not ours")
    return entries


class RecentPacks:
    """The list of our packs in one object folder."""

    def __init__(self, path: str, object_format: ObjectFormat, sharing: Sharing) -> None:
        self._folder = os.path.join(path, "pack")
        self._list = os.path.join(path, "info", "ckpt-packs")
        self._gc_file = os.path.join(os.path.dirname(path), "gc.pid")
        self._format = object_format
        self._sharing = sharing
        self._names = self._read()

    def _read(self) -> list[str]:
        """The names in the list, but for those of packs that are gone."""
        try:
            with open(self._list, "rb") as file:
                names = file.read(1 << 12).split(b"\n")[:_MOST_NAMES]
        except OSError:
            return []
        known = [name.decode() for name in names if _NAME.fullmatch(name)]
        return [name for name in known if os.path.exists(self._stem(name) + ".pack")]

    def small(self) -> Iterator[RecentPack]:
        """The packs to be copied: nearly always one, more after saves at the same time."""
        for stem in map(self._stem, self._names):
            _release(stem + ".keep")
        if os.path.exists(os.path.join(self._folder, "multi-pack-index")) or self._is_gc_at_work():
            return
        left = LARGEST_COPIED
        for stem in map(self._stem, self._names):
            if any(os.path.exists(stem + extension) for extension in _GIT_KEEPS):
                continue
            with suppress(OSError, DamagedIndex):
                found = RecentPack(stem, self._format)
                left -= found.size
                if left >= 0:
                    yield found

    def announce(self, stem: str) -> None:
        """Write down a pack that is about to be visible."""
        name = os.path.basename(stem)
        self._names = [name, *(known for known in self._names if known != name)]
        with suppress(OSError):  # then it stays as it is
            self._write(self._names)

    def tidy(self, ids: Container[bytes]) -> None:
        """Remove packs whose objects are all in the one that was announced."""
        for name in self._names[1:] if not self._is_gc_at_work() else ():
            with suppress(OSError):
                self._remove(self._stem(name), ids)

    def _is_gc_at_work(self) -> bool:
        """A `git gc` gives up if a pack goes away under it; after half a day its file is one
        that was left, as git sees it."""
        try:
            began = os.stat(self._gc_file).st_mtime
        except OSError:
            return False
        return began > time.time() - _LONGEST_GC

    def _write(self, names: list[str]) -> None:
        temporary = os.path.join(self._folder, disk.temporary_name("tmp_ckpt_"))
        self._sharing.make_folders(os.path.dirname(self._list))
        fd = disk.create(temporary, 0o644)
        try:
            disk.write(fd, "".join(name + "\n" for name in names).encode(), temporary)
            self._sharing.adjust(temporary)
            disk.rename(temporary, self._list)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        finally:
            os.close(fd)

    def _remove(self, stem: str, ids: Container[bytes]) -> None:
        """The index first: without it nobody looks at a pack."""
        if any(os.path.exists(stem + extension) for extension in _GIT_KEEPS):
            return
        try:
            held = PackIndex(_small_file(stem + ".idx"), self._format.oid_length).rows()
        except DamagedIndex:
            return
        except FileNotFoundError:
            if os.stat(stem + ".pack").st_mtime < time.time() - _SURELY_DEAD:
                disk.unlink(stem + ".pack")
            return
        if all(hexlify(raw_id) in ids for raw_id, _, _ in held):
            disk.unlink(stem + ".idx")
            disk.unlink(stem + ".pack")

    def _stem(self, name: str) -> str:
        return os.path.join(self._folder, name)


def _release(keep: str) -> None:
    """Take away what a killed process left."""
    with suppress(OSError):
        if os.stat(keep).st_mtime < time.time() - _SURELY_DEAD:
            with open(keep, "rb") as file:
                is_ours = file.read() == KEPT_BY_US
            if is_ours:
                disk.unlink(keep)


def _small_file(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        data = os.read(fd, LARGEST_COPIED + 1)
    finally:
        os.close(fd)
    if len(data) > LARGEST_COPIED:
        raise DamagedIndex("too large to be copied")
    return data
