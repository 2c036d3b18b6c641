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

import zlib
from binascii import hexlify, unhexlify
from contextlib import contextmanager

from ckpt.errors import CkptError
from ckpt.store.copies import Copies
from ckpt.store.loose import (
    DamagedObject,
    exists,
    loose_path,
    loose_size,
    read_header,
    read_loose,
)
from ckpt.store.pending import ObjectsPruned as ObjectsPruned
from ckpt.store.pending import Pending
from ckpt.store.reuse import Reuse
from ckpt.store.sharing import NOT_SHARED, Sharing
from ckpt.store.streams import (
    LARGE,
    Digest,
    file_pieces,
    inflated,
    loose_pieces,
    patched_pieces,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dulwich.objects import ObjectID as ObjectID

    from ckpt.store.copies import Copy
    from ckpt.store.object_format import ObjectFormat
    from ckpt.store.packs import Pack
    from ckpt.store.scratch import ScratchObjects
else:
    ObjectID = bytes

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
        digest = self.object_format.new_hash(b"%s %d\0" % (kind, len(data)), expected=len(data))
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
        from ckpt.store.scratch import ScratchObjects

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
