# SPDX-License-Identifier: MIT
"""Repositories that do not hold all of their objects themselves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git
from scenes import State, state, write
from seam import observe


@pytest.fixture
def origin(repo: Path) -> Path:
    """`repo` with three commits, the older ones of files that are gone since."""
    for number in (1, 2):
        write(repo, "README.md", f"version {number}\n" * 100)
        git("commit", "-q", "-a", "-m", f"commit {number}")
    git("config", "uploadpack.allowFilter", "true")
    return repo


def clone(origin: Path, top: Path, *words: str) -> Path:
    git("clone", "-q", *words, f"file://{origin}", str(top))
    return top


def work(top: Path) -> State:
    write(top, "README.md", "staged\n")
    git("add", "README.md", cwd=top)
    write(top, "README.md", "edited\n")
    write(top, "new/file", "untracked\n")
    return state(top)


def check_round_trip(top: Path) -> None:
    before = work(top)
    saved = ckpt("save", "--json", cwd=top, code=0).json["checkpoint"]
    git("reset", "-q", "--hard", cwd=top)
    git("clean", "-q", "-f", "-d", cwd=top)
    destroyed = state(top)
    git("gc", "-q", "--prune=now", cwd=top)

    ckpt("rollback", saved["id"], cwd=top, code=0)
    assert state(top) == before
    ckpt("undo", cwd=top, code=0)
    assert state(top) == destroyed
    assert saved["stats"]["files_changed"] == 2
    assert fsck(top) == []


def test_a_clone_that_borrows_objects_is_served(origin: Path, tmp_path: Path) -> None:
    git("clone", "-q", "--shared", str(origin), str(tmp_path / "borrowing"))

    check_round_trip(tmp_path / "borrowing")


def test_a_shallow_clone_is_served(origin: Path, tmp_path: Path) -> None:
    check_round_trip(clone(origin, tmp_path / "shallow", "--depth=1"))


def test_in_a_shallow_clone_head_can_move_back(origin: Path, tmp_path: Path) -> None:
    top = clone(origin, tmp_path / "shallow", "--depth=1")
    before = state(top)
    ckpt("save", "start", cwd=top, code=0)
    write(top, "README.md", "committed\n")
    git("commit", "-q", "-a", "-m", "here", cwd=top, env={"GIT_COMMITTER_DATE": "@2000000000 +0"})

    told = ckpt("rollback", "start", "--json", cwd=top, code=0).json
    assert told["head"]["ahead"] == 1
    ckpt("rollback", "start", "--head", cwd=top, code=0)
    assert state(top) == before


@pytest.mark.parametrize("words", [("--filter=blob:none",), ("--filter=tree:0",)])
def test_a_partial_clone_is_served_without_the_objects_it_lacks(
    origin: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    top = clone(origin, tmp_path / "partial", *words)
    os.rename(origin, tmp_path / "moved away")

    check_round_trip(top)


def test_an_ordinary_clone_or_push_takes_no_checkpoints_along(repo: Path, tmp_path: Path) -> None:
    ckpt("save", code=0)
    git("clone", "-q", f"file://{repo}", str(tmp_path / "copy"))
    git("init", "-q", "--bare", str(tmp_path / "server"))
    git("push", "-q", "--all", str(tmp_path / "server"))
    git("push", "-q", "--tags", str(tmp_path / "server"))

    assert "checkpoints" not in git("for-each-ref", cwd=tmp_path / "copy")
    assert "checkpoints" not in git("for-each-ref", cwd=tmp_path / "server")


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("before", ["/objects/", "/refs/checkpoints/"])
def test_a_save_begins_again_when_git_prunes_what_it_has_written(
    repo: Path, times: int, before: str
) -> None:
    left = times

    def prune(operation: str, path: str) -> None:
        nonlocal left
        if left and operation == "rename" and before in os.fsdecode(path):
            left -= 1
            git("prune", "--expire=now")

    write(repo, "new", "content that nothing names yet\n")
    observe(prune)
    saved = ckpt("save", "--json", code=0).json["checkpoint"]
    observe(None)

    assert left == 0
    assert git("show", f"{saved['ref']}:new") == "content that nothing names yet\n"
    assert fsck(repo) == []
