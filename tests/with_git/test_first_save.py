# SPDX-License-Identifier: MIT
"""The first save of a worktree goes by git's index, and finds what a long look would find.

Every save here is compared with one that reads all files.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers import fsck, git, loose_object, verified
from saving import FrozenTimes, Saver, content, overwrite, paths, write_all

FILES = {
    "a": b"a 1\n",
    "d/x": b"x 1\n",
    "d/e/y": b"y 1\n",
    "d/e/z": b"z 1\n",
    "k/l/m/n": b"n 1\n",
    "node_modules/kept": b"kept 1\n",
    "build/out": b"out 1\n",
    "run": b"#!/bin/sh\n",
    ".gitignore": b"*.log\nbuild/\n",
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "work"
    top.mkdir()
    git("init", "-q", cwd=top)
    write_all(top, FILES)
    (top / "run").chmod(0o755)
    (top / "link").symlink_to("a")
    commit(top)
    return top


def commit(top: Path) -> None:
    """Commit everything, so that the index is surely younger than the files."""
    time.sleep(0.03)
    git("add", "-A", "-f", cwd=top)
    git("commit", "-q", "-m", "more", cwd=top)
    time.sleep(0.03)


@pytest.fixture
def saver(top: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Saver]:
    saver = Saver(top, monkeypatch)
    yield saver
    saver.close()


@pytest.mark.parametrize(
    "words",
    [
        ["update-index", "--index-version", "4"],
        ["update-index", "--assume-unchanged", "d/x"],
        ["rm", "-q", "--cached", "-r", "d/e"],
        ["read-tree", "--empty"],
        ["reset", "-q"],
        ["update-index", "--refresh"],
    ],
    ids=" ".join,
)
def test_every_kind_of_index_serves(saver: Saver, words: list[str]) -> None:
    git(*words, cwd=saver.top)
    overwrite(saver.top / "d/x", b"x 2\n")

    assert content(saver.top, saver.save(), "d/x") == b"x 2\n"


def remove_folder(top: Path) -> None:
    shutil.rmtree(top / "d/e")


def untracked_beside(top: Path) -> None:
    write_all(top, {"d/new": b"1\n", "d/e/new.log": b"2\n"})
    write_all(top, {"build/new": b"3\n", "build/b/n": b"4\n", "node_modules/new": b"5\n"})


def file_for_folder(top: Path) -> None:
    shutil.rmtree(top / "d/e")
    (top / "d/e").write_bytes(b"a file\n")


def folder_for_file(top: Path) -> None:
    (top / "d/x").unlink()
    write_all(top, {"d/x/inside": b"1\n"})


def link_for_file(top: Path) -> None:
    (top / "d/x").unlink()
    (top / "d/x").symlink_to("e/y")


def fifo_for_file(top: Path) -> None:
    (top / "d/x").unlink()
    os.mkfifo(top / "d/x")


def other_link(top: Path) -> None:
    (top / "link").unlink()
    (top / "link").symlink_to("b")


def file_for_link(top: Path) -> None:
    (top / "link").unlink()
    (top / "link").write_bytes(b"a")


def nested_repository(top: Path) -> None:
    git("init", "-q", cwd=top / "d")


def git_dir_look_alike(top: Path) -> None:
    write_all(top, {"d/e/HEAD": b"1\n", "d/e/objects": b"2\n", "d/e/refs": b"3\n"})
    commit(top)


def empty_folders(top: Path) -> None:
    (top / "hollow/inner").mkdir(parents=True)
    (top / "d/e/hollow").mkdir()


def hollowed_folder(top: Path) -> None:
    (top / "k/l/m/n").unlink()


def other_rules(top: Path) -> None:
    overwrite(top / ".gitignore", b"d/e\n*.log\n")
    write_all(top, {"d/e/new": b"1\n", "k/x.log": b"2\n", "build/n": b"3\n"})


def rules_of_same_size(top: Path) -> None:
    before = (top / ".gitignore").stat()
    write_all(top, {"k/x.log": b"2\n", "k/x.lag": b"2\n"})
    overwrite(top / ".gitignore", b"*.lag\nbuild/\n")
    os.utime(top / ".gitignore", ns=(before.st_atime_ns, before.st_mtime_ns))


def ignored_folder(top: Path) -> None:
    write_all(top, {"k/.gitignore": b"l\n", "k/l/new": b"1\n", "k/l/m/new": b"2\n"})


def attributes(top: Path) -> None:
    write_all(top, {"d/.gitattributes": b"* text eol=crlf\n", "d/x": b"1\r\n2\r\n"})


def renamed_folder(top: Path) -> None:
    (top / "d").rename(top / "dd")


def swapped_folders(top: Path) -> None:
    (top / "d").rename(top / "aside")
    (top / "k").rename(top / "d")
    (top / "aside").rename(top / "k")


def other_bits(top: Path) -> None:
    (top / "run").chmod(0o644)
    (top / "d/x").chmod(0o755)
    (top / "a").chmod(0o600)
    (top / "d/e").chmod(0o700)


def intended(top: Path) -> None:
    write_all(top, {"d/new": b"new\n"})
    git("add", "-N", "d/new", cwd=top)


def conflict(top: Path) -> None:
    git("checkout", "-q", "-b", "other", cwd=top)
    write_all(top, {"d/x": b"x other\n"})
    git("commit", "-q", "-a", "-m", "other", cwd=top)
    git("checkout", "-q", "main", cwd=top)
    write_all(top, {"d/x": b"x main\n"})
    git("commit", "-q", "-a", "-m", "main", cwd=top)
    with pytest.raises(AssertionError):
        git("merge", "-q", "other", cwd=top)


@pytest.mark.parametrize(
    "change",
    [
        remove_folder,
        untracked_beside,
        file_for_folder,
        folder_for_file,
        link_for_file,
        fifo_for_file,
        other_link,
        file_for_link,
        nested_repository,
        git_dir_look_alike,
        empty_folders,
        hollowed_folder,
        other_rules,
        rules_of_same_size,
        ignored_folder,
        attributes,
        renamed_folder,
        swapped_folders,
        other_bits,
        intended,
        conflict,
    ],
)
def test_what_is_otherwise_than_the_index_says_is_found(
    saver: Saver, change: Callable[[Path], None]
) -> None:
    change(saver.top)
    time.sleep(0.03)
    saver.save()
    saver.save()

    assert fsck(saver.top) == []


@pytest.mark.parametrize("name", ["a", "d/e/y"])
def test_an_entry_as_young_as_the_index_proves_nothing(
    saver: Saver, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may have changed in the tick in which git looked at it."""
    times = FrozenTimes(monkeypatch)
    path = saver.top / name
    times.freeze(path)
    os.utime(saver.top / ".git/index", ns=(0, path.stat().st_mtime_ns))
    overwrite(path, b"?" * path.stat().st_size)

    assert content(saver.top, saver.save(check=False), name) == b"?" * path.stat().st_size


