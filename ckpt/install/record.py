# SPDX-License-Identifier: MIT
"""What was installed in one place, so that it can be taken out again to the byte.

One small private JSON file, an object for each part that asks. It is written before the
part acts, so that what was begun and not finished can be undone as well. Without the file,
uninstall still finds what is ckpt's by its marks; lost is then only what those cannot
tell, such as whether a file ended without a newline. What it says is what gets cut out of
other people's files, so it is believed only under its checksum.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckpt import disk, jsontext
from ckpt.errors import CkptError, Refused
from ckpt.git.config import ConfigError, parse_file
from ckpt.locks import is_dead, remove_dead, replace_locked


def global_config_path(env: Mapping[str, str]) -> str:
    """The file that `git config --global` writes."""
    named = env.get("GIT_CONFIG_GLOBAL")
    if named is not None:
        return os.path.abspath(named or os.devnull)
    plain = os.path.join(_home(env), ".gitconfig")
    other = os.path.join(config_home(env), "git", "config")
    return other if os.path.exists(other) and not os.path.exists(plain) else plain


def config_home(env: Mapping[str, str]) -> str:
    return env.get("XDG_CONFIG_HOME") or os.path.join(_home(env), ".config")


def data_home(env: Mapping[str, str]) -> str:
    """What the XDG rules call the user's data folder."""
    return env.get("XDG_DATA_HOME") or os.path.join(_home(env), ".local", "share")


def data_dir(env: Mapping[str, str]) -> str:
    """The folder for files that ckpt installs for a user."""
    return os.path.join(data_home(env), "ckpt")


def _home(env: Mapping[str, str]) -> str:
    home = env.get("HOME")
    if not home:
        raise CkptError("$HOME is not set", hint="set HOME to your home folder, then try again")
    return home


# -- What was installed in one place, so that it can be taken out again to the byte

_MADE = "made"  # the folders that the record itself needed


class Record:
    """The notes of the parts, by their names; a damaged file counts as none."""

    def __init__(self, path: str, *, is_users: bool = False) -> None:
        self.path = path
        self._is_users = is_users

    def get(self, name: str) -> dict[str, Any]:
        """What the part of that name noted; empty if nothing."""
        notes = self._read().get(name)
        return notes if isinstance(notes, dict) else {}

    def put(self, name: str, notes: Mapping[str, Any]) -> None:
        """Note something in place of what was noted; empty notes go."""
        kept = self._read()
        if kept.get(name, {}) == dict(notes):
            return
        kept.pop(name, None)
        if notes:
            kept[name] = dict(notes)
        made = kept.setdefault(_MADE, missing_folders(os.path.dirname(self.path)))
        if kept.keys() == {_MADE}:
            disk.remove(self.path)
            remove_folders(made)
        else:
            document = {"format": 1, "parts": kept, "sum": _checksum(kept)}
            if self._is_users:
                disk.ensure_user_dir(os.path.dirname(self.path))
            disk.replace(self.path, jsontext.dump(document))

    def drop(self, name: str) -> None:
        self.put(name, {})

    def _read(self) -> dict[str, Any]:
        try:
            document = jsontext.load(disk.read_private(self.path))
            parts: dict[str, Any] = document["parts"]
            is_whole = document["format"] == 1 and document["sum"] == _checksum(parts)
            return parts if is_whole else {}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return {}


def _checksum(parts: dict[str, Any]) -> str:
    return hashlib.new("sha256", jsontext.dump(parts)).hexdigest()


def missing_folders(path: str) -> list[str]:
    """The folder and those above it that are not there, the outermost first."""
    missing: list[str] = []
    while not os.path.isdir(path):
        missing.insert(0, path)
        path = os.path.dirname(path)
    return missing


def remove_folders(made: list[str]) -> None:
    """Take folders away that were made before, as far as nobody else has put anything there."""
    for folder in reversed(made):
        try:
            disk.rmdir(folder)
        except OSError:
            return


# -- Puts sections into a file of git's configuration, and takes them out again to the byte

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


@dataclass(frozen=True, slots=True)
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
            return disk.read(self.path)
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


# -- What an install or uninstall that was killed has not finished

NEW = ".ckpt-new"


def left(paths: Iterable[str]) -> list[str]:
    """Those of them that a killed process has left."""
    return [path + NEW for path in paths if is_dead(path + NEW)]


def clear(paths: Iterable[str]) -> None:
    """Take away what was to become these files."""
    for path in paths:
        remove_dead(path + NEW)
