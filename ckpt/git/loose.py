# SPDX-License-Identifier: MIT
"""Objects in files of their own, as git writes each new one.

A file holds one zlib stream: kind, size and a zero byte, then the content. What is read
here is not checked against its id, which is the business of whoever asked for it, but it
is as long as it says. Writing them is in `pending`, large ones pass through `streams`.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from ckpt import disk
from ckpt.errors import is_want

_HEADER = 64  # more than any header has
_BLOCK = 4096  # what file systems write at once, or a multiple
_PIECE = 1 << 16
_FIRST = 1 << 16
LARGEST = 1 << 62  # what a file may have; a header can say more
LARGEST_WHOLE = 1 << 28  # of what is never read in pieces: a few bytes can say that they are more
KINDS = (b"commit", b"tree", b"blob", b"tag")


class DamagedObject(ValueError):
    """Bytes on disk that are no object."""


def loose_path(folder: str, object_id: bytes) -> str:
    name = object_id.decode("ascii")
    return f"{folder}/{name[:2]}/{name[2:]}"


def read_loose(path: str) -> tuple[bytes, bytes]:
    """Kind and content of a loose object; FileNotFoundError, or DamagedObject."""
    return parse_loose(_content(path))


def parse_loose(compressed: bytes) -> tuple[bytes, bytes]:
    """The same for a file's bytes; inflates no more than they say that there is."""
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
        raise DamagedObject("an object is not as long as it says")
    return kind, data[start:]


def read_header(path: str) -> tuple[bytes, int]:
    """Kind and size of a loose object; errors as above. It is read to its end if that is near, or
    as a power cut leaves it: between two blocks, or nothing but zeros."""
    with _reading(path) as file:
        start, size = file.read(_BLOCK), os.fstat(file.fileno()).st_size
        if size < _BLOCK:
            kind, data = parse_loose(_filled(start))
            return kind, len(data)
        if size % _BLOCK == 0 or not any(os.pread(file.fileno(), 4, size - 4)):
            _check_end(file, start)
    try:
        return _parse_header(zlib.decompressobj().decompress(start, _HEADER))[:2]
    except zlib.error as error:
        raise DamagedObject(str(error)) from error


def _check_end(file: IO[bytes], piece: bytes) -> None:
    """Inflate a file, of which a piece was read, and keep nothing of it."""
    unpacker = zlib.decompressobj()
    try:
        while piece and not unpacker.eof:
            unpacker.decompress(piece, _FIRST)
            piece = unpacker.unconsumed_tail or file.read(_PIECE)
    except zlib.error as error:
        raise DamagedObject(str(error)) from error
    if not unpacker.eof:
        raise DamagedObject("an object without its end")


def loose_size(path: str) -> int | None:
    """The size of a loose object's content; None if it is missing or damaged."""
    try:
        return read_header(path)[1]
    except (FileNotFoundError, DamagedObject):
        return None


def _parse_header(data: bytes) -> tuple[bytes, int, int]:
    """(kind, size, where the content begins)."""
    end = data.find(b"\0", 0, _HEADER)
    kind, _, size = data[: max(end, 0)].partition(b" ")
    if kind not in KINDS or not size.isdigit() or int(size) > LARGEST:
        raise DamagedObject("an object without a header")
    return kind, int(size), end + 1


def _content(path: str) -> bytes:
    with _reading(path) as file:
        return _filled(file.read())


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


def _filled(content: bytes) -> bytes:
    if not content:  # what a crash of the machine makes of a file
        raise DamagedObject("an object without a byte")
    return content


def exists(path: str) -> bool:
    """Whether a file is there; a pipe or a folder is none."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False
