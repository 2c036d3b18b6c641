# SPDX-License-Identifier: MIT
"""Folders come back with the permission bits they had, and none of theirs stops a rollback."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import ckpt, ckpt_here, git
from scenes import remove, unprivileged, write
from seam import observe

CLOSED = 0o555


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    git("init", "-q", cwd=made)
    write(made, "tracked/file", "tracked\n")
    write(made, "tracked/deep/file", "tracked\n")
    git("add", "--all", cwd=made)
    git("commit", "-q", "-m", "start", cwd=made)
    return made


def bits(top: Path) -> dict[str, int]:
    """The permission bits of every folder, special ones included."""
    return {
        os.path.relpath(folder, top): stat.S_IMODE(os.lstat(folder).st_mode)
        for folder, names, _ in os.walk(top)
        if ".git" not in folder.split("/")
    }


@contextmanager
def watched(look: Callable[[str, str | bytes], None]) -> Iterator[None]:
    observe(look)
    try:
        yield
    finally:
        observe(None)


def chmod(top: Path, **modes: int) -> None:
    for path, mode in modes.items():
        (top / path.replace("__", "/")).chmod(mode)


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o777, 0o711, CLOSED])
def test_a_folder_with_files_comes_back_with_its_bits(top: Path, mode: int) -> None:
    write(top, "new/inner/file", "untracked\n")
    chmod(top, tracked=mode, new__inner=mode)
    before = bits(top)
    ckpt_here("save", "it", cwd=top, code=0)

    chmod(top, tracked=0o755, new__inner=0o755)
    ckpt_here("rollback", "it", cwd=top, code=0)

    assert bits(top) == before


def test_a_folder_made_anew_has_its_bits_whatever_the_umask(top: Path) -> None:
    write(top, "new/inner/most/file", "untracked\n")
    (top / "new/empty").mkdir()
    chmod(top, new=0o750, new__inner=0o705, new__empty=0o777, tracked=0o700)
    before = bits(top)
    ckpt_here("save", "it", cwd=top, code=0)

    remove(top, "new")
    remove(top, "tracked")
    old = os.umask(0o077)
    try:
        ckpt_here("rollback", "it", "--yes", cwd=top, code=0)
    finally:
        os.umask(old)

    assert bits(top) == before


def test_a_private_folder_is_never_open_to_others_while_it_is_made(top: Path) -> None:
    write(top, "private/file", "secret\n")
    chmod(top, private=0o700)
    ckpt_here("save", "it", cwd=top, code=0)
    remove(top, "private")
    seen = []

    def look(operation: str, path: str) -> None:
        if (top / "private").exists():
            seen.append(stat.S_IMODE((top / "private").stat().st_mode))

    with watched(look):
        ckpt_here("rollback", "it", cwd=top, code=0)

    assert set(seen) == {0o700}


def test_undo_gives_the_bits_back_that_the_rollback_took(top: Path) -> None:
    ckpt_here("save", "it", cwd=top, code=0)
    chmod(top, tracked=0o700, tracked__deep=0o770)
    before = bits(top)

    ckpt_here("rollback", "it", cwd=top, code=0)
    assert bits(top) == {**before, "tracked": 0o755, "tracked/deep": 0o755}
    ckpt_here("undo", cwd=top, code=0)

    assert bits(top) == before


def test_other_bits_of_a_folder_make_another_state(top: Path) -> None:
    first = ckpt_here("save", "--kind", "auto", "--json", cwd=top, code=0).json
    chmod(top, tracked=0o700)
    second = ckpt_here("save", "--kind", "auto", "--json", cwd=top, code=0).json

    assert (first["outcome"], second["outcome"]) == ("created", "created")


def test_a_rollback_of_paths_leaves_other_folders_alone(top: Path) -> None:
    ckpt_here("save", "it", cwd=top, code=0)
    chmod(top, tracked=0o700, tracked__deep=0o700)
    write(top, "tracked/deep/file", "edited\n")

    ckpt_here("rollback", "it", "--", "tracked/deep", cwd=top, code=0)

    assert bits(top)["tracked"] == 0o700
    assert bits(top)["tracked/deep"] == 0o755


def test_a_folder_of_ignored_files_is_none_of_ours(top: Path) -> None:
    write(top, ".gitignore", "build/\n")
    write(top, "build/out", "ignored\n")
    write(top, "build/kept", "tracked\n")
    git("add", "--force", "build/kept", ".gitignore", cwd=top)
    ckpt_here("save", "it", cwd=top, code=0)

    git("rm", "-q", "--cached", "build/kept", cwd=top)
    (top / "build/kept").unlink()
    chmod(top, build=0o700)
    ckpt_here("rollback", "it", cwd=top, code=0)

    assert (top / "build/kept").read_text() == "tracked\n"
    assert bits(top)["build"] == 0o700


@pytest.mark.parametrize("stage", ["rename", "fsync"])
def test_aborting_gives_every_folder_its_bits_back(top: Path, stage: str) -> None:
    """Also one that the rollback took away, and one that has the bits of the target by now."""
    ckpt_here("save", "it", cwd=top, code=0)
    write(top, "tracked/file", "edited\n")
    write(top, "new/private/file", "goes\n")
    chmod(top, new__private=0o700, new=0o750, tracked=0o711, tracked__deep=0o770)
    before = bits(top)

    def stop(operation: str, path: str) -> None:
        if operation == stage and path.endswith("/file") and not (top / "new").exists():
            raise OSError(28, "No space left on device")

    with watched(stop):
        ckpt_here("rollback", "it", cwd=top, code=1)
    assert bits(top)["tracked"] == (0o755 if stage == "fsync" else 0o711)
    ckpt_here("rollback", "--abort", cwd=top, code=0)

    assert bits(top) == before


def closed_folders(top: Path) -> dict[str, int]:
    """A checkpoint `it`, then changes of every sort in folders that are closed to changes."""
    write(top, "a/edited", "1\n")
    write(top, "a/removed", "2\n")
    write(top, "b/file", "3\n")
    write(top, "c/gone/file", "4\n")
    chmod(top, a=CLOSED, b=CLOSED, c=CLOSED)
    before = bits(top)
    ckpt("save", "it", cwd=top, code=0)
    chmod(top, a=0o755, b=0o755, c=0o755)
    write(top, "a/edited", "other\n")
    remove(top, "a/removed")
    write(top, "b/added", "new\n")
    remove(top, "c/gone")
    (top / "c/new folder").mkdir()
    chmod(top, a=CLOSED, b=CLOSED, c=CLOSED)
    return before


def test_files_in_folders_that_cannot_be_written_come_back(top: Path) -> None:
    before = closed_folders(top)

    ckpt("rollback", "it", cwd=top, code=0, under=unprivileged())

    assert bits(top) == before
    assert (top / "a/edited").read_text() == "1\n"
    assert (top / "a/removed").read_text() == "2\n"
    assert not (top / "b/added").exists()
    assert (top / "c/gone/file").read_text() == "4\n"
