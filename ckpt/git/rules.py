# SPDX-License-Identifier: MIT
"""What gitattributes say about a path, as far as it decides how contents are converted.

Lines that speak of other attributes (`diff`, `merge`, `export-ignore` …) are dropped when a
file is read, so that a folder ruled by nothing else costs nothing per path. For the rest, the
lines that match a path are found through dictionaries, and what each such set of lines comes
to is worked out once: a worktree has many paths, and few different answers.

Left out: reading the files, and not following a .gitattributes that is a symlink.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    ParseFile = Callable[[bytes, bytes], "Rules"]

# A step is a choice of what a name may go on with, a segment is what stands between two `*`,
# and a component is what stands between two `/`.
Step = tuple[bytes, ...]
Segment = tuple[Step, ...]
Component = tuple[Segment, ...]
Glob = tuple[Component, ...]

_NOTHING: Step = ()
_ANY: Step = tuple(b"%c" % byte for byte in range(1, 256) if byte != ord("/"))
_EMPTY: Component = ((),)
_STAR: Component = ((), ())
STARS: Component = ()  # `**`: any number of components
EVERYTHING: tuple[Glob, ...] = ((_STAR,), (STARS,))  # what matches any name

_WILD = b"*?[\\"
_SPECIAL = frozenset(_WILD + b"/")
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


def read(text: bytes, *, ignore_case: bool) -> Glob | None:
    """None for a glob that can match nothing; with ignore_case, paths come in lower case."""
    glob = read_any(text, ignore_case=ignore_case)
    return None if glob is None or _EMPTY in glob else glob


def read_any(text: bytes, *, ignore_case: bool) -> Glob | None:
    """The same of what is compared with more than paths: a URL may have an empty component."""
    if len(text.translate(None, _WILD)) == len(text):  # as most are, a file may have many
        return _plain(text.lower() if ignore_case else text)
    glob = tuple(_Reader(text, ignore_case).components())
    if any(_NOTHING in segment for component in glob for segment in component):
        return None
    return glob


def _plain(text: bytes) -> Glob:
    """A glob in which everything stands for itself."""
    return tuple((((name,),),) if name else _EMPTY for name in text.split(b"/"))


def spellings(glob: Glob) -> list[bytes] | None:
    """Every path that matches, when they are few enough to list."""
    if any(len(component) != 1 for component in glob):
        return None
    steps = [step for (segment,) in glob for step in ((b"/",), *segment)]
    return _spell(steps[1:])


def suffixes(component: Component) -> list[bytes] | None:
    """Every ending that a matching name has, for one like `*.py[co]`."""
    if len(component) != 2 or component[0] or not component[1]:
        return None
    return _spell(component[1])


def ends(component: Component) -> list[tuple[bytes, bytes]] | None:
    """What a matching name begins and ends with, for one like `a*.py[co]`."""
    if len(component) != 2 or component == _STAR:
        return None
    first, last = map(_spell, component)
    if first is None or last is None or len(first) * len(last) > _MOST_SPELLINGS:
        return None
    return [*product(first, last)]


def _spell(steps: Sequence[Step]) -> list[bytes] | None:
    spellings = 1
    for step in steps:
        spellings *= len(step)
        if spellings > _MOST_SPELLINGS:
            return None
    return [b"".join(choice) for choice in product(*steps)]


def plain_part(glob: Glob) -> bytes:
    """The longest of the parts that stand for themselves, all of which a matching path has."""
    plain: list[list[bytes]] = [[]]
    for component in glob:
        for segment in component:
            plain.append([])
            for step in segment:
                if len(step) == 1:
                    plain[-1].append(step[0])
                else:
                    plain.append([])
    return max(map(b"".join, plain), key=len)


def shortest(glob: Glob) -> int:
    """How many bytes a matching path has at least; no step and no component is for nothing."""
    components = [component for component in glob if component != STARS]
    steps = (step for component in components for segment in component for step in segment)
    return sum(len(step[0]) for step in steps) + max(len(components) - 1, 0)


def expression(glob: Glob) -> bytes:
    """A regular expression for the whole of a path.

    What stands between two `**` is taken where it first fits, and not tried again.
    """
    groups = count()
    runs: list[list[bytes]] = [[]]
    for component in glob[:-1]:
        if component == STARS:
            runs.append([])
        else:
            runs[-1].append(_component_expression(component, groups) + b"/")
    first, *others = [b"".join(run) for run in runs]
    end = b"(?s:.*)" if glob[-1] == STARS else _component_expression(glob[-1], groups)
    if not others:
        return first + end
    gap = b"(?:[^/]*/)*"
    middle = [_once(gap + b"?" + run, groups) for run in others[:-1]]
    return b"".join((first, *middle, gap, others[-1], end))


def _component_expression(component: Component, groups: Iterator[int]) -> bytes:
    first, *others = [b"".join(map(_step_expression, segment)) for segment in component]
    if not others:
        return first
    middle = [_once(b"[^/]*?" + segment, groups) for segment in others[:-1]]
    return b"".join((first, *middle, b"[^/]*", others[-1]))


def _once(part: bytes, groups: Iterator[int]) -> bytes:
    """Keeps a glob of many stars from taking forever on a name that almost matches."""
    name = b"g%d" % next(groups)
    return b"(?=(?P<%s>%s))(?P=%s)" % (name, part, name)


def _step_expression(step: Step) -> bytes:
    import re

    if step is _ANY:
        return b"[^/]"
    if len(step) == 1:
        return re.escape(step[0])
    if len(step) < len(_ANY) // 2:
        return b"[%s]" % b"".join(map(re.escape, step))
    left_out = set(_ANY).difference(step)
    return b"[^/%s]" % b"".join(map(re.escape, left_out))


@lru_cache(maxsize=256)
def _choice(members: frozenset[int], negated: bool) -> Step:
    """What a bracket stands for; a long glob may be made of little else than the same."""
    return tuple(byte for byte in _ANY if (byte[0] in members) != negated)


class _Reader:
    """Takes a glob apart byte by byte.

    What can match nothing (a bracket without end, a backslash at the end) reads as _NOTHING.
    With ignore_case the names to compare are in lower case. There git folds plain bytes,
    ranges and [:upper:] but neither `\\A` nor `[A]`, which then match nothing.
    """

    def __init__(self, glob: bytes, ignore_case: bool) -> None:
        self.glob = glob
        self.ignore_case = ignore_case
        self.at = 0
        self.closing = -1  # where the next `]` is, as far as it was looked for

    def components(self) -> Iterator[Component]:
        last = None
        while True:
            component = self.component()
            escaped_slash = self.take(b"\\/")
            if component == STARS and escaped_slash:
                yield _STAR  # unlike `**/`, `**\/` stands for one folder at least
            if component != STARS or last != STARS or escaped_slash:  # `**/**` is `**`
                yield component
            last = component
            if not escaped_slash and not self.take(b"/"):
                return

    def component(self) -> Component:
        stars = self.stars()
        if stars > 1 and self.at_end_of_component():
            return STARS
        segments: list[Segment] = [()] if stars else []
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

    def segment(self) -> Segment:
        steps = []
        while not self.at_end_of_component() and not self.glob.startswith(b"*", self.at):
            steps.append(self.step())
        return tuple(steps)

    def plain(self) -> bytes:
        """What stands for itself, up to a character that does not."""
        start = self.at
        while self.at < len(self.glob) and self.glob[self.at] not in _SPECIAL:
            self.at += 1
        return self.glob[start : self.at]

    def step(self) -> Step:
        if plain := self.plain():
            return (plain.lower() if self.ignore_case else plain,)
        if self.take(b"?"):
            return _ANY
        if self.take(b"["):
            return self.bracket()
        self.take(b"\\")
        escaped = self.next()
        return (escaped,) if escaped else _NOTHING

    def bracket(self) -> Step:
        negated = self.take(b"!") or self.take(b"^")
        members = self.members()
        return _NOTHING if members is None else _choice(frozenset(members), negated)

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
        if self.closing < self.at + 2:
            self.closing = self.glob.find(b"]", self.at + 2)
        end = self.closing
        return end < 0 or (end > self.at + 2 and self.glob[end - 1] == ord(":"))

    def named_class(self) -> bytes | None:
        end = self.glob.find(b":]", self.at + 2)
        name = self.glob[self.at + 2 : end if end >= 0 else len(self.glob)]
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


# -- Names that some file system takes for one of git's own, as git itself sees it

_IGNORED_BY_HFS = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)
# The short names that NTFS gives are of eight letters; from the fifth on of a kind, hashed ones.
_HASHED = "|".join(rf"{'gi7eba'[:n]}~[1-9][0-9]{{{6 - n}}}" for n in range(7))
_MODULES_OF_NTFS = re.compile(rf"(?s)(?:\.gitmodules|gitmod~[1-4]|{_HASHED})[. ]*(?::.*)?")


def is_gitmodules(name: bytes) -> bool:
    """Whether some file system would take the name for `.gitmodules`, where git accepts no link:
    it would read about submodules what is none of the project's."""
    text = folded(name)
    return text == ".gitmodules" or any(map(_MODULES_OF_NTFS.fullmatch, text.split("\\")))


