# SPDX-License-Identifier: MIT
"""Files change whole or not at all, and never outside the worktree."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from byhand import files_below
from helpers import tree_state
from seam import failing, observed

from ckpt.worktree.write import UnsafePath, Worktree

Act = Callable[[Worktree, bytes], object]

CHANGES: dict[str, Act] = {
    "write_file": lambda w, path: w.write_file(path, [b"new"], 0o644, w.lstat(path)),
    "write_link": lambda w, path: w.write_link(path, b"target", w.lstat(path)),
    "remove_file": lambda w, path: w.remove_file(path, os.stat(".")),
    "make_folder": lambda w, path: w.make_folder(path),
    "remove_folder": lambda w, path: w.remove_folder(path),
}
HOSTILE = [
    b"../outside/file",
    b"..",
    b"src/../../outside/file",
    b"./file",
    b"src/./file",
    b".git/config",
    b".GIT/config",
    b"src/.git/hooks/x",
    b".git",
    b"src/.Git",
    b"/etc/passwd",
    b"src//file",
    b"src/",
    b"a\0b",
    b"a\0b/c",
]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "repo/src").mkdir(parents=True)
    (tmp_path / "repo/file").write_bytes(b"old")
    (tmp_path / "repo/src/file").write_bytes(b"old")
    (tmp_path / "outside/empty").mkdir(parents=True)
    (tmp_path / "outside/file").write_bytes(b"precious")
    return tmp_path / "repo"


@pytest.fixture
def tree(top: Path) -> Iterator[Worktree]:
    with Worktree(os.fsencode(top)) as opened:
        yield opened


def write(tree: Worktree, path: bytes, data: bytes = b"new", mode: int = 0o644) -> None:
    assert tree.write_file(path, [data], mode, tree.lstat(path)) is not None


def remove(tree: Worktree, path: bytes) -> bool:
    found = tree.lstat(path)
    return found is not None and tree.remove_file(path, found)


# Writing


def test_a_file_is_written_with_its_exact_bits(top: Path, tree: Worktree) -> None:
    os.umask(0o077)
    status = tree.write_file(b"src/run", [b"#!", b"\0\xff\n"], 0o751, None)

    assert (top / "src/run").read_bytes() == b"#!\0\xff\n"
    assert (top / "src/run").stat().st_mode & 0o7777 == 0o751
    assert status == (top / "src/run").stat()


def test_missing_folders_are_made(top: Path, tree: Worktree) -> None:
    write(tree, b"a/b/c/file")
    tree.make_folder(b"d/e")

    assert (top / "a/b/c/file").read_bytes() == b"new"
    assert (top / "d/e").is_dir()


def test_a_file_is_replaced_in_one_step(top: Path, tree: Worktree) -> None:
    """Whoever has the old one open, or linked, keeps it whole."""
    os.link(top / "file", top / "twin")
    with open(top / "file", "rb") as reader, observed() as seen:
        write(tree, b"file")
        assert reader.read() == b"old"

    assert (top / "twin").read_bytes() == b"old"
    assert (top / "file").read_bytes() == b"new"
    assert [operation for operation, _ in seen] == ["create", "write", "chmod", "rename"]


def test_the_name_of_a_half_written_file_says_whose_it_is(top: Path, tree: Worktree) -> None:
    with observed() as seen:
        write(tree, b"src/file")

    assert seen[0][1].startswith("src/.ckpt-tmp-")


def test_a_link_is_replaced_not_followed(top: Path, tree: Worktree) -> None:
    (top / "link").symlink_to("../outside/file")
    write(tree, b"link")

    assert not (top / "link").is_symlink()
    assert (top / "link").read_bytes() == b"new"
    assert (top.parent / "outside/file").read_bytes() == b"precious"


@pytest.mark.parametrize("target", [b"nowhere", b"/etc/passwd", b"caf\xe9", b"../../.."])
def test_a_link_is_written_as_it_was(target: bytes, top: Path, tree: Worktree) -> None:
    status = tree.write_link(b"file", target, tree.lstat(b"file"))

    assert os.readlink(os.fsencode(top / "file")) == target
    assert status == (top / "file").lstat()
    assert tree.link_target(b"file") == target


@pytest.mark.parametrize("operation", ["create", "write", "chmod", "rename"])
def test_a_file_that_cannot_be_written_leaves_the_old_one_and_no_other(
    operation: str, top: Path, tree: Worktree
) -> None:
    before = tree_state(top)
    with failing(operation), pytest.raises(OSError):
        write(tree, b"src/file")

    assert tree_state(top) == before


@pytest.mark.parametrize("operation", ["symlink", "rename"])
def test_a_link_that_cannot_be_written_leaves_the_old_file_and_no_other(
    operation: str, top: Path, tree: Worktree
) -> None:
    before = tree_state(top)
    with failing(operation), pytest.raises(OSError):
        tree.write_link(b"src/file", b"target", tree.lstat(b"src/file"))

    assert tree_state(top) == before


@pytest.mark.parametrize("change", ["write_file", "write_link"])
def test_a_folder_is_never_replaced(change: str, top: Path, tree: Worktree) -> None:
    before = tree_state(top)
    with pytest.raises(OSError):
        CHANGES[change](tree, b"src")

    assert tree_state(top) == before


# Removing


def test_a_file_or_link_is_removed(top: Path, tree: Worktree) -> None:
    (top / "link").symlink_to("src")
    assert remove(tree, b"src/file")
    assert remove(tree, b"link")

    assert files_below(top) == ["file"]
    assert (top / "src").is_dir()


def test_what_is_gone_cannot_be_removed(top: Path, tree: Worktree) -> None:
    found = (top / "file").stat()
    for path in (b"gone", b"gone/too", b"file/below"):
        assert not tree.remove_file(path, found)

    assert files_below(top) == ["file", "src/file"]


def test_a_folder_is_not_removed_as_a_file(top: Path, tree: Worktree) -> None:
    with pytest.raises(OSError):
        remove(tree, b"src")

    assert (top / "src/file").exists()


def test_only_an_empty_folder_is_removed(top: Path, tree: Worktree) -> None:
    (top / "empty").mkdir()

    assert tree.remove_folder(b"empty")
    assert tree.remove_folder(b"gone")
    assert not tree.remove_folder(b"src")
    assert not tree.remove_folder(b"file")
    assert files_below(top) == ["file", "src/file"]


def test_a_folder_can_be_removed_after_its_last_file(top: Path, tree: Worktree) -> None:
    assert remove(tree, b"src/file")

    assert tree.remove_folder(b"src")
    write(tree, b"src/file")
    assert (top / "src/file").read_bytes() == b"new"


def test_a_folder_that_cannot_be_removed_for_another_reason_is_an_error(
    top: Path, tree: Worktree
) -> None:
    (top / "empty").mkdir()

    with failing("rmdir"), pytest.raises(OSError):
        tree.remove_folder(b"empty")


def test_half_written_files_of_a_killed_rollback_are_known_by_its_name(
    top: Path, tree: Worktree
) -> None:
    file, link, folder = (b".ckpt-tmp-" + 24 * n for n in (b"a", b"b", b"c"))
    (top / "src" / os.fsdecode(file)).write_bytes(b"half")
    (top / os.fsdecode(link)).symlink_to("../outside/file")
    (top / os.fsdecode(folder)).mkdir()
    (top / ".ckpt-tmp-mine").write_bytes(b"somebody's")
    (top / ".ckpt-tmp-0123456789abcdef").write_bytes(b"somebody's")

    for place in (b"src", b"", b"gone"):
        tree.clear_unfinished(place)

    assert os.listdir(top / "src") == ["file"]
    left = {".ckpt-tmp-mine", ".ckpt-tmp-0123456789abcdef", os.fsdecode(folder)}
    assert {*os.listdir(top)} == {*left, "file", "src"}


# Path safety


def test_nothing_is_written_into_a_git_dir_of_another_name(top: Path) -> None:
    (top / "meta").mkdir()

    with Worktree(os.fsencode(top), [str(top / "meta")]) as tree, pytest.raises(UnsafePath):
        tree.write_file(b"meta/config", [b"hostile"], 0o644, None)

    assert os.listdir(top / "meta") == []


@pytest.mark.parametrize("path", HOSTILE)
@pytest.mark.parametrize("change", CHANGES)
def test_a_hostile_path_changes_nothing(
    change: str, path: bytes, top: Path, tree: Worktree
) -> None:
    for folder in (".git", "src/.git/hooks"):
        (top / folder).mkdir(parents=True)
    before = tree_state(top.parent)

    try:
        CHANGES[change](tree, path)
    except UnsafePath as error:
        assert error.message.startswith("refusing to touch")
    else:
        assert change == "remove_folder", "there it counts as gone"
    assert tree_state(top.parent) == before


@pytest.mark.parametrize(
    "path", [b"link/file", b"link/new", b"link/empty", b"src/link/file", b"link/empty/deep/file"]
)
@pytest.mark.parametrize("change", CHANGES)
def test_nothing_changes_behind_a_link(change: str, path: bytes, top: Path, tree: Worktree) -> None:
    (top / "link").symlink_to(top.parent / "outside")
    (top / "src/link").symlink_to("../../outside")
    before = tree_state(top.parent)

    try:
        CHANGES[change](tree, path)
    except (UnsafePath, NotADirectoryError):
        pass
    else:
        assert change in ("remove_file", "remove_folder"), "there it counts as gone"
    assert tree_state(top.parent) == before


def test_a_link_to_the_inside_is_not_followed_either(top: Path, tree: Worktree) -> None:
    (top / "link").symlink_to("src")

    with pytest.raises((UnsafePath, NotADirectoryError)):
        write(tree, b"link/file")
    assert (top / "src/file").read_bytes() == b"old"


def test_a_link_swapped_in_between_two_calls_sends_nothing_elsewhere(
    top: Path, tree: Worktree
) -> None:
    assert tree.lstat(b"src/file") is not None
    (top / "src").rename(top / "moved")
    (top / "src").symlink_to("../outside")
    write(tree, b"src/file")

    assert (top.parent / "outside/file").read_bytes() == b"precious"
    assert (top / "moved/file").read_bytes() == b"new"


def test_a_link_swapped_in_while_a_folder_is_made_sends_nothing_elsewhere(
    top: Path, tree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir

    def faster(path: bytes, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        os.symlink(top.parent / "outside", path, dir_fd=dir_fd)
        real(path, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", faster)
    with pytest.raises((UnsafePath, NotADirectoryError)):
        write(tree, b"new/file")
    assert (top.parent / "outside/file").read_bytes() == b"precious"


def test_a_refusal_leaves_no_handle_open(top: Path, tree: Worktree) -> None:
    before = len(os.listdir("/dev/fd"))
    for path in (b"src/../x/y", b"a\0b/c", b"file/x/y", b"gone/x/y"):
        with pytest.raises((UnsafePath, OSError)):
            tree.open(path)

    assert len(os.listdir("/dev/fd")) == before


def test_closing_leaves_no_handle_open(top: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    with Worktree(os.fsencode(top)) as opened:
        opened.lstat(b"src/file")
        write(opened, b"a/b/c")

    assert len(os.listdir("/dev/fd")) == before


# Looking


def test_what_is_there_is_seen_without_following_links(top: Path, tree: Worktree) -> None:
    (top / "link").symlink_to("../outside")

    assert tree.lstat(b"file") == (top / "file").stat()
    assert tree.lstat(b"link") == (top / "link").lstat()
    for path in (b"gone", b"gone/too", b"file/below", b"link/file"):
        assert tree.lstat(path) is None


def test_the_names_in_a_folder(top: Path, tree: Worktree) -> None:
    with open(os.path.join(os.fsencode(top), b"src/caf\xe9"), "wb"):
        pass
    (top / "link").symlink_to("../outside")

    assert sorted(tree.names(b"src")) == [b"caf\xe9", b"file"]
    assert sorted(tree.names(b"")) == [b"file", b"link", b"src"]
    for folder in (b"gone", b"file", b"link"):
        assert tree.names(folder) == []


def test_a_pipe_is_not_waited_for(top: Path, tree: Worktree) -> None:
    os.mkfifo(top / "pipe")

    with tree.open(b"pipe") as file:
        assert file.read() == b""


# Durability


def test_files_and_folders_are_made_durable(top: Path, tree: Worktree) -> None:
    with observed() as seen:
        tree.sync(b"src/file")
        tree.sync(b"src")
        tree.sync(b"")

    assert seen == [("fsync", "src/file"), ("fsync-dir", "src"), ("fsync-dir", ".")]


def test_what_is_gone_or_a_link_needs_no_flush(top: Path, tree: Worktree) -> None:
    (top / "link").symlink_to("../outside")
    with observed() as seen:
        for path in (b"gone", b"gone/too", b"link", b"link/file"):
            tree.sync(path)

    assert seen == []


def test_a_flush_that_fails_is_an_error(top: Path, tree: Worktree) -> None:
    with failing("fsync"), pytest.raises(OSError):
        tree.sync(b"file")
