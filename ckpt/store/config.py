# SPDX-License-Identifier: MIT
"""Git's configuration as git itself would see it, for reading only.

What the rest of ckpt asks: a key's value as text, boolean or path, in git's
reading of it, with the file in every complaint. Nothing is written, and no
value is interpreted beyond git's own types. Where the entries come from is in
config_sources.py, how they are spelled in config_syntax.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ckpt.errors import UsageError
from ckpt.patterns import lazy_pattern
from ckpt.store.config_sources import Reader
from ckpt.store.config_syntax import Entry, canonical, expand_user, parse_bool

_FILTER_COMMAND = lazy_pattern(r"(?s)filter\..*\.(clean|smudge|process)")


class GitConfig:
    """The entries of every source that counts, the one that wins last."""

    def __init__(self, entries: Iterable[Entry], env: Mapping[str, str]) -> None:
        self._entries = tuple(entries)
        self._env = env
        self._by_key: dict[str, list[Entry]] = {}
        for entry in self._entries:
            self._by_key.setdefault(entry.key, []).append(entry)

    @classmethod
    def load(
        cls,
        env: Mapping[str, str],
        *,
        git_dir: str | None = None,
        common_dir: str | None = None,
        worktree: str | None = None,
    ) -> GitConfig:
        """All that counts for a repository; without `git_dir`, what git calls protected.

        Protected configuration is what a repository cannot have written itself:
        safe.directory may be read from nowhere else.
        """
        reader = Reader(env, git_dir, common_dir or git_dir, worktree)
        reader.read()
        return cls(reader.entries, env)

    def get(self, key: str) -> str | None:
        """The value that wins; "" for a key without a value, as `git config --get` prints it."""
        entry = self._last(key)
        return None if entry is None else entry.value or ""

    def get_all(self, key: str) -> list[str]:
        return [entry.value or "" for entry in self._by_key.get(canonical(key), ())]

    def get_each(self, *keys: str) -> list[str]:
        """All values of several keys, in the order in which they stand."""
        wanted = set(map(canonical, keys))
        return [entry.value or "" for entry in self._entries if entry.key in wanted]

    def get_bool(self, key: str, default: bool) -> bool:
        entry = self._last(key)
        if entry is None:
            return default
        value = parse_bool(entry.value)
        if value is None:
            raise UsageError(
                f"bad boolean value '{entry.value}' for '{key}' in {entry.place}: "
                "expected true, yes, on, 1, false, no, off or 0",
                hint=_where_it_stands(key),
            )
        return value

    def get_path(self, key: str) -> str | None:
        """The value with `~` expanded; None also for a missing file marked `:(optional)`."""
        entry = self._last(key)
        if entry is None:
            return None
        if entry.value is None:
            raise UsageError(
                f"missing value for '{key}' in {entry.place}: expected a path",
                hint=_where_it_stands(key),
            )
        value = entry.value.removeprefix(":(optional)")
        path = expand_user(value, self._env)
        if path is None:
            raise UsageError(
                f"failed to expand user dir in '{value}' for '{key}' in {entry.place}",
                hint=_where_it_stands(key),
            )
        return None if value != entry.value and not os.path.lexists(path) else path

    def without_filters(self) -> GitConfig:
        """The same but for the commands of filter drivers: of these no more than names is known."""
        entries = (entry for entry in self._entries if not _FILTER_COMMAND.fullmatch(entry.key))
        return GitConfig(entries, self._env)

    def items(self, section: str) -> list[tuple[str, str, str]]:
        """Name, value and file of all that stands in a section, in order.

        The name begins with the subsection if there is one. A key without a value
        reads "true", which is all that it can mean.
        """
        prefix = section.lower() + "."
        return [
            (entry.key[len(prefix) :], "true" if entry.value is None else entry.value, entry.file)
            for entry in self._entries
            if entry.key.startswith(prefix)
        ]

    def _last(self, key: str) -> Entry | None:
        entries = self._by_key.get(canonical(key))
        return entries[-1] if entries else None


def _where_it_stands(key: str) -> str:
    from shlex import quote  # for a hint that few see

    return f"git config --show-origin --get-all {quote(key)}"
