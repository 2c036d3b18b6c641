# SPDX-License-Identifier: MIT
"""Read objects in packs, write new objects as a pack, and write and read git bundles.

dulwich reads packs, resolves deltas and writes pack indexes, but it holds contents in memory: large
ones are read and written here, in pieces. A new pack is a `tmp_pack_*` file until it is complete.
Left out: packing loose objects, and multi-pack indexes.
"""

from __future__ import annotations

import os
import zlib
from binascii import crc32, hexlify, unhexlify
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cached_property
from io import FileIO
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from dulwich import pack as dulwich
from dulwich.object_format import OBJECT_FORMATS

from ckpt import disk
from ckpt.errors import Refused
from ckpt.git.objects import (
    KINDS,
    SHA1,
    DamagedObject,
    MissingObject,
    ObjectFormat,
    ObjectID,
    Opened,
    deflated,
    inflated,
    reporting_damage,
)
from ckpt.paths import to_str

if TYPE_CHECKING:
    from dulwich.bundle import Bundle

    from ckpt.git.objects import ObjectStore

_KINDS = dict(enumerate(KINDS, 1))
_NUMBERS = {kind: number for number, kind in _KINDS.items()}
_LONGEST_HEADER = 16
_BEGINNING = 512  # bytes of a delta, enough for its base and the first bytes of its content
_FEW_OTHERS = 10  # times as many as are wanted
_MOST_KEPT = 8 << 20  # bytes of the delta base cache


class Pack(dulwich.Pack):
    """A pack with its index; any error may be raised if it is corrupt."""

    def __init__(self, index_path: str, object_format: ObjectFormat) -> None:
        stem = index_path.removesuffix(".idx")
        known = OBJECT_FORMATS[object_format.name]
        super().__init__(stem, object_format=known, delta_base_cache_limit=_MOST_KEPT)
        self.path = stem + ".pack"
        _ = self.index  # read now, to detect a corrupt index

    def find(self, object_id: ObjectID) -> Packed | None:
        try:
            return Packed(self, self.index.object_offset(object_id))
        except OSError:
            raise
        except Exception:  # KeyError, or any error of a corrupt index
            return None

    def beginning_with(self, prefix: bytes) -> Iterator[ObjectID]:
        """Yield the ids that begin with a prefix, without its last digit if its length is odd."""
        with suppress(DamagedObject), reporting_damage():
            for raw_id in self.index.iter_prefix(unhexlify(prefix[: len(prefix) & ~1])):
                yield ObjectID(hexlify(raw_id))

    def sizes(self, wanted: Set[ObjectID]) -> Iterator[tuple[ObjectID, int]]:
        """Yield the sizes of those of many objects that the pack has, if it has few others."""
        if len(self.index) > _FEW_OTHERS * len(wanted):
            return
        rows = ((offset, hexlify(raw_id)) for raw_id, offset, _ in self.index.iterentries())
        for offset, object_id in sorted(row for row in rows if row[1] in wanted):
            yield ObjectID(object_id), Packed(self, offset).size

    @cached_property
    def file(self) -> FileIO:
        self.check_length_and_checksum()
        return open(disk.opened(self.path), "rb", buffering=0)

    def close(self) -> None:
        with suppress(BufferError):  # the traceback of an error may hold a view of the mapping
            super().close()
        super().close()  # and the file
        if "file" in vars(self):
            vars(self).pop("file").close()

    def __del__(self) -> None:
        self.close()  # without dulwich's warning

    @cached_property
    def ends(self) -> list[int]:
        """Return the offsets of all entries and of the checksum, in order."""
        end = os.stat(self.path).st_size - self.object_format.oid_length
        return [*sorted(offset for _, offset, _ in self.index.iterentries()), end]


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number from bytes with seven bits each, lowest first; return it and its end."""
    number = shift = 0
    while data[at] & 0x80:
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return number | data[at] << shift, at + 1


class Packed(NamedTuple):
    """An object in a pack."""

    pack: Pack
    offset: int

    @property
    def path(self) -> str:
        return self.pack.path

    @property
    def size(self) -> int:
        """Return the size of the object; a delta begins with the sizes of base and result."""
        number, size, start = self._entry()
        if number in _KINDS:
            return size
        data = os.pread(self.pack.file.fileno(), _BEGINNING, start)
        is_named = number == dulwich.REF_DELTA
        at = self.pack.object_format.oid_length if is_named else _number(data, 0)[1]
        sizes = zlib.decompressobj().decompress(data[at:], _LONGEST_HEADER)
        return _number(sizes, _number(sizes, 0)[1])[0]

    def open(self) -> Opened:
        """Return the kind, size and content of the object, in pieces unless it is a delta."""
        pack, (number, size, start) = self.pack, self._entry()
        if number in _KINDS:
            return _KINDS[number], size, inflated(pack.file.fileno(), start)
        number, chunks = pack.resolve_object(self.offset, *pack.data.get_object_at(self.offset))
        content = b"".join(cast("list[bytes]", chunks))
        return _KINDS[number], len(content), (content,)

    def disk_size(self) -> int:
        """Return the size of the entry, up to the offset of the next one."""
        return self.pack.ends[bisect_right(self.pack.ends, self.offset)] - self.offset

    def _entry(self) -> tuple[int, int, int]:
        """Return the number of the entry's kind, its size, and the offset of its zlib stream."""
        header = os.pread(self.pack.file.fileno(), _LONGEST_HEADER, self.offset)
        first, more, length = header[0], 0, 1
        if first & 0x80:
            more, length = _number(header, 1)
        return first >> 4 & 7, first & 15 | more << 4, self.offset + length


