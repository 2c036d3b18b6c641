# SPDX-License-Identifier: MIT
"""A folder or file that becomes a link just before it is written to leads nowhere.

Another process could do that at any moment; here it is done before each single change that a
rollback makes to the disk, in turn, so that every one of them is struck.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from helpers import git, tree_state
from seam import observe

from ckpt import CheckpointManager, CkptError
from ckpt.errors import Busy

FILES = ("changed", "removed", "mode", "inner/changed", "inner/removed")
# `make torture` strikes each change.
EVERY = 3
TORTURE = "CKPT_TORTURE" in os.environ
# What is swapped for a link to the same name outside.
SWAPPED = ("dir", "dir/inner", "dir/changed", "dir/mode", "dir/new", "state")


@pytest.fixture(scope="session")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return []


@pytest.fixture
def before(pattern: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A worktree with a checkpoint and changes of all kinds since; the same names outside."""
    if not pattern:
        made = tmp_path_factory.mktemp("swapped")
        _make(made)
        pattern.append(made)
    return pattern[0]


def _make(top: Path) -> None:
    for place in (top / "repo", top / "outside"):
        for name in FILES:
            (place / "dir" / name).parent.mkdir(parents=True, exist_ok=True)
            (place / "dir" / name).write_text(f"then {name}\n")
        (place / "state").mkdir()
        (place / "state/x.state").write_text("then\n")
    (top / "outside/dir/new").write_text("mine\n")
    repo = top / "repo"
    (repo / ".gitignore").write_text("*.state\n")
    git("init", "-q", cwd=repo)
    git("add", ".", cwd=repo)
    git("commit", "-qm", "first", cwd=repo)
    (repo / "dir/gone").mkdir()
    (repo / "dir/link").symlink_to("changed")
    with CheckpointManager(repo) as manager:
        manager.create("then", state_files=["state/x.state"])
    (repo / "dir/changed").write_text("now\n")
    (repo / "dir/inner/changed").write_text("now\n")
    (repo / "dir/mode").chmod(0o600)
    (repo / "dir/removed").unlink()
    (repo / "dir/inner/removed").unlink()
    (repo / "dir/gone").rmdir()
    (repo / "dir/link").unlink()
    (repo / "dir/new").write_text("new\n")
    (repo / "dir/fresh").mkdir()
    (repo / "dir/fresh/file").write_text("new\n")
    (repo / "state/x.state").write_text("now\n")


class Swapping:
    """Puts a link in the place of a path before the n-th change of a worktree."""

    def __init__(self, top: Path, path: str, number: int) -> None:
        self.place = top / "repo" / path
        self.target = top / "outside" / path
        self.left = number

    def __call__(self, operation: str, path: str) -> None:
        if "/.git/" in path:
            return
        self.left -= 1
        if self.left == 0:
            with suppress(FileNotFoundError):
                os.rename(self.place, f"{self.place}.aside")
            with suppress(FileNotFoundError):  # a folder above is gone by now
                os.symlink(self.target, self.place)


def swapped(before: Path, top: Path, path: str, number: int) -> bool:
    """Strike a rollback; whether it went so far."""
    subprocess.run(["cp", "-a", str(before), str(top)], check=True)
    outside = tree_state(top / "outside")
    swapping = Swapping(top, path, number)
    observe(swapping)
    try:
        with CheckpointManager(top / "repo") as manager:
            manager.rollback("then", yes=True)
    except (CkptError, Busy, OSError):
        pass
    finally:
        observe(None)
    assert tree_state(top / "outside") == outside, (path, number)
    return swapping.left <= 0


@pytest.mark.parametrize("path", SWAPPED)
def test_nothing_outside_changes(
    before: Path, tmp_path: Path, path: str, record_property: pytest.RecordProperty
) -> None:
    number, count = 1 if TORTURE else 1 + SWAPPED.index(path) % EVERY, 0
    while swapped(before, tmp_path / str(number), path, number):
        subprocess.run(["rm", "-rf", str(tmp_path / str(number))], check=True)
        number, count = number + (1 if TORTURE else EVERY), count + 1

    assert number > 10
    record_property("hostile", {"links swapped in during a rollback": count})


SWAP_FOR_EVER = """
import contextlib, os, sys
place, target = sys.argv[1:]
while True:
    with contextlib.suppress(OSError):
        os.rename(place, place + ".aside")
        os.symlink(target, place)
    with contextlib.suppress(OSError):
        os.unlink(place)
    with contextlib.suppress(OSError):
        os.rename(place + ".aside", place)
"""


@pytest.mark.parametrize("path", ["dir", "state"])
def test_a_process_that_swaps_all_the_time_gets_nothing_out(
    before: Path, tmp_path: Path, path: str
) -> None:
    top = tmp_path / "top"
    subprocess.run(["cp", "-a", str(before), str(top)], check=True)
    outside = tree_state(top / "outside")
    place, target = top / "repo" / path, top / "outside" / path
    with subprocess.Popen([sys.executable, "-c", SWAP_FOR_EVER, str(place), str(target)]) as other:
        try:
            with CheckpointManager(top / "repo") as manager:
                for _ in range(5):
                    with suppress(CkptError, OSError):
                        manager.rollback("then", yes=True)
                    with suppress(CkptError, OSError):
                        manager.undo(yes=True)
        finally:
            other.kill()

    assert tree_state(top / "outside") == outside
