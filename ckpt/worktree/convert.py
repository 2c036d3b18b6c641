# SPDX-License-Identifier: MIT
"""Git's own conversions: line endings, `$Id$` and encodings, in both directions.

`clean` gives what `git add` would store for the bytes on disk. A *recipe* is a short text that
says how those bytes come from the blob again, `eol=crlf ident` for example. It names what was
done to this one file, not the rules that were in force: so it holds when they change, and it
reaches what git's own rules do not, as CRLF throughout in a file that git would check out
with LF.

Left out: filter drivers, which are commands (filters.py), and anything of a file but its
content. What cannot be decoded is not converted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from ckpt.patterns import lazy_pattern
from ckpt.values import value_class
from ckpt.worktree.attributes import Attributes, AttributeTree, State, asks_for_conversion
from ckpt.worktree.encodings import Unconvertible, decode, encode, exact, utf

_OFF = ("false", "no", "off", "0")


def converts(autocrlf: str | None, attribute_files: Iterable[bytes]) -> bool:
    """True if configuration or an attributes file asks for a conversion."""
    return is_on(autocrlf) or any(map(asks_for_conversion, attribute_files))


def is_on(autocrlf: str | None) -> bool:
    """True for `input` as well: what the two do differently, a recipe tells."""
    return autocrlf is not None and autocrlf.lower() not in _OFF


class LineEndings(Enum):
    """What is done about them: nothing, CRLF becomes LF, or that if the content is text."""

    KEEP = "keep"
    TEXT = "text"
    AUTO = "auto"


@value_class
class Conversion:
    """What attributes and configuration ask for at one path."""

    line_endings: LineEndings
    ident: bool
    encoding: str | None
    driver: str | None

    @property
    def is_built_in(self) -> bool:
        """True if there is something to do besides the driver's work."""
        return self.line_endings is not LineEndings.KEEP or self.ident or self.encoding is not None


def conversion(attributes: Attributes, autocrlf: bool) -> Conversion | None:
    """None when the bytes on disk are those of the blob."""
    driver = attributes.get(b"filter")
    asked = Conversion(
        _line_endings(attributes, autocrlf),
        attributes.get(b"ident") is True,
        _encoding(attributes.get(b"working-tree-encoding")),
        driver.decode("utf-8", "surrogateescape") if isinstance(driver, bytes) else None,
    )
    return asked if asked.is_built_in or asked.driver is not None else None


def converting(tree: AttributeTree, autocrlf: bool) -> Callable[[bytes], Conversion | None]:
    """Tells of a path what is converted; None when the bytes on disk are those of the blob.

    Of a file whose driver is gone the index may still believe what the driver once made.
    """
    known: dict[int, Conversion | None] = {}  # many paths share their attributes

    def asked(path: bytes) -> Conversion | None:
        attributes = tree.attributes(path)
        if id(attributes) not in known:
            known[id(attributes)] = conversion(attributes, autocrlf)
        return known[id(attributes)]

    return asked


def _line_endings(attributes: Attributes, autocrlf: bool) -> LineEndings:
    text = attributes.get(b"text")
    if text not in (True, False, b"auto", b"input"):
        text = attributes.get(b"crlf")  # its name of old
    if text is False:
        return LineEndings.KEEP
    if text == b"auto":
        return LineEndings.AUTO
    if text in (True, b"input") or attributes.get(b"eol") in (b"lf", b"crlf"):
        return LineEndings.TEXT
    return LineEndings.AUTO if autocrlf else LineEndings.KEEP


def _encoding(state: State) -> str | None:
    """Git refuses to go on at `working-tree-encoding` without a value; here it is no encoding."""
    if not isinstance(state, bytes) or not state.isascii():
        return None
    name = state.decode()
    return None if not name or utf(name) == "8" else name


# Clean: from the disk to the blob


