# SPDX-License-Identifier: MIT
"""Git's configuration as git reads it: files in their order, includes, environment, types.

By hand, as each hook reads it: dulwich.config takes 58 ms to import, reads 13 of 50 files unlike
git, and follows no includes of global files. Nothing is written here, and every complaint names
file and line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ckpt import disk
from ckpt.errors import CkptError, UsageError, is_want

COMMAND_LINE = "command line"


class ConfigError(CkptError):
    """Git's configuration cannot be read; git itself stops here too."""


class Entry(NamedTuple):
    """One setting: `value` is None for a key without `=`."""

    key: str
    value: str | None
    file: str
    line: int = 0

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


def canonical(key: str) -> str:
    """The key as entries spell it: section and name in lower case, subsection as it stands."""
    section, _, rest = key.partition(".")
    subsection, dot, name = rest.rpartition(".")
    return f"{section.lower()}.{subsection}{dot}{name.lower()}"


# -- The syntax of a file

_BLANK = re.compile(rb"(?:[ \t\r\n]+|[#;][^\n]*)*")
_HEADER = re.compile(rb'\[(?!\])([A-Za-z0-9.-]*)(?:[ \t\r]+"((?:[^"\\\n]|\\[^\n])*)")?\]')
_NAME = re.compile(rb"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:(=)|\n)")
_PLAIN = re.compile(rb"([^\\\"#;\n]*)\n")
_VALUE = re.compile(
    rb"((?:[^\\\"#;\n]|\\[tbn\\\"\n]|\"(?:[^\\\"\n]|\\[tbn\\\"\n])*\")*)(?:[#;][^\n]*)?\n"
)
_TOKEN = rb'(?s)\\(.)|(")|[^\\"]+'
_ESCAPED = rb"\\(.)"
_ESCAPES = {b"t": b"\t", b"b": b"\b", b"n": b"\n", b"\n": b""}


def parse_file(content: bytes, file: str) -> Iterator[Entry]:
    """The entries of one file, in order."""
    # A backslash at the end of the file continues into nothing.
    text = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n") + b"\n\n"
    at, section, line, counted = 0, b"", 1, 0
    while True:
        blank = _BLANK.match(text, at)
        at = blank.end() if blank else at
        if at == len(text):
            return
        header, name = _HEADER.match(text, at), _NAME.match(text, at)
        if header is not None:
            section, at = header[1].lower() + b".", header.end()
            if header[2] is not None:
                section += re.sub(_ESCAPED, rb"\1", header[2]) + b"."
            continue
        found = None
        if name is not None and name[2]:
            found = _PLAIN.match(text, name.end()) or _VALUE.match(text, name.end())
        if name is None or (name[2] and found is None):
            number = text.count(b"\n", 0, at) + 1
            raise ConfigError(
                f"bad config line {number} in file {file}",
                hint=f"fix line {number} of '{file}'",
                details={"file": file, "line": number},
            )
        end = found.end() if found is not None else name.end()
        # The line is that on which the value ends, as in git.
        line += text.count(b"\n", counted, end - 1)
        at, counted = end, end - 1
        value = None if found is None else os.fsdecode(_unquoted(found[1]).partition(b"\0")[0])
        yield Entry(os.fsdecode(section + name[1].lower()), value, file, line)


def _unquoted(raw: bytes) -> bytes:
    """A value without quotes and escapes; blanks outside quotes go at both ends."""
    if b"\\" not in raw and b'"' not in raw:
        return raw.strip(b" \t\r")
    value, kept, quoted = b"", 0, False
    for token in re.finditer(_TOKEN, raw):
        text = token[0]
        if token[2]:
            quoted = not quoted
            text = b""
        elif token[1]:
            text = _ESCAPES.get(token[1], token[1])
        elif not quoted:
            text = text if value else text.lstrip(b" \t\r")
            bare = text.rstrip(b" \t\r")
            kept = len(value + bare) if bare else kept
            value += text
            continue
        value += text
        kept = len(value)
    return value[:kept]


# -- The environment

_KEY = r"[A-Za-z0-9-]+\.(?:[^\n]*\.)?[A-Za-z][A-Za-z0-9-]*"
_MARK = r"'\\(['!])'"
_QUOTED = r"'(?:[^']|'\\['!]')*'"
_PARAMETER = re.compile(rf"({_QUOTED})(?:(=)({_QUOTED})?)?(?:[ \t\r\n]+|\Z)")


