# SPDX-License-Identifier: MIT
"""What the guard makes of processes, of the words of a command, and of what it noted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import git

from ckpt.triggers import guard
from ckpt.triggers.guard import Notes, Process, find, from_ps, outermost, upwards


def row(*lines: str) -> list[Process]:
    """Processes from the caller upwards; a number before the words is the process group."""
    made = []
    for pid, line in enumerate(lines, 100):
        group, *words = line.split()
        made.append(Process(pid, pid + 1, int(group), f"s{pid}", tuple(words)))
    return made


@pytest.mark.parametrize(
    ("lines", "highest"),
    [
        (["1 git checkout", "1 bash", "1 init"], 100),
        (["1 git clean", "1 git stash", "2 bash"], 101),
        (["1 git reset", "1 /bin/sh -c", "1 /usr/bin/git wipe", "1 node agent"], 102),
        (["1 git checkout", "1 sh", "1 vim", "1 git commit"], 100),
        (["2 git checkout", "1 bash", "1 git rebase"], 100),
        (["1 git checkout", "1 python3 git-ckpt run", "1 git ckpt run"], 100),
        (
            ["1 git submodule--helper", "1 sh /usr/lib/git-core/git-submodule", "1 git submodule"],
            102,
        ),
        (["1 /usr/lib/git-core/git-checkout", "1 -bash"], 100),
        (["1 git checkout", "1 sh P/git-wizard", "1 git wizard"], 100),
        (["1 git checkout", "1 git-tool"], 100),
        (["1 sh", "1 node"], None),
        ([], None),
    ],
)
def test_the_outermost_git_is_the_highest_that_only_git_and_shells_are_under(
    lines: list[str], highest: int | None
) -> None:
    found = outermost(row(*lines))

    assert (None if found is None else found.pid) == highest


def test_a_process_is_seen_as_it_was_started() -> None:
    code = "print(); input()"
    words = [sys.executable, "-c", code, "", "a b"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        seen, told = find(child.pid), from_ps(child.pid)
        child.communicate(b"\n")

    assert seen is not None
    assert (seen.parent, seen.group) == (os.getpid(), os.getpgrp())
    if os.path.isdir("/proc/self"):
        assert seen.words == (sys.executable, "-c", code, "", "a b")
    assert told is not None
    assert (told.parent, told.group, told.name) == (seen.parent, seen.group, seen.name)
    assert len(told.started.split()) == 1
    assert find(child.pid) is None


def test_processes_are_followed_upwards_but_not_in_circles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    above = [process.pid for process in upwards(os.getpid())]

    assert above[:2] == [os.getpid(), os.getppid()]
    circle = Process(7, 7, 7, "", ())
    monkeypatch.setattr(guard, "find", lambda pid: circle)
    assert 1 < len(list(upwards(7))) < 1000


def test_without_ps_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_PS", "/nowhere/ps")

    assert from_ps(os.getpid()) is None


@pytest.mark.parametrize(
    ("line", "is_exact", "outcome"),
    [
        ("git st", True, None),
        ("git clean -n", True, "created"),
        ("git -C a status clean", True, "created"),
        ("git -C a status clean", False, "created"),
        ("git -C a st clean", False, "created"),
        ("", True, "created"),
    ],
)
def test_in_doubt_it_saves(
    repo: Path, tmp_path: Path, line: str, is_exact: bool, outcome: str | None
) -> None:
    """Where `ps` had to be asked, `-C "a st" clean` looks like an alias with a folder."""
    git("config", "alias.st", "status", cwd=repo)
    (repo / "new.txt").write_text("never added\n")
    called = [Process(7, 1, 7, "s", tuple(line.split()), is_exact)] if line else []

    fired = guard._once(str(repo), dict(os.environ), called, Notes(str(tmp_path / "x/notes")))

    assert (fired and fired.result.outcome) == outcome


ONE = Process(5, 1, 1, "100", ("git",))


def test_a_process_is_noted_for_one_worktree(tmp_path: Path) -> None:
    notes = Notes(str(tmp_path / "ckpt/guarded"))
    assert not notes.has(ONE, "/work tree")

    notes.add(ONE, "/work tree")

    assert Notes(str(tmp_path / "ckpt/guarded")).has(ONE, "/work tree")
    assert not notes.has(ONE, "/work")
    assert not notes.has(Process(5, 1, 1, "101", ("git",)), "/work tree")
    assert not notes.has(Process(6, 1, 1, "100", ("git",)), "/work tree")


def test_the_oldest_notes_make_room(tmp_path: Path) -> None:
    notes = Notes(str(tmp_path / "guarded"))
    many = [Process(pid, 1, 1, "100", ("git",)) for pid in range(200)]
    for process in many:
        notes.add(process, "/a/worktree/with/a/name/of/some/length")

    assert notes.has(many[-1], "/a/worktree/with/a/name/of/some/length")
    assert not notes.has(many[0], "/a/worktree/with/a/name/of/some/length")
    assert (tmp_path / "guarded").stat().st_size == 4096


@pytest.mark.parametrize(
    "damage",
    [
        *(b"", b"\0" * 4096, b"1\n", b"1 2 x y\n", b"\xff 2 3 4\n"),
        b"1 2 " + b"9" * 5000 + b" y\n",
    ],
    ids=lambda damage: repr(damage[:20]),
)
def test_damaged_notes_say_nothing(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "guarded"
    path.write_bytes(damage)
    path.chmod(0o600)
    notes = Notes(str(path))

    assert not notes.has(ONE, "/w")
    notes.add(ONE, "/w")
    assert notes.has(ONE, "/w")


def test_notes_of_another_user_are_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "guarded"
    notes = Notes(str(path))
    notes.add(ONE, "/w")
    path.chmod(0o666)

    assert not notes.has(ONE, "/w")
