# SPDX-License-Identifier: MIT
"""Read git objects, and add new ones that are durable before a ref points to them.

Contents are checked against their ids, and large ones are processed in pieces. New objects are
invisible until `flush`; existing ones are freshened, as git does, so that a concurrent gc keeps
them. dulwich's writer is not used: it flushes nothing, and a kill leaves a lock that blocks the
object for good. Temporary files are `tmp_obj_*`, which git gc removes. Left out: packs.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
import zlib
from binascii import hexlify
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ckpt import disk
from ckpt.errors import Busy, CkptError, is_want

if TYPE_CHECKING:
    from dulwich.objects import ObjectID as ObjectID

    from ckpt.git.packs import NewPack, Pack, Packed, Written

    Stored: TypeAlias = "Loose | Packed"
    New: TypeAlias = "Held | Loose | Written"
else:
    ObjectID = bytes

LARGE = 1 << 20  # contents up to this size are held in memory
LARGEST_WHOLE = 1 << 28  # of commits, trees and tags, since a few bytes can inflate to more
LARGEST_KEPT = 16 << 20  # of contents that ScratchObjects holds in memory
PIECE = 1 << 18
_COMPRESSED_PIECE = 1 << 16
_SMALL = 1 << 16
_MOST_DIGITS = 18  # of a size
_BLOCK = 4096
KINDS = (b"commit", b"tree", b"blob", b"tag")
# Above these limits, new objects are written to a pack.
MANY_OBJECTS = 200
_MOST_BYTES = 2 << 20
_WRITTEN_OUT = 120.0  # seconds after which the kernel has written a file to disk


class ObjectFormat(NamedTuple):
    """The object format of a repository; defined here, since an unchanged save must not import
    dulwich."""

    name: str
    oid_length: int
    new_hash: Callable[..., Any]

    @property
    def hex_length(self) -> int:
        return 2 * self.oid_length


SHA1 = ObjectFormat("sha1", 20, hashlib.sha1)
SHA256 = ObjectFormat("sha256", 32, hashlib.sha256)
FORMATS = {"sha1": SHA1, "sha256": SHA256}


class MissingObject(CkptError):
    """An object that the repository lacks, or that is corrupt."""

    def __init__(self, object_id: bytes, what: str) -> None:
        name = object_id.decode("ascii", "replace")
        super().__init__(
            f"{what} '{name}'",
            hint="run 'git fsck' to see what else is damaged",
            details={"object": name},
        )


class ObjectsPruned(Busy):
    """New objects were removed by a prune without grace period before a ref pointed to them."""

    def __init__(self) -> None:
        super().__init__(
            "git pruned the checkpoint's objects before its ref was made",
            hint="wait for 'git gc --prune=now' to end, then try again",
        )


class DamagedObject(ValueError):
    """An object that is corrupt or was removed, or a patch that does not apply."""


class UnreadableFile(OSError):
    """A file that could not be read, or changed while it was read."""

    @classmethod
    def changing(cls) -> UnreadableFile:
        return cls(errno.EBUSY, "changing")


@contextmanager
def reporting_damage() -> Iterator[None]:
    """Turn the errors of corrupt data and missing files into DamagedObject."""
    try:
        yield
    except (CkptError, DamagedObject):
        raise
    except OSError as error:
        if is_want(error):
            raise
        raise DamagedObject(str(error)) from error
    except Exception as error:  # of zlib, struct, dulwich
        raise DamagedObject(f"{type(error).__name__}: {error}") from error


# -- Contents in pieces


def file_pieces(fd: int, size: int) -> Iterator[bytes]:
    """Yield the content of an open file; UnreadableFile if its length is not `size`."""
    left = size
    while True:
        try:
            piece = os.pread(fd, PIECE, size - left)
        except OSError as error:
            raise UnreadableFile(error.errno, error.strerror) from error
        left -= len(piece)
        if left < 0 or (left and not piece):
            raise UnreadableFile.changing()
        if not piece:
            return
        yield piece


def deflated(header: bytes, size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the zlib stream of a header and content, at git's level if small, else the fastest."""
    packer = zlib.compressobj(6 if size <= _SMALL else 1)
    waiting = packer.compress(header)
    for piece in pieces:
        waiting += packer.compress(piece)
        if len(waiting) > _BLOCK:
            yield waiting
            waiting = b""
    yield waiting + packer.flush()


