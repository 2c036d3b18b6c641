# SPDX-License-Identifier: MIT
"""Trees, contents, commits, states and refs that no ckpt made: refused, and nothing happens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pytest
from hostile.inputs import (
    BOMBS,
    COMMITS,
    HARMLESS,
    OBJECTS,
    PATHS,
    REFS,
    STATE_FILES,
    STATES,
    TREES,
    Make,
    huge_manifest,
)
from hostile.scene import Scene

EVERY = {**TREES, **OBJECTS, **COMMITS, **STATES, **PATHS, **STATE_FILES, **REFS}
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
        "paths": PATHS,
        "refs": REFS,
    }.items()
    for names in groups(inputs)
]


def test_no_name_is_used_twice() -> None:
    inputs = (TREES, OBJECTS, COMMITS, STATES, PATHS, STATE_FILES, REFS)

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

    for words in ("show ID", "rollback ID --yes"):
        ran = scene.run(*words.replace("ID", scene.forge.id).split())
        assert ran.code in (1, 4)
        assert "too large" in ran.stderr
    scene.count("hostile inputs refused")


ODD_REFS = (
    *(b"-rf", b"--trust", b"a b", b"\x1b[2J", b"caf\xe9", b"new\nline", b"x" * 200, b"@", b"%s"),
    *(b"latest", b"good", b"a.lock", b"20991231-235959-999-zzzz.lock", b"20991231-235959-999-ZZZZ"),
    *(b"20991231-235959-999-zzzz/deeper", b"99999999-999999-999-zzzz", b"00000000-000000-000-0000"),
)


def test_refs_of_odd_names_are_passed_over(scene: Scene) -> None:
    folder = os.fsencode(scene.repo / ".git/refs/checkpoints")
    commit = (scene.repo / ".git/refs/checkpoints" / scene.good).read_bytes()
    for name in ODD_REFS:
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(commit)

    scene.others_are_well()
    for name in ODD_REFS:
        for words in ("show", "drop", "rollback"):
            assert scene.run(words, os.fsdecode(name)).code in (0, 2, 3, 1), (words, name)
    scene.count("hostile inputs refused", len(ODD_REFS))


def test_a_ref_that_is_no_file_is_passed_over_and_not_waited_for(scene: Scene) -> None:
    folder = (scene.repo / ".git/refs/checkpoints" / scene.good).parent
    os.mkfifo(folder / "20991231-235959-000-zzzz")
    os.mkfifo(scene.outside / "pipe")
    (folder / "20991231-235959-001-zzzz").symlink_to(scene.outside / "pipe")
    (folder / "20991231-235959-002-zzzz").symlink_to("/dev/zero")
    (folder / "20991231-235959-003-zzzz").symlink_to(scene.outside / "x")
    (folder / "20991231-235959-004-zzzz").symlink_to("20991231-235959-004-zzzz")
    (folder / "20991231-235959-005-zzzz").symlink_to(scene.outside)

    scene.others_are_well()
    scene.count("hostile inputs refused", 6)
