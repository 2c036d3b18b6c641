# SPDX-License-Identifier: MIT
"""Git objects: reading them whole, and adding new ones.

Reading and writing are our own. dulwich would take as long to be imported as git takes for
half a save; its writer names its temporary file after the object and never flushes it, so
that a kill leaves a lock that blocks that content for good, and two processes saving the
same file collide. Here new objects are written under temporary names that git's gc clears
away, and get their own only in `flush`, when their bytes are on the disk (`pending`). So an
object that can be seen is whole, and whoever writes the same one at once succeeds.

Everything read is checked against its id. A large content passes through in pieces and
is never held whole, neither on its way in nor out. Repacking is left to git.
"""

from __future__ import annotations

import os
import stat
import time
import zlib
from binascii import Error as NotHexadecimal
from binascii import hexlify, unhexlify
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from ckpt import disk
from ckpt.errors import Busy, CkptError, Refused
from ckpt.git.formats import ObjectFormat, ObjectID
from ckpt.git.loose import DamagedObject, exists, loose_path, loose_size, read_header, read_loose
from ckpt.git.pack_writer import PackWriter
from ckpt.git.packs import Pack, PackList
from ckpt.git.streams import (
    LARGE,
    Digest,
    UnreadableFile,
    deflated,
    file_pieces,
    inflated,
    level_for,
    level_of,
    loose_pieces,
    patched_pieces,
)
from ckpt.git.temporaries import TEMPORARY_OBJECT, Temporaries
from ckpt.locks import NOT_SHARED, Sharing

if TYPE_CHECKING:
    Copy: TypeAlias = "Pending | str | tuple[Pack, int]"

_MOST_NESTED = 5  # one behind the other, as in git
# More than anybody has: a repository inside the worktree may name folders without end.
_LARGEST = 1 << 20  # bytes of a list
_MOST = 10_000  # names, after which no further list is read


def object_folders(path: str, more: Iterable[str] = ()) -> list[str]:
    """The folder itself and all its alternates, each once, in the order of looking."""
    found = [path]
    known = {os.path.realpath(path)}
    todo = [(folder, 1) for folder in (*_named_in(path), *more)]
    for folder, depth in todo:  # which grows meanwhile
        if not os.path.isdir(folder):  # nor can be, if there is a zero byte in its name
            continue
        real = os.path.realpath(folder)
        if real in known:
            continue
        known.add(real)
        found.append(folder)
        if depth <= _MOST_NESTED and len(todo) < _MOST:
            todo += [(further, depth + 1) for further in _named_in(folder)]
    return found


def check_none_lent(path: str, more: Iterable[str]) -> None:
    """Refuse to rely on a folder that only the environment names, and only for now."""
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


def absent(path: str) -> list[str]:
    """Alternates that are named and not there: on a disk that is not mounted, perhaps."""
    named = [line for folder in object_folders(path) for line in _named_in(folder)]
    return [folder for folder in named if not os.path.isdir(folder)]


def _named_in(folder: str) -> Iterator[str]:
    try:
        lines = disk.read(os.path.join(folder, "info", "alternates"), _LARGEST).split(b"\n")
    except OSError:
        return
    for line in dict.fromkeys(lines):
        if line and not line.startswith(b"#"):
            yield os.path.join(folder, os.fsdecode(line))


# -- Where the copies of an object are: not flushed yet, loose, in packs, in other repositories