def folded(name: bytes) -> str:
    """A name without what HFS+ does not tell apart."""
    return name.decode("utf-8", "replace").translate(_IGNORED_BY_HFS).lower()


def is_like_dot_git(name: bytes) -> bool:
    """A name that git keeps out of every tree, since some file system takes it for `.git`."""
    plain = name.lower().split(b":")[0].rstrip(b". ")
    return plain in (b".git", b"git~1")


# -- Which paths git ignores: the patterns of .gitignore, info/exclude and core.excludesFile

_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file, taken apart.

    Not anchored: the glob is one component, and matches a name at any depth below the base.
    """

    base: bytes
    negated: bool
    dir_only: bool
    anchored: bool
    glob: Glob


def parse(text: bytes, base: bytes = b"", *, ignore_case: bool = False) -> Rules:
    """The rules of one ignore file; base is the folder that it stands in."""
    patterns = (parse_pattern(line, base, ignore_case) for line in _lines(text))
    return Rules([pattern for pattern in patterns if pattern], base, ignore_case=ignore_case)


def parser(ignore_case: bool) -> ParseFile:
    """The same, for files that are all read so."""
    return lambda text, base: parse(text, base, ignore_case=ignore_case)


def _lines(text: bytes) -> Iterator[bytes]:
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if not line.startswith(b"#"):
            # To git a line is a C string: it ends at a NUL.
            yield _without_trailing_spaces(line.removesuffix(b"\r").partition(b"\0")[0])


def _without_trailing_spaces(line: bytes) -> bytes:
    if not line.endswith(b" "):
        return line
    stripped = line.rstrip(b" ")
    backslashes = len(stripped) - len(stripped.rstrip(b"\\"))
    return stripped + b" " if backslashes % 2 else stripped


def parse_pattern(line: bytes, base: bytes, ignore_case: bool) -> Pattern | None:
    """One line without its blanks; None for one that can match nothing."""
    text = line.removeprefix(b"!")
    negated = text != line
    dir_only = text.endswith(b"/")
    text = text.removesuffix(b"/")
    anchored = b"/" in text
    glob = read(text.removeprefix(b"/"), ignore_case=ignore_case)
    if glob is None:
        return None
    if len(glob) == 2 and glob[0] == STARS:
        glob, anchored = glob[1:], False  # `**/a` is `a`
    return Pattern(base, negated, dir_only, anchored, glob)


_Ends = tuple[bytes, bytes, int]


class _Matcher:
    """Finds the last of some patterns that matches a path; each comes with its number."""

    __slots__ = (
        "_beginnings",
        "_endings",
        "_extensions",
        "_known",
        "_names",
        "_paths",
        "_tails",
        "_wild_names",
        "_wild_paths",
    )

    def __init__(self, patterns: Iterable[tuple[int, Pattern]], prefix: bytes) -> None:
        self._names: dict[bytes, int] = {}
        self._extensions: dict[bytes, list[_Ends]] = {}
        self._endings: dict[bytes, list[_Ends]] = {}
        self._beginnings: dict[bytes, list[_Ends]] = {}
        self._paths: dict[bytes, int] = {}
        self._tails: dict[bytes, list[tuple[bytes, int]]] = {}
        wild: dict[bool, list[tuple[int, Glob]]] = {False: [], True: []}
        for number, pattern in patterns:
            if not self._look_up(pattern, number, prefix):
                wild[pattern.anchored].append((number, pattern.glob))
        self._wild_names = _WildGlobs(wild[False])
        self._wild_paths = _WildGlobs(wild[True])
        self._known: dict[bytes, int] = {}

    def _look_up(self, pattern: Pattern, number: int, prefix: bytes) -> bool:
        """Whether the pattern is one that a dictionary can hold."""
        found = spellings(pattern.glob)
        if found is not None:
            table = self._paths if pattern.anchored else self._names
            start = prefix if pattern.anchored else b""
            table.update((start + spelling, number) for spelling in found)
            return True
        if pattern.anchored:
            return self._look_up_tail(pattern, number)
        parts = ends(pattern.glob[0])
        for first, last in parts or ():
            self._look_up_ends(first, last, number)
        return parts is not None

    def _look_up_ends(self, first: bytes, last: bytes, number: int) -> None:
        """Under what a name that ends so has after its last dot, or else as its last byte; if
        it may end in anything, under its first."""
        _, dot, extension = last.rpartition(b".")
        table, key = self._beginnings, first[:1]
        if last:
            table, key = (self._extensions, extension) if dot else (self._endings, last[-1:])
        table.setdefault(key, []).append((first, last, number))

    def _look_up_tail(self, pattern: Pattern, number: int) -> bool:
        """One like `**/a/b`: under the last of its names."""
        is_tail = len(pattern.glob) > 1 and pattern.glob[0] == STARS
        found = spellings(pattern.glob[1:]) if is_tail else None
        for spelling in found or ():
            self._tails.setdefault(spelling.rpartition(b"/")[2], []).append((spelling, number))
        return found is not None

    def last(self, path: bytes, name: bytes, start: int) -> int:
        """The number of the pattern, or -1; a wild path is compared from start."""
        found = self._known.get(name)
        if found is None:  # many folders have names in common
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[name] = self._last_for_name(name)
        if self._paths and path in self._paths:
            found = max(found, self._paths[path])
        for tail, number in self._tails.get(name, ()) if self._tails else ():
            if number > found and (b"/" + path[start:]).endswith(b"/" + tail):
                found = number
        return self._wild_paths.last(path, start, found)

    def _last_for_name(self, name: bytes) -> int:
        found = self._names.get(name, -1)
        if self._extensions:
            found = _last_with_ends(self._extensions.get(name.rpartition(b".")[2], ()), name, found)
        if self._endings:
            found = _last_with_ends(self._endings.get(name[-1:], ()), name, found)
        if self._beginnings:
            found = _last_with_ends(self._beginnings.get(name[:1], ()), name, found)
        return self._wild_names.last(name, 0, found)


def _last_with_ends(patterns: Iterable[_Ends], name: bytes, found: int) -> int:
    for first, last, number in patterns:
        if number > found and name.startswith(first) and name.endswith(last, len(first)):
            found = number
    return found


class _WildGlobs:
    """Globs that need an expression, which is made when it is first asked; each has a number."""

    __slots__ = ("_globs", "_matchers", "_parts", "_shortest")

    def __init__(self, globs: Sequence[tuple[int, Glob]]) -> None:
        self._globs = dict(globs)
        # As text, in which Python finds a part in a tenth of the time that it takes in bytes.
        self._parts = [
            (plain_part(glob).decode("latin-1"), number) for number, glob in reversed(globs)
        ]
        self._shortest = {number: shortest(glob) for number, glob in globs}
        self._matchers: dict[int, Callable[[bytes, int], re.Match[bytes] | None]] = {}

    def last(self, path: bytes, start: int, found: int) -> int:
        """The number of the last glob that matches a path from start, or else what was found."""
        if not self._parts:
            return found
        text = path.decode("latin-1")
        for number in [number for part, number in self._parts if part in text]:
            if number <= found:
                break
            # No expression is made of a glob that is longer than all paths are.
            if self._shortest[number] <= len(path) - start and self._matcher(number)(path, start):
                return number
        return found

    def _matcher(self, number: int) -> Callable[[bytes, int], re.Match[bytes] | None]:
        matcher = self._matchers.get(number)
        if matcher is None:
            import re

            text = expression(self._globs[number])
            matcher = self._matchers[number] = re.compile(text + b"\\Z").match
        return matcher


class Rules:
    """The rules of one ignore file, in order."""

    __slots__ = ("_any", "_dirs", "_prefix", "_start", "ignore_case", "patterns")

    def __init__(self, patterns: Sequence[Pattern], base: bytes, *, ignore_case: bool) -> None:
        self.patterns = tuple(patterns)
        self.ignore_case = ignore_case
        prefix = base + b"/" if base else b""
        self._prefix = prefix.lower() if ignore_case else prefix
        self._start = len(prefix)
        numbered = list(enumerate(patterns))
        self._any = _Matcher(((n, p) for n, p in numbered if not p.dir_only), self._prefix)
        self._dirs = _Matcher(((n, p) for n, p in numbered if p.dir_only), self._prefix)

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def decide(self, path: bytes, is_dir: bool) -> bool | None:
        """True: ignored. False: not ignored after all. None: nothing is said about this path."""
        if self.ignore_case:
            path = path.lower()
        if not path.startswith(self._prefix):
            return None
        return self.decide_below(path, path.rpartition(b"/")[2], is_dir)

    def decide_below(self, path: bytes, name: bytes, is_dir: bool) -> bool | None:
        """The same for a path known to be below the base, in lower case if case is ignored."""
        found = self._any.last(path, name, self._start)
        if is_dir:
            found = max(found, self._dirs.last(path, name, self._start))
        return None if found < 0 else not self.patterns[found].negated


class IgnoreStack:
    """The rules in force in one folder: the later a file was added, the more it counts.

    All files are read with the same ignore_case.
    """

    __slots__ = ("_files", "_ignore_case")

    def __init__(self, files: Iterable[Rules]) -> None:
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
        if self._ignore_case:
            path = path.lower()
        name = path.rpartition(b"/")[2]
        for rules in self._files:
            decision = rules.decide_below(path, name, is_dir)
            if decision is not None:
                return decision
        return False


class Everything(IgnoreStack):
    """Rules by which all is ignored."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        return True


