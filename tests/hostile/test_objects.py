# SPDX-License-Identifier: MIT
"""Trees, contents, commits, states and refs that no ckpt made: refused, and nothing happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hostile.inputs import (
    BOMBS,
    COMMITS,
    HARMLESS,
    OBJECTS,
    REFS,
    STATE_FILES,
    STATES,
    TREES,
    Make,
    huge_manifest,
)
from hostile.scene import Scene

EVERY = {**TREES, **OBJECTS, **COMMITS, **STATES, **STATE_FILES, **REFS}
AT_ONCE = 16


def groups(inputs: Mapping[str, Make]) -> Iterator[list[str]]:
    names = sorted(inputs.keys() - HARMLESS)
    for start in range(0, len(names), AT_ONCE):
        yield names[start : start + AT_ONCE]


REFUSED = [
    pytest.param(names, id=f"{kind}, {names[0]} to {names[-1]}")
    for kind, inputs in {
        "trees": TREES,
        "objects": OBJECTS,
        "commits": COMMITS,
        "states": {**STATES, **STATE_FILES},
        "refs": REFS,
    }.items()
    for names in groups(inputs)
]


def test_no_name_is_used_twice() -> None:
    inputs = (TREES, OBJECTS, COMMITS, STATES, STATE_FILES, REFS)

    assert len(EVERY) == sum(map(len, inputs))
    assert EVERY.keys() >= HARMLESS


@pytest.mark.parametrize("names", REFUSED)
def test_they_are_refused_and_nothing_changes(scene: Scene, names: list[str]) -> None:
    scene.refused({name: EVERY[name] for name in names})


def test_what_is_odd_in_other_ways_does_no_harm(scene: Scene) -> None:
    scene.harmless({name: EVERY[name] for name in sorted(HARMLESS)})


@pytest.mark.parametrize("name", BOMBS)
def test_what_unfolds_without_an_end_is_not_waited_for(scene: Scene, name: str) -> None:
    scene.bounded(BOMBS[name])


def test_a_manifest_that_becomes_large_is_not_read(scene: Scene) -> None:
    huge_manifest(scene.forge)

    for words in ("show ID", "rollback ID --yes", "rollback ID --yes --trust"):
        ran = scene.run(*words.replace("ID", scene.forge.id).split())
        assert ran.code in (1, 4)
        assert "too large" in ran.stderr
    scene.count("hostile inputs refused")
