# SPDX-License-Identifier: MIT
"""Put something into a JSON file, or take it out, and leave every other byte as it is.

The text is read for where things stand, and is changed only by what is put in: order, spaces,
line ends and comments of the rest stay. What was put in can be cut out again to the byte, as
long as nobody has changed the text; then things are found by what they say instead. Comments
and a comma after the last item are understood where the caller says that the file's owner
understands them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_SPACE_AND_COMMENTS = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*", re.S)
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_CONTAINERS = {"{": ("object", "}"), "[": ("array", "]")}
# No settings are like that, and Python does not read it.
_DEEPEST, _LONGEST_NUMBER = 100, 4000
_STRINGS = json.JSONDecoder()
_UNIT = "  "  # where a file does not show how it indents
_BOM = "\ufeff"


class NotJson(ValueError):
    """`line` is where the text stops being JSON."""

    def __init__(self, text: str, at: int) -> None:
        self.line = text.count("\n", 0, at) + 1
        super().__init__(f"not valid JSON, line {self.line}")


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place in the text. `items` are those of an array, or the values of an
    object, whose `keys` and the places where these begin go along with them. `commas` are the
    places of those after items, at times also after the last."""

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

    def get(self, key: str) -> Node | None:
        """The value of a key; of several with that name the last counts, as elsewhere."""
        found = [item for name, item in zip(self.keys, self.items, strict=True) if name == key]
        return found[-1] if found else None


@dataclass(frozen=True, slots=True)
class Insertion:
    at: int
    text: str


def parse(text: str, *, comments: bool = False) -> Node:
    """The outermost value of a text; raises `NotJson`."""
    reader = _Reader(text, _SPACE_AND_COMMENTS if comments else _SPACE, comments)
    node = reader.value(reader.skip(len(_BOM) if text.startswith(_BOM) else 0))
    if reader.skip(node.end) != len(text):
        raise NotJson(text, node.end)
    return node


def load(text: str, node: Node) -> Any:
    """The value that a node stands for."""
    if node.kind == "object":
        values = (load(text, item) for item in node.items)
        return dict(zip(node.keys, values, strict=True))
    if node.kind == "array":
        return [load(text, item) for item in node.items]
    return json.loads(text[node.start : node.end])


def added_member(text: str, node: Node, key: str, value: object) -> Insertion:
    """What to insert for an object to get one more member, the last."""
    return _added(text, node, json.dumps(key) + ": ", value)


def added_item(text: str, node: Node, value: object) -> Insertion:
    return _added(text, node, "", value)


def without(text: str, node: Node, number: int) -> str:
    """The text without the item of a container that has this number; comments beside it stay."""
    starts = node.starts or tuple(item.start for item in node.items)
    start, end = starts[number], node.items[number].end
    if number + 1 < len(node.items):
        low, high, commas = start, starts[number + 1], node.commas[number : number + 1]
    elif number:
        low, high, commas = node.items[number - 1].end, end, node.commas[number - 1 : number]
    else:
        low, high, commas = node.start + 1, node.end - 1, node.commas
    gone = [[start - low, end - start], *([comma - low, 1] for comma in commas)]
    left = cut(text[low:high], gone)
    return text[:low] + (left if left.strip() else "") + text[high:]


def written(value: object) -> str:
    """A whole new file."""
    return json.dumps(value, indent=_UNIT, ensure_ascii=False) + "\n"


def _added(text: str, node: Node, prefix: str, value: object) -> Insertion:
    inner = text[node.start + 1 : node.end - 1]
    if node.items and "\n" not in inner:
        comma = " " if node.ends_with_comma else ", "
        return Insertion(_end(node), comma + prefix + json.dumps(value, ensure_ascii=False))
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text)
    outer = _indentation(text, node.start)
    starts = node.starts or tuple(item.start for item in node.items)
    indent = _indentation(text, starts[0]) if starts else outer + unit
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    item = newline + indent + prefix + (newline + indent).join(lines)
    if not node.items:
        return Insertion(node.start + 1, item + ("" if "\n" in inner else newline + outer))
    return Insertion(_end(node), item if node.ends_with_comma else "," + item)


def _end(node: Node) -> int:
    """Where the last item ends, with its comma if it has one."""
    return node.commas[-1] + 1 if node.ends_with_comma else node.items[-1].end


def _indentation(text: str, at: int) -> str:
    """The spaces that the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else _UNIT


class _Reader:
    def __init__(self, text: str, space: re.Pattern[str], lenient: bool) -> None:
        self._text, self._space, self._lenient = text, space, lenient
        self._level = 0

    def skip(self, at: int) -> int:
        found = self._space.match(self._text, at)
        return at if found is None else found.end()

    def value(self, at: int) -> Node:
        char = self._text[at : at + 1]
        if char in ("{", "["):
            return self._nested(char, at)
        if char == '"':
            return Node("scalar", at, self._string(at)[1])
        found = _SCALAR.match(self._text, at)
        if found is None or found.end() - at > _LONGEST_NUMBER:
            raise NotJson(self._text, at)
        return Node("scalar", at, found.end())

    def _nested(self, char: str, at: int) -> Node:
        self._level += 1
        if self._level > _DEEPEST:
            raise NotJson(self._text, at)
        node = self._container(*_CONTAINERS[char], at)
        self._level -= 1
        return node

    def _container(self, kind: str, close: str, start: int) -> Node:
        keys: list[str] = []
        starts: list[int] = []
        items: list[Node] = []
        commas: list[int] = []
        at = self.skip(start + 1)
        while self._text[at : at + 1] != close:
            if len(commas) < len(items):
                raise NotJson(self._text, at)
            if kind == "object":
                starts.append(at)
                key, at = self._key(at)
                keys.append(key)
            items.append(self.value(at))
            at = self.skip(items[-1].end)
            if self._text[at : at + 1] == ",":
                commas.append(at)
                at = self.skip(at + 1)
        if items and len(commas) == len(items) and not self._lenient:
            raise NotJson(self._text, at)
        return Node(kind, start, at + 1, (*items,), (*keys,), (*starts,), (*commas,))

    def _key(self, at: int) -> tuple[str, int]:
        key, end = self._string(at)
        colon = self.skip(end)
        if self._text[colon : colon + 1] != ":":
            raise NotJson(self._text, colon)
        return key, self.skip(colon + 1)

    def _string(self, at: int) -> tuple[str, int]:
        if self._text[at : at + 1] != '"':
            raise NotJson(self._text, at)
        try:
            return _STRINGS.raw_decode(self._text, at)
        except ValueError:
            raise NotJson(self._text, at) from None


class Draft:
    """A text to which things are added one by one; knows afterwards what is new in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._new: list[tuple[int, int]] = []

    def insert(self, insertion: Insertion) -> None:
        at, length = insertion.at, len(insertion.text)
        self.text = self.text[:at] + insertion.text + self.text[at:]
        self._new = [*_moved(self._new, at, length), (at, length)]

    def new(self) -> list[list[int]]:
        """Beginning and length of each part that was put in, none inside another."""
        return [[at, length] for at, length in sorted(self._new)]


def _moved(parts: list[tuple[int, int]], at: int, by: int) -> Iterator[tuple[int, int]]:
    for start, length in parts:
        if start >= at:
            yield start + by, length
        elif start + length <= at:
            yield start, length
        else:  # into the middle of it
            yield start, at - start
            yield at + by, start + length - at


def cut(text: str, parts: list[list[int]]) -> str:
    """The text before these parts were put in."""
    for start, length in sorted(parts, reverse=True):
        text = text[:start] + text[start + length :]
    return text
