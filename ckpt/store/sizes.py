# SPDX-License-Identifier: MIT
"""How large an object is, from its first bytes: no content is inflated to learn it.

A file whose size is not its blob's was converted on its way to the disk, whatever
attributes are in force now; and an object that has no size is not there. What an
entry of a pack says of itself is read here for `streams` as well.
"""

from __future__ import annotations

import os
import zlib
from typing import NamedTuple

_ENOUGH = 64
HEAD_LENGTH = 2 * _ENOUGH  # without the id that may be in it
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
        data = os.pread(self._fd, HEAD_LENGTH + self._id_length, offset)
        try:
            entry = pack_entry(data, offset, self._id_length)
            if entry.base is None:
                return entry.size
            delta = zlib.decompressobj().decompress(data[entry.start - offset :], _ENOUGH)
            return varint(delta, varint(delta, 0)[1])[0]
        except (IndexError, zlib.error):
            return None

    def close(self) -> None:
        os.close(self._fd)


class PackEntry(NamedTuple):
    """An entry of a pack: how much it inflates to, and where in the pack that begins.

    A delta names its base by a place in the same pack, or by an id.
    """

    size: int
    start: int
    base: int | bytes | None


def pack_entry(data: bytes, offset: int, id_length: int) -> PackEntry:
    """The entry at `offset`, from its first bytes; IndexError if they end too early."""
    kind, size, position = _header(data)
    base: int | bytes | None = None
    if kind == _REF_DELTA:
        base = data[position : position + id_length]
        position += id_length
    elif kind == _OFS_DELTA:
        distance, position = _distance(data, position)
        base = offset - distance
    return PackEntry(size, offset + position, base)


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


def _distance(data: bytes, position: int) -> tuple[int, int]:
    """How far before a delta its base is, and where the next part begins."""
    byte = data[position]
    distance = byte & 0x7F
    while byte & 0x80:
        position += 1
        byte = data[position]
        distance = (distance + 1) << 7 | byte & 0x7F
    return distance, position + 1


def varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
        if not byte & 0x80:
            return value, position
