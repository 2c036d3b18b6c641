# SPDX-License-Identifier: MIT
"""Taking a checkpoint leaves no trace that its user could see."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from helpers import ckpt as ckpt_process
from helpers import ckpt_here as ckpt
from helpers import git, status
from scenes import hollow, link, project, remove, state, work, write

# What a save may add to or touch in a git dir: its objects, its ref, its private files.
OURS = ("objects", "refs/checkpoints", "ckpt")


def traces(top: Path) -> dict[str, tuple[object, ...]]:
    """Every path of the worktree and the git dir but ours: type, times, place, content."""
    found = {}
    for folder, folders, files in os.walk(top):
        ours = [os.path.join(top, ".git", name) for name in OURS]
        folders[:] = [name for name in folders if os.path.join(folder, name) not in ours]
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            found[path] = _trace(path)
    return {**found, str(top): _trace(str(top))}


def _trace(path: str) -> tuple[object, ...]:
    seen = os.lstat(path)
    times = (seen.st_mtime_ns, seen.st_ctime_ns)
    if path.endswith(("/.git", "/.git/refs")):
        times = (0, 0)  # a folder of ours appears in these
    content = b""
    if stat.S_ISREG(seen.st_mode):
        with open(path, "rb") as file:
            content = file.read()
    return (seen.st_mode, seen.st_ino, seen.st_size if content else 0, *times, content)


def test_a_save_changes_no_file_no_time_and_nothing_in_the_git_dir(tmp_path: Path) -> None:
    top = project(tmp_path / "project")
    work(top)
    shown = status(top)
    before = traces(top)

    ckpt_process("save", "before-refactor", "-m", "text", "--data", "[1]", cwd=top, code=0)

    assert traces(top) == before
    assert status(top) == shown


@pytest.mark.parametrize("words", [("list", "--all"), ("show",), ("diff",), ("trash",)])
def test_looking_changes_nothing_either(repo: Path, words: tuple[str, ...]) -> None:
    ckpt("save", code=0)
    write(repo, "README.md", "edited\n")
    before = everything(repo)

    ckpt(*words, code=0)

    assert everything(repo) == before


def everything(top: Path) -> dict[str, tuple[object, ...]]:
    """As `traces`, with what is ours; the lock file alone may change."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            if not path.endswith("/.git/ckpt/lock"):
                found[path] = _trace(path)
    return found


def test_a_dry_run_writes_no_ref_no_object_and_no_file(repo: Path) -> None:
    write(repo, "new", "new\n")
    ckpt("save", code=0)
    write(repo, "README.md", "never seen before\n")
    write(repo, "stray", "nor this\n")
    git("add", "stray")
    (repo / "new").unlink()
    before = everything(repo)

    told = ckpt("rollback", "--dry-run", "--head", "--json", code=0).json

    assert everything(repo) == before
    assert (told["dry_run"], told["safety"], told["undo"]) == (True, None, None)
    assert [item["path"] for item in told["written"]] == ["README.md", "new"]
    assert [item["path"] for item in told["removed"]] == ["stray"]


def test_a_save_works_while_another_process_holds_the_index_lock(repo: Path) -> None:
    write(repo, ".git/index.lock", "not ours")
    before = traces(repo)

    ckpt("save", code=0)

    assert traces(repo) == before


@pytest.mark.parametrize("words", [("--", "README.md"), ("-a",), ()])
def test_in_a_hook_what_the_user_had_staged_is_saved(repo: Path, words: tuple[str, ...]) -> None:
    """Git lends the hook another index, in which other staged files may be missing."""
    write(repo, "src/app.py", "staged\n")
    git("add", "src/app.py")
    write(repo, "src/app.py", "edited again\n")
    write(repo, "README.md", "edited\n")
    before = state(repo)
    save = f'"{sys.executable}" -I -m ckpt save --kind hook -q'
    write(repo, ".git/hooks/pre-commit", f"#!/bin/sh\n{save}\n", 0o755)

    git("commit", "-q", "-m", "some of it", *words)
    remove(repo, ".git/hooks/pre-commit")
    git("reset", "-q", "--hard")
    git("gc", "-q", "--prune=now")
    ckpt("rollback", "latest", "--head", code=0)

    assert state(repo) == before


def test_no_hook_runs(repo: Path) -> None:
    names = ("pre-commit", "reference-transaction", "post-index-change", "post-checkout")
    for folder in (".git/hooks", "own-hooks"):
        for name in names:
            write(repo, f"{folder}/{name}", f"#!/bin/sh\ntouch '{repo}/ran'\n", 0o755)
    git("config", "core.hooksPath", "own-hooks")
    ckpt("save", code=0)
    write(repo, "README.md", "edited\n")
    ckpt("rollback", code=0)

    assert not (repo / "ran").exists()


def test_identity_and_signing_of_the_user_play_no_part(repo: Path) -> None:
    git("config", "user.useConfigOnly", "true")
    git("config", "commit.gpgSign", "true")
    git("config", "gpg.program", "/bin/false")

    saved = ckpt("save", "--json", code=0).json["checkpoint"]
    raw = git("cat-file", "commit", saved["commit"])

    assert "gpgsig" not in raw
    assert git("log", "-1", "--format=%an <%ae> %cn <%ce>", saved["commit"]) == (
        "ckpt <ckpt@localhost> ckpt <ckpt@localhost>\n"
    )


def test_private_files_are_for_their_owner_only(repo: Path) -> None:
    os.umask(0)
    ckpt("save", code=0)
    write(repo, "README.md", "edited\n")
    ckpt("rollback", code=0)

    private = repo / ".git/ckpt"
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in private.iterdir()} == {0o600}


def test_private_files_can_be_deleted_without_losing_a_checkpoint(repo: Path) -> None:
    write(repo, "README.md", "precious\n")
    saved = ckpt("save", "--json", code=0).json["checkpoint"]["id"]
    for path in (repo / ".git/ckpt").iterdir():
        path.unlink()
    (repo / ".git/ckpt").rmdir()
    git("checkout", "-q", "README.md")

    ckpt("rollback", saved, code=0)

    assert (repo / "README.md").read_text() == "precious\n"


def test_no_git_is_needed(repo: Path, tmp_path: Path) -> None:
    hollow(tmp_path, "no-programs")
    alone = {"PATH": str(tmp_path / "no-programs")}
    write(repo, "README.md", "precious\n")
    link(repo, "link", "README.md")
    ckpt_process("save", "work", env=alone, code=0)
    git("reset", "-q", "--hard")

    ckpt_process("rollback", "work", "--head", env=alone, code=0)

    assert (repo / "README.md").read_text() == "precious\n"


def test_a_failed_save_leaves_nothing_behind(repo: Path) -> None:
    write(repo, "README.md", "new content\n")
    before = everything(repo)

    ckpt("save", "two\nlines", code=2)
    ckpt("save", "--data", "{", code=2)

    assert everything(repo) == before
