# SPDX-License-Identifier: MIT
"""A rollback that stopped half way: every command knows of it, and both ways lead out.

Here something else holds a branch's lock when the rollback comes to move it; what a
kill leaves at each step is the business of tests/faults.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from byhand import locked_half_way
from helpers import ckpt_here as ckpt
from helpers import fsck, git
from scenes import State, state, write


def checkpoints(*words: str) -> list[dict]:
    return ckpt("list", "--json", *words, code=0).json["checkpoints"]


@pytest.fixture
def states(repo: Path) -> tuple[State, State]:
    """A rollback to `start` has changed all files and has not moved the branch.

    Returns the state at `start` and the one before the rollback.
    """
    write(repo, "untracked", "then\n")
    then = state(repo)
    ckpt("save", "start", code=0)
    write(repo, "README.md", "committed\n")
    git("commit", "-q", "-a", "-m", "later")
    write(repo, "untracked", "now\n")
    before = state(repo)
    with locked_half_way(repo / ".git/refs/heads/main.lock"):
        stopped = ckpt("rollback", "start", "--head", "--json", code=4).json["error"]
    assert stopped["code"] == "busy"
    return then, before


def test_continue_reaches_the_checkpoint(repo: Path, states: tuple[State, State]) -> None:
    told = ckpt("rollback", "--continue", "--json", code=0).json

    assert state(repo) == states[0]
    assert told["target"]["name"] == "start"
    assert told["undo"] == "git ckpt undo"
    assert fsck(repo) == []
    ckpt("undo", code=0)
    assert state(repo) == states[1]


def test_abort_returns_to_the_state_before(repo: Path, states: tuple[State, State]) -> None:
    told = ckpt("rollback", "--abort", "--json", code=0).json

    assert state(repo) == states[1]
    assert told["undo"] is None
    assert fsck(repo) == []
    ckpt("undo", code=3)


@pytest.mark.parametrize("way", ["--continue", "--abort"])
def test_work_done_in_between_is_saved_first(
    repo: Path, states: tuple[State, State], way: str
) -> None:
    write(repo, "untracked", "edited in between\n")

    told = ckpt("rollback", way, "--json", code=0).json

    assert git("show", f"{told['safety']['ref']}:untracked") == "edited in between\n"
    assert state(repo) == states[0 if way == "--continue" else 1]


@pytest.mark.parametrize("words", [("rollback", "start"), ("undo",)])
def test_no_other_rollback_begins_before_it_is_settled(
    repo: Path, states: tuple[State, State], words: tuple[str, ...]
) -> None:
    ckpt("save", "meanwhile", code=0)
    now = state(repo)

    refused = ckpt(*words)

    assert refused.code in (3, 4)
    if words[0] == "rollback":
        assert "rollback --continue" in refused.stderr
        assert "rollback --abort" in refused.stderr
    assert state(repo) == now


def test_a_save_in_between_is_marked_and_never_latest(
    repo: Path, states: tuple[State, State]
) -> None:
    saved = ckpt("save", "half", "--json", code=0).json["checkpoint"]

    assert saved["during_rollback"] is True
    assert [c["name"] for c in checkpoints()] == ["start"]
    assert saved["id"] in [c["id"] for c in checkpoints("--all")]
    assert ckpt("show", "latest", "--json").json["checkpoint"]["name"] == "start"
    assert "during-rollback" in ckpt("list", "--all", code=0).stdout
    ckpt("rollback", "--abort", code=0)
    assert ckpt("save", "whole", "--json").json["checkpoint"]["during_rollback"] is False
    assert ckpt("show", "half", "--json").json["checkpoint"]["id"] == saved["id"]


def test_what_the_rollback_needs_cannot_be_dropped(repo: Path, states: tuple[State, State]) -> None:
    for found in checkpoints("--all"):
        refused = ckpt("drop", found["id"], code=4)
        assert "rollback --continue" in refused.stderr
    assert len(checkpoints("--all")) == 2

    ckpt("rollback", "--continue", code=0)
    ckpt("drop", "start", code=0)


def test_gc_in_between_takes_nothing_that_is_needed(
    repo: Path, states: tuple[State, State]
) -> None:
    git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    git("gc", "-q", "--prune=now")

    ckpt("rollback", "--abort", code=0)

    assert state(repo) == states[1]


def test_the_journal_of_another_worktree_stops_nothing_here(
    repo: Path, states: tuple[State, State], tmp_path: Path
) -> None:
    git("worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    ckpt("save", "there", cwd=tmp_path / "linked", code=0)
    write(tmp_path, "linked/README.md", "edited\n")

    ckpt("rollback", "there", cwd=tmp_path / "linked", code=0)

    assert ckpt("drop", "start", cwd=tmp_path / "linked", code=4)
    ckpt("rollback", "--continue", cwd=repo, code=0)


def test_a_damaged_journal_is_explained_and_nothing_is_guessed(
    repo: Path, states: tuple[State, State]
) -> None:
    for damage in ("", "{", "[]", "null", '{"format": 99}', '{"format": 1}'):
        write(repo, ".git/ckpt/journal", damage)
        now = state(repo)
        for words in (("--continue",), ("--abort",), ("start",)):
            refused = ckpt("rollback", *words, code=4)
            assert "hint: " in refused.stderr
        assert state(repo) == now
    (repo / ".git/ckpt/journal").unlink()
    safety = checkpoints("--kind", "safety")[0]["id"]
    ckpt("rollback", safety, "--head", code=0)
    assert state(repo) == states[1]
