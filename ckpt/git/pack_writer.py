# SPDX-License-Identifier: MIT
"""Many new objects in one pack, written as they come.

Contents are compressed and appended to a temporary file; memory holds an id and an offset
for each. `finish` writes the index, makes both durable, and only then gives them their names:
first the pack, then the index, without which nobody looks at a pack. A save makes no deltas,
for it cannot wait; who repacks brings them along.
"""

from __future__ import annotations

import os
import time
import zlib
from binascii import unhexlify
from collections.abc import Callable, KeysView
from contextlib import suppress
from struct import pack

from ckpt import disk
from ckpt.git.formats import ObjectFormat
from ckpt.git.loose import DamagedObject
from ckpt.git.packs import KINDS, parse_entry
from ckpt.git.streams import level_of
from ckpt.git.temporaries import (
    KEPT_BY_US,
    TEMPORARY_INDEX,
    TEMPORARY_PACK,
    Temporaries,
    is_keep_of_ours,
    needless_files,
    noted_packs,
)
from ckpt.locks import Sharing

_BLOCK = 16
_LONGEST_COPY = 0xFFFFFF
_LONGEST_INSERT = 0x7F
_FURTHEST = 1 << 32  # a copy names where it begins with four bytes
_STEPS = (1 << 16, 1 << 12, 1 << 8, 1 << 4, 1)


def make_delta(base: bytes, content: bytes) -> bytes:
    """The instructions that make `content` of `base`, which `apply_delta` follows."""
    parts = [_varint(len(base)), _varint(len(content))]
    done = 0
    for start, begin, length in _matches(base, content):
        parts += _inserts(content[done:begin])
        parts += _copies(start, length)
        done = begin + length
    parts += _inserts(content[done:])
    return b"".join(parts)


def _matches(base: bytes, content: bytes) -> list[tuple[int, int, int]]:
    """(where in the base, where in the content, how long), in the order of the content."""
    known = _blocks(base)
    found: list[tuple[int, int, int]] = []
    done = at = 0
    last = len(content) - _BLOCK
    while at <= last:
        start = known.get(content[at : at + _BLOCK])
        if start is None:
            at += 1
            continue
        back = _common_end(base[max(0, start - at + done) : start], content[done:at])
        length = back + _common_start(base, start, content, at)
        found.append((start - back, at - back, length))
        done = at = at - back + length
    return found


def _blocks(base: bytes) -> dict[bytes, int]:
    """Where each block is; of equal ones the first, from which a match goes furthest."""
    known: dict[bytes, int] = {}
    for at in range(0, min(len(base), _FURTHEST) - _BLOCK + 1, _BLOCK):
        known.setdefault(base[at : at + _BLOCK], at)
    return known


def _common_start(left: bytes, at: int, right: bytes, begin: int) -> int:
    """How many bytes are equal from these places on."""
    length = 0
    for step in _STEPS:
        while True:
            one = left[at + length : at + length + step]
            if len(one) < step or one != right[begin + length : begin + length + step]:
                break
            length += step
    return length


def _common_end(left: bytes, right: bytes) -> int:
    """How many bytes are equal at the ends."""
    return _common_start(left[::-1], 0, right[::-1], 0)


def _inserts(data: bytes) -> list[bytes]:
    pieces = [data[at : at + _LONGEST_INSERT] for at in range(0, len(data), _LONGEST_INSERT)]
    return [part for piece in pieces for part in (bytes([len(piece)]), piece)]


def _copies(start: int, length: int) -> list[bytes]:
    parts = []
    while length:
        taken = min(length, _LONGEST_COPY)
        parts.append(_copy(start, taken))
        start, length = start + taken, length - taken
    return parts


def _copy(start: int, length: int) -> bytes:
    """One instruction: a bit for each byte of the two numbers that is not zero, and these."""
    code, numbers = 0x80, bytearray()
    for bit, byte in enumerate(start.to_bytes(4, "little") + length.to_bytes(3, "little")):
        if byte:
            code |= 1 << bit
            numbers.append(byte)
    return bytes([code]) + bytes(numbers)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


# -- Many new objects in one pack, written as they come

_DELTA = 6  # on an object before it in the same pack
_NUMBERS = {kind: number for number, kind in KINDS.items()}
_SURELY_DEAD = 3600.0  # seconds, after which nobody is about to make a ref
_HEADER = b"PACK\0\0\0\2"
_BUFFER = 1 << 20
_FAR = 0x80000000  # where offsets no longer fit into 31 bits


