# SPDX-License-Identifier: MIT
"""How many lines changed between two texts.

Pure functions on bytes. Counting is part of every save, so the changes themselves are never
looked for, only their number (`patchtext` finds them). What needs no search is set aside
first: equal lines at both ends, lines that only one side has. Past a stated effort the answer
is not exact.
"""

from __future__ import annotations

from collections import Counter
from io import BytesIO

# The search is exact while the lines left to compare, old times new, are no more than this:
# 16,000 against 16,000, all on both sides and none in its place. Beyond, a line counts as
# changed only if the other side has it less often, wherever it went.
MOST_WORK = 1 << 28

Lines = list[bytes]


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:8000]


def count(old: bytes, new: bytes) -> tuple[int, int]:
    """How many lines were inserted and deleted; none if either side is binary."""
    if is_binary(old) or is_binary(new):
        return 0, 0
    a, b = lines_of(old), lines_of(new)
    common = _common(a, b)
    return len(b) - common, len(a) - common


def lines_of(data: bytes) -> Lines:
    """Lines with their newline: without one, a last line differs from its like."""
    return BytesIO(data).readlines()


def _common(a: Lines, b: Lines) -> int:
    """How many lines both texts have in the same order."""
    head, tail = equal_ends(a, b)
    a, b = a[head : len(a) - tail], b[head : len(b) - tail]
    in_a, in_b = set(a), set(b)
    a, b = [line for line in a if line in in_b], [line for line in b if line in in_a]
    inner_head, inner_tail = equal_ends(a, b)
    a, b = a[inner_head : len(a) - inner_tail], b[inner_head : len(b) - inner_tail]
    return head + tail + inner_head + inner_tail + _longest_common(a, b)


def equal_ends(a: Lines, b: Lines) -> tuple[int, int]:
    """How many lines are equal at the start, and then at the end."""
    most = min(len(a), len(b))
    head = 0
    while head < most and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < most - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    return head, tail


def _longest_common(a: Lines, b: Lines) -> int:
    """Length of the longest common subsequence, or more where that is too much work."""
    if len(a) * len(b) > MOST_WORK:
        return (Counter(a) & Counter(b)).total()
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    return len(longer) - bin(last_row(longer, shorter)).count("1")


def last_row(a: Lines, b: Lines) -> int:
    """The last row of the table of common subsequences of `a` and `b`.

    Bit n is 0 where line n of `a` makes the longest one longer. A row is one integer,
    and each line of `b` makes the next row of it in four operations: the carry of the
    sum moves each 0 down to the next line of `a` that equals it.
    """
    where = _positions(a, set(b))
    every = (1 << len(a)) - 1
    row = every
    for line in b:
        hits = row & where.get(line, 0)
        row = ((row + hits) | (row - hits)) & every
    return row


def _positions(lines: Lines, wanted: set[bytes]) -> dict[bytes, int]:
    """For each line that is wanted, an integer with a bit set wherever it occurs."""
    positions: dict[bytes, list[int]] = {}
    for position, line in enumerate(lines):
        if line in wanted:
            positions.setdefault(line, []).append(position)
    return {line: _bits(where, len(lines)) for line, where in positions.items()}


def _bits(positions: list[int], length: int) -> int:
    if len(positions) == 1:
        return 1 << positions[0]
    # Not one | after another: each would copy the whole integer.
    octets = bytearray(length // 8 + 1)
    for position in positions:
        octets[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(octets, "little")
