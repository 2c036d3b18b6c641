# SPDX-License-Identifier: MIT
"""States that once came back wrong, blocked everything, or made git unhappy."""

from __future__ import annotations

import os
from pathlib import Path

from helpers import ckpt, git


def commit_all(repo: Path) -> None:
    git("add", "-A", cwd=repo)
    git("commit", "-qm", "more", cwd=repo)


def test_bytes_converted_by_rules_that_are_gone_come_back_as_they_were(repo: Path) -> None:
    (repo / ".gitattributes").write_text("*.bat text eol=crlf\n")
    (repo / "x.bat").write_bytes(b"a\r\nb\r\n")
    commit_all(repo)
    os.utime(repo / "x.bat", (1_000_000_000, 1_000_000_000))
    git("status", cwd=repo)
    (repo / ".gitattributes").unlink()
    ckpt("save", "crlf", cwd=repo, code=0)
    (repo / "x.bat").write_bytes(b"other\n")

    ckpt("rollback", "crlf", cwd=repo, code=0)

    assert (repo / "x.bat").read_bytes() == b"a\r\nb\r\n"


def test_a_file_whose_blob_is_missing_is_saved_from_disk(repo: Path) -> None:
    (repo / "precious").write_text("precious\n")
    os.utime(repo / "precious", (1_000_000_000, 1_000_000_000))
    commit_all(repo)
    blob = git("hash-object", "precious", cwd=repo).strip()
    (repo / ".git/objects" / blob[:2] / blob[2:]).unlink()
    ckpt("save", "whole", cwd=repo, code=0)
    (repo / "precious").unlink()

    ckpt("rollback", "whole", cwd=repo, code=0)

    assert (repo / "precious").read_text() == "precious\n"


def test_a_bare_repository_inside_is_left_alone(repo: Path) -> None:
    git("init", "-q", "--bare", "remote.git", cwd=repo)
    git("push", "-q", "./remote.git", "HEAD:refs/heads/main", cwd=repo)
    ckpt("save", "then", cwd=repo, code=0)
    (repo / "more").write_text("more\n")
    commit_all(repo)
    git("push", "-q", "./remote.git", "HEAD:refs/heads/main", cwd=repo)
    pushed = git("rev-parse", "HEAD", cwd=repo)

    ckpt("rollback", "then", "--yes", cwd=repo, code=0)

    assert git("-C", "remote.git", "rev-parse", "main", cwd=repo) == pushed


def test_a_path_beyond_a_link_is_refused_and_nothing_is_written(repo: Path) -> None:
    for folder in ("d", "e"):
        (repo / folder).mkdir()
        (repo / folder / "f").write_text(folder)
    ckpt("save", "both", cwd=repo, code=0)
    (repo / "e/f").write_text("edited")
    (repo / "d/f").unlink()
    (repo / "d").rmdir()
    (repo / "d").symlink_to("e")

    ran = ckpt("rollback", "both", "--", "d/f", cwd=repo, code=2)

    assert "beyond a symbolic link" in ran.stderr
    assert (repo / "e/f").read_text() == "edited"


def test_a_branch_whose_name_is_taken_by_a_folder_of_branches_is_refused_first(repo: Path) -> None:
    git("checkout", "-qb", "a", cwd=repo)
    ckpt("save", "on-a", cwd=repo, code=0)
    git("checkout", "-qb", "other", cwd=repo)
    git("branch", "-qD", "a", cwd=repo)
    git("branch", "a/b", cwd=repo)
    (repo / "new").write_text("new\n")

    ran = ckpt("rollback", "on-a", "--head", cwd=repo, code=4)

    assert "'refs/heads/a/b' exists" in ran.stderr
    assert (repo / "new").exists()


def test_a_symbolic_branch_is_not_overwritten(repo: Path) -> None:
    git("symbolic-ref", "refs/heads/alias", "refs/heads/main", cwd=repo)
    git("symbolic-ref", "HEAD", "refs/heads/alias", cwd=repo)
    ckpt("save", "then", cwd=repo, code=0)
    git("commit", "-q", "--allow-empty", "-m", "more", cwd=repo)

    ckpt("rollback", "then", "--head", cwd=repo, code=4)

    assert git("symbolic-ref", "refs/heads/alias", cwd=repo).strip() == "refs/heads/main"


def test_a_branch_that_another_worktree_rebases_is_not_taken(repo: Path, tmp_path: Path) -> None:
    git("checkout", "-qb", "topic", cwd=repo)
    (repo / "both").write_text("topic\n")
    commit_all(repo)
    ckpt("save", "on-topic", cwd=repo, code=0)
    git("checkout", "-q", "main", cwd=repo)
    (repo / "both").write_text("main\n")
    commit_all(repo)
    elsewhere = tmp_path / "elsewhere"
    git("worktree", "add", "-q", str(elsewhere), "topic", cwd=repo)
    stopped = "git rebase -q main || :"
    os.system(f"cd '{elsewhere}' && {{ {stopped}; }} >/dev/null 2>&1")

    ran = ckpt("rollback", "on-topic", "--head", cwd=repo, code=4)

    assert "another worktree" in ran.stderr


def test_flags_of_an_intent_to_add_entry_come_back(repo: Path) -> None:
    (repo / "n").write_text("n\n")
    git("add", "-N", "n", cwd=repo)
    git("update-index", "--assume-unchanged", "n", cwd=repo)
    ckpt("save", "flagged", cwd=repo, code=0)
    git("update-index", "--no-assume-unchanged", "n", cwd=repo)

    ckpt("rollback", "flagged", cwd=repo, code=0)

    assert git("ls-files", "-v", "n", cwd=repo) == "h n\n"


def test_dashes_without_a_path_do_not_mean_everything(repo: Path) -> None:
    ckpt("save", "then", cwd=repo, code=0)
    (repo / "new").write_text("new\n")

    ran = ckpt("rollback", "then", "--", cwd=repo, code=2)

    assert "no path after" in ran.stderr
    assert (repo / "new").exists()
