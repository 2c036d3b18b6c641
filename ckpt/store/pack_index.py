# SPDX-License-Identifier: MIT
"""Where in a pack an object is: `.idx` files of version 2.

Sorted tables of ids behind a fan-out by first byte, as `multi_pack` has them, too. One id is
bisected; many are looked up bucket by bucket, which takes a fraction of a microsecond each. A
table that cannot be right raises DamagedIndex before anything is read through it, and one that
is only wrong leads to an object with another id, or to none. Any other version of `.idx` is
left to dulwich, which is not imported before there is one.
"""

from __future__ import annotations

import mmap
import os
from struct import Struct, calcsize, unpack, unpack_from

from ckpt import regular
from ckpt.errors import is_want

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Protocol

    class Index(Protocol):
        """What is asked of the index of one pack."""

        def find(self, raw_id: bytes) -> int | None: ...
        def find_many(self, raw_ids: Iterable[bytes]) -> dict[int, bytes]: ...
        def between(self, low: bytes, high: bytes) -> Iterator[bytes]: ...
        def offsets(self) -> Iterator[int]: ...


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
        fd = regular.opened(path)
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
