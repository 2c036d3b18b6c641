# SPDX-License-Identifier: MIT
"""Puts sections into a file of git's configuration, and takes them out again to the byte.

What ckpt sets stands in a section of its own, before which nothing else of the file is
touched: a later value wins, so one that the user has set stays where it is and counts
again when ours goes. What goes are the entries that are ours, and a header that has none left,
so that an entry which git put under our header stays. Written under git's lock, through
a symbolic link as git does. Included files are left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from ckpt import disk, regular
from ckpt.errors import Refused
from ckpt.install.record import Record
from ckpt.store.config_syntax import ConfigError, parse_file
from ckpt.store.lock import replace_locked
from ckpt.values import value_class

_PATIENCE = 2.0
_TOKEN = re.compile(
    rb"""
      (?P<header> \[ [A-Za-z0-9.-]* (?: [ \t\r]+ "(?: [^"\\\n] | \\[^\n] )*" )? \] )
    | (?P<entry> [A-Za-z][A-Za-z0-9-]* [ \t]*
        (?: = (?: "(?: [^"\\\n] | \\(?:\r\n|.) )*" | \\(?:\r\n|.) | [^"\\#;\n] )*
              (?: [#;][^\n]* )? )?
        \r? (?: \n | \Z ) )
    | (?P<comment> [#;] [^\n]* \n? )
    | (?P<blank> [ \t\r]* \n | [ \t\r]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
Pairs = Sequence[tuple[str, str]]
IsOurs = Callable[[str, str], bool]


@value_class
class _Token:
    kind: str
    start: int
    end: int
    key: str = ""
    value: str = ""


class ConfigFile:
    """One file of git's configuration; `record` remembers how it was before."""

    def __init__(self, path: str, record: Record) -> None:
        self.path = path
        self._record = record

    def values(self, key: str) -> list[str]:
        """What the file itself, without what it includes, says of a key as git lists it."""
        return [
            entry.value or "" for entry in parse_file(self._read(), self.path) if entry.key == key
        ]

    def entries(self) -> list[tuple[str, str]]:
        return [(entry.key, entry.value or "") for entry in parse_file(self._read(), self.path)]

    def add(self, section: str, subsection: str | None, pairs: Pairs) -> None:
        """A new section: one of a hook before all others of hooks, any other at the end."""
        before = "hook" if section == "hook" else None
        text = self._read()
        if text and not text.endswith(b"\n"):
            self._note(length_without_newline=len(text))
        if not os.path.lexists(self.path):
            self._note(created=True)
        self._replace(text, with_section(text, section, subsection, pairs, before=before))

    def remove(self, is_ours: IsOurs) -> bool:
        """Take out the entries that a function of key and value says are ours; False if none."""
        text = self._read()
        left = without_entries(text, is_ours)
        if left == text:
            return False
        notes = self._record.get(self._part)
        if left.endswith(b"\n") and notes.get("length_without_newline") == len(left) - 1:
            left = left[:-1]
        self._replace(text, left)
        if not left and notes.get("created"):
            disk.unlink(os.path.realpath(self.path))
        return True

    def forget(self) -> None:
        """Nothing of ours is in the file any more: what it was like need not be known."""
        self._record.drop(self._part)

    @property
    def _part(self) -> str:
        return f"config:{self.path}"

    def _note(self, **notes: int) -> None:
        self._record.put(self._part, {**self._record.get(self._part), **notes})

    def _read(self) -> bytes:
        try:
            return regular.read(self.path)
        except FileNotFoundError:
            return b""

    def _replace(self, before: bytes, after: bytes) -> None:
        path = os.path.realpath(self.path)
        if os.path.exists(path) and not os.path.isfile(path):  # such as /dev/null
            raise Refused(f"'{path}' is not a file", hint="see GIT_CONFIG_GLOBAL")
        private = os.path.dirname(self._record.path)
        if not replace_locked(
            path, after, private, lambda: self._read() == before, patience=_PATIENCE
        ):
            raise ConfigError(
                f"'{self.path}' was changed by another program meanwhile", hint="try again"
            )


def with_section(
    text: bytes, section: str, subsection: str | None, pairs: Pairs, *, before: str | None = None
) -> bytes:
    """The text with a new section, at the end or before the first of a kind."""
    lines = [_header(section, subsection), *(f"\t{name} = {_quoted(v)}" for name, v in pairs)]
    added = os.fsencode("".join(line + "\n" for line in lines))
    for token in _tokens(text):
        if before and token.kind == "header" and token.key.startswith(before + "."):
            return text[: token.start] + added + text[token.start :]
    gap = b"" if not text or text.endswith(b"\n") else b"\n"
    return text + gap + added


def without_entries(text: bytes, is_ours: IsOurs) -> bytes:
    """The text without the entries that are ours, and without a header that only they had."""
    doomed: list[_Token] = []
    header: _Token | None = None
    inside: list[_Token] = []

    def finish() -> None:
        ours = [t for t in inside if t.kind == "entry" and is_ours(t.key, t.value)]
        doomed.extend(ours)
        if ours and header and not any(t.kind != "blank" and t not in ours for t in inside):
            doomed.append(header)

    for token in _tokens(text):
        if token.kind == "header":
            finish()
            header, inside = token, []
        else:
            inside.append(token)
    finish()
    for token in sorted(doomed, key=lambda token: token.start, reverse=True):
        text = _without(text, token)
    return text


def _without(text: bytes, token: _Token) -> bytes:
    """Without a token, and without its line if nothing else stands on it."""
    start = len(text[: token.start].rstrip(b" \t"))
    begins_line = start == 0 or text[start - 1 : start] == b"\n"
    end = token.end
    if token.kind == "header":
        rest = re.compile(rb"[ \t\r]*(\n|\Z)").match(text, end)
        end = rest.end() if rest else end
    if not begins_line and text[token.end - 1 : token.end] == b"\n":
        return text[: token.start] + b"\n" + text[end:]
    return text[:start] + text[end:]


def _tokens(text: bytes) -> list[_Token]:
    at = 3 if text.startswith(b"\xef\xbb\xbf") else 0
    found: list[_Token] = []
    header = ""
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or not match.lastgroup:
            line = text.count(b"\n", 0, at) + 1
            raise ConfigError(f"bad config line {line}", hint="mend that line of git's config")
        token = _Token(match.lastgroup, match.start(), match.end())
        if token.kind == "header":
            header = os.fsdecode(match[0])
            token = _Token(
                "header", *match.span(), _parsed(header + " name")[0].removesuffix("name")
            )
        elif token.kind == "entry":
            token = _Token("entry", *match.span(), *_parsed(header + os.fsdecode(match[0])))
        found.append(token)
        at = match.end()
    return found


def _parsed(text: str) -> tuple[str, str]:
    [entry] = parse_file(os.fsencode(text), "")
    return entry.key, entry.value or ""


def _header(section: str, subsection: str | None) -> str:
    if subsection is None:
        return f"[{section}]"
    escaped = subsection.replace("\\", "\\\\").replace('"', '\\"')
    return f'[{section} "{escaped}"]'


def _quoted(value: str) -> str:
    escaped = value
    for char, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        escaped = escaped.replace(char, written)
    needs = value != value.strip(" ") or any(char in value for char in ";#\r")
    return f'"{escaped}"' if needs else escaped
