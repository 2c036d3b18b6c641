# SPDX-License-Identifier: MIT
"""Git's path rules: ignore patterns, and the attributes that decide how contents are converted.

Patterns become regular expressions of our own: dulwich's manager disagrees with git on one path
in eighty, and importing its patterns costs more than a scan of changed folders may. Most lines
name one file or one ending and are found in dictionaries; an expression is made only for a path
that has the literal part of its pattern. Left out: finding the files that hold the rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

# -- Patterns


_DIGIT = b"0123456789"
_LOWER = b"abcdefghijklmnopqrstuvwxyz"
_CLASSES = {
    b"alnum": _LOWER.upper() + _LOWER + _DIGIT,
    b"alpha": _LOWER.upper() + _LOWER,
    b"blank": b" \t",
    b"cntrl": bytes((*range(32), 127)),
    b"digit": _DIGIT,
    b"graph": bytes(range(33, 127)),
    b"lower": _LOWER,
    b"print": bytes(range(32, 127)),
    b"punct": b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    b"space": b" \t\n\r",  # by git's own table: neither \v nor \f
    b"upper": _LOWER.upper(),
    b"xdigit": _DIGIT + b"abcdefABCDEF",
}
_ANY, _STAR, _SLASH, _FOLDERS = b"[^/]", b"*", b"/", b"**/"
_REST = b"(?s:.*)"
_SPECIAL = re.compile(rb"[*?\[\\/]")
_WILD = rb"[*?\[\\]"


class _Unmatchable(ValueError):
    """A bracket or backslash without an end, with which nothing matches."""


class Wildmatch:
    """A glob as git's wildmatch compares it with a path, `*` and `?` never taking a slash.

    With `ignore_case` the paths must be in lower case. There git folds plain bytes, ranges and
    [:upper:], but neither `\\A` nor `[A]`, which then match nothing.
    """

    __slots__ = ("_match", "_tokens", "literal", "shortest")

    def __init__(self, glob: bytes, *, ignore_case: bool = False) -> None:
        self._tokens: list[bytes] = []  # expressions, or the special _STAR, _SLASH, _FOLDERS
        self._match: Callable[[bytes, int], re.Match[bytes] | None] | None = None
        self.shortest = 0  # bytes that a matching path has at least
        literals = [b""]
        at = 0
        while at < len(glob):
            at, token, literal = _token(glob, at, ignore_case)
            self.shortest += len(literal) or token not in (_STAR, _FOLDERS, _REST)
            literals[-1:] = [literals[-1] + literal] if literal else [literals[-1], b""]
            self._tokens.append(token)
        # As text, in which Python finds a part in a tenth of the time that it takes in bytes.
        self.literal = max(literals, key=len).decode("latin-1")

    def matches(self, path: bytes, start: int = 0) -> bool:
        """Whether the whole of a path matches, from `start` on."""
        if self.shortest > len(path) - start:  # else a long glob makes an expression of gigabytes
            return False
        if self._match is None:
            self._match = re.compile(_expression(self._tokens) + rb"\Z").match
        return self._match(path, start) is not None


def _token(glob: bytes, at: int, ignore_case: bool) -> tuple[int, bytes, bytes]:
    """Read one step of a glob: where it ends, its expression, and the bytes it stands for."""
    special = _SPECIAL.match(glob, at)
    if special is None:
        found = _SPECIAL.search(glob, at)
        end = found.start() if found else len(glob)
        text = glob[at:end].lower() if ignore_case else glob[at:end]
        return end, re.escape(text), text
    if special[0] == b"*":
        end = at
        while glob[end : end + 1] == b"*":
            end += 1
        if end - at > 1 and (at == 0 or glob[at - 1 : at] == b"/"):
            if end == len(glob):
                return end, _REST, b""
            if glob.startswith(b"/", end):
                return end + 1, _FOLDERS, b""
            if glob.startswith(b"\\/", end):  # one folder at least
                return end + 2, _ANY + b"*/(?:[^/]*/)*", b""
        return end, _STAR, b""
    if special[0] == b"?":
        return at + 1, _ANY, b""
    if special[0] == b"[":
        return (*_bracket(glob, at + 1, ignore_case), b"")
    if special[0] == b"\\":
        at += 1
        if at == len(glob):
            raise _Unmatchable
    byte = glob[at : at + 1]
    return at + 1, _SLASH if byte == b"/" else re.escape(byte), byte


def _bracket(glob: bytes, at: int, ignore_case: bool) -> tuple[int, bytes]:
    """Read what a bracket holds; returns where it ends, and its expression."""
    negated = glob[at : at + 1] in (b"!", b"^")
    at += negated
    members: set[int] = set()
    start: int | None = None  # of a range, should a `-` follow
    is_first = True
    while is_first or glob[at : at + 1] != b"]":
        is_first = False
        if glob.startswith(b"[:", at):
            closing = glob.find(b"]", at + 2)
            if closing < 0:
                raise _Unmatchable
            if closing > at + 2 and glob[closing - 1 : closing] == b":":
                name = glob[at + 2 : closing - 1]
                if ignore_case and name == b"upper":
                    name = b"alpha"
                if name not in _CLASSES:
                    raise _Unmatchable
                members.update(_CLASSES[name])
                at, start = closing + 1, None
                continue
        is_range = start is not None and glob[at : at + 1] == b"-"
        is_range = is_range and glob[at + 1 : at + 2] not in (b"", b"]")
        at += is_range
        at += glob[at : at + 1] == b"\\"
        if at >= len(glob):
            raise _Unmatchable
        if is_range and start is not None:
            span = bytes(range(start, glob[at] + 1))
            members.update(span + span.lower() if ignore_case else span)
            start = None
        else:
            start = glob[at]
            members.add(start)
        at += 1
    members.discard(ord("/"))
    text = b"".join(b"\\x%02x" % byte for byte in sorted(members))
    if negated:
        return at + 1, b"[^/%s]" % text
    return at + 1, b"[%s]" % text if text else b"(?!)"


def _expression(tokens: list[bytes]) -> bytes:
    """Make one expression of the tokens.

    What stands between two stars, or between two `**`, is taken where it first fits and not tried
    again: a glob of many stars must not take forever on a name that almost matches.
    """
    number = 0

    def once(part: bytes) -> bytes:
        nonlocal number
        number += 1
        return b"(?=(?P<g%d>%s))(?P=g%d)" % (number, part, number)

    def component(tokens: list[bytes]) -> bytes:
        first, *others = (b"".join(segment) for segment in _split(tokens, _STAR))
        if not others:
            return first
        middle = (once(b"[^/]*?" + segment) for segment in others[:-1])
        return b"".join((first, *middle, b"[^/]*", others[-1]))

    runs = (_split(run, _SLASH) for run in _split(tokens, _FOLDERS))
    first, *others = (b"/".join(map(component, run)) for run in runs)
    if not others:
        return first
    middle = (once(b"(?:[^/]*/)*?" + run) for run in others[:-1])
    return b"".join((first, *middle, b"(?:[^/]*/)*", others[-1]))


def _split(tokens: Iterable[bytes], at: bytes) -> list[list[bytes]]:
    parts: list[list[bytes]] = [[]]
    for token in tokens:
        if token == at:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


class Pattern(NamedTuple):
    """One line of a rules file. One that is not anchored is compared with the name alone."""

    negated: bool
    dir_only: bool
    anchored: bool
    glob: bytes


def parse_pattern(line: bytes) -> Pattern:
    text = line.removeprefix(b"!")
    negated, dir_only = text != line, text.endswith(b"/")
    text = text.removesuffix(b"/")
    anchored = b"/" in text
    text = text.removeprefix(b"/")
    while text.startswith(b"**/"):
        text = text[3:]
        if b"/" not in text:
            return Pattern(negated, dir_only, False, text)  # `**/a` is `a`
        if not text.startswith(b"**/"):
            text = b"**/" + text
            break
    return Pattern(negated, dir_only, anchored, text)


class _Finder:
    """Finds all of one file's patterns that match a path, by their numbers."""

    __slots__ = ("_endings", "_names", "_paths", "_prefix", "_wild_names", "_wild_paths")

    def __init__(
        self, patterns: Iterable[tuple[int, Pattern]], base: bytes, *, ignore_case: bool
    ) -> None:
        prefix = base + b"/" if base else b""
        self._prefix = prefix.lower() if ignore_case else prefix
        self._names: dict[bytes, list[int]] = {}
        self._paths: dict[bytes, list[int]] = {}
        self._endings: dict[bytes, list[tuple[bytes, int]]] = {}  # by their last byte
        self._wild_names: list[tuple[Wildmatch, int]] = []
        self._wild_paths: list[tuple[Wildmatch, int]] = []
        for number, pattern in patterns:
            glob, tail = pattern.glob, pattern.glob[1:]
            if not re.search(_WILD, glob):
                plain = glob.lower() if ignore_case else glob
                if pattern.anchored:
                    self._paths.setdefault(self._prefix + plain, []).append(number)
                else:
                    self._names.setdefault(plain, []).append(number)
            elif not pattern.anchored and glob[:1] == b"*" and tail and not re.search(_WILD, tail):
                tail = tail.lower() if ignore_case else tail
                self._endings.setdefault(tail[-1:], []).append((tail, number))
            else:
                try:
                    wild = Wildmatch(glob, ignore_case=ignore_case)
                except _Unmatchable:
                    continue
                (self._wild_paths if pattern.anchored else self._wild_names).append((wild, number))

    def matching(self, path: bytes, name: bytes) -> list[int]:
        """The numbers for a path below the file's folder, in lower case if case is ignored."""
        found: list[int] = []
        if name in self._names:
            found += self._names[name]
        if path in self._paths:
            found += self._paths[path]
        if self._endings:
            for ending, number in self._endings.get(name[-1:], ()):
                if name.endswith(ending):
                    found.append(number)
        if self._wild_names:
            text = name.decode("latin-1")
            likely = [each for each in self._wild_names if each[0].literal in text]
            found += [number for wild, number in likely if wild.matches(name)]
        if self._wild_paths:
            text, start = path.decode("latin-1"), len(self._prefix)
            likely = [each for each in self._wild_paths if each[0].literal in text]
            found += [number for wild, number in likely if wild.matches(path, start)]
        return found

    def covers(self, path: bytes) -> bool:
        return path.startswith(self._prefix)