def inflated(fd: int, position: int, unpacker: Any = None) -> Iterator[bytes]:
    """Yield the content of a zlib stream in a file."""
    unpacker = unpacker or zlib.decompressobj()
    while not unpacker.eof:
        compressed = unpacker.unconsumed_tail
        if not compressed:
            compressed = os.pread(fd, _COMPRESSED_PIECE, position)
            position += len(compressed)
        piece = unpacker.decompress(compressed, PIECE)
        if not piece and not compressed:
            raise DamagedObject("a compressed object ends too early")
        if piece:
            yield piece


# -- Places of an object: in memory, loose, or `packs.Packed`

Opened = tuple[bytes, int, Iterable[bytes]]  # kind, size and pieces of the content


class Held(NamedTuple):
    """An object in memory; `data` is None if it is too large."""

    kind: bytes
    size: int
    data: bytes | None

    def open(self) -> Opened:
        return self.kind, self.size, () if self.data is None else (self.data,)


class Loose(NamedTuple):
    """A loose object."""

    path: str

    @property
    def size(self) -> int:
        return self.open()[1]

    def open(self) -> Opened:
        pieces = self._pieces()
        header, zero, beginning = next(pieces, b"").partition(b"\0")
        kind, _, size = header.partition(b" ")
        if not zero or kind not in KINDS or not size.isdigit() or len(size) > _MOST_DIGITS:
            raise DamagedObject("an object without a header")
        return kind, int(size), chain([beginning], pieces)

    def _pieces(self) -> Iterator[bytes]:
        unpacker = zlib.decompressobj()
        with open(disk.opened(self.path), "rb", buffering=0) as file:
            yield from inflated(file.fileno(), 0, unpacker)
        if unpacker.unused_data:
            raise DamagedObject("bytes behind a compressed object")

    def disk_size(self) -> int:
        return os.stat(self.path).st_size


def loose_path(folder: str, object_id: bytes) -> str:
    name = object_id.decode("ascii")
    return f"{folder}/{name[:2]}/{name[2:]}"


def temporary(folder: str, prefix: str) -> tuple[int, str]:
    """Create a file with a temporary name that git gc removes."""
    path = os.path.join(folder, disk.temporary_name(prefix))
    return disk.create(path, 0o444), path


def object_folders(path: str) -> list[str]:
    """Return an object directory and its alternates, in search order.

    dulwich's reader is not used: it recurses endlessly at an empty line."""
    found = {os.path.realpath(path): path}
    todo = [path]
    for folder in todo:  # grows in the loop
        try:
            text = disk.read(os.path.join(folder, "info", "alternates"))
        except OSError:
            continue
        for line in dict.fromkeys(text.split(b"\n")):
            named = os.path.join(folder, os.fsdecode(line))
            is_named = line and not line.startswith(b"#") and os.path.isdir(named)
            if is_named and os.path.realpath(named) not in found:
                found[os.path.realpath(named)] = named
                todo.append(named)
    return [*found.values()]


# -- The store


