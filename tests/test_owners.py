# SPDX-License-Identifier: MIT
"""Files of another user in a git dir of ours: whose they are, and the command that helps."""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt.errors import DiskError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
NOBODY = 65534


@pytest.fixture(autouse=True)
def as_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a worktree of nobody's, in which root was at work."""
    git_dir = tmp_path / "it's/.git"
    (git_dir / "objects/ab").mkdir(parents=True)
    (git_dir / "ckpt").mkdir(mode=0o700)
    (git_dir / "ckpt/lock").touch()
    for path in (git_dir, git_dir / "objects"):
        os.chown(path, NOBODY, NOBODY)
    tmp_path.chmod(0o711)
    monkeypatch.chdir(tmp_path)  # the folders around it let nobody through
    os.seteuid(NOBODY)
    yield
    os.seteuid(0)


def hint(name: str, to: str | None = None) -> str | None:
    error = OSError(errno.EACCES, os.strerror(errno.EACCES), f"./it's/{name}")
    error.filename2 = None if to is None else f"./it's/{to}"
    return DiskError(error).hint


@pytest.mark.parametrize("name", ["ckpt", "ckpt/lock", "ckpt/not-there", "objects/ab/not-there"])
def test_what_sudo_left_can_be_had_back(name: str) -> None:
    owner, us = pwd.getpwuid(0).pw_name, pwd.getpwuid(NOBODY).pw_name
    command = f"sudo chown -R {us} './it'\"'\"'s/.git'"
    told = f"it belongs to {owner}: get it back with '{command}', then try again"

    assert hint(f".git/{name}") == told
    assert hint(".git/objects/tmp", to=f".git/{name}") == told


@pytest.mark.parametrize("name", [".git/objects/of-ours", "outside", ".github/file"])
def test_what_is_not_in_a_git_dir_or_is_ours_is_only_refused(name: str) -> None:
    assert hint(name) == "check permissions, then try again"
