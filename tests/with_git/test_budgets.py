# SPDX-License-Identifier: MIT
"""What one checkpoint may add is bounded; what does not fit is listed and never lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ckpt_here, git, tree_state
from scenes import write


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    git("init", "-q", cwd=made)
    write(made, "tracked", "tracked\n")
    git("add", "--all", cwd=made)
    git("commit", "-q", "-m", "start", cwd=made)
    return made


def save(top: Path, **limits: int | str) -> tuple[list[str], dict[str, str]]:
    """The paths that a checkpoint holds, and what it left out."""
    env = {f"CKPT_MAX_NEW_{name.upper()}": str(value) for name, value in limits.items()}
    saved = ckpt_here("save", "it", "--json", cwd=top, env=env, code=0).json["checkpoint"]
    names = git("ls-tree", "-r", "--name-only", saved["ref"], cwd=top).splitlines()
    return names, {item["path"]: item["reason"] for item in saved["skipped"]}


def test_the_smallest_files_fit_first(top: Path) -> None:
    for name, size in (("a", 40), ("b", 30), ("c", 20), ("d", 5)):
        write(top, name, name * size)

    assert save(top, bytes=60) == (["b", "c", "d", "tracked"], {"a": "budget"})


def test_tracked_files_are_always_taken(top: Path) -> None:
    write(top, "tracked", "t" * 1000)
    write(top, "staged", "s" * 1000)
    git("add", "staged", cwd=top)
    write(top, "untracked", "u" * 1000)

    assert save(top, bytes=10, files=1) == (["staged", "tracked"], {"untracked": "budget"})


def test_of_thousands_only_the_folders_are_listed(top: Path) -> None:
    for number in range(1001):
        write(top, f"data/{number % 7}/{number}", f"{number:9}")
    write(top, "mixed/held", "1")
    write(top, "mixed/too much", "22222222222222")
    write(top, ".env", "SECRET=1")

    held, skipped = save(top, files=1)

    assert held == ["mixed/held", "tracked"]
    assert skipped == {".env": "denied", "data": "budget", "mixed/too much": "budget"}


def test_what_was_left_out_is_neither_removed_nor_overwritten(top: Path) -> None:
    write(top, "data/big", "b" * 100)
    save(top, bytes=50)
    write(top, "data/big", "other" * 100)
    write(top, "created", "since\n")

    tight = {"CKPT_MAX_NEW_BYTES": "50"}
    report = ckpt_here("rollback", "it", "--json", cwd=top, env=tight, code=0).json
    assert report["kept"] == [{"path": "data/big", "reason": "budget at the checkpoint"}]
    assert report["safety"]["skipped"] == []
    ckpt_here("undo", "--yes", cwd=top, code=0)
    report = ckpt_here("rollback", "it", "--json", cwd=top, code=0).json

    assert (top / "data/big").read_text() == "other" * 100
    assert report["removed"] == [{"path": "created"}]
    assert report["kept"] == [{"path": "data/big", "reason": "budget at the checkpoint"}]


def test_a_rollback_takes_what_is_in_its_plan_whatever_it_costs(top: Path) -> None:
    write(top, "data", "d" * 100)
    save(top)
    write(top, "data", "edited" * 100)
    for number in range(20):
        write(top, f"new/{number}", f"{number}" * 50)
    before = tree_state(top)
    tight = {"CKPT_MAX_NEW_BYTES": "10", "CKPT_MAX_NEW_FILES": "1"}

    report = ckpt_here("rollback", "it", "--yes", "--json", cwd=top, env=tight, code=0).json
    assert (len(report["removed"]), report["skipped"]) == (20, [])
    assert (top / "data").read_text() == "d" * 100
    ckpt_here("undo", "--yes", cwd=top, env=tight, code=0)

    assert tree_state(top) == before
