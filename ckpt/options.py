# SPDX-License-Identifier: MIT
"""Reads the plain command lines, so that `argparse` is imported for the others only.

It takes the declarations that an `ArgumentParser` takes, and answers only where it is sure
to find what that would find: options written out, each value in a word of its own or after
`=`, all arguments in one row. For the rest, and so for every error and help text, it answers
nothing, and argparse (7 ms, and 3 for `re`) is asked.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_FLAGS = {"store_true": True, "store_const": None}


class _Unsure(Exception):
    """Argparse must decide."""


class _Option:
    """One declaration; of an argument without dashes, `names` is empty."""

    __slots__ = ("action", "choices", "const", "default", "dest", "group", "names", "nargs", "type")

    def __init__(self, names: tuple[str, ...], group: object, declared: dict[str, Any]) -> None:
        long = next((name for name in names if name.startswith("--")), names[0])
        self.names = names if names[0].startswith("-") else ()
        self.dest: str = declared.get("dest") or long.lstrip("-").replace("-", "_")
        self.group = group
        self.action: str = declared.get("action", "store")
        self.const = declared.get("const", _FLAGS.get(self.action))
        self.default = declared.get("default", False if self.action == "store_true" else None)
        self.choices = declared.get("choices")
        self.nargs: str | None = declared.get("nargs")
        self.type = declared.get("type")

    def read(self, word: str) -> Any:
        """The value that a word stands for."""
        try:
            value = word if self.type is None else self.type(word)
        except (TypeError, ValueError):
            raise _Unsure from None
        if self.choices is not None and value not in self.choices:
            raise _Unsure
        return value


class PlainParser:
    """What `ArgumentParser` offers to those who declare arguments, and `parse`."""

    def __init__(self) -> None:
        self.usage = ""
        self._declared: list[_Option] = []

    def add_argument(self, *names: str, **declared: Any) -> None:
        self._add(names, None, declared)

    def add_mutually_exclusive_group(self) -> _Group:
        return _Group(self)

    def _add(self, names: tuple[str, ...], group: object, declared: dict[str, Any]) -> None:
        self._declared.append(_Option(names, group, declared))

    def parse(self, words: list[str]) -> dict[str, Any] | None:
        """The values by their names; None if argparse must be asked."""
        found = {option.dest: option.default for option in self._declared}
        try:
            found |= self._fill(self._read_options(words, found))
        except _Unsure:
            return None
        return found

    def _read_options(self, words: list[str], found: dict[str, Any]) -> list[str]:
        """Puts what options say into `found`; returns the other words."""
        by_name = {name: option for option in self._declared for name in option.names}
        used: dict[object, _Option] = {}
        rest: list[str] = []
        rows = 0
        was_argument = False
        following = iter(words)
        for word in following:
            is_argument = not word.startswith("-")
            if is_argument:
                rows += not was_argument
                rest.append(word)
            else:
                self._take(by_name, word, following, found, used)
            was_argument = is_argument
        if rows > 1:  # argparse fills what may be left out as soon as the first row ends
            raise _Unsure
        return rest

    def _take(
        self,
        by_name: dict[str, _Option],
        word: str,
        following: Iterator[str],
        found: dict[str, Any],
        used: dict[object, _Option],
    ) -> None:
        name, glued, value = word.partition("=")
        option = by_name.get(name)
        if option is None or (glued and (not value or not name.startswith("--"))):
            raise _Unsure
        if option.group is not None and used.setdefault(option.group, option) is not option:
            raise _Unsure
        if option.action in _FLAGS:
            if glued:
                raise _Unsure
            found[option.dest] = option.const
            return
        if not glued:
            value = next(following, "-")
            if value.startswith("-"):
                raise _Unsure
        given = option.read(value)
        repeats = option.action == "append"
        found[option.dest] = [*(found[option.dest] or ()), given] if repeats else given

    def _fill(self, words: list[str]) -> dict[str, Any]:
        """The arguments without dashes, in the order of their declaration."""
        found: dict[str, Any] = {}
        left = list(words)
        for option in self._declared:
            if option.names:
                continue
            if option.nargs == "*" or (option.nargs == "+" and left):
                found[option.dest] = [option.read(word) for word in left]
                left = []
            elif left:
                found[option.dest] = option.read(left.pop(0))
            elif option.nargs != "?":
                raise _Unsure
        if left:
            raise _Unsure
        return found


class _Group:
    """Options that exclude each other."""

    def __init__(self, parser: PlainParser) -> None:
        self._parser = parser

    def add_argument(self, *names: str, **declared: Any) -> None:
        self._parser._add(names, self, declared)
