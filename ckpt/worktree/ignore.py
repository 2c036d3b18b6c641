# SPDX-License-Identifier: MIT
"""Which paths git ignores: the patterns of .gitignore, info/exclude and core.excludesFile.

A walk asks for every name it meets, so the patterns of a file are not tried one by one: most
become entries of a few dictionaries, and the rest one regular expression.

Left out: reading the files (and not following a .gitignore that is a symlink), and whether a
path is tracked, which git asks before it asks these rules. Where versions of git differ, the
newer is followed: before 2.52 git read `a**/b` as `a`, then `**/b`; since then it is `a*/b`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, product
from math import prod

# What a pattern becomes. A step is a choice of what a name may go on with, a segment is what
# stands between two `*`, and a component is what stands between two `/`.
_Step = tuple[bytes, ...]
_Segment = tuple[_Step, ...]
_Component = tuple[_Segment, ...]

_NOTHING: _Step = ()
_ANY: _Step = tuple(b"%c" % byte for byte in range(1, 256) if byte != ord("/"))
_EMPTY: _Component = ((),)
_STAR: _Component = ((), ())
_STARS: _Component = ()  # `**`: any number of components

_PLAIN = re.compile(rb"[^*?\[\\/]+")
_DIGIT = b"0123456789"
_LOWER = b"abcdefghijklmnopqrstuvwxyz"
_UPPER = _LOWER.upper()
_CLASSES = {
    b"alnum": _UPPER + _LOWER + _DIGIT,
    b"alpha": _UPPER + _LOWER,
    b"blank": b" \t",
    b"cntrl": bytes((*range(32), 127)),
    b"digit": _DIGIT,
    b"graph": bytes(range(33, 127)),
    b"lower": _LOWER,
    b"print": bytes(range(32, 127)),
    b"punct": b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    b"space": b" \t\n\r",  # by git's own table: neither \v nor \f
    b"upper": _UPPER,
    b"xdigit": _DIGIT + b"abcdefABCDEF",
}

_MOST_SPELLINGS = 32  # `[Bb]in` is two names to look up, `[a-z][a-z]` is an expression


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file, taken apart."""

    base: bytes
    negated: bool
    dir_only: bool
    anchored: bool
    components: tuple[_Component, ...]

    def spellings(self) -> list[bytes] | None:
        """Every path from the base that matches, when they are few enough to list."""
        if any(len(component) != 1 for component in self.components):
            return None
        steps = [step for (segment,) in self.components for step in ((b"/",), *segment)]
        return _spell(steps[1:])

    def suffixes(self) -> list[bytes] | None:
        """Every ending that a matching name has, for a pattern like `*.py[co]`."""
        first, *others = self.components[-1]
        return _spell(others[0]) if not first and len(others) == 1 else None

    def expression(self, groups: Iterator[int]) -> bytes:
        return _path_expression(self.components, groups)


def parse(text: bytes, base: bytes = b"", *, ignore_case: bool = False) -> Rules:
    """The rules of one ignore file; base is the folder that it stands in."""
    patterns = (_parse_line(line, base, ignore_case) for line in _lines(text))
    return Rules([pattern for pattern in patterns if pattern], base, ignore_case=ignore_case)


def _lines(text: bytes) -> Iterator[bytes]:
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if not line.startswith(b"#"):
            # To git a line is a C string: it ends at a NUL.
            yield _without_trailing_spaces(line.removesuffix(b"\r").partition(b"\0")[0])


def _without_trailing_spaces(line: bytes) -> bytes:
    stripped = line.rstrip(b" ")
    backslashes = len(stripped) - len(stripped.rstrip(b"\\"))
    return stripped + b" " if backslashes % 2 and stripped != line else stripped


def _parse_line(line: bytes, base: bytes, ignore_case: bool) -> Pattern | None:
    """None for a line that can match nothing."""
    glob = line.removeprefix(b"!")
    negated = glob != line
    dir_only = glob.endswith(b"/")
    glob = glob.removesuffix(b"/")
    anchored = b"/" in glob
    components = tuple(_Reader(glob.removeprefix(b"/"), ignore_case).components())
    if _EMPTY in components or any(_NOTHING in segment for c in components for segment in c):
        return None
    if not anchored and components == (_STARS,):
        components = (_STAR,)
    if len(components) == 2 and components[0] == _STARS != components[1]:
        components, anchored = components[1:], False
    return Pattern(base, negated, dir_only, anchored, components)


