# SPDX-License-Identifier: MIT
"""Git objects: read through dulwich, written by us.

dulwich's own writer names its temporary file after the object and never flushes it:
a kill leaves a lock that blocks that content for good, and two processes saving the
same file collide. Here an object is written to `tmp_obj_<random>`, which git's gc
clears away, and gets its name only in `flush`, when its bytes are on the disk. So an
object that can be seen is whole, and whoever writes the same one at once succeeds.

Everything read is checked against its id. A large content passes through in pieces and
is never held whole, neither on its way in nor out. Repacking is left to git.
"""

from __future__ import annotations

import os
import sys
import weakref
import zlib
from binascii import hexlify, unhexlify
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ckpt import disk
from ckpt.errors import Busy, CkptError
from ckpt.store.sharing import NOT_SHARED, Sharing
from ckpt.store.sizes import PackSizes, loose_size
from ckpt.store.streams import (
    LARGE,
    Digest,
    UnreadableFile,
    deflated,
    file_pieces,
    level_for,
    loose_pieces,
    packed_pieces,
)

if TYPE_CHECKING:
    from dulwich.object_format import ObjectFormat
    from dulwich.object_store import DiskObjectStore
    from dulwich.objects import ObjectID as ObjectID
    from dulwich.objects import RawObjectID
    from dulwich.pack import Pack

    from ckpt.store.scratch import ScratchObjects
else:
    ObjectID = RawObjectID = bytes

TEMPORARY_OBJECT = "tmp_obj_"  # which git's gc clears away
_MOST_ALTERNATES = 5  # one behind the other, as in git
_KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
LARGEST_KEPT = 16 << 20  # in memory, by a scratch store


class MissingObject(CkptError):
    """The repository lacks an object that something refers to, or it is damaged."""

    def __init__(self, object_id: bytes, what: str) -> None:
        super().__init__(
            f"{what} '{object_id.decode('ascii', 'replace')}'",
            hint="run 'git fsck' to see what else is damaged",
            details={"object": object_id.decode("ascii", "replace")},
        )


