# SPDX-License-Identifier: MIT
"""What changed between two texts, as a patch that git applies.

Pure functions on bytes. `changes` finds the lines that differ, with the counting of `linediff`
for a tool; `unified` tells of them as `git diff` does.

Left out: renames, what attributes say about diffs, binary patches (such files are
only said to differ), and git's taste in indentation where a change could stand in
several places: here it stands in the last.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from itertools import accumulate, pairwise
from stat import S_IFMT

from ckpt.linediff import MOST_WORK, Lines, equal_ends, is_binary, last_row, lines_of
from ckpt.patterns import lazy_pattern
from ckpt.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

# The search is exact up to the same effort as that of a count. With more of it, or more than
# MOST_LINES in all, texts are compared from one line that each side has just once to the next,
# and where there is none, everything is replaced.
MOST_LINES = 1 << 17

_ABSENT = b"/dev/null"
_NO_NEWLINE = b"\n\\ No newline at end of file\n"
_HEADING = lazy_pattern(rb"[A-Za-z_$]")
_UNSAFE = lazy_pattern(rb'[\x00-\x1f"\\\x7f-\xff]')
_ESCAPES = dict(zip(b'\a\b\t\n\v\f\r"\\', b'abtnvfr"\\', strict=True))
_ZERO_GROWS = bytes.maketrans(b"01", b"\1\0")


class Block(NamedTuple):
    """Lines of the old text, from `old` up to `old_end`, that give way to some of the new."""

    old: int
    old_end: int
    new: int
    new_end: int


def unified(
    old: bytes | None,
    new: bytes | None,
    *,
    path: bytes,
    old_mode: int | None,
    new_mode: int | None,
    old_id: bytes,
    new_id: bytes,
    context: int = 3,
) -> bytes:
    """The patch from old to new as `git diff` prints it; None is a file that is not there.

    For a gitlink pass the text that git shows for one, "Subproject commit <id>".
    """
    before = _Side(old, old_mode or 0, old_id, b"a/" + path)
    after = _Side(new, new_mode or 0, new_id, b"b/" + path)
    if old is None or new is None or S_IFMT(before.mode) == S_IFMT(after.mode):
        return _section(before, after, context)
    gone, fresh = after._replace(content=None), before._replace(content=None)
    return _section(before, gone, context) + _section(fresh, after, context)


class _Side(NamedTuple):
    content: bytes | None
    mode: int
    id: bytes
    name: bytes

    @property
    def text(self) -> bytes:
        return self.content or b""

    @property
    def short_id(self) -> bytes:
        return self.id[:7] if self.content is not None else b"0000000"

    @property
    def label(self) -> bytes:
        return quote_path(self.name) if self.content is not None else _ABSENT

    @property
    def tabbed_label(self) -> bytes:
        """Git ends a name that holds a space with a tab, which old `patch` needs."""
        return self.label + (b"\t" if b" " in self.label else b"")


def _section(before: _Side, after: _Side, context: int) -> bytes:
    if before.content == after.content and before.mode == after.mode:
        return b""
    parts = [b"diff --git %s %s\n" % (quote_path(before.name), quote_path(after.name))]
    if before.content is None:
        parts.append(b"new file mode %06o\n" % after.mode)
    elif after.content is None:
        parts.append(b"deleted file mode %06o\n" % before.mode)
    elif before.mode != after.mode:
        parts.append(b"old mode %06o\nnew mode %06o\n" % (before.mode, after.mode))
    if before.content != after.content:
        parts += _content_change(before, after, context)
    return b"".join(parts)


def _content_change(before: _Side, after: _Side, context: int) -> Iterator[bytes]:
    both = before.content is not None and after.content is not None
    mode = b" %06o" % after.mode if both and before.mode == after.mode else b""
    yield b"index %s..%s%s\n" % (before.short_id, after.short_id, mode)
    if before.text == after.text:
        return
    if is_binary(before.text) or is_binary(after.text):
        yield b"Binary files %s and %s differ\n" % (before.label, after.label)
        return
    yield b"--- %s\n+++ %s\n" % (before.tabbed_label, after.tabbed_label)
    yield from _hunks(lines_of(before.text), lines_of(after.text), context)


def _hunks(a: Lines, b: Lines, context: int) -> Iterator[bytes]:
    heading, searched = b"", 0
    for group in _groups(changes(a, b), context):
        start = max(0, group[0].old - context)
        stop = min(len(a), group[-1].old_end + context)
        heading = _heading(a, searched, start, heading)
        searched = start
        new_start = group[0].new - (group[0].old - start)
        new_stop = group[-1].new_end + (stop - group[-1].old_end)
        ranges = _range(start, stop), _range(new_start, new_stop)
        yield b"@@ -%s +%s @@%s\n" % (*ranges, heading)
        for block in group:
            yield from _marked(b" ", a[start : block.old])
            yield from _marked(b"-", a[block.old : block.old_end])
            yield from _marked(b"+", b[block.new : block.new_end])
            start = block.old_end
        yield from _marked(b" ", a[start:stop])


def _groups(blocks: list[Block], context: int) -> Iterator[list[Block]]:
    """Blocks whose context would touch or overlap go into one hunk."""
    group = blocks[:1]
    for before, block in pairwise(blocks):
        if block.old - before.old_end > 2 * context:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _heading(lines: Lines, start: int, stop: int, default: bytes) -> bytes:
    """What git takes for the function that a hunk is in: the last line not indented."""
    for number in range(stop - 1, start - 1, -1):
        if _HEADING.match(lines[number]):
            return b" " + lines[number][:80].rstrip(b" \t\r\n")
    return default


def _range(start: int, stop: int) -> bytes:
    length = stop - start
    if length == 1:
        return b"%d" % (start + 1)
    return b"%d,%d" % (start + 1 if length else start, length)


def _marked(mark: bytes, lines: Lines) -> Iterator[bytes]:
    for line in lines:
        yield mark + line if line.endswith(b"\n") else mark + line + _NO_NEWLINE


def quote_path(path: bytes) -> bytes:
    """The path as git prints it: in quotes, with C's escapes, if it has unusual bytes."""
    escaped = _UNSAFE.sub(_escape, path)
    return path if escaped == path else b'"' + escaped + b'"'


