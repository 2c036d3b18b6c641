# SPDX-License-Identifier: MIT
"""Private files are replaced in one step, seen by their owner only, and durable."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest
from byhand import files_below
from seam import failing, observed

from ckpt import disk
from ckpt.disk import clear_dead


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "ckpt/file"
    disk.replace(str(path), b"old")
    with observed() as seen:
        disk.replace(str(path), b"new")

    assert path.read_bytes() == b"new"
    assert [operation for operation, _ in seen] == [
        "create",
        "write",
        "fsync",
        "rename",
        "fsync-dir",
    ]
    assert files_below(tmp_path) == ["ckpt/file"]


def test_private_files_are_their_owners(tmp_path: Path) -> None:
    os.umask(0)
    disk.replace(str(tmp_path / "ckpt/file"), b"")

    assert mode(tmp_path / "ckpt") == 0o700
    assert mode(tmp_path / "ckpt/file") == 0o600


@pytest.mark.parametrize("operation", ["create", "write", "fsync", "rename"])
def test_a_failure_leaves_the_old_file_and_no_other(operation: str, tmp_path: Path) -> None:
    path = tmp_path / "ckpt/file"
    disk.replace(str(path), b"old")
    with failing(operation), pytest.raises(OSError):
        disk.replace(str(path), b"new")

    assert path.read_bytes() == b"old"
    assert files_below(tmp_path) == ["ckpt/file"]


def test_a_private_file_is_removed_durably(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    with observed() as seen:
        disk.remove(str(path))

    assert not path.exists()
    assert seen == [("unlink", str(path)), ("fsync-dir", str(tmp_path))]
    disk.remove(str(path))


@pytest.mark.parametrize("bits", [0o620, 0o602, 0o666])
def test_a_file_that_others_could_write_is_neither_read_nor_closed(
    bits: int, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.touch()
    path.chmod(bits)
    disk.append(str(path), b"ours")

    assert mode(path) == bits
    with pytest.raises(PermissionError):
        disk.read_private(str(path))


def test_a_private_folder_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "ckpt").mkdir(mode=0o755)
    disk.ensure_dir(str(tmp_path / "ckpt"))

    assert mode(tmp_path / "ckpt") == 0o755


def test_no_private_folder_is_made_where_the_one_around_it_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk.ensure_dir(str(tmp_path / "git/ckpt"))

    assert not (tmp_path / "git").exists()


def test_a_file_taken_for_a_dead_processs_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock
    taken = []

    def clear_first(fd: int, mode: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        clear_dead(str(tmp_path))
        taken.append(os.fstat(fd).st_nlink == 0)
        real(fd, mode)

    monkeypatch.setattr(fcntl, "flock", clear_first)
    disk.replace(str(tmp_path / "file"), b"new")

    assert taken == [True]
    assert (tmp_path / "file").read_bytes() == b"new" and files_below(tmp_path) == ["file"]
