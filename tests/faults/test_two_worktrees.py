# SPDX-License-Identifier: MIT
"""One git dir with several worktrees, each named by GIT_WORK_TREE.

They share the private files, and no rollback of the one is finished or taken back in another.
"""

from __future__ import annotations

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
