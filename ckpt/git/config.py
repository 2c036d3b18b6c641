# SPDX-License-Identifier: MIT
"""Git's configuration as git itself would see it, for reading only.

What the rest of ckpt asks: a key's value as text, boolean or path, in git's
reading of it, with the file in every complaint. Nothing is written, and no
value is interpreted beyond git's own types. Where the entries come from is in
config_sources.py, how they are spelled in config_syntax.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ckpt import disk
from ckpt.errors import CkptError, UsageError, is_want
from ckpt.git import rules

COMMAND_LINE = "command line"


class ConfigError(CkptError):
    """Git's configuration cannot be read; git itself stops here too."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting: `value` is None for a key that stands without `=`."""

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


# Files

_BLANK = re.compile(rb"(?:[ \t\r\n]+|[#;][^\n]*)*")
_HEADER = re.compile(rb'\[([A-Za-z0-9.-]*)(?:[ \t\r]+"((?:[^"\\\n]|\\[^\n])*)")?\]')
_NAME = re.compile(rb"([A-Za-z][A-Za-z0-9-]*)[ \t]*([=\n])")
_PLAIN_VALUE = re.compile(rb'[ \t\r]*([^\\"#;\n]*)(?:[#;][^\n]*)?\n')
_ESCAPED = re.compile(rb"\\(.)")
_ESCAPES = {ord("t"): b"\t", ord("b"): b"\b", ord("n"): b"\n", ord("\\"): b"\\", ord('"'): b'"'}
_NEWLINE, _BACKSLASH, _QUOTE = b'\n\\"'


class _Bad(Exception):
    """The grammar breaks at this offset."""

    def __init__(self, at: int) -> None:
        self.at = at


def parse_file(content: bytes, file: str) -> Iterator[Entry]:
    """The entries of one file, in order."""
    text = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n") + b"\n"
    plain = _plain_entries(text)
    if plain is not None:
        for key, value, line in plain:
            yield Entry(os.fsdecode(key), _decoded(value), file, line)
        return
    line, counted = 1, 0
    try:
        for key, value, end in _entries(text):
            line += text.count(b"\n", counted, end)
            counted = end
            yield Entry(os.fsdecode(key), _decoded(value), file, line)
    except _Bad as bad:
        raise _bad_line(file, text.count(b"\n", 0, bad.at) + 1) from None


def _plain_entries(text: bytes) -> list[tuple[bytes, bytes | None, int]] | None:
    """Each key, value and line of a file with one thing on a line, as nearly all are.

    None where the grammar below is needed: then its import of `re` is worth its time.
    """
    found: list[tuple[bytes, bytes | None, int]] = []
    section, at, number = b"", 0, 1
    try:
        while at < len(text):
            end = text.index(b"\n", at)
            line = text[at:end].strip(b" \t")
            if line.startswith(b"["):
                section = _plain_section(line)
            elif line and line[0] not in b"#;":
                name, equals, value = _plain_setting(line)
                if value.translate(None, b'\\"#;') != value:
                    value, end = _quoted_value(text, text.index(b"=", at) + 1)
                    end -= 1
                    number += text.count(b"\n", at, end)
                found.append((section + name, value if equals else None, number))
            at, number = end + 1, number + 1
    except _Bad:
        return None
    return found


def _plain_setting(line: bytes) -> tuple[bytes, bytes, bytes]:
    name, equals, value = line.partition(b"=")
    name = name.rstrip(b" \t")
    if not name[:1].isalpha() or not name.replace(b"-", b"").isalnum() or b"\r" in line:
        raise _Bad(0)
    return name.lower(), equals, value.lstrip(b" \t")


def _plain_section(line: bytes) -> bytes:
    name, quote, rest = line[1:].partition(b'"')
    if not quote:
        name, end, rest = name.partition(b"]")
        if end and not rest and name.translate(None, b".-").isalnum():
            return name.lower() + b"."
        raise _Bad(0)
    subsection, end, rest = rest.partition(b'"]')
    word = name.rstrip(b" \t")
    is_plain = end and not rest and word != name and word.translate(None, b".-").isalnum()
    if not is_plain or b"\\" in subsection or b'"' in subsection:
        raise _Bad(0)
    return word.lower() + b"." + subsection + b"."


