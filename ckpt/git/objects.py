# SPDX-License-Identifier: MIT
"""Git objects: reading them, and adding new ones that are durable before a ref names them.

Loose objects are read and written by `loose`, packs through dulwich by `packs`, which is not
imported before something is in a pack. Everything read is checked against its id; large contents
pass through in pieces. What is added is invisible until `flush`. An object that is there already
is freshened, so that a gc at work leaves it, or written again where only a pack has it, as a
repack may have counted it as garbage. Packing is left to git.
"""

from __future__ import annotations

import os
import time
from binascii import hexlify, unhexlify
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from ckpt import disk
from ckpt.errors import Busy, CkptError, Refused
from ckpt.git.formats import ObjectFormat, ObjectID
from ckpt.git.loose import (
    Temporaries,
    compressed,
    exists,
    loose_path,
    loose_pieces,
    names_in,
    publish,
    read_header,
    read_loose,
    write_temporary,
)
from ckpt.git.streams import (
    LARGE,
    DamagedObject,
    Digest,
    UnreadableFile,
    deflated,
    file_pieces,
    level_for,
    level_of,
)
from ckpt.locks import NOT_SHARED, Sharing

if TYPE_CHECKING:
    from ckpt.git.packs import NewPack, OpenPack, Packs

    Copy: TypeAlias = "New | str | tuple[OpenPack, int]"

_MOST_NESTED = 5  # alternates of alternates, as in git
# A repository inside the worktree may name directories without end.
_LARGEST_LIST = 1 << 20
_MOST_FOLDERS = 10_000


class MissingObject(CkptError):
    """The repository lacks an object that something refers to, or it is damaged."""

    def __init__(self, object_id: bytes, what: str) -> None:
        super().__init__(
            f"{what} '{object_id.decode('ascii', 'replace')}'",
            hint="run 'git fsck' to see what else is damaged",
            details={"object": object_id.decode("ascii", "replace")},
        )


class ObjectsPruned(Busy):
    """A prune without grace takes objects that no ref names yet."""

    def __init__(self) -> None:
        super().__init__(
            "git pruned the checkpoint's objects before its ref was made",
            hint="wait for 'git gc --prune=now' to end, then try again",
        )


# Object directories


def object_folders(path: str, more: Iterable[str] = ()) -> list[str]:
    """An object directory and all its alternates, each once, in the order of looking."""
    found = [path]
    known = {os.path.realpath(path)}
    todo = [(folder, 1) for folder in (*_named_in(path), *more)]
    for folder, depth in todo:  # which grows meanwhile
        if not os.path.isdir(folder):
            continue
        real = os.path.realpath(folder)
        if real in known:
            continue
        known.add(real)
        found.append(folder)
        if depth <= _MOST_NESTED and len(todo) < _MOST_FOLDERS:
            todo += [(further, depth + 1) for further in _named_in(folder)]
    return found


def check_none_lent(path: str, more: Iterable[str]) -> None:
    """Refuse to rely on a directory that only the environment names."""
    own = {*map(os.path.realpath, object_folders(path))}
    for folder in object_folders(path, more):
        if os.path.realpath(folder) in own:
            continue
        from shlex import quote

        named = os.path.join(path, "info", "alternates")
        raise Refused(
            f"the environment lends objects from '{folder}', "
            "and without them what is saved may not be whole",
            hint="unset GIT_ALTERNATE_OBJECT_DIRECTORIES, and try again; or, if they stay there: "
            f"echo {quote(os.path.abspath(folder))} >> {quote(named)}",
        )


def _named_in(folder: str) -> Iterator[str]:
    """dulwich's reader of this file recurses without end at an empty line."""
    try:
        lines = disk.read(os.path.join(folder, "info", "alternates"), _LARGEST_LIST).split(b"\n")
    except OSError:
        return
    for line in dict.fromkeys(lines):
        if line and not line.startswith(b"#"):
            yield os.path.join(folder, os.fsdecode(line))


# What was added and is not visible yet

# From here on new objects go into a pack.
MANY_OBJECTS = 200
_MOST_BYTES = 2 << 20


