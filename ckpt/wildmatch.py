# SPDX-License-Identifier: MIT
"""The language of git's path patterns: `*`, `?`, `[a-z]`, `**`, backslashes.

A glob is taken apart once, into components, segments and steps. From these follow the few
names that it stands for, or their ends, or else a regular expression; the caller takes what
is cheapest. Where versions of git differ, the newer is followed: before 2.52 git read `a**/b`
as `a`, then `**/b`; since then it is `a*/b`.

Left out: what the line of a file says around the glob (`!`, a slash at either end), which is
ignore.py's and config_sources.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count, product

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
