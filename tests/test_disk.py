# SPDX-License-Identifier: MIT
"""What is written is written whole, and never over or through what is there."""

from __future__ import annotations

import _thread
import os
from pathlib import Path
from typing import Any

import pytest

from ckpt import disk


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
    disk.write(fd, bytes(range(100)))
    os.close(fd)

    assert (tmp_path / "file").read_bytes() == bytes(range(100))


def test_temporary_names_do_not_repeat() -> None:
    assert len({disk.temporary_name(".tmp-") for _ in range(100)}) == 100


def test_where_no_thread_can_be_started_all_files_are_flushed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under a limit of address space, or of a container's processes."""
    flushed: list[int] = []
    start, left = _thread.start_new_thread, 1

    def few(*words: Any) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise RuntimeError("can't start new thread")
        return start(*words)

    monkeypatch.setattr(_thread, "start_new_thread", few)
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(os.fstat(fd).st_ino))
    files = [tmp_path / str(number) for number in range(20)]
    for file in files:
        file.touch()
    disk.fsync_files([*map(str, files)])

    assert left < 0
    assert sorted(flushed) == sorted(file.stat().st_ino for file in files)
    with pytest.raises(FileNotFoundError):
        disk.fsync_files([str(tmp_path / "none")] * 20)


def test_what_others_may_take_away_is_flushed_only_if_it_is_there(tmp_path: Path) -> None:
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    there = [str(tmp_path / name) for name in ("own", "other")]
    gone = [str(tmp_path / f"gone-{number}") for number in range(10)]

    disk.fsync_files([f"{path}/file" for path in there], gone)
    disk.fsync_dirs(there, gone)
    with pytest.raises(FileNotFoundError):
        disk.fsync_files([*there, *gone])
    with pytest.raises(FileNotFoundError):
        disk.fsync_dirs([*there, *gone])
