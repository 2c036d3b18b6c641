# SPDX-License-Identifier: MIT
"""A rollback among closed folders that stops anywhere ends with every bit where it belongs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from faults.striking import Driver, kill
from helpers import ckpt, ckpt_here, git, tree_state
from scenes import remove, unprivileged, write
from seam import observe

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

    def look(operation: str, path: str) -> None:
        nonlocal left
        if operation in ("chmod", "mkdir", "rmdir", "unlink", "rename", "fsync", "sync"):
            left -= 1
            if left < 0:
                raise Stopped

    observe(look)


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
            observe(None)
        if not (top / ".git/ckpt/journal").exists():
            assert everything(top) in (then, now)
            continue
        reached += 1
        ckpt_here("rollback", way, cwd=top, code=0)
        assert everything(top) == (now if way == "--abort" else then), number
    assert reached > 20


def killed_in_a_folder(driver: Driver, top: Path, bits: int) -> None:
    """The rollback of a file, in a folder with these bits, that was about to get its name."""
    git("init", "-q", cwd=top)
    write(top, "folder/file", "then\n")
    (top / "folder").chmod(bits)
    assert driver.run(top, "save", "it").code == 0
    (top / "folder").chmod(0o755)
    write(top, "folder/file", "now\n")
    (top / "folder").chmod(bits)
    assert driver.run(top, "rollback", "it", blow=kill(1, "rename", "file")).killed
    assert len(os.listdir(top / "folder")) == 2


@pytest.mark.parametrize("way", ["--continue", "--abort"])
def test_a_folder_that_was_closed_again_after_the_kill_is_opened_first(
    way: str, driver: Driver, tmp_path: Path
) -> None:
    killed_in_a_folder(driver, tmp_path, CLOSED)
    (tmp_path / "folder").chmod(0o500)

    ckpt("rollback", way, cwd=tmp_path, code=0, under=unprivileged())

    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == CLOSED
    assert os.listdir(tmp_path / "folder") == ["file"]
    wanted = "then\n" if way == "--continue" else "now\n"
    assert (tmp_path / "folder/file").read_text() == wanted


def test_a_folder_that_was_closed_only_after_the_kill_stays_closed_and_its_files_are_listed(
    driver: Driver, tmp_path: Path
) -> None:
    killed_in_a_folder(driver, tmp_path, 0o755)
    (tmp_path / "folder").chmod(0o500)

    told = ckpt("rollback", "--continue", "--json", cwd=tmp_path, code=4, under=unprivileged())

    assert told.json["skipped"] == [{"path": "folder/file", "reason": "permission denied"}]
    assert not (tmp_path / ".git/ckpt/journal").exists()