def wildmatch(glob: bytes, text: bytes, *, ignore_case: bool = False) -> bool:
    """Whether a text matches, as in the conditions of git's configuration."""
    try:
        wild = Wildmatch(glob, ignore_case=ignore_case)
        return wild.matches(text.lower() if ignore_case else text)
    except _Unmatchable:
        return False


# -- Names that some file system takes for one of git's own

_IGNORED_BY_HFS = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)
# The short names that NTFS gives are of eight letters; from the fifth on of a kind, hashed ones.
_HASHED = "|".join(rf"{'gi7eba'[:n]}~[1-9][0-9]{{{6 - n}}}" for n in range(7))
_GITMODULES = rf"(?s)(?:\.gitmodules|gitmod~[1-4]|{_HASHED})[. ]*(?::.*)?"


def is_gitmodules(name: bytes) -> bool:
    """Whether some file system takes a name for `.gitmodules`, where git accepts no link."""
    text = folded(name)
    if "~" not in text and "gitmodules" not in text:
        return False
    return any(re.fullmatch(_GITMODULES, part) for part in text.split("\\"))


def folded(name: bytes) -> str:
    """A name without what HFS+ does not tell apart."""
    return name.decode("utf-8", "replace").translate(_IGNORED_BY_HFS).lower()


def is_like_dot_git(name: bytes) -> bool:
    """Whether git keeps a name out of every tree since some file system takes it for `.git`."""
    plain = name.lower().split(b":")[0].rstrip(b". ")
    return plain in (b".git", b"git~1")