class ObjectStore:
    """The objects of one repository, alternates included."""

    def __init__(self, path: str, object_format: ObjectFormat, *, is_partial: bool = False) -> None:
        self.path = path
        self.is_partial = is_partial
        self.object_format = object_format
        self._folders: list[str] = []
        self._times: list[int] = []
        self._packs: list[Pack] | None = None
        # Objects added since the last flush: large ones in temporary files, small ones in memory
        # or, if there are many, in an unfinished pack.
        self._new: dict[ObjectID, New] = {}
        self._new_size = 0
        self._new_pack: NewPack | None = None
        # Existing objects relied on since then; their files, and whether these may need a flush.
        self._relied_on: set[ObjectID] = set()
        self._fresh: dict[str, bool] = {}

    # Lookup

    @property
    def folders(self) -> list[str]:
        """Return the repository's own object directory, then its alternates."""
        if not self._folders:
            self._folders = object_folders(self.path)
        return self._folders

    @property
    def packs(self) -> list[Pack]:
        """Return the packs of the repository and its alternates."""
        if self._packs is None:
            self._times, self._packs = self._pack_times(), []
            for folder in self.folders:
                for name in sorted(disk.names_in(f"{folder}/pack")):
                    if name.endswith(".idx"):
                        from ckpt.git.packs import Pack

                        with suppress(DamagedObject), reporting_damage():
                            self._packs.append(Pack(f"{folder}/pack/{name}", self.object_format))
        return self._packs

    def own_packs(self) -> list[Pack]:
        """Return the packs of the repository itself, without alternates."""
        return [pack for pack in self.packs if self._is_own(pack.path)]

    def _pack_times(self) -> list[int]:
        """Return the modification times of the pack directories, to detect changes by git."""
        paths = (f"{folder}/pack" for folder in self.folders)
        return [os.stat(path).st_mtime_ns if os.path.exists(path) else 0 for path in paths]

    def look_again(self) -> None:
        """Close the packs and list them again on next use: git may have added or removed some."""
        for pack in self._packs or ():
            pack.close()
        self._packs, self._folders = None, []

    def _places(self, object_id: ObjectID) -> Iterator[New | Stored]:
        """Yield the places of an object."""
        if object_id in self._new:
            yield self._new[object_id]
        elif self.is_id(object_id):
            yield from self._stored(object_id)

    def _stored(self, object_id: ObjectID) -> Iterator[Stored]:
        for _ in range(2):
            paths = (loose_path(folder, object_id) for folder in self.folders)
            yield from map(Loose, filter(os.path.isfile, paths))
            yield from filter(None, (pack.find(object_id) for pack in self.packs))
            if self._times == self._pack_times():
                return
            self.look_again()

    def _is_own(self, path: str) -> bool:
        return path.startswith(os.path.join(self.path, ""))

    def is_id(self, object_id: bytes) -> bool:
        is_long = len(object_id) == self.object_format.hex_length
        return is_long and not object_id.strip(b"0123456789abcdef")

    def has(self, object_id: ObjectID) -> bool:
        return next(self._places(object_id), None) is not None

    def lacks(self, object_id: ObjectID) -> bool:
        """Check whether an object is missing and no promisor remote may have it."""
        return not self.is_partial and not self.has(object_id)

    def missing(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """Return the missing ones of some objects, after `look_again`."""
        self.look_again()
        return {object_id for object_id in set(object_ids) if not self.has(object_id)}

    def is_loose(self, object_id: ObjectID) -> bool:
        return os.path.lexists(loose_path(self.path, object_id))

    def is_new(self, object_id: ObjectID) -> bool:
        """Check whether an object was added since the last flush."""
        return object_id in self._new

    def beginning_with(self, prefix: bytes) -> set[ObjectID]:
        """Return the objects whose ids begin with a prefix of at least two digits."""
        found = {object_id for pack in self.packs for object_id in pack.beginning_with(prefix)}
        for folder in self.folders:
            names = disk.names_in(f"{folder}/{os.fsdecode(prefix[:2])}")
            found.update(ObjectID(prefix[:2] + os.fsencode(name)) for name in names)
        return {i for i in found if i.startswith(prefix) and self.is_id(i)}

    def loose_files(self) -> Iterator[tuple[ObjectID, os.stat_result]]:
        """Yield the loose objects of the repository itself, with the stat data of their files."""
        for first in range(256):
            for rest in disk.names_in(f"{self.path}/{first:02x}"):
                object_id = ObjectID(os.fsencode(f"{first:02x}{rest}"))
                if self.is_id(object_id):
                    with suppress(OSError):
                        yield object_id, os.stat(loose_path(self.path, object_id))

    # Reading

    def hash(self, kind: bytes, data: bytes) -> ObjectID:
        return self._hash(kind, len(data), (data,))

    def hash_file(self, fd: int, size: int) -> ObjectID:
        """Return the id of an open file's blob; UnreadableFile if its length is not `size`."""
        return self._hash(b"blob", size, file_pieces(fd, size))

    def _hash(self, kind: bytes, size: int, pieces: Iterable[bytes]) -> ObjectID:
        digest = self.object_format.new_hash(b"%s %d\0" % (kind, size))
        for piece in pieces:
            digest.update(piece)
        return ObjectID(hexlify(digest.digest()))

    def _verified(
        self, object_id: ObjectID, kind: bytes, size: int, pieces: Iterable[bytes]
    ) -> Iterator[bytes]:
        """Yield the same pieces; DamagedObject after the last one if the id does not match."""
        digest = self.object_format.new_hash(b"%s %d\0" % (kind, size))
        for piece in pieces:
            size -= len(piece)
            if size < 0:  # a few bytes can inflate without limit
                break
            digest.update(piece)
            yield piece
        if size or hexlify(digest.digest()) != object_id:
            raise DamagedObject("a content of another id")

    def kind(self, object_id: ObjectID) -> bytes | None:
        """Return commit, tree, blob or tag; None if the object is missing or corrupt."""
        for place in self._places(object_id):
            with suppress(DamagedObject), reporting_damage():
                return place.open()[0]
        return None

    def size(self, object_id: ObjectID) -> int | None:
        """Return the size of an object; None if it is missing or corrupt."""
        for place in self._places(object_id):
            with suppress(DamagedObject), reporting_damage():
                return place.size
        return None

    def sizes(self, wanted: Set[ObjectID]) -> dict[ObjectID, int]:
        """Return the sizes of many objects, without those that are missing or corrupt."""
        found: dict[ObjectID, int] = {}
        for pack in self.packs:
            with suppress(DamagedObject), reporting_damage():
                found.update(pack.sizes(wanted - found.keys()))
        rest = ((object_id, self.size(object_id)) for object_id in wanted - found.keys())
        return found | {object_id: size for object_id, size in rest if size is not None}

    def disk_size(self, object_id: ObjectID) -> int:
        """Return the disk usage of an object in bytes, without alternates."""
        for place in self._stored(object_id):
            with suppress(DamagedObject), reporting_damage():
                if self._is_own(place.path):
                    return place.disk_size()
        return 0

    def read(self, object_id: ObjectID, kind: bytes, most: int | None = None) -> bytes:
        """Return the content of an object of a kind, checked against its id; MissingObject if it is
        larger than `most`."""
        if most is None and kind != b"blob":
            most = LARGEST_WHOLE
        return b"".join(self._read(object_id, kind, most, whole=None))

    def pieces(self, object_id: ObjectID, kind: bytes = b"blob") -> Iterator[bytes]:
        """Yield the content, in pieces if it is large. They are verified after the last one: until
        then, nothing made of them may be used."""
        return self._read(object_id, kind, most=None, whole=LARGE)

    def _read(
        self, object_id: ObjectID, kind: bytes, most: int | None, whole: int | None
    ) -> Iterator[bytes]:
        """Yield the content of an object, in pieces if it is larger than `whole`."""
        name, problem = kind.decode(), "missing object"
        for place in self._places(object_id):
            is_whole = True
            try:
                with reporting_damage():
                    found, size, pieces = place.open()
                    if found != kind:
                        problem = f"not a {name}:"
                    elif most is not None and size > most:
                        problem = f"too large ({size:,} bytes): {name}"
                    else:
                        is_whole = whole is None or size <= whole
                        content = self._verified(object_id, kind, size, pieces)
                        yield from (b"".join(content),) if is_whole else content
                        return
            except DamagedObject:
                problem = f"damaged {name}"
            if not is_whole:  # pieces have been yielded
                break
        raise MissingObject(object_id, problem)

    def check(self, object_id: ObjectID, kind: bytes) -> None:
        """Verify an object; MissingObject if it is missing or corrupt."""
        for _ in self.pieces(object_id, kind):
            pass

    def scratch(self) -> ScratchObjects:
        """Return a store on top of this one that writes nothing to disk."""
        return ScratchObjects(self)

    # Writing

    def add(self, kind: bytes, data: bytes) -> ObjectID:
        """Add an object unless it exists; it is durable after `flush`."""
        object_id = self.hash(kind, data)
        if not self._rely_on(object_id):
            self._hold(object_id, kind, data)
        return object_id

    def add_file(self, fd: int, size: int) -> ObjectID:
        """Add the blob of an open file; UnreadableFile if it changes.

        A large file is read twice, to compress it only if the blob does not exist."""
        if size <= LARGE:
            return self.add(b"blob", b"".join(file_pieces(fd, size)))
        object_id = self.hash_file(fd, size)
        if not self._rely_on(object_id):
            pieces = self._verified(object_id, b"blob", size, file_pieces(fd, size))
            try:
                self._write_file(object_id, b"blob", size, pieces)
            except DamagedObject:
                raise UnreadableFile.changing() from None
        return object_id

    def _hold(self, object_id: ObjectID, kind: bytes, data: bytes) -> None:
        place = Held(kind, len(data), data)
        if self._new_pack is not None:
            self._new[object_id] = self._new_pack.add(object_id, *place.open())
            return
        self._new[object_id] = place
        self._new_size += len(data)
        if len(self._new) > MANY_OBJECTS or self._new_size > _MOST_BYTES:
            from ckpt.git.packs import NewPack

            self._new_pack = NewPack(self.path, self.object_format)
            for each, held in self._held():
                self._new[each] = self._new_pack.add(each, *held.open())

    def _held(self) -> list[tuple[ObjectID, Held]]:
        return [(each, place) for each, place in self._new.items() if isinstance(place, Held)]

    def _write_file(
        self, object_id: ObjectID, kind: bytes, size: int, pieces: Iterable[bytes]
    ) -> None:
        """Write a loose object to a temporary file."""
        fd, path = temporary(self.path, "tmp_obj_")
        try:
            for piece in deflated(b"%s %d\0" % (kind, size), size, pieces):
                disk.write(fd, piece)
        except BaseException:
            disk.discard(path)
            raise
        finally:
            os.close(fd)
        self._new[object_id] = Loose(path)

    def keep(self, needed: Set[ObjectID]) -> set[ObjectID]:
        """Rely on existing objects as on added ones; return the missing or corrupt ones."""
        return {object_id for object_id in needed if not self._rely_on(object_id)}

    def _rely_on(self, object_id: ObjectID) -> bool:
        """Check whether an object exists and is valid, and freshen it, as git does, so that no
        prune removes it."""
        if object_id in self._relied_on or self.is_new(object_id):
            return True
        if self._freshen(loose_path(self.path, object_id)):
            try:
                self.check(object_id, self.kind(object_id) or b"blob")
            except MissingObject:
                return False
        else:
            place = next(self._stored(object_id), None)
            if place is None or not self._freshen(place.path):
                return False
        self._relied_on.add(object_id)
        return True

    def _freshen(self, path: str) -> bool:
        """Update the modification time of a file; False if it does not exist."""
        if path not in self._fresh:
            try:
                modified = os.stat(path).st_mtime
                os.utime(path)
            except OSError:
                return False
            self._fresh[path] = modified > time.time() - _WRITTEN_OUT
        return True

    def flush(self, others: Iterable[str] = ()) -> set[ObjectID]:
        """Make added objects durable and visible; return all that were added or relied on, which a
        prune may remove until a ref points to them. `others` are more files to flush."""
        added = {*self._new, *self._relied_on}
        try:
            if self._new_pack is not None:
                self._new_pack.publish()
                self._new_pack = None
            for object_id, held in self._held():
                self._write_file(object_id, *held.open())
            young = (path for path, is_young in self._fresh.items() if is_young)
            self._publish({*others, *young})
        except FileNotFoundError:
            raise ObjectsPruned from None
        self._new.clear()
        self.discard()
        return added

    def _publish(self, others: Set[str]) -> None:
        """Flush temporary files and `others`, rename the former to loose objects, and flush their
        directories."""
        files = {each.path: name for name, each in self._new.items() if isinstance(each, Loose)}
        disk.fsync([*files, *others])
        targets = {path: loose_path(self.path, name) for path, name in files.items()}
        folders = {os.path.dirname(target) for target in targets.values()}
        for folder in sorted(folders):
            with suppress(FileExistsError):
                os.mkdir(folder)
        for path, target in targets.items():
            os.rename(path, target)
        folders |= {self.path} if folders else set()
        disk.fsync(sorted(folders | {*map(os.path.dirname, others)}))

    def discard(self) -> None:
        """Discard the objects added since the last flush."""
        if self._new_pack is not None:
            self._new_pack.discard()
            self._new_pack = None
        for each in self._new.values():
            if isinstance(each, Loose):
                disk.discard(each.path)
        self._new.clear()
        self._new_size = 0
        self._relied_on.clear()
        self._fresh.clear()
        self.look_again()

    close = discard


class ScratchObjects(ObjectStore):
    """A store that keeps additions in memory, of the largest only the size; for a dry run, a diff
    or a submodule."""

    def __init__(self, base: ObjectStore) -> None:
        super().__init__(base.path, base.object_format, is_partial=base.is_partial)
        self._under = base

    def look_again(self) -> None:
        self._under.look_again()

    def sizes(self, wanted: Set[ObjectID]) -> dict[ObjectID, int]:
        return self._under.sizes(wanted)

    def _places(self, object_id: ObjectID) -> Iterator[New | Stored]:
        if object_id in self._new:
            return iter([self._new[object_id]])
        return self._under._places(object_id)

    def _rely_on(self, object_id: ObjectID) -> bool:
        return self.has(object_id)

    def _hold(self, object_id: ObjectID, kind: bytes, data: bytes) -> None:
        self._new[object_id] = Held(kind, len(data), data)

    def _write_file(
        self, object_id: ObjectID, kind: bytes, size: int, pieces: Iterable[bytes]
    ) -> None:
        data = b"".join(pieces) if size <= LARGEST_KEPT else None
        self._new[object_id] = Held(kind, size, data)

    def flush(self, others: Iterable[str] = ()) -> set[ObjectID]:
        """Write nothing."""
        return set()
