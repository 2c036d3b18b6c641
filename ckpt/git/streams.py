# SPDX-License-Identifier: MIT
"""Large contents piece by piece, so that memory does not grow with the size of a file.

Files are read and compressed, and objects inflated, in pieces. A delta in a pack is
applied to its base while that lies in a file without a name, since instructions may
refer to any part of it. Nothing here checks an id: the pieces are worth nothing before
the last one has come and whoever takes them has compared their hash.

Left out: small objects, which are quicker in one piece, and finding where objects are.
"""

from __future__ import annotations

import errno
import os
import zlib
from binascii import hexlify
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ckpt import disk
from ckpt.errors import is_want
from ckpt.git.formats import NewHash
from ckpt.git.loose import DamagedObject
from ckpt.git.packs import copy_instruction, varint
from ckpt.git.temporaries import TEMPORARY_OBJECT

if TYPE_CHECKING:
    Pieces = Iterator[bytes]

# Up to here a content is held in memory.
_SMALL = 1 << 16
LARGE = 1 << 20
PIECE = 1 << 18
_COMPRESSED_PIECE = 1 << 16

_SAMPLES, _SAMPLE_SIZE = 8, 1 << 14
_LONGEST_INSTRUCTION = 128


class UnreadableFile(OSError):
    """A file that could not be read to its end, or was another when read again."""

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
        """The same pieces, each of them counted, and no more than the size allows."""
        for piece in pieces:
            self._digest.update(piece)
            self._left -= len(piece)
            if self._left < 0:
                return
            yield piece

    @property
    def id(self) -> bytes:
        return hexlify(self._digest.digest())


# -- files -------------------------------------------------------------------------


def file_pieces(fd: int, size: int) -> Pieces:
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
    """How well to compress a content that is at hand: as git does, if it takes no time."""
    return 6 if size <= _SMALL else 1


def level_for(fd: int, size: int) -> int:
    """The compression that pays: none for what is compressed already, 15 times quicker."""
    step = max(1, size // _SAMPLES)
    sample = b"".join(_read_file(fd, _SAMPLE_SIZE, n * step) for n in range(_SAMPLES))
    return 1 if len(zlib.compress(sample, 1)) < 0.95 * len(sample) else 0


def deflated(header: bytes, pieces: Iterable[bytes], level: int) -> Pieces:
    """A loose object's bytes."""
    packer = zlib.compressobj(level)
    yield packer.compress(header)
    for piece in pieces:
        compressed = packer.compress(piece)
        if compressed:
            yield compressed
    yield packer.flush()


# -- objects -----------------------------------------------------------------------


def loose_pieces(path: str) -> Pieces:
    """The content of a loose object, without its header."""
    fd = _open(path)
    try:
        zero = b""
        for piece in inflated(lambda length, position: _read(fd, length, position), 0, alone=True):
            if not zero:
                _, zero, piece = piece.partition(b"\0")
            if piece:
                yield piece
    finally:
        os.close(fd)


def patched_pieces(base: Pieces, deltas: list[Pieces], folder: str) -> Pieces:
    """What deltas, of which the last comes first, make of a base; `folder` is where what
    they are applied to is laid down meanwhile."""
    if not deltas:
        yield from base
        return
    laid = _lay_down(base, folder)
    try:
        while len(deltas) > 1:
            made = _lay_down(_patched(laid, deltas.pop()), folder)
            os.close(laid)
            laid = made
        yield from _patched(laid, deltas.pop())
    finally:
        os.close(laid)


def _lay_down(pieces: Pieces, folder: str) -> int:
    """A handle on a file that holds the pieces and has no name, so that nothing is left."""
    writing, reading = _without_name(folder)
    try:
        try:
            for piece in pieces:
                disk.write(writing, piece)
        except BaseException:
            os.close(reading)
            raise
    finally:
        os.close(writing)
    return reading


def _without_name(folder: str) -> tuple[int, int]:
    """A new file, open twice. While it has its name it looks like the mark of a killed process
    (see `temporaries`), and somebody may take it away: so it is tried again."""
    while True:
        path = os.path.join(folder, disk.temporary_name(TEMPORARY_OBJECT))
        writing = disk.create(path)
        try:
            reading = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            os.close(writing)
            continue
        disk.discard(path)
        return writing, reading


def _patched(base: int, delta: Pieces) -> Pieces:
    """What the instructions of a delta make of the file that is its base."""
    parts: list[bytes] = []
    length = 0
    for part in _instructed(base, delta):
        parts.append(part)
        length += len(part)
        if length >= PIECE:
            yield b"".join(parts)
            parts, length = [], 0
    yield b"".join(parts)


def _instructed(base: int, delta: Pieces) -> Pieces:
    data = _more(b"", delta)
    position = varint(data, varint(data, 0)[1])[1]
    while True:
        if len(data) - position < _LONGEST_INSTRUCTION:
            data, position = _more(data[position:], delta), 0
            if not data:
                return
        code = data[position]
        position += 1
        if code & 0x80:
            start, length, position = copy_instruction(data, position, code)
            yield _part(os.pread(base, length, start), length)
        elif code:
            yield _part(data[position : position + code], code)
            position += code
        else:
            raise DamagedObject("unknown instruction in a delta")


def _more(data: bytes, delta: Pieces) -> bytes:
    """What is left of a delta's bytes and enough of the next for any instruction."""
    while len(data) < _LONGEST_INSTRUCTION:
        piece = next(delta, b"")
        if not piece:
            break
        data += piece
    return data


def _part(part: bytes, length: int) -> bytes:
    if len(part) != length:
        raise DamagedObject("a delta goes beyond its base, or ends too early")
    return part


def inflated(read: Callable[[int, int], bytes], position: int, *, alone: bool = False) -> Pieces:
    """What a zlib stream in a file holds, given how to read a length of bytes at a place of
    it; never an empty piece but for an empty stream. If it is `alone`, nothing follows it."""
    unpacker = zlib.decompressobj()
    compressed = b""
    while not unpacker.eof:
        compressed = unpacker.unconsumed_tail or read(_COMPRESSED_PIECE, position)
        if not unpacker.unconsumed_tail:
            position += len(compressed)
        piece = unpacker.decompress(compressed, PIECE)
        if not piece and not compressed:
            raise DamagedObject("a compressed object ends too early")
        if piece or unpacker.eof:
            yield piece
    if alone and (unpacker.unused_data or read(1, position)):
        raise DamagedObject("something follows a compressed object")


def _open(path: str) -> int:
    try:
        return disk.opened(path)
    except OSError as error:
        if is_want(error):
            raise
        raise DamagedObject(str(error)) from error


def _read(fd: int, length: int, position: int) -> bytes:
    try:
        return os.pread(fd, length, position)
    except OSError as error:
        raise DamagedObject(str(error)) from error