# -- Which paths git ignores: .gitignore, info/exclude and core.excludesFile


class Rules:
    """The rules of one ignore file, in order; `base` is the folder that it stands in."""

    __slots__ = ("_finder", "ignore_case", "patterns")

    def __init__(self, text: bytes, base: bytes = b"", *, ignore_case: bool = False) -> None:
        patterns = map(parse_pattern, _ignore_lines(text))
        self.patterns = tuple(pattern for pattern in patterns if pattern.glob)
        self.ignore_case = ignore_case
        self._finder = _Finder(enumerate(self.patterns), base, ignore_case=ignore_case)

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def decide(self, path: bytes, is_dir: bool) -> bool | None:
        """True: ignored. False: not ignored after all. None: nothing is said about this path."""
        path = path.lower() if self.ignore_case else path
        if not self._finder.covers(path):
            return None
        return self.decide_below(path, path.rpartition(b"/")[2], is_dir)

    def decide_below(self, path: bytes, name: bytes, is_dir: bool) -> bool | None:
        """The same for a path known to be below the base, in lower case if case is ignored."""
        found = self._finder.matching(path, name)
        if found and not is_dir:
            found = [number for number in found if not self.patterns[number].dir_only]
        return not self.patterns[max(found)].negated if found else None


def parse(text: bytes, base: bytes = b"", *, ignore_case: bool = False) -> Rules:
    return Rules(text, base, ignore_case=ignore_case)