# -- Writing


class PackWriter:
    """A pack that is appended to an open file."""

    def __init__(self, fd: int, object_format: ObjectFormat) -> None:
        self.fd = fd
        self.rows: list[tuple[bytes, int, int]] = []  # raw id, offset and checksum
        self._format = OBJECT_FORMATS[object_format.name]
        self._begin = self._end = os.fstat(fd).st_size
        self._write(_header(0))

    def add(self, object_id: ObjectID, kind: bytes, size: int, pieces: Iterable[bytes]) -> Written:
        offset, checksum = self._end, 0
        header = bytes(dulwich.pack_object_header(_NUMBERS[kind], None, size, self._format))
        for piece in chain([header], deflated(b"", size, pieces)):
            checksum = crc32(piece, checksum)
            self._write(piece)
        self.rows.append((unhexlify(object_id), offset, checksum))
        return Written(kind, size, self.fd, offset + len(header))

    def _write(self, data: bytes) -> None:
        disk.write(self.fd, data)
        self._end += len(data)

    def finish(self) -> bytes:
        """Complete the pack and return its checksum."""
        os.pwrite(self.fd, _header(len(self.rows)), self._begin)
        digest = self._format.hash_func()
        for at in range(self._begin, self._end, 1 << 20):
            digest.update(os.pread(self.fd, min(1 << 20, self._end - at), at))
        self._write(digest.digest())
        return digest.digest()


def _header(count: int) -> bytes:
    return b"".join(dulwich.pack_header_chunks(count))


class Written(NamedTuple):
    """An object in an unfinished pack."""

    kind: bytes
    size: int
    fd: int
    start: int

    def open(self) -> Opened:
        return self.kind, self.size, inflated(self.fd, self.start)


