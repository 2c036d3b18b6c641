# SPDX-License-Identifier: MIT
"""What is done to single checkpoints by hand, killed anywhere, or with a disk that fails: each
checkpoint is there or in the trash, and the same command, typed again, does it."""

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
GONE = "20260101-000000-000-g7ne"
# What is typed, and what it says if it has been done already.
COMMANDS = {
    "drop": (("drop", "two"), "no checkpoint 'two'"),
    "bring back": (("restore-dropped", "dropped"), "'dropped' is not in the trash"),
    "pin": (("pin", "two"), None),
    "unpin": (("unpin", "pinned"), None),
    "rescue": (("rescue", "{lost}"), "nothing lost is called"),
    "mend": (("doctor", "--fix"), None),
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A repository with checkpoints, loose, packed, dropped and broken, and with what was lost: a
    content, and a checkpoint, whose commit has that id."""
    top = tmp_path_factory.mktemp("by-hand") / "before"
    top.mkdir()
    environment = ENVIRONMENT | {"HOME": str(top.parent)}
    (top / "file").write_text("one\n")
    for words in ("init -q -b main", "add .", "commit -qm one"):
        git(*words.split(), cwd=top, env=environment)
    with CheckpointManager(top, environ=environment) as manager:
        for name in ("dropped", "pinned", "one", "two", "three", "lost"):
            (top / "file").write_text(f"{name}\n")
            manager.create(name=name, pin=name == "pinned")
            if name == "one":
                git("pack-refs", "--all", cwd=top)
        manager.delete("dropped")
        lost = manager.get("lost")
    git("update-ref", "-d", lost.ref, cwd=top)
    (top / "staged").write_text("staged\n")
    for words in ("add staged", "rm -q --cached staged"):
        git(*words.split(), cwd=top, env=environment)
    (top / "staged").write_text("changed\n")
    (top / ".git/refs/checkpoints" / GONE).write_text("")
    (top / ".git/ckpt/scan").write_bytes(b"damaged")
    (top / ".git/ckpt").chmod(0o755)
    return top, lost.commit


def names(driver: Driver, top: Path) -> list[str]:
    live = driver.run(top, "list", "--all", "--json").json["checkpoints"]
    dropped = driver.run(top, "trash", "--json").json["trash"]
    return sorted(one["name"] for one in [*live, *(each["checkpoint"] for each in dropped)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_struck_anywhere_loses_nothing_and_does_it_when_repeated(
    command: str,
    kind: str,
    scene: tuple[Path, str],
    driver: Driver,
    tmp_path: Path,
    record_property: Record,
) -> None:
    (before, lost), (typed, is_done) = scene, COMMANDS[command]
    words = [word.format(lost=lost) for word in typed]

    def copied(number: int) -> Path:
        shutil.rmtree(tmp_path / str(number), ignore_errors=True)
        return Path(shutil.copytree(before, tmp_path / str(number), symlinks=True))

    unstruck = copied(0)
    ran = driver.run(unstruck, *words)
    assert ran.code == 0, ran
    operations, wanted = ran.operations, names(driver, unstruck)
    with Sweep(record_property) as sweep:
        for nth, way, blow in strikes(operations, kind, every=12, edges=kind == "kill"):
            with sweep.trying((nth, operations[nth - 1], way)):
                sweep.count("operations of commands by hand struck")
                top = copied(nth)
                struck = driver.run(top, *words, blow=blow)
                assert struck.code in (0, 1, -9), struck
                assert "this is a bug" not in struck.stderr, struck
                assert set(names(driver, before)) <= set(names(driver, top))
                again = driver.run(top, *words)
                assert again.code == 0 or (is_done and is_done in again.stderr), again
                assert names(driver, top) == wanted
                saved = driver.run(top, "save", "after")
                assert saved.code == 0, saved
                verified = driver.run(top, "verify", "--all", "--json")
                broken = [one["ref"] for one in verified.json["checkpoints"] if one["problems"]]
                assert broken in ([], [f"refs/checkpoints/{GONE}"]), broken
                if command == "mend":
                    assert (broken, fsck(top)) == ([], [])
                assert leftovers(top) == leftovers(unstruck)
                sweep.count("kills survived" if struck.killed else "failures survived")
                shutil.rmtree(top)
