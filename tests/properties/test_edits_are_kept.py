# SPDX-License-Identifier: MIT
"""Whatever an agent and a person do in turn, `keep_edits` takes back what is the agent's and
nothing else, and an undo brings all of it back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers import copy_anew, git, tree_state
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scenes import remove, state, write

from ckpt import CheckpointManager

# Some are files at the beginning, some come, and some can only be where another is not.
AT_FIRST = ("a", "b", "d/x", "d/deep/y")
PATHS = (*AT_FIRST, "new", "a/in", "d", "n/e/w")
SESSION = "s"

steps = st.lists(
    st.tuples(
        st.sampled_from(["agent", "person"]),
        st.sampled_from(PATHS),
        st.sampled_from(["one", "two", None]),
    ),
    max_size=8,
)
Contents = dict[str, str]


def files(top: Path) -> Contents:
    entries = tree_state(top).items()
    return {os.fsdecode(name): text.decode() for name, (kind, _, text) in entries if kind == "file"}


def expected(then: Contents, now: Contents, left: dict[str, str | None]) -> Contents:
    """What shall be there: of each path the state then if it is as the agent left it."""
    changed = {path for path in {*then, *now} if then.get(path) != now.get(path)}
    kept = {path for path in changed if path not in left or left[path] != now.get(path)}
    # What is below a path comes back with it: where a person has taken that away, it stays.
    kept |= {path for path in changed if any(other.startswith(f"{path}/") for other in kept)}
    result = {path: text for path, text in now.items() if path not in changed - kept}
    for path in changed - kept:
        # A path cannot come back where what is kept is in the way, above it or below.
        if path in then and not any(_collide(path, other) for other in result):
            result[path] = then[path]
    return result


def _collide(one: str, other: str) -> bool:
    return one.startswith(f"{other}/") or other.startswith(f"{one}/")


@pytest.fixture
def pattern(tmp_path: Path) -> Path:
    """The repository that each example begins with."""
    top = tmp_path / "pattern"
    top.mkdir()
    for path in AT_FIRST:
        write(top, path, "first")
    git("init", "-q", cwd=top)
    git("add", "a", "d/x", cwd=top)
    git("commit", "-qm", "first", cwd=top)
    return top


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([("agent", "a", None), ("person", "a/in", "one")])
@example([("agent", "new", "one"), ("agent", "new", None), ("person", "new", "two")])
@example([("agent", "a", "one"), ("agent", "a", "two"), ("person", "a", "one")])
@example([("agent", "d", "one"), ("person", "d/x", "two"), ("agent", "b", None)])
@example([("agent", "a/in", "one"), ("person", "d", "one")])
@example([("person", "d", "one"), ("agent", "d", "one")])
@given(steps)
def test_only_what_the_agent_left_goes_back(
    pattern: Path, done: list[tuple[str, str, str | None]]
) -> None:
    top = pattern.parent / str(len(os.listdir(pattern.parent)))
    copy_anew(pattern, top)
    with CheckpointManager(top, session=SESSION) as manager:
        manager.create("start")
        then = files(top)
        left: dict[str, str | None] = {}
        for who, path, text in done:
            before = files(top)
            if text is None:
                remove(top, path)
            else:
                write(top, path, text)
            after = files(top)
            for touched in {*before, *after, path} if who == "agent" else ():
                if touched == path or before.get(touched) != after.get(touched):
                    left[touched] = after.get(touched)
                    manager.record_write(top / touched)
        now, whole = files(top), state(top)

        manager.rollback("start", keep_edits=True, yes=True)

        assert files(top) == expected(then, now, left)
        if files(top) != now:
            manager.undo(yes=True)
            assert state(top) == whole
