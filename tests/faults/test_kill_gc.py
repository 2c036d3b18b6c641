# SPDX-License-Identifier: MIT
"""A gc that is killed, or whose disk fails, anywhere: nothing is lost, and the next one tidies."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.rollbacks import checkpoints, leftovers
from faults.striking import KINDS, Driver, Sweep, check_told, strikes
from helpers import fsck, git

from ckpt import CheckpointManager

Record = Callable[[str, object], None]
LONG_AGO = time.time() - 30 * 86_400
# What an unstruck gc leaves in the git dir that was not there before.
FINISHED = re.compile(
    r"objects/pack/pack-[0-9a-f]{40}\.(pack|idx)|packed-refs|ckpt/(gc-lock|prune-lock|space)"
)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with packed refs, loose checkpoints, and one that has to leave the trash."""
    top = tmp_path_factory.mktemp("gc") / "before"
    (top / "src").mkdir(parents=True)
    (top / "src/file").write_text("".join(f"{number}\n" for number in range(200)))
    environment = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": str(top.parent)}
    for name in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{name}_NAME": "a", f"GIT_{name}_EMAIL": "a@b"}
    for words in (
        "init -q -b main",
        "add .",
        "commit -qm one",
        "tag -am note v1",
        "pack-refs --all",
    ):
        git(*words.split(), cwd=top, env=environment)
    with CheckpointManager(top, environ=environment) as manager:
        for number in range(4):
            with (top / "src/file").open("a") as file:
                file.write(f"more {number}\n")
            last = manager.create("kept").checkpoint
        assert last is not None
        manager.delete(last)
    (dropped,) = (top / ".git/refs/checkpoints-trash").glob("*/*")
    (old := dropped.parent.with_name("20200101")).mkdir()
    dropped.rename(old / dropped.name)
    dropped.parent.rmdir()
    age(top / ".git/objects")
    return top


def age(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (LONG_AGO, LONG_AGO))


def git_files(top: Path) -> set[str]:
    base = top / ".git"
    return {str(path.relative_to(base)) for path in base.rglob("*") if not path.is_dir()}


def held(top: Path) -> list[str]:
    return sorted(git("rev-list", "--objects", "--glob=refs/checkpoints/*", cwd=top).splitlines())


def check(top: Path, before: Path) -> None:
    assert checkpoints(top) == checkpoints(before)
    assert held(top) == held(before)
    assert fsck(top) == []
    assert git("rev-parse", "main", "v1", cwd=top) == git("rev-parse", "main", "v1", cwd=before)


def check_save(driver: Driver, top: Path, way: str) -> None:
    """A save that comes next, of a new state, leaves nothing that was not finished. By a pack that
    is still kept the next gc knows what it has to take away; what could not be removed from a disk
    that went read-only goes an hour later."""
    copy = top.with_name(f"{top.name}-saved")
    shutil.rmtree(copy, ignore_errors=True)
    subprocess.run(["cp", "-a", str(top), str(copy)], check=True)
    (copy / "src/new").write_text("new\n")
    assert driver.run(copy, "save").code == 0
    packs = [os.path.splitext(path)[0] for path in git_files(copy) if path.endswith(".idx")]
    kept = {f".git/{stem}.keep" for stem in packs}
    if way == "read-only":
        kept |= {f".git/{path}" for path in git_files(copy) if path.endswith(".keep")}
    assert [path for path in leftovers(copy) if path not in kept] == []
    shutil.rmtree(copy)


def check_next(driver: Driver, top: Path, before: Path, was_killed: bool) -> None:
    """The next one works and, a day later, nothing is left."""
    age(top / ".git/objects")
    age(top / ".git/ckpt")
    again = driver.run(top, "gc", "--force", "--json")
    assert (again.code, again.stderr) == (0, ""), again
    check(top, before)
    new = git_files(top) - git_files(before)
    assert not [name for name in new if not FINISHED.fullmatch(name)]
    assert len(list((top / ".git/objects/pack").glob("*.pack"))) == 1
    loose = {path.parent.name + path.name for path in (top / ".git/objects").glob("??/*")}
    known = ids(git("rev-list", "--objects", "v1", cwd=top).split("\n"))
    # A copy that could not be removed is left to git.
    assert not was_killed or not loose & (ids(held(top)) - known)
    assert not list((top / ".git/refs/checkpoints").iterdir())
    assert driver.run(top, "save", "later").code == 0


def ids(lines: list[str]) -> set[str]:
    return {line.split(" ")[0] for line in lines}


@pytest.mark.parametrize("kind", KINDS)
def test_a_gc_struck_anywhere_loses_nothing_and_the_next_one_tidies(
    kind: str, before: Path, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    def copied(number: int) -> Path:
        shutil.rmtree(tmp_path / str(number), ignore_errors=True)
        return Path(shutil.copytree(before, tmp_path / str(number), symlinks=True))

    unstruck = driver.run(copied(0), "gc", "--force", "--json")
    assert unstruck.json["objects"]["packed"] > 5
    assert unstruck.json["refs"]["packed"] == 3
    operations = unstruck.operations
    with Sweep(record_property) as sweep:
        for nth, way, blow in strikes(operations, kind, every=12, edges=kind == "kill"):
            with sweep.trying((nth, operations[nth - 1], way)):
                sweep.count("operations of gc struck")
                top = copied(nth)
                struck = driver.run(top, "gc", "--force", blow=blow)
                check_told(struck, way)
                check(top, before)
                check_save(driver, top, way)
                check_next(driver, top, before, struck.killed)
                sweep.count("kills survived" if struck.killed else "failures survived")
                shutil.rmtree(top)
