# SPDX-License-Identifier: MIT
"""Worktrees of one repository share refs and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git, tree_state
from scenes import state, write


@pytest.fixture
def linked(repo: Path, tmp_path: Path) -> Path:
    """A second worktree of `repo`, on branch `other`."""
    git("worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    return tmp_path / "linked"


def save(top: Path, *words: str) -> dict:
    return ckpt("save", "--json", *words, cwd=top, code=0).json["checkpoint"]


def listed(top: Path, *words: str) -> list[str]:
    found = ckpt("list", "--json", *words, cwd=top, code=0).json["checkpoints"]
    return [checkpoint["id"] for checkpoint in found]


def test_each_checkpoint_records_its_worktree_and_lists_are_apart(repo: Path, linked: Path) -> None:
    mine, theirs = save(repo), save(linked)

    assert (mine["worktree"], theirs["worktree"]) == ("main", "worktrees/linked")
    assert theirs["git_state"]["branch"] == "other"
    assert listed(repo) == [mine["id"]]
    assert listed(linked) == [theirs["id"]]
    assert listed(repo, "--all-worktrees") == [theirs["id"], mine["id"]]
    assert ckpt("show", "--json", cwd=repo).json["checkpoint"]["id"] == mine["id"]


def test_a_worktree_comes_back_exactly_and_the_other_is_untouched(repo: Path, linked: Path) -> None:
    write(linked, "README.md", "staged\n")
    git("add", "README.md", cwd=linked)
    write(linked, "README.md", "edited\n")
    write(linked, "new", "new\n")
    before, others = state(linked), state(repo)
    save(linked, "work")
    git("reset", "-q", "--hard", cwd=linked)
    git("clean", "-q", "-f", "-d", cwd=linked)
    destroyed = state(linked)

    ckpt("rollback", "work", cwd=linked, code=0)
    assert state(linked) == before
    ckpt("undo", cwd=linked, code=0)
    assert state(linked) == destroyed
    assert state(repo) == others
    assert fsck(repo) == []
    assert os.path.isdir(repo / ".git/worktrees/linked/ckpt")


def test_undo_is_about_its_own_worktree(repo: Path, linked: Path) -> None:
    for top in (repo, linked):
        save(top, "start")
        write(top, "README.md", f"edited in {top.name}\n")
    ckpt("rollback", cwd=repo, code=0)

    assert ckpt("undo", cwd=linked).code == 3
    ckpt("rollback", cwd=linked, code=0)
    ckpt("undo", cwd=repo, code=0)

    assert (repo / "README.md").read_text() == "edited in repo\n"
    assert (linked / "README.md").read_text() == "# An example\n"


def test_a_checkpoint_of_another_worktree_can_be_rolled_back_to(repo: Path, linked: Path) -> None:
    write(linked, "made there", "new\n")
    saved = save(linked)

    ckpt("rollback", saved["id"], cwd=repo, code=0)

    assert (repo / "made there").read_text() == "new\n"
    assert git("branch", "--show-current", cwd=repo) == "main\n"
    assert tree_state(linked)[b"made there"][2] == b"new\n"


def test_head_is_moved_in_its_own_worktree_only(repo: Path, linked: Path) -> None:
    saved = save(linked)
    write(linked, "README.md", "committed\n")
    git("commit", "-q", "-a", "-m", "there", cwd=linked)
    now = git("rev-parse", "HEAD", cwd=linked)

    ckpt("rollback", saved["id"], "--head", cwd=linked, code=0)

    assert git("rev-parse", "HEAD", cwd=linked).strip() == saved["git_state"]["commit_hash"]
    assert git("reflog", "-1", "--format=%gs", cwd=linked).startswith("ckpt: rollback to ")
    assert not git("reflog", "-1", "--format=%gs", cwd=repo).startswith("ckpt: ")
    ckpt("undo", cwd=linked, code=0)
    assert git("rev-parse", "HEAD", cwd=linked) == now


def test_a_merge_in_one_worktree_does_not_stop_a_rollback_in_another(
    repo: Path, linked: Path
) -> None:
    save(repo, "start")
    write(repo, ".git/worktrees/linked/MERGE_HEAD", git("rev-parse", "HEAD", cwd=linked))
    write(repo, "README.md", "edited\n")

    ckpt("rollback", "start", cwd=repo, code=0)
    assert ckpt("rollback", "start", cwd=linked, code=4)


def test_checkpoints_outlive_the_worktree_they_were_taken_in(repo: Path, linked: Path) -> None:
    write(linked, "README.md", "precious\n")
    saved = save(linked)
    git("worktree", "remove", "--force", str(linked))
    git("gc", "-q", "--prune=now")

    ckpt("rollback", saved["id"], cwd=repo, code=0)

    assert (repo / "README.md").read_text() == "precious\n"


def test_a_submodule_is_a_worktree_of_its_own(repo: Path, tmp_path: Path) -> None:
    git("init", "-q", str(tmp_path / "library"))
    write(tmp_path, "library/code", "one\n")
    git("add", ".", cwd=tmp_path / "library")
    git("commit", "-q", "-m", "library", cwd=tmp_path / "library")
    allow = ("-c", "protocol.file.allow=always")
    git(*allow, "submodule", "--quiet", "add", str(tmp_path / "library"), "lib", cwd=repo)
    git("commit", "-q", "-m", "submodule", cwd=repo)
    write(repo, "lib/code", "edited inside\n")
    outer, inner = save(repo), save(repo / "lib")
    write(repo, "lib/code", "broken\n")
    write(repo, "README.md", "edited\n")

    ckpt("rollback", outer["id"], cwd=repo, code=0)
    assert (repo / "lib/code").read_text() == "broken\n"
    assert (repo / "README.md").read_text() == "# An example\n"
    ckpt("rollback", inner["id"], cwd=repo / "lib", code=0)
    assert (repo / "lib/code").read_text() == "edited inside\n"
    assert fsck(repo) == []
