# SPDX-License-Identifier: MIT
"""One git dir with several worktrees, each named by GIT_WORK_TREE.

They share the private files, and no rollback of the one is finished or taken back in another.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from shlex import quote

import pytest
from faults.striking import Driver, kill
from helpers import ckpt, git
from scenes import write

WAYS = ["--continue", "--abort"]
CRASH = kill(1, "rename", "edited")
WORDS = ("rollback", "it")


@pytest.fixture
def worktrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A checkpoint of the first, and both with edits of their own."""
    git("init", "-q", "--bare", str(tmp_path / "bare.git"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "bare.git"))
    one, two = tmp_path / "one", tmp_path / "it's two"
    for top in (one, two):
        top.mkdir()
        write(top, "edited", "then\n")
        write(top, "same", "same\n")
    enter(one, monkeypatch)
    git("add", ".", cwd=one)
    git("commit", "-q", "-m", "first", cwd=one)
    ckpt("save", "it", cwd=one, code=0)
    for top in (one, two):
        write(top, "edited", f"now in {top.name}\n")
    return one, two


def enter(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_WORK_TREE", str(top))


def crash(driver: Driver, top: Path) -> None:
    assert driver.run(top, *WORDS, blow=CRASH).killed


def expected(way: str, top: Path) -> str:
    return "then\n" if way == "--continue" else f"now in {top.name}\n"


@pytest.mark.parametrize("way", WAYS)
def test_a_rollback_that_was_interrupted_in_one_worktree_is_not_ended_in_another(
    way: str,
    driver: Driver,
    worktrees: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = worktrees
    enter(two, monkeypatch)
    crash(driver, two)
    enter(one, monkeypatch)

    refused = ckpt("rollback", way, cwd=one, code=4)

    assert f"the rollback took place in '{two}', not in this worktree" in refused.stderr
    assert f"hint: git --work-tree={quote(str(two))} ckpt rollback {way}\n" in refused.stderr
    assert (one / "edited").read_text() == "now in one\n"
    enter(two, monkeypatch)
    ckpt("rollback", way, cwd=two, code=0)
    assert (two / "edited").read_text() == expected(way, two)


def test_undo_takes_back_no_rollback_of_another_worktree(
    worktrees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = worktrees
    ckpt(*WORDS, cwd=one, code=0)
    enter(two, monkeypatch)

    refused = ckpt("undo", cwd=two, code=4)

    assert f"hint: git --work-tree={one} ckpt undo\n" in refused.stderr
    assert (two / "edited").read_text() == f"now in {two.name}\n"
    enter(one, monkeypatch)
    ckpt("undo", cwd=one, code=0)
    assert (one / "edited").read_text() == "now in one\n"


@pytest.mark.parametrize("way", WAYS)
def test_a_worktree_that_was_moved_after_the_crash_is_the_same(
    way: str,
    driver: Driver,
    worktrees: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, _ = worktrees
    crash(driver, one)
    moved = Path(shutil.move(one, one.with_name("moved")))
    one.mkdir()
    enter(moved, monkeypatch)

    ckpt("rollback", way, cwd=moved, code=0)

    assert (moved / "edited").read_text() == expected(way, one)
    if way == "--continue":
        ckpt("undo", cwd=moved, code=0)
        assert (moved / "edited").read_text() == "now in one\n"


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_of_a_repository_with_an_interrupted_rollback_can_be_recovered(
    way: str, driver: Driver, tmp_path: Path
) -> None:
    top, copy = tmp_path / "top", tmp_path / "copy"
    git("init", "-q", str(top))
    write(top, "edited", "then\n")
    write(top, "same", "same\n")
    ckpt("save", "it", cwd=top, code=0)
    write(top, "edited", "now in top\n")
    crash(driver, top)
    shutil.copytree(top, copy, symlinks=True)

    ckpt("rollback", way, cwd=copy, code=0)

    assert (copy / "edited").read_text() == expected(way, top)
    assert os.path.exists(top / ".git/ckpt/journal")


def test_a_worktree_that_is_nowhere_any_more_stops_nobody(
    driver: Driver, worktrees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = worktrees
    crash(driver, one)
    shutil.rmtree(one)
    enter(two, monkeypatch)

    recovered = ckpt("rollback", "--abort", "--json", cwd=two, code=0).json

    assert git("show", f"{recovered['safety']['ref']}:edited") == f"now in {two.name}\n"
