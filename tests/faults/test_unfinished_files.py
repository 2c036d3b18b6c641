# SPDX-License-Identifier: MIT
"""What a killed rollback has begun to write goes; what only bears such a name is somebody's own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from faults.rollbacks import Scene, whole
from faults.striking import Driver, kill
from helpers import git
from scenes import write

WAYS = ["--continue", "--abort"]
ALIKE = (".ckpt-tmp-0123456789abcdef", ".ckpt-tmp-0123456789abcdef-fedcba9876543210")
OWN = "by hand, and nowhere else\n"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return whole(tmp_path / "before")


@pytest.fixture
def top(driver: Driver, scene: Scene) -> Path:
    """Killed with one file begun."""
    top = scene.copy()
    assert driver.run(top, *scene.words, blow=kill(1, "rename", "edited")).killed
    return top


def begun(top: Path) -> list[str]:
    return [str(path.relative_to(top)) for path in top.glob("src/.ckpt-tmp-*")]


def saved(driver: Driver, top: Path) -> list[str]:
    """The paths in a new checkpoint."""
    ref = driver.run(top, "save", "--json").json["checkpoint"]["ref"]
    return git("ls-tree", "-r", "--name-only", ref, cwd=top).splitlines()


def test_without_a_journal_any_name_is_saved(driver: Driver, scene: Scene) -> None:
    top = scene.copy()
    for name in ALIKE:
        write(top, f"src/{name}", OWN)
        write(top, f"folder/{name}/file", OWN)
        (top / f"new-{name}").mkdir()
        (top / f"new-{name}/{name}").symlink_to("nowhere")

    found = saved(driver, top)

    for name in ALIKE:
        assert {f"src/{name}", f"folder/{name}/file", f"new-{name}/{name}"} <= {*found}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_or_folder_that_only_bears_such_a_name_stays(
    way: str, driver: Driver, top: Path
) -> None:
    (ours,) = begun(top)
    write(top, f"src/{ALIKE[0]}", OWN)
    write(top, f"src/{ALIKE[1]}/file", OWN)
    write(top, f"{ours}.bak", OWN)
    alike = {f"src/{ALIKE[0]}", f"src/{ALIKE[1]}/file", f"{ours}.bak"}
    assert {*saved(driver, top)} >= alike

    recovered = driver.run(top, "rollback", way)

    assert recovered.code == 0, recovered
    assert {(top / path).read_text() for path in alike} == {OWN}
    assert not (top / ours).exists()


@pytest.mark.parametrize("way", WAYS)
def test_a_tracked_file_of_such_a_name_stays_with_its_edits(
    way: str, driver: Driver, scene: Scene
) -> None:
    top = scene.copy()
    for name in ALIKE:
        write(top, f"src/{name}", "first\n")
    git("add", "-f", *(f"src/{name}" for name in ALIKE), cwd=top)
    git("commit", "-qm", "alike", "--", "src", cwd=top)
    assert driver.run(
        top, *scene.words, "--", "src/edited", blow=kill(1, "rename", "edited")
    ).killed
    for name in ALIKE:
        write(top, f"src/{name}", OWN)

    recovered = driver.run(top, "rollback", way)

    assert recovered.code == 0, recovered
    assert {(top / f"src/{name}").read_text() for name in ALIKE} == {OWN}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_the_rollback_began_stays_if_it_was_tracked_and_edited_since(
    way: str, driver: Driver, top: Path
) -> None:
    (ours,) = begun(top)
    git("add", "-A", cwd=top)
    write(top, ours, OWN)
    assert ours in saved(driver, top)

    recovered = driver.run(top, "rollback", way)

    assert recovered.code == 0, recovered
    assert (top / ours).read_text() == OWN


@pytest.mark.parametrize("way", WAYS)
def test_a_folder_in_the_place_of_a_file_that_the_rollback_began_stays(
    way: str, driver: Driver, top: Path
) -> None:
    (ours,) = begun(top)
    (top / ours).unlink()
    write(top, f"{ours}/file", OWN)
    assert f"{ours}/file" in saved(driver, top)

    recovered = driver.run(top, "rollback", way)

    assert recovered.code == 0, recovered
    assert (top / ours / "file").read_text() == OWN


def test_once_the_journal_is_put_aside_what_is_left_is_saved_like_any_file(
    driver: Driver, top: Path
) -> None:
    (ours,) = begun(top)
    time.sleep(0.2)  # from then on a folder is known by its times
    assert ours not in saved(driver, top)
    assert ours not in saved(driver, top)
    (top / ".git/ckpt/journal").unlink()

    assert ours in saved(driver, top)
