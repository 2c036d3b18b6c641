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
    assert "a merge was begun since the rollback was interrupted" in refused.stderr
    assert look(top) == before and has_journal(top)
    # The command that is named opens the way.
    assert "hint: 'git ckpt save && git merge --abort' gives it up" in refused.stderr
    git("merge", "--abort", cwd=top)
    assert driver.run(top, "rollback", way).code == 0
    assert (top / "edited").read_text() == ("first\n" if way == "--continue" else "now\n")


@pytest.mark.parametrize("way", WAYS)
def test_who_gives_the_merge_up_as_the_hint_says_keeps_what_was_resolved_by_hand(
    way: str, driver: Driver, top: Path
) -> None:
    crash(driver, top)
    git("reset", "-q", "--hard", cwd=top)
    merge(top)
    write(top, "of-topic", "resolved by hand\n")
    git("add", "of-topic", cwd=top)

    refused = driver.run(top, "rollback", way)
    for command in refused.stderr.split("'")[1].split(" && "):
        program, *words = command.removeprefix("git ").split()
        if program == "ckpt":
            assert driver.run(top, *words).code == 0
        else:
            git(program, *words, cwd=top)

    assert not is_merging(top)
    assert driver.run(top, "rollback", way).code == 0
    blob = git("hash-object", "--stdin", stdin="resolved by hand\n", cwd=top).strip()
    assert blob in git("rev-list", "--objects", "--glob=refs/checkpoints", cwd=top)


@pytest.mark.parametrize("way", WAYS)
def test_of_several_operations_the_one_that_was_begun_after_the_crash_has_to_end(
    way: str, driver: Driver, top: Path
) -> None:
    git("bisect", "start", cwd=top)
    crash(driver, top)
    git("reset", "-q", "--hard", cwd=top)
    merge(top)

    refused = driver.run(top, "rollback", way)

    assert refused.code == 4, refused
    assert "the merge+bisect has moved on" in refused.stderr
    git("merge", "--abort", cwd=top)
    assert driver.run(top, "rollback", way).code == 0
    assert (top / ".git/BISECT_LOG").exists()


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


@pytest.mark.parametrize("way", WAYS)
def test_a_merge_begun_after_the_crash_is_saved_and_goes_where_head_goes_back(
    way: str, driver: Driver, top: Path
) -> None:
    crash(driver, top, "--head")
    git("reset", "-q", "--hard", cwd=top)
    merge(top)

    recovered = driver.run(top, "rollback", way, "--json")

    assert recovered.code == 0, recovered
    assert not is_merging(top)
    saved = recovered.json["safety"]
    assert saved["git_state"]["operation"] == "merge"
    assert driver.run(top, "rollback", saved["id"], "--head").code == 0
    assert is_merging(top)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ending", [["commit", "-q", "-m", "merged"], ["merge", "--abort"]])
def test_a_merge_ended_after_the_crash_is_missed(
    ending: list[str], way: str, driver: Driver, top: Path
) -> None:
    merge(top)
    crash(driver, top)
    git(*ending, cwd=top)

    recovered = driver.run(top, "rollback", way)

    assert recovered.code == 4, recovered
    assert "the merge has ended since, and is not put back" in recovered.stderr
    assert not is_merging(top) and not has_journal(top)
    # The command that is named brings it back.
    (hint,) = (line for line in recovered.stderr.splitlines() if line.startswith("hint: "))
    assert driver.run(top, *hint.split("'")[1].split()[2:]).code == 0
    assert is_merging(top)
    assert (top / "edited").read_text() == ("first\n" if way == "--continue" else "now\n")


def test_no_merge_is_put_back_onto_a_commit_made_after_the_crash(driver: Driver, top: Path) -> None:
    """The merge was begun on the commit on which HEAD was all along."""
    merge(top)
    assert driver.run(top, "save", "it").code == 0
    git("merge", "--abort", cwd=top)
    write(top, "edited", "now\n")
    assert driver.run(top, "rollback", "it", "--head", blow=CRASH).killed
    git("reset", "-q", "--hard", cwd=top)
    commit(top, "important", "work\n")
    later = git("rev-parse", "--short=12", "HEAD", cwd=top).strip()

    recovered = driver.run(top, "rollback", "--continue")

    assert recovered.code == 4, recovered
    assert f"HEAD is at {later}, where neither state had it" in recovered.stderr
    assert "so the merge is not put back" in recovered.stderr
    assert not is_merging(top)
