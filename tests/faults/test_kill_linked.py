# SPDX-License-Identifier: MIT
"""Killed in a linked worktree, under a lock that stands in the way of all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.rollbacks import leftovers, save
from faults.striking import Driver, kill
from helpers import fsck, git, verified


@pytest.fixture
def linked(repo: Path, tmp_path: Path) -> Path:
    top = tmp_path / "linked"
    git("worktree", "add", "-q", "-b", "other", str(top))
    return top


@pytest.mark.parametrize("is_removed", [False, True])
@pytest.mark.parametrize("words", [["save", "next"], ["drop", "first"], ["rollback", "first"]])
def test_what_a_killed_drop_left_locked_is_free_after_the_next_command_in_another_worktree(
    words: list[str], is_removed: bool, driver: Driver, repo: Path, linked: Path
) -> None:
    save(repo, "first")
    save(linked, "theirs")
    (repo / "edited since").write_text("edited\n")
    git("pack-refs", "--all", cwd=repo)
    assert driver.run(linked, "drop", "theirs", blow=kill(1, "rename", "/packed-refs")).killed
    assert (repo / ".git/packed-refs.lock").exists()
    if is_removed:
        git("worktree", "remove", "--force", str(linked), cwd=repo)

    assert driver.run(repo, *words).code == 0

    assert leftovers(repo) == []
    git("branch", "new", cwd=repo)
    git("pack-refs", "--all", cwd=repo)
    assert fsck(repo) == [] and verified(repo) == []


def test_a_branch_that_a_killed_rollback_left_locked_is_free_after_its_recovery(
    driver: Driver, repo: Path, linked: Path
) -> None:
    target = save(linked, "target")
    git("commit", "-q", "--allow-empty", "-m", "since", cwd=linked)
    words = ("rollback", target, "--head")
    assert driver.run(linked, *words, blow=kill(1, "unlink", "/refs/heads/other")).killed
    assert (repo / ".git/refs/heads/other.lock").exists()

    assert driver.run(linked, "rollback", "--abort").code == 0

    assert leftovers(repo) == []
    git("commit", "-q", "--allow-empty", "-m", "more", cwd=linked)
