# SPDX-License-Identifier: MIT
"""What is ignored and stands in the way: left where it must be, and no nuisance elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import Ran, ckpt_here, git
from scenes import remove, write
from seam import observe


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    git("init", "-q", cwd=made)
    for name in ("a", "b", "c", "d"):
        write(made, name, f"{name}\n")
    git("add", "--all", cwd=made)
    git("commit", "-q", "-m", "start", cwd=made)
    return made


def rollback(top: Path, *words: str, code: int = 0) -> Ran:
    return ckpt_here("rollback", "it", "--yes", "--json", *words, cwd=top, code=code)


# -- undo ------------------------------------------------------------------------


def test_undo_brings_back_what_the_rollback_replaced_though_it_is_ignored_by_now(
    top: Path,
) -> None:
    write(top, "x.log", "one\n")
    ckpt_here("save", "it", cwd=top, code=0)
    write(top, "x.log", "two\n")
    rollback(top)
    write(top, "x.log", "edited after that\n")
    write(top, ".git/info/exclude", "*.log\n")

    undone = ckpt_here("undo", "--yes", "--json", cwd=top, code=0).json
    assert (top / "x.log").read_text() == "two\n"
    held = git("show", f"{undone['safety']['ref']}:x.log", cwd=top)

    assert held == "edited after that\n"


def test_an_ignored_file_that_differs_is_still_left(top: Path) -> None:
    write(top, "x.log", "one\n")
    ckpt_here("save", "it", cwd=top, code=0)
    write(top, "x.log", "two\n")
    write(top, ".git/info/exclude", "*.log\n")

    report = rollback(top, code=4).json

    assert report["skipped"] == [{"path": "x.log", "reason": "ignored"}]
    assert (top / "x.log").read_text() == "two\n"


# -- empty folders that are ignored ------------------------------------------------


def test_an_empty_folder_that_is_held_gives_way(top: Path) -> None:
    write(top, "path", "a file\n")
    ckpt_here("save", "it", cwd=top, code=0)
    remove(top, "path")
    (top / "path/inner").mkdir(parents=True)

    rollback(top)

    assert (top / "path").read_text() == "a file\n"


# -- what recovery reports ----------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "written", "removed"),
    [("--continue", ["b", "c", "d", "z"], []), ("--abort", ["a"], ["z"])],
)
def test_recovery_reports_what_it_did_and_not_what_was_done_already(
    top: Path, step: str, written: list[str], removed: list[str]
) -> None:
    write(top, "z", "z\n")
    ckpt_here("save", "it", cwd=top, code=0)
    for name in ("a", "b", "c", "d"):
        write(top, name, "edited\n")
    remove(top, "z")

    def stop(operation: str, path: str) -> None:
        if operation == "rename" and path.endswith("/b"):
            raise OSError(28, "No space left on device")

    observe(stop)
    try:
        rollback(top, code=1)
    finally:
        observe(None)
    if step == "--abort":
        write(top, "z", "z\n")
    report = ckpt_here("rollback", step, "--json", cwd=top, code=0).json

    assert [item["path"] for item in report["written"]] == written
    assert [item["path"] for item in report["removed"]] == removed