def _decoded(value: bytes | None) -> str | None:
    # To git a value is a C string: it ends at a NUL.
    return None if value is None else os.fsdecode(value.partition(b"\0")[0])


def _bad_line(file: str, line: int) -> ConfigError:
    return ConfigError(
        f"bad config line {line} in file {file}",
        hint=f"mend line {line} of '{file}'",
        details={"file": file, "line": line},
    )


def _entries(text: bytes) -> Iterator[tuple[bytes, bytes | None, int]]:
    """Each key and value with the offset of the newline that ends it."""
    at, section = 0, b""
    while (at := _end_of(_BLANK, text, at)) < len(text):
        if text.startswith(b"[", at):
            section, at = _header(text, at)
            continue
        name = _NAME.match(text, at)
        if name is None:
            raise _Bad(at)
        value, at = (None, name.end()) if name[2] == b"\n" else _value(text, name.end())
        yield section + name[1].lower(), value, at - 1


def _end_of(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _header(text: bytes, at: int) -> tuple[bytes, int]:
    match = _HEADER.match(text, at)
    if match is None or match[0] == b"[]":
        raise _Bad(at)
    section = match[1].lower() + b"."
    if match[2] is not None:
        section += _ESCAPED.sub(rb"\1", match[2]) + b"."
    return section, match.end()


def _value(text: bytes, at: int) -> tuple[bytes, int]:
    """The value that begins at this offset, and the offset of the line after it."""
    plain = _PLAIN_VALUE.match(text, at)
    if plain:
        return plain[1].rstrip(b" \t\r"), plain.end()
    return _quoted_value(text, at)


def _quoted_value(text: bytes, at: int) -> tuple[bytes, int]:
    """A value with quotes, escapes or continuation lines.

    White space outside quotes is kept inside the value and dropped at its ends;
    `kept` is the length up to the last thing that is not such white space.
    """
    value, kept, quoted = bytearray(), 0, False
    while (char := text[at]) != _NEWLINE:
        at += 1
        if char in b" \t\r" and not quoted:
            if value:
                value.append(char)
            continue
        if char in b"#;" and not quoted:
            at = text.index(b"\n", at)
            break
        if char == _BACKSLASH:
            value += _escaped(text, at)
            # The file may end in a backslash: the newline after it is the one added above.
            at = min(at + 1, len(text) - 1)
        elif char == _QUOTE:
            quoted = not quoted
        else:
            value.append(char)
        kept = len(value)
    if quoted:
        raise _Bad(at)
    return bytes(value[:kept]), at + 1


def _escaped(text: bytes, at: int) -> bytes:
    if text[at] == _NEWLINE:
        return b""
    if text[at] not in _ESCAPES:
        raise _Bad(at)
    return _ESCAPES[text[at]]


# Environment

_KEY = re.compile(r"[A-Za-z0-9-]+\.(?:[^\n]*\.)?[A-Za-z][A-Za-z0-9-]*")
_QUOTED_MARK = re.compile(r"'\\(['!])'")
_SINGLE_QUOTED = r"'(?:[^']|'\\['!]')*'"
_PARAMETER = re.compile(rf"({_SINGLE_QUOTED})(?:(=)({_SINGLE_QUOTED})?)?(?:[ \t\r\n]+|\Z)")


def parse_environment(env: Mapping[str, str]) -> Iterator[Entry]:
    """What the caller's environment and `git -c` set, the latter last."""
    yield from _counted(env)
    yield from _parameters(env.get("GIT_CONFIG_PARAMETERS", ""))


def _counted(env: Mapping[str, str]) -> Iterator[Entry]:
    count = env.get("GIT_CONFIG_COUNT", "")
    if count and not (count.isascii() and count.isdigit() and len(count) < 10):
        raise ConfigError("bogus count in GIT_CONFIG_COUNT")
    for number in range(int(count or 0)):
        key, value = f"GIT_CONFIG_KEY_{number}", f"GIT_CONFIG_VALUE_{number}"
        for what, variable in (("key", key), ("value", value)):
            if variable not in env:
                raise ConfigError(f"missing config {what} {variable}")
        yield _command_entry(env[key], env[value])


def _parameters(text: str) -> Iterator[Entry]:
    """'key'='value' as git writes it since 2.31, and 'key=value' as it did before."""
    at = 0
    while at < len(text):
        match = _PARAMETER.match(text, at)
        if match is None:
            raise ConfigError("bogus format in GIT_CONFIG_PARAMETERS")
        key, value = _unquoted(match[1]), match[3] and _unquoted(match[3])
        if match[2] is None:
            key, equals, rest = key.partition("=")
            value = rest if equals else None
        yield _command_entry(key, value)
        at = match.end()


def _unquoted(text: str) -> str:
    return _QUOTED_MARK.sub(r"\1", text[1:-1])


def _command_entry(key: str, value: str | None) -> Entry:
    if not _KEY.fullmatch(key):
        raise ConfigError(f"invalid config key in the environment: '{key}'")
    return Entry(canonical(key), value, COMMAND_LINE)


# Values

_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off", "")
_INTEGER = re.compile(r"(?i)\s*[+-]?(0x[0-9a-f]+|0[0-7]*|[1-9][0-9]*)[kmg]?")


def parse_bool(value: str | None) -> bool | None:
    """Git's reading of a boolean: a word, a number, or the bare key. None for anything else."""
    if value is None or value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    if value == "0" or (value.isascii() and value.isdigit() and value[0] != "0"):
        return value != "0"
    number = _INTEGER.fullmatch(value)
    return None if number is None else number[1].strip("0xX") != ""


def expand_user(path: str, env: Mapping[str, str]) -> str | None:
    """`~/x` and `~user/x` as git reads them; None when that home is not known."""
    if not path.startswith("~"):
        return path
    user, slash, rest = path[1:].partition("/")
    home = _home_of(user) if user else env.get("HOME")
    return None if home is None else home + slash + rest


def _home_of(user: str) -> str | None:
    import pwd

    try:
        return pwd.getpwnam(user).pw_dir
    except KeyError:
        return None


# -- The globs in the conditions of git's conditional includes

MOST_STEPS = 1 << 28  # for the conditions of one configuration: a second or two at the worst
_STEPS_TO_READ = 64


def steps(pattern: str, text: str) -> int:
    """How long it may take to compare these, in steps."""
    return (len(pattern) + _STEPS_TO_READ) * (len(text) + _STEPS_TO_READ)


def all_below(pattern: str) -> str:
    """What a slash at the end of a glob means."""
    return pattern + "**" if pattern.endswith("/") else pattern


def matches(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    return rules.wildmatch(os.fsencode(pattern), os.fsencode(text), ignore_case=ignore_case)


# -- Where git's configuration comes from: which files, in what order, with what they include

_MOST_INCLUDES = 10  # git's limit, which also ends a circle of includes
# For all of one configuration: each file may be included many times by the one before it, and
# what takes two bytes in a file takes hundreds in memory.
_MOST_FILES = 1000
_MOST_LINES = 500_000
_MOST_BYTES = 1 << 26
_CONDITION = re.compile(r"(?s)includeif\.(.*)\.path")
_REMOTE_URL = re.compile(r"(?s)remote\..*\.url")


@dataclass(slots=True)
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

        if pattern.startswith("./") and entry.file != COMMAND_LINE:
            return os.path.dirname(os.path.realpath(entry.file)) + "/", all_below(pattern)[2:]
        home = {"HOME": os.path.realpath(self.env["HOME"])} if "HOME" in self.env else {}
        pattern = expand_user(pattern, home) or pattern
        return "", all_below(pattern if os.path.isabs(pattern) else "**/" + pattern)

    def _branch_matches(self, pattern: str, entry: Entry) -> bool:

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
        return disk.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        if is_want(error):
            raise
        if unreadable_ok and isinstance(error, PermissionError):
            return b""
        from shlex import quote

        from ckpt.errors import owner_hint

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
    kind, _, target = os.fsdecode(disk.beginning(head, 4096)).partition(":")
    return target.strip() if kind == "ref" else ""


# -- Git's configuration as git itself would see it, for reading only

_FILTER_COMMAND = re.compile(r"(?s)filter\..*\.(clean|smudge|process)")


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
