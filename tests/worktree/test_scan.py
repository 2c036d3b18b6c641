# SPDX-License-Identifier: MIT
"""What a scan takes, what it leaves and why, and which folders it never opens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from byhand import git_dir, worktree

from ckpt.git.rules import IgnoreStack, Rules
from ckpt.paths import read_plain_file
from ckpt.worktree.cache import Folders
from ckpt.worktree.scan import Deadline, Scan, ScanRules, scan


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return tmp_path


def put(top: Path, *paths: str, data: str = "x") -> None:
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(data)


def patterns(*lines: str) -> IgnoreStack:
    return IgnoreStack(Rules("\n".join(lines).encode()))


def scanned(top: Path, deadline: Deadline | None = None, **rules: Any) -> Scan:
    place, folders = os.fsencode(top), Folders({})
    return scan(place, folders, lambda: ScanRules(**rules), lambda _: False, deadline=deadline)


def taken(top: Path, **rules: Any) -> list[str]:
    return sorted(map(os.fsdecode, scanned(top, **rules).files))


def skipped(top: Path, **rules: Any) -> dict[str, str]:
    return left_out(scanned(top, **rules))


def left_out(found: Scan) -> dict[str, str]:
    notes = found.folders.notes().get("skipped", {})
    return {os.fsdecode(path): why.decode() for path, why in notes.items()}


@pytest.fixture
def listed(top: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that are opened, relative to the top."""
    found: list[str] = []
    for name in ("scandir", "listdir"):
        real = getattr(os, name)

        def recording(path: Any, real: Any = real) -> Any:
            found.append(os.path.relpath(os.fsdecode(path), top))
            return real(path)

        monkeypatch.setattr(os, name, recording)
    return found


# Taking


def test_half_written_files_of_a_rollback_are_passed_over(top: Path) -> None:
    name = ".ckpt-tmp-0123456789abcdef01234567"
    put(top, name, f"src/{name}", "src/a", f"logs/{name}", "logs/b")
    found = scanned(top)

    assert sorted(found.files) == [b"logs/b", b"src/a"]
    assert left_out(found) == {}


# Ignoring


def test_an_ignored_folder_is_never_opened(top: Path, listed: list[str]) -> None:
    put(top, ".gitignore", data="build/\n")
    put(top, "build/deep/x", "src/y")

    assert taken(top) == [".gitignore", "src/y"]
    assert sorted(listed) == [".", "src"]


def test_an_ignored_folder_is_opened_only_for_tracked_files(top: Path, listed: list[str]) -> None:
    put(top, ".gitignore", data="build/\n")
    put(top, "build/deep/tracked", "build/untracked", "build/run.sh", "build/other/x", "other/x")
    tracked = (b"build/deep/tracked", b"build/gone", b"build/run.sh", b"other")

    files = [".gitignore", "build/deep/tracked", "build/run.sh", "other/x"]
    assert taken(top, tracked=tracked) == files
    assert sorted(listed) == [".", "build", "build/deep", "other"]


# Links on the way


