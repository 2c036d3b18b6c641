# SPDX-License-Identifier: MIT
"""Save, destroy, roll back, undo: every byte, mode and link, and all that git sees."""

from __future__ import annotations

import os
from itertools import permutations
from pathlib import Path

import pytest
from helpers import ckpt as ckpt_process
from helpers import ckpt_here as ckpt
from helpers import fsck, git, tree_state
from journeys import save, there_and_back
from scenes import accident, divide, link, project, remove, state, work, write


def test_destroyed_work_comes_back_exactly_and_undo_brings_the_destruction_back(
    tmp_path: Path,
) -> None:
    top = project(tmp_path / "project")
    work(top)

    before, destroyed = there_and_back(top, accident, ckpt=ckpt_process)

    assert len(before.files) > 300
    assert b"docs/part 0/text.md" not in destroyed.files


def test_rolling_back_to_a_clean_commit_takes_all_work_away_and_undo_returns_it(
    tmp_path: Path,
) -> None:
    top = project(tmp_path / "project")

    there_and_back(top, work)


def test_git_gc_loses_no_checkpoint(tmp_path: Path) -> None:
    top = project(tmp_path / "project")
    work(top)
    before = state(top)
    saved = save(top)
    accident(top)
    destroyed = state(top)
    _collect_garbage(top)
    assert fsck(top) == []

    ckpt("rollback", saved, "--yes", cwd=top, code=0)
    assert state(top) == before
    _collect_garbage(top)
    assert state(top) == before
    ckpt("undo", cwd=top, code=0)
    assert state(top) == destroyed
    assert fsck(top) == []


def _collect_garbage(top: Path) -> None:
    git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all", cwd=top)
    git("pack-refs", "--all", cwd=top)
    git("gc", "-q", "--prune=now", cwd=top)
    assert not os.path.exists(top / ".git/refs/checkpoints") or not os.listdir(
        top / ".git/refs/checkpoints"
    )


def test_every_type_of_path_can_become_every_other(repo: Path) -> None:
    types = {
        "absent": lambda top, path: remove(top, path),
        "file": lambda top, path: write(top, path, "file\n"),
        "program": lambda top, path: write(top, path, "file\n", 0o755),
        "private": lambda top, path: write(top, path, "private\n", 0o600),
        "link": lambda top, path: link(top, path, "nowhere"),
        "link-to-folder": lambda top, path: link(top, path, "../src"),
        "folder": lambda top, path: write(top, f"{path}/deep/file", "inside\n"),
        "hollow": lambda top, path: (
            remove(top, path),
            (top / path / "hollow").mkdir(parents=True),
        ),
    }
    pairs = list(permutations(types, 2))
    for first, second in pairs:
        types[first](repo, f"all/{first} {second}")
        types[first](repo, f"staged/{first} {second}")
    git("add", "staged")

    def turn(top: Path) -> None:
        for first, second in pairs:
            types[second](top, f"all/{first} {second}")
            types[second](top, f"staged/{first} {second}")

    there_and_back(repo, turn)


def test_a_merge_that_was_resolved_wrongly_becomes_unresolved_again(repo: Path) -> None:
    divide(repo, "other")
    with pytest.raises(AssertionError, match="CONFLICT"):
        git("merge", "other")

    def resolve(top: Path) -> None:
        write(top, "README.md", "wrong\n")
        git("add", "README.md", cwd=top)

    before, _ = there_and_back(repo, resolve)

    assert "u UU" in before.status


def test_before_the_first_commit_everything_comes_back(tmp_path: Path) -> None:
    top = tmp_path / "fresh"
    git("init", "-q", str(top))
    write(top, "staged", "one\n")
    git("add", "staged", cwd=top)
    write(top, "staged", "two\n")
    write(top, "untracked", "three\n")

    def destroy(top: Path) -> None:
        git("rm", "-q", "-r", "-f", "--cached", ".", cwd=top)
        remove(top, "staged")
        write(top, "untracked", "four\n")

    there_and_back(top, destroy)