class ObjectsPruned(Busy):
    """A prune without grace takes objects that nothing names yet."""

    def __init__(self) -> None:
        super().__init__(
            "git pruned the checkpoint's objects before its ref was made",
            hint="wait for 'git gc --prune=now' to end, then try again",
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
        self._sharing = sharing
        self.object_format = object_format
        self._alternates = tuple(alternates)
        self._disk: DiskObjectStore | None = None
        self._pending: dict[ObjectID, str] = {}
        self._packs_seen: list[Pack] | None = None
        self._fresh: set[ObjectID] = set()
        self._touched: set[str] = set()
        self._sizes: dict[str, PackSizes] = {}

    # -- reading ---------------------------------------------------------------

    def hash(self, kind: bytes, data: bytes) -> ObjectID:
        digest = self.object_format.new_hash()
        digest.update(b"%s %d\0" % (kind, len(data)))
        digest.update(data)
        return ObjectID(hexlify(digest.digest()))

    def hash_file(self, fd: int, size: int) -> ObjectID:
        """The id of an open file's blob; UnreadableFile if its length is another."""
        digest = Digest(self.object_format.new_hash, b"blob", size)
        for _ in digest.over(file_pieces(fd, size)):
            pass
        return ObjectID(digest.id)

    def has(self, object_id: ObjectID) -> bool:
        if object_id in self._pending or os.path.exists(self._loose_path(object_id)):
            return True
        return object_id in self._packs()

    def lacks(self, object_id: ObjectID) -> bool:
        """Not here though it should be; a partial clone may leave anything at its remote."""
        return not self.is_partial and not self.has(object_id)

    def is_new(self, object_id: ObjectID) -> bool:
        """Written by us and not yet flushed."""
        return object_id in self._pending

    def size(self, object_id: ObjectID) -> int | None:
        """How large an object is; None if it is not to be found whole."""
        if object_id in self._pending:
            return loose_size(self._pending[object_id])
        place = self._packed(object_id)
        if place is not None:
            return self._size_at(*place)
        sizes = map(loose_size, self._loose_paths(object_id))
        return next((size for size in sizes if size is not None), None)

    def _size_at(self, path: str, offset: int) -> int | None:
        if path not in self._sizes:
            try:
                self._sizes[path] = PackSizes(path, self.object_format.oid_length)
            except FileNotFoundError:
                return None
        return self._sizes[path].at(offset)

    def kind(self, object_id: ObjectID) -> bytes | None:
        """What an object is: commit, tree, blob or tag; None if it is not to be found."""
        try:
            return self._read_any(object_id)[0]
        except MissingObject:
            return None

    def beginning_with(self, prefix: bytes) -> set[ObjectID]:
        """Every object whose id begins so, as people and git's own lists shorten them."""
        return set(self._packs().iter_prefix(prefix))

    def read(self, object_id: ObjectID, kind: bytes) -> bytes:
        """The content of an object of that kind, checked against its id."""
        found, data = self._read_any(object_id)
        if found != kind:
            raise MissingObject(object_id, f"not a {kind.decode()}: object")
        if self.hash(kind, data) != object_id:
            raise MissingObject(object_id, f"damaged {kind.decode()}")
        return data

    def pieces(self, object_id: ObjectID, kind: bytes = b"blob") -> Iterator[bytes]:
        """The same, and in pieces if it is large: only the end of them says that they are
        right, and until then nothing made of them may be used."""
        size = self.size(object_id)
        if size is None:  # git may have repacked meanwhile
            self._forget_looks()
            size = self.size(object_id)
        if size is None or size <= LARGE:
            yield self.read(object_id, kind)
            return
        digest = Digest(self.object_format.new_hash, kind, size)
        try:
            yield from digest.over(self._large(object_id))
        except (ValueError, IndexError, RecursionError, zlib.error) as error:
            raise MissingObject(object_id, "cannot read object") from error
        if digest.id != object_id:
            raise MissingObject(object_id, f"damaged {kind.decode()}")

    def check(self, object_id: ObjectID, kind: bytes) -> None:
        """Read an object to its end, for the errors that this may raise."""
        for _ in self.pieces(object_id, kind):
            pass

    def _large(self, object_id: ObjectID) -> Iterator[bytes]:
        if object_id in self._pending:
            return loose_pieces(self._pending[object_id])
        place = self._packed(object_id)
        if place is not None:
            return packed_pieces(*place, self.object_format.oid_length, self._base, self.path)
        found = filter(os.path.exists, self._loose_paths(object_id))
        return next(map(loose_pieces, found), iter(()))

    def _base(self, raw_id: bytes) -> Iterator[bytes]:
        return self._large(ObjectID(hexlify(raw_id)))

    def _read_any(self, object_id: ObjectID) -> tuple[bytes, bytes]:
        """Kind and content, not yet checked."""
        pending = self._pending.get(object_id)
        if pending is not None:
            with open(pending, "rb") as file:
                header, _, data = zlib.decompress(file.read()).partition(b"\0")
            return header.split(b" ")[0], data
        try:
            number, data = self._packs().get_raw(object_id)
            return _KINDS[number], data
        except KeyError:
            raise MissingObject(object_id, "missing object") from None
        except (CkptError, MemoryError):
            raise
        except Exception as error:  # dulwich has no common base for what damaged bytes raise
            raise MissingObject(object_id, "cannot read object") from error

    def scratch(self) -> ScratchObjects:
        """A store over this one whose additions are kept in memory only."""
        from ckpt.store.scratch import ScratchObjects

        return ScratchObjects(self)

    # -- writing ---------------------------------------------------------------

    def add(self, kind: bytes, data: bytes) -> ObjectID:
        """Write an object unless the repository has it; durable after `flush`."""
        object_id = self.hash(kind, data)
        if object_id not in self._pending and not self._freshen(object_id):
            packer = zlib.compressobj(1)
            header = b"%s %d\0" % (kind, len(data))
            body = packer.compress(header) + packer.compress(data) + packer.flush()
            self._pending[object_id] = self._write_temporary(object_id, (body,))
        return object_id

    def add_file(self, fd: int, size: int) -> ObjectID:
        """The same for the blob of an open file; UnreadableFile if it is changing.

        A large file is read twice: what the repository has is not compressed in vain.
        """
        if size <= LARGE:
            return self.add(b"blob", b"".join(file_pieces(fd, size)))
        object_id = self.hash_file(fd, size)
        if object_id not in self._pending and not self._freshen(object_id):
            body = self._compressed(object_id, fd, size)
            self._pending[object_id] = self._write_temporary(object_id, body)
        return object_id

    def _compressed(self, object_id: ObjectID, fd: int, size: int) -> Iterator[bytes]:
        digest = Digest(self.object_format.new_hash, b"blob", size)
        pieces = digest.over(file_pieces(fd, size))
        yield from deflated(digest.header, pieces, level_for(fd, size))
        if digest.id != object_id:
            raise UnreadableFile.changing()

    def flush(self) -> set[ObjectID]:
        """Make everything added durable and visible: contents first, then names.

        Returns what was new.
        """
        added = set(self._pending)
        try:
            self._flush()
            return added
        except FileNotFoundError:
            raise ObjectsPruned from None

    def _flush(self) -> None:
        disk.fsync_files(list(self._pending.values()))
        self._forget_looks()
        folders = {self.path}
        for object_id in list(self._pending):
            target = self._loose_path(object_id)
            disk.rename(self._pending[object_id], target)
            del self._pending[object_id]
            folders.add(os.path.dirname(target))
        if len(folders) > 1:
            disk.fsync_dirs(sorted(folders))

    def discard(self) -> None:
        """Forget what was added since the last flush."""
        for temporary in self._pending.values():
            try:
                os.unlink(temporary)
            except FileNotFoundError:
                pass
        self._pending.clear()
        self._forget_looks()

    def close(self) -> None:
        self.discard()
        if self._disk is not None:
            self._disk.close()
            self._disk = None

    def _write_temporary(self, object_id: ObjectID, compressed: Iterable[bytes]) -> str:
        folder = os.path.dirname(self._loose_path(object_id))
        temporary = os.path.join(folder, disk.temporary_name(TEMPORARY_OBJECT))
        try:
            fd = disk.create(temporary, 0o444)
        except FileNotFoundError:
            self._sharing.make_folders(folder)
            try:
                fd = disk.create(temporary, 0o444)
            except FileNotFoundError:
                raise ObjectsPruned from None
        try:
            self._sharing.adjust(temporary)
            for part in compressed:
                disk.write(fd, part, temporary)
        except BaseException:
            os.unlink(temporary)
            raise
        finally:
            os.close(fd)
        return temporary

    def _freshen(self, object_id: ObjectID) -> bool:
        """True if the object exists and git's gc has been told that it is in use."""
        if object_id not in self._fresh and self._find_and_touch(object_id):
            self._fresh.add(object_id)
        return object_id in self._fresh

    def _find_and_touch(self, object_id: ObjectID) -> bool:
        if self._touch(self._loose_path(object_id)):
            return True
        place = self._packed(object_id)
        if place is not None:
            return self._touch(place[0])
        return any(map(self._touch, self._loose_paths(object_id)[1:]))

    def _touch(self, path: str) -> bool:
        if path not in self._touched:
            try:
                if not os.stat(path).st_size:  # what a crash of the machine makes of a file
                    return False
                disk.utime(path)
            except OSError:
                return False
            self._touched.add(path)
        return True

    def _stores(self) -> list[DiskObjectStore]:
        """The repository's own store, then its alternates."""
        own = self._packs()
        return [own, *(store for store in own.alternates if isinstance(store, type(own)))]

    def _pack_list(self) -> list[Pack]:
        """Packs as they were at the first look since the last flush: a newer one may be
        missed, and what it holds is then written once more."""
        if self._packs_seen is None:
            self._packs_seen = [pack for store in self._stores() for pack in store.packs]
        return self._packs_seen

    def _packed(self, object_id: ObjectID) -> tuple[str, int] | None:
        """The file of a pack, and where in it an object is."""
        raw = RawObjectID(unhexlify(object_id))
        for pack in self._pack_list():
            place = _place_in(pack, raw)
            if place is not None:
                return place
        return None

    def _loose_paths(self, object_id: ObjectID) -> list[str]:
        """Where an object may be that is in no pack, here first."""
        name = _split(object_id)
        return [os.path.join(os.fsdecode(store.path), *name) for store in self._stores()]

    def _forget_looks(self) -> None:
        for sizes in self._sizes.values():
            sizes.close()
        self._sizes.clear()
        self._packs_seen = None
        self._fresh.clear()
        self._touched.clear()

    def _loose_path(self, object_id: ObjectID) -> str:
        return os.path.join(self.path, *_split(object_id))

    def _packs(self) -> DiskObjectStore:
        if self._disk is None:
            from dulwich.object_store import DiskObjectStore

            self._disk = DiskObjectStore(
                self.path, object_format=self.object_format, alternates=self._alternates
            )
            _prepare(self._disk, self.object_format)
            # Left to the end of the interpreter, its files complain while they are closed.
            weakref.finalize(self, self._disk.close)
        return self._disk


def _place_in(pack: Pack, object_id: RawObjectID) -> tuple[str, int] | None:
    """The pack's file and where in it an object is; None if it is not there."""
    try:
        offset = pack.index.object_offset(object_id)
        return os.fsdecode(pack.data.path), offset
    except KeyError:
        return None
    except Exception as error:  # by its name, so that dulwich is not imported for it
        if type(error).__name__ == "PackFileDisappeared":  # git has repacked meanwhile
            return None
        raise


def _prepare(store: DiskObjectStore, object_format: ObjectFormat, depth: int = 0) -> None:
    """Lift dulwich's limit on the size of a file, and open alternates as what they are."""
    store.object_format = object_format
    store.loose_object_size_limit = sys.maxsize - 1
    for alternate in store.alternates if depth < _MOST_ALTERNATES else ():
        if isinstance(alternate, type(store)):
            _prepare(alternate, object_format, depth + 1)


def _split(object_id: bytes) -> tuple[str, str]:
    name = object_id.decode("ascii")
    return name[:2], name[2:]