def test_a_tracked_path_behind_a_link_in_an_ignored_folder_is_a_deletion(
    top: Path, tmp_path_factory: Any
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    put(outside, "x")
    put(top, ".gitignore", data="build/\n")
    put(top, "build/a")
    (top / "build/link").symlink_to(outside)

    assert taken(top, tracked=(b"build/a", b"build/link/x")) == [".gitignore", "build/a"]


# Skipping, with reasons


def test_a_denied_folder_is_opened_only_for_tracked_files(top: Path, listed: list[str]) -> None:
    put(top, "node_modules/deep/x", "node_modules/tracked", "src/node_modules/y")
    rules: dict[str, Any] = {
        "deny": patterns("node_modules/"),
        "tracked": (b"node_modules/tracked",),
    }
    found = scanned(top, **rules)

    assert set(found.files) == {b"node_modules/tracked"}
    assert left_out(found) == {"node_modules": "denied", "src/node_modules": "denied"}
    assert sorted(listed) == [".", "node_modules", "src"]


@pytest.mark.parametrize("name", [".gitmodules", "src/.gitmodules", ".GITMODULES", "gitmod~1"])
@pytest.mark.parametrize("is_tracked", [False, True])
def test_a_link_where_git_accepts_none_is_special(name: str, is_tracked: bool, top: Path) -> None:
    put(top, "a", "src/b")
    (top / name).symlink_to("a")
    tracked = (os.fsencode(name),) if is_tracked else ()

    assert taken(top, tracked=tracked) == ["a", "src/b"]
    assert skipped(top, tracked=tracked) == {name: "special"}


def test_so_is_one_in_a_folder_that_is_not_walked(top: Path) -> None:
    put(top, ".gitignore", data="build/\n")
    put(top, "build/a")
    (top / "build/.gitmodules").symlink_to("a")

    assert taken(top, tracked=(b"build/.gitmodules",)) == [".gitignore"]
    assert skipped(top, tracked=(b"build/.gitmodules",)) == {"build/.gitmodules": "special"}


def refusing(monkeypatch: pytest.MonkeyPatch, call: str, path: str) -> None:
    """Make a system call fail for one path: the tests may run as root, whom nothing stops."""
    real = getattr(os, call)

    def refuse(wanted: Any, *rest: Any, **options: Any) -> Any:
        if os.fsdecode(wanted).endswith(path):
            raise PermissionError(13, "Permission denied", wanted)
        return real(wanted, *rest, **options)

    monkeypatch.setattr(os, call, refuse)


def test_a_folder_that_cannot_be_listed_is_unreadable(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(top, "src/tracked", "src/untracked", "a")
    refusing(monkeypatch, "scandir", "/src")
    found = scanned(top, tracked=(b"src/tracked",))

    assert set(found.files) == {b"a"}
    assert left_out(found) == {"src": "unreadable"}


def test_a_top_that_cannot_be_listed_is_an_error(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, "scandir", "/" + top.name + "/")

    with pytest.raises(PermissionError):
        scanned(top)


# Repositories inside


def test_an_ignored_nested_repository_is_only_ignored(top: Path, listed: list[str]) -> None:
    put(top, ".gitignore", data="vendor/\n")
    worktree(top / "vendor")
    listed.clear()

    assert skipped(top) == {}
    assert listed == ["."]


def test_a_submodule_is_a_gitlink_and_never_opened(top: Path, listed: list[str]) -> None:
    worktree(top / "sub")
    put(top, "sub/a")
    listed.clear()
    found = scanned(top, gitlinks=frozenset([b"sub"]))

    assert found.folders.notes() == {"gitlink": {b"sub": b""}}
    assert found.files == {}
    assert listed == ["."]


def test_the_folder_of_a_submodule_is_looked_into_however_late_it_is(top: Path) -> None:
    put(top, "sub/a", "sub/deep/b", "new/c")
    (top / "empty").mkdir()
    found = scanned(top, Deadline(0), gitlinks=frozenset([b"empty", b"sub"]))

    assert set(found.files) == {b"sub/a"}
    assert left_out(found) == {"sub/deep": "budget", "new": "budget"}


def test_a_git_dir_of_this_repository_inside_its_worktree_is_never_opened(
    top: Path, listed: list[str]
) -> None:
    git_dir(top / "meta/own")
    put(top, "meta/a")
    listed.clear()

    assert taken(top, git_dirs=frozenset([b"meta/own"])) == ["meta/a"]
    assert sorted(listed) == [".", "meta"]


def test_the_git_dir_at_the_top_is_not_looked_into(top: Path, listed: list[str]) -> None:
    worktree(top)
    put(top, "a")
    listed.clear()

    assert taken(top) == ["a"]
    assert listed == ["."]


# Helpers


def test_only_a_regular_file_is_read(top: Path) -> None:
    put(top, "a", data="text")
    (top / "link").symlink_to("a")
    os.mkfifo(top / "pipe")
    (top / "folder").mkdir()

    assert read_plain_file(os.fsencode(top / "a")) == b"text"
    for name in ("link", "pipe", "folder", "absent"):
        assert read_plain_file(os.fsencode(top / name)) is None