class Copies:
    """Those of one repository's objects. Packs are as they were at the first look since `forget`:
    a newer one may be missed, and what it holds is then written once more."""

    def __init__(
        self, path: str, object_format: ObjectFormat, alternates: tuple[str, ...], pending: Pending
    ) -> None:
        self._path = path
        self._format = object_format
        self._alternates = alternates
        self._pending = pending
        self._packs = PackList(object_format)
        self._folders: list[str] | None = None

    @property
    def packs(self) -> PackList:
        if self._folders is None:
            self.look_again()
        return self._packs

    @property
    def folders(self) -> list[str]:
        """The repository's own, then its alternates."""
        if self._folders is None:
            self.look_again()
        return self._folders or []

    def look_again(self) -> None:
        self._folders = object_folders(self._path, self._alternates)
        self._packs.look(self._folders)

    def forget(self) -> None:
        self._folders = None

    def close(self) -> None:
        self._packs.close()

    def of(self, object_id: ObjectID, only_there: bool = False) -> Iterator[Copy]:
        """Where an object is, or may be, one place after the other."""
        raw_id = self._raw(object_id)
        if raw_id is None:
            return
        if object_id in self._pending:
            yield self._pending
            return
        own, *others = paths = self.loose_paths(object_id)
        if not only_there or exists(own):  # quicker to tell than by looking into several packs
            yield own
        place = self.packs.find(raw_id)
        if place is not None:
            yield place
        yield from filter(exists, others) if only_there else others
        if place is not None or not self._packs.is_current():  # git may repack meanwhile
            self.look_again()
            yield from self._packs.find_all(raw_id)
            yield from filter(exists, paths) if only_there else paths

    def loose_paths(self, object_id: ObjectID) -> list[str]:
        """Where an object may be that is in no pack, here first."""
        return [loose_path(folder, object_id) for folder in self.folders]

    def pack_with(self, raw_id: bytes) -> Pack | None:
        place = self.packs.find(raw_id)
        return None if place is None else place[0]

    def missing(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """Those of which there is none, as things are now and not at the last look."""
        asked = set(object_ids)
        left = self.only_ids(asked)
        damaged = asked - left
        for _ in range(2):  # git may repack meanwhile
            self.look_again()
            for _, places in self._packs.find_many(map(unhexlify, left)):
                left.difference_update(map(hexlify, places.values()))
            left = {i for i in left if not self._is_loose(i)}
            if not left:
                break
        return left | damaged

    def _is_loose(self, object_id: ObjectID) -> bool:
        return object_id in self._pending or any(map(exists, self.loose_paths(object_id)))

    def beginning_with(self, prefix: bytes) -> set[ObjectID]:
        """Every object whose id begins so, as people and git's own lists shorten them; at
        least two digits."""
        found = self.packs.beginning_with(prefix)
        for folder in self.folders:
            try:
                names = os.listdir(os.path.join(folder, os.fsdecode(prefix[:2])))
            except OSError:
                continue
            found |= {prefix[:2] + os.fsencode(name) for name in names}
        length = self._format.hex_length
        return {ObjectID(i) for i in found if len(i) == length and i.startswith(prefix)}

    def only_ids(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """What can be an id at all: names come out of objects, and these may be damaged."""
        return {i for i in object_ids if self._raw(i) is not None}

    def _raw(self, object_id: ObjectID) -> bytes | None:
        """The bytes that an id stands for; None if it is none."""
        if len(object_id) != self._format.hex_length:
            return None
        try:
            return unhexlify(object_id)
        except NotHexadecimal:
            return None


# -- Objects that git wrote a moment ago, and that may be in memory only

# Seconds, after which the kernel has written everything by itself: it begins after half a minute.
_WRITTEN_OUT = 120.0


class Unflushed:
    """Those of one object folder that something relies on, by their `paths`."""

    def __init__(self, folder: str, id_length: int) -> None:
        self._folder = folder
        self._id_length = id_length
        self.paths: set[str] = set()

    def note(self, path: str, status: os.stat_result) -> bool:
        """Remember a loose object if it is young; what is no file is none."""
        is_young = stat.S_ISREG(status.st_mode) and status.st_mtime > time.time() - _WRITTEN_OUT
        if is_young:
            self.paths.add(path)
        return is_young

    def note_all(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """The same for objects and all that they name: what names nothing young is older. Gives
        back those whose files are as a power cut leaves them."""
        todo = [*object_ids]
        seen: set[ObjectID] = set()
        broken: set[ObjectID] = set()
        while todo and not disk.syncs_instead_of(len(self.paths)):
            object_id = todo.pop()
            if object_id in seen:
                continue
            seen.add(object_id)
            path = loose_path(self._folder, object_id)
            try:
                status = os.stat(path)
                if self.note(path, status) or not status.st_size:
                    todo += self._named_in(path)
            except OSError:  # in a pack, or another repository's
                continue
            except ValueError:
                broken.add(object_id)
        return broken

    def _named_in(self, path: str) -> list[ObjectID]:
        from ckpt.git.trees import GITLINK, parse_tree

        if read_header(path)[0] == b"blob":  # it names nothing, and may be large
            return []
        kind, data = read_loose(path)
        if kind == b"tree":
            entries = parse_tree(data, self._id_length)
            return [child for _, mode, child in entries if mode != GITLINK]
        lines = data.partition(b"\n\n")[0].splitlines() if kind == b"commit" else []
        words = (line.split() for line in lines)
        named = (line[1] for line in words if line[0] in (b"tree", b"parent") and len(line) == 2)
        return [*map(ObjectID, named)]


# -- Objects that were added and are not visible yet

# From here on they go into a pack.
MANY_OBJECTS = 200
# Bytes, beyond which objects are not held in memory.
_MOST_HELD = 2 << 20


class ObjectsPruned(Busy):
    """A prune without grace takes objects that nothing names yet."""

    def __init__(self) -> None:
        super().__init__(
            "git pruned the checkpoint's objects before its ref was made",
            hint="wait for 'git gc --prune=now' to end, then try again",
        )


class Pending:
    """What was added to an object folder since the last flush."""

    def __init__(self, path: str, object_format: ObjectFormat, sharing: Sharing) -> None:
        self._path = path
        self._format = object_format
        self._sharing = sharing
        self._temporaries = Temporaries(path, sharing)
        self._held: dict[ObjectID, tuple[bytes, bytes]] = {}
        self._held_size = 0
        self._files: dict[ObjectID, str] = {}
        self._pack: PackWriter | None = None
        self._kept: list[PackWriter] = []

    def __contains__(self, object_id: ObjectID) -> bool:
        return (
            object_id in self._held
            or object_id in self._files
            or (self._pack is not None and object_id in self._pack)
        )

    def ids(self) -> set[ObjectID]:
        packed = self._pack.ids() if self._pack is not None else ()
        return {*self._held, *self._files, *packed}

    def loose_ids(self) -> set[ObjectID]:
        """What a flush gives files of their own."""
        return {*self._held, *self._files}

    def add(self, object_id: ObjectID, kind: bytes, data: bytes) -> None:
        if self._pack is not None:
            self._pack.add(object_id, kind, data)
            return
        self._held[object_id] = (kind, data)
        self._held_size += len(data)
        if len(self._held) + len(self._files) > MANY_OBJECTS:
            self._begin_pack()
        elif self._held_size > _MOST_HELD:
            self._lay_down()

    def add_file(self, object_id: ObjectID, fd: int, size: int) -> None:
        """Add the blob of a large file; UnreadableFile if it is another by now."""
        self._write_temporary(object_id, self._compressed(object_id, fd, size))

    def add_pieces(
        self, object_id: ObjectID, kind: bytes, size: int, pieces: Iterable[bytes]
    ) -> None:
        """Add a large object, of which it is known that these are its pieces."""
        header = Digest(self._format.new_hash, kind, size).header
        self._write_temporary(object_id, deflated(header, pieces, level_of(size)))

    def _compressed(self, object_id: ObjectID, fd: int, size: int) -> Iterator[bytes]:
        digest = Digest(self._format.new_hash, b"blob", size)
        pieces = digest.over(file_pieces(fd, size))
        yield from deflated(digest.header, pieces, level_for(fd, size))
        if digest.id != object_id:
            raise UnreadableFile.changing()

    def _write_temporary(self, object_id: ObjectID, pieces: Iterable[bytes]) -> None:
        fd, path = self._create()
        try:
            for piece in pieces:
                disk.write(fd, piece)
        except BaseException:
            disk.discard(path)
            raise
        finally:
            os.close(fd)
        self._files[object_id] = path

    def write_kept(self, object_id: ObjectID, kind: bytes, data: bytes) -> None:
        """Write an object to a pack of its own, which git leaves alone until `discard`."""
        pack = self._new_pack()
        try:
            pack.add(object_id, kind, data)
            pack.finish()
        except BaseException as error:
            pack.discard()
            if isinstance(error, FileNotFoundError):
                raise ObjectsPruned from None
            raise
        self._kept.append(pack)

    def _new_pack(self) -> PackWriter:
        try:
            return PackWriter(self._path, self._format, self._sharing, self._temporaries)
        except FileNotFoundError:
            raise ObjectsPruned from None

    def _begin_pack(self) -> None:
        """Move what is held into a pack that is not finished."""
        self._pack = pack = self._new_pack()
        for object_id, (kind, data) in self._held.items():
            pack.add(object_id, kind, data)
        self._forget_held()

    def _lay_down(self) -> None:
        """Write what is held to temporary files."""
        for object_id, held in list(self._held.items()):
            self._write_temporary(object_id, (_compressed(*held),))
            del self._held[object_id]
        self._forget_held()

    def _forget_held(self) -> None:
        self._held.clear()
        self._held_size = 0

    def _create(self) -> tuple[int, str]:
        """A temporary file, on the same file system as the place of its object."""
        path = os.path.join(self._path, self._temporaries.name(TEMPORARY_OBJECT))
        fd = disk.create(path, 0o444)
        try:
            self._sharing.adjust(path)
        except BaseException:
            os.close(fd)
            disk.discard(path)
            raise
        return fd, path

    # -- reading ---------------------------------------------------------------

    def pieces(self, object_id: ObjectID) -> Iterator[bytes]:
        """The content, in pieces if it is large."""
        path = self._files.get(object_id)
        return iter((self.read(object_id)[1],)) if path is None else loose_pieces(path)

    def header(self, object_id: ObjectID) -> tuple[bytes, int]:
        """Kind and size."""
        if object_id in self._held:
            kind, data = self._held[object_id]
            return kind, len(data)
        try:
            if self._pack is not None and object_id in self._pack:
                return self._pack.header(object_id)
            return read_header(self._files[object_id])
        except FileNotFoundError:
            raise ObjectsPruned from None

    def read(self, object_id: ObjectID) -> tuple[bytes, bytes]:
        """Kind and content."""
        if object_id in self._held:
            return self._held[object_id]
        try:
            if self._pack is not None and object_id in self._pack:
                return self._pack.read(object_id)
            return read_loose(self._files[object_id])
        except FileNotFoundError:
            raise ObjectsPruned from None

    # -- the end ---------------------------------------------------------------

    def flush(self, others: Collection[str] = ()) -> None:
        """Make everything durable and visible: contents first, then names. `others` are files
        that are visible already: together with the rest they take no longer. One that is gone
        was packed and flushed by a gc, or it is missed when the ref is there."""
        try:
            if self._pack is not None:
                self._pack.finish()
                self._kept.append(self._pack)
                self._pack = None
            self._lay_down()
            if self._files or others:
                self._flush_files(others)
            if not self._kept:
                self._temporaries.end()
        except FileNotFoundError:
            raise ObjectsPruned from None

    def _flush_files(self, others: Collection[str]) -> None:
        disk.fsync_files([*self._files.values()], others)
        targets = {object_id: loose_path(self._path, object_id) for object_id in self._files}
        folders = sorted({os.path.dirname(target) for target in targets.values()})
        for folder in folders:
            self._sharing.make_folders(folder)
        for object_id, target in targets.items():
            self._publish(self._files[object_id], target)
            del self._files[object_id]
        beside = {*map(os.path.dirname, others)}.difference(folders)
        disk.fsync_dirs([self._path, *folders], sorted(beside))

    def _publish(self, path: str, target: str) -> None:
        try:
            disk.rename(path, target)
        except FileNotFoundError:  # git removes empty folders
            self._sharing.make_folders(os.path.dirname(target))
            disk.rename(path, target)

    def discard(self) -> None:
        """Forget what was added, and leave nothing of it behind.

        What was flushed before is named by a ref by now, and no longer kept from git. What a
        fork's parent added, and may go on with, stays where it is.
        """
        if self._temporaries.are_foreign:
            self._kept.clear()
            self._pack = None
            self._files.clear()
        while self._kept:
            self._kept.pop().release()
        self._forget_held()
        if self._pack is not None:
            self._pack.discard()
            self._pack = None
        for path in self._files.values():
            disk.discard(path)
        self._files.clear()
        self._temporaries.end()


def _compressed(kind: bytes, data: bytes) -> bytes:
    packer = zlib.compressobj(level_of(len(data)))
    header = packer.compress(b"%s %d\0" % (kind, len(data)))
    return header + packer.compress(data) + packer.flush()


# -- Objects that the repository has, and that are not written again


class Reuse:
    """What was found since the last flush: `ids`, what of it is in a file of its own in this
    repository (`loose`) or only in a pack there (`packed`), and what is `unflushed`. If it
    `is_wary`, `is_sound` has the last word. What turned out to be `damaged` does not count as
    found."""

    def __init__(
        self,
        folder: str,
        object_format: ObjectFormat,
        *,
        find: Callable[[bytes], Pack | None],
        borrowed: Callable[[], list[str]],
        is_sound: Callable[[ObjectID], bool],
    ) -> None:
        self._folder = folder
        self._find = find
        self._borrowed = borrowed
        self._is_sound = is_sound
        self.unflushed = Unflushed(folder, object_format.oid_length)
        self._touched: set[str] = set()
        self.ids: set[ObjectID] = set()
        self.loose: set[ObjectID] = set()
        self.packed: set[ObjectID] = set()
        self.damaged: set[ObjectID] = set()
        self.is_wary = False

    def holds(self, object_id: ObjectID) -> bool:
        """True if the object exists and git's gc has been told that it is in use."""
        if object_id in self.damaged:
            return False
        if object_id not in self.ids and self._find_and_touch(object_id):
            if self.is_wary and not self._is_sound(object_id):
                return False
            self.ids.add(object_id)
        return object_id in self.ids

    def _find_and_touch(self, object_id: ObjectID) -> bool:
        if self._touch(loose_path(self._folder, object_id)):
            self.loose.add(object_id)
            return self.is_wary or self._is_sound(object_id)
        pack = self._find(unhexlify(object_id))
        if pack is not None:
            is_there = pack.is_whole() and self._touch(pack.path)
            if is_there and pack.path.startswith(os.path.join(self._folder, "")):
                self.packed.add(object_id)
            return is_there
        return any(self._touch(loose_path(folder, object_id)) for folder in self._borrowed())

    def _touch(self, path: str) -> bool:
        if path not in self._touched:
            try:
                status = os.stat(path)
                if not status.st_size:  # what a crash of the machine makes of a file
                    return False
                if not path.endswith(".pack"):
                    self.unflushed.note(path, status)
                disk.utime(path)
            except OSError:
                return False
            self._touched.add(path)
        return True

    def rely_on(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """Others, that were not asked for here, are to be flushed too, if they are young; gives
        back those whose files are broken."""
        return self.unflushed.note_all(object_ids)

    def clear(self) -> None:
        self.ids.clear()
        self.loose.clear()
        self.packed.clear()
        self._touched.clear()
        self.unflushed.paths.clear()


# -- Git objects: reading them whole, and adding new ones

LARGEST_KEPT = 16 << 20  # in memory, by a scratch store


class MissingObject(CkptError):
    """The repository lacks an object that something refers to, or it is damaged."""

    def __init__(self, object_id: bytes, what: str) -> None:
        super().__init__(
            f"{what} '{object_id.decode('ascii', 'replace')}'",
            hint="run 'git fsck' to see what else is damaged",
            details={"object": object_id.decode("ascii", "replace")},
        )


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
        self._pending = Pending(path, object_format, sharing)
        self._copies = Copies(path, object_format, tuple(alternates), self._pending)
        self._reuse = Reuse(
            path,
            object_format,
            find=self._copies.pack_with,
            borrowed=lambda: self._copies.folders[1:],
            is_sound=self._is_sound,
        )
        self._loose: set[ObjectID] = set()

    # -- reading ---------------------------------------------------------------

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
        return next(self._copies.of(object_id, only_there=True), None) is not None

    def lacks(self, object_id: ObjectID) -> bool:
        """Not here though it should be; a partial clone may leave anything at its remote."""
        return not self.is_partial and not self.has(object_id)

    def is_new(self, object_id: ObjectID) -> bool:
        """Written by us and not yet flushed."""
        return object_id in self._pending

    def size(self, object_id: ObjectID) -> int | None:
        """How large an object is; None if it is not to be found whole."""
        for copy in self._copies.of(object_id):
            try:
                return self._size_of(object_id, copy)
            except (FileNotFoundError, DamagedObject):
                continue
        return None

    def sizes(self, object_ids: Iterable[ObjectID]) -> dict[ObjectID, int]:
        """The same for many; those that are not to be found are left out."""
        found: dict[ObjectID, int] = {}
        left = self._copies.only_ids(object_ids)
        for _ in range(2):  # git may repack meanwhile
            found.update(self._packed_sizes(left))
            left.difference_update(found)
            found.update(self._loose_sizes(left))
            left.difference_update(found)
            if not left:
                break
            self._copies.look_again()
        return found

    def _packed_sizes(self, object_ids: Iterable[ObjectID]) -> Iterator[tuple[ObjectID, int]]:
        for pack, places in self._copies.packs.find_many(map(unhexlify, object_ids)):
            try:
                for raw_id, size in pack.sizes(places):
                    yield ObjectID(hexlify(raw_id)), size
            except DamagedObject:
                continue

    def _loose_sizes(self, object_ids: Iterable[ObjectID]) -> Iterator[tuple[ObjectID, int]]:
        for object_id in object_ids:
            sizes = map(loose_size, self._copies.loose_paths(object_id))
            if object_id in self._pending:
                yield object_id, self._pending.header(object_id)[1]
            else:
                yield from ((object_id, size) for size in sizes if size is not None)

    def missing(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """Those that are not there, as things are now and not at the last look."""
        return self._copies.missing(object_ids)

    def whole(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """Those that a pack has, that are loose and can be read, or about to be written: of what
        git wrote just before a power cut, there may be a file and nothing in it."""
        asked = self._copies.only_ids(object_ids)
        packed: set[bytes] = set()
        for _, places in self._copies.packs.find_many(map(unhexlify, asked)):
            packed.update(map(hexlify, places.values()))
        return {i for i in asked if i in packed or self._is_sound(i)}

    def kind(self, object_id: ObjectID) -> bytes | None:
        """What an object is: commit, tree, blob or tag; None if it is not to be found."""
        for copy in self._copies.of(object_id):
            try:
                return self._kind_of(object_id, copy)
            except (FileNotFoundError, DamagedObject):
                continue
        return None

    def beginning_with(self, prefix: bytes) -> set[ObjectID]:
        """Every object whose id begins so, with at least two digits."""
        return self._copies.beginning_with(prefix)

    def read(self, object_id: ObjectID, kind: bytes, most: int | None = None) -> bytes:
        """The content of an object of that kind, checked against its id; what is larger than
        `most` counts as missing."""
        problem = "missing object"
        for copy in self._copies.of(object_id):
            try:
                if most is not None and self._size_of(object_id, copy) > most:
                    problem = f"too large for its purpose: {kind.decode()}"
                    continue
                found, data = self._read_copy(object_id, copy)
            except FileNotFoundError:
                continue
            except DamagedObject:
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
            return self._copies.packs.read(*copy)
        return read_loose(copy) if isinstance(copy, str) else copy.read(object_id)

    def _size_of(self, object_id: ObjectID, copy: Copy) -> int:
        if isinstance(copy, tuple):
            return copy[0].size(copy[1])
        return (read_header(copy) if isinstance(copy, str) else copy.header(object_id))[1]

    def _kind_of(self, object_id: ObjectID, copy: Copy) -> bytes:
        if isinstance(copy, tuple):
            return self._copies.packs.kind(*copy)
        return (read_header(copy) if isinstance(copy, str) else copy.header(object_id))[0]

    def pieces(self, object_id: ObjectID, kind: bytes = b"blob") -> Iterator[bytes]:
        """The same, and in pieces if it is large: only the end of them says that they are
        right, and until then nothing made of them may be used."""
        size = self.size(object_id)
        if size is None or size <= LARGE:
            yield self.read(object_id, kind)
            return
        digest = Digest(self.object_format.new_hash, kind, size)
        try:
            yield from digest.over(self._large(object_id))
        except (ValueError, IndexError, zlib.error) as error:
            raise MissingObject(object_id, "cannot read object") from error
        if digest.id != object_id:
            raise MissingObject(object_id, f"damaged {kind.decode()}")

    def check(self, object_id: ObjectID, kind: bytes) -> None:
        """Read an object to its end, for the errors that this may raise."""
        for _ in self.pieces(object_id, kind):
            pass

    def _large(self, object_id: ObjectID) -> Iterator[bytes]:
        for copy in self._copies.of(object_id, only_there=True):
            if isinstance(copy, tuple):
                try:
                    return self._packed_pieces(*copy)
                except DamagedObject:
                    continue
            return loose_pieces(copy) if isinstance(copy, str) else copy.pieces(object_id)
        return iter(())

    def _packed_pieces(self, pack: Pack, offset: int) -> Iterator[bytes]:
        chain, base = self._copies.packs.chain(pack, offset)
        streams = [inflated(pack.pread, entry[2]) for pack, _, entry, _ in chain]
        pieces = streams.pop() if base is None else iter((base[1],))
        return patched_pieces(pieces, streams, self.path)

    def scratch(self) -> ScratchObjects:
        """A store over this one whose additions are kept in memory only."""

        return ScratchObjects(self)

    # -- writing ---------------------------------------------------------------

    def add(self, kind: bytes, data: bytes) -> ObjectID:
        """Write an object unless the repository has it; durable after `flush`."""
        object_id = self.hash(kind, data)
        if object_id not in self._pending and not self._reuse.holds(object_id):
            self._pending.add(object_id, kind, data)
        return object_id

    def add_kept(self, kind: bytes, data: bytes) -> ObjectID:
        """Write an object, though the repository may have it, durable and where git prunes nothing
        until `discard`: for a ref that holds something already, and must not lose it."""
        object_id = self.hash(kind, data)
        self._pending.write_kept(object_id, kind, data)
        self._forget_looks()
        return object_id

    def add_file(self, fd: int, size: int) -> ObjectID:
        """The same for the blob of an open file; UnreadableFile if it is changing.

        A large file is read twice: what the repository has is not compressed in vain.
        """
        if size <= LARGE:
            return self.add(b"blob", b"".join(file_pieces(fd, size)))
        object_id = self.hash_file(fd, size)
        if object_id not in self._pending and not self._reuse.holds(object_id):
            self._pending.add_file(object_id, fd, size)
        return object_id

    def flush(self, others: Iterable[str] = ()) -> set[ObjectID]:
        """Make everything added durable and visible: contents first, then names. `others` are
        files that have to be on the disk before anything refers to what was added.

        Returns what was added: also what was there, and may be gone if git pruned meanwhile.
        """
        self._write_what_is_packed()
        added = {*self._pending.ids(), *self._reuse.ids}
        self._loose |= self._pending.loose_ids() | (self._reuse.loose & added)
        self._pending.flush({*others, *self._reuse.unflushed.paths})
        self._forget_looks()
        return added

    def stay_loose(self) -> None:
        """Write once more what was loose when it was flushed, and git has put into a pack since;
        for a repack that counted before a ref named it may be about to take that pack away."""
        gone = {i for i in self._loose if not exists(loose_path(self.path, i))}
        self._reuse.packed |= gone
        if gone:
            self.flush()

    @property
    def packed(self) -> frozenset[ObjectID]:
        """What was added since the last flush, and only a pack has."""
        return frozenset(self._reuse.packed)

    def leave_packed(self, object_ids: Iterable[ObjectID]) -> None:
        """Let the next flush rely on packs for these, since something names them already."""
        self._reuse.packed.difference_update(object_ids)

    def _write_what_is_packed(self) -> None:
        """Write once more what a gc or repack at work may have counted as garbage, and take away
        with its pack. One that begins later sees the ref, or the time of the new object."""
        while self._reuse.packed:
            object_id = self._reuse.packed.pop()
            try:
                self._write_again(object_id)
            except MissingObject:  # the next attempt has what was added at hand, and writes that
                self._reuse.damaged.add(object_id)
                raise ObjectsPruned from None

    def _write_again(self, object_id: ObjectID) -> None:
        kind, size = self.kind(object_id) or b"blob", self.size(object_id) or 0
        if size <= LARGE:
            self._pending.add(object_id, kind, self.read(object_id, kind))
        else:
            self._pending.add_pieces(object_id, kind, size, self.pieces(object_id, kind))

    def discard(self) -> None:
        """Forget what was added since the last flush, and what was flushed."""
        self._pending.discard()
        self._loose.clear()
        self._forget_looks()

    def close(self) -> None:
        self.discard()
        self._copies.close()

    @contextmanager
    def wary(self) -> Iterator[None]:
        """Meanwhile, what the repository has is read before it is relied on, and written anew if
        it is damaged: what is added now may soon be nowhere else."""
        self._reuse.ids.clear()
        self._reuse.is_wary = True
        try:
            yield
        finally:
            self._reuse.is_wary = False

    def _is_sound(self, object_id: ObjectID) -> bool:
        try:
            self.check(object_id, self.kind(object_id) or b"blob")
        except MissingObject:
            return False
        return True

    def reuse(self, object_ids: Iterable[ObjectID]) -> None:
        """Let the next `flush` rely on objects, if they are there, as on what was added."""
        for object_id in object_ids:
            self._reuse.holds(object_id)

    def rely_on(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """Let the next `flush` make durable what git has written of these just now; gives back
        those that turn out to be no more than a broken file."""
        broken = self._reuse.rely_on(object_ids)
        return broken - self.whole(broken) if broken else broken

    def _forget_looks(self) -> None:
        self._copies.forget()
        self._reuse.clear()


# -- Objects that are never written: for a dry run, a diff, or a look at a submodule


class ScratchObjects(ObjectStore):
    """Ids of what is added, without a trace on disk: for a dry run, or a diff."""

    def __init__(self, base: ObjectStore) -> None:
        super().__init__(base.path, base.object_format, is_partial=base.is_partial)
        self._under = base
        self._added: dict[ObjectID, tuple[bytes, bytes]] = {}
        self._left_out: dict[ObjectID, int] = {}

    def has(self, object_id: ObjectID) -> bool:
        return self.is_new(object_id) or self._under.has(object_id)

    def is_new(self, object_id: ObjectID) -> bool:
        return object_id in self._added or object_id in self._left_out

    def size(self, object_id: ObjectID) -> int | None:
        if object_id in self._added:
            return len(self._added[object_id][1])
        return self._left_out.get(object_id) or self._under.size(object_id)

    def sizes(self, object_ids: Iterable[ObjectID]) -> dict[ObjectID, int]:
        asked = set(object_ids)
        found = self._under.sizes(i for i in asked if not self.is_new(i))
        here = {i: self.size(i) for i in asked if self.is_new(i)}
        return found | {i: size for i, size in here.items() if size is not None}

    def missing(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        return self._under.missing(i for i in object_ids if not self.is_new(i))

    def whole(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        asked = set(object_ids)
        return {i for i in asked if self.is_new(i)} | self._under.whole(asked)

    def kind(self, object_id: ObjectID) -> bytes | None:
        if object_id in self._added:
            return self._added[object_id][0]
        return b"blob" if object_id in self._left_out else self._under.kind(object_id)

    def beginning_with(self, prefix: bytes) -> set[ObjectID]:
        return self._under.beginning_with(prefix)

    def read(self, object_id: ObjectID, kind: bytes, most: int | None = None) -> bytes:
        if object_id in self._added:
            return self._added[object_id][1]
        return self._under.read(object_id, kind, most)

    def pieces(self, object_id: ObjectID, kind: bytes = b"blob") -> Iterator[bytes]:
        if object_id in self._added:
            return iter((self._added[object_id][1],))
        return self._under.pieces(object_id, kind)

    def add(self, kind: bytes, data: bytes) -> ObjectID:
        object_id = self.hash(kind, data)
        if not self.has(object_id):
            self._added[object_id] = (kind, data)
        return object_id

    def add_file(self, fd: int, size: int) -> ObjectID:
        """What is too large to be kept gets its id all the same, and cannot be read again."""
        if size <= LARGEST_KEPT:
            return self.add(b"blob", b"".join(file_pieces(fd, size)))
        object_id = self.hash_file(fd, size)
        if not self.has(object_id):
            self._left_out[object_id] = size
        return object_id

    def flush(self, others: Iterable[str] = ()) -> set[ObjectID]:
        """Nothing is ever made durable here."""
        return set()
