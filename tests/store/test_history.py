# SPDX-License-Identifier: MIT
"""How far two commits are apart, or None where that cannot be known."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from byhand import MOMENT, NOWHERE, commit, object_store

from ckpt.git import reachability as history
from ckpt.git.objects import ObjectID, ObjectStore
from ckpt.git.reachability import ahead_behind, only_in
from ckpt.git.repository import Repository


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    opened = object_store(tmp_path / "objects")
    yield opened.scratch()
    opened.close()


def opened(store: ObjectStore) -> Repository:
    """All that is looked at of a repository."""
    found: Any = SimpleNamespace(objects=store, common_dir="/nowhere")
    return cast(Repository, found)


class Graph:
    """Commits by name, each later than the one before unless told otherwise."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._ids: dict[str, ObjectID] = {}

    def add(self, name: str, *parents: str, seconds: int | None = None) -> None:
        moment = MOMENT + timedelta(seconds=len(self._ids) if seconds is None else seconds)
        self._ids[name] = commit(
            self._store, *(self._ids[p] for p in parents), message=name, moment=moment
        )

    def apart(self, left: str, right: str) -> tuple[int, int] | None:
        return ahead_behind(opened(self._store), self._ids[left], self._ids[right])

    def behind(self, name: str, *others: str) -> set[str]:
        held = [self._ids[other] for other in others]
        found = only_in(opened(self._store), [self._ids[name]], held)
        return {name for name, commit in self._ids.items() if commit in found}


@pytest.fixture
def graph(store: ObjectStore) -> Graph:
    """
    a - b - c - d      main
         \\     /
          x - y - z    topic
    """
    made = Graph(store)
    made.add("a")
    made.add("b", "a")
    made.add("c", "b")
    made.add("x", "b")
    made.add("y", "x")
    made.add("d", "c", "y")
    made.add("z", "y")
    return made


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("a", "a", (0, 0)),
        ("b", "a", (1, 0)),
        ("a", "c", (0, 2)),
        ("c", "y", (1, 2)),
        ("d", "z", (2, 1)),
        ("d", "x", (3, 0)),
        ("a", "d", (0, 5)),
    ],
)
def test_commits_are_counted_on_each_side(
    left: str, right: str, expected: tuple[int, int], graph: Graph
) -> None:
    assert graph.apart(left, right) == expected
    assert graph.apart(right, left) == expected[::-1]


def test_a_clock_that_ran_backwards_does_not_count_a_common_commit(store: ObjectStore) -> None:
    made = Graph(store)
    made.add("a", seconds=100)
    made.add("b", "a", seconds=50)
    made.add("left", "b", seconds=10)
    made.add("right", "b", seconds=200)

    assert made.apart("left", "right") == (1, 1)


def test_a_history_that_is_cut_off_gives_no_number(store: ObjectStore, graph: Graph) -> None:
    cut = commit(store, NOWHERE, message="shallow")

    assert ahead_behind(opened(store), cut, commit(store, message="other")) is None


def test_a_very_wide_gap_gives_no_number(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_MOST_COMMITS", 2)

    assert graph.apart("a", "d") is None


# What only one of them has


@pytest.mark.parametrize(
    ("name", "others", "found"),
    [
        ("z", "", "abxyz"),
        ("z", "d", "z"),
        ("z", "c", "xyz"),
        ("d", "ac", "dxy"),
        ("d", "cz", "d"),
        ("b", "z", ""),
        ("b", "b", ""),
    ],
)
def test_what_others_hold_is_not_walked_through(
    graph: Graph, name: str, others: str, found: str
) -> None:
    assert graph.behind(name, *others) == {*found}


def test_where_a_clock_ran_backwards_nothing_is_left_out(store: ObjectStore) -> None:
    graph = Graph(store)
    graph.add("a", seconds=1000)
    graph.add("old", "a", seconds=-5000)
    graph.add("main", "a", seconds=0)
    graph.add("lost", "old", seconds=3000)

    assert {"lost", "old"} <= graph.behind("lost", "main") <= {"lost", "old", "a"}
