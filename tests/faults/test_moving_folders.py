# SPDX-License-Identifier: MIT
"""Folders that are moved while a save looks at them: their files are in it, or it says `partial`.

Another process could move one at any moment; here it is done before each single call by which a
save looks at the worktree. A folder may be met at both of its places or, if nobody takes care, at
neither.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults.striking import TORTURE
from helpers import fsck, git

from ckpt import CheckpointManager, Outcome
from ckpt.models import Checkpoint

Act = Callable[[Path, int], None]

CALLS = ("open", "scandir", "lstat", "readlink", "listdir")
FILES = {"one": "of one\n", "two": "of two\n", "deep/three": "of three\n"}
# Neighbours, and from one folder into another, each listed first by some way of looking.
MOVES = [("zz", "aa"), ("early/sub", "late/sub"), ("late/sub", "early/sub")]
# How much a save knows: nothing, what is in git's index, or all but one file of the folder.
KNOWN = ["nothing", "index", "cache"]
STEP = 1 if TORTURE else 3

rename, replace = os.rename, os.replace


@pytest.fixture(autouse=True)
def no_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt.worktree.cache._can_fork", lambda: False)


def made(top: Path, folder: str, known: str = "nothing") -> Path:
    """A worktree with a folder to be moved, which a save knows or does not know."""
    for name in ("early/file", "late/file", "other/file"):
        (top / name).parent.mkdir(parents=True)
        (top / name).write_text(f"{name}\n")
    git("init", "-q", cwd=top)
    git("add", ".", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)
    for name, text in FILES.items():
        (top / folder / name).parent.mkdir(parents=True, exist_ok=True)
        (top / folder / name).write_text(text)
    if known != "nothing":
        git("add", ".", cwd=top)
    if known == "cache":
        for place, folders, files in os.walk(top):
            if ".git" in folders:
                folders.remove(".git")
            for name in files:
                os.utime(Path(place, name), (1_000_000_000, 1_000_000_000))
        with CheckpointManager(top) as manager:
            manager.create("known")
        (top / folder / "two").write_text("of two, edited\n")
    return top


def settle(folder: Path) -> None:
    """Wait until a save relies on the times of a folder."""
    while time.time_ns() - folder.stat().st_ctime_ns < 200_000_000:
        time.sleep(0.02)


class Acting:
    """Acts before the looks at a worktree, each of which has a number."""

    def __init__(self, top: Path, act: Act) -> None:
        self._inside, self._git = os.fsencode(top), os.fsencode(top / ".git")
        self._top, self._act = top, act
        self._is_acting = False
        self.looks = 0
        self.listings = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self._watched(name, getattr(os, name)))
            yield

    def _watched(self, name: str, call: Callable) -> Callable:
        def looked(path: object = ".", *rest: object, **options: object) -> object:
            self.look(name, path, options)
            return call(path, *rest, **options)

        return looked

    def look(self, call: str, path: object, options: dict[str, object]) -> None:
        name = os.fsencode(path) if isinstance(path, str | bytes | os.PathLike) else b""
        is_here = name.startswith(self._inside) and not name.startswith(self._git)
        if self._is_acting or not (is_here or "dir_fd" in options):
            return
        self.looks += 1
        self.listings += call in ("scandir", "listdir")
        self._is_acting = True
        try:
            self._act(self._top, self.looks)
        finally:
            self._is_acting = False


def saved_while(top: Path, act: Act) -> tuple[Acting, Checkpoint]:
    acting = Acting(top, act)
    with CheckpointManager(top) as manager, acting.watching():
        result = manager.create("meanwhile")
    assert result.checkpoint is not None
    assert (result.outcome is Outcome.PARTIAL) is result.checkpoint.partial
    return acting, result.checkpoint


def held(top: Path, saved: Checkpoint) -> set[str]:
    return {*git("ls-tree", "-r", "--name-only", saved.commit, cwd=top).splitlines()}


def below(folder: str) -> set[str]:
    return {f"{folder}/{name}" for name in FILES}


def at(number: int, act: Callable[[Path], object]) -> Act:
    def act_then(top: Path, look: int) -> None:
        if look == number:
            act(top)

    return act_then


def flip(top: Path, one: str, other: str) -> None:
    names = (one, other) if (top / one).exists() else (other, one)
    rename(top / names[0], top / names[1])


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize(("one", "other"), MOVES)
def test_a_folder_that_is_moved_once_is_saved_whole(
    one: str, other: str, known: str, tmp_path: Path
) -> None:
    number = looks = 1
    while number <= looks:
        top = made(tmp_path / str(number), one, known)
        acting, saved = saved_while(top, at(number, lambda top: rename(top / one, top / other)))
        paths = held(top, saved)
        assert below(one) <= paths or below(other) <= paths, (number, sorted(paths))
        assert paths >= {"early/file", "late/file", "other/file"}, number
        assert not saved.partial, number
        looks, number = acting.looks, number + 1
    assert number > 8
    assert fsck(top) == []


@pytest.mark.parametrize(("one", "other"), MOVES)
def test_a_folder_that_is_written_to_and_moved_is_saved_whole(
    one: str, other: str, tmp_path: Path
) -> None:
    def act(top: Path) -> None:
        for path in (*(top / one).rglob("*"), top / one):
            os.utime(path, (4_000_000_000, 4_000_000_000))  # as new as can be
        rename(top / one, top / other)

    number = looks = 1
    while number <= looks:
        top = made(tmp_path / str(number), one)
        acting, saved = saved_while(top, at(number, act))
        paths = held(top, saved)
        assert below(one) <= paths or below(other) <= paths, (number, sorted(paths))
        looks, number = acting.looks, number + 1
    assert number > 8


def test_what_goes_into_a_folder_that_was_known_is_saved(tmp_path: Path) -> None:
    """Such a folder has settled: it is not listed, only compared."""
    number = looks = 1
    while number <= looks:
        top = made(tmp_path / str(number), "late/sub")
        settle(top / "early")
        with CheckpointManager(top) as manager:
            manager.create("known")
        (top / "late/sub/two").rename(top / "late/sub/new")
        acting, saved = saved_while(
            top, at(number, lambda top: rename(top / "late/sub", top / "early/sub"))
        )
        paths = held(top, saved)
        files = {"one", "new", "deep/three"}
        assert any(
            {f"{folder}/sub/{name}" for name in files} <= paths for folder in ("early", "late")
        ), (number, sorted(paths))
        assert not saved.partial, number
        looks, number = acting.looks, number + 1
    assert number > 8


@pytest.mark.parametrize("known", KNOWN)
def test_what_is_removed_meanwhile_makes_no_checkpoint_partial(known: str, tmp_path: Path) -> None:
    number = looks = 1
    while number <= looks:
        top = made(tmp_path / str(number), "zz", known)
        acting, saved = saved_while(top, at(number, lambda top: shutil.rmtree(top / "zz")))
        assert not saved.partial, number
        assert held(top, saved) >= {"early/file", "late/file", "other/file"}, number
        looks, number = acting.looks, number + 1
    assert number > 8


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("every", range(1, 13, STEP))
def test_a_save_of_a_folder_that_never_stops_moving_ends_and_tells(
    every: int, known: str, tmp_path: Path
) -> None:
    top = made(tmp_path / "top", "zz", known)
    acting, saved = saved_while(
        top, lambda top, look: None if look % every else flip(top, "zz", "aa")
    )
    paths = held(top, saved)
    if not (below("zz") <= paths or below("aa") <= paths):
        assert saved.partial
        told = {entry.path.split("/")[0] for entry in saved.skipped}
        assert told <= {"zz", "aa"}
        assert {entry.reason for entry in saved.skipped} == {"unreadable"}
    assert acting.looks < 1000


@pytest.mark.parametrize("every", range(1, 25, STEP))
def test_what_is_back_in_its_place_is_found_by_the_next_save(every: int, tmp_path: Path) -> None:
    """What is below a folder that was moved and came back has the times that it had."""
    top = made(tmp_path / "top", "zz")
    settle(top / "zz/deep")
    saved_while(top, lambda top, look: None if look % every else flip(top, "zz", "aa"))
    if (top / "aa").exists():
        flip(top, "zz", "aa")
    with CheckpointManager(top) as manager:
        after = manager.create("after").checkpoint
    assert after is not None
    assert not after.partial
    assert held(top, after) >= below("zz")


def test_what_is_away_whenever_it_is_read_is_found_by_the_next_save(tmp_path: Path) -> None:
    """It was listed, and at the next save its folder has the times that it had then."""
    top = made(tmp_path / "top", "zz")
    settle(top / "zz/deep")
    opened, listed = os.open, os.listdir

    def open_nothing(path: str | bytes, *rest: int, **options: int) -> int:
        if os.fsdecode(path).endswith("zz/deep/three"):
            rename(top / "zz", top / "aa")
        return opened(path, *rest, **options)

    def list_all(path: str | bytes | int) -> list[str] | list[bytes]:
        if path == os.fsencode(top) + b"/" and (top / "aa").exists():  # all is looked at anew
            rename(top / "aa", top / "zz")
        return listed(path)

    with CheckpointManager(top) as manager, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", open_nothing)
        patch.setattr(os, "listdir", list_all)
        assert manager.create("meanwhile").outcome is Outcome.PARTIAL
    rename(top / "aa", top / "zz")
    with CheckpointManager(top) as manager:
        after = manager.create("after").checkpoint

    assert after is not None
    assert held(top, after) >= below("zz")


def test_what_is_missed_to_the_end_is_told_and_found_by_the_next_save(tmp_path: Path) -> None:
    top = made(tmp_path / "top", "zz")
    _, saved = saved_while(top, lambda top, look: flip(top, "zz", "aa"))
    assert saved.partial
    with CheckpointManager(top) as manager:
        after = manager.create("after").checkpoint
    assert after is not None
    assert not after.partial
    assert held(top, after) >= below("zz" if (top / "zz").exists() else "aa")


@pytest.mark.parametrize("known", KNOWN)
def test_files_that_others_write_all_the_time_cost_one_more_look(
    known: str, tmp_path: Path
) -> None:
    def build(top: Path, look: int) -> None:
        for folder in ("early", "late"):
            place = top / folder / f"made-{look}"
            place.write_text(str(look))
            replace(place, top / folder / f"built-{look % 10}")
        (top / "late" / f"log-{look}").write_text(str(look))
        if look > 1:
            (top / "late" / f"log-{look - 1}").unlink()

    quiet, _ = saved_while(made(tmp_path / "quiet", "zz", known), lambda top, look: None)
    top = made(tmp_path / "busy", "zz", known)
    busy, saved = saved_while(top, build)
    assert not saved.partial, saved.skipped
    assert held(top, saved) >= below("zz")
    # Of two looks; a cache that knew nothing of them may have to be left for a scan in each.
    assert busy.listings <= 4 * max(quiet.listings, 5)


def test_a_rollback_loses_nothing_of_a_folder_that_is_moved_meanwhile(tmp_path: Path) -> None:
    number = looks = 1
    while number <= looks:
        top = made(tmp_path / str(number), "early/sub")
        with CheckpointManager(top) as manager:
            target = manager.create("target").checkpoint
            assert target is not None
            (top / "other/file").write_text("edited again\n")
            acting = Acting(
                top, at(number, lambda top: rename(top / "early/sub", top / "late/sub"))
            )
            with acting.watching():
                result = manager.rollback(target.id)
        assert result.safety is not None
        paths = held(top, result.safety)
        for name in FILES:
            places = {f"{folder}/sub/{name}" for folder in ("early", "late")}
            assert places & paths or any((top / place).exists() for place in places), number
        looks, number = acting.looks, number + 1
    assert number > 8
