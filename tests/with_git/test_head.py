# SPDX-License-Identifier: MIT
"""HEAD and its branch: they stay unless asked for, and then nothing is left behind for good."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git
from scenes import State, state, write


def save(*words: str) -> str:
    return ckpt("save", "--json", *words, code=0).json["checkpoint"]["id"]


def rollback(*words: str, code: int = 0) -> dict:
    return ckpt("rollback", "--json", *words, code=code).json


def commit(repo: Path, text: str) -> str:
    write(repo, "README.md", text)
    git("commit", "-q", "-a", "-m", text)
    return head()


def head() -> str:
    return git("rev-parse", "HEAD").strip()


def branch() -> str:
    return git("branch", "--show-current").strip()


@pytest.fixture
def two_later(repo: Path) -> tuple[str, str, State]:
    """The id of a checkpoint with work in it, two commits ago; HEAD then; that state."""
    write(repo, "src/app.py", "staged\n")
    git("add", "src/app.py")
    write(repo, "untracked", "new\n")
    before, saved, then = state(repo), save("start"), head()
    commit(repo, "one")
    commit(repo, "two")
    return saved, then, before


def test_head_stays_and_the_report_says_how_far_it_has_moved(
    repo: Path, two_later: tuple[str, str, State]
) -> None:
    saved, _, before = two_later
    now = head()

    told = rollback(saved)

    assert (head(), branch()) == (now, "main")
    assert told["head"] == {
        "moved": False,
        "before": {"commit_hash": now, "branch": "main"},
        "after": {"commit_hash": now, "branch": "main"},
        "ahead": 2,
        "behind": 0,
        "operation": None,
        "branches": [],
    }
    after = state(repo)
    assert (after.files, after.index) == (before.files, before.index)


def test_the_person_is_told_what_the_index_shows_now(
    repo: Path, two_later: tuple[str, str, State]
) -> None:
    told = ckpt("rollback", two_later[0], code=0).stdout

    assert "2 commits" in told
    assert "index" in told
    assert "--head" in told


def test_with_head_everything_is_as_it_was(repo: Path, two_later: tuple[str, str, State]) -> None:
    saved, then, before = two_later
    later, now = state(repo), head()

    told = rollback(saved, "--head")

    assert state(repo) == before
    assert (head(), branch()) == (then, "main")
    assert told["head"]["moved"] is True
    assert told["head"]["after"] == {"commit_hash": then, "branch": "main"}
    assert fsck(repo) == []
    ckpt("undo", code=0)
    assert state(repo) == later
    assert (head(), branch()) == (now, "main")
    ckpt("undo", code=0)
    assert state(repo) == before


def test_moving_head_leaves_reflog_entries(repo: Path, two_later: tuple[str, str, State]) -> None:
    saved, then, _ = two_later
    now = head()

    rollback(saved, "--head")

    for ref in ("HEAD", "main"):
        newest = git("reflog", "-1", "--format=%H %gs", ref).strip()
        assert newest == f"{then} ckpt: rollback to {saved}"
        assert git("rev-parse", f"{ref}@{{1}}").strip() == now
    git("reset", "-q", "--hard", "HEAD@{1}")
    assert head() == now


def test_commits_left_behind_stay_reachable_from_the_safety_checkpoint(
    repo: Path, two_later: tuple[str, str, State]
) -> None:
    now = head()
    told = rollback(two_later[0], "--head")
    git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    git("gc", "-q", "--prune=now")

    assert git("rev-parse", f"{told['safety']['ref']}^1").strip() == now
    assert git("log", "--format=%s", now).split() == ["two", "one", "first"]
    ckpt("undo", code=0)
    assert head() == now


def test_so_do_those_of_a_branch_that_head_was_not_on(repo: Path) -> None:
    saved = save()
    commit(repo, "left behind")
    left = head()
    git("checkout", "-q", "-b", "other", "HEAD^")
    rollback(saved, "--head")
    git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    git("gc", "-q", "--prune=now")

    assert git("log", "--format=%s", left).split("\n")[0] == "left behind"


def test_a_branch_that_was_left_for_another_comes_back(repo: Path) -> None:
    commit(repo, "one")
    before, saved, then = state(repo), save(), head()
    git("checkout", "-q", "-b", "other", "HEAD^")
    write(repo, "README.md", "on other\n")
    later = state(repo)

    rollback(saved, "--head")

    assert state(repo) == before
    assert (head(), branch()) == (then, "main")
    assert git("rev-parse", "other").strip() == git("rev-parse", "main^").strip()
    ckpt("undo", code=0)
    assert state(repo) == later
    assert branch() == "other"


def test_a_deleted_branch_is_made_again(repo: Path) -> None:
    git("checkout", "-q", "-b", "feature/x")
    commit(repo, "one")
    before, saved = state(repo), save()
    git("checkout", "-q", "main")
    git("branch", "-q", "-D", "feature/x")
    git("pack-refs", "--all")

    rollback(saved, "--head")

    assert state(repo) == before
    assert branch() == "feature/x"


def test_a_detached_head_comes_back_detached_and_the_branch_stays(repo: Path) -> None:
    first = head()
    commit(repo, "one")
    git("checkout", "-q", "--detach", first)
    before, saved = state(repo), save()
    git("checkout", "-q", "main")
    later = state(repo)

    told = rollback(saved, "--head")

    assert state(repo) == before
    assert (head(), branch()) == (first, "")
    assert told["head"]["after"] == {"commit_hash": first, "branch": None}
    assert git("log", "-1", "--format=%s", "main").strip() == "one"
    assert git("reflog", "-1", "--format=%gs").strip() == f"ckpt: rollback to {saved}"
    ckpt("undo", code=0)
    assert state(repo) == later
    assert branch() == "main"


def test_from_detached_back_to_a_branch(repo: Path) -> None:
    before, saved = state(repo), save()
    git("checkout", "-q", "--detach")
    write(repo, "README.md", "detached\n")
    git("commit", "-q", "-a", "-m", "detached")
    lost = head()

    told = rollback(saved, "--head")

    assert state(repo) == before
    assert branch() == "main"
    assert lost in git("rev-list", told["safety"]["ref"]).split()


def test_an_unborn_branch_becomes_unborn_again(tmp_path: Path, monkeypatch) -> None:
    git("init", "-q", str(tmp_path / "fresh"))
    monkeypatch.chdir(tmp_path / "fresh")
    repo = tmp_path / "fresh"
    write(repo, "file", "one\n")
    git("add", "file")
    before, saved = state(repo), save()
    git("commit", "-q", "-m", "first")
    later, now = state(repo), head()

    told = rollback(saved, "--head")

    assert state(repo) == before
    assert told["head"]["after"] == {"commit_hash": None, "branch": "main"}
    assert now in git("rev-list", told["safety"]["ref"]).split()
    ckpt("undo", code=0)
    assert state(repo) == later
    assert head() == now


def test_an_unborn_checkpoint_without_head_leaves_the_commits(tmp_path: Path, monkeypatch) -> None:
    git("init", "-q", str(tmp_path / "fresh"))
    monkeypatch.chdir(tmp_path / "fresh")
    write(tmp_path / "fresh", "file", "one\n")
    saved = save()
    git("add", "file")
    git("commit", "-q", "-m", "first")
    now = head()

    rollback(saved)

    assert head() == now
    assert git("status", "--porcelain") == "D  file\n?? file\n"


def test_a_branch_checked_out_in_another_worktree_is_not_moved(repo: Path, tmp_path: Path) -> None:
    saved = save()
    git("checkout", "-q", "-b", "other")
    git("worktree", "add", "-q", str(tmp_path / "linked"), "main")
    commit(repo, "one")
    before, refs = state(repo), git("for-each-ref")

    refused = rollback(saved, "--head", code=4)["error"]

    assert refused["code"] == "refused"
    assert "'main'" in refused["message"]
    assert refused["hint"]
    assert state(repo) == before
    assert git("for-each-ref") == refs
    rollback(saved)


def test_a_missing_commit_of_head_stops_the_move_before_anything_happens(repo: Path) -> None:
    git("checkout", "-q", "--orphan", "gone")
    then = commit(repo, "one")
    saved = save()
    git("checkout", "-q", "main")
    git("branch", "-q", "-D", "gone")
    (repo / ".git/objects" / then[:2] / then[2:]).unlink()
    before = git("status", "--porcelain"), head()

    failed = rollback(saved, "--head", code=1)["error"]

    assert then in failed["message"]
    assert before == (git("status", "--porcelain"), head())


def test_head_and_paths_exclude_each_other(repo: Path) -> None:
    save()

    assert "--head" in ckpt("rollback", "--head", "--", "README.md", code=2).stderr


# Git at work


LOCKS = ["HEAD.lock", "refs/heads/main.lock", "index.lock"]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_of_gits_stops_a_rollback_before_anything_happens(
    lock: str, repo: Path, two_later: tuple[str, str, State]
) -> None:
    saved, _, _ = two_later
    before, refs = state(repo), git("for-each-ref")
    write(repo, f".git/{lock}", "")

    refused = rollback("--head", saved, code=4)["error"]

    assert (refused["code"], refused["message"].startswith("unable to lock ")) == ("busy", True)
    assert f".git/{lock}" in refused["message"]
    assert "remove that file" in refused["hint"]
    assert (state(repo), git("for-each-ref")) == (before, refs)
    assert not (repo / ".git/ckpt/journal").exists()


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_that_git_holds_for_a_moment_is_waited_for(
    lock: str, repo: Path, two_later: tuple[str, str, State]
) -> None:
    saved, then, before = two_later
    held = repo / ".git" / lock
    held.touch()
    release = threading.Timer(0.2, held.unlink)
    release.start()

    rollback("--head", saved)

    release.join()
    assert head() == then
    assert state(repo) == before
