# SPDX-License-Identifier: MIT
"""Loose objects: reading one, and writing several so that they are durable and seen whole.

dulwich's writer is not used: it names its temporary file after the object and flushes nothing,
so that a kill leaves a lock which blocks that content for good. Here each object is written to
`tmp_obj_<random>`, all are flushed together, then renamed. Writers that died are told by a kernel
lock on a file of that name; their temporary files go with the next write, or git's gc takes them.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from typing import IO

from ckpt import disk
from ckpt.errors import is_want
from ckpt.git.formats import ObjectID
from ckpt.git.streams import DamagedObject, inflated, level_of
from ckpt.locks import Sharing, try_lock

TEMPORARY_OBJECT = "tmp_obj_"  # names that git's gc clears away
TEMPORARY_PACK = "tmp_pack_"
_MARK = re.compile(TEMPORARY_OBJECT + "[0-9a-f]{16}")
_HEADER = 64  # more than any header has
_BLOCK = 4096
_FIRST = 1 << 16
_LARGEST = 1 << 62  # of any file; a header can say more
LARGEST_WHOLE = 1 << 28  # of commits, trees and tags: a few bytes can inflate to more
KINDS = (b"commit", b"tree", b"blob", b"tag")


def loose_path(folder: str, object_id: bytes) -> str:
    name = object_id.decode("ascii")
    return f"{folder}/{name[:2]}/{name[2:]}"


def exists(path: str) -> bool:
    """Whether a regular file is there."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def loose_ids(folder: str, length: int) -> Iterator[bytes]:
    """The ids of all loose objects of an object directory."""
    for first in sorted(names_in(folder)):
        if len(first) == 2:
            for rest in names_in(os.path.join(folder, first)):
                name = os.fsencode(first + rest)
                if len(name) == length and not name.strip(b"0123456789abcdef"):
                    yield name


def names_in(folder: str) -> list[str]:
    """What a directory holds; nothing if it cannot be listed."""
    try:
        return os.listdir(folder)
    except OSError as error:
        if is_want(error):
            raise
        return []


# Reading


def read_loose(path: str) -> tuple[bytes, bytes]:
    """Kind and content of a loose object; FileNotFoundError, or DamagedObject."""
    with _reading(path) as file:
        return parse_loose(file.read())


