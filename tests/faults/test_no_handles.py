# SPDX-License-Identifier: MIT
"""Too few files may be open: a command succeeds or says so, and loses nothing.

A limit fails whatever is opened once so many are open; the sweep fails the opening of one file or
folder, to read it too: what cannot be read must never pass for what is not there.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.rollbacks import Scene, differences, has_journal, leftovers, look, whole
from faults.striking import Blow, Driver, Struck, Sweep, sample
from helpers import Ran, fsck, git, verified

from ckpt import CheckpointManager

Record = Callable[[str, object], None]

COMMANDS = {
    "save": ("save", "again"),
    "verify": ("verify", "--all"),
    "prune": ("prune",),
    "gc": ("gc",),
}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """With two checkpoints that prune drops."""
    scene = whole(tmp_path / "before")
    with CheckpointManager(scene.top) as manager:
        for _ in range(5):
            assert manager.create(kind="session")
    return scene


@pytest.fixture
def unhindered(driver: Driver, scene: Scene) -> str:
    """The tree of a checkpoint that nothing hinders."""
    return saved_tree(driver, scene.copy("unhindered"))


def check_told(ran: Ran | Struck) -> None:
    if ran.code == 4:  # a rollback leaves what its safety checkpoint could not read
        assert "left '" in ran.stderr, ran
    elif ran.code != 0:
        assert ran.code == 1, ran
        assert [line.split(":")[0] for line in ran.stderr.splitlines()] == ["error", "hint"], ran
        assert "this is a bug" not in ran.stderr, ran
        assert "Too many open files" in ran.stderr, ran


@pytest.mark.parametrize("command", [*COMMANDS, "rollback"])
def test_a_file_or_folder_that_cannot_be_opened_does_not_pass_for_one_that_is_not_there(
    command: str, scene: Scene, unhindered: str, driver: Driver, record_property: Record
) -> None:
    words = scene.words if command == "rollback" else COMMANDS[command]
    ran = driver.run(scene.copy(), *words, opening=True)
    opened = [each for each in ran.operations if each[0] == "opening"]
    with Sweep(record_property) as sweep:
        for nth in sample(opened, every=40):
            with sweep.trying((nth, opened[nth - 1])):
                sweep.count("files and folders not opened")
                top = scene.copy()
                blow = Blow(nth, "opening", error=errno.EMFILE)
                struck = driver.run(top, *words, blow=blow, opening=True)
                check_told(struck)
                if command != "rollback":
                    assert differences(look(top), scene.before) == []
                repeat(driver, scene, top, words, unhindered)


def repeat(
    driver: Driver, scene: Scene, top: Path, words: tuple[str, ...], unhindered: str
) -> None:
    """Nothing is gone, and the same command again succeeds."""
    assert checkpoints_and_trash(top) >= checkpoints_and_trash(scene.top)
    if has_journal(top):
        assert driver.run(top, "rollback", "--continue").code == 0
    ran = driver.run(top, *words)
    assert (ran.code, ran.stderr) == (0, ""), ran
    assert fsck(top) == [] and verified(top) == []
    assert leftovers(top) == []
    if words == scene.words:
        assert differences(look(top), scene.after) == []
    else:
        assert saved_tree(driver, top) == unhindered


def saved_tree(driver: Driver, top: Path) -> str:
    """What a save finds, that nothing hinders."""
    saved = driver.run(top, "save", "unhindered", "--json")
    assert saved.json["outcome"] == "created", saved
    return git("rev-parse", f"{saved.json['checkpoint']['ref']}^{{tree}}", cwd=top)


def checkpoints_and_trash(top: Path) -> set[str]:
    words = ["for-each-ref", "--format=%(refname:lstrip=-1) %(objectname)"]
    return set(git(*words, "refs/checkpoints", "refs/checkpoints-trash", cwd=top).splitlines())
