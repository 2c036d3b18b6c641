# SPDX-License-Identifier: MIT
"""The target of an install, the steps taken, and the record that uninstall needs.

Every part of `install` (hooks, guard, wrapper, agents) has the functions `install(target)` and
`uninstall(target)`, which return the steps taken, and `inspect(target)`, which returns findings
and changes nothing. None of them prints. The record is written before a part acts, so that a
killed install can be undone.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import split
from typing import Any, Literal, NamedTuple

from ckpt import codec, disk
from ckpt.disk import holding, replace_held
from ckpt.errors import Refused
from ckpt.git.config import parse_file
from ckpt.git.repository import Repository
from ckpt.models import INSTALLED, REPLACED, Finding
from ckpt.paths import config_home, data_dir, home_dir

# `to-do`: the trigger is not installed, and the user must act; `note`: it is installed, and the
# user should know this.
Action = Literal["added", "changed", "removed", "kept", "to-do", "note"]


class Step(NamedTuple):
    """An action taken, or left to the user: `what` completes 'Added …', `advice` is what to type or
    add, `place` is a file or `<file>: <config key>`."""

    action: Action
    what: str
    place: str
    advice: tuple[str, ...] = ()


def installed(trigger: str, path: str, text: bytes, is_own: bool, mend: str) -> Finding:
    """Return the finding for an installed trigger, which may be outdated or lack its Python."""
    found = re.search(rb"""(?m)^python=(.+)|((?:'[^']*'|"'"|[^\s'"])+) -I -m ckpt hook""", text)
    python = program_of(os.fsdecode(found[1] or found[2])) if found else ""
    if python and not os.access(python, os.X_OK):
        return Finding(trigger, REPLACED, f"'{python}', which it starts, is gone", mend)
    if is_own:
        return Finding(trigger, INSTALLED, f"'{path}'")
    told = f"'{path}' calls ckpt, but not as this ckpt writes it"
    return Finding(trigger, INSTALLED, told, mend)


class Target(NamedTuple):
    """Where to install: a repository or, with `is_global`, all of the user's; then `repo` may be
    None. `python` is the absolute path of the interpreter that triggers start."""

    repo: Repository | None
    env: Mapping[str, str]
    python: str
    is_global: bool = False
    edit_tracked: bool = False

    def require_repo(self) -> Repository:
        if self.repo is None:
            raise Refused(
                "this can only be installed into a repository",
                hint="change into one, or name it with -C DIR",
            )
        return self.repo

    @property
    def user_dir(self) -> str:
        return data_dir(self.env)

    @property
    def private(self) -> str:
        """Return ckpt's private directory for this target."""
        if self.is_global:
            return self.user_dir
        return os.path.join(self.require_repo().common_dir, "ckpt")

    @property
    def record(self) -> Record:
        """Return the record of what is installed here."""
        return Record(os.path.join(self.private, "installed.json"))

    @property
    def config_file(self) -> ConfigFile:
        """Return the git configuration file of the repository or, if global, the user."""
        if self.is_global:
            return self.user_config_file
        return ConfigFile(os.path.join(self.require_repo().common_dir, "config"), self.private)

    @property
    def user_config_file(self) -> ConfigFile:
        """Return the file that `git config --global` writes."""
        path = os.path.join(home_dir(self.env), ".gitconfig")
        other = os.path.join(config_home(self.env), "git", "config")
        if (named := self.env.get("GIT_CONFIG_GLOBAL")) is not None:
            path = os.path.abspath(named or os.devnull)
        elif os.path.exists(other) and not os.path.exists(path):
            path = other
        return ConfigFile(path, self.user_dir)


class Record:
    """The notes of each part, in a file that counts as empty if it is corrupt."""

    def __init__(self, path: str) -> None:
        self.path = path

    def get(self, part: str) -> dict[str, Any]:
        notes = self._read().get(part)
        return notes if isinstance(notes, dict) else {}

    def put(self, part: str, key: str, note: Any) -> None:
        """Replace a note; None removes it."""
        before, notes = self._read(), {**self.get(part), key: note}
        if note is None:
            del notes[key]
        kept = {name: each for name, each in {**before, part: notes}.items() if each}
        if kept and kept != before:
            os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
            disk.replace(self.path, codec.dump({"format": 1, "parts": kept}))
        elif before and not kept:
            disk.remove(self.path)
            remove_user_dir(os.path.dirname(self.path))

    def _read(self) -> dict[str, Any]:
        try:
            document = codec.load(disk.read_private(self.path))
            return {**document["parts"]} if document["format"] == 1 else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}


# -- Git's configuration, edited as text to keep every other byte

