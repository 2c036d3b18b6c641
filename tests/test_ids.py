# SPDX-License-Identifier: MIT
"""Ids sort by age whatever the clock does; names cannot be taken for anything else."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt import ids
from ckpt.errors import UsageError

MOMENT = datetime(2026, 11, 15, 23, 34, 12, 123456, timezone.utc)

moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(timezone.utc))


def test_an_id_is_a_time_to_the_millisecond_and_four_characters() -> None:
    made = ids.new_id(MOMENT, None)

    assert re.fullmatch(r"20261115-233412-123-[0-9a-hjkmnp-tv-z]{4}", made)
    assert ids.is_id(made)


def test_the_time_of_an_id_is_utc_wherever_the_user_is() -> None:
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=5, minutes=30)))

    assert ids.new_id(elsewhere, None).startswith("20261115-233412-123-")


def test_ids_of_the_same_moment_differ() -> None:
    assert len({ids.new_id(MOMENT, None) for _ in range(20)}) > 1


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        ("20261115-233412-122-zzzz", "20261115-233412-123"),
        ("20261115-233412-123-0000", "20261115-233412-124"),
        ("20261115-233412-123-zzzz", "20261115-233412-124"),
        ("20261115-233412-999-zzzz", "20261115-233413-000"),
        ("20280228-235959-999-zzzz", "20280229-000000-000"),
        ("20991231-235959-999-zzzz", "21000101-000000-000"),
    ],
)
def test_where_the_clock_is_behind_the_newest_id_counts_on(newest: str, expected: str) -> None:
    assert ids.new_id(MOMENT, newest)[:19] == expected


@given(moments, moments)
def test_a_new_id_is_always_greater_than_the_newest(now: datetime, then: datetime) -> None:
    newest = ids.new_id(then, None)

    assert ids.new_id(now, newest) > newest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latest",
        "20261115-233412-123",
        "20261115-233412-123-k7p",
        "20261115-233412-123-k7pq0",
        "20261115-233412-123-K7PQ",
        "20261115-233412-123-k7pi",
        "20261115-233412-123-k7pl",
        "20261115-233412-123-k7po",
        "20261115-233412-123-k7pu",
        "20261115_233412_123_k7pq",
        "20261115-233412-123-k7pq\n",
        " 20261115-233412-123-k7pq",
        "\u0662\u0660\u0662\u06661115-233412-123-k7pq",
    ],
)
def test_what_only_resembles_an_id_is_none(text: str) -> None:
    assert not ids.is_id(text)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "it is empty"),
        (" \t\n", "it is empty"),
        ("x" * 201, "it has 201 characters, more than 200"),
        ("two\nlines", "a line break or another control character"),
        ("two\rlines", "a line break or another control character"),
        ("nul\0byte", "a line break or another control character"),
        ("bell\x07", "a line break or another control character"),
        ("del\x7fete", "a line break or another control character"),
        ("next\x85line", "a line break or another control character"),
        ("csi\x9b31m", "a line break or another control character"),
        ("line\u2028separator", "a line break or another control character"),
        ("paragraph\u2029separator", "a line break or another control character"),
        ("stray\udcff", "it is not valid UTF-8"),
        ("half a \ud83d smile", "it is not valid UTF-8"),
        ("-rf", "begins with '-', like an option"),
        ("latest", "begins with 'latest'"),
        ("latest~3", "begins with 'latest'"),
        ("latest-and-greatest", "begins with 'latest'"),
        ("20261115-233412-123-k7pq", "has the form of an id"),
        ("  20261115-233412-123-k7pq ", "has the form of an id"),
    ],
)
def test_a_bad_name_is_refused_with_what_is_wrong(name: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        ids.check_name(name)

    assert problem in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "before-refactor",
        "x" * 200,
        "é" * 200,
        "two words",
        "a/b: c #1 (100%)",
        "日本語 🙂",
        "my latest",
        "20261115",
        "Ckpt-Kind: manual",
        "~",
    ],
)
def test_a_name_may_be_any_line_of_text(name: str) -> None:
    assert ids.check_name(name) == name


def test_space_around_a_name_does_not_count() -> None:
    assert ids.check_name("  before refactor\n") == "before refactor"


def test_a_description_keeps_its_lines_and_loses_the_space_around() -> None:
    assert ids.check_description("\r\n first\r\n\r\n  second \n") == "first\n\n  second"


@pytest.mark.parametrize("text", ["", "  \n\t "])
def test_an_empty_description_is_none(text: str) -> None:
    assert ids.check_description(text) is None


@pytest.mark.parametrize("text", ["nul\0", "stray \udcff", "half \ud83d"])
def test_a_description_that_is_not_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not text"):
        ids.check_description(text)


def test_the_length_of_a_description_is_counted_in_bytes() -> None:
    limit = ids.MAX_DESCRIPTION

    assert ids.check_description("x" * limit) == "x" * limit
    with pytest.raises(UsageError, match="longer than 64 KiB"):
        ids.check_description("é" * (limit // 2) + "x")
