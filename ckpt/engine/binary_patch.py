# SPDX-License-Identifier: MIT
"""The part of a patch of git's that stands for a binary file.

A deflated content (`literal`) or a deflated list of what to copy and what to insert
(`delta`), in lines of base 85. What comes out is never longer than the patch says, nor
than `LARGEST`: a few bytes of either can stand for any number.
"""

from __future__ import annotations

import zlib

from ckpt.patterns import lazy_pattern
from ckpt.values import value_class

LARGEST = 1 << 28
_KIND = lazy_pattern(rb"(literal|delta) (\d{1,10})")
_ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_VALUES = bytes(_ALPHABET.find(code) & 0xFF for code in range(256))
_NO_DIGIT = 0xFF
_AT_ONCE = 5 << 16  # digits: as numbers they take ten times the space
_LENGTHS = {code: n for n, code in enumerate(_ALPHABET[10:62], start=1)}  # A-Z, then a-z
_DAMAGED_LINE = "it has a line of binary data that is damaged"
_OTHER_CONTENT = "it was made for another content"


class BadPatch(Exception):
    """A patch that git has not written so, or not for this; the message says why, of `it`."""


@value_class
class BinaryHunk:
    """The new content, or how it comes from the old one; `size` bytes when inflated."""

    is_delta: bool
    size: int
    text: bytes

    @classmethod
    def parse(cls, line: bytes, text: bytes) -> BinaryHunk:
        found = _KIND.fullmatch(line)
        if found is None:
            raise BadPatch("it has a binary file of a kind that git does not know")
        return cls(found[1] == b"delta", _limited(int(found[2])), text)

    def apply(self, content: bytes) -> bytes:
        data = _inflated(_decoded(self.text), self.size)
        return _by_delta(data, content) if self.is_delta else data


def _limited(size: int) -> int:
    if size > LARGEST:
        raise BadPatch(f"it has a file of over {LARGEST >> 20} MiB")
    return size


def _decoded(text: bytes) -> bytes:
    """The bytes that lines of base 85 stand for, each after the number of its bytes."""
    pieces = []
    total = 0
    for line in text.splitlines():
        length = _LENGTHS.get(line[0]) if line else None
        if length is None or len(line) - 1 != -(-length // 4) * 5 or total % 4:
            raise BadPatch(_DAMAGED_LINE)
        pieces.append(line[1:])
        total += length
    digits = b"".join(pieces).translate(_VALUES)
    if _NO_DIGIT in digits:
        raise BadPatch(_DAMAGED_LINE)
    return _from_digits(digits)[:total]


def _from_digits(digits: bytes) -> bytes:
    """Four bytes for each five digits."""
    from array import array
    from sys import byteorder

    words = array("I")
    try:
        for start in range(0, len(digits), _AT_ONCE):
            part = digits[start : start + _AT_ONCE]
            rows = zip(*(part[place::5] for place in range(5)), strict=True)
            words.extend([(((a * 85 + b) * 85 + c) * 85 + d) * 85 + e for a, b, c, d, e in rows])
    except OverflowError:
        raise BadPatch(_DAMAGED_LINE) from None
    if byteorder == "little":
        words.byteswap()
    return words.tobytes()


def _inflated(data: bytes, size: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(data, size + 1)
    except zlib.error:
        raise BadPatch("it has binary data that cannot be inflated") from None
    if len(found) != size or not inflater.eof or inflater.unused_data:
        raise BadPatch("it has binary data of another size than it says")
    return found


def _by_delta(delta: bytes, content: bytes) -> bytes:
    try:
        return _Delta(delta, content).result()
    except IndexError:
        raise BadPatch("it has a delta that is cut off") from None


class _Delta:
    def __init__(self, delta: bytes, content: bytes) -> None:
        self._delta = delta
        self._content = content
        self._at = 0

    def result(self) -> bytes:
        if self._number() != len(self._content):
            raise BadPatch(_OTHER_CONTENT)
        size = _limited(self._number())
        pieces = []
        length = 0
        while self._at < len(self._delta):
            piece = self._piece()
            length += len(piece)
            if length > size:
                break
            pieces.append(piece)
        if length != size:
            raise BadPatch("it has a delta of another size than it says")
        return b"".join(pieces)

    def _byte(self) -> int:
        self._at += 1
        return self._delta[self._at - 1]

    def _number(self) -> int:
        """A number of seven bits a byte, the lowest first."""
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise BadPatch("it has a delta that is damaged")

    def _piece(self) -> bytes:
        """What the next instruction stands for: some of the old content, or new bytes."""
        code = self._byte()
        if code >= 0x80:
            start = sum(self._byte() << 8 * n for n in range(4) if code & 1 << n)
            size = sum(self._byte() << 8 * n for n in range(3) if code & 0x10 << n) or 0x10000
            if start + size > len(self._content):
                raise BadPatch(_OTHER_CONTENT)
            return self._content[start : start + size]
        piece = self._delta[self._at : self._at + code]
        if not code or len(piece) != code:
            raise BadPatch("it has a delta that is damaged")
        self._at += code
        return piece
