# SPDX-License-Identifier: MIT
"""Cases in which a checkpoint before a git command could miss something, or be in a wrong place."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from guards import install_all, run, write
from helpers import ckpt_here, git


@pytest.fixture
def guarded(repo: Path) -> Path:
    install_all(repo)
    return repo


def checkpoints(top: Path) -> list[Any]:
    found: list[Any] = ckpt_here("list", "--json", cwd=top).json["checkpoints"]
    return found


def type_in(top: Path, line: str, **env: str) -> str:
    ran = run("sh", "-c", line, cwd=top, **env)
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


def test_objects_never_go_into_a_store_that_a_tool_has_for_the_moment(
    guarded: Path, tmp_path: Path
) -> None:
    write(guarded / "README.md", "work\n")
    store = tmp_path / "store"
    store.mkdir()
    env = {
        "GIT_OBJECT_DIRECTORY": str(store),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(guarded / ".git/objects"),
    }
    type_in(guarded, "git checkout -q -f .", **env)
    shutil.rmtree(store)

    git("fsck", "--strict", cwd=guarded)
    git("for-each-ref", cwd=guarded)
    ckpt_here("rollback", cwd=guarded, code=0)
    assert (guarded / "README.md").read_text() == "work\n"


def test_nothing_relies_on_a_store_that_a_tool_lends_for_the_moment(
    guarded: Path, tmp_path: Path
) -> None:
    write(guarded / "README.md", "work\n")
    lent = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(tmp_path / "store")}
    elsewhere = {"GIT_OBJECT_DIRECTORY": str(tmp_path / "store")}
    (tmp_path / "store").mkdir()
    type_in(guarded, "git hash-object -w README.md >&2", **elsewhere)
    type_in(guarded, "git checkout -q -f .", **lent)
    assert "unset GIT_ALTERNATE" in ckpt_here("rollback", cwd=guarded, env=lent, code=4).stderr
    shutil.rmtree(tmp_path / "store")

    git("fsck", "--strict", cwd=guarded)
    ckpt_here("rollback", cwd=guarded, code=0)
    assert (guarded / "README.md").read_text() == "work\n"


@pytest.mark.parametrize(
    "line",
    [
        "git submodule update --force",
        "git reset --hard --recurse-sub",
        "git checkout -f --recurse HEAD",
        "git nuke",
        "git -c submodule.recurse=true reset --hard",
    ],
)
def test_what_a_command_discards_in_a_submodule_is_held(
    guarded: Path, tmp_path: Path, line: str
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git("init", "-q", cwd=library)
    write(library / "file", "as committed\n")
    git("add", ".", cwd=library)
    git("commit", "-qm", "one", cwd=library)
    allowed = ("-c", "protocol.file.allow=always")
    git(*allowed, "submodule", "-q", "add", str(library), "sub", cwd=guarded)
    git("commit", "-qm", "with a submodule", cwd=guarded)
    git(
        "config", "alias.nuke", "!git reset -q --hard; git submodule -q update --force", cwd=guarded
    )
    write(guarded / "sub/file", "work\n")
    type_in(guarded, line)
    assert (guarded / "sub/file").read_text() == "as committed\n"

    ckpt_here("rollback", "--recurse", "--yes", cwd=guarded, code=0)
    assert (guarded / "sub/file").read_text() == "work\n"


def test_permission_bits_are_something_to_lose(guarded: Path) -> None:
    git("branch", "other", cwd=guarded)
    (guarded / "README.md").chmod(0o600)
    type_in(guarded, "git reset -q --hard other")

    assert len(checkpoints(guarded)) == 1


def test_files_over_the_limits_are_told_of_before_they_are_lost(guarded: Path) -> None:
    for number in range(4):
        write(guarded / f"new{number}", f"{number}\n")
    told = type_in(guarded, "git clean -fdq", CKPT_MAX_NEW_FILES="2")

    assert "lacks untracked files, over the limits" in told