def parse_loose(compressed: bytes) -> tuple[bytes, bytes]:
    """Kind and content of a loose object's bytes; inflates no more than its header announces."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(compressed, _FIRST)
        kind, size, start = _parse_header(data)
        if size > LARGEST_WHOLE and kind != b"blob":
            raise DamagedObject("an object too large for its kind")
        missing = start + size - len(data)
        if missing >= 0 and not unpacker.eof:
            data += unpacker.decompress(unpacker.unconsumed_tail, missing + 1)
    except zlib.error as error:
        raise DamagedObject(str(error)) from error
    if not unpacker.eof or unpacker.unused_data or len(data) != start + size:
        raise DamagedObject("an object of another length than its header says")
    return kind, data[start:]


def read_header(path: str) -> tuple[bytes, int]:
    """Kind and size of a loose object; a small one is read whole."""
    with _reading(path) as file:
        start = file.read(_BLOCK)
        if len(start) < _BLOCK:
            kind, data = parse_loose(start)
            return kind, len(data)
    try:
        return _parse_header(zlib.decompressobj().decompress(start, _HEADER))[:2]
    except zlib.error as error:
        raise DamagedObject(str(error)) from error


def loose_pieces(path: str) -> Iterator[bytes]:
    """The content of a loose object without its header, in pieces."""
    with _reading(path) as file:
        head, zero = b"", b""

        def read(length: int, at: int) -> bytes:
            return os.pread(file.fileno(), length, at)

        for piece in inflated(read, 0, alone=True):
            if not zero:
                head, zero, piece = (head + piece).partition(b"\0")
            yield piece


def _parse_header(data: bytes) -> tuple[bytes, int, int]:
    """(kind, size, where the content begins)."""
    end = data.find(b"\0", 0, _HEADER)
    kind, _, size = data[: max(end, 0)].partition(b" ")
    if kind not in KINDS or not size.isdigit() or int(size) > _LARGEST:
        raise DamagedObject("an object without a header")
    return kind, int(size), end + 1


@contextmanager
def _reading(path: str) -> Iterator[IO[bytes]]:
    try:
        with open(disk.opened(path), "rb", buffering=0) as file:
            yield file
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:
        if is_want(error):
            raise
        raise DamagedObject(str(error)) from error


# Writing


class Temporaries:
    """Temporary files of one writer, which holds a lock on `tmp_obj_<token>` while it lives."""

    def __init__(self, folder: str, sharing: Sharing) -> None:
        self.folder = folder
        self.sharing = sharing
        self._mark = ""
        self._fd = -1
        self._count = 0

    def create(self, kind: str, place: str = "") -> tuple[int, str]:
        """A new file below the object directory, open for reading and writing."""
        if self._fd < 0:
            self.sharing.make_folders(self.folder)
            clear_dead(self.folder)
            self._make_mark()
        folder = os.path.join(self.folder, place) if place else self.folder
        self.sharing.make_folders(folder)
        self._count += 1
        token = self._mark.rpartition("_")[2]
        path = os.path.join(folder, f"{kind}{token}_{self._count}")
        fd = disk.create(path, 0o444)
        try:
            self.sharing.adjust(path)
        except BaseException:
            os.close(fd)
            disk.discard(path)
            raise
        return fd, path

    def _make_mark(self) -> None:
        while True:
            self._mark = os.path.join(self.folder, disk.temporary_name(TEMPORARY_OBJECT))
            self._fd = disk.create(self._mark, 0o644)
            is_ours = try_lock(self._fd, fcntl.LOCK_EX) is not False
            if is_ours and os.fstat(self._fd).st_nlink:  # else taken for a dead process's
                self.sharing.adjust(self._mark)
                return
            self.end()

    def end(self) -> None:
        """Remove what is not finished."""
        if self._fd >= 0:
            for path in _temporaries_of(self.folder, self._mark):
                disk.discard(path)
            disk.discard(self._mark)
            os.close(self._fd)
        self._fd, self._mark = -1, ""


def clear_dead(folder: str) -> list[str]:
    """Remove the temporary files of processes that died; returns their paths."""
    removed = []
    for mark in dead_marks(folder):
        for path in (*_temporaries_of(folder, mark), mark):
            with suppress(OSError):
                disk.unlink(path)
                removed.append(path)
    return removed


def dead_files(folder: str) -> list[str]:
    """The temporary files of processes that died."""
    marks = dead_marks(folder)
    return [path for mark in marks for path in (*_temporaries_of(folder, mark), mark)]


def dead_marks(folder: str) -> Iterator[str]:
    """The marks that no process holds a lock on; each is locked while it is looked at."""
    for name in filter(_MARK.fullmatch, names_in(folder)):
        path = os.path.join(folder, name)
        try:
            # To write, as NFS wants it for a lock.
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # gone, or another user's
            continue
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode) and try_lock(fd, fcntl.LOCK_EX):
                yield path
        finally:
            os.close(fd)


def _temporaries_of(folder: str, mark: str) -> list[str]:
    token = mark.rpartition("_")[2]
    begun = (f"{TEMPORARY_OBJECT}{token}_", f"{TEMPORARY_PACK}{token}_")
    return [
        os.path.join(place, name)
        for place in (folder, os.path.join(folder, "pack"))
        for name in names_in(place)
        if name.startswith(begun) and stat.S_ISREG(os.lstat(os.path.join(place, name)).st_mode)
    ]


def write_temporary(temporaries: Temporaries, pieces: Iterable[bytes]) -> str:
    """A temporary file with the bytes of a loose object."""
    fd, path = temporaries.create(TEMPORARY_OBJECT)
    try:
        for piece in pieces:
            disk.write(fd, piece)
    except BaseException:
        disk.discard(path)
        raise
    finally:
        os.close(fd)
    return path


def compressed(kind: bytes, data: bytes) -> bytes:
    """The bytes of a small loose object."""
    packer = zlib.compressobj(level_of(len(data)))
    header = packer.compress(b"%s %d\0" % (kind, len(data)))
    return header + packer.compress(data) + packer.flush()


def publish(temporaries: Temporaries, files: Mapping[ObjectID, str], others: Set[str]) -> None:
    """Make temporary files durable, give each its object's name, and make the names durable.
    `others` are files that are visible already, and may be in memory only."""
    disk.fsync_files([*files.values()], others)
    folder = temporaries.folder
    targets = {object_id: loose_path(folder, object_id) for object_id in files}
    folders = sorted({os.path.dirname(target) for target in targets.values()})
    for each in folders:
        temporaries.sharing.make_folders(each)
    for object_id, target in targets.items():
        try:
            disk.rename(files[object_id], target)
        except FileNotFoundError:  # git removes empty directories
            temporaries.sharing.make_folders(os.path.dirname(target))
            disk.rename(files[object_id], target)
    beside = {*map(os.path.dirname, others)}.difference(folders)
    disk.fsync_dirs([folder, *folders] if folders else [], sorted(beside))
