# SPDX-License-Identifier: MIT
"""An import that is killed, or whose disk fails, anywhere: what is there is whole, and to import
the same file again brings the rest, each checkpoint once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.driver import IMPORT
from faults.rollbacks import leftovers
from faults.striking import KINDS, Driver, Sweep, strikes
from helpers import ckpt_here, fsck, git, verified

from ckpt import CheckpointManager

Record = Callable[[str, object], None]
CHECKPOINTS = 4


def export(repo: Path, file: Path, kind: str) -> Path:
    """Checkpoints in a file, and a clone that has none of them."""
    clone = file.with_name("before")
    git("clone", "-q", str(repo), str(clone))
    with CheckpointManager(repo, worktree=kind == "bundle") as manager:
        for number in range(CHECKPOINTS):
            (repo / "README.md").write_text(f"{number}\n")
            manager.create(f"number-{number}", data={"number": number})
        assert manager.export(file) == CHECKPOINTS
    ckpt_here("save", "own", cwd=clone, code=0)
    return clone


def names(top: Path) -> list[str]:
    listed = ckpt_here("list", "-n", "0", "--json", cwd=top, code=0).json["checkpoints"]
    return sorted(one["name"] for one in listed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["bundle", "json"])
def test_an_import_struck_anywhere_can_be_repeated_and_brings_each_checkpoint_once(
    form: str, kind: str, driver: Driver, repo: Path, tmp_path: Path, record_property: Record
) -> None:
    file = tmp_path / "exported"
    before = export(repo, file, form)
    words = (IMPORT, str(file), *(["--state"] if form == "json" else []))

    def copied(number: int) -> Path:
        shutil.rmtree(tmp_path / str(number), ignore_errors=True)
        return Path(shutil.copytree(before, tmp_path / str(number), symlinks=True))

    unstruck = driver.run(copied(0), *words)
    assert (unstruck.code, len(unstruck.stdout.split())) == (0, CHECKPOINTS), unstruck
    wanted = names(tmp_path / "0")
    operations = unstruck.operations
    with Sweep(record_property) as sweep:
        for nth, way, blow in strikes(operations, kind, every=27, edges=kind == "kill"):
            with sweep.trying((nth, operations[nth - 1], way)):
                sweep.count("operations of imports struck")
                top = copied(nth)
                struck = driver.run(top, *words, blow=blow)
                assert struck.code in (0, 1, -9), struck
                assert set(names(top)) <= set(wanted)
                assert fsck(top) == [] and verified(top) == []
                again = driver.run(top, *words)
                assert (again.code, again.stderr) == (0, ""), again
                assert names(top) == wanted
                assert git("status", "--porcelain", cwd=top) == ""
                assert driver.run(top, "save", "next").code == 0
                assert leftovers(top) == []
                assert fsck(top) == [] and verified(top) == []
                sweep.count("kills survived" if struck.killed else "failures survived")
                shutil.rmtree(top)