@pytest.mark.parametrize("name", ["a", "d/e/y"])
def test_an_edit_in_the_tick_of_the_first_save_is_found_by_the_second(
    saver: Saver, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = FrozenTimes(monkeypatch)
    path = saver.top / name
    times.freeze(path)
    saver.save(check=False)
    overwrite(path, b"?" * path.stat().st_size)

    assert content(saver.top, saver.save(check=False), name) == b"?" * path.stat().st_size


@pytest.mark.parametrize("rule", ["text eol=crlf", "filter=double"])
def test_a_file_that_was_checked_out_by_rules_that_are_gone_is_read(
    saver: Saver, rule: str
) -> None:
    """Git takes it for unchanged; but its bytes are not those of its blob."""
    git("config", "filter.double.clean", "uniq", cwd=saver.top)
    git("config", "filter.double.smudge", "sed p", cwd=saver.top)
    write_all(saver.top, {".gitattributes": f"d/x {rule}\n".encode(), "d/x": b"1\n2\n"})
    git("add", "-A", cwd=saver.top)
    git("commit", "-q", "-m", "rules", cwd=saver.top)
    (saver.top / "d/x").unlink()
    git("checkout", "-q", "--", "d/x", cwd=saver.top)
    data = (saver.top / "d/x").read_bytes()
    os.utime(saver.top / "d/x", (1e9, 1e9))
    git("update-index", "--refresh", cwd=saver.top)
    git("rm", "-q", "-f", ".gitattributes", cwd=saver.top)
    time.sleep(0.03)

    assert data != b"1\n2\n"
    assert git("status", "--porcelain", "d/x", cwd=saver.top) == ""
    saved = saver.save()
    assert content(saver.top, saved, "d/x") == data
    assert "d/x" in saver.read


@pytest.mark.parametrize("folder", ["", "d"])
def test_trees_that_the_index_names_and_nobody_has_are_written(saver: Saver, folder: str) -> None:
    write_all(saver.top, {"d/e/new": b"new\n"})
    git("add", "-A", cwd=saver.top)
    tree = git("write-tree", cwd=saver.top).strip()
    if folder:  # then the tree around it is not named any more
        write_all(saver.top, {"a": b"a 2\n"})
        git("add", "-A", cwd=saver.top)
    time.sleep(0.03)
    gone = git("rev-parse", f"{tree}:{folder}", cwd=saver.top).strip()
    os.unlink(loose_object(saver.top / ".git", gone))
    saved = saver.save()

    assert "d/e/new" in paths(saver.top, saved)
    assert fsck(saver.top) == []


def test_blobs_that_the_index_names_and_nobody_has_are_written(saver: Saver) -> None:
    write_all(saver.top, {"d/e/new": b"new\n"})
    git("add", "-A", cwd=saver.top)
    time.sleep(0.03)
    blob = git("hash-object", "d/e/new", cwd=saver.top).strip()
    os.unlink(loose_object(saver.top / ".git", blob))

    assert content(saver.top, saver.save(), "d/e/new") == b"new\n"


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda _: b"",
    "zeros": lambda data: bytes(len(data)),
    "ends in zeros": lambda data: data[:4096] + bytes(len(data[4096:])),
    "cut short": lambda data: data[: len(data) // 4096 * 4096],
}


DAMAGED = [(path, damage) for path in ("", "d", "d/e", "d/e/y") for damage in ("emptied", "zeros")]


@pytest.mark.parametrize(("path", "damage"), DAMAGED)
def test_what_a_power_cut_left_of_what_git_wrote_is_written_anew(
    saver: Saver, path: str, damage: str
) -> None:
    write_all(saver.top, {"noise": os.urandom(9000)})
    commit(saver.top)
    name = git("rev-parse", f"HEAD:{path}", cwd=saver.top).strip()
    file = Path(loose_object(saver.top / ".git", name))
    data = file.read_bytes()
    file.chmod(0o644)
    file.write_bytes(DAMAGES[damage](data))
    saver.save()

    assert verified(saver.top) == []
    assert fsck(saver.top) == []
