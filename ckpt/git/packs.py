# SPDX-License-Identifier: MIT
"""Objects in packs, read by ourselves.

dulwich reads packs well, but takes half of the time of a whole save to be imported, and a
save asks for few objects. Here a pack is opened when something is read from it. `git gc`
may take it away at any moment: what cannot be read any more is DamagedObject, and whoever
asked looks for the packs anew.

Contents are not checked against their ids here. They are as long as they say, no delta
leads round in a circle, and what deltas are based on is kept up to a bound.
"""

from __future__ import annotations

import mmap
import os
import time
import zlib
from binascii import hexlify
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from struct import Struct, calcsize, unpack, unpack_from
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ckpt import disk
from ckpt.errors import is_want
from ckpt.git.formats import ObjectFormat
from ckpt.git.loose import LARGEST, LARGEST_WHOLE, DamagedObject, loose_path, read_loose

if TYPE_CHECKING:

    class Index(Protocol):
        """What is asked of the index of one pack."""

        def find(self, raw_id: bytes) -> int | None: ...
        def find_many(self, raw_ids: Iterable[bytes]) -> dict[int, bytes]: ...
        def between(self, low: bytes, high: bytes) -> Iterator[bytes]: ...
        def offsets(self) -> Iterator[int]: ...

    Object = tuple[bytes, bytes]
    Link: TypeAlias = "tuple[Pack, int, Entry, bytes]"

KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_OFS_DELTA, _REF_DELTA = 6, 7

# Enough of an entry for its header, an id, and the two sizes that a delta begins with: how
# a zlib stream is coded takes up to 290 bytes before the first of its own.
HEAD_LENGTH = 512
BOTH_SIZES = 64
_COPY_EVERYTHING = 0x10000
_LONGEST_NUMBER = 63  # in bits

# (number of its kind, how much it inflates to, where in the pack that begins, the base)
Entry = tuple[int, int, int, "int | bytes | None"]


def parse_entry(data: bytes, offset: int, id_length: int, at: int = 0) -> Entry:
    """The entry at `offset` of a pack, from the bytes at `at`."""
    try:
        byte = data[at]
        kind, size, shift, position = byte >> 4 & 7, byte & 15, 4, at + 1
        while byte & 0x80:
            byte = data[position]
            size |= (byte & 0x7F) << shift
            shift += 7
            position += 1
        base: int | bytes | None = None
        if kind == _REF_DELTA:
            base = data[position : position + id_length]
            position += id_length
        elif kind == _OFS_DELTA:
            distance, position = _distance(data, position)
            base = offset - distance
            if base >= offset:
                raise DamagedObject("a delta that comes before its base")
        elif kind not in KINDS:
            raise DamagedObject("an entry of an unknown kind")
    except IndexError:
        raise DamagedObject("an entry that was cut off") from None
    if size > LARGEST:
        raise DamagedObject("an impossible size")
    return kind, size, offset + position - at, base


def _distance(data: bytes, position: int) -> tuple[int, int]:
    """How far before a delta its base is, and where the next part begins."""
    byte = data[position]
    distance = byte & 0x7F
    while byte & 0x80:
        position += 1
        byte = data[position]
        distance = (distance + 1) << 7 | byte & 0x7F
    return distance, position + 1


