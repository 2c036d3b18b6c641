# SPDX-License-Identifier: MIT
"""Who can still write to a file is known, where the system tells, and not waited for in vain."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt.worktree import write
from ckpt.worktree.write import Patience, has_writers

FILE = b"file"
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of writers")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "file").write_bytes(b"content")
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


@linux_only
def test_a_file_that_is_open_to_be_written_to_has_a_writer(tmp_path: Path, folder: int) -> None:
    for mode in ("r+b", "ab"):
        with open(tmp_path / "file", mode):
            assert has_writers(FILE, folder)
        assert not has_writers(FILE, folder)


@linux_only
def test_so_has_one_that_is_mapped_and_closed(tmp_path: Path, folder: int) -> None:
    with open(tmp_path / "file", "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)

    with mapping:
        assert has_writers(FILE, folder)
    assert not has_writers(FILE, folder)


def test_who_reads_is_no_writer(tmp_path: Path, folder: int) -> None:
    with open(tmp_path / "file", "rb"):
        assert not has_writers(FILE, folder)


def test_what_is_no_file_has_none(tmp_path: Path, folder: int) -> None:
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")

    with open(tmp_path / "file", "ab"):
        assert not has_writers(b"link", folder)
    assert not has_writers(b"pipe", folder)
    assert not has_writers(b"gone", folder)


def test_nor_has_a_file_where_the_system_does_not_tell(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(write.fcntl, "F_SETLEASE", raising=False)

    with open(tmp_path / "file", "ab"):
        assert not has_writers(FILE, folder)


@linux_only
def test_who_opens_a_file_just_then_ends_nobody(tmp_path: Path) -> None:
    """The system tells who asked with a signal, which by itself would end the process."""
    code = """if True:
        import os, sys
        from ckpt.worktree.write import has_writers
        folder = os.open(sys.argv[1], os.O_RDONLY)
        for _ in range(3000):
            has_writers(b"file", folder)
    """
    (tmp_path / "file").write_bytes(b"content")
    asking = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    while asking.poll() is None:
        with open(tmp_path / "file", "r+b"):
            pass

    assert asking.returncode == 0, signal.strsignal(-asking.returncode)


def test_patience_comes_to_an_end() -> None:
    patience = Patience(0.05)
    moments = 0
    while patience.wait():
        moments += 1
        assert moments < 100

    assert moments in (10, 11)  # as parts of a second add up
    assert not patience.wait()
