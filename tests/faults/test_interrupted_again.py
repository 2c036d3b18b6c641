# SPDX-License-Identifier: MIT
"""A recovery is interrupted in turn, or saves several times, and someone edits each time.

Each checkpoint that it makes holds what the ones before it held and it has replaced since, so
that `undo` after it, or who goes to the one checkpoint that is named, gets all of it.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.rollbacks import (
    SCENES,
    Look,
    Scene,
    differences,
    has_journal,
    leftovers,
    look,
)
from faults.striking import (
    Blow,
    Driver,
    Sweep,
    begun,
    kill,
    kills,
)
from helpers import fsck, git, verified
from scenes import link, remove, write

Record = Callable[[str, object], None]

WAYS = ["--continue", "--abort"]
CRASHES = {
    "before the first file": kill(1, "unlink", "becomes-file"),
    "amid the files": kill(1, "rename", "edited"),
    "before the end": kill(1, "rename", "/last-rollback"),
}
STAGE = "git update-index --cacheinfo 100644,$(echo first | git hash-object -w --stdin),src/same"
SWITCH = "git branch -q other HEAD~0; git symbolic-ref HEAD refs/heads/other"


def sh(command: str, top: Path) -> None:
    git("-c", f"alias.sh=!cd {shlex.quote(str(top))}; {command}", "sh", cwd=top)


def edit_first(top: Path) -> None:
    """After the crash: contents, bits, a link, files that go, come and change their kind."""
    write(top, "run", "first\n", 0o750)
    (top / "private").chmod(0o611)
    write(top, "src/both", "first\n")
    link(top, "src/staged", "first")
    remove(top, "link")
    remove(top, "becomes-link")
    write(top, "untracked/deeper/file", "first\n")
    for path in ("becomes-folder", "becomes-file"):
        write(top, f"{path}/now/deeper" if (top / path).is_dir() else path, "first\n")
    sh(STAGE, top)
    clear_temporaries(top)


def clear_temporaries(top: Path) -> None:
    for left in top.glob("**/.ckpt-tmp-*"):
        left.unlink()


def edit_again(top: Path) -> None:
    write(top, "src/edited", "again\n")


def copied(top: Path, name: str) -> Path:
    target = top.with_name(name)
    if target.exists():
        shutil.rmtree(target)
    subprocess.run(["cp", "-a", str(top), str(target)], check=True)
    return target


def with_edit(top: Path, edit: Callable[[Path], None]) -> Look:
    """What there is, once it is edited too."""
    both = copied(top, "both")
    edit(both)
    return look(both)


def crashed(driver: Driver, scene: Scene, when: str) -> Path:
    top = scene.copy("crashed")
    struck = driver.run(top, *scene.words, blow=CRASHES[when])
    assert struck.killed, struck
    return top


def check_sound(top: Path) -> None:
    assert leftovers(top) == []
    assert fsck(top) == []
    assert verified(top) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "name, when",
    [
        ("whole", "before the first file"),
        ("whole", "amid the files"),
        ("by path", "before the end"),
        ("same branch", "amid the files"),
        ("other branch", "amid the files"),
        ("detached", "before the end"),
        ("operation", "amid the files"),
    ],
)
def test_undo_brings_back_all_edits_wherever_the_recovery_between_them_was_killed(
    name: str, when: str, way: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    """The first recovery goes either way; the second finishes the rollback."""
    scene = SCENES[name](tmp_path / "before")
    start = crashed(driver, scene, when)
    edit_first(start)
    if "branch" in name:
        sh(SWITCH, start)
    expected = with_edit(start, edit_again)
    operations = driver.run(copied(start, "run"), "rollback", way).operations

    with Sweep(record_property) as sweep:
        for nth in kills(operations, every=41):
            with sweep.trying((nth, operations[nth - 1])):
                top = copied(start, "run")
                struck = driver.run(top, "rollback", way, blow=kill(nth))
                if not struck.killed or not has_journal(top):
                    continue  # it was over
                sweep.count("recoveries interrupted, with edits before and after")
                edit_again(top)
                resumed = driver.run(top, "rollback", "--continue", "--json")
                assert resumed.code in (0, 4), resumed
                check_sound(top)
                assert driver.run(top, "undo", "--yes").code == 0
                assert differences(look(top), expected) == []
                check_sound(top)


# -- one kind of edit at a time -----------------------------------------------------------

DONE = kill(1, "rename", "/last-rollback")  # all is replaced, and the journal there still
PATHS = ["file-a", "file-b", "file-c", "file-d"]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    top.mkdir()
    git("init", "-q", cwd=top)
    put(top, "then", *PATHS)
    git("add", "--all", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)
    return top


def put(top: Path, content: str, *paths: str) -> None:
    for path in paths:
        write(top, path, f"{content}\n")


def contents(top: Path) -> dict[str, str]:
    return {path: (top / path).read_text().strip() for path in PATHS}


def begin(
    driver: Driver, top: Path, *words: str, change: Callable[[], object] = lambda: None
) -> None:
    """A rollback of four files, and what else has changed, killed when two of the four are done."""
    assert driver.run(top, "save", "it").code == 0
    put(top, "now", *PATHS)
    change()
    struck = driver.run(top, "rollback", "it", "--yes", *words, blow=kill(1, "rename", "file-c"))
    assert struck.killed, struck
    clear_temporaries(top)


def stop_recovery(driver: Driver, top: Path, way: str = "--continue", blow: Blow = DONE) -> None:
    struck = driver.run(top, "rollback", way, blow=blow)
    assert struck.killed, struck


@pytest.mark.parametrize("way", WAYS)
def test_abort_names_one_checkpoint_that_holds_all_edits(
    way: str, driver: Driver, top: Path
) -> None:
    begin(driver, top)
    put(top, "first", "file-a")
    stop_recovery(driver, top, way, kill(1, "fsync", "file-a"))
    assert contents(top)["file-a"] != "first"
    put(top, "again", "file-d")

    aborted = driver.run(top, "rollback", "--abort", "--json")

    assert aborted.code == 0, aborted
    assert contents(top) == dict.fromkeys(PATHS, "now")
    assert driver.run(top, "rollback", aborted.json["safety"]["id"]).code == 0
    assert contents(top) == {
        "file-a": "first",
        "file-b": "then",
        "file-c": "now",
        "file-d": "again",
    }


def test_undo_brings_back_edits_that_one_recovery_saved_one_after_the_other(
    driver: Driver, top: Path
) -> None:
    begin(driver, top)
    put(top, "first", "file-a")
    blows = [
        Blow(1, "chmod", begun("file-c"), command=("sh", "-c", "echo second > file-c")),
        Blow(1, "chmod", begun("file-d"), command=("sh", "-c", "echo third > file-d")),
    ]

    assert driver.run(top, "rollback", "--continue", blow=blows).code == 0

    assert contents(top) == dict.fromkeys(PATHS, "then")
    assert driver.run(top, "undo").code == 0
    assert contents(top) == {
        "file-a": "first",
        "file-b": "then",
        "file-c": "second",
        "file-d": "third",
    }


def held(top: Path, ref: str) -> set[str]:
    return set(git("rev-list", ref, cwd=top).split())
