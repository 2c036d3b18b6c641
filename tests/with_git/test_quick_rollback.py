# SPDX-License-Identifier: MIT
"""A rollback looks at what differs, and at nothing else; and what it takes for granted is so."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import git
from saving import write_all
from seam import observed

from ckpt.manager import CheckpointManager

FILES = {f"folder{n}/deep/file{m}": b"%d %d\n" % (n, m) for n in range(5) for m in range(5)}


@pytest.fixture
def manager(repo: Path) -> Iterator[CheckpointManager]:
    write_all(repo, FILES)
    git("add", "-A")
    git("commit", "-q", "-m", "many files")
    grow_old(repo)
    with CheckpointManager(repo) as manager:
        yield manager


def grow_old(repo: Path) -> None:
    """Git wrote its index long ago, and looked at files that were older still."""
    now = time.time()
    for path in filter(None, git("ls-files", "-z").split("\0")):
        os.utime(repo / path, (now - 100, now - 100))
    git("status")
    os.utime(repo / ".git/index", (now - 50, now - 50))


def change(repo: Path) -> None:
    (repo / "folder1/deep/file1").write_text("edited\n")
    (repo / "folder2/deep/file2").unlink()
    (repo / "folder3/new").write_text("new\n")


def flushed_in(top: Path, operations: list[tuple[str, str]]) -> set[str]:
    """Files and folders of a worktree that were made durable."""
    return {os.path.relpath(path, top) for name, path in operations if name.startswith("fsync")}


def test_only_folders_in_which_names_changed_are_flushed(
    repo: Path, manager: CheckpointManager
) -> None:
    saved = manager.create()
    change(repo)

    with observed() as operations:
        manager.rollback(saved)

    flushed = flushed_in(repo, operations)
    assert {path for path in flushed if path.startswith("folder")} == {
        "folder1/deep",
        "folder1/deep/file1",
        "folder2/deep",
        "folder2/deep/file2",
        "folder3",
    }


def test_the_folders_above_one_that_is_made_are_flushed(
    repo: Path, manager: CheckpointManager
) -> None:
    saved = manager.create()
    for number in range(5):
        (repo / f"folder4/deep/file{number}").unlink()
    (repo / "folder4/deep").rmdir()
    (repo / "folder4").rmdir()

    with observed() as operations:
        manager.rollback(saved)

    assert {".", "folder4", "folder4/deep"} <= flushed_in(repo, operations)