class IgnoreTree:
    """Answers for any path in the worktree, and reads each ignore file only once.

    read gives the bytes of a folder's .gitignore, or None. It is asked only for folders that
    are not ignored, since nothing below an ignored folder can be brought back. parse_file makes
    the rules of them, for whoever has others that read the same files.
    """

    def __init__(
        self,
        root: IgnoreStack,
        read: Callable[[bytes], bytes | None],
        *,
        ignore_case: bool = False,
        parse_file: ParseFile | None = None,
    ) -> None:
        self._read = read
        self._parse = parse_file or parser(ignore_case)
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
        return stack.enter(self._parse(text, folder) if text else None)


# -- What gitattributes say about a path, as far as it decides how contents are converted

# `text` is True, `-text` False, `!text` None, `text=auto` its value.
State = bool | bytes | None
States = tuple[tuple[bytes, State], ...]
Attributes = Mapping[bytes, State]

CONVERTING = frozenset((b"text", b"crlf", b"eol", b"ident", b"filter", b"working-tree-encoding"))

_BINARY: States = ((b"diff", False), (b"merge", False), (b"text", False))
_BUILT_IN = {b"binary": _BINARY}
_NOTHING_attributes: Attributes = {}

_BLANK = b" \t\r\n"
_LONGEST_LINE = 2047
_LARGEST_FILE = 100 << 20
_WORD = re.compile(rb"[^ \t\r\n]+")
_NAME = re.compile(rb"[A-Za-z0-9_.][-A-Za-z0-9_.]*\Z")
_QUOTED = re.compile(rb'"((?:[^"\\]|\\(?:[abfnrtv"\\]|[0-3][0-7]{2}))*)"')
_ESCAPE = re.compile(rb"(?s)\\([0-7]{3}|.)")
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_ESCAPED[b"v"] = b"\v"
_MACRO = b"[attr]"


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a pattern with what it sets, or the macro of that name."""

    name: bytes
    states: States
    is_macro: bool


def asks_for_conversion(text: bytes) -> bool:
    """True if a line of an attributes file may turn a conversion on."""
    return any(
        name in CONVERTING and state not in (False, None)
        for line in _lines_attributes(text)
        for name, state in line.states
    )


def _lines_attributes(text: bytes) -> Iterator[Line]:
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

    def __init__(self, glob: Glob, anchored: bool, number: int) -> None:
        self._glob = glob
        self._anchored = anchored
        self._match: Callable[..., re.Match[bytes] | None] | None = None
        self.number = number

    def matches(self, path: bytes, name: bytes, start: int) -> bool:
        """Whether it is about a path, which is below its folder from `start` on."""
        subject, at = (path, start) if self._anchored else (name, 0)
        if shortest(self._glob) > len(subject) - at:
            return False
        if self._match is None:
            import re

            self._match = re.compile(b"(?:%s)\\Z" % expression(self._glob)).match
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
            pattern = parse_pattern(line.name, base, ignore_case)
            # A folder has no contents, and git forbids `!` here.
            if pattern is not None and not pattern.dir_only and not pattern.negated:
                self._add(pattern, number)

    def __bool__(self) -> bool:
        return bool(self._always or self._names or self._endings or self._paths or self._wild)

    def _add(self, pattern: Pattern, number: int) -> None:
        glob = pattern.glob
        spelt = spellings(glob)
        ended = None if pattern.anchored else suffixes(glob[0])
        if glob in EVERYTHING and not pattern.anchored:
            self._always.append(number)
        elif spelt is not None:
            table, start = (self._paths, self._prefix) if pattern.anchored else (self._names, b"")
            for spelling in spelt:
                table.setdefault(start + spelling, []).append(number)
        elif ended is not None:
            self._endings += [(suffix, number) for suffix in ended]
        else:
            part = plain_part(glob).decode("latin-1")
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
        files = [list(_lines_attributes(text)) for text in (system, user, read(b"") or b"", info)]
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
            return _NOTHING_attributes
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
            own = self._rules(_lines_attributes(text), folder) if text else None
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
