# SPDX-License-Identifier: MIT
"""A command that is held up before any of its operations while another process does its work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from faults.rollbacks import SCENES, Look, Scene, has_journal, leftovers, look
from faults.striking import TORTURE, Blow, Driver, Struck, Sweep, sample
from helpers import fsck, git, verified

from ckpt import CheckpointManager

Record = Callable[[str, object], None]

COMMIT = ("git", "commit", "-q", "--allow-empty", "-m", "meanwhile")
OTHERS: dict[str, Sequence[str]] = {
    "save": ("save", "meanwhile", "--json"),
    "prune": ("prune", "--json"),
    "commit": COMMIT,
}
WAYS = ["--continue", "--abort"]
# Git's word for a lock that it finds.
TAKEN = ("File exists", "cannot lock ref")


def others(turn: int) -> list[str]:
    """Which of them go on meanwhile: for `make torture` each, else one after the other."""
    names = list(OTHERS)
    return names if TORTURE else [names[turn % len(names)]]


def refs(top: Path, *prefixes: str) -> dict[str, str]:
    """Id to commit."""
    told = git("for-each-ref", "--format=%(refname) %(objectname)", *prefixes, cwd=top)
    return {line.split()[0].rsplit("/", 1)[1]: line.split()[1] for line in told.splitlines()}


def check_nothing_lost(top: Path, before: dict[str, str]) -> None:
    """Each checkpoint is there or in the trash, whole; no file or lock of anybody's is left."""
    now = refs(top, "refs/checkpoints", "refs/checkpoints-trash")
    assert now.items() >= before.items()
    assert fsck(top) == [] and verified(top) == []
    assert leftovers(top) == []


def check_beside(struck: Struck, name: str, top: Path) -> Struck:
    """The other one has done what it was asked, or git has found the file locked."""
    beside = struck.beside
    assert beside is not None, struck
    if beside.code == 0:
        assert beside.stderr == "", beside
        last = git("log", "--all", "--format=%s", "-1", "--grep=meanwhile", cwd=top)
        assert name == "prune" or last == "meanwhile\n"
    else:
        assert name == "commit" and any(word in beside.stderr for word in TAKEN), beside
    return beside


def scene_with_sessions(name: str, top: Path) -> Scene:
    """A scene with five checkpoints more, of which prune drops two."""
    scene = SCENES[name](top)
    with CheckpointManager(top) as manager:
        for _ in range(5):
            assert manager.create(kind="session")
    return replace(scene, checkpoints=refs(top, "refs/checkpoints"))


def check_state(top: Path, expected: Look) -> None:
    """Files and index; where HEAD stands is up to who commits."""
    now = look(top).state
    assert now.files == expected.state.files
    assert now.index == expected.state.index


@pytest.mark.parametrize("command", ["save", "prune", "gc"])
def test_a_command_held_up_anywhere_and_the_one_that_overtakes_it_both_succeed(
    command: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = scene_with_sessions("whole", tmp_path / "before")
    words = {"save": ("save", "slow"), "prune": ("prune",), "gc": ("gc", "--force")}[command]
    unstruck = scene.copy()
    operations = driver.run(unstruck, *words, "--json").operations
    with Sweep(record_property) as sweep:
        for turn, nth in enumerate(sample(operations, every=14)):
            for other in others(turn):
                with sweep.trying((nth, operations[nth - 1], other)):
                    top = scene.copy()
                    struck = driver.beside(top, (*words, "--json"), nth, *OTHERS[other])
                    if sweep.is_over(struck, nth):
                        continue
                    sweep.count(f"operations of {command} held up")
                    assert (struck.code, struck.stderr) == (0, ""), struck
                    assert check_beside(struck, other, top).code == 0
                    check_state(top, scene.before)
                    check_nothing_lost(top, scene.checkpoints)
                    if command == "save":
                        assert trees(top, "slow") == trees(unstruck, "slow")


def trees(top: Path, name: str) -> str:
    """What a checkpoint holds of worktree and index."""
    ref = git("for-each-ref", "refs/checkpoints", "--format=%(refname) %(subject)", cwd=top)
    (found,) = (line.split()[0] for line in ref.splitlines() if line.endswith(f" {name}"))
    return git("rev-parse", f"{found}^{{tree}}", f"{found}^2:index", cwd=top)


@pytest.mark.parametrize("name", ["whole", "same branch"])
def test_a_rollback_held_up_anywhere_loses_nothing_of_what_happens_meanwhile(
    name: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = scene_with_sessions(name, tmp_path / "before")
    operations = driver.run(scene.copy(), *scene.words).operations
    with Sweep(record_property) as sweep:
        for turn, nth in enumerate(sample(operations, every=27)):
            for other in others(turn):
                with sweep.trying((nth, operations[nth - 1], other)):
                    top = scene.copy()
                    struck = driver.beside(top, scene.words, nth, *OTHERS[other])
                    if sweep.is_over(struck, nth):
                        continue
                    sweep.count("operations of rollbacks held up")
                    check_beside(struck, other, top)
                    way = WAYS[turn // 3 % 2]
                    reached = _finish(driver, scene, top, struck, way)
                    check_beside(struck, other, top)
                    check_state(top, reached)
                    check_nothing_lost(top, scene.checkpoints)
                    if struck.code == 0:
                        assert driver.run(top, "undo", "--yes").code == 0
                        check_state(top, scene.before)


def _finish(driver: Driver, scene: Scene, top: Path, struck: Struck, way: str) -> Look:
    """Done, unless the branch that was to go back has grown: then in the way that is hinted at."""
    if struck.code == 0:
        assert struck.stderr == "", struck
        return scene.after
    assert struck.code == 4 and "moved while the rollback ran" in struck.stderr, struck
    assert has_journal(top)
    assert driver.run(top, "rollback", way).code == 0
    return scene.after if way == "--continue" else scene.before


@pytest.mark.parametrize("dropped", ["target", "later"])
def test_a_rollback_whose_checkpoint_is_dropped_meanwhile_does_not_begin_or_keeps_it(
    dropped: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    """`later` is the one that the scan cache relies on, and that the rollback can do without."""
    scene = SCENES["whole"](tmp_path / "before")

    def with_later() -> Path:
        top = scene.copy()
        assert driver.run(top, "save", "later").code == 0
        return top

    operations = driver.run(with_later(), *scene.words).operations
    journal = next(at for at, (_, path) in enumerate(operations) if path.endswith("/ckpt/journal"))
    with Sweep(record_property) as sweep:
        # How many there are before that one differs.
        moments = [*sample(operations[: journal + 8], every=14), Blow(path="/ckpt/journal")]
        for moment in moments:
            with sweep.trying(moment):
                sweep.count("operations of rollbacks held up")
                top = with_later()
                there = refs(top, "refs/checkpoints")
                struck = driver.beside(top, scene.words, moment, "drop", dropped)
                if isinstance(moment, int) and sweep.is_over(struck, moment):
                    continue
                assert struck.beside is not None, struck
                was_in_time = struck.beside.code == 0 and not struck.beside.has_waited
                if dropped == "target" and was_in_time:
                    assert struck.code == 4 and "did not begin" in struck.stderr, struck
                else:
                    assert (struck.code, struck.stderr) == (0, ""), struck
                assert not has_journal(top)
                check_state(top, scene.before if struck.code else scene.after)
                check_nothing_lost(top, there)