class PackWriter:
    """A pack that grows; `finish` or `discard` ends it."""

    def __init__(
        self,
        objects: str,
        object_format: ObjectFormat,
        sharing: Sharing,
        temporaries: Temporaries,
    ) -> None:
        self._folder = folder = os.path.join(objects, "pack")
        self._format = object_format
        self._sharing = sharing
        self._temporaries = temporaries
        self._path = os.path.join(folder, temporaries.name(TEMPORARY_PACK))
        self._folders = [folder]
        # Not named after its content: two processes with the same never meet.
        self.stem = os.path.join(folder, f"pack-{os.urandom(object_format.oid_length).hex()}")
        temporaries.note_pack(self.stem)
        try:
            self._fd = disk.create(self._path, 0o444)
        except FileNotFoundError:
            sharing.make_folders(folder)
            self._folders.append(objects)
            self._fd = disk.create(self._path, 0o444)
        self._reading = -1
        self._buffer = bytearray(_HEADER + bytes(4))
        self._written = 0
        self._offsets: dict[bytes, int] = {}
        self._checksums = bytearray()

    def __contains__(self, object_id: bytes) -> bool:
        return object_id in self._offsets

    def ids(self) -> KeysView[bytes]:
        return self._offsets.keys()

    def size(self) -> int:
        """How many bytes there are so far."""
        return self._written + len(self._buffer)

    def add(self, object_id: bytes, kind: bytes, data: bytes, level: int | None = None) -> None:
        if object_id in self._offsets:
            return
        level = level_of(len(data)) if level is None else level
        self._append(
            object_id, entry_header(_NUMBERS[kind], len(data)) + zlib.compress(data, level)
        )

    def add_delta(self, object_id: bytes, base_id: bytes, delta: bytes) -> None:
        """Add what a delta makes of an object that is here. It cannot be read before `finish`."""
        if object_id in self._offsets:
            return
        self._make_room()
        distance = self.size() - self._offsets[base_id]
        self._append(
            object_id,
            entry_header(_DELTA, len(delta)) + distance_bytes(distance) + zlib.compress(delta, 6),
        )

    def _append(self, object_id: bytes, entry: bytes) -> None:
        self._make_room()
        self._offsets[object_id] = self.size()
        self._checksums += zlib.crc32(entry).to_bytes(4, "big")
        self._buffer += entry

    def _make_room(self) -> None:
        if len(self._buffer) >= _BUFFER:
            self._write_out()

    def _write_out(self) -> None:
        os.lseek(self._fd, self._written, os.SEEK_SET)  # the last try may have failed half way
        disk.write(self._fd, bytes(self._buffer))
        self._written += len(self._buffer)
        self._buffer.clear()

    # -- reading what is not finished ------------------------------------------

    def header(self, object_id: bytes) -> tuple[bytes, int]:
        """Kind and size of an object."""
        offset = self._offsets[object_id]
        number, size, _, _ = parse_entry(self._bytes(offset, 32), offset, 0)
        return KINDS[number], size

    def read(self, object_id: bytes) -> tuple[bytes, bytes]:
        """Kind and content of an object."""
        offset = self._offsets[object_id]
        length = 64
        while True:
            data = self._bytes(offset, length)
            number, size, start, _ = parse_entry(data, offset, 0)
            unpacker = zlib.decompressobj()
            try:
                content = unpacker.decompress(data[start - offset :], size + 1)
            except zlib.error as error:
                raise DamagedObject(str(error)) from error
            if unpacker.eof:
                return KINDS[number], content
            if len(data) < length:
                raise DamagedObject("an entry that was cut off")
            length = 2 * max(length, size)

    def _bytes(self, offset: int, length: int) -> bytes:
        if offset >= self._written:
            return bytes(self._buffer[offset - self._written :][:length])
        if self._reading < 0:
            self._reading = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        data = os.pread(self._reading, length, offset)
        return data + bytes(self._buffer[: length - len(data)])

    # -- the end ---------------------------------------------------------------

    def finish(self, check: Callable[[str, str], None] | None = None) -> None:
        """Make the pack durable and visible; if this fails, it can be tried again.

        `check` gets the paths of the pack and its index before anybody else can see them.
        """
        checksum = self._complete()
        index = os.path.join(self._folder, self._temporaries.name(TEMPORARY_INDEX))
        try:
            self._write_index(index, checksum)
            if check is not None:
                check(self._path, index)
            self._keep()
            disk.rename(self._path, self.stem + ".pack")
            self._path = self.stem + ".pack"
            disk.rename(index, self.stem + ".idx")
        except BaseException:
            disk.discard(index)
            raise
        self._close()
        disk.fsync_dirs(self._folders)
        release_left_over(self._folder)

    def _keep(self) -> None:
        """A `git repack -a -d` drops what no ref names yet, unless the pack is kept."""
        with suppress(FileExistsError):
            fd = disk.create(self.stem + ".keep", 0o444)
            try:
                disk.write(fd, KEPT_BY_US)
                self._sharing.adjust(self.stem + ".keep")
            finally:
                os.close(fd)

    def release(self) -> None:
        """Let git repack the pack: what it holds is named by now, or not needed."""
        with suppress(FileNotFoundError):
            disk.unlink(self.stem + ".keep")

    def _complete(self) -> bytes:
        """Fill in how many objects there are, append the checksum, and flush."""
        self._write_out()
        count = len(self._offsets).to_bytes(4, "big")
        os.lseek(self._fd, 8, os.SEEK_SET)
        disk.write(self._fd, count)
        digest = self._format.new_hash()
        for position in range(0, self._written, _BUFFER):
            digest.update(self._bytes(position, min(_BUFFER, self._written - position)))
        os.lseek(self._fd, self._written, os.SEEK_SET)
        disk.write(self._fd, digest.digest())
        self._sharing.adjust(self._path)
        disk.fsync(self._fd)
        return bytes(digest.digest())

    def _write_index(self, path: str, checksum: bytes) -> None:
        data = _index(self._offsets, self._checksums, checksum)
        data += self._format.new_hash(data).digest()
        fd = disk.create(path, 0o444)
        try:
            disk.write(fd, data)
            self._sharing.adjust(path)
            disk.fsync(fd)
        finally:
            os.close(fd)

    def discard(self) -> None:
        """Leave nothing behind. A pack with an index is visible, and stays."""
        self._close()
        if not os.path.exists(self.stem + ".idx"):
            disk.discard(self._path)
        self.release()

    def _close(self) -> None:
        for fd in (self._fd, self._reading):
            if fd >= 0:
                os.close(fd)
        self._fd = self._reading = -1