def _ignore_lines(text: bytes) -> Iterator[bytes]:
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        # To git a line is a C string: it ends at a NUL.
        line = line.removesuffix(b"\r").partition(b"\0")[0]
        stripped = line.rstrip(b" ")
        if stripped != line and (len(stripped) - len(stripped.rstrip(b"\\"))) % 2:
            stripped += b" "
        if not line.startswith(b"#"):
            yield stripped


class IgnoreStack:
    """The rules in force in one folder: the later a file was added, the more it counts.

    All files are read with the same ignore_case.
    """

    __slots__ = ("_files", "_ignore_case")

    def __init__(self, files: Iterable[Rules] = ()) -> None:
        self._files = tuple(files)  # the one that counts most comes first
        self._ignore_case = any(rules.ignore_case for rules in self._files)

    def __bool__(self) -> bool:
        return bool(self._files)

    @classmethod
    def root(cls, *files: Rules) -> IgnoreStack:
        return cls(rules for rules in reversed(files) if rules)

    def enter(self, rules: Rules | None) -> IgnoreStack:
        """The rules in a folder below, whose own ignore file is given."""
        return IgnoreStack((rules, *self._files)) if rules else self

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        """For what stands in this folder; that the folder itself is not ignored is known."""
        path = path.lower() if self._ignore_case else path
        name = path.rpartition(b"/")[2]
        for rules in self._files:
            decision = rules.decide_below(path, name, is_dir)
            if decision is not None:
                return decision
        return False


class Everything(IgnoreStack):
    """Rules by which all is ignored."""

    __slots__ = ()

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        return True


class IgnoreTree:
    """Answers for any path in the worktree, and reads each ignore file only once.

    `read` gives the bytes of a folder's .gitignore, or None. It is asked only for folders that
    are not ignored: nothing below an ignored folder can be brought back.
    """

    def __init__(
        self,
        root: IgnoreStack,
        read: Callable[[bytes], bytes | None],
        *,
        ignore_case: bool = False,
    ) -> None:
        self._read = read
        self._ignore_case = ignore_case
        self._stacks: dict[bytes, IgnoreStack | None] = {b"": self._enter(root, b"")}

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        stack = self.stack(path.rpartition(b"/")[0])
        return stack is None or stack.ignored(path, is_dir)

    def stack(self, folder: bytes) -> IgnoreStack | None:
        """The rules in force in a folder, or None when the folder is ignored."""
        unknown = []
        while folder not in self._stacks:
            unknown.append(folder)
            folder = folder.rpartition(b"/")[0]
        stack = self._stacks[folder]
        for folder in reversed(unknown):
            if stack is not None:
                stack = None if stack.ignored(folder, True) else self._enter(stack, folder)
            self._stacks[folder] = stack
        return stack

    def _enter(self, stack: IgnoreStack, folder: bytes) -> IgnoreStack:
        text = self._read(folder)
        return stack.enter(parse(text, folder, ignore_case=self._ignore_case) if text else None)


# -- What gitattributes say about a path, as far as it decides how contents are converted

# `text` is True, `-text` False, `!text` None, `text=auto` its value.
State = bool | bytes | None
States = tuple[tuple[bytes, State], ...]
Attributes = Mapping[bytes, State]

CONVERTING = frozenset((b"text", b"crlf", b"eol", b"ident", b"filter", b"working-tree-encoding"))

_BUILT_IN: dict[bytes, States] = {b"binary": ((b"text", False),)}
_NONE: Attributes = {}
_LONGEST_LINE = 2047
_LARGEST_FILE = 100 << 20
_WORD = re.compile(rb"[^ \t\r\n]+")
_NAME = rb"[A-Za-z0-9_.][-A-Za-z0-9_.]*\Z"
_QUOTED = rb'"((?:[^"\\]|\\(?:[abfnrtv"\\]|[0-3][0-7]{2}))*)"'
_ESCAPE = rb"(?s)\\([0-7]{3}|.)"
_ESCAPED = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))
_MACRO = b"[attr]"


def asks_for_conversion(text: bytes) -> bool:
    """Whether a line of an attributes file may turn a conversion on."""
    return any(
        name in CONVERTING and state not in (False, None)
        for _, states, _ in _attribute_lines(text)
        for name, state in states
    )


