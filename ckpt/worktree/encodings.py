# SPDX-License-Identifier: MIT
"""The attribute `working-tree-encoding`: text that is UTF-8 in git and something else on disk.

Git's rules about byte order marks, with Python's codecs in the place of iconv. A few of these
read some bytes otherwise than iconv does; nothing is lost by it, since whoever converts compares
what comes back.
"""

from __future__ import annotations

import codecs


class Unconvertible(Exception):
    """Content that is not in the encoding it is said to be in."""


def utf(encoding: str) -> str | None:
    """`16LE` of `utf-16le`, since git takes `UTF16LE` for the same."""
    upper = encoding.upper()
    return upper[3:].removeprefix("-") if upper.startswith("UTF") else None


_BOMS = {
    "16LE": codecs.BOM_UTF16_LE,
    "16BE": codecs.BOM_UTF16_BE,
    "32LE": codecs.BOM_UTF32_LE,
    "32BE": codecs.BOM_UTF32_BE,
}
# Python's own, which are no encodings of text files.
_NO_CHARSETS = frozenset(
    ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7", "utf-8-sig")
)


def decode(encoding: str, data: bytes) -> bytes:
    """In UTF-8, by git's rules about byte order marks: `UTF-16` needs one, `UTF-16LE` has none."""
    kind = utf(encoding)
    if kind in _BOMS:
        if data.startswith(tuple(bom for name, bom in _BOMS.items() if name[:2] == kind[:2])):
            raise Unconvertible(f"a byte order mark is prohibited in {encoding}")
        return _from_bytes(data, encoding)
    if kind in ("16", "32") and _order(kind, data) is None:
        raise Unconvertible(f"a byte order mark is required in {encoding}")
    if kind in ("16", "32", "16LE-BOM", "16BE-BOM"):
        order = _order(kind[:2], data)
        rest = data if order is None else data[len(_BOMS[order]) :]
        return _from_bytes(rest, "UTF-" + (order or "16LE"))
    return _from_bytes(data, encoding)


def _order(width: str, data: bytes) -> str | None:
    orders = (width + "LE", width + "BE")
    return next((order for order in orders if data.startswith(_BOMS[order])), None)


def exact(encoding: str, data: bytes) -> str:
    """The encoding with the byte order that the data have: a recipe leaves nothing open."""
    kind = utf(encoding)
    if kind is None or not kind.startswith(("16", "32")) or kind in _BOMS:
        return encoding
    order = _order(kind[:2], data)
    return f"UTF-{order}-BOM" if order else "UTF-16LE"


def encode(encoding: str, data: bytes) -> bytes:
    """From UTF-8; beside git's names `UTF-32LE-BOM` and `UTF-32BE-BOM` are known."""
    kind = utf(encoding) or ""
    order = kind.removesuffix("-BOM")
    bom = _BOMS.get(order, b"") if order != kind else b""
    name = f"UTF-{order}" if bom else encoding
    try:
        return bom + data.decode().encode(_codec(name))
    except (LookupError, ValueError) as error:
        raise Unconvertible(str(error)) from None


def _from_bytes(data: bytes, encoding: str) -> bytes:
    try:
        return data.decode(_codec(encoding)).encode()
    except (LookupError, ValueError) as error:
        raise Unconvertible(str(error)) from None


def _codec(encoding: str) -> str:
    kind = utf(encoding)
    name = codecs.lookup(encoding if kind is None else f"utf-{kind}").name
    if name in _NO_CHARSETS:
        raise LookupError(f"unknown encoding: {encoding}")
    return name
