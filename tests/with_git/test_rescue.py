# SPDX-License-Identifier: MIT
"""`git ckpt rescue` finds what real git has dropped, and only that, and how to get it back."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git, loose_object, tree_state, verified
from scenes import write

KEYS = ["kind", "id", "timestamp", "subject", "files", "bytes"]
OLD = "2026-01-02T03:04:05.000000+00:00"  # what tests take for now


def rescue(*words: str, code: int = 0) -> dict[str, Any]:
    told: dict[str, Any] = ckpt("rescue", *words, "--json", code=code).json
    if code == 0:
        assert list(told) == ["schema", "lost", "checkpoint"]
        assert all(list(each) == KEYS for each in told["lost"])
    return told


def lost() -> list[dict[str, Any]]:
    told = rescue()
    assert told["checkpoint"] is None
    return list(told["lost"])


def forget_reflogs() -> None:
    git("reflog", "expire", "--expire=now", "--all")


def look() -> tuple[object, str, str]:
    """What a rescue must not touch."""
    return tree_state("."), git("status", "--porcelain=v2", "--branch"), git("ls-files", "-s")


def bring_back(which: str) -> dict[str, Any]:
    """Rescue a checkpoint, with nothing else changed."""
    before = look()
    found: dict[str, Any] = rescue(which)["checkpoint"]
    assert look() == before
    assert fsck(".") == []
    assert verified(".") == []
    return found


def follow(which: str) -> None:
    """Type the command of git that is told of what is no checkpoint; till then nothing changes."""
    before = look()
    refused = ckpt("rescue", which, code=4).stderr
    assert look() == before
    hint = refused.splitlines()[-1].removeprefix("hint: ")
    subprocess.run(hint, shell=True, check=True, capture_output=True)
    assert fsck(".") == []
    assert lost() == []


# What is lost


def test_where_nothing_is_lost_nothing_is_found(repo: Path) -> None:
    write(repo, "README.md", "stashed\n")
    git("stash", "-q")
    write(repo, "README.md", "staged\n")
    git("add", ".")
    write(repo, "new", "in a checkpoint\n")
    ckpt("save", code=0)
    ckpt("save", "dropped", code=0)
    ckpt("drop", "dropped", code=0)
    git("commit", "-q", "-m", "second")
    git("commit", "-q", "--amend", "-m", "amended")  # of which the reflog knows
    git("tag", "-a", "-m", "tagged", "v1", "HEAD~1")

    assert lost() == []
    assert ckpt("rescue", code=0).stdout == "Nothing was found that is lost.\n"


def test_a_dropped_stash_comes_back_with_what_was_staged_and_untracked(repo: Path) -> None:
    write(repo, "README.md", "staged\n")
    git("add", "README.md")
    write(repo, "README.md", "edited\n")
    write(repo, "new/file", "untracked\n")
    before = look()
    git("stash", "push", "-q", "-u", "-m", "precious")
    stash = git("rev-parse", "stash@{0}").strip()
    git("stash", "drop", "-q")
    write(repo, "src/app.py", "something else\n")

    (found,) = lost()
    assert (found["kind"], found["id"]) == ("stash", stash)
    assert found["subject"] == "On main: precious"
    assert found["timestamp"] == OLD
    git("reset", "-q", "--hard")
    follow("1")
    git("stash", "pop", "-q", "--index")
    assert look() == before


def test_a_commit_that_was_amended_away_is_found_when_the_reflog_forgets_it(repo: Path) -> None:
    write(repo, "README.md", "first try\n")
    git("commit", "-q", "-a", "-m", "first try")
    first = git("rev-parse", "HEAD").strip()
    write(repo, "README.md", "second try\n")
    git("commit", "-q", "-a", "--amend", "-m", "second try")

    assert lost() == []
    forget_reflogs()
    (found,) = lost()
    assert (found["kind"], found["id"]) == ("commit", first)
    assert found["subject"] == "first try"
    follow(first[:10])
    assert git("rev-parse", f"rescued-{first[:12]}").strip() == first


def test_a_branch_that_was_deleted_is_one_commit_with_those_behind_it(repo: Path) -> None:
    git("checkout", "-q", "-b", "topic")
    for number in (1, 2, 3):
        write(repo, "topic", f"{number}\n")
        git("add", "topic")
        git("commit", "-q", "-m", f"topic {number}")
    tip = git("rev-parse", "topic").strip()
    git("checkout", "-q", "main")
    git("branch", "-q", "-D", "topic")
    forget_reflogs()

    (found,) = lost()
    assert (found["id"], found["subject"]) == (tip, "topic 3")
    follow("1")
    git("gc", "-q", "--prune=now")
    assert git("rev-list", "--count", f"rescued-{tip[:12]}").strip() == "4"


def test_what_was_staged_and_reset_is_found_by_its_content(repo: Path) -> None:
    write(repo, "lost.txt", "\n  only ever staged\nand more\n")
    write(repo, "lost.bin", bytes(range(255)))
    git("add", ".")
    blob = git("rev-parse", ":lost.txt").strip()
    git("reset", "-q", "--hard")

    found = {each["id"]: each for each in lost()}
    assert {each["subject"] for each in found.values()} == {"only ever staged", "(binary)"}
    assert (found[blob]["kind"], found[blob]["bytes"]) == ("content", 29)
    refused = ckpt("rescue", blob, code=4).stderr
    assert refused.endswith(f"hint: git cat-file blob {blob} > FILE\n")


def test_what_a_killed_save_has_written_and_nothing_at_all_are_no_contents(repo: Path) -> None:
    write(repo, "new", "saved\n")
    saved = ckpt("save", "--json", code=0).json["checkpoint"]
    git("update-ref", "-d", saved["ref"])
    Path(loose_object(".git", saved["commit"])).unlink()
    git("hash-object", "-w", "--stdin", stdin="")

    assert [each["subject"] for each in lost()] == ["saved"]


def test_a_checkpoint_that_left_the_trash_comes_back_as_it_was(repo: Path) -> None:
    write(repo, "README.md", "precious\n")
    saved = ckpt("save", "precious", "--json", code=0).json["checkpoint"]
    ckpt("drop", "precious", code=0)
    assert lost() == []
    ckpt("prune", "--now", code=0)
    git("reset", "-q", "--hard")

    (found,) = lost()
    assert (found["kind"], found["subject"], found["files"]) == ("checkpoint", "precious", 1)
    assert found["id"] == saved["commit"]
    assert bring_back("1") == saved
    ckpt("rollback", "precious", code=0)
    assert (repo / "README.md").read_text() == "precious\n"


def lose_a_hostile_commit(repo: Path) -> str:
    """One with a name in it that must never reach a file system."""
    blob = git("rev-parse", "HEAD:README.md").strip()
    inner = git("mktree", stdin=f"100644 blob {blob}\tconfig\n").strip()
    data = b"40000 .git\0" + bytes.fromhex(inner)
    made = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"],
        input=data,
        capture_output=True,
        check=True,
    )
    return git("commit-tree", "-m", "hostile", made.stdout.decode().strip()).strip()


def test_a_hostile_commit_does_not_stop_the_search(repo: Path) -> None:
    hostile = lose_a_hostile_commit(repo)
    stash = lose_a_stash(repo, "stashed\n")

    assert [each["id"] for each in lost()] == [stash]
    ckpt("rescue", hostile, code=3)
    assert git("for-each-ref", "refs/checkpoints") == ""


# Where it is


def lose_a_stash(repo: Path, text: str) -> str:
    write(repo, "README.md", text)
    git("stash", "-q")
    stash = git("rev-parse", "stash").strip()
    git("stash", "drop", "-q")
    return stash


def test_with_longer_ids_it_works_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "sha256"
    git("init", "-q", "--object-format=sha256", str(top))
    monkeypatch.chdir(top)
    write(top, "README.md", "first\n")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    stash = lose_a_stash(top, "stashed\n")

    assert len(stash) == 64
    assert [each["id"] for each in lost()] == [stash]
    follow("1")
    assert git("rev-parse", "stash").strip() == stash


# Choosing


def test_they_are_listed_by_time_and_chosen_by_number_or_id(repo: Path) -> None:
    for number in range(3):
        date = {"GIT_COMMITTER_DATE": f"2026-01-02T03:0{number}:00+00:00"}
        write(repo, "README.md", f"stashed {number}\n")
        git("stash", "push", "-q", "-m", f"number {number}", env=date)
        git("stash", "drop", "-q")

    rows = ckpt("rescue", code=0).stdout.splitlines()
    assert [row.split()[0] for row in rows[1:4]] == ["1", "2", "3"]
    assert [row[-len("number 0") :] for row in rows[1:4]] == ["number 2", "number 1", "number 0"]
    assert rows[-1] == "bring one back:   git ckpt rescue NUMBER"
    second = lost()[1]
    for word in ("2", second["id"][:8]):
        assert f" {second['id']}\n" in ckpt("rescue", word, code=4).stderr


def test_what_is_not_lost_cannot_be_chosen(repo: Path) -> None:
    lose_a_stash(repo, "stashed\n")

    for word in ("2", "0", "1" * 5000, "nowhere", git("rev-parse", "HEAD").strip()):
        assert ckpt("rescue", word, code=3).stdout == ""
    assert git("for-each-ref", "refs/checkpoints") == ""


def test_a_damaged_object_does_not_stop_the_search(repo: Path) -> None:
    stash = lose_a_stash(repo, "stashed\n")
    write(repo, "lost.txt", "only ever staged\n")
    git("add", ".")
    blob = Path(loose_object(".git", git("rev-parse", ":lost.txt").strip()))
    git("reset", "-q", "--hard")
    blob.chmod(0o644)
    blob.write_bytes(b"garbage")
    (blob.parent / "not-an-object").write_text("")

    assert [each["id"] for each in lost()] == [stash]
