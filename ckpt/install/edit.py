# SPDX-License-Identifier: MIT
"""Edit JSON files and git's configuration as text, so that every other byte stays as it is.

A text is parsed for where things stand and changed only by what is added: order, spaces, line
ends and comments of the rest stay. What was added to JSON can be cut out again to the byte as
long as nobody changes the text; after that, entries are found by their values. Comments and
trailing commas are read where the owner of the file reads them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ckpt.git.config import ConfigError, parse_file

_SPACE = re.compile(r"[ \t\r\n]*")
_SPACE_AND_COMMENTS = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*", re.S)
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_DEEPEST, _LONGEST_NUMBER = 100, 4000  # more than that Python does not read
_STRINGS = json.JSONDecoder()
_UNIT = "  "  # where a file does not show how it indents
_BOM = "\ufeff"


class NotJson(ValueError):
    """`line` is where the text stops being JSON."""

    def __init__(self, text: str, at: int) -> None:
        self.line = text.count("\n", 0, at) + 1
        super().__init__(f"not valid JSON, line {self.line}")


@dataclass(frozen=True)
class Node:
    """A value and its place in the text. `items` are those of an array, or the values of an
    object, with its `keys`; `starts` is where each begins, with its key. `commas` are the places
    of those after items, of a trailing one too."""

    kind: str
    start: int
    end: int
    items: tuple[Node, ...] = ()
    keys: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()
    commas: tuple[int, ...] = ()

    @property
    def ends_with_comma(self) -> bool:
        return 0 < len(self.items) == len(self.commas)

    def index(self, key: str) -> int | None:
        """The number of a member; of several with one name the last counts, as elsewhere."""
        return max((n for n, name in enumerate(self.keys) if name == key), default=None)

    def get(self, key: str) -> Node | None:
        number = self.index(key)
        return None if number is None else self.items[number]


def parse(text: str, *, comments: bool = False) -> Node:
    """The outermost value of a text; raises `NotJson`."""
    space = _SPACE_AND_COMMENTS if comments else _SPACE

    def skip(at: int) -> int:
        found = space.match(text, at)
        return found.end() if found else at

    def string(at: int) -> tuple[str, int]:
        if text[at : at + 1] != '"':
            raise NotJson(text, at)
        try:
            return _STRINGS.raw_decode(text, at)
        except ValueError:
            raise NotJson(text, at) from None

    def value(at: int, depth: int) -> Node:
        char = text[at : at + 1]
        if char and char in "{[":
            return container("object" if char == "{" else "array", at, depth + 1)
        if char == '"':
            return Node("scalar", at, string(at)[1])
        found = _SCALAR.match(text, at)
        if found is None or found.end() - at > _LONGEST_NUMBER:
            raise NotJson(text, at)
        return Node("scalar", at, found.end())

    def container(kind: str, start: int, depth: int) -> Node:
        keys: list[str] = []
        starts: list[int] = []
        items: list[Node] = []
        commas: list[int] = []
        close = "}" if kind == "object" else "]"
        if depth > _DEEPEST:
            raise NotJson(text, start)
        at = skip(start + 1)
        while text[at : at + 1] != close:
            if len(commas) < len(items):
                raise NotJson(text, at)
            starts.append(at)
            if kind == "object":
                key, end = string(at)
                keys.append(key)
                colon = skip(end)
                if text[colon : colon + 1] != ":":
                    raise NotJson(text, colon)
                at = skip(colon + 1)
            items.append(value(at, depth))
            at = skip(items[-1].end)
            if text[at : at + 1] == ",":
                commas.append(at)
                at = skip(at + 1)
        if items and len(commas) == len(items) and not comments:
            raise NotJson(text, at)
        return Node(kind, start, at + 1, (*items,), (*keys,), (*starts,), (*commas,))

    root = value(skip(len(_BOM) if text.startswith(_BOM) else 0), 0)
    if skip(root.end) != len(text):
        raise NotJson(text, root.end)
    return root


def load(text: str, node: Node) -> Any:
    """The value that a node stands for."""
    if node.kind == "object":
        return {key: load(text, item) for key, item in zip(node.keys, node.items, strict=True)}
    if node.kind == "array":
        return [load(text, item) for item in node.items]
    return json.loads(text[node.start : node.end])


def written(value: object) -> str:
    """A whole new file."""
    return json.dumps(value, indent=_UNIT, ensure_ascii=False) + "\n"


# What to insert, and where: `insert` says which parts of the new text are new, for `cut`

Insertion = tuple[int, str]


def added(text: str, node: Node, new: Sequence[tuple[str | None, object]]) -> Insertion:
    """Add items to the end of a container, or members with their keys, in the file's style."""
    inner = text[node.start + 1 : node.end - 1]
    prefixes = ["" if key is None else json.dumps(key) + ": " for key, _ in new]
    after = node.start + 1
    if node.items:
        after = node.commas[-1] + 1 if node.ends_with_comma else node.items[-1].end
    if node.items and "\n" not in inner:
        words = [json.dumps(value, ensure_ascii=False) for _, value in new]
        joined = ", ".join(p + word for p, word in zip(prefixes, words, strict=True))
        return after, (" " if node.ends_with_comma else ", ") + joined
    unit = found[1] if (found := re.search(r"\n([ \t]+)\S", text)) else _UNIT
    outer = _indentation(text, node.start)
    start = ("\r\n" if "\r\n" in text else "\n") + (
        _indentation(text, node.starts[0]) if node.starts else outer + unit
    )
    lines = [json.dumps(value, indent=unit, ensure_ascii=False).split("\n") for _, value in new]
    joined = ",".join(start + p + start.join(w) for p, w in zip(prefixes, lines, strict=True))
    if node.items:
        return after, joined if node.ends_with_comma else "," + joined
    newline = start[: start.index("\n") + 1]
    return after, joined + ("" if "\n" in inner else newline + outer)