def test_a_sha256_repository_is_served(tmp_path: Path) -> None:
    top = tmp_path / "long"
    git("init", "-q", "--object-format=sha256", str(top))
    write(top, "tracked", "one\n")
    git("add", ".", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)
    write(top, "tracked", "two\n")
    git("add", ".", cwd=top)
    write(top, "tracked", "three\n")
    write(top, "untracked/file", "new\n")

    there_and_back(top, accident_of_git)


def accident_of_git(top: Path) -> None:
    git("reset", "-q", "--hard", cwd=top)
    git("clean", "-q", "-f", "-d", cwd=top)


@pytest.mark.parametrize("attributes", ["", "* text=auto eol=crlf\n", "*.txt -text\n*.md ident\n"])
def test_bytes_come_back_where_git_converts_them(repo: Path, attributes: str) -> None:
    git("config", "core.autocrlf", "true")
    write(repo, ".gitattributes", attributes)
    write(repo, "dos.txt", "one\r\ntwo\r\n")
    write(repo, "unix.txt", "one\ntwo\n")
    write(repo, "mixed.txt", "one\r\ntwo\nthree\r")
    write(repo, "ident.md", "$Id$ and $Id: 0123 $\n")
    git("add", ".")
    git("commit", "-q", "-m", "text")
    write(repo, "mixed.txt", "one\ntwo\r\n")
    write(repo, "new.txt", "one\r\ntwo\n")
    before = tree_state(repo)
    seen = git("status", "--porcelain")
    saved = save(repo)
    for name in ("dos.txt", "unix.txt", "mixed.txt", "ident.md", "new.txt"):
        write(repo, name, "lost\n")

    ckpt("rollback", saved, code=0)
    assert tree_state(repo) == before
    assert git("status", "--porcelain") == seen
    assert fsck(repo) == []


@pytest.mark.parametrize("umask", [0o002, 0o077])
def test_permission_bits_come_back_under_any_umask(repo: Path, umask: int) -> None:
    os.umask(umask)
    for name in ("one", "two", "three", "four", "five", "six", "seven"):
        (repo / name).touch()
    (repo / "one").chmod(0o644)
    (repo / "two").chmod(0o755)
    (repo / "three").chmod(0o444)

    def loosen(top: Path) -> None:
        for name in ("one", "two", "three", "four"):
            (top / name).chmod(0o666)
        remove(top, "five")

    there_and_back(repo, loosen)


def test_files_staged_meanwhile_do_not_come_back_staged(repo: Path) -> None:
    write(repo, "notes.txt", "mine\n")
    saved = save(repo)
    git("add", "notes.txt")

    ckpt("rollback", saved, code=0)

    assert git("status", "--porcelain") == "?? notes.txt\n"


def test_what_was_staged_only_comes_back_although_no_file_has_it(repo: Path) -> None:
    write(repo, "README.md", "staged only\n")
    git("add", "README.md")
    write(repo, "README.md", "in the worktree\n")
    saved = save(repo)
    git("reset", "-q", "--hard")
    git("gc", "-q", "--prune=now")

    ckpt("rollback", saved, code=0)

    assert git("show", ":README.md") == "staged only\n"
    assert (repo / "README.md").read_text() == "in the worktree\n"


@pytest.mark.parametrize("trusts_ctime", ["true", "false"])
def test_a_file_edited_within_the_tick_of_git_add_is_not_taken_from_the_index(
    repo: Path, trusts_ctime: str
) -> None:
    """Same size, same times, and the index no newer: only the content tells."""
    git("config", "core.trustCtime", trusts_ctime)
    write(repo, "race", "aaaa")
    git("add", "race")
    seen = os.stat("race")
    with open("race", "r+b") as file:
        file.write(b"bbbb")
    for path in ("race", ".git/index"):
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    saved = save(repo)
    remove(repo, "race")

    ckpt("rollback", saved, code=0)

    assert (repo / "race").read_bytes() == b"bbbb"


def test_a_path_that_a_sparse_checkout_left_out_is_no_deletion(repo: Path) -> None:
    git("update-index", "--skip-worktree", "src/app.py")
    remove(repo, "src/app.py")
    before = state(repo)
    saved = save(repo)
    assert git("diff", "--name-only", "HEAD", f"refs/checkpoints/{saved}") == ""
    write(repo, "README.md", "edited\n")

    ckpt("rollback", saved, code=0)

    assert state(repo) == before
