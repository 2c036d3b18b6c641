# SPDX-License-Identifier: MIT
"""`kill -9` before each operation of a rollback, then `--continue` or `--abort`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.rollbacks import (
    SCENES,
    Look,
    Scene,
    checkpoints,
    commit,
    differences,
    has_journal,
    leftovers,
    look,
    save,
    whole,
)
from faults.striking import TORTURE, Driver, Struck, Sweep, kill, kills
from helpers import git
from scenes import write

Record = Callable[[str, object], None]

WAYS = ["--continue", "--abort"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SCENES)
def test_a_rollback_killed_anywhere_is_finished_or_taken_back_exactly(
    name: str, way: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = SCENES[name](tmp_path / "before")
    operations = driver.run(scene.copy(), *scene.words).operations

    with Sweep(record_property) as sweep:
        for nth in kills(operations, every=34, edges=name == "whole"):
            with sweep.trying((nth, operations[nth - 1])):
                sweep.count("operations of rollbacks struck")
                top = scene.copy()
                struck = driver.run(top, *scene.words, blow=kill(nth))
                reached = _recover(driver, scene, top, struck, way)
                if reached == scene.after:
                    _undo(driver, scene, top)
                commit(top)
                sweep.count("kills survived" if struck.killed else "runs over before the blow")


@pytest.mark.parametrize("name", SCENES if TORTURE else ["other branch"])
def test_a_save_after_a_killed_rollback_holds_nothing_temporary_and_leaves_what_is_the_journals(
    name: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = SCENES[name](tmp_path / "before")
    operations = driver.run(scene.copy(), *scene.words).operations

    with Sweep(record_property) as sweep:
        for turn, nth in enumerate(kills(operations, every=34)):
            with sweep.trying((nth, operations[nth - 1])):
                sweep.count("operations of rollbacks struck")
                top = scene.copy()
                struck = driver.run(top, *scene.words, blow=kill(nth))
                saved = driver.run(top, "save", "next", "--json")
                assert saved.code == 0, saved
                ref = saved.json["checkpoint"]["ref"]
                assert ".ckpt-tmp-" not in git("ls-tree", "-r", "--name-only", ref, cwd=top)
                if has_journal(top):
                    assert driver.run(top, "rollback", WAYS[turn % 2]).code == 0
                assert leftovers(top) == []
                sweep.count("kills survived" if struck.killed else "runs over before the blow")


def _recover(driver: Driver, scene: Scene, top: Path, struck: Struck, way: str) -> Look:
    """Bring the rollback to the end asked for; returns the state that is there now."""
    begun = struck.did("rename", "/.git/ckpt/journal")
    ended = struck.did("rename", "/.git/ckpt/last-rollback")
    assert has_journal(top) == (begun and not ended)
    reached = scene.after
    if not begun:
        assert differences(look(top), scene.before) == []
        refused = driver.run(top, "rollback", way)
        assert (refused.code, "no rollback was interrupted" in refused.stderr) == (4, True)
        again = driver.run(top, *scene.words)
        assert again.code == 0, again
    elif not ended:
        recovered = driver.run(top, "rollback", way)
        assert recovered.code == 0, recovered
        reached = scene.after if way == "--continue" else scene.before
    scene.check(top, reached)
    return reached


def _undo(driver: Driver, scene: Scene, top: Path) -> None:
    undone = driver.run(top, "undo")
    assert undone.code == 0, undone
    scene.check(top, scene.before)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["whole", "other branch"] if TORTURE else ["other branch"])
def test_a_recovery_killed_anywhere_can_be_repeated_or_turned_round(
    name: str, way: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = SCENES[name](tmp_path / "before")
    crash = (
        kill(1, "rename", "edited") if way == "--continue" else kill(1, "rename", "/last-rollback")
    )
    crashed = scene.copy("crashed")
    assert driver.run(crashed, *scene.words, blow=crash).killed
    scene = Scene(crashed, scene.words, scene.before, scene.after, scene.checkpoints)
    operations = driver.run(scene.copy(), "rollback", way).operations

    with Sweep(record_property) as sweep:
        for nth in kills(operations, every=7):
            for second in WAYS if TORTURE else [WAYS[nth // 7 % 2]]:
                with sweep.trying((nth, operations[nth - 1], second)):
                    sweep.count("operations of recoveries struck")
                    top = scene.copy()
                    struck = driver.run(top, "rollback", way, blow=kill(nth))
                    reached = scene.after if way == "--continue" else scene.before
                    if has_journal(top):
                        assert driver.run(top, "rollback", second).code == 0
                        reached = scene.after if second == "--continue" else scene.before
                    scene.check(top, reached)
                    sweep.count("kills survived" if struck.killed else "runs over before the blow")


def test_after_an_abort_undo_takes_back_the_rollback_before(driver: Driver, tmp_path: Path) -> None:
    """Also where the kill came when the rollback had noted itself as the last one."""
    scene = whole(tmp_path / "before")
    top = scene.copy()
    assert driver.run(top, *scene.words).code == 0
    later = save(top, "later")
    write(top, "src/edited", "after that\n")
    state = look(top)
    assert driver.run(top, "rollback", later, blow=kill(1, "rename", "/last-rollback")).killed

    assert driver.run(top, "rollback", "--abort").code == 0
    assert differences(look(top), state) == []
    assert driver.run(top, "undo").code == 0
    scene.check(top, scene.before)


@pytest.mark.parametrize("lost", [False, True])
def test_undo_beside_a_killed_rollback_says_that_it_was_interrupted(
    lost: bool, driver: Driver, tmp_path: Path
) -> None:
    """Whether or not there was one before it, also if the state before that one is gone."""
    scene = whole(tmp_path / "before")
    top = scene.copy()
    if lost:
        assert driver.run(top, *scene.words).code == 0
        (safety,) = checkpoints(top).keys() - scene.checkpoints.keys()
        git("update-ref", "-d", safety, cwd=top)
        write(top, "src/edited", "after that\n")
    assert driver.run(top, *scene.words, blow=kill(1, "rename", "edited")).killed

    refused = driver.run(top, "undo")

    assert refused.code == 4, refused
    assert "a rollback was interrupted in this worktree" in refused.stderr
    assert "git ckpt rollback --continue" in refused.stderr


def test_all_that_changed_is_flushed_before_the_journal_goes(
    driver: Driver, tmp_path: Path
) -> None:
    """Contents of files, and the names in every folder up to the top."""
    scene = whole(tmp_path / "before")
    top = scene.copy()

    operations = driver.run(top, *scene.words).operations

    journal = next(
        at for at in operations if at[0] == "rename" and at[1].endswith("/last-rollback")
    )
    before = operations[: operations.index(journal)]
    flushed = {os.path.relpath(path, top) for name, path in before if name.startswith("fsync")}
    changed = scene.before.state.files.items() ^ scene.after.state.files.items()
    paths = {os.fsdecode(path) for path, _ in changed}
    files = {path for path in paths if (top / path).is_file() and not (top / path).is_symlink()}
    folders = {str(parent) for path in paths for parent in Path(path).parents}
    assert flushed >= files
    assert flushed >= {folder for folder in folders if (top / folder).is_dir()}
