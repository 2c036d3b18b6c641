# SPDX-License-Identifier: MIT
"""A long life with default settings: refs, files and bytes stay within bounds.

Two thousand saves, three changed files before each, as an agent's sessions make them. Two hundred
are a day's work: there are four days of it here, ten with CKPT_TORTURE=1. When a day is over, what
it left grows older by eight days: the dates of the trash, and the times of objects, since nothing
else tells how long ago something was.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from figures import PROPERTY
from helpers import fsck, git, verified

from ckpt import CheckpointManager

FILES = 1000
DAYS = 10 if os.environ.get("CKPT_TORTURE") else 4
SAVES = 200  # a day
CHANGED = 3
KEPT = 5  # of a session, by the defaults
BETWEEN = 25  # saves, before retention looks again
TRASH = "refs/checkpoints-trash/"
LONG_AGO = "20200101"
_EIGHT_DAYS = 8 * 86400


@pytest.fixture
def large(repo: Path) -> Path:
    for number in range(FILES):
        folder = repo / f"area{number % 10}/part{number // 10 % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.py").write_text("".join(f"line {n} of {number}\n" for n in range(30)))
    git("add", ".")
    git("commit", "-qm", "files")
    git("gc", "-q")
    return repo


def a_day_of_work(top: Path, day: int) -> None:
    files = sorted(top.glob("area*/*/*.py"))
    with CheckpointManager(top, session=f"day {day}") as manager:
        for turn in range(SAVES):
            for file in files[turn % 300 :: FILES // CHANGED][:CHANGED]:
                with file.open("a") as text:
                    text.write(f"day {day}, turn {turn}\n")
            assert manager.create(kind="auto").outcome == "created"
            manager.new_turn()


def let_time_pass(top: Path) -> None:
    """All that is there becomes older, and git cleans up, as it does after a commit or a fetch."""
    found = git("for-each-ref", "--format=%(objectname) %(refname)", TRASH).splitlines()
    refs = [line.split() for line in found]
    update_refs(f"delete {ref}" for _, ref in refs)
    update_refs(f"create {TRASH}{LONG_AGO}/{ref.rpartition('/')[2]} {name}" for name, ref in refs)
    for folder, _, names in os.walk(top / ".git/objects"):
        for path in (os.path.join(folder, name) for name in names):
            then = os.stat(path).st_mtime - _EIGHT_DAYS
            os.utime(path, (then, then))
    git("-c", "gc.auto=6700", "-c", "gc.autoDetach=false", "gc", "--auto", "-q")


def update_refs(lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    subprocess.run(["git", "update-ref", "--stdin"], input=text, text=True, check=True)


def figures(top: Path) -> dict[str, int]:
    """What there is of everything that could grow for ever."""
    git_dir = top / ".git"
    files = [file for file in git_dir.rglob("*") if file.is_file()]
    return {
        "checkpoints": len(git("for-each-ref", "--format=x", "refs/checkpoints/").split()),
        "in the trash": len(git("for-each-ref", "--format=x", TRASH).split()),
        "loose refs": sum(1 for file in files if git_dir / "refs" in file.parents),
        "loose objects": sum(1 for file in files if len(file.parent.name) == 2),
        "packs": sum(1 for file in files if file.suffix == ".pack"),
        "bytes": sum(file.stat().st_size for file in files),
    }


def left_by_gc(top: Path, scratch: Path) -> int:
    """The bytes that stay once git has cleaned up for good. What there is on the way rises until
    git sees fit to do so, which hangs on chance, and falls: high water does not compare with low.
    """
    shutil.copytree(top, scratch)
    git("-C", str(scratch), "gc", "-q", "--prune=now")
    left = figures(scratch)["bytes"]
    shutil.rmtree(scratch)
    return left


def test_a_long_life_leaves_no_more_than_a_short_one(
    large: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    days, after_gc = [], []
    for day in range(DAYS):
        a_day_of_work(large, day)
        days.append(figures(large))
        after_gc.append(left_by_gc(large, tmp_path / "scratch"))
        let_time_pass(large)
    record_property(
        PROPERTY, {f"{name}, after {DAYS * SAVES} saves": n for name, n in days[-1].items()}
    )

    for day, found in enumerate(days):
        assert found["checkpoints"] <= (day + 1) * KEPT + BETWEEN
        assert found["in the trash"] <= 2 * SAVES
        assert found["loose refs"] <= 250
        # Git lets them be until there are 6,700, and what nothing names for two weeks more.
        assert found["loose objects"] <= 12_000
        assert found["packs"] <= 20
    half = DAYS // 2
    assert max(after_gc[half:]) <= 1.5 * max(after_gc[:half])
    high_water = [found["bytes"] for found in days]
    assert max(high_water[half:]) <= 2 * max(high_water[:half])
    assert fsck(large) == []
    assert verified(large) == []
