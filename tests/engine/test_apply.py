# SPDX-License-Identifier: MIT
"""What a path holds, read when it may have become something else since it was looked at."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from byhand import open_repository, worktree

from ckpt.engine.apply import keep, look
from ckpt.git.repository import Repository
from ckpt.git.streams import UnreadableFile
from ckpt.worktree.write import Worktree


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with open_repository(worktree(tmp_path / "repo")) as repository:
        yield repository


@pytest.fixture
def files(repo: Repository) -> Iterator[Worktree]:
    with Worktree(os.fsencode(repo.worktree), repo.git_dirs) as opened:
        yield opened


def put_file(path: Path) -> None:
    path.write_text("content\n")


def put_link(path: Path) -> None:
    path.symlink_to("target")


@pytest.mark.parametrize(
    ("before", "after"), [(put_file, put_link), (put_link, put_file), (put_file, None)]
)
def test_what_has_become_something_else_is_not_kept_for_what_it_was(
    before: Callable[[Path], None],
    after: Callable[[Path], None] | None,
    repo: Repository,
    files: Worktree,
) -> None:
    path = Path(repo.worktree, "path")
    before(path)
    status = path.lstat()
    state = look(repo.objects, files, b"path", status)
    assert state is not None
    path.unlink()
    if after is not None:
        after(path)

    with pytest.raises(UnreadableFile):
        keep(repo.objects, files, b"path", state)
    with pytest.raises(UnreadableFile):
        look(repo.objects, files, b"path", status)


def test_want_of_handles_is_no_fault_of_the_file(
    repo: Repository, files: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(repo.worktree, "path")
    put_file(path)
    status = path.lstat()

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="Too many open files") as caught:
        look(repo.objects, files, b"path", status)

    assert not isinstance(caught.value, UnreadableFile)
