# SPDX-License-Identifier: MIT
"""How large an object is, from its first bytes: no content is inflated to learn it.

A file whose size is not its blob's was converted on its way to the disk, whatever
attributes are in force now; and an object that has no size is not there.
"""

from __future__ import annotations

import os
import zlib

_ENOUGH = 64
_OFS_DELTA, _REF_DELTA = 6, 7


def loose_size(path: str) -> int | None:
    """The size of a loose object's content; None if it is missing or damaged."""
    try:
        with open(path, "rb") as file:
            start = zlib.decompressobj().decompress(file.read(2 * _ENOUGH), _ENOUGH)
        return int(start.partition(b"\0")[0].split(b" ")[1])
    except (OSError, ValueError, IndexError, zlib.error):
        return None


class PackSizes:
    """Sizes of objects in one pack file."""

    def __init__(self, path: str, id_length: int) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._id_length = id_length

    def at(self, offset: int) -> int | None:
        data = os.pread(self._fd, 2 * _ENOUGH + self._id_length, offset)
        try:
            kind, size, position = _header(data)
            if kind not in (_OFS_DELTA, _REF_DELTA):
                return size
            position = _past_base(data, position, kind, self._id_length)
            delta = zlib.decompressobj().decompress(data[position:], _ENOUGH)
            return _varint(delta, _varint(delta, 0)[1])[0]
        except (IndexError, zlib.error):
            return None

    def close(self) -> None:
        os.close(self._fd)


def _header(data: bytes) -> tuple[int, int, int]:
    """(type, size, where the next part begins)."""
    byte = data[0]
    kind, size, shift, position = byte >> 4 & 7, byte & 15, 4, 1
    while byte & 0x80:
        byte = data[position]
        size |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    return kind, size, position


def _past_base(data: bytes, position: int, kind: int, id_length: int) -> int:
    """Skip what names a delta's base: an id, or a distance."""
    if kind == _REF_DELTA:
        return position + id_length
    while data[position] & 0x80:
        position += 1
    return position + 1


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
        if not byte & 0x80:
            return value, position
