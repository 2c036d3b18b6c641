# SPDX-License-Identifier: MIT
"""An install or uninstall that is killed, or whose disk fails, anywhere: git and the hooks that
people have work on, and the same command again ends what was begun, exactly."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.striking import KINDS, Driver, Struck, Sweep, kill, strikes
from helpers import fsck, git, tree_state

Record = Callable[[str, object], None]
Entry = tuple[str, int, bytes]
State = dict[bytes, Entry]
Difference = tuple[bytes, Entry | None, Entry | None]

INSTALL = ("install", "--guard", "--agent", "claude-code")
UNINSTALL = ("uninstall",)
SHELL_HOOK = "#!/bin/sh\necho shell >>hooks-ran\n"
PYTHON_HOOK = "#!/usr/bin/env python3\nopen('hooks-ran', 'a').write('python\\n')\n"
SETTINGS = '{\n  "model": "any"\n}\n'


class Place:
    """A home and a repository in it, always at the same path, which installed files name."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.top = home / "repo"

    def put(self, kept: Path) -> None:
        """As it was when it was kept."""
        shutil.rmtree(self.home)
        subprocess.run(["cp", "-a", str(kept), str(self.home)], check=True)

    def keep(self, name: str) -> Path:
        """A lock is told by its second name, so these stay names of one file."""
        kept = self.home.with_name(name)
        subprocess.run(["cp", "-a", str(self.home), str(kept)], check=True)
        return kept

    def state(self) -> State:
        """All but what belongs to ckpt and git alone, and folders that are empty: once the record
        is gone, nobody can tell who made them."""
        found = tree_state(self.home)
        private = (b"repo/.git/ckpt", b"repo/.git/objects", b"repo/.git/logs", b"repo/.git/refs")
        return {
            path: entry
            for path, entry in found.items()
            if entry[0] != "folder" and not path.startswith(private)
        }

    def left(self) -> list[Path]:
        patterns = ("*.lock", ".tmp-*", "lock-*", ".ckpt-tmp-*", "*.new")
        return [path for pattern in patterns for path in self.home.rglob(pattern)]


@pytest.fixture
def place(tmp_path: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path / "home")
    shutil.copytree(isolated, place.home)
    monkeypatch.setenv("HOME", str(place.home))
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(place.home / name.lower()))
    top = place.top
    (top / ".claude").mkdir(parents=True)
    (top / ".claude/settings.local.json").write_text(SETTINGS)
    (top / ".gitignore").write_text(".claude\nhooks-ran\n")
    git("init", "-q", cwd=top)
    git("add", ".", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)
    for name, text in (("pre-commit", SHELL_HOOK), ("post-checkout", PYTHON_HOOK)):
        (top / ".git/hooks" / name).write_text(text)
        (top / ".git/hooks" / name).chmod(0o755)
    return place


def check_usable(top: Path) -> None:
    """Git works, and each hook that was there before runs, once."""
    for words, ran in (
        (("commit", "-q", "--allow-empty", "-m", "x"), "shell"),
        (CHECKOUT, "python"),
    ):
        done = subprocess.run(["git", *words], cwd=top, capture_output=True, text=True)
        assert done.returncode == 0, done
        assert (top / "hooks-ran").exists(), (done, sorted((top / ".git/hooks").iterdir()))
        assert (top / "hooks-ran").read_text() == f"{ran}\n", done
        (top / "hooks-ran").unlink()
    assert fsck(top) == []


CHECKOUT = ("checkout", "-q", "--detach")


@pytest.mark.parametrize("kind", [*KINDS, "interrupt"])
@pytest.mark.parametrize("words", [INSTALL, UNINSTALL], ids=["install", "uninstall"])
def test_an_install_struck_anywhere_leaves_hooks_that_work_and_the_next_one_ends_it(
    words: tuple[str, ...], kind: str, driver: Driver, place: Place, record_property: Record
) -> None:
    original, bare = place.state(), place.keep("bare")
    before = bare
    if words == UNINSTALL:
        check_done(driver.run(place.top, *INSTALL))
        before = place.keep("installed")
    unstruck = driver.run(place.top, *words)
    check_done(unstruck)
    wanted = place.state()
    assert (wanted == original) == (words == UNINSTALL)
    operations = unstruck.operations
    with Sweep(record_property) as sweep:
        every = 21 if kind == "kill" else 42
        for nth, way, blow in strikes(operations, kind, every):
            with sweep.trying((nth, operations[nth - 1], way)):
                sweep.count(f"operations of {words[0]} struck")
                place.put(before)
                struck = driver.run(place.top, *words, blow=blow)
                assert struck.code in (0, 1, 4, 130, -9), struck
                struck_state = place.keep("struck")
                check_usable(place.top)
                place.put(struck_state)
                shutil.rmtree(struck_state)
                check_done(driver.run(place.top, *words))
                assert differing(place.state(), wanted) == []
                assert place.left() == []
                check_done(driver.run(place.top, *UNINSTALL))
                assert differing(place.state(), original) == []
                sweep.count("kills survived" if struck.killed else "failures survived")


def check_done(ran: Struck) -> None:
    assert (ran.code, ran.stderr) == (0, ""), ran


def differing(found: State, wanted: State) -> list[Difference]:
    paths = sorted(found.keys() | wanted.keys())
    return [(p, found.get(p), wanted.get(p)) for p in paths if found.get(p) != wanted.get(p)]


@pytest.mark.parametrize(
    "name", ["ckpt-guard", "hooks/pre-commit", "hooks/post-checkout", "settings.local.json"]
)
@pytest.mark.parametrize("then", [UNINSTALL, ("install", "--hooks", "pre-push")])
def test_what_a_killed_install_has_not_finished_goes_with_the_next_or_with_uninstall(
    then: tuple[str, ...], name: str, driver: Driver, place: Place
) -> None:
    original = place.state()
    assert driver.run(place.top, *INSTALL, blow=kill(1, "rename", name)).killed
    assert place.left() != []

    check_done(driver.run(place.top, *then))

    assert place.left() == []
    if then != UNINSTALL:
        check_done(driver.run(place.top, *UNINSTALL))
    assert differing(place.state(), original) == []


def test_whatever_a_killed_install_left_goes_with_doctor(
    driver: Driver, place: Place, record_property: Record
) -> None:
    before = place.keep("before")
    operations = driver.run(place.top, *INSTALL).operations
    with Sweep(record_property) as sweep:
        for nth, way, blow in strikes(operations, "kill", 25):
            with sweep.trying((nth, operations[nth - 1], way)):
                sweep.count("operations of install struck")
                place.put(before)
                struck = driver.run(place.top, *INSTALL, blow=blow)
                driver.run(place.top, "doctor", "--fix")
                assert place.left() == []
                sweep.count("kills survived" if struck.killed else "failures survived")
