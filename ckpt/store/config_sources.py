# SPDX-License-Identifier: MIT
"""Where git's configuration comes from: which files, in what order, with what they include.

One walk from the lowest source to the highest, each include taken where it
stands, because of two values for one key the later wins. What git stops at
stops this too, with the file and line. Left out: %(prefix), and the place of the
system file where git was built with another one than /etc/gitconfig, which only
that git knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from ckpt import regular
from ckpt.errors import UsageError, is_want
from ckpt.patterns import lazy_pattern
from ckpt.store.config_syntax import (
    COMMAND_LINE,
    ConfigError,
    Entry,
    expand_user,
    parse_bool,
    parse_environment,
    parse_file,
)
from ckpt.values import field, value_class

_MOST_INCLUDES = 10  # git's limit, which also ends a circle of includes
# For all of one configuration: each file may be included many times by the one before it, and
# what takes two bytes in a file takes hundreds in memory.
_MOST_FILES = 1000
_MOST_LINES = 500_000
_MOST_BYTES = 1 << 26
_CONDITION = lazy_pattern(r"(?s)includeif\.(.*)\.path")
_REMOTE_URL = lazy_pattern(r"(?s)remote\..*\.url")


@value_class(frozen=False)
class Reader:
    """Collects entries from the lowest source to the highest, includes where they stand."""

    env: Mapping[str, str]
    git_dir: str | None
    common_dir: str | None
    worktree: str | None
    remote_urls: list[str] | None = None
    entries: list[Entry] = field(default_factory=list)
    steps: int = 0
    files: int = 0
    lines: int = 0
    size: int = 0

    def read(self) -> None:
        for path in _system_files(self.env):
            self._file(path, unreadable_ok=self.git_dir is None)
        for path in _global_files(self.env):
            self._file(path, unreadable_ok=True)
        if self.git_dir is not None and self.common_dir is not None:
            self._repository_files(self.git_dir, self.common_dir)
        for entry in parse_environment(self.env):
            self._take(entry, depth=0)

    def _repository_files(self, git_dir: str, common_dir: str) -> None:
        local = os.path.join(common_dir, "config")
        self._file(local)
        # Git decides this while it opens the repository, when it follows no includes yet.
        wanted = [
            parse_bool(entry.value)
            for entry in self.entries
            if entry.key == "extensions.worktreeconfig" and entry.file == local
        ]
        if wanted and wanted[-1]:
            self._file(os.path.join(git_dir, "config.worktree"))

    def _file(self, path: str, depth: int = 0, *, unreadable_ok: bool = False) -> None:
        content = _content(path, unreadable_ok)
        self._count(content, path)
        for entry in parse_file(content, path):
            self._take(entry, depth)

    def _count(self, content: bytes, path: str) -> None:
        self.files += 1
        self.lines += content.count(b"\n")
        self.size += len(content)
        if self.files > _MOST_FILES or self.lines > _MOST_LINES or self.size > _MOST_BYTES:
            raise ConfigError(
                f"the configuration with '{path}' in it is too long",
                hint="include fewer files, or each of them once",
            )

    def _take(self, entry: Entry, depth: int) -> None:
        self.entries.append(entry)
        if not entry.key.startswith("include"):
            return
        condition = _CONDITION.fullmatch(entry.key)
        if entry.key == "include.path" or (condition and self._holds(condition[1], entry)):
            self._include(entry, depth + 1)

    def _include(self, entry: Entry, depth: int) -> None:
        path = expand_user(entry.value, self.env) if entry.value is not None else None
        if path is None:
            raise ConfigError(f"could not expand include path '{entry.value}' in {entry.place}")
        if not os.path.isabs(path):
            if entry.file == COMMAND_LINE:
                raise ConfigError(f"relative config includes must come from files: '{path}'")
            path = os.path.join(os.path.dirname(entry.file), path)
        if depth > _MOST_INCLUDES and os.path.exists(path):
            raise ConfigError(
                f"exceeded maximum include depth ({_MOST_INCLUDES}) while including '{path}'",
                hint=f"see whether files include each other, beginning at {entry.place}",
            )
        self._file(path, depth)

    def _holds(self, condition: str, entry: Entry) -> bool:
        kind, colon, pattern = condition.partition(":")
        if kind == "onbranch":
            return self._branch_matches(pattern, entry)
        if kind == "hasconfig" and pattern.startswith("remote.*.url:"):
            return self._remote_matches(pattern.removeprefix("remote.*.url:"), entry)
        folder = {"gitdir": self.git_dir, "worktree": self.worktree}.get(kind.removesuffix("/i"))
        if folder is None or not colon:
            return False
        return self._folder_matches(folder, pattern, entry, ignore_case=kind.endswith("/i"))

    def _folder_matches(
        self, folder: str, pattern: str, entry: Entry, *, ignore_case: bool
    ) -> bool:
        beside, pattern = self._folder_pattern(pattern, entry)
        # Through a symlink either name of the folder may be the one that was meant.
        for name in {os.path.realpath(folder), os.path.abspath(folder)}:
            above, rest = name[: len(beside)], name[len(beside) :]
            is_below = above == beside or (ignore_case and above.lower() == beside.lower())
            if is_below and self._matches(pattern, rest, entry, ignore_case=ignore_case):
                return True
        return False

    def _folder_pattern(self, pattern: str, entry: Entry) -> tuple[str, str]:
        """What a folder's name begins with, to the letter, and the glob for the rest of it."""
        from ckpt.store.config_globs import all_below

        if pattern.startswith("./") and entry.file != COMMAND_LINE:
            return os.path.dirname(os.path.realpath(entry.file)) + "/", all_below(pattern)[2:]
        home = {"HOME": os.path.realpath(self.env["HOME"])} if "HOME" in self.env else {}
        pattern = expand_user(pattern, home) or pattern
        return "", all_below(pattern if os.path.isabs(pattern) else "**/" + pattern)

    def _branch_matches(self, pattern: str, entry: Entry) -> bool:
        from ckpt.store.config_globs import all_below

        branch = _branch(self.git_dir) if self.git_dir is not None else None
        return branch is not None and self._matches(all_below(pattern), branch, entry)

    def _remote_matches(self, pattern: str, entry: Entry) -> bool:
        # Git too looks at the remotes outside such includes only, wherever they stand.
        if self.remote_urls is None:
            plain = Reader(self.env, self.git_dir, self.common_dir, self.worktree, [])
            plain.read()
            self.remote_urls = [
                entry.value or "" for entry in plain.entries if _REMOTE_URL.fullmatch(entry.key)
            ]
        return any(self._matches(pattern, url, entry) for url in self.remote_urls)

    def _matches(self, pattern: str, text: str, entry: Entry, *, ignore_case: bool = False) -> bool:
        from ckpt.store.config_globs import MOST_STEPS, matches, steps

        self.steps += steps(pattern, text)
        if self.steps > MOST_STEPS:
            raise ConfigError(
                f"it would take too long to see whether the condition in {entry.place} holds",
                hint="shorten the conditions of includes, or have fewer",
            )
        return matches(pattern, text, ignore_case=ignore_case)