def varint(data: bytes, position: int) -> tuple[int, int]:
    """A number as deltas have it, and where the next part begins."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
        if not byte & 0x80:
            return value, position
        if shift > _LONGEST_NUMBER:
            raise DamagedObject("an impossible size")


def object_size(data: bytes, at: int, id_length: int) -> int:
    """How large an object is, from the first bytes of its entry."""
    try:
        byte = data[at]
        if byte >> 4 & 7 not in KINDS:
            start = parse_entry(data, len(data), id_length, at)[2] - len(data) + at
            return _made_by(data[start : start + HEAD_LENGTH])
        size, shift = byte & 15, 4
        while byte & 0x80:
            at += 1
            byte = data[at]
            size |= (byte & 0x7F) << shift
            shift += 7
    except IndexError:
        raise DamagedObject("an entry that was cut off") from None
    return size


def _made_by(compressed: bytes) -> int:
    """How much a delta makes, from the first bytes of its stream."""
    try:
        return announced(zlib.decompressobj().decompress(compressed, BOTH_SIZES))[1]
    except zlib.error as error:
        raise DamagedObject("a damaged delta") from error


def announced(delta: bytes) -> tuple[int, int]:
    """The two sizes that a delta begins with: of its base, and of what it makes."""
    base, position = varint(delta, 0)
    return base, varint(delta, position)[0]


def copy_instruction(data: bytes, position: int, code: int) -> tuple[int, int, int]:
    """(where the part of the base begins, its length, where the next instruction does)."""
    value = 0
    for bit in range(7):
        if code & 1 << bit:
            value |= data[position] << 8 * bit
            position += 1
    return value & 0xFFFFFFFF, value >> 32 or _COPY_EVERYTHING, position


def apply_delta(base: bytes, delta: bytes, most: int = LARGEST) -> bytes:
    """What the instructions of a delta make of its base, and no more than they announce."""
    try:
        base_size, position = varint(delta, 0)
        left, position = varint(delta, position)
        if base_size != len(base):
            raise DamagedObject("a delta for another base")
        if left > most:
            raise DamagedObject("a delta that makes too much")
        made = BytesIO()  # and no list, which of many small parts is many times as large
        while position < len(delta):
            code = delta[position]
            position += 1
            if code & 0x80:
                start, length, position = copy_instruction(delta, position, code)
                part = base[start : start + length]
            else:
                length = code
                part = delta[position : position + length]
                position += length
            left -= length
            if len(part) != length or not length or left < 0:
                raise DamagedObject("a delta that goes beyond its base or its end")
            made.write(part)
    except IndexError:
        raise DamagedObject("a delta that was cut off") from None
    if left:
        raise DamagedObject("a delta that makes too little")
    return made.getvalue()


# -- Where in a pack an object is: `.idx` files of version 2

_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_ANY_VERSION = _MAGIC[:4]
FAN_OUT = 4 * 256
FAR = 0x80000000  # the offset is in the table of 64-bit ones
_READ_AT_ONCE = 1 << 18  # smaller files are not mapped: a mapping takes a handle
_SPARSE = 24  # so many times more ids in a bucket than asked for: bisect them
_ROWS_AT_ONCE = 1 << 13
_NEAR = 64  # ids to either side of where one should be
U32, U64 = Struct(">I"), Struct(">Q")


class DamagedIndex(ValueError):
    """An index that cannot be right."""


class Table:
    """Sorted ids behind a fan-out table."""

    __slots__ = ("_data", "_fan_out", "_ids", "_length", "count")

    def __init__(self, data: bytes | mmap.mmap, fan_out: int, ids: int, length: int) -> None:
        self._data = data
        self._fan_out: tuple[int, ...] = unpack_from(">256I", data, fan_out)
        self._ids = ids
        self._length = length
        self.count: int = self._fan_out[255]
        if list(self._fan_out) != sorted(self._fan_out):
            raise DamagedIndex("a fan-out table that is not sorted")
        if ids + self.count * length > len(data):
            raise DamagedIndex("more ids than there is room for")

    def position(self, raw_id: bytes) -> int | None:
        """Ids are spread evenly: nearly always one is close to where it should be."""
        first, length = raw_id[0], self._length
        low = self._fan_out[first - 1] if first else 0
        high = self._fan_out[first]
        guess = low + ((high - low) * (raw_id[1] << 8 | raw_id[2]) >> 16)
        start = max(low, guess - _NEAR)
        near = self._data[
            self._ids + start * length : self._ids + min(high, guess + _NEAR) * length
        ]
        found = near.find(raw_id)
        if found >= 0 and found % length == 0:
            return start + found // length
        if found < 0 and near[:length] < raw_id < near[-length:]:
            return None
        at = self._first_from(raw_id)
        return at if at < high and self.id_at(at) == raw_id else None

    def id_at(self, position: int) -> bytes:
        start = self._ids + position * self._length
        return self._data[start : start + self._length]

    def rows(self, raw_ids: Iterable[bytes], table: int, row: str) -> Iterator[tuple[bytes, int]]:
        """Those of the ids that are there, each with its row of another table."""
        width = calcsize(row)
        for first, wanted in enumerate(_by_first_byte(raw_ids)):
            low = self._fan_out[first - 1] if first else 0
            high = self._fan_out[first]
            if high - low > _SPARSE * len(wanted):
                for raw_id in wanted:
                    at = self.position(raw_id)
                    if at is not None:
                        yield raw_id, unpack_from(row, self._data, table + at * width)[0]
            elif wanted:
                values = unpack(
                    f">{high - low}{row[1:]}",
                    self._data[table + low * width : table + high * width],
                )
                there = dict(zip(self._bucket(low, high), values, strict=True))
                yield from [(raw_id, there[raw_id]) for raw_id in wanted if raw_id in there]

    def _bucket(self, low: int, high: int) -> list[bytes]:
        ids, length = self._ids_from(low, high), self._length
        return [ids[at : at + length] for at in range(0, len(ids), length)]

    def _ids_from(self, low: int, high: int) -> bytes:
        return self._data[self._ids + low * self._length : self._ids + high * self._length]

    def between(self, low: bytes, high: bytes) -> Iterator[bytes]:
        """The ids from one to another, both included."""
        for at in range(self._first_from(low), self.count):
            raw_id = self.id_at(at)
            if raw_id > high:
                return
            yield raw_id

    def _first_from(self, raw_id: bytes) -> int:
        """Where the first id is that is not before this one."""
        data, ids, length, first = self._data, self._ids, self._length, raw_id[0]
        low = self._fan_out[first - 1] if first else 0
        high = self._fan_out[first]
        while low < high:
            middle = (low + high) >> 1
            start = ids + middle * length
            if data[start : start + length] < raw_id:
                low = middle + 1
            else:
                high = middle
        return low


def _by_first_byte(raw_ids: Iterable[bytes]) -> list[list[bytes]]:
    buckets: list[list[bytes]] = [[] for _ in range(256)]
    for raw_id in raw_ids:
        buckets[raw_id[0]].append(raw_id)
    return buckets


class PackIndex:
    """The `.idx` file of one pack, version 2."""

    __slots__ = ("_data", "_far", "_far_count", "_offsets", "_table")

    def __init__(self, data: bytes | mmap.mmap, id_length: int) -> None:
        head = len(_MAGIC) + FAN_OUT
        if len(data) < head + 2 * id_length:
            raise DamagedIndex("an index that was cut off")
        self._data = data
        self._table = Table(data, len(_MAGIC), head, id_length)
        checksums = head + self._table.count * id_length
        self._offsets = checksums + 4 * self._table.count
        self._far = self._offsets + 4 * self._table.count
        self._far_count = (len(data) - self._far - 2 * id_length) // 8
        if self._far_count < 0:
            raise DamagedIndex("an index that was cut off")

    def find(self, raw_id: bytes) -> int | None:
        at = self._table.position(raw_id)
        return None if at is None else self._offset(at)

    def find_many(self, raw_ids: Iterable[bytes]) -> dict[int, bytes]:
        """The ids that are there, by offset."""
        rows = self._table.rows(raw_ids, self._offsets, ">I")
        return {n if n < FAR else self._far_offset(n - FAR): raw_id for raw_id, n in rows}

    def between(self, low: bytes, high: bytes) -> Iterator[bytes]:
        return self._table.between(low, high)

    def offsets(self) -> Iterator[int]:
        """Where the objects begin, in no order."""
        for start in range(0, self._table.count, _ROWS_AT_ONCE):
            rows = min(_ROWS_AT_ONCE, self._table.count - start)
            for n in unpack_from(f">{rows}I", self._data, self._offsets + 4 * start):
                yield n if n < FAR else self._far_offset(n - FAR)

    def _offset(self, position: int) -> int:
        offset: int = U32.unpack_from(self._data, self._offsets + 4 * position)[0]
        return offset if offset < FAR else self._far_offset(offset - FAR)

    def _far_offset(self, position: int) -> int:
        if position >= self._far_count:
            raise DamagedIndex("an offset beyond the index")
        offset: int = U64.unpack_from(self._data, self._far + 8 * position)[0]
        return offset


class _NoIndex:
    """In place of one that cannot be read."""

    def find(self, raw_id: bytes) -> int | None:
        return None

    def find_many(self, raw_ids: Iterable[bytes]) -> dict[int, bytes]:
        return {}

    def between(self, low: bytes, high: bytes) -> Iterator[bytes]:
        return iter(())

    def offsets(self) -> Iterator[int]:
        return iter(())


NO_INDEX = _NoIndex()


class ForeignIndex:
    """An `.idx` file of another version, read by dulwich."""

    def __init__(self, path: str, format_name: str) -> None:
        import weakref

        from dulwich.object_format import get_object_format
        from dulwich.pack import load_pack_index

        try:
            self._index = load_pack_index(path, get_object_format(format_name))
        except Exception as error:  # dulwich has no common base for what damaged bytes raise
            raise DamagedIndex(str(error)) from error
        # Left to the end of the interpreter, its files complain while they are closed.
        weakref.finalize(self, self._index.close)

    def find(self, raw_id: bytes) -> int | None:
        from dulwich.objects import RawObjectID

        try:
            return self._index.object_offset(RawObjectID(raw_id))
        except KeyError:
            return None
        except Exception as error:  # as above
            raise DamagedIndex(str(error)) from error

    def find_many(self, raw_ids: Iterable[bytes]) -> dict[int, bytes]:
        found = ((self.find(raw_id), raw_id) for raw_id in raw_ids)
        return {offset: raw_id for offset, raw_id in found if offset is not None}

    def between(self, low: bytes, high: bytes) -> Iterator[bytes]:
        entries: Iterable[bytes] = (bytes(raw_id) for raw_id, _, _ in self._index.iterentries())
        return (raw_id for raw_id in entries if low <= raw_id <= high)

    def offsets(self) -> Iterator[int]:
        return (int(offset) for _, offset, _ in self._index.iterentries())


def load_pack_index(path: str, id_length: int, format_name: str) -> Index:
    """The index at a path; FileNotFoundError, or DamagedIndex."""
    data = load(path)
    if data[: len(_MAGIC)] == _MAGIC:
        return PackIndex(data, id_length)
    if data[:4] == _ANY_VERSION or _may_be_of_version_1(data, id_length):
        return ForeignIndex(path, format_name)
    raise DamagedIndex("no index of a pack")


def _may_be_of_version_1(data: bytes | mmap.mmap, id_length: int) -> bool:
    if len(data) < FAN_OUT + 2 * id_length:
        return False
    (count,) = U32.unpack_from(data, FAN_OUT - 4)
    return len(data) == FAN_OUT + (4 + id_length) * int(count) + 2 * id_length


def load(path: str) -> bytes | mmap.mmap:
    try:
        fd = disk.opened(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        if is_want(error):
            raise
        raise DamagedIndex(str(error)) from error
    try:
        size = os.fstat(fd).st_size
        if size > _READ_AT_ONCE:
            return mmap.mmap(fd, size, access=mmap.ACCESS_READ)
        return os.read(fd, size)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and is_want(error):
            raise
        raise DamagedIndex(str(error)) from error
    finally:
        os.close(fd)


def shown_range(prefix: bytes, hex_length: int) -> tuple[bytes, bytes] | None:
    """The first and the last id that begin so; None if no id can."""
    if len(prefix) > hex_length or prefix.strip(b"0123456789abcdef"):
        return None
    return (
        bytes.fromhex(prefix.ljust(hex_length, b"0").decode()),
        bytes.fromhex(prefix.ljust(hex_length, b"f").decode()),
    )


# -- One index for several packs, as git makes it of a repository that is large


def open_group(path: str, id_length: int, packs: Mapping[bytes, Pack]) -> PackGroup | None:
    """Those of some packs, by the names of their indexes, that one index is for; None where
    there is no such index, or not all that it is for."""
    try:
        index = MultiPackIndex(load(path), id_length)
    except (FileNotFoundError, DamagedIndex):
        return None
    if not packs.keys() >= set(index.packs):
        return None
    return PackGroup(index, {name: packs[name] for name in index.packs})


class PackGroup:
    """Packs with an index in common."""

    def __init__(self, index: MultiPackIndex, packs: dict[bytes, Pack]) -> None:
        self._index = index
        self.packs = packs

    def find(self, raw_id: bytes) -> tuple[Pack, int] | None:
        try:
            place = self._index.find(raw_id)
        except DamagedIndex:
            return None
        return None if place is None else (self.packs[place[0]], place[1])

    def find_many(self, raw_ids: Iterable[bytes]) -> Iterator[tuple[Pack, dict[int, bytes]]]:
        """For each pack, the ids that are there by offset."""
        try:
            found = self._index.find_many(raw_ids)
        except DamagedIndex:
            return
        for name, places in found.items():
            yield self.packs[name], places


class MultiPackIndex:
    """One index for several packs; nothing that it says is needed, as each has its own."""

    def __init__(self, data: bytes | mmap.mmap, id_length: int) -> None:
        if data[:5] != b"MIDX\x01" or len(data) < 12 + 12 + id_length:
            raise DamagedIndex("no multi-pack index of version 1")
        hash_number, chunk_count, base_count = data[5], data[6], data[7]
        if hash_number != (1 if id_length == 20 else 2) or base_count:
            raise DamagedIndex("a multi-pack index of another kind")
        chunks = _chunks(data, chunk_count)
        try:
            names, fan_out, ids = chunks[b"PNAM"], chunks[b"OIDF"], chunks[b"OIDL"]
            self._offsets, self._offsets_end = chunks[b"OOFF"]
            self._far, self._far_end = chunks.get(b"LOFF", (0, 0))
        except KeyError as error:
            raise DamagedIndex("a multi-pack index without one of its parts") from error
        if fan_out[1] - fan_out[0] != FAN_OUT:
            raise DamagedIndex("a fan-out table of another length")
        self._data = data
        self._table = Table(data, fan_out[0], ids[0], id_length)
        if self._offsets + 8 * self._table.count > self._offsets_end:
            raise DamagedIndex("a multi-pack index that was cut off")
        (count,) = U32.unpack_from(data, 8)
        self.packs = bytes(data[names[0] : names[1]]).split(b"\0")[:count]
        if len(self.packs) != count:
            raise DamagedIndex("fewer names than packs")

    def find(self, raw_id: bytes) -> tuple[bytes, int] | None:
        """The name of the index of a pack that has an object, and where in it that is."""
        at = self._table.position(raw_id)
        if at is None:
            return None
        return self._place(U64.unpack_from(self._data, self._offsets + 8 * at)[0])

    def find_many(self, raw_ids: Iterable[bytes]) -> dict[bytes, dict[int, bytes]]:
        """The ids that are there, by the name of the pack's index, then by offset."""
        found: dict[bytes, dict[int, bytes]] = {name: {} for name in self.packs}
        for raw_id, row in self._table.rows(raw_ids, self._offsets, ">Q"):
            name, offset = self._place(row)
            found[name][offset] = raw_id
        return found

    def _place(self, row: int) -> tuple[bytes, int]:
        number, offset = row >> 32, row & 0xFFFFFFFF
        if offset >= FAR and self._far:
            start = self._far + 8 * (offset - FAR)
            if start + 8 > self._far_end:
                raise DamagedIndex("an offset beyond the index")
            (offset,) = U64.unpack_from(self._data, start)
        if number >= len(self.packs):
            raise DamagedIndex("a pack beyond the index")
        return self.packs[number], offset


