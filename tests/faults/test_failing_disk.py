# SPDX-License-Identifier: MIT
"""A rollback whose disk fails, or that is interrupted, while it runs: told, and made good."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.rollbacks import (
    SCENES,
    Scene,
    commit,
    has_journal,
    leftovers,
    other_branch,
    temporary_objects,
    whole,
)
from faults.striking import (
    LEAVING,
    TORTURE,
    Blow,
    Driver,
    Struck,
    Sweep,
    check_told,
    start,
    strikes,
)
from helpers import git

Record = Callable[[str, object], None]

WAYS = ["--continue", "--abort"]
MAY_BE_LEFT = ("forbidden", "read-only")


@pytest.mark.parametrize("kind", ["full", "failing", "interrupt"])
@pytest.mark.parametrize("name", ["whole", "other branch", *(["undo"] if TORTURE else [])])
def test_a_rollback_that_fails_anywhere_says_so_and_is_finished_or_taken_back_exactly(
    name: str, kind: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = SCENES[name](tmp_path / "before")
    operations = driver.run(scene.copy(), *scene.words).operations

    with Sweep(record_property) as sweep:
        every = 11 if kind == "failing" else 30
        for turn, (nth, how, blow) in enumerate(strikes(operations, kind, every)):
            way = WAYS[(turn + nth) % 2]
            with sweep.trying((nth, operations[nth - 1], how, way)):
                sweep.count("operations of rollbacks struck")
                top = scene.copy()
                struck = driver.run(top, *scene.words, blow=blow)
                if struck.code != 4:
                    check_told(struck, how)
                else:  # the one path that may not be touched is left and listed
                    assert how in MAY_BE_LEFT and "left '" in struck.stderr, struck
                _settle(driver, scene, top, how)
                _recover(driver, scene, top, struck, way)
                commit(top)
                sweep.count("failures survived")


def _settle(driver: Driver, scene: Scene, top: Path, how: str) -> None:
    """What could not be taken away goes with the next command, at once or when the rollback is
    finished or taken back."""
    if how not in LEAVING:
        assert temporary_objects(top) == []
        assert [path for path in leftovers(top) if not path.endswith("/ckpt/journal")] == []
    elif leftovers(top) and not has_journal(top):
        saved = driver.run(top, "save", "next")
        assert saved.code == 0, saved


def _recover(driver: Driver, scene: Scene, top: Path, struck: Struck, way: str) -> None:
    if struck.code == 0:
        scene.check(top, scene.after)
    elif struck.code == 4:
        assert leftovers(top) == []
        assert driver.run(top, "undo").code == 0
        scene.check(top, scene.before)
    elif has_journal(top):
        recovered = driver.run(top, "rollback", way)
        assert recovered.code == 0, recovered
        scene.check(top, scene.after if way == "--continue" else scene.before)
    elif struck.did("rename", "/.git/ckpt/last-rollback"):
        scene.check(top, scene.after)
    else:
        scene.check(top, scene.before)
        assert driver.run(top, *scene.words).code == 0
        scene.check(top, scene.after)


def test_a_rollback_whose_journal_cannot_be_written_says_that_nothing_was_touched(
    driver: Driver, tmp_path: Path
) -> None:
    scene = SCENES["whole"](tmp_path / "before")
    top = scene.copy()

    struck = driver.run(
        top, *scene.words, blow=Blow(1, "rename", "/.git/ckpt/journal", error=errno.ENOSPC)
    )

    assert struck.code == 1
    assert struck.stderr.startswith("error: the rollback did not begin: ")
    assert "nothing was touched" in struck.stderr
    assert leftovers(top) == []
    scene.check(top, scene.before)


@pytest.mark.parametrize("way", WAYS)
def test_a_recovery_that_fails_can_be_repeated(
    way: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = other_branch(tmp_path / "before")
    at = ("rename", "edited") if way == "--continue" else ("rename", "/last-rollback")
    crash = Blow(1, *at, error=errno.EIO)
    failed = scene.copy("failed")
    assert driver.run(failed, *scene.words, blow=crash).code == 1
    reached = scene.after if way == "--continue" else scene.before
    scene = Scene(failed, scene.words, scene.before, scene.after, scene.checkpoints)
    operations = driver.run(scene.copy(), "rollback", way).operations

    with Sweep(record_property) as sweep:
        for nth, how, blow in strikes(operations, "failing", every=20):
            with sweep.trying((nth, operations[nth - 1], how)):
                sweep.count("operations of recoveries struck")
                top = scene.copy()
                struck = driver.run(top, "rollback", way, blow=blow)
                if struck.code == 4:
                    assert how in MAY_BE_LEFT and "left '" in struck.stderr, struck
                    (reported,) = re.findall(r"Rolled back to checkpoint (\S+)", struck.stdout)
                    assert driver.run(top, "rollback", "--yes", "--head", reported).code == 0
                else:
                    check_told(struck, how)
                if has_journal(top):
                    assert driver.run(top, "rollback", way).code == 0
                _settle(driver, scene, top, how)
                scene.check(top, reached)
                sweep.count("failures survived")


@pytest.mark.parametrize("blow", [{"error": errno.EIO}, {"signal": signal.SIGINT}])
@pytest.mark.parametrize(
    "at",
    [("rename", "/.git/index"), ("rename", "/.git/HEAD"), ("unlink", "/refs/heads/topic/one")],
)
def test_a_failure_under_a_lock_of_gits_leaves_no_lock_behind(
    at: tuple[str, str], blow: dict[str, int], driver: Driver, tmp_path: Path
) -> None:
    scene = other_branch(tmp_path / "before")
    top = scene.copy()

    failed = driver.run(top, *scene.words, blow=Blow(1, *at, **blow))

    assert failed.code in (1, 130), failed
    assert leftovers(top) == [".git/ckpt/journal"]
    git("add", "--refresh", ".", cwd=top)
    assert driver.run(top, "rollback", "--continue").code == 0
    scene.check(top, scene.after)


@pytest.mark.parametrize("at", [("fsync", "/src/edited"), ("fsync-dir", "/src"), ("rmdir", "")])
def test_a_rollback_does_not_end_well_if_the_disk_refuses_to_flush_or_to_remove_a_folder(
    at: tuple[str, str], driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top = scene.copy()

    failed = driver.run(top, *scene.words, blow=Blow(1, *at, error=errno.EIO))

    assert failed.code == 1, failed
    assert has_journal(top)


@pytest.mark.parametrize(
    "operation, path, error",
    [
        ("symlink", "", errno.EOPNOTSUPP),  # as on a share without links
        ("symlink", "", errno.ENOSYS),
        ("rename", "edited", errno.EILSEQ),  # as where names have to be UTF-8
        ("rename", "edited", errno.EINVAL),  # as where they must not hold a colon
    ],
)
def test_a_path_that_the_file_system_cannot_have_is_left_and_the_others_come_back(
    operation: str, path: str, error: int, driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top = scene.copy()

    struck = driver.run(top, *scene.words, blow=Blow(1, operation, path, error=error))

    assert struck.code == 4, struck
    assert os.strerror(error).lower() in struck.stderr
    assert leftovers(top) == []
    assert driver.run(top, "undo").code == 0
    scene.check(top, scene.before)


@pytest.mark.parametrize("command", ["save", "rollback"])
def test_an_interrupted_program_ends_quietly_and_leaves_nothing_half_done(
    command: str, driver: Driver, tmp_path: Path
) -> None:
    """A process of its own, whose last words as an interpreter would show as well."""
    scene = whole(tmp_path / "before")
    top = scene.copy()
    words = scene.words if command == "rollback" else ("save",)
    at = ("rename", "edited") if command == "rollback" else ("link", "refs/checkpoints/*.lock")

    process = start(top, *words, blow=Blow(1, *at, signal=signal.SIGINT))
    _, stderr = process.communicate()

    assert process.returncode == 130
    assert "Traceback" not in stderr and "Exception" not in stderr
    assert stderr.startswith("interrupted\n")
    if command == "rollback":
        assert driver.run(top, "rollback", "--abort").code == 0
    scene.check(top, scene.before)
