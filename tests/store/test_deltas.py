# SPDX-License-Identifier: MIT
"""Deltas: what they make is the content, and versions of one thing cost little."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt.git.loose import DamagedObject
from ckpt.git.pack_writer import _varint, make_delta
from ckpt.git.packs import apply_delta

# Few different bytes, so that blocks repeat and matches overlap.
CONTENT = st.binary(max_size=60) | st.text("ab\n", max_size=400).map(str.encode)


@given(CONTENT, CONTENT)
def test_a_delta_makes_any_content_of_any_base(base: bytes, content: bytes) -> None:
    assert apply_delta(base, make_delta(base, content)) == content


@given(st.lists(CONTENT, max_size=6), st.data())
def test_what_was_moved_repeated_or_left_out_comes_back(
    parts: list[bytes], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(parts), max_size=9)) if parts else []
    base, content = b"".join(parts), b"-".join(chosen)

    assert apply_delta(base, make_delta(base, content)) == content


@pytest.mark.parametrize("size", [0, 15, 16, 17, 127, 128, 0xFFFF, 0x10000])
def test_lengths_at_the_edges_of_an_instruction(size: int) -> None:
    base = random.Random(size).randbytes(size)

    for content in (base, b"x" + base, base + b"x", base[1:], b""):
        delta = make_delta(base, content)
        assert apply_delta(base, delta) == content
    assert len(make_delta(base, base)) < 40 or size < 128


def test_a_copy_may_be_longer_than_one_instruction_can_say() -> None:
    base = bytes(0x1000001)
    delta = make_delta(base, base)

    assert len(delta) < 20
    assert apply_delta(base, delta) == base


def test_an_edit_costs_about_as_much_as_it_changes() -> None:
    lines = [f"line {number} of a file that somebody edits\n" for number in range(2000)]
    base = "".join(lines).encode()
    lines[700] = "another line\n"
    del lines[1200:1210]

    delta = make_delta(base, "".join(lines).encode())
    assert len(delta) < 80


def test_many_small_parts_take_no_more_memory_than_what_they_make() -> None:
    parts = 1 << 17
    delta = _varint(2) + _varint(2 * parts) + b"\x90\x02" * parts
    tracemalloc.start()
    try:
        made = apply_delta(b"ab", delta)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert made == b"ab" * parts
    assert peak < 4 * len(made)


def test_a_size_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(DamagedObject, match="impossible size"):
        apply_delta(b"", b"\xff" * 100_000)
