# SPDX-License-Identifier: MIT
"""Paths longer than any system call takes, where git stops too."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import ckpt, git

LONG = ("d" * 200,) * 30


@pytest.fixture
def top(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "repo"
    made.mkdir()
    git("init", "-q", cwd=made)
    git("commit", "-q", "--allow-empty", "-m", "start", cwd=made)
    yield made
    # What Python and pytest remove a folder with cannot go that far.
    subprocess.run(["rm", "-rf", str(made)], check=True)


def test_a_file_that_no_path_reaches_is_listed_and_a_rollback_leaves_it(top: Path) -> None:
    fd = os.open(top, os.O_RDONLY)
    for name in LONG:
        os.mkdir(name, dir_fd=fd)
        fd = os.open(name, os.O_RDONLY, dir_fd=fd)
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=fd))
    saved = ckpt("save", "it", "--json", cwd=top, code=0).json
    assert saved["outcome"] == "partial"
    assert {each["reason"] for each in saved["checkpoint"]["skipped"]} == {"unreadable"}

    (top / "new").write_text("new\n")
    ckpt("rollback", "it", "--yes", cwd=top)

    assert not (top / "new").exists()
    assert os.listdir(fd) == ["file"]
    os.close(fd)
