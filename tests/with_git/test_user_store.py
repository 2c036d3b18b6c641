# SPDX-License-Identifier: MIT
"""`--store user`: a folder that is no repository has checkpoints too, kept elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git, tree_state

from ckpt import CheckpointManager, Refused, UsageError

USER = ("--store", "user")


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a few files, which is the current one and no repository."""
    top = tmp_path / "plain"
    (top / "deep/empty").mkdir(parents=True)
    (top / "notes").write_text("one\n")
    (top / "deep/script").write_text("#!/bin/sh\n")
    (top / "deep/script").chmod(0o750)
    (top / "link").symlink_to("notes")
    monkeypatch.chdir(top)
    return top


def stores(home: Path) -> list[Path]:
    folder = home / ".local/share/ckpt/stores"
    return sorted(folder.iterdir()) if folder.exists() else []


def test_everything_comes_back_and_the_folder_holds_nothing_of_ours(plain: Path) -> None:
    before = tree_state(plain)
    ckpt("save", "one", *USER, code=0)
    assert tree_state(plain) == before
    (plain / "notes").write_text("two\n")
    shutil.rmtree(plain / "deep")
    (plain / "new").touch()
    after = tree_state(plain)

    names = [file["path"] for file in ckpt("diff", *USER, "--json", code=0).json["files"]]
    assert names == ["deep/script", "new", "notes"]
    told = ckpt("rollback", "one", *USER, "--json", code=0).json
    assert tree_state(plain) == before
    assert told["undo"] == "git ckpt --store user undo"
    ckpt("undo", *USER, code=0)
    assert tree_state(plain) == after
    assert ckpt("show", "one", *USER, "--json", code=0).json["checkpoint"]["name"] == "one"


def test_commands_are_told_as_they_must_be_typed(plain: Path) -> None:
    ckpt("save", *USER, code=0)

    said = ckpt("list", *USER, code=0).stdout

    assert "git ckpt --store user rollback ID" in said


def test_run_works_there_too(plain: Path) -> None:
    words = ["run", *USER, "--on-failure", "rollback", "--", "sh", "-c", "rm -r deep; exit 3"]

    assert ckpt(*words, code=3)
    assert (plain / "deep/script").exists()


def test_the_store_is_private_and_a_repository_that_git_can_read(
    plain: Path, isolated: Path
) -> None:
    ckpt("save", *USER, code=0)

    [store] = stores(isolated)
    for folder, _, files in os.walk(store):
        assert os.stat(folder).st_mode & 0o077 == 0 or folder.startswith(f"{store}/git/")
        assert ".git" not in files
    assert store.stat().st_mode & 0o777 == 0o700
    assert store.parent.stat().st_mode & 0o777 == 0o700
    git_dir = f"--git-dir={store / 'git'}"
    assert "refs/checkpoints/" in git(git_dir, "for-each-ref")
    assert fsck(store / "git") == []


def test_it_is_taken_only_if_it_is_asked_for(plain: Path, isolated: Path) -> None:
    told = ckpt("save", "--json", code=1).json["error"]

    assert "--store user" in told["hint"]
    assert stores(isolated) == []
    ckpt("save", *USER, code=0)
    ckpt("list", code=1)


def test_too_much_is_refused(isolated: Path) -> None:
    (isolated / ".local/share/ckpt/stores").mkdir(parents=True)
    for place in ("/", isolated.parent, isolated, isolated / ".local", isolated / ".local/share"):
        told = ckpt("save", *USER, "--json", cwd=place, code=4).json["error"]
        assert "refusing to take checkpoints of" in told["message"]
    assert stores(isolated) == []


def test_an_unknown_store_is_a_usage_error(plain: Path) -> None:
    assert ckpt("list", "--store", "other", "--json", code=2).json["error"]["code"] == "usage"
    assert ckpt("list", "--store", "--json", code=2).stdout
    with pytest.raises(UsageError, match="unknown store"):
        CheckpointManager(plain, store="other")


def test_the_api_is_the_same(plain: Path) -> None:
    with CheckpointManager(plain, store="user", session="s") as manager:
        saved = manager.create("one", data={"step": 1})
        (plain / "notes").unlink()
        done = manager.rollback(saved)

        assert done.data == {"step": 1}
        assert len(manager) == 1
        assert (plain / "notes").read_text() == "one\n"
    with pytest.raises(Refused):
        CheckpointManager("/", store="user")


@pytest.mark.parametrize("where", [".", ".."])
def test_a_folder_that_becomes_a_repository_keeps_the_store_that_it_has(
    plain: Path, isolated: Path, where: str
) -> None:
    before = tree_state(plain)
    script = f"git init -q {where}; echo work > notes; exit 3"
    ckpt("run", *USER, "--on-failure", "rollback", "--", "sh", "-c", script, code=3)
    assert (plain / "notes").read_text() == "one\n"

    ckpt("undo", *USER, code=0)
    assert (plain / "notes").read_text() == "work\n"
    ckpt("undo", *USER, code=0)
    assert git("rev-parse", "--git-dir").strip()
    shutil.rmtree(plain / ".git", ignore_errors=True)
    assert tree_state(plain) == before
    assert len(stores(isolated)) == 1


def test_a_folder_that_was_removed_comes_back_as_the_hint_says(plain: Path, isolated: Path) -> None:
    before = tree_state(plain)
    ckpt("save", "one", *USER, code=0)
    os.chdir(isolated)
    words = ("-C", str(plain), *USER, "run", "--on-failure", "rollback", "--")
    told = ckpt(*words, "sh", "-c", f"rm -r {plain}; exit 3", code=3).stderr
    assert "not rolled back: the work tree" in told
    subprocess.run(told.rpartition("first: ")[2], shell=True, check=True)

    ckpt("rollback", "one", *USER, cwd=plain, code=0)
    assert tree_state(plain) == before


def test_the_store_of_a_folder_that_was_removed_goes_a_month_later(
    plain: Path, isolated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ckpt("save", *USER, code=0)
    monkeypatch.chdir(tmp_path)
    [store] = stores(isolated)
    shutil.move(plain, tmp_path / "away")
    other = tmp_path / "other"
    other.mkdir()
    ckpt("save", *USER, cwd=other, code=0)
    os.utime(store / "gone", (0, 0))
    shutil.move(tmp_path / "away", plain)
    ckpt("save", *USER, cwd=other, code=0)

    assert store.exists()  # it is there again
    shutil.rmtree(plain)
    for _ in range(2):
        ckpt("save", *USER, cwd=other, code=0)
    assert store.exists()
    os.utime(store / "gone", (0, 0))
    ckpt("save", *USER, cwd=other, code=0)
    assert not store.exists()
    assert len(stores(isolated)) == 1
