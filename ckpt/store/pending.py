# SPDX-License-Identifier: MIT
"""Objects that were added and are not visible yet.

They are held in memory until a flush shows that they are needed, or until they are many:
then they go into a pack that grows on the disk. A flush of a few writes them loose, as git
does: a pack for every save would make git slow, and nobody but git may take a pack away. What
is large is in a file of its own at once. No object can be seen before its bytes are on the
disk, and of a process that is killed the next takes the rest away (`temporaries`).

A `git gc --prune=now` takes temporary files, too: that is ObjectsPruned, and what was
added is gone.
"""

from __future__ import annotations

import os
import zlib

from ckpt import disk
from ckpt.errors import Busy
from ckpt.store.loose import loose_path, read_header, read_loose
from ckpt.store.pack_writer import PackWriter
from ckpt.store.streams import (
    Digest,
    UnreadableFile,
    deflated,
    file_pieces,
    level_for,
    level_of,
    loose_pieces,
)
from ckpt.store.temporaries import TEMPORARY_OBJECT, Temporaries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from dulwich.objects import ObjectID

    from ckpt.store.object_format import ObjectFormat
    from ckpt.store.sharing import Sharing

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
