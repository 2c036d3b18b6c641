# SPDX-License-Identifier: MIT
"""What git wrote a moment ago is on the disk before a checkpoint relies on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import git
from seam import observed

from ckpt.git import objects
from ckpt.manager import CheckpointManager


def loose(repo: Path, name: str) -> str:
    object_id = git("rev-parse", name, cwd=repo).strip()
    return str(repo / ".git/objects" / object_id[:2] / object_id[2:])


def flushed_before_the_ref(repo: Path) -> set[str]:
    with CheckpointManager(repo) as manager, observed() as seen:
        manager.create("one")
    end = next(n for n, (operation, _) in enumerate(seen) if operation == "link")
    return {path for operation, path in seen[:end] if operation in ("fsync", "fsync-dir")}


def staged(repo: Path) -> list[str]:
    (repo / "new").write_text("staged\n")
    git("add", "new", cwd=repo)
    return [loose(repo, ":new")]


def staged_and_edited(repo: Path) -> list[str]:
    names = staged(repo)
    (repo / "new").write_text("edited since\n")
    return names


def committed(repo: Path) -> list[str]:
    (repo / "folder").mkdir()
    (repo / "folder/file").write_text("committed\n")
    git("add", "-A", cwd=repo)
    git("commit", "-q", "-m", "second", cwd=repo)
    return [loose(repo, f"HEAD{name}") for name in ("", "^{tree}", ":folder", ":folder/file", "~")]


def the_same_content(repo: Path) -> list[str]:
    """Git has the blob, and ckpt finds it when it is about to write it."""
    git("hash-object", "-w", "--stdin", cwd=repo, stdin="the same\n")
    (repo / "new").write_text("the same\n")
    git("add", "-N", "new", cwd=repo)
    object_id = git("hash-object", "new", cwd=repo).strip()
    return [str(repo / ".git/objects" / object_id[:2] / object_id[2:])]


WAYS = [staged, staged_and_edited, committed, the_same_content]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("work", WAYS, ids=lambda way: way.__name__)
def test_what_git_has_just_written_is_flushed(
    repo: Path, work: Callable[[Path], list[str]], known: bool
) -> None:
    if known:
        flushed_before_the_ref(repo)
    paths = work(repo)

    flushed = flushed_before_the_ref(repo)
    assert {*paths, *map(os.path.dirname, paths)} <= flushed


def test_that_a_checkpoint_was_made_here_is_on_the_disk_before_its_ref(repo: Path) -> None:
    record = repo / ".git/ckpt/made-here"

    assert {str(record), str(record.parent)} <= flushed_before_the_ref(repo)


def test_what_is_older_has_been_written_by_the_kernel(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path, *_) = staged(repo)
    monkeypatch.setattr(objects, "_WRITTEN_OUT", -60.0)

    assert path not in flushed_before_the_ref(repo)


def test_that_a_pinned_checkpoint_was_made_here_is_on_the_disk_before_its_ref_moves(
    repo: Path,
) -> None:
    with CheckpointManager(repo) as manager:
        checkpoint_id = manager.create("one").id
        with observed() as seen:
            manager.pin(checkpoint_id)

    flushed = seen.index(("fsync", str(repo / ".git/ckpt/made-here")))
    moved = next(n for n, (_, path) in enumerate(seen) if path.endswith(checkpoint_id))
    assert flushed < moved, seen
