# SPDX-License-Identifier: MIT
"""A save that is killed, or whose disk fails, at any operation: nothing is lost or touched."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.rollbacks import Scene, checkpoints, differences, has_journal, leftovers, look, whole
from faults.striking import KINDS, LEAVING, Driver, Sweep, check_told, strikes
from helpers import fsck, verified

Record = Callable[[str, object], None]

# All that a save may leave: whole objects, the ref, its private folder; and, when it is
# killed, unfinished objects, which git's gc clears, the ref's lock and an unfinished cache, which
# the next save clears.
FINISHED = re.compile(
    r"objects/../[0-9a-f]{38}|objects/pack/pack-[0-9a-f]{40}\.(pack|idx)"
    r"|refs/checkpoints/[0-9a-z-]{24}|ckpt/(lock|made-here|saves|scan)"
)
UNFINISHED = re.compile(
    r"refs/checkpoints/[0-9a-z-]{24}\.lock|ckpt/lock-[0-9a-f]{16}|ckpt/\.tmp-[0-9a-f]{16}"
    r"|objects/tmp_obj_[0-9a-f]{16}|objects/pack/tmp_pack_[0-9a-f]{16}"
)


def git_files(top: Path) -> set[str]:
    base = top / ".git"
    return {str(path.relative_to(base)) for path in base.rglob("*") if not path.is_dir()}


def untouched(top: Path) -> list[object]:
    """What a save never changes: each file's times and inode, the index and HEAD to the byte."""
    files = [path for path in sorted(top.rglob("*")) if ".git" not in path.parts]
    stats = [os.lstat(path) for path in files]
    bytes_of = [(top / ".git" / name).read_bytes() for name in ("index", "HEAD", "config")]
    return [[(s.st_ino, s.st_mtime_ns, s.st_ctime_ns, s.st_mode) for s in stats], bytes_of]


def check_struck(scene: Scene, top: Path, way: str, before: tuple[list[object], set[str]]) -> None:
    """Nothing of the user's has changed, no checkpoint is gone or half there."""
    unchanged, files = before
    assert untouched(top) == unchanged
    assert differences(look(top), scene.before) == []
    left = {name for name in git_files(top) - files if not FINISHED.fullmatch(name)}
    assert way in LEAVING or not left
    assert not [name for name in left if not UNFINISHED.fullmatch(name)]
    assert not has_journal(top)
    assert checkpoints(top).items() >= scene.checkpoints.items()
    assert fsck(top) == []
    assert verified(top) == []


def check_next_save(driver: Driver, scene: Scene, top: Path) -> None:
    """The next one works, and is the state."""
    again = driver.run(top, "save", "again", "--json")
    assert (again.code, again.json["outcome"]) == (0, "created"), again
    assert leftovers(top) == []
    assert driver.run(top, "rollback", "again", "--json").json["safety"] is None
    scene.check(top, scene.before)


@pytest.mark.parametrize("kind", [*KINDS, "interrupt"])
def test_a_save_struck_anywhere_loses_nothing_and_the_next_one_works(
    kind: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = whole(tmp_path / "before")
    operations = driver.run(scene.copy(), "save", "struck").operations

    with Sweep(record_property) as sweep:
        every = 9 if kind == "failing" else 23
        for nth, way, blow in strikes(operations, kind, every, edges=kind == "kill"):
            with sweep.trying((nth, operations[nth - 1], way)):
                sweep.count("operations of saves struck")
                top = scene.copy()
                before = untouched(top), git_files(top)
                struck = driver.run(top, "save", "struck", blow=blow)
                check_told(struck, way)
                check_struck(scene, top, way, before)
                check_next_save(driver, scene, top)
                sweep.count("kills survived" if struck.killed else "failures survived")