def release_left_over(folder: str) -> list[str]:
    """Let git have the packs of processes that were killed before they could say so, and take
    those away that never got an index; returns the files that went."""
    removed = []
    living = noted_packs(os.path.dirname(folder))
    for name in os.listdir(folder):
        keep, stem = os.path.join(folder, name), name.removesuffix(".keep")
        if stem != name and stem not in living:
            with suppress(OSError):
                is_old = os.stat(keep).st_mtime < time.time() - _SURELY_DEAD
                if is_old and is_keep_of_ours(keep):
                    removed += _release(os.path.join(folder, stem))
    return removed


def is_kept_by_us(pack: str) -> bool:
    """Whether a process of ours keeps a pack from git, or died before it let go of it."""
    return is_keep_of_ours(pack.removesuffix(".pack") + ".keep")


def _release(stem: str) -> list[str]:
    gone = [*needless_files(stem)]
    for path in gone:
        disk.unlink(path)
    return gone


def entry_header(number: int, size: int) -> bytes:
    first, size = number << 4 | size & 15, size >> 4
    header = bytearray()
    while size:
        header.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    header.append(first)
    return bytes(header)


def distance_bytes(distance: int) -> bytes:
    """How far before a delta its base is, as an entry says it."""
    parts = bytearray([distance & 0x7F])
    while distance > 0x7F:
        distance = (distance >> 7) - 1
        parts.append(0x80 | distance & 0x7F)
    return bytes(reversed(parts))


def _index(offsets: dict[bytes, int], checksums: bytes | bytearray, pack_id: bytes) -> bytes:
    """An index of version 2, but for the checksum at its end."""
    raw_ids, places = list(map(unhexlify, offsets)), list(offsets.values())
    order = sorted(range(len(raw_ids)), key=raw_ids.__getitem__)
    far = [places[n] for n in order if places[n] >= _FAR]
    far_rows = {offset: _FAR | n for n, offset in enumerate(far)}
    return b"".join(
        (
            b"\xfftOc\0\0\0\2",
            _fan_out(raw_ids),
            b"".join([raw_ids[n] for n in order]),
            b"".join([checksums[4 * n : 4 * n + 4] for n in order]),
            pack(f">{len(order)}I", *[far_rows.get(places[n], places[n]) for n in order]),
            pack(f">{len(far)}Q", *far),
            pack_id,
        )
    )


def _fan_out(raw_ids: list[bytes]) -> bytes:
    """For each first byte, how many ids there are up to it."""
    counts, total = [0] * 256, 0
    for raw_id in raw_ids:
        counts[raw_id[0]] += 1
    sums = []
    for count in counts:
        total += count
        sums.append(total)
    return pack(">256I", *sums)