_MARK = b" # git-ckpt"
_AFTER_NEWLINE = _MARK + b", and the newline before"
_BOM = b"\xef\xbb\xbf"
_PATIENCE = 2.0


def with_section(
    text: bytes, header: str, pairs: Iterable[tuple[str, str]], *, first: bool = False
) -> bytes:
    """Add or replace a section, at the end or, if `first`, before all others."""
    text, mark = without_section(text, header), _MARK
    first = first and not text.startswith(_BOM)
    if not first and text and not text.endswith(b"\n"):
        text, mark = text + b"\n", _AFTER_NEWLINE
    lines = [header, *(f"\t{name} = {_quoted(value)}" for name, value in pairs)]
    new = b"".join(os.fsencode(line) + mark + b"\n" for line in lines)
    return new + text if first else text + new


def without_section(text: bytes, header: str) -> bytes:
    """Remove a section of ours, but keep lines that others have added to it."""
    head = os.fsencode(header)
    ours = rb"(?m)^%s(%s.*)(?:\n|\Z)(?:\t.*%s.*(?:\n|\Z))*"
    found = re.search(ours % (re.escape(head), _MARK, _MARK), text)
    if found is None:
        return text
    before, rest = text[: found.start()], text[found.end() :]
    if re.match(rb"(?:\s|[#;].*\n)*[^\s#;\[]", rest):
        return before + head + b"\n" + rest
    return before[:-1] if found[1] == _AFTER_NEWLINE and not rest else before + rest


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class ConfigFile(NamedTuple):
    """A file of git's configuration, and ckpt's private directory."""

    path: str
    private: str

    def section(self, name: str) -> list[tuple[str, str]]:
        """Return the names and values in a section, without included files."""
        entries, start = parse_file(self._read(), self.path), name + "."
        found = [(entry.key, entry.value or "") for entry in entries]
        return [(key.removeprefix(start), v) for key, v in found if key.startswith(start)]

    def edit(self, change: Callable[[bytes], bytes]) -> bool:
        """Change the text under git's lock; False if there is nothing to change."""
        path = os.path.realpath(self.path)
        if os.path.exists(path) and not os.path.isfile(path):  # such as /dev/null
            raise Refused(f"'{path}' is not a file", hint="see GIT_CONFIG_GLOBAL")
        before = self._read()
        if change(before) == before:
            return False
        self.section("")  # refuse a file that git cannot parse
        os.makedirs(self.private, 0o700, exist_ok=True)
        with holding(path, self.private, patience=_PATIENCE):
            after = change(self._read())
            if after:
                replace_held(path, after, self.private)
            else:
                disk.discard(path)
        return True

    def _read(self) -> bytes:
        try:
            return disk.read(self.path)
        except FileNotFoundError:
            return b""


# -- Programs and assets

_PACKAGE = Path(__file__).resolve().parent.parent
_SECONDS = 20


def asset(name: str) -> Path:
    """Return the path of a packaged file or directory, such as `hooks/guard`."""
    packed = _PACKAGE / "_assets"
    return (packed if packed.is_dir() else _PACKAGE.parent) / name


def find(program: str, env: Mapping[str, str]) -> str | None:
    return shutil.which(program, path=env.get("PATH", os.defpath))


def program_of(line: str) -> str:
    """Return the program that a shell command starts."""
    try:
        return (split(line) or [""])[0]
    except ValueError:  # unbalanced quotes
        return line


def output_of(words: Sequence[str], env: Mapping[str, str]) -> str | None:
    """Return the output of a program; None if it fails."""
    words, no_input = [find(words[0], env) or words[0], *words[1:]], subprocess.DEVNULL
    try:
        found = subprocess.check_output(
            words, env=dict(env), cwd="/", stdin=no_input, stderr=no_input, timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(found)


# -- Files of users


def read_file(path: str) -> bytes:
    """Return the contents of a regular file; empty for anything else."""
    if os.path.islink(path) or not os.path.isfile(path):
        return b""
    with suppress(OSError):
        return disk.read(path)
    return b""


def write_file(path: str, text: bytes, private: str, mode: int | None = None) -> None:
    """Write a file atomically; without a mode, keep its permissions."""
    os.makedirs(private, 0o700, exist_ok=True)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        replace_held(path, text, private, mode)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        replace_held(path, text, os.path.dirname(path), mode)


def remove_user_dir(path: str) -> None:
    """Remove a directory made by `os.makedirs`, and its two parents, if empty."""
    around = os.path.dirname(path)
    with suppress(OSError):
        for folder in (path, around, os.path.dirname(around)):
            os.rmdir(folder)
