# SPDX-License-Identifier: MIT
"""Who holds what: an object goes with the last that names it, whatever the order."""

from __future__ import annotations

from itertools import permutations

import pytest

from ckpt.engine.space import Dropping, Graph

# Two checkpoints share a tree and one of its files; the third is in the trash.
CHILDREN = {
    b"one": (b"tree", b"own"),
    b"two": (b"tree", b"shared"),
    b"old": (b"shared", b"gone"),
    b"tree": (b"shared", b"file"),
}
SIZES = {b"one": 1, b"two": 2, b"tree": 10, b"shared": 100, b"file": 1000, b"own": 5, b"old": 7}
ROOTS = {"one": b"one", "two": b"two", "old": b"old"}
GRAPH = Graph(ROOTS, CHILDREN, SIZES)


def dropping() -> Dropping:
    return Dropping(GRAPH, ["one", "two"])


def test_one_alone_holds_what_no_other_does() -> None:
    left = dropping()

    assert (left.size("one"), left.size("two")) == (6, 2)
    assert (left.total, left.trash) == (1118, 7)


@pytest.mark.parametrize("order", list(permutations(["one", "two"])))
def test_what_is_shared_goes_with_the_last(order: tuple[str, str]) -> None:
    left = dropping()
    first = left.drop(order[0])
    assert left.size(order[1]) == 1118 - first
    second = left.drop(order[1])

    assert first == {"one": 6, "two": 2}[order[0]]
    assert first + second == 1118
    assert (left.total, left.trash) == (0, 1125)


def test_to_ask_changes_nothing() -> None:
    left = dropping()

    assert [left.size("one") for _ in range(3)] == [6, 6, 6]
    assert left.total == dropping().total
    assert dropping().drop("two") == 2


def test_two_refs_to_one_commit_hold_it_together() -> None:
    graph = Graph({"a": b"one", "b": b"one"}, CHILDREN, SIZES)
    left = Dropping(graph, ["a", "b"])

    assert (left.size("a"), left.drop("a")) == (0, 0)
    assert left.drop("b") == 1116
