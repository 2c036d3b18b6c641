# SPDX-License-Identifier: MIT
"""A repository with reftables: refs are read and written by the git binary.

CKPT_TEST_GIT is the path of a git of 2.46 or later; without it, most of this is skipped.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git, tree_state
from scenes import write

NEWER_GIT = os.environ.get("CKPT_TEST_GIT")  # read before the tests are isolated
newer_git = pytest.mark.skipif(NEWER_GIT is None, reason="CKPT_TEST_GIT names no newer git")


@pytest.fixture(params=["sha1", "sha256"])
def top(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert NEWER_GIT is not None
    monkeypatch.setenv("PATH", os.path.dirname(NEWER_GIT) + os.pathsep + os.environ["PATH"])
    top = tmp_path / "repo"
    format = f"--object-format={request.param}"
    git("init", "-q", "--ref-format=reftable", format, str(top))
    monkeypatch.chdir(top)
    write(top, "README.md", "first\n")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    return top


def listed() -> list[str]:
    return [one["name"] for one in ckpt("list", "--json", code=0).json["checkpoints"]]


@newer_git
def test_checkpoints_are_saved_listed_dropped_and_brought_back(top: Path) -> None:
    for name in ("one", "two"):
        write(top, "README.md", f"{name}\n")
        ckpt("save", name, code=0)

    assert listed() == ["two", "one"]
    refs = git("for-each-ref", "--format=%(refname)", "refs/checkpoints").splitlines()
    assert len(refs) == 2
    assert git("show", f"{refs[0]}:README.md") == "one\n"
    ckpt("pin", "two", code=0)
    ckpt("drop", "one", code=0)
    assert listed() == ["two"]
    ckpt("restore-dropped", "one", code=0)
    assert listed() == ["two", "one"]
    ckpt("verify", "--all", code=0)
    ckpt("doctor", code=0)
    assert fsck(top) == []


@newer_git
def test_a_prune_drops_many_in_one_go(top: Path) -> None:
    for number in range(6):
        write(top, "README.md", f"{number}\n")
        ckpt("save", "--kind", "auto", code=0)

    ckpt("prune", code=0)

    assert len(listed()) == 5
    assert len(git("for-each-ref", "refs/checkpoints-trash").splitlines()) == 1


@newer_git
def test_a_rollback_puts_files_head_and_branch_back_and_is_undone(top: Path) -> None:
    write(top, "README.md", "then\n")
    ckpt("save", "then", code=0)
    first = git("rev-parse", "HEAD")
    git("switch", "-q", "-c", "topic")
    git("commit", "-q", "-a", "-m", "second")
    write(top, "README.md", "now\n")

    ckpt("rollback", "then", "--head", code=0)

    assert (top / "README.md").read_text() == "then\n"
    assert git("symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert git("rev-parse", "HEAD") == first
    assert "ckpt: rollback to" in git("reflog", "-1")
    ckpt("undo", code=0)
    assert (top / "README.md").read_text() == "now\n"
    assert git("symbolic-ref", "HEAD").strip() == "refs/heads/topic"
    git("switch", "-q", "-f", "--detach", "main")
    ckpt("rollback", "then", "--head", code=0)
    assert git("symbolic-ref", "HEAD").strip() == "refs/heads/main"


@newer_git
def test_a_linked_worktree_has_its_own_head(top: Path, tmp_path: Path) -> None:
    git("worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
    write(tmp_path / "linked", "README.md", "linked\n")

    ckpt("save", "there", cwd=tmp_path / "linked", code=0)

    shown = ckpt("show", "there", "--json", code=0).json["checkpoint"]
    assert shown["git_state"]["branch"] == "linked"
    assert listed() == []


@newer_git
def test_without_git_it_is_refused_and_nothing_is_written(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree_state(top)
    monkeypatch.setenv("PATH", "/nowhere")

    for words in (["save"], ["list"], ["rollback", "latest"], ["prune"]):
        refused = ckpt(*words, code=4)
        assert "reftables, which only git can read and write" in refused.stderr
        assert "install git" in refused.stderr
    assert tree_state(top) == before


def test_a_git_that_knows_no_reftables_is_named(repo: Path) -> None:
    git("config", "core.repositoryFormatVersion", "1")
    git("config", "extensions.refStorage", "reftable")
    before = tree_state(repo)

    refused = ckpt("save", code=1)

    assert "cannot use the refs of" in refused.stderr
    assert "git 2.45 or later" in refused.stderr
    assert tree_state(repo) == before
