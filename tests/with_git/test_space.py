# SPDX-License-Identifier: MIT
"""What `status` says of the disk space that checkpoints take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt_here, git

from ckpt.engine import space as space_record


def save(repo: Path, content: bytes, *words: str) -> str:
    (repo / "src/data.bin").write_bytes(content)
    return str(ckpt_here("save", *words, "--json", code=0).json["checkpoint"]["id"])


def space() -> dict[str, Any]:
    found: dict[str, Any] = ckpt_here("status", "--json", code=0).json["space"]
    return found


def total() -> int:
    return int(space()["total"])


def test_status_tells_what_is_held_and_what_waits_in_the_trash(repo: Path) -> None:
    save(repo, os.urandom(30_000))
    ckpt_here("drop", save(repo, os.urandom(10_000)), code=0)
    found = space()

    assert 30_000 < found["total"] < 31_500
    assert 10_000 < found["trash"] < 12_000
    assert found["measured_at"] is None


def test_a_large_repository_tells_what_was_measured_last_and_when(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space_record, "_QUICK_READS", 3)
    save(repo, b"one")
    unknown = {"total": None, "trash": None, "measured_at": None, "piled_up": False}
    assert space() == unknown

    held = ckpt_here("gc", "--json", code=0).json["space"]
    assert space() == {**unknown, **held}

    git("commit", "-qam", "one")
    assert space()["measured_at"] is not None
    git("reset", "-q", "HEAD~1")
    assert space()["measured_at"] is None

    save(repo, b"two")
    then = space()
    assert (then["total"], then["trash"]) == (held["total"], held["trash"])
    assert then["measured_at"] is not None
    record = repo / ".git/ckpt/space"
    for damaged in (record.read_text()[:20], '{"refs": "", "total": 1e999, "trash": 0, "at": 0}'):
        record.write_text(damaged)
        assert space()["total"] is None


def test_status_says_when_gc_would_help(repo: Path) -> None:
    save(repo, b"one")
    folder = repo / ".git/objects/17"
    folder.mkdir(exist_ok=True)
    for number in range(32):
        (folder / f"{number:038}").touch()

    assert space()["piled_up"]
    assert "git ckpt gc\n" in ckpt_here("status", code=0).stdout


def test_a_linked_worktree_holds_what_it_stands_on_and_has_staged(repo: Path) -> None:
    git("worktree", "add", "-q", "--detach", "../linked")
    linked = repo.parent / "linked"
    noise = os.urandom(9_000)
    (linked / "noise").write_bytes(noise)
    git("add", "noise", cwd=linked)
    save(repo, noise)
    staged = total()
    git("commit", "-qm", "noise", cwd=linked)
    git("reset", "-q", "--hard", "HEAD~1", cwd=linked)
    (linked.parent / "repo/.git/worktrees/linked/logs/HEAD").unlink()

    assert staged < 1500
    assert total() > 9_000


@pytest.mark.parametrize("most", [2, 20_000])
def test_a_head_far_back_in_history_is_gits(
    repo: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    for number in range(6):
        (repo / "src/data.bin").write_bytes(os.urandom(5_000))
        git("commit", "-qam", "more", env={"GIT_COMMITTER_DATE": f"2026-02-0{number + 1}T00:00Z"})
    git("checkout", "-q", "--detach", "HEAD~4")
    (repo / "README.md").write_text("changed\n")
    ckpt_here("save", code=0)
    git("checkout", "-qf", "main")
    git("reflog", "expire", "--expire=all", "--all")
    monkeypatch.setattr("ckpt.engine.space._MOST_COMMITS", most)

    assert total() < 2_000


def test_commits_that_only_a_checkpoint_holds_go_with_it(repo: Path) -> None:
    git("checkout", "-q", "--detach")
    (repo / "src/data.bin").write_bytes(os.urandom(9_000))
    git("commit", "-qam", "lost")
    ckpt_here("save", code=0)
    git("checkout", "-q", "main")
    before = total()
    git("reflog", "expire", "--expire=all", "--all")

    assert before < 2_000
    assert total() > 9_000


def test_a_repository_of_sha256_has_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("init", "-q", "--object-format=sha256", "long")
    monkeypatch.chdir("long")
    os.mkdir("src")
    save(Path(), os.urandom(9_000))

    assert 9_000 < total() < 11_000


def test_a_commit_of_a_time_that_no_calendar_has_is_measured(repo: Path) -> None:
    """Python reads no number of more than some thousand digits."""
    save(repo, os.urandom(9_000))
    told = git("cat-file", "commit", "HEAD").replace("> ", "> " + "9" * 5000)
    (repo / "late").write_text(told)
    late = git("hash-object", "-t", "commit", "-w", "--literally", "late").strip()
    (repo / "late").unlink()
    git("update-ref", "refs/heads/late", late)

    assert total() > 9_000
    for command in ("status", "gc", "doctor"):
        assert "unexpected" not in ckpt_here(command).stderr
