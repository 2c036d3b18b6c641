# SPDX-License-Identifier: MIT
"""A recovery is interrupted in turn, and someone edits each time.

Whatever was edited is in a safety checkpoint, and the second recovery reaches the goal.
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
    Scene,
    has_journal,
    leftovers,
)
from faults.striking import (
    Driver,
    Sweep,
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


EDITS = {
    ("first", "run"),
    ("first", "src/both"),
    ("first", "untracked/deeper/file"),
    ("again", "src/edited"),
}


def edits_held(top: Path) -> set[tuple[str, str]]:
    """The edits that some checkpoint holds, by content and path."""
    found = set()
    for ref in git("for-each-ref", "--format=%(refname)", "refs/checkpoints", cwd=top).split():
        tree = git("ls-tree", "-r", ref, cwd=top)
        for content, path in EDITS:
            blob = git("hash-object", "--stdin", stdin=f"{content}\n", cwd=top).strip()
            if f"blob {blob}\t{path}\n" in tree:
                found.add((content, path))
    return found


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
def test_all_edits_are_saved_wherever_the_recovery_between_them_was_killed(
    name: str, when: str, way: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    """The first recovery goes either way; the second finishes the rollback."""
    scene = SCENES[name](tmp_path / "before")
    start = crashed(driver, scene, when)
    edit_first(start)
    if "branch" in name:
        sh(SWITCH, start)
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
                assert edits_held(top) >= EDITS
                assert driver.run(top, "undo", "--yes").code == 0
                check_sound(top)
