# SPDX-License-Identifier: MIT
"""What gitattributes say about a path, as far as it decides how contents are converted.

Lines that speak of other attributes (`diff`, `merge`, `export-ignore` …) are dropped when a
file is read, so that a folder ruled by nothing else costs nothing per path. For the rest, the
lines that match a path are found through dictionaries, and what each such set of lines comes
to is worked out once: a worktree has many paths, and few different answers.

Left out: reading the files, and not following a .gitattributes that is a symlink.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckpt import wildmatch
from ckpt.patterns import lazy_pattern
from ckpt.values import value_class
from ckpt.worktree import ignore

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator

# `text` is True, `-text` False, `!text` None, `text=auto` its value.
State = bool | bytes | None
States = tuple[tuple[bytes, State], ...]
Attributes = Mapping[bytes, State]

CONVERTING = frozenset((b"text", b"crlf", b"eol", b"ident", b"filter", b"working-tree-encoding"))

_BINARY: States = ((b"diff", False), (b"merge", False), (b"text", False))
_BUILT_IN = {b"binary": _BINARY}
_NOTHING: Attributes = {}

_BLANK = b" \t\r\n"
_LONGEST_LINE = 2047
_LARGEST_FILE = 100 << 20
_WORD = lazy_pattern(rb"[^ \t\r\n]+")
_NAME = lazy_pattern(rb"[A-Za-z0-9_.][-A-Za-z0-9_.]*\Z")
_QUOTED = lazy_pattern(rb'"((?:[^"\\]|\\(?:[abfnrtv"\\]|[0-3][0-7]{2}))*)"')
_ESCAPE = lazy_pattern(rb"(?s)\\([0-7]{3}|.)")
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_ESCAPED[b"v"] = b"\v"
_MACRO = b"[attr]"


@value_class
class Line:
    """One line: a pattern with what it sets, or the macro of that name."""

    name: bytes
    states: States
    is_macro: bool


def asks_for_conversion(text: bytes) -> bool:
    """True if a line of an attributes file may turn a conversion on."""
    return any(
        name in CONVERTING and state not in (False, None)
        for line in _lines(text)
        for name, state in line.states
    )


def _lines(text: bytes) -> Iterator[Line]:
    if len(text) >= _LARGEST_FILE:
        return
    for row in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        # To git a line is a C string: it ends at a NUL.
        line = _parse_line(row.removesuffix(b"\r").partition(b"\0")[0])
        if line is not None:
            yield line


def _parse_line(row: bytes) -> Line | None:
    """None for a comment, and for a line that git complains about and ignores."""
    text = row.lstrip(_BLANK)
    if not text or text.startswith(b"#") or len(row) > _LONGEST_LINE:
        return None
    name, rest = _pattern(text)
    states = [_state(word) for word in _WORD.findall(rest)]
    known = [state for state in states if state is not None]
    if len(known) < len(states):
        return None
    is_macro = name.startswith(_MACRO) and name != _MACRO
    if is_macro:
        word = _WORD.search(name, len(_MACRO))
        if word is None or not _NAME.match(word[0]):
            return None
        name = word[0]
    return Line(name, tuple(known), is_macro)


def _pattern(text: bytes) -> tuple[bytes, bytes]:
    """The first word, which may be quoted as in C, and what follows."""
    if quoted := _QUOTED.match(text):
        return _ESCAPE.sub(_unescape, quoted[1]).partition(b"\0")[0], text[quoted.end() :]
    word = _WORD.match(text)
    assert word is not None
    return word[0], text[word.end() :]


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes((int(code, 8),)) if len(code) == 3 else _ESCAPED.get(code, code)


def _state(word: bytes) -> tuple[bytes, State] | None:
    name, equals, value = word.partition(b"=")
    state: State = value if equals else True
    if name[:1] in (b"-", b"!"):
        state = False if name.startswith(b"-") else None
        name = name[1:]
    return (name, state) if _NAME.match(name) else None


class _WildLine:
    """A line whose glob needs an expression, which takes so long to make that a file of thousands
    would be a reason to wait: it is made when a path has the plain part of the glob."""

    __slots__ = ("_anchored", "_glob", "_match", "number")

    def __init__(self, glob: wildmatch.Glob, anchored: bool, number: int) -> None:
        self._glob = glob
        self._anchored = anchored
        self._match: Callable[..., re.Match[bytes] | None] | None = None
        self.number = number

    def matches(self, path: bytes, name: bytes, start: int) -> bool:
        """Whether it is about a path, which is below its folder from `start` on."""
        subject, at = (path, start) if self._anchored else (name, 0)
        if wildmatch.shortest(self._glob) > len(subject) - at:
            return False
        if self._match is None:
            import re

            self._match = re.compile(b"(?:%s)\\Z" % wildmatch.expression(self._glob)).match
        return self._match(subject, at) is not None


class _Rules:
    """The lines of one file that can matter, each under a number that grows with its place."""

    __slots__ = ("_always", "_endings", "_names", "_paths", "_prefix", "_wild")

    def __init__(
        self, lines: Iterable[tuple[int, Line]], base: bytes, *, ignore_case: bool
    ) -> None:
        prefix = base + b"/" if base else b""
        self._prefix = prefix.lower() if ignore_case else prefix
        self._always: list[int] = []
        self._names: dict[bytes, list[int]] = {}
        self._endings: list[tuple[bytes, int]] = []
        self._paths: dict[bytes, list[int]] = {}
        self._wild: list[tuple[str, _WildLine]] = []
        for number, line in lines:
            pattern = ignore.parse_pattern(line.name, base, ignore_case)
            # A folder has no contents, and git forbids `!` here.
            if pattern is not None and not pattern.dir_only and not pattern.negated:
                self._add(pattern, number)

    def __bool__(self) -> bool:
        return bool(self._always or self._names or self._endings or self._paths or self._wild)

    def _add(self, pattern: ignore.Pattern, number: int) -> None:
        glob = pattern.glob
        spellings = wildmatch.spellings(glob)
        suffixes = None if pattern.anchored else wildmatch.suffixes(glob[0])
        if glob in wildmatch.EVERYTHING and not pattern.anchored:
            self._always.append(number)
        elif spellings is not None:
            table, start = (self._paths, self._prefix) if pattern.anchored else (self._names, b"")
            for spelling in spellings:
                table.setdefault(start + spelling, []).append(number)
        elif suffixes is not None:
            self._endings += [(suffix, number) for suffix in suffixes]
        else:
            part = wildmatch.plain_part(glob).decode("latin-1")
            self._wild.append((part, _WildLine(glob, pattern.anchored, number)))

    def matching(self, path: bytes, name: bytes) -> list[int]:
        """The numbers of the lines that match, for a path below the folder of the file."""
        found = [*self._always, *self._names.get(name, ()), *self._paths.get(path, ())]
        for suffix, number in self._endings:
            if name.endswith(suffix):
                found.append(number)
        if self._wild:
            start, text = len(self._prefix), path.decode("latin-1")
            likely = [line for part, line in self._wild if part in text]
            found += [line.number for line in likely if line.matches(path, name, start)]
        found.sort()
        return found


class AttributeTree:
    """Answers for any path in the worktree, and reads each attributes file only once.

    read gives the bytes of a folder's .gitattributes, or None. Of the other files `info` counts
    most, more than any .gitattributes; `user` and `system` count least.
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
        self._states: list[States] = []
        self._resolved: dict[tuple[int, ...], Attributes] = {}
        files = [list(_lines(text)) for text in (system, user, read(b"") or b"", info)]
        self._macros = dict(_BUILT_IN)
        for lines in files:
            self._macros |= {line.name: line.states for line in lines if line.is_macro}
        *root, above = [self._rules(lines, b"") for lines in files]
        self._stacks: dict[bytes, tuple[_Rules, ...]] = {b"": tuple(filter(None, root))}
        self._info = (above,) if above else ()

    def attributes(self, path: bytes) -> Attributes:
        """What is said of a file; an attribute that nothing is said about is absent."""
        slash = path.rfind(b"/")
        folder = path[: max(slash, 0)]
        rules = self._stacks.get(folder)
        if rules is None:
            rules = self._stack(folder)
        rules += self._info
        if not rules:
            return _NOTHING
        if self._ignore_case:
            path = path.lower()
        name = path[slash + 1 :]
        found = tuple([number for file in rules for number in file.matching(path, name)])
        attributes = self._resolved.get(found)
        if attributes is None:
            attributes = self._resolved[found] = self._resolve(found)
        return attributes

    def _stack(self, folder: bytes) -> tuple[_Rules, ...]:
        """The files that count in a folder, but for `info`; the one that counts most is last."""
        unknown = []
        while folder not in self._stacks:
            unknown.append(folder)
            folder = folder[: max(folder.rfind(b"/"), 0)]
        rules = self._stacks[folder]
        for folder in reversed(unknown):
            text = self._read(folder)
            own = self._rules(_lines(text), folder) if text else None
            rules = self._stacks[folder] = (*rules, own) if own else rules
        return rules

    def _rules(self, lines: Iterable[Line], base: bytes) -> _Rules:
        numbered = []
        for line in lines:
            if not line.is_macro and any(
                name in CONVERTING or name in self._macros for name, _ in line.states
            ):
                numbered.append((len(self._states), line))
                self._states.append(line.states)
        return _Rules(numbered, base, ignore_case=self._ignore_case)

    def _resolve(self, numbers: tuple[int, ...]) -> Attributes:
        found: dict[bytes, State] = {}
        for number in reversed(numbers):
            self._fill(found, self._states[number])
        return {name: state for name, state in found.items() if name in CONVERTING}

    def _fill(self, found: dict[bytes, State], states: States) -> None:
        """What comes later counts more, so it is looked at first; a macro stands for its line, and
        may name another one, thousands of times over."""
        todo = [*states]
        while todo:
            name, state = todo.pop()
            if name not in found:
                found[name] = state
                if state is True:
                    todo += self._macros.get(name, ())
