# SPDX-License-Identifier: MIT
"""A repository that is moved away while a command runs: told as that, and none is begun anew.

Nothing may appear at the old place, where it would stand in the way of what is moved back, and the
cause must not look like damage, or like something that only trust in a checkpoint helps with.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.rollbacks import SCENES, save
from faults.striking import Blow, Driver, Sweep, sample
from helpers import fsck, verified
from scenes import write

Record = Callable[[str, object], None]

GONE = (
    "error: not a git repository any more: '{}'\nhint: if it was moved, open it at its new place\n"
)


def moving(nth: int, top: Path, place: Path) -> Blow:
    return Blow(nth, command=("mv", str(top), str(place)))


@pytest.mark.parametrize("name", ["save", "whole", "same branch"])
def test_a_repository_that_is_moved_away_is_missed_and_not_begun_anew(
    name: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = SCENES["whole" if name == "save" else name](tmp_path / "before")
    words = ("save", "again") if name == "save" else scene.words
    operations = driver.run(scene.copy(), *words).operations

    with Sweep(record_property) as sweep:
        for nth in sample(operations, every=12):
            with sweep.trying((nth, operations[nth - 1])):
                top, place = scene.copy(), tmp_path / "moved"
                shutil.rmtree(place, ignore_errors=True)
                ran = driver.run(top, *words, blow=moving(nth, top, place))
                if sweep.is_over(ran, nth):
                    continue
                sweep.count("repositories moved away")
                assert not top.exists()
                if ran.code != 0:
                    assert ran.stderr.endswith(GONE.format(top / ".git")), ran
                    assert "Traceback" not in ran.stderr
                assert fsck(place) == []
                assert verified(place) == []


def test_the_first_thing_that_a_save_notes_makes_no_folder_at_the_old_place(
    driver: Driver, tmp_path: Path, repo: Path
) -> None:
    save(repo, "one")
    write(repo, "src/app.py", "edited\n")
    away = Blow(1, "append", "/made-here", command=("mv", str(repo), str(tmp_path / "moved")))

    ran = driver.run(repo, "save", "two", blow=away)

    assert (ran.code, ran.stderr) == (1, GONE.format(repo / ".git"))
    assert not repo.exists()


def test_a_rollback_whose_journal_was_moved_away_does_not_call_itself_done(
    driver: Driver, tmp_path: Path
) -> None:
    scene = SCENES["whole"](tmp_path / "before")
    top, place = scene.copy(), tmp_path / "moved"
    away = Blow(1, "unlink", "/.git/ckpt/journal", command=("mv", str(top), str(place)))

    ran = driver.run(top, *scene.words, blow=away)

    assert (ran.code, ran.stdout, ran.stderr) == (1, "", GONE.format(top / ".git"))
    assert driver.run(place, "rollback", "--continue").code == 0
    scene.check(place, scene.after)
