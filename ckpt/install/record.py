# SPDX-License-Identifier: MIT
"""Where to install, what was done there, and what has to be remembered for uninstall.

Every part of `install` (hooks, guard, wrapper, agents, alias) has the functions
`install(target)` and `uninstall(target)`, which return the steps taken, and `inspect(target)`,
which changes nothing and returns findings. None of them prints. The record is written before a
part acts, so that an install that was killed can be undone as well.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from ckpt import disk, jsontext
from ckpt.errors import Refused
from ckpt.git.config import ConfigError, parse_file
from ckpt.git.repository import Repository
from ckpt.install import edit
from ckpt.locks import NOT_SHARED, Sharing, is_dead, remove_dead, replace_locked
from ckpt.paths import config_home, data_dir, home_dir

# What a step did. `to-do`: a trigger that was requested is not installed, because only the user
# may do what it takes; `note`: what was requested is installed, and this is good to know.
ADDED, CHANGED, REMOVED, KEPT = "added", "changed", "removed", "kept"
TO_DO, NOTE = "to-do", "note"
NEW = ".ckpt-new"  # how the names of files end that are written before they take their place
_PATIENCE = 2.0


@dataclass(frozen=True)
class Step:
    """One thing that was done, in words that complete 'Added …', or is left to the user.

    `place` is the file, or the config key after its file and a colon. `advice` is what to
    type or to add, line by line.
    """

    action: str
    what: str
    place: str
    advice: tuple[str, ...] = ()


class Target(NamedTuple):
    """Where to install: one repository or, with `is_global`, all of the user's.

    `python` is the absolute path of the interpreter that triggers start. `repo` is None only
    where `is_global` is true and the current directory is in no repository.
    """

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
    def place(self) -> str:
        """How the user's record names this place."""
        return "global" if self.is_global else self.require_repo().common_dir

    @property
    def record(self) -> Record:
        """What was installed here before; of `is_global`, what was installed for the user."""
        if self.is_global:
            return self.user_record
        return Record(os.path.join(self.require_repo().common_dir, "ckpt", "installed.json"))

    @property
    def user_record(self) -> Record:
        return Record(os.path.join(data_dir(self.env), "installed.json"), is_users=True)

    @property
    def config_file(self) -> ConfigFile:
        """Git's configuration for the place to install to: the repository's or the user's."""
        if self.is_global:
            return self.user_config_file
        path = os.path.join(self.require_repo().common_dir, "config")
        return ConfigFile(path, self.record)

    @property
    def user_config_file(self) -> ConfigFile:
        return ConfigFile(_global_config_path(self.env), self.user_record)


def _global_config_path(env: Mapping[str, str]) -> str:
    """The file that `git config --global` writes."""
    named = env.get("GIT_CONFIG_GLOBAL")
    if named is not None:
        return os.path.abspath(named or os.devnull)
    plain = os.path.join(home_dir(env), ".gitconfig")
    other = os.path.join(config_home(env), "git", "config")
    return other if os.path.exists(other) and not os.path.exists(plain) else plain


class Record:
    """The notes of the parts, by their names; a damaged file counts as empty."""

    def __init__(self, path: str, *, is_users: bool = False) -> None:
        self.path = path
        self._is_users = is_users

    def get(self, name: str) -> dict[str, Any]:
        notes = self._read().get(name)
        return notes if isinstance(notes, dict) else {}

    def put(self, name: str, notes: Mapping[str, Any]) -> None:
        """Replace the notes of a part; empty notes are dropped."""
        kept = self._read()
        if kept.get(name, {}) == dict(notes):
            return
        kept.pop(name, None)
        if notes:
            kept[name] = dict(notes)
        made = kept.setdefault("made", missing_folders(os.path.dirname(self.path)))
        if kept.keys() == {"made"}:
            disk.remove(self.path)
            remove_folders(made)
            return
        if self._is_users:
            disk.ensure_user_dir(os.path.dirname(self.path))
        document = {"format": 1, "parts": kept, "sum": _checksum(kept)}
        disk.replace(self.path, jsontext.dump(document))

    def drop(self, name: str) -> None:
        self.put(name, {})

    # The places that use something which serves all of a user's repositories.

    def users(self, name: str) -> list[str]:
        places: list[str] = self.get(name).get("places", [])
        return [place for place in places if place == "global" or os.path.isdir(place)]

    def put_users(self, name: str, places: Iterable[str]) -> None:
        unique = list(dict.fromkeys(places))
        self.put(name, {"places": unique} if unique else {})

    def _read(self) -> dict[str, Any]:
        try:
            document = jsontext.load(disk.read_private(self.path))
            parts: dict[str, Any] = document["parts"]
            is_whole = document["format"] == 1 and document["sum"] == _checksum(parts)
            return parts if is_whole else {}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return {}


