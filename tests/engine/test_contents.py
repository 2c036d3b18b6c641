# SPDX-License-Identifier: MIT
"""A file that is overwritten while it is read: never half of one content, half of another.

Times of files have the ticks of the system's clock, some milliseconds or seconds long. Here all
happens within one: no stat data tell of the change.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from byhand import open_repository, worktree

from ckpt.engine import conversions, reading
from ckpt.engine.capture import Present, capture
from ckpt.git.repository import Repository
from ckpt.git.streams import LARGE
from ckpt.settings.settings import Settings

SIZES = {"small": 1000, "large": LARGE + 1000}


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with open_repository(worktree(tmp_path / "repo")) as repository:
        yield repository


@pytest.fixture(autouse=True)
def one_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_times(status: os.stat_result) -> tuple[int, ...]:
        return status.st_dev, status.st_ino, status.st_mode, status.st_size

    for module in (reading, conversions):
        monkeypatch.setattr(module, "identity", without_times)


class Overwriting:
    """Overwrites a file, once, as soon as half of it has been read."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        self._size = path.stat().st_size
        self._pread = os.pread
        self.is_done = False
        monkeypatch.setattr(os, "pread", self._piece)
        for module in (reading, conversions):
            monkeypatch.setattr(module, "open", self._open, raising=False)

    def _piece(self, fd: int, length: int, position: int) -> bytes:
        if not self._is_it(fd):
            return self._pread(fd, length, position)
        piece = self._pread(fd, length if self.is_done else length // 2, position)
        self._overwrite()
        return piece

    def _is_it(self, fd: int) -> bool:
        return os.path.samestat(os.fstat(fd), self._path.stat())

    def _open(self, fd: int, mode: str, **options: Any) -> IO[bytes]:
        if not self._is_it(fd):
            return open(fd, mode, **options)
        half = self._size // 2
        first = self._pread(fd, half, 0)
        self._overwrite()
        return io.BytesIO(first + self._pread(fd, self._size + 1, half))

    def _overwrite(self) -> None:
        if not self.is_done:
            with self._path.open("r+b") as file:
                file.write(b"n" * self._size)
            self.is_done = True


def captured(repo: Repository) -> Present:
    return capture(repo, Settings(), repo.objects)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("attributes", ["", "file text eol=crlf\n"])
def test_a_file_overwritten_in_the_tick_in_which_it_is_read_is_read_again(
    attributes: str, size: str, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(repo.worktree, "file")
    path.write_bytes(b"o" * SIZES[size])
    Path(repo.worktree, ".gitattributes").write_text(attributes)
    overwriting = Overwriting(path, monkeypatch)

    found = captured(repo)

    assert overwriting.is_done
    assert found.entries[b"file"].id == repo.objects.hash(b"blob", b"n" * SIZES[size])


def test_only_what_changed_just_now_could_hide_another_change(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    status = os.stat(tmp_path / "file")

    assert reading.is_fresh(status, status.st_ctime_ns + 1_000_000)
    assert not reading.is_fresh(status, status.st_ctime_ns + 10_000_000_000)
