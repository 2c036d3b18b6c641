# SPDX-License-Identifier: MIT
"""A rollback among closed folders that stops anywhere ends with every bit where it belongs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from helpers import ckpt_here, git, tree_state
from scenes import remove, write

from ckpt import disk

CLOSED = 0o555


class Stopped(BaseException):
    """Not an error that anything handles: as near to a kill as one process comes."""


def everything(top: Path) -> tuple[object, dict[str, int]]:
    """All files, and the permission bits of all folders."""
    bits = {
        os.path.relpath(folder, top): stat.S_IMODE(os.lstat(folder).st_mode)
        for folder, _, _ in os.walk(top)
        if ".git" not in folder.split("/")
    }
    return tree_state(top), bits


def closed(top: Path, mode: int) -> None:
    for folder in ("a", "b", "c", "c/inner"):
        if (top / folder).exists():
            (top / folder).chmod(mode)


def scene(top: Path) -> tuple[object, dict[str, int]]:
    """A checkpoint `it`, of the state that is returned, and changes since; nearly all of it in
    folders that are closed to changes."""
    top.mkdir()
    git("init", "-q", cwd=top)
    for path in ("a/edited", "a/removed", "b/file", "c/inner/file"):
        write(top, path, "then\n")
    (top / "b/empty").mkdir(mode=0o711)
    closed(top, CLOSED)
    then = everything(top)
    ckpt_here("save", "it", cwd=top, code=0)
    closed(top, 0o755)
    write(top, "a/edited", "now\n")
    remove(top, "a/removed")
    remove(top, "b/empty")
    remove(top, "c")
    write(top, "d/private/file", "now\n")
    (top / "d/private").chmod(0o700)
    closed(top, 0o511)
    return then


def stop_at(number: int) -> None:
    """Let the process end before the n-th change of the worktree."""
    left = number

    def look(operation: str, path: str | bytes) -> None:
        nonlocal left
        if operation in ("chmod", "mkdir", "rmdir", "unlink", "rename", "fsync", "sync"):
            left -= 1
            if left < 0:
                raise Stopped

    disk.observer = look


@pytest.mark.parametrize("way", ["--continue", "--abort"])
def test_stopped_anywhere(tmp_path: Path, way: str) -> None:
    reached = 0
    for number in range(200):
        top = tmp_path / str(number)
        then = scene(top)
        now = everything(top)
        stop_at(number)
        try:
            ckpt_here("rollback", "it", "--yes", cwd=top, code=0)
            break
        except Stopped:
            pass
        finally:
            disk.observer = None
        if not (top / ".git/ckpt/journal").exists():
            assert everything(top) in (then, now)
            continue
        reached += 1
        ckpt_here("rollback", way, cwd=top, code=0)
        assert everything(top) == (now if way == "--abort" else then), number
    assert reached > 20
