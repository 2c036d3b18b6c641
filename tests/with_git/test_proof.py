# SPDX-License-Identifier: MIT
"""Before a rollback replaces a file, an object holds its bytes that can be read."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import ckpt, ckpt_here, fsck, git, verified
from seam import observe

from ckpt.engine.reading import is_fresh
from ckpt.paths import identity

OLD, PRECIOUS = "".join(f"old {n}\n" for n in range(99)), "".join(f"new {n}\n" for n in range(99))


def object_of(repo: Path, name: str) -> Path:
    object_id = git("rev-parse", name, cwd=repo).strip()
    path = repo / ".git/objects" / object_id[:2] / object_id[2:]
    path.chmod(0o644)
    return path


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def overwritten(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-10] + bytes(10))


@pytest.fixture
def base(repo: Path) -> str:
    """A checkpoint, and a file that has another content since, which a second one holds."""
    (repo / "folder").mkdir()
    (repo / "folder/file").write_text(OLD)
    return str(ckpt("save", "base", "--json").json["checkpoint"]["id"])


def edit(repo: Path, is_tracked: bool) -> None:
    (repo / "folder/file").write_text(PRECIOUS)
    if is_tracked:
        git("add", "-A", cwd=repo)
        git("commit", "-q", "-m", "precious", cwd=repo)
    ckpt("save", "one")
    ckpt("save", "two")


def check_way_back(repo: Path, base: str) -> None:
    ckpt("rollback", base, "--yes", code=0)
    assert (repo / "folder/file").read_text() == OLD
    ckpt("undo", "--yes", code=0)
    assert (repo / "folder/file").read_text() == PRECIOUS
    assert fsck(repo) == []
    assert verified(repo) == []


@pytest.mark.parametrize("is_tracked", [False, True])
@pytest.mark.parametrize("damage", [Path.unlink, emptied, cut, overwritten])
def test_an_object_that_a_disk_has_damaged_is_written_again_before_its_file_goes(
    repo: Path, base: str, damage: Callable[[Path], None], is_tracked: bool
) -> None:
    edit(repo, is_tracked)
    newest = git("for-each-ref", "--format=%(refname)", "refs/checkpoints", cwd=repo).split()[-1]
    damage(object_of(repo, f"{newest}:folder/file"))

    check_way_back(repo, base)


@pytest.mark.parametrize("damage", [Path.unlink, cut])
def test_so_is_a_tree(repo: Path, base: str, damage: Callable[[Path], None]) -> None:
    edit(repo, is_tracked=False)
    newest = git("for-each-ref", "--format=%(refname)", "refs/checkpoints", cwd=repo).split()[-1]
    damage(object_of(repo, f"{newest}:folder"))

    check_way_back(repo, base)


def test_bytes_that_came_without_a_trace_are_saved_before_they_go(repo: Path, base: str) -> None:
    """Linux dates a file that is written through a mapping when a page becomes dirty, not again."""
    path = repo / "folder/file"
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[:3] = b"abc"
        settle(path)
        ckpt("save", "one")
        status = os.stat(path)
        mapping[:] = PRECIOUS.encode()
        if identity(os.stat(path)) != identity(status):
            pytest.skip("this file system dates each write")

    check_way_back(repo, base)


def test_after_a_crash_they_are_saved_before_they_go(repo: Path, base: str) -> None:
    path = repo / "folder/file"
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[:3] = b"abc"
        settle(path)
        git("add", "-A", cwd=repo)
        time.sleep(0.02)  # so that the index is later than the file
        git("commit", "-q", "-m", "abc", cwd=repo)
        with full_disk_at("file"):
            ckpt_here("rollback", base, "--yes", code=1)
        status = os.stat(path)
        mapping[:] = PRECIOUS.encode()
        if identity(os.stat(path)) != identity(status):
            pytest.skip("this file system dates each write")

    told = ckpt("rollback", "--continue", "--json", code=0).json

    assert git("show", f"{told['safety']['ref']}:folder/file") == PRECIOUS


@contextmanager
def full_disk_at(end: str) -> Iterator[None]:
    def fail(operation: str, path: str) -> None:
        if operation == "rename" and os.fsdecode(path).endswith(end):
            raise OSError(28, os.strerror(28))

    observe(fail)
    try:
        yield
    finally:
        observe(None)


def settle(path: Path) -> None:
    """Wait until another change of a file would show in its times."""
    while is_fresh(os.stat(path), time.time_ns()):
        time.sleep(0.02)