def _escape(match: re.Match[bytes]) -> bytes:
    byte = match[0][0]
    return b"\\%c" % _ESCAPES[byte] if byte in _ESCAPES else b"\\%03o" % byte


def changes(a: Lines, b: Lines) -> list[Block]:
    """The blocks of lines that differ, in order, with equal lines between any two."""
    kept_a, kept_b = bytearray(len(a)), bytearray(len(b))
    head, tail = equal_ends(a, b)
    for kept in (kept_a, kept_b):
        kept[:head] = b"\1" * head
        kept[len(kept) - tail :] = b"\1" * tail
    in_a, in_b = set(a[head : len(a) - tail]), set(b[head : len(b) - tail])
    rows = [i for i in range(head, len(a) - tail) if a[i] in in_b]
    columns = [j for j in range(head, len(b) - tail) if b[j] in in_a]
    for x, y in _equal_pairs([a[i] for i in rows], [b[j] for j in columns]):
        kept_a[rows[x]] = kept_b[columns[y]] = 1
    return _slid_down(list(_blocks(kept_a, kept_b)), a, b)


def _blocks(kept_a: bytearray, kept_b: bytearray) -> Iterator[Block]:
    i = j = 0
    while i < len(kept_a) or j < len(kept_b):
        equal = min(_find(kept_a, b"\0", i) - i, _find(kept_b, b"\0", j) - j)
        i, j = i + equal, j + equal
        i_end, j_end = _find(kept_a, b"\1", i), _find(kept_b, b"\1", j)
        if i < i_end or j < j_end:
            yield Block(i, i_end, j, j_end)
        i, j = i_end, j_end


def _find(marks: bytearray, mark: bytes, start: int) -> int:
    found = marks.find(mark, start)
    return found if found >= 0 else len(marks)


