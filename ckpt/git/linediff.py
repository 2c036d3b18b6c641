# SPDX-License-Identifier: MIT
"""Compare two texts line by line, and apply the patches of `git diff --binary`.

difflib, which dulwich uses too, takes 38 ms where this comparison takes 5: common lines at both
ends and lines of only one side are set aside first. dulwich parses and applies patches, but does
not check the ids of their index lines. Left out: renames, copies, combined diffs.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from ckpt.git.objects import DamagedObject, reporting_damage

if TYPE_CHECKING:
    from dulwich import patch

# The limit of old lines times new lines to compare (16,000 by 16,000, one bit of memory each).
# Beyond it, all of them are replaced.
MOST_WORK = 1 << 28

Lines = list[bytes]


class Block(NamedTuple):
    """Lines of the old text, from `old` up to `old_end`, replaced by lines of the new text."""

    old: int
    old_end: int
    new: int
    new_end: int


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:8000]


def count(old: bytes, new: bytes) -> tuple[int, int]:
    """Return the number of lines inserted and deleted; zeros if either side is binary."""
    if is_binary(old) or is_binary(new):
        return 0, 0
    a, b = lines_of(old), lines_of(new)
    common = sum(1 for _ in _pairs(a, b))
    return len(b) - common, len(a) - common


def lines_of(data: bytes) -> Lines:
    """Split data into lines that keep their newlines."""
    return BytesIO(data).readlines()


def changes(a: Lines, b: Lines) -> list[Block]:
    """Return the blocks of lines that differ, in order; an insertion or deletion that can slide is
    at its last position, as in git."""
    blocks = []
    i = j = 0
    for x, y in [*sorted(_pairs(a, b)), (len(a), len(b))]:
        is_pure = (x == i) != (y == j)
        if is_pure and i < len(a) and j < len(b) and a[i] == b[j]:
            x, y = i, j
        if (i, j) != (x, y):
            blocks.append(Block(i, x, j, y))
        i, j = x + 1, y + 1
    return blocks


# -- Longest common subsequence


def _pairs(a: Lines, b: Lines) -> Iterator[tuple[int, int]]:
    """Yield the pairs of positions of a longest common subsequence, unordered."""
    most = min(len(a), len(b))
    head = 0
    while head < most and a[head] == b[head]:
        yield head, head
        head += 1
    tail = 0
    while tail < most - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
        yield len(a) - tail, len(b) - tail
    if head + tail == most:
        return
    in_a, in_b = set(a[head : len(a) - tail]), set(b[head : len(b) - tail])
    rows = [x for x in range(head, len(a) - tail) if a[x] in in_b]
    columns = [y for y in range(head, len(b) - tail) if b[y] in in_a]
    left, right = [a[x] for x in rows], [b[y] for y in columns]
    if len(left) + len(right) < len(a) + len(b):
        found = _pairs(left, right)
    else:
        found = _longest(left, right) if len(left) * len(right) <= MOST_WORK else iter(())
    for x, y in found:
        yield rows[x], columns[y]


def _longest(a: Lines, b: Lines) -> Iterator[tuple[int, int]]:
    """Yield the same from a table of common subsequences with a row for each line of `b`.

    A row is one integer. Its bit n is 0 if line n of `a` makes the longest subsequence longer. The
    next row takes four operations: the carry of the sum moves each 0 down to the next line of `a`
    that equals the line of `b`.
    """
    where = _positions(a)
    every = (1 << len(a)) - 1
    table = [every]
    for line in b:
        row = table[-1]
        hits = row & where.get(line, 0)
        table.append(((row + hits) | (row - hits)) & every)
    x = len(a)
    for y in reversed(range(len(b))):
        grows = ~table[y + 1] & ((1 << x) - 1)
        if not grows:
            return
        x = grows.bit_length()
        if table[y] >> (x - 1) & 1:  # line y is needed
            x -= 1
            yield x, y


def _positions(lines: Lines) -> dict[bytes, int]:
    """Return for each line an integer whose set bits are the positions of the line."""
    positions: dict[bytes, list[int]] = {}
    for position, line in enumerate(lines):
        positions.setdefault(line, []).append(position)
    found = {}
    for line, where in positions.items():
        # One | per position would copy the whole integer each time.
        octets = bytearray(where[-1] // 8 + 1)
        for position in where:
            octets[position >> 3] |= 1 << (position & 7)
        found[line] = int.from_bytes(octets, "little")
    return found


# -- Patches

LARGEST = 1 << 28  # bytes of a file or patch, which may be a few compressed bytes

_IDS = re.compile(rb"(?m)^index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: [0-7]{6})?$")
_OF_TWO_FILES = re.compile(rb"(?m)^(?:rename|copy) (?:from|to) ")
_ESCAPES = dict(zip(b'\a\b\t\n\v\f\r"\\', b'abtnvfr"\\', strict=True))


class FilePatch(NamedTuple):
    """A patch of one file: a path is None if the file is added or deleted.

    Ids may be abbreviated, and are empty if the content does not change."""

    old_path: bytes | None
    new_path: bytes | None
    old_id: bytes
    new_id: bytes
    parsed: patch.FilePatch

    def apply(self, content: bytes) -> bytes:
        """Apply the patch to a content; DamagedObject if it does not apply. The caller must compare
        the ids: dulwich may apply only a part of a corrupt patch."""
        from dulwich.pack import apply_delta
        from dulwich.patch import apply_patch_hunks, git_base85_decode

        with reporting_damage():
            if not self.parsed.binary:
                lines = apply_patch_hunks(self.parsed, lines_of(content))
                if lines is None:
                    raise DamagedObject("it was made for another content")
                return b"".join(lines)
            deflated = git_base85_decode(self.parsed.binary_new or b"")
            data = zlib.decompressobj().decompress(deflated, LARGEST)
            return b"".join(apply_delta(content, data)) if self.parsed.binary_new_delta else data


def parse(data: bytes) -> list[FilePatch]:
    """Parse a patch into its files, in order; DamagedObject if it is corrupt."""
    start, *sections = re.split(rb"(?m)^(?=diff --git )", data)
    if start:
        raise DamagedObject("it has lines that belong to no file")
    return [_file(section) for section in sections]


def _file(section: bytes) -> FilePatch:
    from dulwich.patch import parse_unified_diff

    is_binary = b"\nGIT binary patch\n" in section
    # diff.suppressBlankEmpty omits the space before an empty context line.
    text = section if is_binary else re.sub(rb"(?m)^\n", b" \n", section)
    with reporting_damage():
        [found] = parse_unified_diff(text)
    if _OF_TWO_FILES.search(section) or (found.binary and found.binary_new is None):
        raise DamagedObject("it is none of 'git diff-index --binary'")
    ids = _IDS.search(section)
    if ids is None and (found.hunks or found.binary):
        raise DamagedObject("it does not say which content is meant")
    old, new = ids.groups() if ids else (b"", b"")
    return FilePatch(_path(found.old_path), _path(found.new_path), old, new, found)


def _path(name: bytes | None) -> bytes | None:
    return None if name is None else name.partition(b"/")[2]  # without a/ and b/


def quote_path(path: bytes) -> bytes:
    """Quote a path as git does, in C style, if it has unusual bytes."""

    def escape(found: re.Match[bytes]) -> bytes:
        byte = found[0][0]
        return b"\\%c" % _ESCAPES[byte] if byte in _ESCAPES else b"\\%03o" % byte

    escaped = re.sub(rb'[\x00-\x1f"\\\x7f-\xff]', escape, path)
    return path if escaped == path else b'"' + escaped + b'"'