def clean(asked: Conversion, data: bytes, index_blob: Callable[[], bytes | None]) -> bytes:
    """What git would store. index_blob gives what it has stored for the path already.

    Raises Unconvertible where git would refuse to add the file.
    """
    if asked.encoding is not None and data:
        data = decode(asked.encoding, data)
    if asked.line_endings is not LineEndings.KEEP:
        data = _with_lf(asked.line_endings, data, index_blob)
    return _EXPANDED.sub(b"$Id$", data) if asked.ident else data


def _with_lf(kind: LineEndings, data: bytes, index_blob: Callable[[], bytes | None]) -> bytes:
    if b"\r\n" not in data:
        return data
    if kind is LineEndings.AUTO and (is_binary(data) or _has_crlf_text(index_blob())):
        return data
    return data.replace(b"\r\n", b"\n")


def _has_crlf_text(blob: bytes | None) -> bool:
    """Text that was added with CRLF stays so, or the file would differ from its blob."""
    return blob is not None and b"\r\n" in blob and not is_binary(blob)


# What git counts as printable beside CR and LF; a last ^Z is pardoned.
_UNPRINTABLE = bytes({*range(32), 127} - {*b"\b\t\033\f\r\n"})


def is_binary(data: bytes) -> bool:
    """Git's guess, where it has to guess."""
    carriage_returns, crlf = data.count(b"\r"), data.count(b"\r\n")
    if carriage_returns != crlf or b"\0" in data:
        return True
    printable = len(data.translate(None, _UNPRINTABLE)) - crlf - data.count(b"\n")
    unprintable = len(data) - len(data.translate(None, _UNPRINTABLE))
    return printable >> 7 < unprintable - data.endswith(b"\x1a")


_EXPANDED = lazy_pattern(rb"\$Id:[^$\n]*\$")


# Smudge: from the blob to the disk


def smudge(recipe: str, blob: bytes, blob_id: bytes) -> bytes:
    """The bytes on disk, by the recipe and nothing else."""
    data = blob
    for step in recipe.split(" "):
        name, _, value = step.partition("=")
        if name == "ident":
            data = _expand(data, value.encode() or blob_id)
        elif step == "eol=crlf":
            data = _LONE_LF.sub(b"\r\n", data)
        elif name == "encoding":
            data = encode(value, data)
        else:
            raise Unconvertible(f"unknown conversion '{step}'")
    return data


def find_recipe(asked: Conversion, data: bytes, blob: bytes, blob_id: bytes) -> str | None:
    """How `data` comes from the blob that it was cleaned to; None if no recipe gives it."""
    for recipe in _candidates(asked, data, blob_id):
        try:
            if smudge(recipe, blob, blob_id) == data:
                return recipe
        except Unconvertible:
            continue
    return None


def _candidates(asked: Conversion, data: bytes, blob_id: bytes) -> Iterator[str]:
    encoding = [] if asked.encoding is None else [f"encoding={exact(asked.encoding, data)}"]
    text = data
    if asked.encoding is not None:
        try:
            text = decode(asked.encoding, data)
        except Unconvertible:
            return
    ids = {match[1] for match in _ID.finditer(text)} if asked.ident else set()
    ident = [_ident(ids.pop(), blob_id)] if len(ids) == 1 else []
    crlf = ["eol=crlf"] if b"\r\n" in text else []
    for steps in ([*ident, *crlf, *encoding], [*ident, *encoding]):
        if steps:
            yield " ".join(steps)


def _ident(found: bytes, blob_id: bytes) -> str:
    """Since git leaves `$Id$` as it is when a file is edited, it often names an older blob."""
    return "ident" if found == blob_id else f"ident={found.decode()}"


_LONE_LF = lazy_pattern(rb"(?<!\r)\n")
_ID = lazy_pattern(rb"\$Id: ([0-9a-f]{40,64}) \$")
# An id with blanks inside is some other system's, and stays.
_EXPANDABLE = lazy_pattern(rb"\$Id(?:\$|:(?:[^$\n](?:[^$\n ]*[^$\n])?)?\$)")


def _expand(data: bytes, blob_id: bytes) -> bytes:
    return _EXPANDABLE.sub(b"$Id: %s $" % blob_id, data)
