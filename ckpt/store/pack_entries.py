# SPDX-License-Identifier: MIT
"""What an entry of a pack says of itself, and what a delta makes of its base.

An entry begins with its kind and its size; a delta then names its base, by a place in the
same pack or by an id; a zlib stream follows. Only bytes are looked at here: where they
come from is the business of `packs`, and of `streams` for what is large.
"""

from __future__ import annotations

import zlib
from io import BytesIO

from ckpt.store.loose import LARGEST, DamagedObject

KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_OFS_DELTA, _REF_DELTA = 6, 7

# Enough of an entry for its header, an id, and the two sizes that a delta begins with: how
# a zlib stream is coded takes up to 290 bytes before the first of its own.
HEAD_LENGTH = 512
BOTH_SIZES = 64
_COPY_EVERYTHING = 0x10000
_LONGEST_NUMBER = 63  # in bits

# (number of its kind, how much it inflates to, where in the pack that begins, the base)
Entry = tuple[int, int, int, "int | bytes | None"]


def parse_entry(data: bytes, offset: int, id_length: int, at: int = 0) -> Entry:
    """The entry at `offset` of a pack, from the bytes at `at`."""
    try:
        byte = data[at]
        kind, size, shift, position = byte >> 4 & 7, byte & 15, 4, at + 1
        while byte & 0x80:
            byte = data[position]
            size |= (byte & 0x7F) << shift
            shift += 7
            position += 1
        base: int | bytes | None = None
        if kind == _REF_DELTA:
            base = data[position : position + id_length]
            position += id_length
        elif kind == _OFS_DELTA:
            distance, position = _distance(data, position)
            base = offset - distance
            if base >= offset:
                raise DamagedObject("a delta that comes before its base")
        elif kind not in KINDS:
            raise DamagedObject("an entry of an unknown kind")
    except IndexError:
        raise DamagedObject("an entry that was cut off") from None
    if size > LARGEST:
        raise DamagedObject("an impossible size")
    return kind, size, offset + position - at, base


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
    """A number as deltas have it, and where the next part begins."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
        if not byte & 0x80:
            return value, position
        if shift > _LONGEST_NUMBER:
            raise DamagedObject("an impossible size")


def object_size(data: bytes, at: int, id_length: int) -> int:
    """How large an object is, from the first bytes of its entry."""
    try:
        byte = data[at]
        if byte >> 4 & 7 not in KINDS:
            start = parse_entry(data, len(data), id_length, at)[2] - len(data) + at
            return _made_by(data[start : start + HEAD_LENGTH])
        size, shift = byte & 15, 4
        while byte & 0x80:
            at += 1
            byte = data[at]
            size |= (byte & 0x7F) << shift
            shift += 7
    except IndexError:
        raise DamagedObject("an entry that was cut off") from None
    return size


def _made_by(compressed: bytes) -> int:
    """How much a delta makes, from the first bytes of its stream."""
    try:
        return announced(zlib.decompressobj().decompress(compressed, BOTH_SIZES))[1]
    except zlib.error as error:
        raise DamagedObject("a damaged delta") from error


def announced(delta: bytes) -> tuple[int, int]:
    """The two sizes that a delta begins with: of its base, and of what it makes."""
    base, position = varint(delta, 0)
    return base, varint(delta, position)[0]


def copy_instruction(data: bytes, position: int, code: int) -> tuple[int, int, int]:
    """(where the part of the base begins, its length, where the next instruction does)."""
    value = 0
    for bit in range(7):
        if code & 1 << bit:
            value |= data[position] << 8 * bit
            position += 1
    return value & 0xFFFFFFFF, value >> 32 or _COPY_EVERYTHING, position


def apply_delta(base: bytes, delta: bytes, most: int = LARGEST) -> bytes:
    """What the instructions of a delta make of its base, and no more than they announce."""
    try:
        base_size, position = varint(delta, 0)
        left, position = varint(delta, position)
        if base_size != len(base):
            raise DamagedObject("a delta for another base")
        if left > most:
            raise DamagedObject("a delta that makes too much")
        made = BytesIO()  # and no list, which of many small parts is many times as large
        while position < len(delta):
            code = delta[position]
            position += 1
            if code & 0x80:
                start, length, position = copy_instruction(delta, position, code)
                part = base[start : start + length]
            else:
                length = code
                part = delta[position : position + length]
                position += length
            left -= length
            if len(part) != length or not length or left < 0:
                raise DamagedObject("a delta that goes beyond its base or its end")
            made.write(part)
    except IndexError:
        raise DamagedObject("a delta that was cut off") from None
    if left:
        raise DamagedObject("a delta that makes too little")
    return made.getvalue()
