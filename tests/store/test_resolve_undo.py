# SPDX-License-Identifier: MIT
"""What the index remembers of resolved conflicts is read and written as git does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt.store.index import Index
from ckpt.store.resolve_undo import Resolved, extension, resolved

# As git wrote it for a file that both sides had edited.
BASE = "7898192261e6ffd31d9a6ed1aa31cfa2b6a1a4c2"
BOTH_EDITED = (
    b"src/app.py\x00100644\x00100644\x00100644\x00"
    + bytes.fromhex(BASE)
    + b"\x22" * 20
    + b"\x33" * 20
)


def read(data: bytes, hash_len: int = 20) -> list[Resolved]:
    return resolved(Index(2, [], {b"REUC": data}, hash_len))


def test_each_side_has_its_mode_and_id() -> None:
    sides = ((0o100644, BASE.encode()), (0o100644, b"22" * 20), (0o100644, b"33" * 20))

    assert read(BOTH_EDITED) == [(b"src/app.py", sides)]


def test_a_side_without_the_path_has_mode_zero_and_no_id() -> None:
    record = Resolved(b"a", (None, (0o120000, b"22" * 32), None))

    data = extension([record])[b"REUC"]

    assert data == b"a\x000\x00120000\x000\x00" + b"\x22" * 32
    assert read(data, 32) == [record]


def test_without_records_there_is_no_extension() -> None:
    assert extension([]) == {}
    assert resolved(Index(2, [], {}, 20)) == []


def test_records_are_written_in_the_order_of_their_paths() -> None:
    one, two = (Resolved(path, (None, None, None)) for path in (b"a", b"b"))

    assert extension([two, one]) == extension([one, two])


side = st.none() | st.tuples(st.sampled_from([0o100644, 0o160000]), st.just(b"ab" * 20))
path = st.binary(min_size=1).filter(lambda name: b"\0" not in name)
records = st.dictionaries(path, st.tuples(side, side, side))


@given(records)
def test_what_is_written_is_read_again(some: dict[bytes, tuple]) -> None:
    wanted = [Resolved(name, sides) for name, sides in sorted(some.items())]

    assert read(extension(wanted).get(b"REUC", b"")) == wanted


@pytest.mark.parametrize("cut", range(1, len(BOTH_EDITED)))
def test_damaged_records_count_as_none(cut: int) -> None:
    assert read(BOTH_EDITED[:cut]) == []


@given(st.binary())
def test_any_bytes_may_stand_in_the_extension(data: bytes) -> None:
    read(data)