def parse_environment(env: Mapping[str, str]) -> Iterator[Entry]:
    """What GIT_CONFIG_COUNT and `git -c` (GIT_CONFIG_PARAMETERS) set, the latter last."""
    count = env.get("GIT_CONFIG_COUNT", "")
    if count and not (count.isascii() and count.isdigit() and len(count) < 10):
        raise ConfigError("bogus count in GIT_CONFIG_COUNT")
    for number in range(int(count or 0)):
        key, value = f"GIT_CONFIG_KEY_{number}", f"GIT_CONFIG_VALUE_{number}"
        for what, variable in (("key", key), ("value", value)):
            if variable not in env:
                raise ConfigError(f"missing config {what} {variable}")
        yield _given(env[key], env[value])
    text, at = env.get("GIT_CONFIG_PARAMETERS", ""), 0
    while at < len(text):
        match = _PARAMETER.match(text, at)
        if match is None:
            raise ConfigError("bogus format in GIT_CONFIG_PARAMETERS")
        at = match.end()
        name, given = (part and re.sub(_MARK, r"\1", part[1:-1]) for part in (match[1], match[3]))
        if match[2] is None:  # 'key=value', before git 2.31
            name, equals, rest = name.partition("=")
            given = rest if equals else None
        yield _given(name, given)


def _given(key: str, value: str | None) -> Entry:
    if not re.fullmatch(_KEY, key):
        raise ConfigError(f"invalid config key in the environment: '{key}'")
    return Entry(canonical(key), value, COMMAND_LINE)


# -- Types

_INTEGER = r"(?i)\s*[+-]?(0x[0-9a-f]+|0[0-7]*|[1-9][0-9]*)[kmg]?"


def parse_bool(value: str | None) -> bool | None:
    """Git's reading of a boolean: a word, a number, or the bare key. None for anything else."""
    if value is None or value.lower() in ("true", "yes", "on"):
        return True
    if value.lower() in ("false", "no", "off", ""):
        return False
    number = re.fullmatch(_INTEGER, value)
    return None if number is None else number[1].strip("0xX") != ""


def expand_user(path: str, env: Mapping[str, str]) -> str | None:
    """`~/x` and `~user/x` as git reads them; None when that home is not known."""
    if not path.startswith("~"):
        return path
    user, slash, rest = path[1:].partition("/")
    home = env.get("HOME")
    if user:
        import pwd

        try:
            home = pwd.getpwnam(user).pw_dir
        except KeyError:
            return None
    return None if home is None else home + slash + rest


# -- Files and what they include

_MOST_INCLUDES = 10  # git's limit, which also ends a circle of includes
_MOST_FILES = 1000
_CONDITION = r"(?s)includeif\.(.*)\.path"
_REMOTE_URL = r"(?s)remote\..*\.url"


class Reader:
    """Collects entries from the lowest source to the highest, includes where they stand."""

    def __init__(
        self,
        env: Mapping[str, str],
        git_dir: str | None = None,
        common_dir: str | None = None,
        remote_urls: list[str] | None = None,
    ) -> None:
        self.env = env
        self.git_dir = git_dir
        self.common_dir = common_dir or git_dir
        self.entries: list[Entry] = []
        self._remote_urls = remote_urls
        self._files = 0

    def read(self) -> list[Entry]:
        skip_system = parse_bool(self.env.get("GIT_CONFIG_NOSYSTEM", "false"))
        if skip_system is None:
            raise UsageError(
                "bad boolean environment value for 'GIT_CONFIG_NOSYSTEM'",
                hint="unset GIT_CONFIG_NOSYSTEM",
            )
        if not skip_system:
            self._file(self.env.get("GIT_CONFIG_SYSTEM", "/etc/gitconfig"))
        for path in _global_files(self.env):
            self._file(path)
        if self.git_dir is not None and self.common_dir is not None:
            local = os.path.join(self.common_dir, "config")
            self._file(local)
            # Git decides this while it opens the repository, before it follows includes.
            wanted = [e for e in self.entries if e.key == "extensions.worktreeconfig"]
            wanted = [entry for entry in wanted if entry.file == local]
            if wanted and parse_bool(wanted[-1].value):
                self._file(os.path.join(self.git_dir, "config.worktree"))
        for entry in parse_environment(self.env):
            self._take(entry, depth=0)
        return self.entries

    def _file(self, path: str, depth: int = 0) -> None:
        self._files += 1
        if self._files > _MOST_FILES:
            raise ConfigError(f"too many included files, the last one '{path}'")
        in_repository = self.common_dir is not None and path.startswith(self.common_dir + "/")
        for entry in parse_file(_content(path, in_repository or depth > 0), path):
            self._take(entry, depth)

    def _take(self, entry: Entry, depth: int) -> None:
        self.entries.append(entry)
        if entry.key.startswith("include"):
            condition = re.fullmatch(_CONDITION, entry.key)
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
            branch = None if self.git_dir is None else _branch(self.git_dir)
            return branch is not None and _matches(_all_below(pattern), branch)
        if kind == "hasconfig" and pattern.startswith("remote.*.url:"):
            # Git too looks at the remotes outside such includes only, wherever they stand.
            if self._remote_urls is None:
                plain = Reader(self.env, self.git_dir, self.common_dir, []).read()
                found = (entry for entry in plain if re.fullmatch(_REMOTE_URL, entry.key))
                self._remote_urls = [entry.value or "" for entry in found]
            wanted = pattern.removeprefix("remote.*.url:")
            return any(_matches(wanted, url) for url in self._remote_urls)
        if kind not in ("gitdir", "gitdir/i") or not colon or self.git_dir is None:
            return False
        above, pattern = self._folder_pattern(pattern, entry)
        ignore_case = kind == "gitdir/i"
        # Through a symlink either name of the folder may be the one that was meant.
        for name in {os.path.realpath(self.git_dir), os.path.abspath(self.git_dir)}:
            start, rest = name[: len(above)], name[len(above) :]
            is_below = start == above or (ignore_case and start.lower() == above.lower())
            if is_below and _matches(pattern, rest, ignore_case=ignore_case):
                return True
        return False

    def _folder_pattern(self, pattern: str, entry: Entry) -> tuple[str, str]:
        """What a folder's name begins with, to the letter, and the glob for the rest of it."""
        if pattern.startswith("./") and entry.file != COMMAND_LINE:
            return os.path.dirname(os.path.realpath(entry.file)) + "/", _all_below(pattern)[2:]
        home = {"HOME": os.path.realpath(self.env["HOME"])} if "HOME" in self.env else {}
        pattern = expand_user(pattern, home) or pattern
        return "", _all_below(pattern if os.path.isabs(pattern) else "**/" + pattern)


