# SPDX-License-Identifier: MIT
"""Paths longer than any system call takes, and folders nested by the thousand.

git itself stops there, so such files are untracked; a checkpoint holds them all the same.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import ckpt, ckpt_here, git

LONG = ("d" * 200,) * 30
SHAPES = pytest.mark.parametrize("names", [LONG])


@pytest.fixture
def top(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "repo"
    made.mkdir()
    git("init", "-q", cwd=made)
    git("commit", "-q", "--allow-empty", "-m", "start", cwd=made)
    yield made
    # What Python and pytest remove a folder with cannot go that far.
    subprocess.run(["rm", "-rf", str(made)], check=True)


def descend(top: Path, names: tuple[str, ...], *, create: bool = False) -> int:
    """A handle on the folder that the names lead to."""
    fd = os.open(top, os.O_RDONLY)
    for name in names:
        if create and name not in os.listdir(fd):
            os.mkdir(name, dir_fd=fd)
        inner = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd)
        os.close(fd)
        fd = inner
    return fd


def put(top: Path, names: tuple[str, ...], text: str, *, mode: int = 0o600) -> None:
    """At the far end: a file, a link and an empty folder."""
    fd = descend(top, names, create=True)
    with open(os.open("file", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode, dir_fd=fd), "w") as file:
        file.write(text)
    if "link" not in os.listdir(fd):
        os.symlink("file", "link", dir_fd=fd)
        os.mkdir("empty", 0o700, dir_fd=fd)
    os.close(fd)


def found(top: Path, names: tuple[str, ...]) -> tuple[list[str], str, str, int, int]:
    """What stands at the far end."""
    fd = descend(top, names)
    try:
        with open(os.open("file", os.O_RDONLY, dir_fd=fd)) as file:
            text, mode = file.read(), os.fstat(file.fileno()).st_mode
        folder = os.stat("empty", dir_fd=fd).st_mode
        link = os.readlink("link", dir_fd=fd)
        return sorted(os.listdir(fd)), text, link, mode & 0o777, folder & 0o777
    finally:
        os.close(fd)


@SHAPES
def test_what_stands_at_the_far_end_comes_back(top: Path, names: tuple[str, ...]) -> None:
    put(top, names, "far\n")
    before = found(top, names)
    saved = ckpt("save", "it", "--json", cwd=top, code=0).json
    assert (saved["outcome"], saved["checkpoint"]["skipped"]) == ("created", [])

    subprocess.run(["rm", "-rf", names[0]], cwd=top, check=True)
    ckpt("rollback", "it", cwd=top, code=0)

    assert found(top, names) == before


@SHAPES
def test_an_edit_at_the_far_end_is_seen_and_undone(top: Path, names: tuple[str, ...]) -> None:
    put(top, names, "far\n")
    ckpt_here("save", "it", cwd=top, code=0)
    put(top, names, "edited\n")

    changes = ckpt_here("diff", "it", "--json", cwd=top, code=0).json["files"]
    assert [change["path"] for change in changes] == ["/".join((*names, "file"))]
    ckpt_here("rollback", "it", cwd=top, code=0)
    assert found(top, names)[1] == "far\n"
    ckpt_here("undo", cwd=top, code=0)

    assert found(top, names)[1] == "edited\n"
