# SPDX-License-Identifier: MIT
"""Someone begins or ends a merge between the crash of a rollback and its recovery.

Files of one state and the operation of another must not become a commit that drops a side.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.rollbacks import has_journal, look
from faults.striking import Driver, kill
from helpers import git
from scenes import write

WAYS = ["--continue", "--abort"]
CRASH = kill(1, "rename", "edited")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Two branches that can be merged without a conflict."""
    top = tmp_path / "top"
    top.mkdir()
    git("init", "-q", cwd=top)
    commit(top, "edited", "first\n")
    git("switch", "-q", "-c", "topic", cwd=top)
    commit(top, "of-topic", "topic\n")
    git("switch", "-q", "main", cwd=top)
    commit(top, "of-main", "main\n")
    return top


def commit(top: Path, path: str, content: str) -> None:
    write(top, path, content)
    git("add", path, cwd=top)
    git("commit", "-q", "-m", path, cwd=top)


def merge(top: Path) -> None:
    git("merge", "-q", "--no-commit", "topic", cwd=top)


def is_merging(top: Path) -> bool:
    return (top / ".git/MERGE_HEAD").exists()


def crash(driver: Driver, top: Path, *words: str) -> None:
    """A rollback from a staged edit is killed."""
    assert driver.run(top, "save", "it").code == 0
    write(top, "edited", "now\n")
    git("add", "edited", cwd=top)
    assert driver.run(top, "rollback", "it", *words, blow=CRASH).killed


@pytest.mark.parametrize("way", WAYS)
def test_a_merge_begun_after_the_crash_has_to_end_first(
    way: str, driver: Driver, top: Path
) -> None:
    crash(driver, top)
    git("reset", "-q", "--hard", cwd=top)
    merge(top)
    before = look(top)

    refused = driver.run(top, "rollback", way)

    assert refused.code == 4, refused
    assert "with no operation in progress, but a merge is in progress" in refused.stderr
    assert look(top) == before and has_journal(top)
    # The command that is named opens the way.
    assert (
        "hint: 'git ckpt save', then finish or abort it, and repeat the command" in refused.stderr
    )
    git("merge", "--abort", cwd=top)
    assert driver.run(top, "rollback", way).code == 0
    assert (top / "edited").read_text() == ("first\n" if way == "--continue" else "now\n")


@pytest.mark.parametrize("way", WAYS)
def test_beside_a_rollback_of_single_paths_a_merge_goes_on(
    way: str, driver: Driver, top: Path
) -> None:
    crash(driver, top, "--", "edited")
    git("reset", "-q", "--hard", cwd=top)
    merge(top)

    assert driver.run(top, "rollback", way).code == 0

    assert is_merging(top)
    assert "of-topic" in git("ls-files", cwd=top)
