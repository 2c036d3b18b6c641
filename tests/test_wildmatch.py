# SPDX-License-Identifier: MIT
"""How a glob is taken apart; what it then matches is in test_ignore.py."""

from __future__ import annotations

import pytest

from ckpt.git import rules


def read(text: bytes) -> rules.Glob:
    glob = rules.read(text, ignore_case=False)
    assert glob is not None
    return glob


def test_a_glob_of_few_spellings_is_spelled_out():
    assert rules.spellings(read(b"docs/\\[a\\]")) == [b"docs/[a]"]
    assert rules.spellings(read(b"[Bb]in/[01]")) == [b"Bin/0", b"Bin/1", b"bin/0", b"bin/1"]


@pytest.mark.parametrize("text", [b"a*", b"a?", b"[a-z][a-z]", b"**/a", b"a/**"])
def test_a_glob_of_many_spellings_is_not(text):
    assert rules.spellings(read(text)) is None


def test_spellings_are_counted_no_further_than_there_may_be():
    counted = []

    class Steps(tuple):
        def __iter__(self):
            return (counted.append(step) or step for step in tuple.__iter__(self))

    assert rules.suffixes(((), Steps(read(b"?" * 1000)[0][0]))) is None
    assert len(counted) == 1


def test_stars_after_stars_add_nothing():
    assert read(b"**/**/**/a/**/**/b/**/**") == read(b"**/a/**/b/**")
    assert read(b"**\\/**/a") == read(b"*/**/a")


@pytest.mark.parametrize(
    ("text", "length"),
    [
        (b"abc", 3),
        (b"a*[bc]?\\x", 4),
        (b"*", 0),
        (b"**", 0),
        (b"*/*", 1),
        (b"**/ab/**/c*", 4),
        (b"a/**", 1),
    ],
)
def test_a_path_that_matches_has_so_many_bytes_at_least(text, length):
    assert rules.shortest(read(text)) == length


def test_a_star_in_front_of_few_spellings_gives_endings():
    assert rules.suffixes(read(b"*.py[co]")[0]) == [b".pyc", b".pyo"]


@pytest.mark.parametrize("text", [b"*", b"a", b"a*", b"*a*", b"*a?"])
def test_other_components_give_none(text):
    assert rules.suffixes(read(text)[0]) is None


def test_a_star_among_few_spellings_gives_both_ends():
    assert rules.ends(read(b"[ab].*.c")[0]) == [(b"a.", b".c"), (b"b.", b".c")]
    assert rules.ends(read(b"a*")[0]) == [(b"a", b"")]
    assert rules.ends(read(b"*a")[0]) == [(b"", b"a")]


@pytest.mark.parametrize("text", [b"*", b"a", b"a*b*", b"?*", b"[a-z]*[a-z]", b"*a?"])
def test_other_components_have_no_ends(text):
    assert rules.ends(read(text)[0]) is None


@pytest.mark.parametrize("text", [b"", b"a//b", b"/a", b"a/", b"[a", b"a\\", b"[[:none:]]"])
def test_a_glob_that_can_match_nothing_is_none(text):
    assert rules.read(text, ignore_case=False) is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (b"*a*bcd*ef*", b"bcd"),
        (b"lib[0-9]*x", b"lib"),
        (b"a\\*b?c", b"a*b"),
        (b"**/x/long*/[Yy]", b"long"),
        (b"[ab]?*", b""),
    ],
)
def test_the_longest_part_that_stands_for_itself_is_in_every_path_that_matches(text, part):
    assert rules.plain_part(read(text)) == part


@pytest.mark.parametrize("ignore_case", [False, True])
@pytest.mark.parametrize("text", [b"a", b"A/b.C", b"", b"/", b"a//b", b"a/", b"\xff]!^ -"])
def test_what_stands_for_itself_is_read_as_any_other(text, ignore_case):
    by_steps = tuple(rules._Reader(text, ignore_case).components())

    assert rules.read_any(text, ignore_case=ignore_case) == by_steps
