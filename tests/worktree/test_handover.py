# SPDX-License-Identifier: MIT
"""A name changes hands in one step; what had it at the last moment is never lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from byhand import files_below
from helpers import tree_state
from seam import observe

from ckpt import disk
from ckpt.worktree.write import Worktree

Act = Callable[[Worktree, "os.stat_result | None"], object]

FILE = b"file"
CHANGES: dict[str, Act] = {
    "write_file": lambda w, found: w.write_file(FILE, [b"new"], 0o644, found),
    "write_link": lambda w, found: w.write_link(FILE, b"target", found),
    "remove_file": lambda w, found: found is not None and w.remove_file(FILE, found),
}
OLD, EDITED = b"long enough", b"by hand, at the last moment"


def overwrite(path: Path) -> None:
    with open(path, "r+b") as file:
        file.write(EDITED)


def replace(path: Path) -> None:
    path.with_name("new").write_bytes(EDITED)
    path.with_name("new").rename(path)


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("by hand")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_bytes(EDITED)


EDITS: dict[str, Callable[[Path], object]] = {
    "overwritten": overwrite,
    "replaced": replace,
    "a link now": link,
    "a folder now": folder,
    "closed": lambda path: path.chmod(0o600),
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/file").write_bytes(OLD)
    return tmp_path / "repo"


@pytest.fixture
def tree(top: Path) -> Iterator[Worktree]:
    with Worktree(os.fsencode(top)) as opened:
        yield opened


@contextmanager
def before_each(act: Callable[[str, bytes], object]) -> Iterator[None]:
    """Calls back before each operation, once all is ready for the name to change hands."""
    is_ready = False

    def observer(operation: str, path: str) -> None:
        nonlocal is_ready
        name = os.path.basename(os.fsencode(path))
        is_ready = is_ready or (operation in ("rename", "unlink") and name == FILE)
        if is_ready:
            act(operation, name)

    observe(observer)
    try:
        yield
    finally:
        observe(None)


@contextmanager
def meanwhile(*edits: Callable[[], object]) -> Iterator[None]:
    """Somebody is quicker: between the last look and the change, and between what comes then."""
    to_come = iter(edits)
    with before_each(lambda operation, path: next(to_come, int)()):
        yield


def without_ours(top: Path) -> dict[bytes, tuple[str, int, bytes]]:
    found = tree_state(top).items()
    return {path: state for path, state in found if not path.startswith(b".ckpt-tmp-")}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("change", CHANGES)
def test_what_was_edited_after_the_last_look_stays(
    change: str, edit: str, top: Path, tree: Worktree
) -> None:
    edited = []

    def act() -> None:
        EDITS[edit](top / "file")
        edited.append(without_ours(top))

    with meanwhile(act):
        assert not CHANGES[change](tree, tree.lstat(FILE))
    assert [tree_state(top)] == edited


@pytest.mark.parametrize("change", ["write_file", "write_link"])
def test_a_file_that_appears_where_there_was_none_is_not_replaced(
    change: str, top: Path, tree: Worktree
) -> None:
    (top / "file").unlink()

    with meanwhile(lambda: (top / "file").write_bytes(EDITED)):
        assert not CHANGES[change](tree, None)
    assert (top / "file").read_bytes() == EDITED
    assert files_below(top) == ["file"]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("change", CHANGES)
def test_what_was_edited_before_the_last_look_stays_where_names_cannot_be_swapped(
    change: str, edit: str, top: Path, tree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_call", None)
    found = tree.lstat(FILE)
    EDITS[edit](top / "file")
    edited = tree_state(top)

    assert not CHANGES[change](tree, found)
    assert tree_state(top) == edited


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_vanishes_is_not_made_again(change: str, top: Path, tree: Worktree) -> None:
    with meanwhile((top / "file").unlink):
        assert not CHANGES[change](tree, tree.lstat(FILE))
    assert files_below(top) == []


@pytest.mark.parametrize("again", [replace, lambda path: path.unlink(missing_ok=True)])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_edited_twice_in_that_moment_is_there_both_times(
    change: str, again: Callable[[Path], object], top: Path, tree: Worktree
) -> None:
    """Or, if the second time it is removed, as it was the first time."""
    first = b"the first of two edits"
    with meanwhile(lambda: (top / "file").write_bytes(first), lambda: again(top / "file")):
        assert not CHANGES[change](tree, tree.lstat(FILE))
    contents = [(top / name).read_bytes() for name in files_below(top)]
    assert sorted(contents) == sorted([first, EDITED] if again is replace else [first])


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_replaced_goes_also_if_that_fails_once(
    change: str, top: Path, tree: Worktree
) -> None:
    failures = [OSError(errno.EACCES, "forbidden")]

    def fail(operation: str, path: bytes) -> None:
        if path != FILE and failures:
            raise failures.pop()

    with before_each(fail):
        assert CHANGES[change](tree, tree.lstat(FILE))
    assert not failures
    assert list(without_ours(top)) == list(tree_state(top))


@pytest.mark.parametrize("change", CHANGES)
def test_if_it_never_goes_that_is_no_error_of_a_path_that_could_be_left(
    change: str, top: Path, tree: Worktree
) -> None:
    def fail(operation: str, path: bytes) -> None:
        if path != FILE:
            raise OSError(errno.EACCES, "forbidden")

    with before_each(fail), pytest.raises(OSError) as told:
        CHANGES[change](tree, tree.lstat(FILE))
    assert told.value.errno == errno.EIO


@pytest.mark.parametrize("change", CHANGES)
def test_an_interrupt_takes_away_what_was_found_and_nothing_else(
    change: str, top: Path, tree: Worktree
) -> None:
    def interrupt(operation: str, path: bytes) -> None:
        if path != FILE:
            observe(None)
            raise KeyboardInterrupt

    with before_each(interrupt), pytest.raises(KeyboardInterrupt):
        CHANGES[change](tree, tree.lstat(FILE))
    assert list(without_ours(top)) == list(tree_state(top))


@pytest.mark.parametrize("change", CHANGES)
def test_an_interrupt_amid_a_late_edit_leaves_the_edit(
    change: str, top: Path, tree: Worktree
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with meanwhile(lambda: overwrite(top / "file"), interrupt), pytest.raises(KeyboardInterrupt):
        CHANGES[change](tree, tree.lstat(FILE))
    assert EDITED in [state[2] for state in tree_state(top).values()]
