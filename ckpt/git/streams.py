# SPDX-License-Identifier: MIT
"""Large contents piece by piece, so that memory does not grow with the size of a file.

Files are read and compressed, and objects inflated, in pieces. Pieces are worth nothing before
the last one has come and their hash was compared with the id.
"""

from __future__ import annotations

import errno
import os
import zlib
from binascii import hexlify
from collections.abc import Callable, Iterable, Iterator

from ckpt.git.formats import NewHash

# Up to here a content is held in memory.
LARGE = 1 << 20
PIECE = 1 << 18
_SMALL = 1 << 16
_COMPRESSED_PIECE = 1 << 16
_SAMPLES, _SAMPLE_SIZE = 8, 1 << 14


class DamagedObject(ValueError):
    """Bytes on disk that are no object."""


class UnreadableFile(OSError):
    """A file that could not be read to its end, or changed while it was read."""

    @classmethod
    def changing(cls) -> UnreadableFile:
        return cls(errno.EBUSY, "changing")


class Digest:
    """The id of an object whose content comes in pieces."""

    def __init__(self, new_hash: NewHash, kind: bytes, size: int) -> None:
        self.header = b"%s %d\0" % (kind, size)
        self._digest = new_hash()
        self._digest.update(self.header)
        self._left = size

    def over(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same pieces, each of them hashed, and no more than the size allows."""
        for piece in pieces:
            self._digest.update(piece)
            self._left -= len(piece)
            if self._left < 0:
                return
            yield piece

    @property
    def id(self) -> bytes:
        return hexlify(self._digest.digest())


def file_pieces(fd: int, size: int) -> Iterator[bytes]:
    """The content of an open file; UnreadableFile if its length is not `size`."""
    position = 0
    while position < size:
        piece = _read_file(fd, min(PIECE, size - position), position)
        if not piece:
            raise UnreadableFile.changing()
        yield piece
        position += len(piece)
    if _read_file(fd, 1, size):
        raise UnreadableFile.changing()


def _read_file(fd: int, length: int, position: int) -> bytes:
    try:
        return os.pread(fd, length, position)
    except OSError as error:
        raise UnreadableFile(error.errno, error.strerror) from error


def level_of(size: int) -> int:
    """The compression level for a content in memory: git's for small ones, else the quickest."""
    return 6 if size <= _SMALL else 1


def level_for(fd: int, size: int) -> int:
    """The compression level for a large file: none for what is compressed already."""
    step = max(1, size // _SAMPLES)
    sample = b"".join(_read_file(fd, _SAMPLE_SIZE, n * step) for n in range(_SAMPLES))
    return 1 if len(zlib.compress(sample, 1)) < 0.95 * len(sample) else 0


def deflated(header: bytes, pieces: Iterable[bytes], level: int) -> Iterator[bytes]:
    """The zlib stream of a header and a content."""
    packer = zlib.compressobj(level)
    yield packer.compress(header)
    for piece in pieces:
        compressed = packer.compress(piece)
        if compressed:
            yield compressed
    yield packer.flush()


def inflated(
    read: Callable[[int, int], bytes], position: int, *, alone: bool = False
) -> Iterator[bytes]:
    """The content of a zlib stream in a file, given a function that reads a length at a place.
    If it is `alone`, nothing may follow it."""
    unpacker = zlib.decompressobj()
    while not unpacker.eof:
        compressed = unpacker.unconsumed_tail
        if not compressed:
            compressed = read(_COMPRESSED_PIECE, position)
            position += len(compressed)
        try:
            piece = unpacker.decompress(compressed, PIECE)
        except zlib.error as error:
            raise DamagedObject(str(error)) from error
        if not piece and not compressed:
            raise DamagedObject("a compressed object ends too early")
        if piece:
            yield piece
    if alone and (unpacker.unused_data or read(1, position)):
        raise DamagedObject("something follows a compressed object")