class _Reader:
    """Takes a glob apart by the rules of git's wildmatch.

    What can match nothing (a bracket without end, a backslash at the end) reads as _NOTHING.
    With ignore_case the names to compare are in lower case. There git folds plain bytes,
    ranges and [:upper:] but neither `\\A` nor `[A]`, which then match nothing.
    """

    def __init__(self, glob: bytes, ignore_case: bool) -> None:
        self.glob = glob
        self.ignore_case = ignore_case
        self.at = 0

    def components(self) -> Iterator[_Component]:
        while True:
            component = self.component()
            escaped_slash = self.take(b"\\/")
            if component == _STARS and escaped_slash:
                yield _STAR  # unlike `**/`, `**\/` stands for one folder at least
            yield component
            if not escaped_slash and not self.take(b"/"):
                return

    def component(self) -> _Component:
        stars = self.stars()
        if stars > 1 and self.at_end_of_component():
            return _STARS
        segments: list[_Segment] = [()] if stars else []
        segments.append(self.segment())
        while self.stars():
            segments.append(self.segment())
        return tuple(segments)

    def at_end_of_component(self) -> bool:
        return self.at >= len(self.glob) or self.glob.startswith((b"/", b"\\/"), self.at)

    def stars(self) -> int:
        start = self.at
        while self.take(b"*"):
            pass
        return self.at - start

    def segment(self) -> _Segment:
        steps = []
        while not self.at_end_of_component() and not self.glob.startswith(b"*", self.at):
            steps.append(self.step())
        return tuple(steps)

    def step(self) -> _Step:
        if plain := _PLAIN.match(self.glob, self.at):
            self.at = plain.end()
            return (plain[0].lower() if self.ignore_case else plain[0],)
        if self.take(b"?"):
            return _ANY
        if self.take(b"["):
            return self.bracket()
        self.take(b"\\")
        escaped = self.next()
        return (escaped,) if escaped and self.can_be(escaped) else _NOTHING

    def can_be(self, byte: bytes) -> bool:
        return not (self.ignore_case and byte.isupper())

    def bracket(self) -> _Step:
        negated = self.take(b"!") or self.take(b"^")
        members = self.members()
        if members is None:
            return _NOTHING
        return tuple(c for c in _ANY if (c[0] in members) != negated and self.can_be(c))

    def members(self) -> set[int] | None:
        members: set[int] = set()
        start = b""  # of a range, should a `-` follow
        while True:
            if self.at_class():
                named = self.named_class()
                if named is None:
                    return None
                members.update(named)
                start = b""
            elif start and self.at_range():
                members.update(self.range(start))
                start = b""
            else:
                self.take(b"\\")
                start = self.next()
                members.update(start)
            if self.at >= len(self.glob):
                return None
            if self.take(b"]"):
                return members

    def at_class(self) -> bool:
        if not self.glob.startswith(b"[:", self.at):
            return False
        end = self.glob.find(b"]", self.at + 2)
        return end < 0 or (end > self.at + 2 and self.glob[end - 1] == ord(":"))

    def named_class(self) -> bytes | None:
        name, _, _ = self.glob[self.at + 2 :].partition(b":]")
        self.at += len(name) + 4
        return _CLASSES[b"alpha"] if self.ignore_case and name == b"upper" else _CLASSES.get(name)

    def at_range(self) -> bool:
        return self.glob.startswith(b"-", self.at) and (
            self.glob[self.at + 1 : self.at + 2] not in (b"", b"]")
        )

    def range(self, start: bytes) -> bytes:
        self.take(b"-")
        self.take(b"\\")
        end = self.next()
        members = bytes(range(start[0], end[0] + 1)) if end else b""
        return members + members.lower() if self.ignore_case else members

    def take(self, wanted: bytes) -> bool:
        found = self.glob.startswith(wanted, self.at)
        if found:
            self.at += len(wanted)
        return found

    def next(self) -> bytes:
        self.at += 1
        return self.glob[self.at - 1 : self.at]


