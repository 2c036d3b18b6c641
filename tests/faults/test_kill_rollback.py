# SPDX-License-Identifier: MIT
"""`kill -9` before each operation of a rollback, then `--continue` or `--abort`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faults.rollbacks import SCENES, Look, Scene, differences, has_journal, look, save, whole
from faults.striking import Driver, Struck, Sweep, kill, sample
from helpers import git
from scenes import write

Record = Callable[[str, object], None]

# Small rollbacks that differ from the large one in how HEAD moves need fewer blows.
EVERY = {"whole": 12, "by path": 16, "other branch": 20}


@pytest.mark.parametrize("way", ["--continue", "--abort"])
@pytest.mark.parametrize("name", SCENES)
def test_a_rollback_killed_anywhere_is_finished_or_taken_back_exactly(
    name: str, way: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = SCENES[name](tmp_path / "before")
    operations = driver.run(scene.copy(), *scene.words).operations

    with Sweep(record_property) as sweep:
        for nth in sample(operations, every=EVERY.get(name, 40)):
            with sweep.trying((nth, operations[nth - 1])):
                sweep.count("operations of rollbacks struck")
                top = scene.copy()
                struck = driver.run(top, *scene.words, blow=kill(nth))
                reached = _recover(driver, scene, top, struck, way)
                if reached == scene.after:
                    _undo(driver, scene, top)
                git("commit", "-q", "--allow-empty", "-m", "not blocked", cwd=top)
                sweep.count("kills survived" if struck.killed else "runs over before the blow")


def _recover(driver: Driver, scene: Scene, top: Path, struck: Struck, way: str) -> Look:
    """Bring the rollback to the end asked for; returns the state that is there now."""
    begun = struck.did("rename", "/ckpt/journal")
    ended = struck.did("unlink", "/ckpt/journal")
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


@pytest.mark.parametrize("way", ["--continue", "--abort"])
@pytest.mark.parametrize("name", ["whole", "other branch"])
def test_a_recovery_killed_anywhere_can_be_repeated_or_turned_round(
    name: str, way: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = SCENES[name](tmp_path / "before")
    crash = kill(1, "rename", "edited") if way == "--continue" else kill(1, "unlink", "/journal")
    crashed = scene.copy("crashed")
    assert driver.run(crashed, *scene.words, blow=crash).killed
    scene = Scene(crashed, scene.words, scene.before, scene.after, scene.checkpoints)
    operations = driver.run(scene.copy(), "rollback", way).operations

    with Sweep(record_property) as sweep:
        for nth in sample(operations, every=12):
            for second in ("--continue", "--abort"):
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
    assert driver.run(top, "rollback", later, blow=kill(1, "unlink", "/ckpt/journal")).killed

    assert driver.run(top, "rollback", "--abort").code == 0
    assert differences(look(top), state) == []
    assert driver.run(top, "undo").code == 0
    scene.check(top, scene.before)


def test_every_folder_whose_names_changed_is_flushed_before_the_journal_goes(
    driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")

    operations = driver.run(scene.copy(), *scene.words).operations

    flushed = {path for name, path in operations if name == "fsync"}
    changed = scene.before.state.files.items() ^ scene.after.state.files.items()
    for path, (kind, _, _) in changed:
        parents = [str(parent) for parent in Path(path.decode(errors="surrogateescape")).parents]
        assert flushed >= {parent.replace(".", "", 1) for parent in parents}
        if kind == "file" and path in scene.after.state.files:
            assert path.decode(errors="surrogateescape") in flushed
    journal = next(n for n, (name, path) in enumerate(operations) if path.endswith("/journal"))
    assert operations[-2][0] == "unlink" and operations[-2][1].endswith("/ckpt/journal")
    assert journal < operations.index(("fsync", ""))