def _chunks(data: bytes | mmap.mmap, count: int) -> dict[bytes, tuple[int, int]]:
    """Where each part of a multi-pack index begins and ends."""
    if len(data) < 12 + 12 * (count + 1):
        raise DamagedIndex("a multi-pack index that was cut off")
    rows = [unpack(">4sQ", data[12 + 12 * n : 24 + 12 * n]) for n in range(count + 1)]
    places = [offset for _, offset in rows]
    if places != sorted(places) or places[-1] > len(data):
        raise DamagedIndex("parts of a multi-pack index beyond its end")
    return {rows[n][0]: (places[n], places[n + 1]) for n in range(count)}


# -- Objects in packs, read by ourselves

# kind and content

_FIRST_READ = 1 << 12
_FURTHER_READ = 1 << 18
_MOST_OPEN = 64
_LONGEST_CHAIN = 1 << 12  # git makes none of 4096
_MOST_MADE = 1 << 32  # bytes, by all deltas of a chain, of what is never read in pieces
_CACHE_SIZE = 16 << 20
_COARSEST_CLOCK = 2_000_000_000  # nanoseconds, of any file system


class Pack:
    """One pack file and its index, opened when they are needed."""

    def __init__(self, stem: str, object_format: ObjectFormat, opened: list[Pack]) -> None:
        self.path = stem + ".pack"
        self._index_path = stem + ".idx"
        self._format = object_format
        self._opened = opened
        self._fd = -1
        self._index: Index | None = None
        self._is_whole: bool | None = None
        self.identity = self._stat_index()

    def _stat_index(self) -> tuple[int, int, int]:
        try:
            status = os.stat(self._index_path)
        except OSError:
            return 0, 0, 0
        return status.st_ino, status.st_size, status.st_mtime_ns

    def is_another(self) -> bool:
        """Whether the name belongs to another pack by now, or to none."""
        return self._stat_index() != self.identity

    def is_whole(self) -> bool:
        """Whether the file ends as its index says: git does not trust one that was cut off."""
        if self._is_whole is None:
            length = self._format.oid_length
            try:
                end = end_of(self.path, length)
                self._is_whole = end == end_of(self._index_path, 2 * length)[:length]
            except OSError as error:
                if is_want(error):
                    raise
                self._is_whole = False
        return self._is_whole

    def index(self) -> Index:
        """One that cannot be read is looked at once, and has nothing."""
        if self._index is None:
            length, name = self._format.oid_length, self._format.name
            try:
                self._index = load_pack_index(self._index_path, length, name)
            except (FileNotFoundError, DamagedIndex):
                self._index = NO_INDEX
        return self._index

    def find(self, raw_id: bytes) -> int | None:
        try:
            return (self._index or self.index()).find(raw_id)
        except DamagedIndex:
            return None

    def find_many(self, raw_ids: Iterable[bytes]) -> dict[int, bytes]:
        try:
            return self.index().find_many(raw_ids)
        except DamagedIndex:
            return {}

    def between(self, low: bytes, high: bytes) -> list[bytes]:
        try:
            return list(self.index().between(low, high))
        except DamagedIndex:
            return []

    # -- entries ---------------------------------------------------------------

    def entry(self, offset: int) -> tuple[Entry, bytes]:
        """An entry, and the first bytes of its stream."""
        data = self.pread(_FIRST_READ, offset)
        entry = parse_entry(data, offset, self._format.oid_length)
        return entry, data[entry[2] - offset :]

    def inflate(self, entry: Entry, start: bytes) -> bytes:
        """The stream of an entry, which is as long as that says."""
        kind, size, position, _ = entry
        if size > LARGEST_WHOLE and KINDS.get(kind) != b"blob":
            raise DamagedObject("an entry too large for its kind")
        unpacker = zlib.decompressobj()
        try:
            data = unpacker.decompress(start, size + 1)
            position += len(start)
            while not unpacker.eof and len(data) <= size:
                more = unpacker.unconsumed_tail
                if not more:
                    more = self.pread(min(_FURTHER_READ, size + HEAD_LENGTH), position)
                    position += len(more)
                if not more:
                    break
                data += unpacker.decompress(more, size + 1 - len(data))
        except zlib.error as error:
            raise DamagedObject(str(error)) from error
        if not unpacker.eof or len(data) != size:
            raise DamagedObject("an entry is not as long as it says")
        return data

    def size(self, offset: int) -> int:
        """How large the object at an offset is."""
        return object_size(self.pread(HEAD_LENGTH, offset), 0, self._format.oid_length)

    def sizes(self, places: dict[int, bytes]) -> Iterator[tuple[bytes, int]]:
        """The sizes of many objects, given by offset; the damaged ones are left out."""
        start, last, data = 0, -1, b""
        length = self._format.oid_length
        for offset in sorted(places):
            if not start <= offset <= last:
                start, data = offset, self.pread(_FIRST_READ, offset)
                last = max(offset, offset + len(data) - HEAD_LENGTH)
            try:
                yield places[offset], object_size(data, offset - start, length)
            except DamagedObject:
                continue

    def pread(self, length: int, offset: int) -> bytes:
        try:
            return os.pread(self._fd if self._fd >= 0 else self._open(), length, offset)
        except (OSError, OverflowError) as error:
            if isinstance(error, OSError) and is_want(error):
                raise
            raise DamagedObject(str(error)) from error

    def _open(self) -> int:
        fd = disk.opened(self.path)
        header = os.pread(fd, 8, 0)
        if header not in (b"PACK\0\0\0\2", b"PACK\0\0\0\3"):
            os.close(fd)
            raise DamagedObject("no pack")
        self._fd = fd
        self._opened.append(self)
        if len(self._opened) > _MOST_OPEN:
            self._opened[0].close()
        return fd

    def close(self) -> None:
        if self._fd >= 0:
            self._opened.remove(self)
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def end_of(path: str, back: int) -> bytes:
    """The last bytes of a file."""
    fd = disk.opened(path)
    try:
        return os.pread(fd, back, max(os.fstat(fd).st_size - back, 0))
    finally:
        os.close(fd)