class New:
    """Objects added since the last flush: small ones in memory, large ones in temporary files,
    and all small ones in an unfinished pack once they are many."""

    def __init__(self, path: str, object_format: ObjectFormat, sharing: Sharing) -> None:
        self._format = object_format
        self._temporaries = Temporaries(path, sharing)
        self._held: dict[ObjectID, tuple[bytes, bytes]] = {}
        self._held_size = 0
        self._files: dict[ObjectID, str] = {}
        self._pack: NewPack | None = None

    def __contains__(self, object_id: ObjectID) -> bool:
        in_pack = self._pack is not None and object_id in self._pack
        return object_id in self._held or object_id in self._files or in_pack

    def ids(self) -> set[ObjectID]:
        return {*self._held, *self._files, *(() if self._pack is None else self._pack.ids())}

    def add(self, object_id: ObjectID, kind: bytes, data: bytes) -> None:
        if self._pack is not None:
            self._pack.add(object_id, kind, data)
            return
        self._held[object_id] = (kind, data)
        self._held_size += len(data)
        if len(self._held) > MANY_OBJECTS or self._held_size > _MOST_BYTES:
            self._begin_pack()

    def add_pieces(self, object_id: ObjectID, pieces: Iterable[bytes]) -> None:
        """Add an object by the pieces of its compressed file."""
        self._files[object_id] = write_temporary(self._temporaries, pieces)

    def _begin_pack(self) -> None:
        from ckpt.git.packs import NewPack

        try:
            self._pack = pack = NewPack(self._format, self._temporaries)
        except FileNotFoundError:
            raise ObjectsPruned from None
        for object_id, (kind, data) in self._held.items():
            pack.add(object_id, kind, data)
        self._held.clear()
        self._held_size = 0

    def header(self, object_id: ObjectID) -> tuple[bytes, int]:
        if self._pack is not None and object_id in self._pack:
            return self._pack.header(object_id)
        if object_id in self._files:
            return read_header(self._files[object_id])
        kind, data = self._held[object_id]
        return kind, len(data)

    def read(self, object_id: ObjectID) -> tuple[bytes, bytes]:
        if self._pack is not None and object_id in self._pack:
            return self._pack.read(object_id)
        if object_id in self._files:
            return read_loose(self._files[object_id])
        return self._held[object_id]

    def pieces(self, object_id: ObjectID) -> Iterator[bytes]:
        path = self._files.get(object_id)
        return iter((self.read(object_id)[1],)) if path is None else loose_pieces(path)

    def flush(self, others: Collection[str]) -> None:
        """Make everything durable, `others` too, and visible: contents first, then names."""
        try:
            if self._pack is not None:
                self._pack.finish()
                self._pack = None
            for object_id, held in list(self._held.items()):
                self.add_pieces(object_id, (compressed(*held),))
            if self._files or others:
                publish(self._temporaries, self._files, set(others))
        except FileNotFoundError:
            raise ObjectsPruned from None
        self._files.clear()
        self.discard()

    def discard(self) -> None:
        if self._pack is not None:
            self._pack.discard()
            self._pack = None
        self._held.clear()
        self._held_size = 0
        self._files.clear()
        self._temporaries.end()


def _mtime_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


# The store

# Seconds after which the kernel has written everything by itself.
_WRITTEN_OUT = 120.0


