# SPDX-License-Identifier: MIT
"""Deltas: one content as copies from another, and what is new in between.

The other one is cut into blocks, each known by its bytes. Where a block of it is found in the
content, the match is made as long as it goes in both directions, and the search goes on behind
it. So versions of a file or a folder cost what differs. Git reads the result; it may find a
smaller one when it repacks. Applying deltas is in `pack_entries`.
"""

from __future__ import annotations

_BLOCK = 16
_LONGEST_COPY = 0xFFFFFF
_LONGEST_INSERT = 0x7F
_FURTHEST = 1 << 32  # a copy names where it begins with four bytes
_STEPS = (1 << 16, 1 << 12, 1 << 8, 1 << 4, 1)


def make_delta(base: bytes, content: bytes) -> bytes:
    """The instructions that make `content` of `base`, which `apply_delta` follows."""
    parts = [_varint(len(base)), _varint(len(content))]
    done = 0
    for start, begin, length in _matches(base, content):
        parts += _inserts(content[done:begin])
        parts += _copies(start, length)
        done = begin + length
    parts += _inserts(content[done:])
    return b"".join(parts)


def _matches(base: bytes, content: bytes) -> list[tuple[int, int, int]]:
    """(where in the base, where in the content, how long), in the order of the content."""
    known = _blocks(base)
    found: list[tuple[int, int, int]] = []
    done = at = 0
    last = len(content) - _BLOCK
    while at <= last:
        start = known.get(content[at : at + _BLOCK])
        if start is None:
            at += 1
            continue
        back = _common_end(base[max(0, start - at + done) : start], content[done:at])
        length = back + _common_start(base, start, content, at)
        found.append((start - back, at - back, length))
        done = at = at - back + length
    return found


def _blocks(base: bytes) -> dict[bytes, int]:
    """Where each block is; of equal ones the first, from which a match goes furthest."""
    known: dict[bytes, int] = {}
    for at in range(0, min(len(base), _FURTHEST) - _BLOCK + 1, _BLOCK):
        known.setdefault(base[at : at + _BLOCK], at)
    return known


def _common_start(left: bytes, at: int, right: bytes, begin: int) -> int:
    """How many bytes are equal from these places on."""
    length = 0
    for step in _STEPS:
        while True:
            one = left[at + length : at + length + step]
            if len(one) < step or one != right[begin + length : begin + length + step]:
                break
            length += step
    return length


def _common_end(left: bytes, right: bytes) -> int:
    """How many bytes are equal at the ends."""
    return _common_start(left[::-1], 0, right[::-1], 0)


def _inserts(data: bytes) -> list[bytes]:
    pieces = [data[at : at + _LONGEST_INSERT] for at in range(0, len(data), _LONGEST_INSERT)]
    return [part for piece in pieces for part in (bytes([len(piece)]), piece)]


def _copies(start: int, length: int) -> list[bytes]:
    parts = []
    while length:
        taken = min(length, _LONGEST_COPY)
        parts.append(_copy(start, taken))
        start, length = start + taken, length - taken
    return parts


def _copy(start: int, length: int) -> bytes:
    """One instruction: a bit for each byte of the two numbers that is not zero, and these."""
    code, numbers = 0x80, bytearray()
    for bit, byte in enumerate(start.to_bytes(4, "little") + length.to_bytes(3, "little")):
        if byte:
            code |= 1 << bit
            numbers.append(byte)
    return bytes([code]) + bytes(numbers)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