def _spell(steps: Sequence[_Step]) -> list[bytes] | None:
    if prod(map(len, steps)) > _MOST_SPELLINGS:
        return None
    return [b"".join(choice) for choice in product(*steps)]


def _path_expression(components: Sequence[_Component], groups: Iterator[int]) -> bytes:
    """What stands between two `**` is taken where it first fits, and not tried again."""
    runs: list[list[bytes]] = [[]]
    for component in components[:-1]:
        if component == _STARS:
            runs.append([])
        else:
            runs[-1].append(_component_expression(component, groups) + b"/")
    first, *others = [b"".join(run) for run in runs]
    last = components[-1]
    end = b"(?s:.+)" if last == _STARS else _component_expression(last, groups)
    if not others:
        return first + end
    gap = b"(?:[^/]+/)*"
    middle = [_once(gap + b"?" + run, groups) for run in others[:-1] if run]
    return b"".join((first, *middle, gap, others[-1], end))


def _component_expression(component: _Component, groups: Iterator[int]) -> bytes:
    first, *others = [b"".join(map(_step_expression, segment)) for segment in component]
    if not others:
        return first
    middle = [_once(b"[^/]*?" + segment, groups) for segment in others[:-1]]
    return b"".join((first, *middle, b"[^/]*", others[-1]))


def _once(expression: bytes, groups: Iterator[int]) -> bytes:
    """Keeps a pattern of many stars from taking forever on a name that almost matches."""
    name = b"g%d" % next(groups)
    return b"(?=(?P<%s>%s))(?P=%s)" % (name, expression, name)


def _step_expression(step: _Step) -> bytes:
    if len(step) == 1:
        return re.escape(step[0])
    if step == _ANY:
        return b"[^/]"
    return b"[%s]" % b"".join(map(re.escape, step))


class _Matcher:
    """Finds the last of some patterns that matches a path.

    Each pattern comes with its number. Of a suffix with a dot only the names that end alike
    after their last dot need be asked.
    """

    __slots__ = ("_endings", "_extensions", "_names", "_paths", "_suffixes", "_wild", "_wild_paths")

    def __init__(self, patterns: Iterable[tuple[int, Pattern]], prefix: bytes) -> None:
        self._names: dict[bytes, int] = {}
        self._paths: dict[bytes, int] = {}
        self._extensions: dict[bytes, list[tuple[bytes, int]]] = {}
        self._suffixes: dict[bytes, int] = {}
        wild: list[tuple[int, Pattern]] = []
        wild_paths: list[tuple[int, Pattern]] = []
        for number, pattern in patterns:
            spellings = pattern.spellings()
            if pattern.anchored:
                if spellings is None:
                    wild_paths.append((number, pattern))
                else:
                    self._paths.update((prefix + path, number) for path in spellings)
            elif spellings is not None:
                self._names.update(dict.fromkeys(spellings, number))
            elif (suffixes := pattern.suffixes()) is not None:
                self._add_suffixes(suffixes, number)
            else:
                wild.append((number, pattern))
        self._endings = tuple(self._suffixes)
        self._wild = _alternatives(wild)
        self._wild_paths = _alternatives(wild_paths)

    def _add_suffixes(self, suffixes: Iterable[bytes], number: int) -> None:
        for suffix in suffixes:
            _, dot, extension = suffix.rpartition(b".")
            if dot:
                self._extensions.setdefault(extension, []).append((suffix, number))
            else:
                self._suffixes[suffix] = number

    def last(self, path: bytes, name: bytes, start: int) -> int:
        """The number of the pattern, or -1; anchored ones count from start."""
        found = self._names.get(name, -1)
        if self._extensions and (alike := self._extensions.get(name.rpartition(b".")[2])):
            found = max(found, *(n for suffix, n in alike if name.endswith(suffix)), -1)
        if self._endings and name.endswith(self._endings):
            found = max(found, *(n for end, n in self._suffixes.items() if name.endswith(end)))
        if self._wild and (match := self._wild(name)):
            found = max(found, _number(match))
        if self._paths:
            found = max(found, self._paths.get(path, -1))
        if self._wild_paths and (match := self._wild_paths(path, start)):
            found = max(found, _number(match))
        return found


