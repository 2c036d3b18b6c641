# SPDX-License-Identifier: MIT
"""Match paths against gitignore patterns, and gitattributes that control conversion.

dulwich translates globs to regular expressions; plain names and suffixes need none. Its ignore
manager is not used: it differs from git on one path in eighty. Left out: finding the files with
the rules, and git's case folding of brackets and escapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import count, groupby

# -- Globs

_FOLDERS, _NAME = rb"(?:[^/]+/)*", rb"[^/]*"  # as dulwich writes `**/` and `*`
_STARS = re.compile(rb"(?<![^/])\*\*+(?![^/])")
_IS_WILD = re.compile(rb"[*?\[\\]").search
_LONGEST = 4096  # bytes of a glob, as of a path
_numbers = count()


def _expression(glob: bytes) -> bytes:
    """Translate a glob to a regular expression; an unterminated bracket or escape never matches."""
    from dulwich.wildmatch import MalformedPattern, translate

    if _ends_escaped(glob):
        return b"(?!)"
    try:
        found = translate(_STARS.sub(b"**", glob))
    except MalformedPattern:
        return b"(?!)"
    if found.endswith(b".*"):  # `a/**` does not match `a/`
        found = found[:-1] + b"+"
    runs = (_joined(run.split(_NAME), _NAME) for run in found.split(_FOLDERS))
    return _joined([*runs], _FOLDERS)


def _ends_escaped(text: bytes) -> bool:
    """Check whether a text ends in an unescaped backslash."""
    return (len(text) - len(text.rstrip(b"\\"))) % 2 == 1


def _joined(parts: list[bytes], gap: bytes) -> bytes:
    """Join parts with gaps; each inner part matches only at its first position, to avoid
    exponential backtracking on globs with many stars."""
    first, *others = parts
    for number, part in enumerate(others, 1):
        if number == len(others):
            first += gap + part
        else:
            group = next(_numbers)
            first += b"(?=(?P<g%d>%s?%s))(?P=g%d)" % (group, gap, part, group)
    return first


def wildmatch(glob: bytes, text: bytes, *, ignore_case: bool = False) -> bool:
    """Check whether a glob matches a text, as in conditional includes."""
    flags = re.DOTALL | re.IGNORECASE if ignore_case else re.DOTALL
    return re.fullmatch(_expression(glob), text, flags) is not None


class _Globs:
    """Patterns of one file, matched against paths relative to its directory that start with a
    slash; directories end in one."""

    def __init__(self, patterns: Iterable[bytes]) -> None:
        endings: list[bytes] = []
        self._has_folders = False  # whether any is only for directories
        self._paths: set[bytes] = set()
        self._wild: list[tuple[bytes, bytes]] = []
        for pattern in patterns:
            self._has_folders |= pattern.endswith(b"/")
            is_anchored, glob = b"/" in pattern[:-1], pattern.removeprefix(b"/")
            while glob.startswith(b"**/") and len(glob) > 3:
                is_anchored, glob = False, glob[3:]
            if not (is_anchored or _IS_WILD(glob, 1)) and re.match(rb"\*(?!/)", glob):
                endings.append(glob[1:])
            elif not is_anchored and not _IS_WILD(glob):
                endings.append(b"/" + glob)
            elif not _IS_WILD(glob):
                self._paths.add(b"/" + glob)
            elif len(glob) < _LONGEST:
                self._wild.append((b"\\A/" if is_anchored else b"/", glob))
        self._endings = tuple(endings)

    def match(self, path: bytes, is_dir: bool = False) -> bool:
        if path.endswith(self._endings) or path in self._paths:
            return True
        if self._wild and self._search(path) is not None:
            return True
        return is_dir and self._has_folders and self.match(path + b"/")

    @cached_property
    def _search(self) -> Callable[[bytes], object]:
        wild = b"|".join(start + _expression(glob) for start, glob in self._wild)
        return re.compile(b"(?s:%s)\\Z" % wild).search


# -- Names that some file systems treat as equal to git's own

_IGNORED_BY_HFS = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)


def _folded(name: bytes) -> str:
    """Fold a name as HFS+ does."""
    return name.decode("utf-8", "replace").translate(_IGNORED_BY_HFS).lower()


def is_like_dot_git(name: bytes) -> bool:
    """Check whether git refuses a name because some file systems treat it as `.git`."""
    parts = _folded(name).split("\\")
    return any(part.partition(":")[0].rstrip(". ") in (".git", "git~1") for part in parts)


def is_gitmodules(name: bytes) -> bool:
    """Check whether some file systems treat a name as `.gitmodules`, which must not be a link."""
    return re.match(r"\.gitmodules|gitmod~[1-4]|gi7eba~[1-9]", _folded(name)) is not None


# -- Which paths git ignores: .gitignore, info/exclude and core.excludesFile


class Rules:
    """The rules of an ignore file; `base` is its directory."""

    __slots__ = ("_any", "_base", "_runs", "ignore_case")

    def __init__(self, text: bytes, base: bytes = b"", *, ignore_case: bool = False) -> None:
        self.ignore_case = ignore_case
        self._base = len(base) + 1 if base else 0
        lines = [*_ignore_lines(text.lower() if ignore_case else text)]
        self._any = _Globs(line.removeprefix(b"!") for line in lines)
        runs = groupby(lines, key=lambda line: line.startswith(b"!"))
        # The run of highest precedence comes first.
        self._runs = [
            (negated, _Globs(line.removeprefix(b"!") for line in run)) for negated, run in runs
        ][::-1]

    def __bool__(self) -> bool:
        return bool(self._runs)

    def decide(self, path: bytes, is_dir: bool) -> bool | None:
        """Return whether a path below `base` is ignored; None if no pattern matches."""
        path = b"/" + (path.lower() if self.ignore_case else path)
        path = path[self._base :]
        if self._any.match(path, is_dir):
            for negated, globs in self._runs:
                if globs.match(path, is_dir):
                    return not negated
        return None


def _ignore_lines(text: bytes) -> Iterator[bytes]:
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = line.removesuffix(b"\r")
        stripped = line.rstrip(b" ")
        if _ends_escaped(stripped) and stripped != line:
            stripped += b" "
        if not line.startswith(b"#") and stripped not in (b"", b"!", b"/", b"!/"):
            yield stripped


class IgnoreStack:
    """The ignore rules that apply in a directory, in ascending precedence."""

    __slots__ = ("_files",)

    def __init__(self, *files: Rules) -> None:
        self._files = tuple(filter(None, files))

    def enter(self, rules: Rules) -> IgnoreStack:
        """Return the rules for a subdirectory with the rules of its own ignore file."""
        return IgnoreStack(*self._files, rules)

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        """Check whether a path in this directory, itself not ignored, is ignored."""
        for rules in reversed(self._files):
            decision = rules.decide(path, is_dir)
            if decision is not None:
                return decision
        return False


class IgnoreTree:
    """The ignore rules of a worktree; each ignore file is read once.

    `read` returns the .gitignore of a directory, or None. It is not called for ignored
    directories, in which no path can be re-included.
    """

    def __init__(
        self,
        root: IgnoreStack,
        read: Callable[[bytes], bytes | None],
        *,
        ignore_case: bool = False,
    ) -> None:
        self._read = read
        self.ignore_case = ignore_case
        self._stacks: dict[bytes, IgnoreStack | None] = {b"": self._enter(root, b"")}

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        stack = self.stack(path.rpartition(b"/")[0])
        return stack is None or stack.ignored(path, is_dir)

    def stack(self, folder: bytes) -> IgnoreStack | None:
        """Return the rules that apply in a directory; None if it is ignored."""
        if folder not in self._stacks:
            found = self.stack(folder.rpartition(b"/")[0])
            if found is not None:
                found = None if found.ignored(folder, True) else self._enter(found, folder)
            self._stacks[folder] = found
        return self._stacks[folder]

    def _enter(self, stack: IgnoreStack, folder: bytes) -> IgnoreStack:
        text = self._read(folder)
        return stack.enter(Rules(text, folder, ignore_case=self.ignore_case)) if text else stack


# -- gitattributes that control conversion

# `text` is True, `-text` False, `!text` None, `text=auto` b"auto".
State = bool | bytes | None
States = tuple[tuple[bytes, State], ...]
Attributes = Mapping[bytes, State]

CONVERTING = frozenset((b"text", b"crlf", b"eol", b"ident", b"filter", b"working-tree-encoding"))

_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE = rb"(?s)\\([0-7]{3}|.)"
_ESCAPED = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))
_MACRO = b"[attr]"


def asks_for_conversion(text: bytes) -> bool:
    """Check whether an attributes file may enable a conversion."""
    return any(
        name in CONVERTING and state not in (False, None)
        for _, states in _attribute_lines(text)
        for name, state in states
    )


def _attribute_lines(text: bytes) -> Iterator[tuple[bytes, States]]:
    """Yield the pattern or macro of each line with the attributes it sets."""
    for row in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = row.strip()
        if quoted := _QUOTED.match(line):
            pattern, rest = re.sub(_ESCAPE, _meaning, quoted[1]), line[quoted.end() :]
        else:
            pattern, rest = (*line.split(None, 1), b"", b"")[:2]
        if pattern and not line.startswith(b"#") and not pattern.startswith(b"!"):
            yield pattern, tuple(map(_state, rest.split()))


def _meaning(escape: re.Match[bytes]) -> bytes:
    code = escape[1]
    return bytes((int(code, 8) & 0xFF if code.isdigit() else _ESCAPED.get(code[0], code[0]),))


def _state(word: bytes) -> tuple[bytes, State]:
    name, equals, value = word.partition(b"=")
    if name[:1] in (b"-", b"!"):
        return name[1:], False if name[:1] == b"-" else None
    return name, value if equals else True


class AttributeTree:
    """The attributes of a worktree; each attributes file is read once.

    `read` returns the .gitattributes of a directory, or None. `info` takes precedence over these,
    and these over `user` and `system`.
    """

    def __init__(
        self,
        read: Callable[[bytes], bytes | None],
        *,
        info: bytes = b"",
        user: bytes = b"",
        system: bytes = b"",
        ignore_case: bool = False,
    ) -> None:
        self._read = read
        self._ignore_case = ignore_case
        self._macros: dict[bytes, States] = {b"binary": ((b"text", False),)}
        # The lines that apply in each directory, in ascending precedence.
        self._lines = {b"": [x for t in (system, user, read(b"")) for x in self._parsed(t, b"")]}
        self._info = self._parsed(info, b"")

    def attributes(self, path: bytes) -> Attributes:
        """Return the attributes of a file; unspecified ones are absent."""
        text = b"/" + (path.lower() if self._ignore_case else path)
        found: dict[bytes, State] = {}
        # Attributes that are already set take precedence.
        for lines in (self._info, self._in_force(path.rpartition(b"/")[0])):
            for below, globs, states in reversed(lines):
                todo = [*states] if globs.match(text[below:]) else []
                while todo:
                    name, state = todo.pop()
                    if name not in found:
                        found[name] = state
                        # A macro expands to its attributes, which may be macros.
                        todo += self._macros.get(name, ()) if state is True else ()
        return {name: state for name, state in found.items() if name in CONVERTING}

    def _in_force(self, folder: bytes) -> list[tuple[int, _Globs, States]]:
        if folder not in self._lines:
            above = self._in_force(folder.rpartition(b"/")[0])
            self._lines[folder] = above + self._parsed(self._read(folder), folder)
        return self._lines[folder]

    def _parsed(self, text: bytes | None, folder: bytes) -> list[tuple[int, _Globs, States]]:
        found = []
        for pattern, states in _attribute_lines(text or b""):
            if not pattern.startswith(_MACRO):
                glob = pattern.lower() if self._ignore_case else pattern
                found.append((len(folder) + 1 if folder else 0, _Globs([glob]), states))
            elif not folder:
                self._macros[pattern[len(_MACRO) :]] = states
        return found