class NewPack(PackWriter):
    """A pack of new objects, which is invisible until it is published."""

    def __init__(self, folder: str, object_format: ObjectFormat) -> None:
        self._folder = os.path.join(folder, "pack")
        with suppress(FileExistsError):
            os.mkdir(self._folder)
        self._files: list[str] = []
        super().__init__(self._create(), object_format)

    def _create(self) -> int:
        """Create a file that `discard` removes."""
        self._files.append(os.path.join(self._folder, disk.temporary_name("tmp_pack_")))
        return disk.create(self._files[-1], 0o444)

    def publish(self) -> None:
        """Complete the pack and make it durable and visible, its index last."""
        checksum = self.finish()
        os.fsync(self.fd)
        fd = self._create()
        with open(fd, "wb") as file:
            dulwich.write_pack_index_v2(file, sorted(self.rows), checksum)
            file.flush()
            os.fsync(fd)
        for path, ending in zip(self._files, (".pack", ".idx"), strict=True):
            os.rename(path, os.path.join(self._folder, f"pack-{checksum.hex()}{ending}"))
        disk.fsync([self._folder])
        os.close(self.fd)

    def discard(self) -> None:
        for path in self._files:
            disk.discard(path)
        os.close(self.fd)


# -- Bundles: refs, prerequisite commits, and a pack
#
# dulwich's writer holds the whole pack in memory. The ids of objects that are read are computed
# from their contents, so that a bundle cannot forge an object.


def write_bundle(
    objects: ObjectStore,
    fd: int,
    needed: Iterable[ObjectID],
    refs: Mapping[bytes, ObjectID],
    contents: Iterable[ObjectID],
) -> None:
    """Write a bundle of objects, without deltas, to an open file."""
    _check_format(objects)
    lines = [b"# v2 git bundle", *(b"-%s commit of HEAD" % commit for commit in needed)]
    lines += [b"%s %s" % (commit, ref) for ref, commit in sorted(refs.items())]
    disk.write(fd, b"\n".join(lines) + b"\n\n")
    pack = PackWriter(fd, objects.object_format)
    for object_id in contents:
        kind, size = objects.kind(object_id), objects.size(object_id)
        if kind is None or size is None:
            raise MissingObject(object_id, "missing object")
        pack.add(object_id, kind, size, objects.pieces(object_id, kind))
    pack.finish()


def unpack_bundle(objects: ObjectStore, file: BinaryIO) -> Sequence[tuple[bytes, ObjectID]]:
    """Add the objects of a bundle; return its refs, which the caller has to create."""
    from dulwich.bundle import read_bundle

    _check_format(objects)
    try:
        with reporting_damage():
            bundle = read_bundle(file)
        with bundle:
            if bundle.capabilities.items() - {("object-format", SHA1.name)}:
                raise DamagedObject(f"it asks for {bundle.capabilities}")
            for commit, _ in bundle.prerequisites:
                if objects.kind(commit) != b"commit":
                    raise Refused(
                        f"the bundle needs commit '{to_str(commit)}', which is not here",
                        hint="fetch it from where the bundle was made",
                    )
            for kind, content in _unpacked(objects, bundle):
                objects.add(kind, content)
            return sorted(bundle.references.items())
    except DamagedObject as error:
        raise Refused(f"cannot read this bundle: {error}", hint="make one with export()") from None


def _unpacked(objects: ObjectStore, bundle: Bundle) -> Iterator[tuple[bytes, bytes]]:
    """Yield the kind and content of the objects in a bundle, whose delta bases may be outside."""

    def base_of(raw_id: bytes) -> tuple[int, list[bytes]]:
        object_id = ObjectID(hexlify(raw_id))
        kind = objects.kind(object_id)
        if kind is None:
            raise KeyError(object_id)
        return _NUMBERS[kind], [objects.read(object_id, kind)]

    data = bundle.pack_data
    assert isinstance(data, dulwich.PackData)
    with reporting_damage():
        data.check()
        for found in dulwich.PackInflater.for_pack_data(data, base_of):
            yield found.type_name, found.as_raw_string()


def _check_format(objects: ObjectStore) -> None:
    if objects.object_format is not SHA1:
        raise Refused(
            "bundles of a SHA-256 repository are not supported", hint="git bundle create FILE --all"
        )
