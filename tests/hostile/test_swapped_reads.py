# SPDX-License-Identifier: MIT
"""A folder that becomes a link while a save looks into it: what it leads to is not saved.

Another process could do that at any moment; here it is done before each single call by which a save
looks at a file or folder, and undone before the next or never.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import fsck, git

from ckpt import CheckpointManager

CALLS = ("open", "scandir", "lstat", "stat", "readlink", "listdir")
SECRET = "of another place\n"  # as long as what is in its place


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A worktree with a folder, and another folder outside that has the same names and more."""
    repo = tmp_path / "repo"
    for place, text in ((repo, "of this worktree\n"), (tmp_path / "outside", SECRET)):
        for name in ("dir/file", "dir/inner/deep"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
        for name in ("dir/link", "dir/inner/link"):
            (place / name).symlink_to(f"to {text.strip()}")
    (tmp_path / "outside/dir/more").write_text(SECRET)
    git("init", "-q", cwd=repo)
    git("add", "dir/file", cwd=repo)
    git("commit", "-q", "-m", "first", cwd=repo)
    return repo


class Swapper:
    """Lets the folder be a link during the n-th look at the worktree, or from then on."""

    def __init__(self, top: Path, nth: int, *, stays: bool) -> None:
        self._top, self._nth, self._stays = top, nth, stays
        self._folder, self._aside = top / "dir", top.parent / "aside"
        self.looks = 0

    def look(self) -> None:
        self.looks += 1
        if self.looks == self._nth:
            self._real_rename(self._folder, self._aside)
            self._folder.symlink_to(self._top.parent / "outside/dir")
        elif self.looks == self._nth + 1 and not self._stays:
            self.undo()

    def undo(self) -> None:
        if self._aside.exists():
            self._folder.unlink()
            self._real_rename(self._aside, self._folder)

    _real_rename = staticmethod(os.rename)


def watched(swapper: Swapper, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = os.fsencode(top / "dir")

    def watching(call: Callable) -> Callable:
        def looked(path: object = ".", *rest: object, **options: object) -> object:
            name = b"" if isinstance(path, int) else os.fsencode(path)
            if name.startswith(inside) or ("dir_fd" in options and name in (b"dir", b"inner")):
                swapper.look()
            return call(path, *rest, **options)

        return looked

    for name in CALLS:
        monkeypatch.setattr(os, name, watching(getattr(os, name)))


def save_while_swapped(top: Path, nth: int, *, stays: bool, warm: bool) -> tuple[int, str]:
    """How many looks there were, and the commit that came of them."""
    if not warm:
        shutil.rmtree(top / ".git/ckpt", ignore_errors=True)
    else:
        with CheckpointManager(top) as manager:
            manager.create("before")
        (top / "dir/file").write_text("edited in this worktree\n")
        (top / "dir/inner/new").write_text("new in this worktree\n")
    swapper = Swapper(top, nth, stays=stays)
    with pytest.MonkeyPatch.context() as patch:
        watched(swapper, top, patch)
        with CheckpointManager(top) as manager:
            saved = manager.create("swapped").checkpoint
    swapper.undo()
    assert saved is not None
    return swapper.looks, saved.commit


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("stays", [False, True])
def test_nothing_that_a_link_leads_to_is_saved(stays: bool, warm: bool, top: Path) -> None:
    nth = looks = 1
    while nth <= looks:
        looks, commit = save_while_swapped(top, nth, stays=stays, warm=warm)
        objects = git("rev-list", "--objects", "--no-object-names", commit, cwd=top).split()
        told = git("cat-file", "--batch", cwd=top, stdin="\n".join(objects))
        assert SECRET.strip() not in told, nth
        nth += 1
    assert nth > 8
    assert fsck(top) == []
