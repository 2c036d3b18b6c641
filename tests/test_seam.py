# SPDX-License-Identifier: MIT
"""What the tests strike: every way in which Python or ckpt changes a disk is seen."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import ckpt_here
from seam import observed


def write(path: Path) -> None:
    with open(path, "w") as file:
        file.write("x")


def descend(top: Path) -> None:
    handle = os.open(top / "folder", os.O_RDONLY)
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=handle))
    os.fsync(handle)
    os.close(handle)


def write_temporary(top: Path) -> None:
    fd, path = tempfile.mkstemp(prefix="tmp", dir=top)
    with os.fdopen(fd, "w") as file:
        file.write("x")
    os.rename(path, top / "file")


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda top: write(top / "file"), ["truncate file", "write file"]),
        (lambda top: write(top / "new"), ["create new", "write new"]),
        (lambda top: open(top / "file").close(), []),
        (lambda top: os.replace(top / "file", top / "other"), ["rename other"]),
        (lambda top: os.unlink(top / "file"), ["unlink file"]),
        (lambda top: os.symlink("file", top / "link"), ["symlink link"]),
        (lambda top: os.makedirs(top / "a/b"), ["mkdir a", "mkdir b"]),
        (lambda top: os.chmod(top / "file", 0o600), ["chmod file"]),
        (descend, ["create file", "fsync-dir folder"]),
        (write_temporary, ["create tmp", "write tmp", "rename file"]),
    ],
)
def test_a_change_is_told_before_it_is_made(
    tmp_path: Path, act: Callable[[Path], object], expected: list[str]
) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()

    with observed() as seen:
        act(tmp_path)

    names = [(operation, os.path.basename(path)) for operation, path in seen]
    told = [f"{operation} {'tmp' if name[:3] == 'tmp' else name}" for operation, name in names]
    assert told == expected


def test_each_file_that_a_save_leaves_was_told_of(repo: Path) -> None:
    (repo / "new").write_text("new")
    before = set(repo.rglob("*"))

    with observed() as seen:
        ckpt_here("save", code=0)

    told = {os.path.realpath(path) for _, path in seen}
    assert {str(path) for path in set(repo.rglob("*")) - before} <= told