def _slid_down(blocks: list[Block], a: Lines, b: Lines) -> list[Block]:
    """Each pure insertion or deletion moved to the last place where it says the same."""
    slid: list[Block] = []  # last block first
    for block in reversed(blocks):
        while True:
            block = _slide(block, slid[-1].old if slid else len(a), a, b)
            if not slid or block.old_end < slid[-1].old:
                break
            below = slid.pop()
            block = Block(block.old, below.old_end, block.new, below.new_end)
        slid.append(block)
    return slid[::-1]


def _slide(block: Block, limit: int, a: Lines, b: Lines) -> Block:
    old, old_end, new, new_end = block
    if old < old_end and new < new_end:
        return block
    lines, first, after = (b, new, new_end) if old == old_end else (a, old, old_end)
    by = 0
    while old_end + by < limit and lines[first + by] == lines[after + by]:
        by += 1
    return Block(old + by, old_end + by, new + by, new_end + by)


def _equal_pairs(a: Lines, b: Lines) -> Iterator[tuple[int, int]]:
    """Positions of the lines that stay in place, in no order.

    The texts are cut where their longest common subsequence can be, and the parts again,
    until a part is equal or has nothing in common (Hirschberg's way, in little memory).
    """
    parts = [(0, 0, len(a), len(b))]
    while parts:
        i, j, i_end, j_end = parts.pop()
        while i < i_end and j < j_end and a[i] == b[j]:
            yield i, j
            i, j = i + 1, j + 1
        while i < i_end and j < j_end and a[i_end - 1] == b[j_end - 1]:
            i_end, j_end = i_end - 1, j_end - 1
            yield i_end, j_end
        if i == i_end or j == j_end:
            continue
        cuts = [(i + x, j + y) for x, y in _cuts(a[i:i_end], b[j:j_end])]
        if cuts:
            corners = [(i, j), *cuts, (i_end, j_end)]
            parts += [(*start, *end) for start, end in pairwise(corners)]


def _cuts(a: Lines, b: Lines) -> list[tuple[int, int]]:
    """Where to cut two texts that differ at both ends; nowhere if they share no line."""
    if len(a) * len(b) > MOST_WORK or len(a) + len(b) > MOST_LINES:
        return _lines_found_once(a, b)
    if len(a) < len(b):
        return [(x, y) for y, x in _middle(b, a)]
    return _middle(a, b)


def _middle(a: Lines, b: Lines) -> list[tuple[int, int]]:
    """A point halfway through `b` where a longest common subsequence passes."""
    if len(b) == 1:
        return [(a.index(b[0]), 0)] if b[0] in a else []
    half = len(b) // 2
    before = _lengths(a, b[:half])
    after = _lengths(a[::-1], b[: half - 1 : -1])
    longest, x = max((n + m, x) for x, (n, m) in enumerate(zip(before, after[::-1], strict=True)))
    return [(x, half)] if longest else []


def _lengths(a: Lines, b: Lines) -> list[int]:
    """How long a subsequence the first n lines of `a` have in common with `b`, by n."""
    row = last_row(a, b) | 1 << len(a)
    grows = bin(row)[:2:-1].encode().translate(_ZERO_GROWS)
    return [0, *accumulate(grows)]


def _lines_found_once(a: Lines, b: Lines) -> list[tuple[int, int]]:
    """Lines that each text has just once, as many as stand in the same order in both."""
    in_a, in_b = Counter(a), Counter(b)
    where = {line: x for x, line in enumerate(a) if in_a[line] == in_b[line] == 1}
    chains: list[tuple[int, int, int]] = []  # position in a and b, number of the one before
    lowest: list[int] = []  # by length of chain: lowest end in a, and whose it is
    owners: list[int] = []
    for y, line in enumerate(b):
        if line in where:
            x = where[line]
            length = bisect(lowest, x)
            chains.append((x, y, owners[length - 1] if length else -1))
            lowest[length : length + 1] = [x]
            owners[length : length + 1] = [len(chains) - 1]
    found, owner = [], owners[-1] if owners else -1
    while owner >= 0:
        x, y, owner = chains[owner]
        found.append((x, y))
    return found[::-1]
