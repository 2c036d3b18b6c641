# SPDX-License-Identifier: MIT
"""The three spellings of git's configuration, and git's spellings of a value.

A file, the indexed variables GIT_CONFIG_COUNT / KEY_n / VALUE_n, and the one
variable in which `git -c` hands its options down. The grammar is git's own,
refusals included: dulwich's reader takes files that git refuses, drops the
difference between `key` and `key = true`, forgets which file and line a value
came from, and costs an import on every call. Where versions of git differ, the
newer is followed. Which files there are is not known here: config_sources.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from ckpt.errors import CkptError
from ckpt.patterns import lazy_pattern
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

COMMAND_LINE = "command line"


class ConfigError(CkptError):
    """Git's configuration cannot be read; git itself stops here too."""


@value_class
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

_BLANK = lazy_pattern(rb"(?:[ \t\r\n]+|[#;][^\n]*)*")
_HEADER = lazy_pattern(rb'\[([A-Za-z0-9.-]*)(?:[ \t\r]+"((?:[^"\\\n]|\\[^\n])*)")?\]')
_NAME = lazy_pattern(rb"([A-Za-z][A-Za-z0-9-]*)[ \t]*([=\n])")
_PLAIN_VALUE = lazy_pattern(rb'[ \t\r]*([^\\"#;\n]*)(?:[#;][^\n]*)?\n')
_ESCAPED = lazy_pattern(rb"\\(.)")
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

_KEY = lazy_pattern(r"[A-Za-z0-9-]+\.(?:[^\n]*\.)?[A-Za-z][A-Za-z0-9-]*")
_QUOTED_MARK = lazy_pattern(r"'\\(['!])'")
_SINGLE_QUOTED = r"'(?:[^']|'\\['!]')*'"
_PARAMETER = lazy_pattern(rf"({_SINGLE_QUOTED})(?:(=)({_SINGLE_QUOTED})?)?(?:[ \t\r\n]+|\Z)")


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
_INTEGER = lazy_pattern(r"(?i)\s*[+-]?(0x[0-9a-f]+|0[0-7]*|[1-9][0-9]*)[kmg]?")


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