def _checksum(parts: dict[str, Any]) -> str:
    """Text is cut out of other people's files by what the record says."""
    return hashlib.new("sha256", jsontext.dump(parts)).hexdigest()


class ConfigFile:
    """One file of git's configuration; the record remembers how it ended before."""

    def __init__(self, path: str, record: Record) -> None:
        self.path = path
        self._record = record
        self._part = f"config:{path}"

    def entries(self) -> list[tuple[str, str]]:
        """Keys and values of the file itself, without what it includes."""
        return [(entry.key, entry.value or "") for entry in parse_file(self._read(), self.path)]

    def add(self, section: str, subsection: str | None, pairs: Sequence[tuple[str, str]]) -> None:
        """Add a section: that of a hook before all other hooks, any other at the end."""
        self.entries()  # a file that git cannot read is refused
        text = self._read()
        if text and not text.endswith(b"\n"):
            self._note(length_without_newline=len(text))
        if not os.path.lexists(self.path):
            self._note(created=True)
        is_first = section == "hook"
        self._replace(text, edit.with_section(text, section, subsection, pairs, is_first=is_first))

    def remove(self, is_ours: Callable[[str, str], bool]) -> bool:
        """Remove the entries that a function of key and value says are ours; False if none."""
        text = self._read()
        left = edit.without_entries(text, is_ours)
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
        """Drop what is known of the file, once nothing of ours is in it."""
        self._record.drop(self._part)

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


# Files of others, and folders for them


def read_file(path: str) -> bytes:
    """The contents of a plain file; empty for a symbolic link, a folder or no file."""
    if os.path.islink(path) or not os.path.isfile(path):
        return b""
    with suppress(OSError):
        return disk.read(path)
    return b""


def write_file(
    path: str, text: bytes, mode: int | None = None, sharing: Sharing = NOT_SHARED
) -> None:
    """Put a file in place in one step; without a mode, with the permissions that it had."""
    temporary = path + NEW
    with suppress(FileNotFoundError):
        disk.unlink(temporary)
    with disk.replacing(path, temporary, mode or 0o666) as fd:
        disk.write(fd, text)
        if mode is None and os.path.exists(path):
            disk.chmod(fd, stat.S_IMODE(os.stat(path).st_mode))
        elif mode is not None:
            sharing.adjust(temporary)


def left_over(paths: Iterable[str]) -> list[str]:
    """The temporary files for these that a killed process has left."""
    return [path + NEW for path in paths if is_dead(path + NEW)]


def clear_left_over(paths: Iterable[str]) -> None:
    for path in paths:
        remove_dead(path + NEW)


def missing_folders(path: str) -> list[str]:
    """The folder and those above it that do not exist, the outermost first."""
    missing: list[str] = []
    while not os.path.isdir(path):
        missing.insert(0, path)
        path = os.path.dirname(path)
    return missing


def remove_folders(made: list[str]) -> None:
    """Remove folders that were made before, as long as they are empty."""
    for folder in reversed(made):
        try:
            disk.rmdir(folder)
        except OSError:
            return
