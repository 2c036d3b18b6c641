# SPDX-License-Identifier: MIT
"""A file system that is mounted read-only, for real: in a mount namespace of the command's own,
where the system lets us have one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from faults.rollbacks import Scene, whole
from helpers import Ran, ckpt

MOUNT = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd . && exec "$@"'
OWN_MOUNTS = ("unshare", "--map-root-user", "--mount")


def under(folder: Path) -> tuple[str, ...]:
    """Starts a command to which a folder is read-only."""
    return (*OWN_MOUNTS, "sh", "-c", MOUNT, str(folder))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("read-only")
    try:
        tried = subprocess.run([*under(folder), "touch", str(folder / "x")], capture_output=True)
    except FileNotFoundError as error:
        pytest.skip(f"no program to mount with: {error}")
    if b"Read-only file system" not in tried.stderr:
        pytest.skip(f"cannot mount here: {tried.stderr.decode().strip()}")
    return whole(folder / "before")


def read_only(folder: Path, *words: str, cwd: Path) -> Ran:
    return ckpt("-C", str(cwd), *words, under=under(folder))


@pytest.mark.parametrize("words", [["list"], ["show", "target"], ["diff", "target"], ["verify"]])
def test_who_only_looks_is_served_on_a_read_only_file_system(
    words: list[str], scene: Scene
) -> None:
    top = scene.copy()

    ran = read_only(top, *words, "--json", cwd=top)

    assert (ran.code, ran.stderr) == (0, "")


@pytest.mark.parametrize("command", ["save", "rollback", "prune", "gc", "pin", "install"])
def test_who_writes_says_that_the_file_system_is_read_only_and_what_to_do(
    command: str, scene: Scene
) -> None:
    words = {"rollback": scene.words, "gc": ("gc",), "pin": ("pin", "target")}
    top = scene.copy()

    ran = read_only(top, *words.get(command, (command,)), cwd=top)

    lines = ran.stderr.splitlines()
    assert (ran.code, [line.split(":")[0] for line in lines]) == (1, ["error", "hint"]), ran
    assert "Read-only file system" in lines[0] and "mount" in lines[1]
    scene.check(top, scene.before)


def test_a_folder_that_is_read_only_is_left_and_listed_and_the_rest_rolled_back(
    scene: Scene,
) -> None:
    top = scene.copy()
    broken = (top / "src/edited").read_text()

    ran = read_only(top / "src", *scene.words, cwd=top)

    assert ran.code == 4, ran
    assert "left 'src/edited'" in ran.stderr
    assert (top / "src/edited").read_text() == broken
    assert (top / "becomes-file/inside").exists()
    ckpt(*scene.words, cwd=top, code=0)
    scene.check(top, scene.after)