class ObjectStore:
    """The objects of one repository, alternates included."""

    def __init__(
        self,
        path: str,
        object_format: ObjectFormat,
        alternates: Iterable[str] = (),
        *,
        is_partial: bool = False,
        sharing: Sharing = NOT_SHARED,
    ) -> None:
        self.path = path
        self.is_partial = is_partial
        self.object_format = object_format
        self._alternates = tuple(alternates)
        self._new = New(path, object_format, sharing)
        self._folders: list[str] = []
        self._times: list[int] | None = None
        self._packs: Packs | None = None
        self._relied_on: set[ObjectID] = set()
        self._packed: set[ObjectID] = set()
        self._young: set[str] = set()
        self._fresh: set[str] = set()
        self._damaged: set[ObjectID] = set()

    # Where an object is

    @property
    def folders(self) -> list[str]:
        """The repository's own object directory, then its alternates."""
        if not self._folders:
            self._folders = object_folders(self.path, self._alternates)
        return self._folders

    @property
    def packs(self) -> Packs | None:
        """The packs there are; None without any, and dulwich is not imported then."""
        if self._times is None:
            self._times = self._pack_times()
            names = (name for folder in self.folders for name in names_in(f"{folder}/pack"))
            if any(name.endswith(".idx") for name in names):
                from ckpt.git.packs import Packs

                self._packs = Packs(self.folders, self.object_format)
        return self._packs

    def _pack_times(self) -> list[int]:
        """By which to tell that git has added or removed packs."""
        return [_mtime_ns(f"{folder}/pack") for folder in self._folders]

    def look_again(self) -> None:
        """Forget which packs there are: git adds and removes some at any time."""
        if self._packs is not None:
            self._packs.close()
        self._packs, self._times, self._folders = None, None, []

    def _copies(self, object_id: ObjectID) -> Iterator[Copy]:
        """Where an object is, one place after the other."""
        if not self._is_id(object_id):
            return
        if object_id in self._new:
            yield self._new
            return
        raw_id = unhexlify(object_id)
        for _ in range(2):
            if self._packs is not None:  # they have more than there are loose ones
                yield from self._packs.find_all(raw_id)
                yield from self._loose_copies(object_id)
            else:
                yield from self._loose_copies(object_id)
                if self.packs is not None:
                    yield from self.packs.find_all(raw_id)
            if self._times == self._pack_times():
                return
            self.look_again()

    def _loose_copies(self, object_id: ObjectID) -> Iterator[str]:
        for folder in self.folders:
            path = loose_path(folder, object_id)
            if exists(path):
                yield path

    def _is_id(self, object_id: bytes) -> bool:
        is_long = len(object_id) == self.object_format.hex_length
        return is_long and not object_id.strip(b"0123456789abcdef")

    # Reading

    def hash(self, kind: bytes, data: bytes) -> ObjectID:
        digest = self.object_format.new_hash(b"%s %d\0" % (kind, len(data)))
        digest.update(data)
        return ObjectID(hexlify(digest.digest()))

    def hash_file(self, fd: int, size: int) -> ObjectID:
        """The id of an open file's blob; UnreadableFile if its length is another."""
        digest = Digest(self.object_format.new_hash, b"blob", size)
        for _ in digest.over(file_pieces(fd, size)):
            pass
        return ObjectID(digest.id)

    def has(self, object_id: ObjectID) -> bool:
        return next(self._copies(object_id), None) is not None

    def lacks(self, object_id: ObjectID) -> bool:
        """Not here though it should be; a partial clone may leave anything at its remote."""
        return not self.is_partial and not self.has(object_id)

    def is_new(self, object_id: ObjectID) -> bool:
        """Added and not yet flushed."""
        return object_id in self._new

    def size(self, object_id: ObjectID) -> int | None:
        """The size of an object; None if it cannot be found or read."""
        for copy in self._copies(object_id):
            try:
                return self._size_of(object_id, copy)
            except (FileNotFoundError, DamagedObject):
                continue
        return None

    def sizes(self, object_ids: Iterable[ObjectID]) -> dict[ObjectID, int]:
        """The sizes of those that can be found."""
        sizes = ((object_id, self.size(object_id)) for object_id in object_ids)
        return {object_id: size for object_id, size in sizes if size is not None}

    def disk_sizes(self, object_ids: Iterable[ObjectID]) -> dict[ObjectID, int]:
        """The bytes that objects take on the disk, of those that the repository itself has."""
        found: dict[ObjectID, int] = {}
        for object_id in object_ids:
            with suppress(StopIteration, OSError, DamagedObject):
                copy = next(self._copies(object_id))
                if isinstance(copy, tuple):
                    found[object_id] = copy[0].disk_size(copy[1])
                elif isinstance(copy, str) and copy.startswith(os.path.join(self.path, "")):
                    found[object_id] = os.stat(copy).st_size
        return found

    def missing(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """Those that are not there, as things are now."""
        self.look_again()
        return {object_id for object_id in set(object_ids) if not self.has(object_id)}

    def whole(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """Those that are in a pack, or can be read: a power cut leaves empty loose objects."""
        return {object_id for object_id in set(object_ids) if self._is_whole(object_id)}

    def _is_whole(self, object_id: ObjectID) -> bool:
        return any(not isinstance(copy, str) for copy in self._copies(object_id)) or (
            self._is_sound(object_id)
        )

    def kind(self, object_id: ObjectID) -> bytes | None:
        """commit, tree, blob or tag; None if the object cannot be found or read."""
        for copy in self._copies(object_id):
            try:
                if isinstance(copy, tuple):
                    return copy[0].kind(copy[1])
                return (read_header(copy) if isinstance(copy, str) else copy.header(object_id))[0]
            except (FileNotFoundError, DamagedObject):
                continue
        return None

    def beginning_with(self, prefix: bytes) -> set[ObjectID]:
        """Every object whose id begins so, with at least two digits."""
        found: set[bytes] = set()
        for pack in () if self.packs is None else self.packs.all:
            try:
                found.update(pack.beginning_with(prefix))
            except (DamagedObject, ValueError):
                continue
        for folder in self.folders:
            names = names_in(os.path.join(folder, os.fsdecode(prefix[:2])))
            found.update(prefix[:2] + os.fsencode(name) for name in names)
        return {ObjectID(i) for i in found if i.startswith(prefix) and self._is_id(i)}

    def read(self, object_id: ObjectID, kind: bytes, most: int | None = None) -> bytes:
        """The content of an object of that kind, checked against its id; what is larger than
        `most` counts as missing."""
        problem = "missing object"
        for copy in self._copies(object_id):
            try:
                if most is not None and self._size_of(object_id, copy) > most:
                    problem = f"too large for its purpose: {kind.decode()}"
                    continue
                found, data = self._read_copy(object_id, copy)
            except FileNotFoundError:
                continue
            except (DamagedObject, KeyError):
                problem = "cannot read object"
                continue
            if found != kind:
                problem = f"not a {kind.decode()}: object"
            elif self.hash(kind, data) == object_id:
                return data
            else:
                problem = f"damaged {kind.decode()}"
        raise MissingObject(object_id, problem)

    def _read_copy(self, object_id: ObjectID, copy: Copy) -> tuple[bytes, bytes]:
        if isinstance(copy, tuple):
            return copy[0].read(unhexlify(object_id), copy[1])
        return read_loose(copy) if isinstance(copy, str) else copy.read(object_id)

    def _size_of(self, object_id: ObjectID, copy: Copy) -> int:
        if isinstance(copy, tuple):
            return copy[0].size(copy[1])
        return (read_header(copy) if isinstance(copy, str) else copy.header(object_id))[1]

    def pieces(self, object_id: ObjectID, kind: bytes = b"blob") -> Iterator[bytes]:
        """The content, in pieces if it is large: only the end of them says that they are right,
        and until then nothing made of them may be used."""
        size = self.size(object_id)
        if size is None or size <= LARGE:
            yield self.read(object_id, kind)
            return
        digest = Digest(self.object_format.new_hash, kind, size)
        try:
            yield from digest.over(self._large(object_id))
        except (DamagedObject, KeyError) as error:
            raise MissingObject(object_id, "cannot read object") from error
        if digest.id != object_id:
            raise MissingObject(object_id, f"damaged {kind.decode()}")

    def _large(self, object_id: ObjectID) -> Iterator[bytes]:
        for copy in self._copies(object_id):
            try:
                if isinstance(copy, tuple):
                    return copy[0].pieces(unhexlify(object_id), copy[1])
            except DamagedObject:
                continue
            return loose_pieces(copy) if isinstance(copy, str) else copy.pieces(object_id)
        return iter(())

    def check(self, object_id: ObjectID, kind: bytes) -> None:
        """Read an object to its end, for the errors that this may raise."""
        for _ in self.pieces(object_id, kind):
            pass

    def _is_sound(self, object_id: ObjectID) -> bool:
        try:
            self.check(object_id, self.kind(object_id) or b"blob")
        except MissingObject:
            return False
        return True

    def scratch(self) -> ScratchObjects:
        """A store over this one whose additions are kept in memory only."""
        return ScratchObjects(self)

    # Writing

    def add(self, kind: bytes, data: bytes) -> ObjectID:
        """Write an object unless the repository has it; durable after `flush`."""
        object_id = self.hash(kind, data)
        if not self._rely_on(object_id):
            self._new.add(object_id, kind, data)
        return object_id

    def add_file(self, fd: int, size: int) -> ObjectID:
        """Write the blob of an open file; UnreadableFile if it is changing. A large file is read
        twice: what the repository has is not compressed in vain."""
        if size <= LARGE:
            return self.add(b"blob", b"".join(file_pieces(fd, size)))
        object_id = self.hash_file(fd, size)
        if not self._rely_on(object_id):
            digest = Digest(self.object_format.new_hash, b"blob", size)
            pieces = digest.over(file_pieces(fd, size))
            self._new.add_pieces(
                object_id, self._unchanged(object_id, digest, pieces, level_for(fd, size))
            )
        return object_id

    def _unchanged(
        self, object_id: ObjectID, digest: Digest, pieces: Iterable[bytes], level: int
    ) -> Iterator[bytes]:
        yield from deflated(digest.header, pieces, level)
        if digest.id != object_id:
            raise UnreadableFile.changing()

    def keep(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """Rely on objects as on what was added; returns those that are missing or damaged."""
        return {i for i in set(object_ids) if self._is_id(i) and not self._rely_on(i)}

    def _rely_on(self, object_id: ObjectID) -> bool:
        """Whether the repository has an object, whole; freshens it, as git does, so that no prune
        takes it, and remembers what is left to do about it at the next flush."""
        if object_id in self._new or object_id in self._relied_on:
            return True
        if object_id in self._damaged:
            return False
        if self._freshen(loose_path(self.path, object_id)):
            is_there = self._is_sound(object_id)
        else:
            place = None if self.packs is None else self.packs.find(unhexlify(object_id))
            is_packed = place is not None and self._freshen(place[0].path)
            is_there = is_packed or any(map(self._freshen, self._loose_copies(object_id)))
            if is_packed and place and place[0].path.startswith(os.path.join(self.path, "")):
                self._packed.add(object_id)
        if is_there:
            self._relied_on.add(object_id)
        return is_there

    def _freshen(self, path: str) -> bool:
        """Set a file's time to now, unless it is gone."""
        if path in self._fresh:
            return True
        try:
            status = os.stat(path)
            disk.utime(path)
        except OSError:
            return False
        if status.st_mtime > time.time() - _WRITTEN_OUT:  # git may not have flushed it
            self._young.add(path)
        self._fresh.add(path)
        return True

    @property
    def packed(self) -> frozenset[ObjectID]:
        """What was relied on since the last flush, and only a pack has."""
        return frozenset(self._packed)

    def leave_packed(self, object_ids: Iterable[ObjectID]) -> None:
        """Let the next flush rely on packs for these, since a ref names them."""
        self._packed.difference_update(object_ids)

    def flush(self, others: Iterable[str] = ()) -> set[ObjectID]:
        """Make everything added durable and visible: contents first, then names. `others` are
        files that have to be on the disk before anything refers to what was added. Returns all
        that was added or relied on: a prune may take it before a ref names it."""
        while self._packed:
            object_id = self._packed.pop()
            try:
                self._write_again(object_id)
            except MissingObject:  # the next attempt writes it from the file
                self._damaged.add(object_id)
                raise ObjectsPruned from None
        added = self._new.ids() | self._relied_on
        self._new.flush({*others, *self._young})
        self.discard()
        return added

    def _write_again(self, object_id: ObjectID) -> None:
        kind, size = self.kind(object_id) or b"blob", self.size(object_id) or 0
        if size <= LARGE:
            self._new.add(object_id, kind, self.read(object_id, kind))
        else:
            header = b"%s %d\0" % (kind, size)
            pieces = deflated(header, self.pieces(object_id, kind), level_of(size))
            self._new.add_pieces(object_id, pieces)

    def discard(self) -> None:
        """Forget what was added since the last flush."""
        self._new.discard()
        self._relied_on.clear()
        self._packed.clear()
        self._young.clear()
        self._fresh.clear()
        self.look_again()

    def close(self) -> None:
        self.discard()


# Objects that are never written: for a dry run, a diff, or a look at a submodule

LARGEST_KEPT = 16 << 20  # in memory


class InMemory(New):
    """Additions of which nothing is written; of the largest only the size is kept."""

    def __init__(self, object_format: ObjectFormat) -> None:
        super().__init__("", object_format, NOT_SHARED)
        self._sizes: dict[ObjectID, int] = {}

    def __contains__(self, object_id: ObjectID) -> bool:
        return object_id in self._held or object_id in self._sizes

    def add(self, object_id: ObjectID, kind: bytes, data: bytes) -> None:
        self._held[object_id] = (kind, data)

    def add_size(self, object_id: ObjectID, size: int) -> None:
        self._sizes[object_id] = size

    def header(self, object_id: ObjectID) -> tuple[bytes, int]:
        size = self._sizes.get(object_id)
        return super().header(object_id) if size is None else (b"blob", size)

    def read(self, object_id: ObjectID) -> tuple[bytes, bytes]:
        if object_id in self._sizes:
            raise DamagedObject("too large to be kept in memory")
        return super().read(object_id)


class ScratchObjects(ObjectStore):
    """Ids of what is added, without a trace on disk."""

    def __init__(self, base: ObjectStore) -> None:
        super().__init__(base.path, base.object_format, is_partial=base.is_partial)
        self._under = base
        self._new: InMemory = InMemory(base.object_format)

    @property
    def packs(self) -> Packs | None:
        return self._under.packs

    def look_again(self) -> None:
        self._under.look_again()

    def _copies(self, object_id: ObjectID) -> Iterator[Copy]:
        if object_id in self._new:
            yield self._new
        else:
            yield from self._under._copies(object_id)

    def _rely_on(self, object_id: ObjectID) -> bool:
        return self.has(object_id)

    def add_file(self, fd: int, size: int) -> ObjectID:
        """What is too large to be kept gets its id all the same, and cannot be read again."""
        if size <= LARGEST_KEPT:
            return self.add(b"blob", b"".join(file_pieces(fd, size)))
        object_id = self.hash_file(fd, size)
        if not self.has(object_id):
            self._new.add_size(object_id, size)
        return object_id

    def flush(self, others: Iterable[str] = ()) -> set[ObjectID]:
        """Write nothing."""
        return set()