def _all_below(pattern: str) -> str:
    return pattern + "**" if pattern.endswith("/") else pattern


def _matches(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    from ckpt.git.rules import wildmatch

    return wildmatch(os.fsencode(pattern), os.fsencode(text), ignore_case=ignore_case)


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


def _content(path: str, is_needed: bool) -> bytes:
    try:
        return disk.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        if is_want(error):
            raise
        if not is_needed and isinstance(error, PermissionError):
            return b""
        from shlex import quote

        from ckpt.errors import owner_hint

        raise ConfigError(
            f"unable to access '{path}': {error.strerror}",
            hint=owner_hint(path) or f"ls -ld {quote(path)}",
            details={"file": path},
        ) from error


def _branch(git_dir: str) -> str | None:
    """The short name of HEAD's branch, without opening the repository."""
    head = os.path.join(git_dir, "HEAD")
    try:
        target = "ref: " + os.readlink(head) if os.path.islink(head) else ""
        kind, _, name = (target or os.fsdecode(disk.beginning(head, 4096))).partition(":")
    except OSError:
        return None
    branch = name.strip().removeprefix("refs/heads/")
    # Where refs are in a reftable, HEAD holds this name and means nothing.
    return None if kind != "ref" or branch in (name.strip(), ".invalid") else branch


# -- The values of all sources together

_FILTER_COMMAND = r"(?s)filter\..*\.(clean|smudge|process)"


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
        cls, env: Mapping[str, str], *, git_dir: str | None = None, common_dir: str | None = None
    ) -> GitConfig:
        """All that counts for a repository; without `git_dir`, what git calls protected: no
        repository can have written it, and safe.directory is read from nowhere else."""
        return cls(Reader(env, git_dir, common_dir).read(), env)

    def get(self, key: str) -> str | None:
        """The value that wins; "" for a key without a value, as `git config --get` prints it."""
        entry = self._last(key)
        return None if entry is None else entry.value or ""

    def get_all(self, key: str) -> list[str]:
        return [entry.value or "" for entry in self._by_key.get(canonical(key), ())]

    def get_bool(self, key: str, default: bool) -> bool:
        entry = self._last(key)
        if entry is None:
            return default
        value = parse_bool(entry.value)
        if value is None:
            words = "expected true, yes, on, 1, false, no, off or 0"
            told = f"bad boolean value '{entry.value}' for '{key}' in {entry.place}: {words}"
            raise _bad_value(key, told)
        return value

    def get_path(self, key: str) -> str | None:
        """The value with `~` expanded; None also for a missing file marked `:(optional)`."""
        entry = self._last(key)
        if entry is None:
            return None
        if entry.value is None:
            raise _bad_value(key, f"missing value for '{key}' in {entry.place}: expected a path")
        value = entry.value.removeprefix(":(optional)")
        path = expand_user(value, self._env)
        if path is None:
            told = f"failed to expand user dir in '{value}' for '{key}' in {entry.place}"
            raise _bad_value(key, told)
        return None if value != entry.value and not os.path.lexists(path) else path

    def without_filters(self) -> GitConfig:
        """The same without the commands of filter drivers."""
        entries = (entry for entry in self._entries if not re.fullmatch(_FILTER_COMMAND, entry.key))
        return GitConfig(entries, self._env)

    def items(self, section: str) -> list[tuple[str, str, str]]:
        """Name (with the subsection before it), value and file of each entry of a section, in
        order. A key without a value reads "true", which is all that it can mean."""
        prefix = section.lower() + "."
        return [
            (entry.key[len(prefix) :], "true" if entry.value is None else entry.value, entry.file)
            for entry in self._entries
            if entry.key.startswith(prefix)
        ]

    def _last(self, key: str) -> Entry | None:
        entries = self._by_key.get(canonical(key))
        return entries[-1] if entries else None


def _bad_value(key: str, message: str) -> UsageError:
    from shlex import quote

    return UsageError(message, hint=f"git config --show-origin --get-all {quote(key)}")
