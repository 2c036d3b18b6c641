# SPDX-License-Identifier: MIT
"""A prune that is killed, or whose disk fails, anywhere: each checkpoint is there or in the trash,
is listed once, and the next prune ends what was begun."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.rollbacks import leftovers
from faults.striking import KINDS, Driver, Sweep, strikes
from helpers import fsck, git

from ckpt import CheckpointManager

Record = Callable[[str, object], None]
ENVIRONMENT = {"GIT_CONFIG_NOSYSTEM": "1"} | {
    f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}
WORDS = ("prune", "--json")
PREFIXES = ("refs/checkpoints", "refs/checkpoints-trash")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with seven sessions, four of them packed, and one that is due in the trash."""
    top = tmp_path_factory.mktemp("prune") / "before"
    top.mkdir()
    (top / "file").write_text("one\n")
    for words in ("init -q -b main", "add .", "commit -qm one", "tag -am note v1"):
        git(*words.split(), cwd=top, env=ENVIRONMENT | {"HOME": str(top.parent)})
    with CheckpointManager(top, environ=ENVIRONMENT | {"HOME": str(top.parent)}) as manager:
        for number in range(8):
            (top / "file").write_text(f"{number}\n")
            made = manager.create(kind="session").checkpoint
            assert made is not None
            if number == 0:
                git(
                    "update-ref", f"refs/checkpoints-trash/20200101/{made.id}", made.commit, cwd=top
                )
                git("update-ref", "-d", made.ref, cwd=top)
            if number == 4:
                git("pack-refs", "--all", cwd=top)
    return top


def refs(top: Path, prefix: str) -> dict[str, str]:
    """Id to commit."""
    lines = git("for-each-ref", "--format=%(refname) %(objectname)", prefix, cwd=top).splitlines()
    return {line.split()[0].rsplit("/", 1)[1]: line.split()[1] for line in lines}


def check(driver: Driver, top: Path, before: Path) -> None:
    live, aside = refs(top, "refs/checkpoints"), refs(top, "refs/checkpoints-trash")
    assert (live | aside).items() >= refs(before, "refs/checkpoints").items()
    listed = driver.run(top, "list", "--json").json["checkpoints"]
    dropped = driver.run(top, "trash", "--json").json["trash"]
    told = [one["id"] for one in listed] + [one["checkpoint"]["id"] for one in dropped]
    assert len(told) == len(set(told))
    assert git("rev-parse", "main", "v1", cwd=top) == git("rev-parse", "main", "v1", cwd=before)
    assert fsck(top) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_prune_struck_anywhere_loses_nothing_and_the_next_one_ends_it(
    kind: str, before: Path, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    def copied(number: int) -> Path:
        shutil.rmtree(tmp_path / str(number), ignore_errors=True)
        return Path(shutil.copytree(before, tmp_path / str(number), symlinks=True))

    unstruck = copied(0)
    operations = driver.run(unstruck, *WORDS).operations
    assert [len(refs(unstruck, prefix)) for prefix in PREFIXES] == [3, 4]
    with Sweep(record_property) as sweep:
        for nth, way, blow in strikes(operations, kind, every=6, edges=kind == "kill"):
            with sweep.trying((nth, operations[nth - 1], way)):
                sweep.count("operations of prune struck")
                top = copied(nth)
                struck = driver.run(top, *WORDS, blow=blow)
                assert struck.code in (0, 1, -9)
                check(driver, top, before)
                again = driver.run(top, *WORDS)
                assert (again.code, again.stderr) == (0, "")
                for prefix in PREFIXES:
                    assert refs(top, prefix) == refs(unstruck, prefix)
                assert leftovers(top) == leftovers(unstruck)
                sweep.count("kills survived" if struck.killed else "failures survived")
                shutil.rmtree(top)