def _system_files(env: Mapping[str, str]) -> Iterator[str]:
    without = parse_bool(env.get("GIT_CONFIG_NOSYSTEM", "false"))
    if without is None:
        raise UsageError(
            "bad boolean environment value for 'GIT_CONFIG_NOSYSTEM'",
            hint="unset GIT_CONFIG_NOSYSTEM",
        )
    if not without:
        yield env.get("GIT_CONFIG_SYSTEM", "/etc/gitconfig")


def _global_files(env: Mapping[str, str]) -> Iterator[str]:
    if "GIT_CONFIG_GLOBAL" in env:
        yield env["GIT_CONFIG_GLOBAL"]
        return
    home = env.get("HOME")
    if env.get("XDG_CONFIG_HOME"):
        yield os.path.join(env["XDG_CONFIG_HOME"], "git/config")
    elif home is not None:
        yield home + "/.config/git/config"
    if home is not None:
        yield home + "/.gitconfig"


def _content(path: str, unreadable_ok: bool) -> bytes:
    try:
        return regular.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        if is_want(error):
            raise
        if unreadable_ok and isinstance(error, PermissionError):
            return b""
        from shlex import quote

        from ckpt.owners import owner_hint

        raise ConfigError(
            f"unable to access '{path}': {error.strerror}",
            hint=owner_hint(path) or f"ls -ld {quote(path)}",
            details={"file": path},
        ) from error


def _branch(git_dir: str) -> str | None:
    head = os.path.join(git_dir, "HEAD")
    try:
        target = os.readlink(head) if os.path.islink(head) else _symref(head)
    except OSError:
        return None
    branch = target.removeprefix("refs/heads/")
    # Where refs live in a reftable, HEAD holds this name and means nothing.
    return None if branch in (target, ".invalid") else branch


def _symref(head: str) -> str:
    kind, _, target = os.fsdecode(regular.beginning(head, 4096)).partition(":")
    return target.strip() if kind == "ref" else ""