class PackList:
    """The packs of a repository and its alternates, as they were at the last look."""

    def __init__(self, object_format: ObjectFormat) -> None:
        self._format = object_format
        self._folders: list[str] = []
        self._seen: dict[str, int] = {}
        self._seen_at = 0
        self._opened: list[Pack] = []
        self._packs: dict[str, Pack] = {}
        self._groups: list[PackGroup] = []
        self._alone: list[Pack] = []
        self._bases: OrderedDict[tuple[Pack, int], Object] = OrderedDict()
        self._bases_size = 0

    def look(self, folders: Iterable[str]) -> None:
        """See which packs there are now; those known already stay open."""
        known, self._packs = self._packs, {}
        self._groups, self._alone = [], []
        self._folders = list(folders)
        self._seen = {folder: _pack_folder_time(folder) for folder in self._folders}
        self._seen_at = time.time_ns()
        for folder in self._folders:
            self._look_into(os.path.join(folder, "pack"), known)
        for pack in known.values():
            self._forget(pack)

    def is_current(self) -> bool:
        """Whether there is surely no other pack by now than at the last look."""
        for folder, seen in self._seen.items():
            if seen > self._seen_at - _COARSEST_CLOCK or seen != _pack_folder_time(folder):
                return False
        return bool(self._seen)

    def _look_into(self, folder: str, known: dict[str, Pack]) -> None:
        try:
            names = set(os.listdir(folder))
        except OSError as error:
            if is_want(error):
                raise
            return
        packs: dict[bytes, Pack] = {}
        for name in sorted(names):
            if name.endswith(".pack") and name[:-5] + ".idx" in names:
                stem = os.path.join(folder, name[:-5])
                pack = known.pop(stem, None)
                if pack is not None and pack.is_another():
                    self._forget(pack)
                    pack = None
                pack = pack or Pack(stem, self._format, self._opened)
                self._packs[stem] = packs[os.fsencode(name[:-5] + ".idx")] = pack
        if "multi-pack-index" in names:
            self._group(os.path.join(folder, "multi-pack-index"), packs)
        self._alone += packs.values()

    def _group(self, path: str, packs: dict[bytes, Pack]) -> None:
        """Take those out of some packs that have an index in common."""

        group = open_group(path, self._format.oid_length, packs)
        if group is not None:
            self._groups.append(group)
            for name in group.packs:
                del packs[name]

    def _forget(self, pack: Pack) -> None:
        pack.close()
        for key in [key for key in self._bases if key[0] is pack]:
            self._bases_size -= len(self._bases.pop(key)[1])

    def close(self) -> None:
        self.look(())

    # -- finding ---------------------------------------------------------------

    def find(self, raw_id: bytes) -> tuple[Pack, int] | None:
        """A pack that has an object, and where in it that is."""
        for group in self._groups:
            place = group.find(raw_id)
            if place is not None:
                return place
        for pack in self._alone:
            offset = pack.find(raw_id)
            if offset is not None:
                if pack is not self._alone[0]:  # the next one is probably there, too
                    self._alone.remove(pack)
                    self._alone.insert(0, pack)
                return pack, offset
        return None

    def find_all(self, raw_id: bytes) -> Iterator[tuple[Pack, int]]:
        """Every copy of an object, whatever a multi-pack index says."""
        for pack in list(self._packs.values()):
            offset = pack.find(raw_id)
            if offset is not None:
                yield pack, offset

    def find_many(self, raw_ids: Iterable[bytes]) -> Iterator[tuple[Pack, dict[int, bytes]]]:
        """For each pack, the ids that are there by offset, each id once."""
        left = set(raw_ids)
        for group in self._groups:
            for pack, places in group.find_many(left):
                left.difference_update(places.values())
                yield pack, places
        for pack in self._alone:
            places = pack.find_many(left) if left else {}
            left.difference_update(places.values())
            yield pack, places

    def beginning_with(self, prefix: bytes) -> set[bytes]:
        ends = shown_range(prefix, self._format.hex_length)
        if ends is None:
            return set()
        return {hexlify(i) for pack in self._packs.values() for i in pack.between(*ends)}

    # -- reading ---------------------------------------------------------------

    def kind(self, pack: Pack, offset: int) -> bytes:
        """What an object is, without its content."""
        chain, base = self.chain(pack, offset)
        return base[0] if isinstance(base, tuple) else KINDS[chain[-1][2][0]]

    def read(self, pack: Pack, offset: int) -> Object:
        """Kind and content of the object at a place."""
        chain, base = self.chain(pack, offset)
        if base is None:
            pack, offset, entry, start = chain.pop()
            base = KINDS[entry[0]], pack.inflate(entry, start)
            if chain:
                self._keep((pack, offset), base)
        kind, data = base
        most, left = (LARGEST, LARGEST) if kind == b"blob" else (LARGEST_WHOLE, _MOST_MADE)
        while chain:
            pack, offset, entry, start = chain.pop()
            data = apply_delta(data, pack.inflate(entry, start), min(most, left))
            left -= len(data)
            if chain:
                self._keep((pack, offset), (kind, data))
        return kind, data

    def chain(self, pack: Pack, offset: int) -> tuple[list[Link], Object | None]:
        """The entries that make an object, a delta before its base, and the last of these
        if it is at hand and need not be read from a pack."""
        chain: list[Link] = []
        seen: set[tuple[Pack, int]] = set()
        while True:
            kept = self._bases.get((pack, offset))
            if kept is not None:
                return chain, kept
            entry, start = pack.entry(offset)
            chain.append((pack, offset, entry, start))
            base = entry[3]
            if base is None:
                return chain, None
            seen.add((pack, offset))
            if isinstance(base, int):
                offset = base
            else:
                place = self._base(pack, base)
                if place is None:
                    return chain, self._outside(base)
                pack, offset = place
            if (pack, offset) in seen or len(chain) > _LONGEST_CHAIN:
                raise DamagedObject("deltas without an end")

    def _base(self, pack: Pack, raw_id: bytes) -> tuple[Pack, int] | None:
        offset = pack.find(raw_id)
        return self.find(raw_id) if offset is None else (pack, offset)

    def _outside(self, raw_id: bytes) -> Object:
        """A base that is in no pack."""
        for folder in self._folders:
            try:
                return read_loose(loose_path(folder, hexlify(raw_id)))
            except FileNotFoundError:
                continue
        raise DamagedObject("a delta without its base")

    def _keep(self, place: tuple[Pack, int], base: Object) -> None:
        if len(base[1]) > _CACHE_SIZE // 4:
            return
        self._bases[place] = base
        self._bases_size += len(base[1])
        while self._bases_size > _CACHE_SIZE:
            _, oldest = self._bases.popitem(last=False)
            self._bases_size -= len(oldest[1])


def _pack_folder_time(folder: str) -> int:
    try:
        return os.stat(folder + "/pack").st_mtime_ns
    except OSError:
        return 0