def _alternatives(
    patterns: Sequence[tuple[int, Pattern]],
) -> Callable[..., re.Match[bytes] | None] | None:
    """One expression for all, the last first; the empty group that ends each tells which it is."""
    if not patterns:
        return None
    groups = count()
    each = [b"%s(?P<n%d>)" % (p.expression(groups), number) for number, p in reversed(patterns)]
    return re.compile(b"(?:%s)\\Z" % b"|".join(each)).match


def _number(match: re.Match[bytes]) -> int:
    assert match.lastgroup is not None
    return int(match.lastgroup[1:])


class Rules:
    """The rules of one ignore file, in order."""

    __slots__ = ("_dirs_only", "_ignore_case", "_ignores", "_prefix", "_unconditional", "patterns")

    def __init__(self, patterns: Sequence[Pattern], base: bytes, *, ignore_case: bool) -> None:
        self.patterns = tuple(patterns)
        self._ignore_case = ignore_case
        self._prefix = _folded(base + b"/" if base else b"", ignore_case)
        numbered = list(enumerate(patterns))
        self._unconditional = _Matcher(
            ((n, p) for n, p in numbered if not p.dir_only), self._prefix
        )
        self._dirs_only = _Matcher(((n, p) for n, p in numbered if p.dir_only), self._prefix)

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def decide(self, path: bytes, is_dir: bool) -> bool | None:
        """True: ignored. False: not ignored after all. None: nothing is said about this path."""
        path = _folded(path, self._ignore_case)
        if not path.startswith(self._prefix):
            return None
        return self._decide(path, path.rpartition(b"/")[2], is_dir)

    def _decide(self, path: bytes, name: bytes, is_dir: bool) -> bool | None:
        found = self._unconditional.last(path, name, len(self._prefix))
        if is_dir:
            found = max(found, self._dirs_only.last(path, name, len(self._prefix)))
        return None if found < 0 else not self.patterns[found].negated


def _folded(path: bytes, ignore_case: bool) -> bytes:
    return path.lower() if ignore_case else path


class IgnoreStack:
    """The rules in force in one folder: the later a file was added, the more it counts."""

    __slots__ = ("_files",)

    def __init__(self, files: Iterable[Rules]) -> None:
        self._files = tuple(files)  # the one that counts most comes first

    @classmethod
    def root(cls, *files: Rules) -> IgnoreStack:
        return cls(rules for rules in reversed(files) if rules)

    def enter(self, rules: Rules | None) -> IgnoreStack:
        """The rules in a folder below, whose own ignore file is given."""
        return IgnoreStack((rules, *self._files)) if rules else self

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        """For what stands in this folder; that the folder itself is not ignored is known."""
        for rules in self._files:
            decision = rules.decide(path, is_dir)
            if decision is not None:
                return decision
        return False


class IgnoreTree:
    """Answers for any path in the worktree, and reads each ignore file only once.

    read gives the bytes of a folder's .gitignore, or None. It is asked only for folders that
    are not ignored, since nothing below an ignored folder can be brought back.
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
        stack = self.stack(path[: max(path.rfind(b"/"), 0)])
        return stack is None or stack.ignored(path, is_dir)

    def stack(self, folder: bytes) -> IgnoreStack | None:
        """The rules in force in a folder, or None when the folder is ignored."""
        unknown = []
        while folder not in self._stacks:
            unknown.append(folder)
            folder = folder[: max(folder.rfind(b"/"), 0)]
        stack = self._stacks[folder]
        for folder in reversed(unknown):
            if stack is not None:
                stack = None if stack.ignored(folder, True) else self._enter(stack, folder)
            self._stacks[folder] = stack
        return stack

    def _enter(self, stack: IgnoreStack, folder: bytes) -> IgnoreStack:
        text = self._read(folder)
        return stack.enter(parse(text, folder, ignore_case=self._ignore_case) if text else None)
