# SPDX-License-Identifier: MIT
"""Convert contents as git does: line endings, `$Id$` and `working-tree-encoding`.

`clean` gives what `git add` stores for the bytes on disk, `checkout` what git writes to disk for a
blob. Python's codecs stand in for iconv. Filter drivers are in filters.py.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from ckpt.worktree.attributes import Attributes, AttributeTree, State, asks_for_conversion

_OFF = ("false", "no", "off", "0")
_BOMS = {
    "16LE": codecs.BOM_UTF16_LE,
    "16BE": codecs.BOM_UTF16_BE,
    "32LE": codecs.BOM_UTF32_LE,
    "32BE": codecs.BOM_UTF32_BE,
}
# What git counts as unprintable in text; a final ^Z is allowed.
_UNPRINTABLE = bytes({*range(32), 127} - {*b"\b\t\033\f\r\n"})


class Unconvertible(Exception):
    """Content that is not in the encoding that the attributes name."""


class LineEndings(Enum):
    """What becomes of CRLF: it stays, it becomes LF, or it does if the content is text."""

    KEEP = "keep"
    TEXT = "text"
    AUTO = "auto"


class Conversion(NamedTuple):
    """What attributes and configuration ask for at one path."""

    line_endings: LineEndings
    checkout_crlf: bool
    ident: bool
    encoding: str | None
    driver: str | None


def converts(autocrlf: str | None, attribute_files: Iterable[bytes]) -> bool:
    """Tell whether configuration or an attributes file asks for a conversion."""
    return _is_on(autocrlf) or any(map(asks_for_conversion, attribute_files))


def _is_on(autocrlf: str | None) -> bool:
    return autocrlf is not None and autocrlf.lower() not in _OFF


def conversion(
    attributes: Attributes, autocrlf: str | None, eol: str | None = None
) -> Conversion | None:
    """Return None if the bytes on disk are those of the blob.

    `autocrlf` and `eol` are the values of core.autocrlf and core.eol.
    """
    driver = attributes.get(b"filter")
    text = attributes.get(b"text")
    if text not in (True, False, b"auto", b"input"):
        text = attributes.get(b"crlf")  # the old name of the attribute
    asked = Conversion(
        _line_endings(text, attributes.get(b"eol"), autocrlf),
        _gets_crlf(text, attributes.get(b"eol"), autocrlf, eol),
        attributes.get(b"ident") is True,
        _encoding(attributes.get(b"working-tree-encoding")),
        driver.decode("utf-8", "surrogateescape") if isinstance(driver, bytes) else None,
    )
    return None if asked == (LineEndings.KEEP, asked[1], False, None, None) else asked


def _line_endings(text: State, eol: State, autocrlf: str | None) -> LineEndings:
    if text is False:
        return LineEndings.KEEP
    if text == b"auto":
        return LineEndings.AUTO
    if text in (True, b"input") or eol in (b"lf", b"crlf"):
        return LineEndings.TEXT
    return LineEndings.AUTO if _is_on(autocrlf) else LineEndings.KEEP


def _gets_crlf(text: State, attribute: State, autocrlf: str | None, eol: str | None) -> bool:
    if attribute in (b"lf", b"crlf"):
        return attribute == b"crlf"
    if text == b"input" or (autocrlf or "").lower() == "input":
        return False
    return _is_on(autocrlf) or (eol or "").lower() == "crlf"


def _encoding(state: State) -> str | None:
    if not isinstance(state, bytes) or not state.isascii():
        return None
    name = state.decode()
    return None if not name or _utf(name) == "8" else name


def converting(
    tree: AttributeTree, autocrlf: str | None, eol: str | None = None
) -> Callable[[bytes], Conversion | None]:
    """Return a function from paths to their conversion."""
    known: dict[int, Conversion | None] = {}  # many paths share their attributes

    def asked(path: bytes) -> Conversion | None:
        attributes = tree.attributes(path)
        if id(attributes) not in known:
            known[id(attributes)] = conversion(attributes, autocrlf, eol)
        return known[id(attributes)]

    return asked


def clean(asked: Conversion, data: bytes, index_blob: Callable[[], bytes | None]) -> bytes:
    """Return what git would store; `index_blob` gives what the index has for the path.

    Raises Unconvertible where git would refuse to add the file.
    """
    if asked.encoding is not None and data:
        data = _decode(asked.encoding, data)
    if b"\r\n" in data and _gets_lf(asked.line_endings, data, index_blob):
        data = data.replace(b"\r\n", b"\n")
    return re.sub(rb"\$Id:[^$\n]*\$", b"$Id$", data) if asked.ident else data


def _gets_lf(kind: LineEndings, data: bytes, index_blob: Callable[[], bytes | None]) -> bool:
    """Text that was added with CRLF stays so, or the file would differ from its blob."""
    if kind is not LineEndings.AUTO or is_binary(data):
        return kind is LineEndings.TEXT
    blob = index_blob()
    return blob is None or b"\r\n" not in blob or is_binary(blob)


def checkout(asked: Conversion, blob: bytes, ident: bytes) -> bytes:
    """Return what git writes to disk, without a driver; `ident` is the id for `$Id$`."""
    data = blob
    if asked.ident:
        # An id with blanks inside is another system's, and stays.
        pattern = rb"\$Id(?:\$|:(?:[^$\n](?:[^$\n ]*[^$\n])?)?\$)"
        data = re.sub(pattern, b"$Id: %s $" % ident, data)
    is_auto = asked.line_endings is LineEndings.AUTO and not (b"\r" in blob or is_binary(blob))
    if asked.checkout_crlf and (is_auto or asked.line_endings is LineEndings.TEXT):
        data = re.sub(rb"(?<!\r)\n", b"\r\n", data)
    return _encode(asked.encoding, data) if asked.encoding is not None and data else data


def is_binary(data: bytes) -> bool:
    """Guess as git does for `text=auto`."""
    carriage_returns, crlf = data.count(b"\r"), data.count(b"\r\n")
    if carriage_returns != crlf or b"\0" in data:
        return True
    unprintable = len(data) - len(data.translate(None, _UNPRINTABLE))
    printable = len(data) - unprintable - crlf - data.count(b"\n")
    return printable >> 7 < unprintable - data.endswith(b"\x1a")


def _utf(encoding: str) -> str | None:
    """Return `16LE` for `utf-16le`; git takes `UTF16LE` for the same."""
    upper = encoding.upper()
    return upper[3:].removeprefix("-") if upper.startswith("UTF") else None


def _decode(encoding: str, data: bytes) -> bytes:
    """Convert to UTF-8; `UTF-16` needs a byte order mark, `UTF-16LE` must not have one."""
    kind = _utf(encoding) or ""
    marks = tuple(bom for order, bom in _BOMS.items() if order[:2] == kind[:2])
    if kind in _BOMS and data.startswith(marks):
        raise Unconvertible(f"a byte order mark is prohibited in {encoding}")
    if kind in ("16", "32") and not data.startswith(marks):
        raise Unconvertible(f"a byte order mark is required in {encoding}")
    try:
        return data.decode(_codec(encoding)).encode()
    except (LookupError, ValueError) as error:
        raise Unconvertible(str(error)) from None


def _encode(encoding: str, data: bytes) -> bytes:
    order = (_utf(encoding) or "").removesuffix("-BOM")
    try:
        if encoding.upper().endswith("-BOM") and order in _BOMS:
            return _BOMS[order] + data.decode().encode(f"utf-{order}")
        return data.decode().encode(_codec(encoding))
    except (LookupError, ValueError) as error:
        raise Unconvertible(str(error)) from None


def _codec(encoding: str) -> str:
    kind = _utf(encoding)
    return encoding if kind is None else f"utf-{kind[:2] if kind.endswith('-BOM') else kind}"
