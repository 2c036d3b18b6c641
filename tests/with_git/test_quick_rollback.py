# SPDX-License-Identifier: MIT
"""A rollback looks at what differs, and at nothing else; and what it takes for granted is so."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import fsck, git
from saving import SETTLED, Saver, write_all
from scenes import state
from seam import failing, observed

from ckpt.engine.capture import Present
from ckpt.engine.recorded import Recorded
from ckpt.errors import RollbackError
from ckpt.git import trees
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


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was made of the whole worktree, or of the whole index."""
    made: list[str] = []

    def watch(owner: Any, name: str) -> None:
        inner = vars(owner)[name].func

        def told(self: Any) -> Any:
            made.append(name)
            return inner(self)

        monkeypatch.setattr(owner, name, property(told))

    for name in ("entries", "stats", "folders"):
        watch(Present, name)
    watch(Recorded, "index")

    return made


def test_going_back_by_a_few_files_takes_no_whole_state_apart(
    repo: Path, manager: CheckpointManager, whole: list[str]
) -> None:
    before = state(repo)
    saved = manager.create()
    change(repo)
    whole.clear()

    result = manager.rollback(saved)

    assert whole == []
    assert result.is_complete
    assert state(repo) == before
    assert fsck(repo) == []


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


def test_what_is_staged_meanwhile_is_saved_also_if_the_index_was_known(
    repo: Path, manager: CheckpointManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = manager.create()
    (repo / "folder1/deep/file1").write_text("staged\n")
    git("add", "-A")
    manager.create()
    manager.create()
    monkeypatch.setattr(
        "ckpt.engine.apply.Applier.sync",
        lambda self: git("update-index", "--cacheinfo", f"100644,{blob(repo)},folder0/deep/file0"),
    )

    result = manager.rollback(saved)

    assert result.safety is not None
    held = git("cat-file", "-p", f"{result.safety.state_commit}:index/folder0/deep/file0")
    assert held == "meanwhile\n"


def blob(repo: Path) -> str:
    return git("hash-object", "-w", "--stdin", cwd=repo, stdin="meanwhile\n").strip()


def test_neither_undo_nor_diff_takes_a_whole_state_apart(
    repo: Path, manager: CheckpointManager, whole: list[str]
) -> None:
    saved = manager.create()
    change(repo)
    before = state(repo)
    os.utime(repo / ".git/index", (time.time() - 50, time.time() - 50))
    manager.rollback(saved)
    whole.clear()

    manager.undo()
    changed = manager.diff(saved)

    assert whole == []
    assert [file.path for file in changed.files] == [
        "folder1/deep/file1",
        "folder2/deep/file2",
        "folder3/new",
    ]
    assert state(repo) == before


def test_a_save_after_a_rollback_reads_only_what_that_wrote(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(repo, FILES)
    saver = Saver(repo, monkeypatch)
    saved = saver.settle()
    change(repo)
    saver.manager.rollback(saved)
    time.sleep(SETTLED)

    saver.save()

    assert sorted(saver.read) == ["folder1/deep/file1", "folder2/deep/file2"]
    saver.close()


# -- many files in one folder ---------------------------------------------------------------

MANY = [f"crowd/{n}" for n in range(200)]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the trees that were taken apart."""
    sizes: list[int] = []
    inner = trees.parse_tree

    def told(data: bytes, *arguments: Any, **keywords: Any) -> Any:
        sizes.append(len(data))
        return inner(data, *arguments, **keywords)

    monkeypatch.setattr(trees, "parse_tree", told)
    return sizes


def edit_crowd(manager: CheckpointManager, repo: Path) -> None:
    write_all(repo, dict.fromkeys(MANY, b"then\n"))
    manager.create("then")
    write_all(repo, dict.fromkeys(MANY, b"now\n"))


def test_the_tree_of_a_folder_is_not_read_again_for_each_of_its_files(
    manager: CheckpointManager, repo: Path, parsed: list[int]
) -> None:
    edit_crowd(manager, repo)
    parsed.clear()

    manager.rollback("then")

    assert len(parsed) < len(MANY)


@pytest.mark.parametrize("way", ["resume_rollback", "abort_rollback"])
def test_nor_when_a_rollback_is_finished_or_taken_back(
    way: str, manager: CheckpointManager, repo: Path, parsed: list[int]
) -> None:
    edit_crowd(manager, repo)
    with failing("rename", after=20), pytest.raises(RollbackError):
        manager.rollback("then")
    assert manager.rollback_interrupted
    parsed.clear()

    getattr(manager, way)()

    assert len(parsed) < len(MANY)


def test_empty_folders_are_not_each_compared_with_all_others(
    manager: CheckpointManager, repo: Path
) -> None:
    folders = [repo / "empty" / str(n) for n in range(200)]
    for folder in folders:
        folder.mkdir(parents=True)
    manager.create("then")
    for folder in folders:
        folder.chmod(0o700)
    compared = []

    def note(_: object, event: str, what: object) -> None:
        if event == "c_call" and getattr(what, "__name__", "") == "startswith":
            compared.append(what)

    sys.setprofile(note)
    try:
        manager.rollback("then")
    finally:
        sys.setprofile(None)

    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o755}
    assert len(compared) < len(folders) ** 2 / 4
