# SPDX-License-Identifier: MIT
"""Objects in packs: deltas read by dulwich, and many new ones written as one pack.

Where an object is, its kind and size, and contents that are no deltas, are read here: each save
asks, and dulwich takes 20 ms to import and inflates each whole. What it raises for a damaged
file becomes DamagedObject. A new pack is a `tmp_pack_` file until it is complete, because git's gc
clears those away. Packing what is loose, and multi-pack indexes, are left to git.
"""

from __future__ import annotations

import os
import struct
import zlib
from binascii import crc32, hexlify, unhexlify
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, wraps
from mmap import ACCESS_READ, mmap
from typing import IO, TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

from ckpt import disk
from ckpt.errors import is_want
from ckpt.git.formats import ObjectFormat, ObjectID, to_hex
from ckpt.git.loose import LARGEST_WHOLE, TEMPORARY_PACK, Temporaries, names_in
from ckpt.git.streams import LARGE, DamagedObject, inflated, level_of

if TYPE_CHECKING:
    from dulwich.pack import Pack, UnpackedObject

    from ckpt.git.objects import ObjectStore

P = ParamSpec("P")
T = TypeVar("T")

_NUMBERS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_KIND_NUMBERS = {kind: number for number, kind in _NUMBERS.items()}
_OFFSET_DELTA, _ID_DELTA = 6, 7
_LONGEST_HEADER = 64
_BEGINNING = 512  # of a zlib stream, which may begin with a table
_LONGEST_CHAIN = 4096  # git's limit is 4095
_CRUFT_HEADER = 12
_VERSIONS = (b"\0\0\0\2", b"\0\0\0\3")
_INDEX_HEADER = b"\377tOc\0\0\0\2"
_NAMES = 8 + 256 * 4  # where they begin, after how many there are up to each first byte


