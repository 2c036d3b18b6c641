# SPDX-License-Identifier: MIT
"""Private files are replaced in one step, seen by their owner only, and durable."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest
from byhand import failing, files_below, observed

from ckpt import disk
from ckpt.store.lock import clear_unfinished


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "ckpt/file"
    disk.replace_private_file(str(path), b"old")
    with observed() as seen:
        disk.replace_private_file(str(path), b"new")

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
    disk.replace_private_file(str(tmp_path / "ckpt/file"), b"")

    assert mode(tmp_path / "ckpt") == 0o700
    assert mode(tmp_path / "ckpt/file") == 0o600


@pytest.mark.parametrize("operation", ["create", "write", "fsync", "rename"])
def test_a_failure_leaves_the_old_file_and_no_other(operation: str, tmp_path: Path) -> None:
    path = tmp_path / "ckpt/file"
    disk.replace_private_file(str(path), b"old")
    with failing(operation), pytest.raises(OSError):
        disk.replace_private_file(str(path), b"new")

    assert path.read_bytes() == b"old"
    assert files_below(tmp_path) == ["ckpt/file"]


def test_a_private_file_is_removed_durably(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    with observed() as seen:
        disk.remove_private_file(str(path))

    assert not path.exists()
    assert seen == [("unlink", str(path)), ("fsync-dir", str(tmp_path))]
    disk.remove_private_file(str(path))


def test_a_private_folder_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "ckpt").mkdir(mode=0o755)
    disk.ensure_private_dir(str(tmp_path / "ckpt"))

    assert mode(tmp_path / "ckpt") == 0o755


def test_a_new_file_replaces_nothing_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("victim")
    for name in ("file", "link"):
        with pytest.raises(FileExistsError):
            disk.create(str(tmp_path / name))

    assert (tmp_path / "file").read_bytes() == b"old"
    assert not (tmp_path / "victim").exists()


def test_a_second_name_is_given_only_if_it_is_free(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    disk.link(str(tmp_path / "a"), str(tmp_path / "b"))

    assert (tmp_path / "b").samefile(tmp_path / "a")
    with pytest.raises(FileExistsError):
        disk.link(str(tmp_path / "a"), str(tmp_path / "b"))


def test_all_bytes_are_written_however_few_the_system_takes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
    fd = disk.create(str(tmp_path / "file"))
    disk.write(fd, bytes(range(100)), "file")
    os.close(fd)

    assert (tmp_path / "file").read_bytes() == bytes(range(100))


def test_temporary_names_do_not_repeat() -> None:
    assert len({disk.temporary_name(".tmp-") for _ in range(100)}) == 100


def test_a_file_taken_for_a_dead_processs_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock
    taken = []

    def clear_first(fd: int, mode: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        clear_unfinished(str(tmp_path))
        taken.append(os.fstat(fd).st_nlink == 0)
        real(fd, mode)

    monkeypatch.setattr(fcntl, "flock", clear_first)
    disk.replace_private_file(str(tmp_path / "file"), b"new")

    assert taken == [True]
    assert (tmp_path / "file").read_bytes() == b"new" and files_below(tmp_path) == ["file"]