def _attribute_lines(text: bytes) -> Iterator[tuple[bytes, States, bool]]:
    """The pattern of each line with what it sets; or the name of a macro, and True."""
    if len(text) >= _LARGEST_FILE:
        return
    for row in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        row = row.removesuffix(b"\r").partition(b"\0")[0]
        line = row.lstrip(b" \t\r\n")
        if not line or line.startswith(b"#") or len(row) > _LONGEST_LINE:
            continue
        if quoted := re.match(_QUOTED, line):
            pattern, rest = re.sub(_ESCAPE, _unescape, quoted[1]).partition(b"\0")[0], quoted.end()
        else:
            word = _WORD.match(line)
            assert word is not None
            pattern, rest = word[0], word.end()
        states = [*map(_state, _WORD.findall(line, rest))]
        known = tuple(state for state in states if state is not None)
        if len(known) < len(states):  # git complains about the line and ignores it
            continue
        is_macro = pattern.startswith(_MACRO) and pattern != _MACRO
        if is_macro:
            name = _WORD.search(pattern, len(_MACRO))
            if name is None or not re.match(_NAME, name[0]):
                continue
            pattern = name[0]
        yield pattern, known, is_macro


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes((int(code, 8) if len(code) == 3 else _ESCAPED.get(code[0], code[0]),))


def _state(word: bytes) -> tuple[bytes, State] | None:
    name, equals, value = word.partition(b"=")
    state: State = value if equals else True
    if name[:1] in (b"-", b"!"):
        state = False if name.startswith(b"-") else None
        name = name[1:]
    return (name, state) if re.match(_NAME, name) else None


class AttributeTree:
    """Answers for any path in the worktree, and reads each attributes file only once.

    `read` gives the bytes of a folder's .gitattributes, or None. Of the other files `info` counts
    most, more than any .gitattributes; `user` and `system` count least. Lines that set nothing of
    CONVERTING are dropped, and what each set of matching lines comes to is worked out once.
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
        self._states: list[States] = []  # of the lines that matter, by number
        self._resolved: dict[tuple[int, ...], Attributes] = {}
        files = [[*_attribute_lines(text)] for text in (system, user, read(b"") or b"", info)]
        self._macros = dict(_BUILT_IN)
        for lines in files:
            self._macros |= {name: states for name, states, is_macro in lines if is_macro}
        *root, above = [self._finder(lines, b"") for lines in files]
        self._stacks: dict[bytes, tuple[_Finder, ...]] = {b"": tuple(filter(None, root))}
        self._info = (above,) if above else ()

    def attributes(self, path: bytes) -> Attributes:
        """What is said of a file; an attribute that nothing is said about is absent."""
        folder, _, name = path.rpartition(b"/")
        stack = self._stacks.get(folder)
        finders = (self._stack(folder) if stack is None else stack) + self._info
        if not finders:
            return _NONE
        if self._ignore_case:
            path, name = path.lower(), name.lower()
        found = tuple([number for each in finders for number in sorted(each.matching(path, name))])
        attributes = self._resolved.get(found)
        if attributes is None:
            attributes = self._resolved[found] = self._resolve(found)
        return attributes

    def _stack(self, folder: bytes) -> tuple[_Finder, ...]:
        """The files that count in a folder, but for `info`; the one that counts most is last."""
        unknown = []
        while folder not in self._stacks:
            unknown.append(folder)
            folder = folder.rpartition(b"/")[0]
        finders = self._stacks[folder]
        for folder in reversed(unknown):
            text = self._read(folder)
            own = self._finder(_attribute_lines(text), folder) if text else None
            finders = self._stacks[folder] = (*finders, own) if own else finders
        return finders

    def _finder(self, lines: Iterable[tuple[bytes, States, bool]], base: bytes) -> _Finder | None:
        numbered = []
        for text, states, is_macro in lines:
            if is_macro or not any(n in CONVERTING or n in self._macros for n, _ in states):
                continue
            pattern = parse_pattern(text)
            # A folder has no contents, and git forbids `!` here.
            if not pattern.dir_only and not pattern.negated:
                numbered.append((len(self._states), pattern))
                self._states.append(states)
        return _Finder(numbered, base, ignore_case=self._ignore_case) if numbered else None

    def _resolve(self, numbers: tuple[int, ...]) -> Attributes:
        """What comes later counts more; a macro stands for its line, and may name another."""
        found: dict[bytes, State] = {}
        for number in reversed(numbers):
            todo = [*self._states[number]]
            while todo:
                name, state = todo.pop()
                if name not in found:
                    found[name] = state
                    if state is True:
                        todo += self._macros.get(name, ())
        return {name: state for name, state in found.items() if name in CONVERTING}
