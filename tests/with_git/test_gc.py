# SPDX-License-Identifier: MIT
"""`git ckpt gc`: the trash is emptied, leftovers go, refs are packed; objects are git's to pack."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt_here, fsck, git, verified

from ckpt import CheckpointManager


def save_many(repo: Path, count: int = 12) -> list[str]:
    """Checkpoints of a growing file, newest first."""
    text = "".join(f"{number} lines that stay as they are\n" for number in range(300))
    made = []
    with CheckpointManager(repo) as manager:
        for number in range(count):
            text += f"and one more, {number}\n"
            (repo / "src/app.py").write_text(text)
            made.append(str(manager.create(kind="hook").id))
    return made[::-1]


def collected(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = ckpt_here("gc", *words, "--json", code=0).json
    return found


def test_the_trash_is_emptied_of_what_is_a_week_old(repo: Path) -> None:
    saved = save_many(repo, 3)
    ckpt_here("drop", *saved[1:], code=0)
    commit = git("rev-parse", "--verify", "-q", f"refs/checkpoints-trash/{today()}/{saved[2]}")
    git("update-ref", "-d", f"refs/checkpoints-trash/{today()}/{saved[2]}")
    git("update-ref", f"refs/checkpoints-trash/20200101/{saved[2]}", commit.strip())
    done = collected()

    assert done["emptied"] == [saved[2]]
    assert [item["checkpoint"]["id"] for item in ckpt_here("trash", "--json").json["trash"]] == [
        saved[1]
    ]


def today() -> str:
    return time.strftime("%Y%m%d", time.gmtime())


@pytest.mark.parametrize(
    "words",
    [
        *(["gc"], ["prune"], ["save"], ["drop", "x"], ["pin", "x"]),
        *(["unpin", "pinned"], ["restore-dropped", "dropped"]),
    ],
    ids=" ".join,
)
def test_the_next_command_clears_private_files_of_dead_processes_and_of_no_others(
    repo: Path, words: list[str]
) -> None:
    git("worktree", "add", "-q", "../linked")
    for name in ("x", "dropped"):
        ckpt_here("save", name, code=0)
    ckpt_here("save", "pinned", "--pin", code=0)
    ckpt_here("drop", "dropped", code=0)
    (repo / "new").write_text("new\n")
    other = repo / ".git/worktrees/linked/ckpt"
    other.mkdir()
    dead, alive = (repo / f".git/ckpt/.tmp-{digit * 16}" for digit in "01")
    elsewhere = other / dead.name
    for path in (dead, elsewhere, alive):
        path.touch(0o600)
    with alive.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        ckpt_here(*words, code=0)

        assert [path.exists() for path in (dead, elsewhere, alive)] == [False, False, True]


def test_locks_of_dead_processes_go_and_those_of_others_stay(repo: Path) -> None:
    saved = save_many(repo, 1)
    private = repo / ".git/ckpt/lock-0123456789abcdef"
    private.write_text(f"../refs/checkpoints/{saved[0]}")
    private.chmod(0o600)
    ref = repo / ".git/refs/checkpoints"
    os.link(private, ref / f"{saved[0]}.lock")
    foreign = ref / "20200101-000000-000-0000.lock"
    foreign.touch()
    collected()

    assert not private.exists()
    assert not (ref / f"{saved[0]}.lock").exists()
    assert foreign.exists()


def test_a_linked_worktree_packs_the_refs_that_all_share(repo: Path) -> None:
    git("worktree", "add", "-q", "../linked")
    git("tag", "-am", "note", "v1")
    git("pack-refs", "--all")
    others = (repo / ".git/packed-refs").read_bytes()
    saved = save_many(repo, 3)
    linked = ckpt_here("save", "--json", cwd="../linked", code=0).json["checkpoint"]["id"]
    done = ckpt_here("gc", "--json", cwd="../linked", code=0).json

    assert done["refs"]["packed"] == 4
    lines = (repo / ".git/packed-refs").read_bytes().splitlines(keepends=True)
    assert b"".join(line for line in lines if b" refs/checkpoints/" not in line) == others
    listed = ckpt_here("list", "--all-worktrees", "--json").json["checkpoints"]
    assert {found["id"] for found in listed} == {*saved, linked}
    assert len(git("for-each-ref", "refs/checkpoints").splitlines()) == 4
    assert fsck(repo) == []


def test_at_once_git_takes_what_is_unreachable_and_no_checkpoint(repo: Path) -> None:
    saved = save_many(repo, 2)
    (repo / "lost").write_text("only ever staged\n")
    git("add", "lost")
    lost = git("rev-parse", ":lost").strip()
    git("reset", "-q", "--hard")

    ckpt_here("gc", code=0)
    assert git("cat-file", "-t", lost) == "blob\n"
    told = ckpt_here("gc", "--now", code=0)
    assert "warning: git gc --prune=now also removes 1 unreachable file\n" in told.stderr
    assert lost not in git("cat-file", "--batch-all-objects", "--batch-check")
    assert verified(repo) == []
    assert [one["id"] for one in ckpt_here("list", "--json").json["checkpoints"]] == saved