def insert(text: str, insertions: Iterable[Insertion]) -> tuple[str, list[list[int]]]:
    """The new text, and the start and length of each part that is new in it."""
    parts: list[list[int]] = []
    moved = 0
    for at, new in sorted(insertions):
        text = text[: at + moved] + new + text[at + moved :]
        parts.append([at + moved, len(new)])
        moved += len(new)
    return text, parts


def cut(text: str, parts: list[list[int]]) -> str:
    """The text before these parts were inserted."""
    for start, length in sorted(parts, reverse=True):
        text = text[:start] + text[start + length :]
    return text


def without(text: str, node: Node, number: int) -> str:
    """The text without the item of this number; comments beside it stay."""
    start, end = node.starts[number], node.items[number].end
    if number + 1 < len(node.items):
        low, high, commas = start, node.starts[number + 1], node.commas[number : number + 1]
    elif number:
        low, high, commas = node.items[number - 1].end, end, node.commas[number - 1 : number]
    else:
        low, high, commas = node.start + 1, node.end - 1, node.commas
    gone = [[start - low, end - start], *([comma - low, 1] for comma in commas)]
    left = cut(text[low:high], gone)
    return text[:low] + (left if left.strip() else "") + text[high:]


def _indentation(text: str, at: int) -> str:
    """The spaces that the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


# -- Git's configuration, line by line: an entry of ours is one line in a section

_HEADER = re.compile(rb'(?:\xef\xbb\xbf)?[ \t]*(\[[A-Za-z0-9.-]+(?:[ \t]+"(?:[^"\\\n]|\\.)*")?\])')


class _Line(NamedTuple):
    """`section` is the header that it is below, or that it holds itself (`is_header`)."""

    text: bytes
    section: bytes
    is_header: bool = False
    key: str = ""
    value: str = ""

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()


def _config_lines(text: bytes) -> Iterator[_Line]:
    section, continues = b"", False
    for line in re.findall(rb"[^\n]*\n|[^\n]+", text):
        header = None if continues else _HEADER.match(line)
        if header is not None:
            section = header[1]
            yield _Line(line, section, is_header=not line[header.end() :].strip())
        elif continues or line.lstrip()[:1] in (b"", b"#", b";"):
            yield _Line(line, section)
        else:
            yield _Line(line, section, False, *_entry(section + b"\n" + line))
        is_comment = header is None and line.lstrip()[:1] in (b"#", b";")
        continues = not is_comment and line.rstrip(b"\r\n").endswith(b"\\")


def _entry(text: bytes) -> tuple[str, str]:
    try:
        [entry] = parse_file(text, "")
    except (ConfigError, ValueError):
        return "", ""
    return entry.key, entry.value or ""


def with_section(
    text: bytes,
    section: str,
    subsection: str | None,
    pairs: Sequence[tuple[str, str]],
    *,
    is_first: bool = False,
) -> bytes:
    """The text with a new section, at the end or before all others with its name."""
    header = f"[{section}]" if subsection is None else f'[{section} "{subsection}"]'
    lines = [header, *(f"\t{name} = {_quoted(value)}" for name, value in pairs)]
    new = os.fsencode("".join(line + "\n" for line in lines))
    at = 0
    same = f"[{section} ".encode()
    for line in _config_lines(text) if is_first else ():
        if _HEADER.match(line.text) and line.section.lower().startswith(same):
            return text[:at] + new + text[at:]
        at += len(line.text)
    return text + (b"" if not text or text.endswith(b"\n") else b"\n") + new


def without_entries(text: bytes, is_ours: Callable[[str, str], bool]) -> bytes:
    """The text without the entries that are ours, and without a header that only they had."""
    sections: list[list[_Line]] = [[]]
    for line in _config_lines(text):
        if line.is_header:
            sections.append([])
        sections[-1].append(line)
    kept: list[_Line] = []
    for lines in sections:
        rest = [line for line in lines if not (line.key and is_ours(line.key, line.value))]
        is_bare = len(rest) < len(lines) and all(each.is_header or each.is_blank for each in rest)
        kept += [line for line in rest if not (is_bare and line.is_header)]
    return b"".join(line.text for line in kept)


def _quoted(value: str) -> str:
    escaped = value
    for char, text in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        escaped = escaped.replace(char, text)
    needs = value != value.strip(" ") or any(char in value for char in ";#\r")
    return f'"{escaped}"' if needs else escaped
