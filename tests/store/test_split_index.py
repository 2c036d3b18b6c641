# SPDX-License-Identifier: MIT
"""A split index is joined with its shared file, or refused where they do not fit."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt.store.index import CorruptIndex, Index, IndexEntry
from ckpt.store.split_index import join, shared_name

BASE = b"\xab" * 20


def entry(path: bytes, id: bytes = b"1" * 40, **flags: bool) -> IndexEntry:
    return IndexEntry.of(path, id, 0o100644, **flags)


def bitmap(bits: Iterable[int]) -> bytes:
    """As git compresses it: runs of equal words are counted, others stand as they are."""
    chosen = set(bits)
    words = [0] * (max(chosen, default=-1) // 64 + 1)
    for bit in chosen:
        words[bit // 64] |= 1 << bit % 64
    out: list[int] = []
    position = 0
    while position < len(words):
        run = 0
        fill = words[position] if words[position] in (0, 2**64 - 1) else 0
        while position < len(words) and words[position] == fill:
            run, position = run + 1, position + 1
        literals = []
        while position < len(words) and words[position] not in (0, 2**64 - 1):
            literals.append(words[position])
            position += 1
        out += [(fill & 1) | run << 1 | len(literals) << 33, *literals]
    header = struct.pack(">II", 64 * len(words), len(out))
    return header + struct.pack(f">{len(out)}QI", *out, 0)


def split(deleted: Iterable[int], replaced: Iterable[int], *entries: IndexEntry) -> Index:
    link = BASE + bitmap(deleted) + bitmap(replaced)
    return Index(2, list(entries), {b"link": link, b"REUC": b"kept"}, 20)


def shared(*paths: bytes) -> Index:
    return Index(2, [entry(path) for path in paths], {}, 20)


def test_the_shared_file_is_named_by_its_checksum() -> None:
    assert shared_name(split([], [])) == "sharedindex." + "ab" * 20
    assert shared_name(Index(2, [], {b"link": bytes(20)}, 20)) is None
    assert shared_name(Index(2, [], {}, 20)) is None


def test_entries_are_kept_replaced_taken_out_and_added() -> None:
    index = split([0], [2], entry(b"", b"2" * 40, skip_worktree=True), entry(b"bb"))

    found = join(index, shared(b"a", b"b", b"c"))

    assert [(e.path, e.id[:1]) for e in found.entries] == [
        (b"b", b"1"),
        (b"bb", b"1"),
        (b"c", b"2"),
    ]
    assert [e.skip_worktree for e in found.entries] == [False, False, True]
    assert found.extensions == {b"REUC": b"kept"}


def test_without_bitmaps_nothing_is_taken_out() -> None:
    index = Index(2, [entry(b"b")], {b"link": BASE}, 20)

    assert [e.path for e in join(index, shared(b"a")).entries] == [b"a", b"b"]


@given(st.data())
def test_any_bits_say_which_entries_are_meant(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([1, 63, 64, 65, 200, 400]))
    paths = [b"%04d" % number for number in range(count)]
    some = st.sets(st.integers(0, count - 1)) | st.just(set(range(count)))
    deleted = data.draw(some)
    replaced = sorted(data.draw(some) - deleted)
    new = [entry(b"", b"2" * 40) for _ in replaced]

    found = join(split(deleted, replaced, *new), shared(*paths))

    assert [e.path for e in found.entries] == [p for n, p in enumerate(paths) if n not in deleted]
    assert [e.path for e in found.entries if e.id[:1] == b"2"] == [paths[n] for n in replaced]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (split([], [0], entry(b"named")), "has a name or is deleted"),
        (split([0], [0], entry(b"")), "has a name or is deleted"),
        (split([], [0, 1], entry(b"")), "entries to replace others are missing"),
        (split([2], []), "a bit beyond the entries"),
        (split(range(640), []), "a bit beyond the entries"),
        (split([], [], entry(b"")), "entry without a path"),
        (split([], [], entry(b"a")), "multiple stage entries"),
        (Index(2, [], {b"link": BASE + b"\0" * 7}, 20), "corrupt bitmap"),
        (Index(2, [], {b"link": BASE + struct.pack(">II", 0, 2**31)}, 20), "corrupt bitmap"),
        (Index(2, [], {b"link": BASE + bitmap([]) * 3}, 20), "garbage at the end"),
    ],
)
def test_parts_that_do_not_fit_are_corrupt(index: Index, message: str) -> None:
    with pytest.raises(CorruptIndex, match=message):
        join(index, shared(b"a", b"b"))


def test_a_link_too_short_for_a_name_is_corrupt() -> None:
    with pytest.raises(CorruptIndex, match="too short"):
        shared_name(Index(2, [], {b"link": BASE[1:]}, 20))


@given(st.binary(max_size=80))
def test_any_bytes_may_stand_in_the_bitmaps(data: bytes) -> None:
    try:
        join(Index(2, [], {b"link": BASE + data}, 20), shared(b"a", b"b"))
    except CorruptIndex:
        pass
