# SPDX-License-Identifier: MIT
"""hooks/pre-commit, copied into a repository as its header says, under real commits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import git

from ckpt.install.assets import asset

BIN = os.path.dirname(sys.executable)


@pytest.fixture
def hooked(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(asset("hooks/pre-commit"), repo / ".git/hooks/pre-commit")
    monkeypatch.setenv("PATH", BIN, prepend=os.pathsep)
    return repo


def commit(*words: str) -> str:
    """Commits and returns what was said on stderr; a commit that is stopped fails."""
    words = ("git", "commit", "-q", "-m", "second", *words)
    ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert git("log", "-1", "--format=%s") == "second\n"
    return ran.stderr


def checkpoints() -> list[str]:
    return git("for-each-ref", "--format=%(refname)", "refs/checkpoints").split()


def edit_twice(repo: Path) -> None:
    (repo / "README.md").write_text("staged\n")
    git("add", "README.md")
    (repo / "README.md").write_text("in the worktree\n")
    (repo / "untracked").write_text("new\n")


def test_a_commit_is_preceded_by_a_checkpoint_of_everything(hooked: Path) -> None:
    edit_twice(hooked)

    assert commit() == ""
    [ref] = checkpoints()
    assert git("show", f"{ref}:README.md") == "in the worktree\n"
    assert git("show", f"{ref}:untracked") == "new\n"
    assert git("show", f"{ref}^2:index/README.md") == "staged\n"
    assert "Ckpt-Kind: hook\n" in git("log", "-1", "--format=%B", ref)
    assert git("show", "HEAD:README.md") == "staged\n"


@pytest.mark.parametrize("words", [["-a"], ["--", "src/app.py"], ["--amend"]])
def test_the_index_is_left_as_git_expects_it(hooked: Path, words: list[str]) -> None:
    """Git hands these commits an index file of their own, locked."""
    (hooked / "src/app.py").write_text("print('changed')\n")

    assert commit(*words) == ""
    assert len(checkpoints()) == 1
    if words != ["--amend"]:
        assert git("show", "HEAD:src/app.py") == "print('changed')\n"
    assert git("fsck", "--strict") == ""


def test_a_linked_worktree_gets_its_own_checkpoint(hooked: Path, monkeypatch) -> None:
    git("worktree", "add", "-q", "../linked")
    monkeypatch.chdir(hooked.parent / "linked")
    Path("only-here").write_text("x")
    git("add", ".")

    assert commit() == ""
    [ref] = checkpoints()
    assert git("show", f"{ref}:only-here") == "x"


@pytest.mark.parametrize("value", ["1", "true", "yes", "on"])
def test_ckpt_disable_turns_it_off(hooked: Path, monkeypatch, value: str) -> None:
    edit_twice(hooked)
    monkeypatch.setenv("CKPT_DISABLE", value)

    assert commit() == ""
    assert checkpoints() == []


def only_git(folder: Path) -> str:
    """A PATH with a shell and git, and no git-ckpt."""
    folder.mkdir()
    for name in ("git", "sh"):
        (folder / name).symlink_to(shutil.which(name))
    return str(folder)


def test_without_git_ckpt_the_commit_goes_on_with_a_warning(
    hooked: Path, tmp_path: Path, monkeypatch
) -> None:
    edit_twice(hooked)
    monkeypatch.setenv("PATH", only_git(tmp_path / "bin"))

    assert "git-ckpt is not on PATH" in commit()


@pytest.mark.parametrize("ending", ["exit 4", "kill -9 $$", "echo out; exit 1"])
def test_a_failing_checkpoint_does_not_stop_the_commit(
    hooked: Path, tmp_path: Path, monkeypatch, ending: str
) -> None:
    edit_twice(hooked)
    path = only_git(tmp_path / "bin")
    broken = tmp_path / "bin/git-ckpt"
    broken.write_text(f"#!/bin/sh\n{ending}\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", path)

    assert "warning: no checkpoint before this commit" in commit()


def test_a_checkpoint_that_cannot_be_written_does_not_stop_the_commit(hooked: Path) -> None:
    edit_twice(hooked)
    (hooked / ".git/refs/checkpoints").write_text("a file where the folder should be")

    assert "warning: no checkpoint before this commit" in commit()
