# SPDX-License-Identifier: MIT
"""The scan cache hides no change, whatever happens to files, folders, rules and the index.

A worktree is saved until a save reads nothing any more; then something is changed, and the
next save has to find it. Each of them is compared with a save that knows nothing.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import git
from saving import SETTLED, FrozenTimes, Saver, committed, content, overwrite, paths, write_all

FILES = {
    "top": b"top 1\n",
    "d/one": b"one 1\n",
    "d/two": b"two 1\n",
    "d/e/deep": b"deep 1\n",
    "d/e/deeper": b"deeper 1\n",
    "k/one": b"ONE 1\n",
    "k/two": b"TWO 1\n",
    "other/file": b"other 1\n",
}
UNTRACKED = {"new": b"new 1\n", "d/new": b"d/new 1\n", "fresh/in/file": b"fresh 1\n"}
IGNORED = {"x.log": b"log 1\n", "d/x.log": b"d/log 1\n", "build/out": b"out 1\n"}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = committed(tmp_path / "work", {**FILES, ".gitignore": b"*.log\nbuild/\n"})
    write_all(top, {**UNTRACKED, **IGNORED})
    return top


@pytest.fixture
def saver(top: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Saver]:
    saver = Saver(top, monkeypatch)
    yield saver
    saver.close()


# -- files ---------------------------------------------------------------------------


def set_back(path: Path, status: os.stat_result) -> None:
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("name", ["top", "d/e/deep", "new", "fresh/in/file"])
def test_an_edit_of_the_same_size_with_its_time_set_back_is_found(saver: Saver, name: str) -> None:
    saver.settle()
    path = saver.top / name
    before = path.stat()
    data = bytes(byte ^ 1 for byte in path.read_bytes())
    overwrite(path, data)
    set_back(path, before)

    assert content(saver.top, saver.save(), name) == data
    assert set(saver.read) == {name}


@pytest.mark.parametrize("name", ["top", "d/e/deep", "new"])
def test_a_file_replaced_by_one_of_the_same_size_and_time_is_found(saver: Saver, name: str) -> None:
    saver.settle()
    path = saver.top / name
    before, folder = path.stat(), path.parent.stat()
    data = bytes(byte ^ 1 for byte in path.read_bytes())
    fresh = saver.top / ".git/fresh"
    fresh.write_bytes(data)
    set_back(fresh, before)
    fresh.replace(path)
    set_back(path.parent, folder)

    assert content(saver.top, saver.save(), name) == data


@pytest.mark.parametrize("name", ["top", "d/e/deep", "new", "fresh/in/file"])
def test_an_edit_in_the_tick_in_which_a_file_was_saved_is_found(
    saver: Saver, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = FrozenTimes(monkeypatch)
    path = saver.top / name
    times.freeze(path)
    saver.save(check=False)
    for data in (b"2" * path.stat().st_size, b"3" * path.stat().st_size):
        before = os.lstat(path)
        overwrite(path, data)

        assert os.lstat(path)[:] == before[:]
        assert content(saver.top, saver.save(check=False), name) == data


@pytest.mark.parametrize("folder", [".", "d", "d/e", "fresh/in"])
def test_a_name_that_comes_or_goes_in_the_tick_of_a_save_is_found(
    saver: Saver, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = FrozenTimes(monkeypatch)
    times.freeze(saver.top / folder)
    name = os.path.normpath(f"{folder}/guest")

    assert name not in paths(saver.top, saver.save(check=False))
    (saver.top / name).write_bytes(b"guest\n")
    assert name in paths(saver.top, saver.save(check=False))
    (saver.top / name).unlink()
    assert name not in paths(saver.top, saver.save(check=False))


def test_an_ignore_file_edited_in_the_tick_of_a_save_counts(
    saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = FrozenTimes(monkeypatch)
    write_all(saver.top, {"d/.gitignore": b"one*\n", "d/one-new": b"1\n", "d/e/two-new": b"2\n"})
    times.freeze(saver.top / "d/.gitignore")

    assert "d/one-new" not in paths(saver.top, saver.save(check=False))
    overwrite(saver.top / "d/.gitignore", b"two*\n")
    found = paths(saver.top, saver.save(check=False))
    assert "d/one-new" in found
    assert "d/e/two-new" not in found


@pytest.mark.parametrize("name", ["top", "d/one", "new"])
@pytest.mark.parametrize("bits", [0o755, 0o600])
def test_other_permission_bits_are_found(saver: Saver, name: str, bits: int) -> None:
    before = saver.settle()
    (saver.top / name).chmod(bits)

    assert before.commit != saver.save().commit
    is_executable = "100755" in git("ls-tree", saver.save().commit, name, cwd=saver.top)
    assert is_executable == (bits == 0o755)


# -- kinds of paths ---------------------------------------------------------------------


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def test_two_folders_that_change_places_are_found(saver: Saver) -> None:
    saver.settle()
    top = saver.top.stat()
    swap(saver.top / "d", saver.top / "k")
    set_back(saver.top, top)
    saved = saver.save()

    assert content(saver.top, saved, "k/one") == b"one 1\n"
    assert content(saver.top, saved, "d/one") == b"ONE 1\n"
    assert content(saver.top, saved, "k/e/deep") == b"deep 1\n"


@pytest.mark.parametrize("folder", ["d", "d/e", "fresh/in"])
def test_a_link_to_the_very_folder_that_it_replaces_is_found(saver: Saver, folder: str) -> None:
    saver.settle()
    before = paths(saver.top, saver.save())
    place, elsewhere = saver.top / folder, saver.top.with_name("elsewhere")
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    saved = saver.save()

    assert content(saver.top, saved, folder) == os.fsencode(elsewhere)
    place.unlink()
    elsewhere.rename(place)
    assert paths(saver.top, saver.save()) == before


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_bytes(b"inside\n")


def replace_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("elsewhere")


def replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("name", ["top", "d/one", "d/new", "d/.gitignore"])
@pytest.mark.parametrize(
    "change", [Path.unlink, replace_by_folder, replace_by_link, replace_by_fifo]
)
def test_a_file_that_becomes_something_else_is_found(
    saver: Saver, name: str, change: Callable[[Path], None]
) -> None:
    (saver.top / "d/.gitignore").write_bytes(b"*.tmp\n")
    saver.settle()
    change(saver.top / name)
    saved = saver.save()

    assert content(saver.top, saved, name) == (b"elsewhere" if change is replace_by_link else None)
    assert (f"{name}/inside" in paths(saver.top, saved)) == (change is replace_by_folder)


@pytest.mark.parametrize("folder", ["d", "d/e", "fresh"])
def test_a_folder_becomes_a_repository_and_ceases_to_be_one(saver: Saver, folder: str) -> None:
    saver.settle()
    before = paths(saver.top, saver.save())
    place = saver.top / folder
    git("init", "-q", cwd=place)
    saved = saver.save()
    assert [state.path for state in saved.nested] == [folder]
    (place / ".git/HEAD").rename(place / ".git/HEAD.away")
    assert not saver.save().nested
    (place / ".git/HEAD.away").rename(place / ".git/HEAD")
    assert saver.save().nested
    shutil.rmtree(place / ".git")

    assert paths(saver.top, saver.save()) == before


def test_a_submodule_that_moves_on_is_found(saver: Saver) -> None:
    origin = saver.top.with_name("origin")
    git("clone", "-q", str(saver.top), str(origin), cwd=saver.top)
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(origin), "sub",
        cwd=saver.top)  # fmt: skip
    saver.save()
    time.sleep(SETTLED)
    saver.save()
    git("commit", "-q", "--allow-empty", "-m", "second", cwd=saver.top / "sub")
    head = git("rev-parse", "HEAD", cwd=saver.top / "sub").strip()

    assert head in git("ls-tree", saver.save().commit, "sub", cwd=saver.top)


def test_a_file_that_cannot_be_read_for_a_while(
    saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The superuser can read everything, so that it is the call that fails."""
    saver.settle()
    locked = os.fsencode(saver.top / "d/one")
    opened = os.open

    def open_file(path: Any, *rest: Any, **options: Any) -> int:
        if path == locked:
            raise PermissionError(13, "locked")
        return opened(path, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", open_file)
        overwrite(saver.top / "d/one", b"one 2\n")
        for _ in range(2):
            time.sleep(SETTLED)
            saved = saver.save(check=False)
            assert saved.partial
            assert "d/one" not in paths(saver.top, saved)

    saved = saver.save()
    assert not saved.partial
    assert content(saver.top, saved, "d/one") == b"one 2\n"


# -- rules ------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [".gitignore", "d/.gitignore", "d/e/.gitignore"])
@pytest.mark.parametrize("kind", ["tracked", "untracked", "ignored by itself"])
def test_a_changed_ignore_file_decides_anew_on_all_below_it(
    saver: Saver, file: str, kind: str
) -> None:
    rule = b".gitignore\n" if kind == "ignored by itself" else b"\n"
    write_all(saver.top, {"d/e/x1": b"1\n", "d/e/y1": b"1\n", "d/e/z/x1": b"1\n"})
    (saver.top / file).write_bytes(rule + b"x1\n")
    git("rm", "-q", "--cached", ".gitignore", cwd=saver.top)
    if kind == "tracked":
        git("add", file, cwd=saver.top)
    saver.settle()
    overwrite(saver.top / file, rule + b"y1\n")
    found = paths(saver.top, saver.save())

    assert {"d/e/x1", "d/e/z/x1"} <= found
    assert "d/e/y1" not in found
    (saver.top / file).unlink()
    assert "d/e/y1" in paths(saver.top, saver.save())


def test_info_exclude_counts_when_it_changes(saver: Saver) -> None:
    saver.settle()
    (saver.top / ".git/info/exclude").write_bytes(b"new\n")
    assert not {"new", "d/new"} & paths(saver.top, saver.save())
    (saver.top / ".git/info/exclude").unlink()
    assert {"new", "d/new"} <= paths(saver.top, saver.save())


def test_conversions_count_when_they_change(saver: Saver, isolated: Path) -> None:
    write_all(saver.top, {"d/one": b"1\r\n2\r\n", "k/one": b"1\r\n2\r\n"})
    git("add", "-A", cwd=saver.top)
    overwrite(saver.top / "d/one", b"1\r\n3\r\n")
    saver.settle()

    def stored() -> bytes | None:
        return content(saver.top, saver.save(), "d/one")

    assert stored() == b"1\r\n3\r\n"
    (saver.top / "d/.gitattributes").write_bytes(b"* text\n")
    assert stored() == b"1\n3\n"
    (saver.top / "d/.gitattributes").write_bytes(b"* -txt\n")
    assert stored() == b"1\r\n3\r\n"
    (saver.top / ".git/info/attributes").write_bytes(b"* text\n")
    assert stored() == b"1\n3\n"
    (saver.top / ".git/info/attributes").write_bytes(b"* filter=up\n")
    assert stored() == b"1\r\n3\r\n"
    git("config", "filter.up.clean", "tr 3 4", cwd=saver.top)
    assert stored() == b"1\r\n4\r\n"
    git("config", "filter.up.clean", "tr 3 5", cwd=saver.top)
    assert stored() == b"1\r\n5\r\n"
    (saver.top / ".git/info/attributes").unlink()
    (isolated / "attributes").write_bytes(b"d/* text\n")
    git("config", "core.attributesFile", "~/attributes", cwd=saver.top)
    assert stored() == b"1\n3\n"


def test_settings_count_when_they_change(saver: Saver) -> None:
    saver.settle()
    saver.start_anew(max_file_size=7)
    saved = saver.save()
    assert "d/new" not in paths(saver.top, saved)
    assert "new" in paths(saver.top, saved)
    saver.start_anew(deny=["new"])
    assert not {"new", "d/new"} & paths(saver.top, saver.save())
    saver.start_anew(include=["*.log"])
    assert {"x.log", "d/x.log"} <= paths(saver.top, saver.save())
    saver.start_anew()
    assert not {"x.log", "d/x.log"} & paths(saver.top, saver.save())
    assert {"new", "d/new"} <= paths(saver.top, saver.save())


# -- the index --------------------------------------------------------------------------

GIT_COMMANDS = [
    ["add", "-A"],
    ["add", "-f", "d/x.log", "build"],
    ["add", "-N", "new"],
    ["rm", "-q", "--cached", "-r", "d"],
    ["rm", "-q", "-r", "-f", "d"],
    ["mv", "d", "moved"],
    ["commit", "-q", "-a", "-m", "second"],
    ["commit", "-q", "--allow-empty", "-m", "second"],
    ["stash", "-q", "-u"],
    ["reset", "-q", "--hard"],
    ["read-tree", "--empty"],
    ["update-index", "--assume-unchanged", "d/one"],
    ["update-index", "--skip-worktree", "d/one"],
    ["update-index", "--chmod=+x", "d/one"],
    ["update-index", "--index-version", "4"],
    ["-c", "index.skipHash=true", "add", "-A"],
    ["sparse-checkout", "set", "k"],
    ["checkout", "-q", "-b", "branch"],
    ["checkout", "-q", "--detach"],
]


@pytest.mark.parametrize("words", GIT_COMMANDS, ids=" ".join)
def test_what_git_does_to_the_index_is_found(saver: Saver, words: list[str]) -> None:
    overwrite(saver.top / "k/one", b"edited\n")
    saver.settle()
    git(*words, cwd=saver.top)
    saver.save()
    (saver.top / "d").mkdir(exist_ok=True)
    write_all(saver.top, {"d/one": b"one 2\n", "d/x.log": b"log 2\n"})
    time.sleep(SETTLED)
    saver.save()
    git("reset", "-q", cwd=saver.top)
    saver.save()
