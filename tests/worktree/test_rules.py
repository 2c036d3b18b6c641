# SPDX-License-Identifier: MIT
"""ckpt.git.rules on patterns that are made to take long; what patterns mean, git says itself in
tests/properties."""

from __future__ import annotations

import pytest

from ckpt.git.rules import AttributeTree, Rules


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (b"*a" * 30 + b"b", b"a" * 250),
        (b"/" + b"**/a/" * 20 + b"b", b"a/" * 100 + b"c"),
        (b"?" * 1_000_000, b"a" * 250),
        (b"[!a]" * 200_000, b"b" * 250),
    ],
)
def test_no_pattern_takes_for_ever(pattern: bytes, path: bytes) -> None:
    assert Rules(pattern).decide(path, False) is None


def test_macros_of_macros_are_followed_however_many_there_are() -> None:
    lines = [b"[attr]m%d m%d" % (number, number + 1) for number in range(2000)]
    text = b"\n".join((*lines, b"[attr]m2000 filter=x m0", b"* m0"))

    assert AttributeTree(lambda folder: text if not folder else None).attributes(b"a") == {
        b"filter": b"x"
    }
