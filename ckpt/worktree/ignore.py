# SPDX-License-Identifier: MIT
"""Which paths git ignores: the patterns of .gitignore, info/exclude and core.excludesFile.

A walk asks for every name it meets, so the patterns of a file are not tried one by one: most
become entries of a few dictionaries. Of the rest, only those are matched whose longest plain
part the name has: tried together, as one regular expression, thousands would take minutes.

Left out: reading the files (and not following a .gitignore that is a symlink), and whether a
path is tracked, which git asks before it asks these rules.
"""

from __future__ import annotations

from ckpt import wildmatch
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Sequence

    ParseFile = Callable[[bytes, bytes], "Rules"]

_MOST_KNOWN = 10_000


@value_class
class Pattern:
    """One line of an ignore file, taken apart.

    Not anchored: the glob is one component, and matches a name at any depth below the base.
    """

    base: bytes
    negated: bool
    dir_only: bool
    anchored: bool
    glob: wildmatch.Glob


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
    glob = wildmatch.read(text.removeprefix(b"/"), ignore_case=ignore_case)
    if glob is None:
        return None
    if len(glob) == 2 and glob[0] == wildmatch.STARS:
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
        wild: dict[bool, list[tuple[int, wildmatch.Glob]]] = {False: [], True: []}
        for number, pattern in patterns:
            if not self._look_up(pattern, number, prefix):
                wild[pattern.anchored].append((number, pattern.glob))
        self._wild_names = _WildGlobs(wild[False])
        self._wild_paths = _WildGlobs(wild[True])
        self._known: dict[bytes, int] = {}

    def _look_up(self, pattern: Pattern, number: int, prefix: bytes) -> bool:
        """Whether the pattern is one that a dictionary can hold."""
        spellings = wildmatch.spellings(pattern.glob)
        if spellings is not None:
            table = self._paths if pattern.anchored else self._names
            start = prefix if pattern.anchored else b""
            table.update((start + spelling, number) for spelling in spellings)
            return True
        if pattern.anchored:
            return self._look_up_tail(pattern, number)
        ends = wildmatch.ends(pattern.glob[0])
        for first, last in ends or ():
            self._look_up_ends(first, last, number)
        return ends is not None

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
        is_tail = len(pattern.glob) > 1 and pattern.glob[0] == wildmatch.STARS
        spellings = wildmatch.spellings(pattern.glob[1:]) if is_tail else None
        for spelling in spellings or ():
            self._tails.setdefault(spelling.rpartition(b"/")[2], []).append((spelling, number))
        return spellings is not None

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

    def __init__(self, globs: Sequence[tuple[int, wildmatch.Glob]]) -> None:
        self._globs = dict(globs)
        # As text, in which Python finds a part in a tenth of the time that it takes in bytes.
        self._parts = [
            (wildmatch.plain_part(glob).decode("latin-1"), number)
            for number, glob in reversed(globs)
        ]
        self._shortest = {number: wildmatch.shortest(glob) for number, glob in globs}
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

            expression = wildmatch.expression(self._globs[number])
            matcher = self._matchers[number] = re.compile(expression + b"\\Z").match
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