def guarded(function: Callable[P, T]) -> Callable[P, T]:
    """Turn what dulwich raises for damaged or vanished files into DamagedObject."""

    @wraps(function)
    def guarding(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (KeyError, DamagedObject):
            raise
        except OSError as error:
            if is_want(error):
                raise
            raise DamagedObject(str(error)) from error
        except Exception as error:  # dulwich raises what it likes at damaged bytes
            raise DamagedObject(f"{type(error).__name__}: {error}") from error

    return guarding


class Entry(NamedTuple):
    """Of an object in a pack: its number of kind, its size or that of its delta, where its zlib
    stream begins, and what a delta is based on, by offset or raw id."""

    number: int
    size: int
    start: int
    base: int | bytes | None


class OpenPack:
    """A pack and its index. `stem` is their path without ending."""

    def __init__(self, stem: str, object_format: ObjectFormat) -> None:
        self.stem = stem
        self.path = stem + ".pack"
        self.is_cruft = os.path.exists(stem + ".mtimes")
        self.is_promised = os.path.exists(stem + ".promisor")
        self._format = object_format
        self._id_length = object_format.oid_length
        self._fan: tuple[int, ...] = ()
        self._fd = -1
        self._is_indexed = True
        self._is_checked = False
        self._ends: list[int] = []

    def find(self, raw_id: bytes) -> int | None:
        """The offset of an object; None also where the index cannot be read."""
        if self._is_indexed:
            try:
                return self._offset(raw_id)
            except KeyError:
                pass
            except DamagedObject:
                self._is_indexed = False
        return None

    @cached_property
    def _pack(self) -> Pack:
        from dulwich.object_format import get_object_format
        from dulwich.pack import Pack

        return Pack(self.stem, object_format=get_object_format(self._format.name))

    @cached_property
    def _index(self) -> mmap | None:
        """The index of version 2; None of another."""
        fd = disk.opened(self.stem + ".idx")
        try:
            data = mmap(fd, 0, access=ACCESS_READ)
        finally:
            os.close(fd)
        if data[:8] != _INDEX_HEADER:
            return None
        self._fan = (0, *struct.unpack_from(">256I", data, 8))
        if len(data) < _NAMES + self._fan[-1] * (self._id_length + 8):
            raise DamagedObject("an index that is cut off")
        return data

    @guarded
    def _offset(self, raw_id: bytes) -> int:
        data, length, first = self._index, self._id_length, raw_id[0]
        if data is None:
            return self._pack.index.object_offset(ObjectID(raw_id))
        low, high = self._fan[first], self._fan[first + 1]

        def name(at: int) -> bytes:
            return data[_NAMES + at * length : _NAMES + (at + 1) * length]

        at = bisect_left(range(high), raw_id, low, key=name)
        if at >= high or name(at) != raw_id:
            raise KeyError(raw_id)
        count = self._fan[-1]
        offsets = _NAMES + count * (length + 4)
        offset = _number(data, offsets + 4 * at)
        if offset < 1 << 31:
            return offset
        return _number(data, offsets + 4 * count + 8 * (offset - (1 << 31)), 8)

    @guarded
    def ids(self) -> list[bytes]:
        """The raw ids of all objects, sorted."""
        return [bytes(raw_id) for raw_id, _, _ in self._pack.index.iterentries()]

    @guarded
    def entries(self) -> list[tuple[int, bytes]]:
        """The offset and the raw id of each object, in the order of the pack."""
        rows = self._pack.index.iterentries()
        return sorted((offset, bytes(raw_id)) for raw_id, offset, _ in rows)

    @guarded
    def commits(self) -> list[bytes]:
        """The raw ids of all commits."""
        return [raw_id for offset, raw_id in self.entries() if self.kind(offset) == b"commit"]

    @guarded
    def beginning_with(self, prefix: bytes) -> list[bytes]:
        """The ids that begin with some hexadecimal digits, at least two."""
        whole = unhexlify(prefix[: len(prefix) // 2 * 2])
        found = (hexlify(raw_id) for raw_id in self._pack.index.iter_prefix(whole))
        return [object_id for object_id in found if object_id.startswith(prefix)]

    @guarded
    def read(self, raw_id: bytes, offset: int) -> tuple[bytes, bytes]:
        """Kind and content of an object."""
        number, size, start, base = self.entry(offset)
        if size > LARGEST_WHOLE and self.kind(offset) != b"blob":
            raise DamagedObject("an object too large for its kind")
        if base is None:
            return _NUMBERS[number], b"".join(inflated(self._piece, start))
        self._check()
        number, data = self._pack.get_raw(ObjectID(raw_id))
        return _NUMBERS[number], data

    @guarded
    def _check(self) -> None:
        """dulwich compares the ends only when it opens the pack, and goes on the next time."""
        if not self._is_checked:
            self._pack.check_length_and_checksum()
            self._is_checked = True

    # Without inflating

    @guarded
    def entry(self, offset: int) -> Entry:
        data = self._bytes(offset, _LONGEST_HEADER + self._id_length)
        byte, at, shift = data[0], 1, 4
        number, size = byte >> 4 & 7, byte & 15
        while byte & 0x80:
            byte = data[at]
            size |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
        base: int | bytes | None = None
        if number == _ID_DELTA:
            base = data[at : at + self._id_length]
            at += self._id_length
        elif number == _OFFSET_DELTA:
            byte, at = data[at], at + 1
            distance = byte & 0x7F
            while byte & 0x80:
                byte, at = data[at], at + 1
                distance = (distance + 1 << 7) | (byte & 0x7F)
            base = offset - distance
            if not 0 < base < offset:
                raise DamagedObject("a delta with its base elsewhere")
        elif number not in _NUMBERS:
            raise DamagedObject("an entry of unknown kind")
        return Entry(number, size, offset + at, base)

    def kind(self, offset: int) -> bytes:
        """The kind of an object, which is that of what its deltas are based on."""
        for _ in range(_LONGEST_CHAIN):
            number, _, _, base = self.entry(offset)
            if base is None:
                return _NUMBERS[number]
            found = base if isinstance(base, int) else self.find(base)
            if found is None:
                break
            offset = found
        raise DamagedObject("a delta without its base")

    @guarded
    def size(self, offset: int) -> int:
        """The size of an object; a delta begins with it."""
        _, size, start, base = self.entry(offset)
        if base is None:
            return size
        head = zlib.decompressobj().decompress(self._bytes(start, _BEGINNING), 20)
        return _varint(head, _varint(head, 0)[1])[0]

    @guarded
    def disk_size(self, offset: int) -> int:
        """The bytes of an entry, which ends where the next one begins, or the checksum does."""
        if not self._ends:
            end = os.stat(self.path).st_size - self._id_length
            self._ends = [*(at for at, _ in self.entries()), end]
        return max(self._ends[bisect_right(self._ends, offset)] - offset, 0)

    def pieces(self, raw_id: bytes, offset: int) -> Iterator[bytes]:
        """The content of an object, in pieces unless it is a delta."""
        _, size, start, base = self.entry(offset)
        if base is None and size > LARGE:
            self._check()
            return inflated(self._piece, start)
        return iter((self.read(raw_id, offset)[1],))

    def _piece(self, length: int, offset: int) -> bytes:
        return self._bytes(offset, length)

    def _bytes(self, offset: int, length: int) -> bytes:
        if self._fd < 0:
            try:
                fd = disk.opened(self.path)
            except OSError as error:
                if is_want(error):
                    raise
                raise DamagedObject(str(error)) from error
            if not self._fits(fd):
                os.close(fd)
                raise DamagedObject("a pack that does not fit its index")
            self._fd = fd
        return os.pread(self._fd, length, offset)

    def _fits(self, fd: int) -> bool:
        """What git checks before it reads from a pack: how it begins and ends."""
        data, length = self._index, self._id_length
        if data is None:
            return True
        head, end = os.pread(fd, 12, 0), os.fstat(fd).st_size - length
        counted = struct.pack(">I", self._fan[-1])
        fits = head[:4] == b"PACK" and head[4:8] in _VERSIONS and head[8:] == counted
        return fits and os.pread(fd, length, end) == data[-2 * length : -length]

    def times(self) -> dict[bytes, int]:
        """Of a cruft pack: when each object was used last, in seconds since 1970."""
        try:
            ids, data = self.ids(), disk.read(self.stem + ".mtimes", disk.LARGE)[_CRUFT_HEADER:]
        except (OSError, DamagedObject):
            return {}
        times = (int.from_bytes(data[4 * n : 4 * n + 4], "big") for n in range(len(ids)))
        return dict(zip(ids, times, strict=True))

    def close(self) -> None:
        if "_pack" in self.__dict__:
            with suppress(Exception):
                self._pack.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _number(data: mmap, at: int, length: int = 4) -> int:
    return int.from_bytes(data[at : at + length], "big")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


Place = tuple[OpenPack, int]


class Packs:
    """The packs of some object directories, as they were when this was made. The one that had
    the last object comes first."""

    def __init__(self, folders: Iterable[str], object_format: ObjectFormat) -> None:
        stems = (stem for f in folders for stem in pack_stems(os.path.join(f, "pack"), ".idx"))
        self.all = [OpenPack(stem, object_format) for stem in stems]

    def find(self, raw_id: bytes) -> Place | None:
        for at, pack in enumerate(self.all):
            offset = pack.find(raw_id)
            if offset is not None:
                if at:
                    self.all.insert(0, self.all.pop(at))
                return pack, offset
        return None

    def find_all(self, raw_id: bytes) -> Iterator[Place]:
        """One place after the other, that of `find` first."""
        first = self.find(raw_id)
        if first is not None:
            yield first
        for pack in list(self.all):
            offset = None if first is None or pack is first[0] else pack.find(raw_id)
            if offset is not None:
                yield pack, offset

    def close(self) -> None:
        for pack in self.all:
            pack.close()


def pack_stems(folder: str, ending: str = ".pack") -> list[str]:
    """The packs that have a file of that ending in a pack directory, by path without it."""
    names = sorted(names_in(folder))
    return [os.path.join(folder, n.removesuffix(ending)) for n in names if n.endswith(ending)]


def unpacked(file: IO[bytes], objects: ObjectStore, most: int) -> Iterator[tuple[bytes, bytes]]:
    """Kind and content of each object of a pack without index, deltas against objects of the
    repository included; DamagedObject also if they would take more than so many bytes."""
    from dulwich.object_format import get_object_format
    from dulwich.pack import PackData, UnpackedObjectIterator

    dulwich_format = get_object_format(objects.object_format.name)

    def base_of(raw_id: bytes) -> tuple[int, list[bytes]]:
        object_id = to_hex(raw_id)
        kind = objects.kind(object_id)
        if kind is None:
            raise KeyError(object_id)
        return _KIND_NUMBERS[kind], [objects.read(object_id, kind)]

    try:
        with PackData.from_file(file, dulwich_format) as data:
            data.check()
            found = UnpackedObjectIterator(None, dulwich_format.hash_func, resolve_ext_ref=base_of)
            found.set_pack_data(data)
            for entry in data.iter_unpacked():
                most -= _made_by(entry)
                if most < 0:
                    raise DamagedObject("its objects are too large")
                found.record(entry)
            for entry in found:
                yield _NUMBERS[entry.obj_type_num or 0], b"".join(entry.obj_chunks or ())
    except (DamagedObject, OSError):
        raise
    except Exception as error:  # likewise
        raise DamagedObject(f"{type(error).__name__}: {error}") from error


def _made_by(entry: UnpackedObject) -> int:
    """The size of an entry or, of a delta, of what it makes."""
    if entry.pack_type_num in _NUMBERS:
        return entry.decomp_len or 0
    head = b"".join(entry.decomp_chunks)[:20]
    return _varint(head, _varint(head, 0)[1])[0]


# Writing


class NewPack:
    """A pack of new objects, written as they come and seen when it is finished."""

    def __init__(self, object_format: ObjectFormat, temporaries: Temporaries) -> None:
        self._format = object_format
        self._temporaries = temporaries
        self._folder = os.path.join(temporaries.folder, "pack")
        self._index_path = ""
        self._fd, self._path = temporaries.create(TEMPORARY_PACK, "pack")
        self._reading = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        self._at = 0
        self._rows: dict[ObjectID, tuple[int, int]] = {}  # offset and checksum
        self._sizes: dict[ObjectID, tuple[bytes, int]] = {}
        self._write(pack_start(0))

    def __contains__(self, object_id: ObjectID) -> bool:
        return object_id in self._rows

    def ids(self) -> Iterable[ObjectID]:
        return self._rows.keys()

    def add(self, object_id: ObjectID, kind: bytes, data: bytes) -> None:
        entry = b"".join(pack_entry(kind, len(data), (data,), self._format))
        self._rows[object_id] = (self._at, crc32(entry))
        self._sizes[object_id] = (kind, len(data))
        self._write(entry)

    def header(self, object_id: ObjectID) -> tuple[bytes, int]:
        return self._sizes[object_id]

    def read(self, object_id: ObjectID) -> tuple[bytes, bytes]:
        kind, size = self._sizes[object_id]
        start = self._rows[object_id][0] + len(_entry_header(kind, size, self._format))
        pieces = inflated(lambda length, at: os.pread(self._reading, length, at), start)
        return kind, b"".join(pieces)

    def _write(self, data: bytes) -> None:
        disk.write(self._fd, data)
        self._at += len(data)

    def finish(self) -> None:
        """Complete the pack, make it durable and visible: last its index."""
        from dulwich.pack import write_pack_index_v2

        os.pwrite(self._fd, pack_start(len(self._rows)), 0)
        digest = self._format.new_hash()
        for at in range(0, self._at, 1 << 20):
            digest.update(os.pread(self._reading, min(1 << 20, self._at - at), at))
        self._write(digest.digest())
        disk.fsync(self._fd)
        fd, self._index_path = self._temporaries.create(TEMPORARY_PACK, "pack")
        rows = sorted((unhexlify(name), at, crc) for name, (at, crc) in self._rows.items())
        with open(fd, "wb") as file:
            write_pack_index_v2(file, rows, digest.digest())
            file.flush()
            disk.fsync(fd)
        stem = os.path.join(self._folder, "pack-" + digest.hexdigest())
        disk.rename(self._path, stem + ".pack")
        disk.rename(self._index_path, stem + ".idx")
        self._close()
        disk.fsync_dir(self._folder)

    def discard(self) -> None:
        for path in filter(None, (self._path, self._index_path)):
            disk.discard(path)
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            os.close(self._reading)
        self._fd = -1


def pack_start(count: int) -> bytes:
    """The first bytes of a pack."""
    return b"PACK\0\0\0\2" + count.to_bytes(4, "big")


def pack_entry(
    kind: bytes, size: int, pieces: Iterable[bytes], object_format: ObjectFormat
) -> Iterator[bytes]:
    """The bytes of an object in a pack."""
    yield _entry_header(kind, size, object_format)
    packer = zlib.compressobj(level_of(size))
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def _entry_header(kind: bytes, size: int, object_format: ObjectFormat) -> bytes:
    from dulwich.object_format import get_object_format
    from dulwich.pack import pack_object_header

    dulwich_format = get_object_format(object_format.name)
    return bytes(pack_object_header(_KIND_NUMBERS[kind], None, size, dulwich_format))
