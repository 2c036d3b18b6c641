# SPDX-License-Identifier: MIT
"""What a scan takes, what it leaves and why, and which folders it never opens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from byhand import git_dir, worktree

from ckpt.git.rules import IgnoreStack, parse
from ckpt.models import SkipReason
from ckpt.paths import read_plain_file
from ckpt.worktree.scan import Deadline, Scan, ScanRules, scan


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return tmp_path


def put(top: Path, *paths: str, data: str = "x") -> None:
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(data)


def patterns(*lines: str) -> IgnoreStack:
    return IgnoreStack.root(parse("\n".join(lines).encode()))


def scanned(top: Path, **rules: Any) -> Scan:
    return scan(os.fsencode(top), ScanRules(**rules))


def taken(top: Path, **rules: Any) -> list[str]:
    return sorted(map(os.fsdecode, scanned(top, **rules).files))


def skipped(top: Path, **rules: Any) -> dict[str, str]:
    return {os.fsdecode(p): str(r) for p, r in scanned(top, **rules).skipped.items()}


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
    name = ".ckpt-tmp-0123456789abcdef-fedcba9876543210"
    put(top, name, f"src/{name}", "src/a", f"logs/{name}", "logs/b")
    rollback = b"0123456789abcdef"
    found = scanned(top, include_paths=(b"logs",), force=(b"src",), unfinished=rollback)

    assert sorted(found.files) == [b"logs/b", b"src/a"]
    assert found.skipped == {}
    assert found.unsure == {b"", b"src", b"logs"}


@pytest.mark.parametrize("rollback", [None, b"", b"fedcba9876543210"])
def test_those_of_no_rollback_or_of_another_are_files_like_any(
    rollback: bytes | None, top: Path
) -> None:
    names = [".ckpt-tmp-0123456789abcdef", ".ckpt-tmp-0123456789abcdef-fedcba9876543210"]
    put(top, *names, *(f"logs/{name}" for name in names), *(f"{name}-x/a" for name in names))
    found = taken(top, include_paths=(b"logs",), force=(b"logs",), unfinished=rollback)

    assert len(found) == 6


# Ignoring


def test_an_ignored_folder_is_never_opened(top: Path, listed: list[str]) -> None:
    put(top, ".gitignore", data="build/\n")
    put(top, "build/deep/x", "src/y")

    assert taken(top) == [".gitignore", "src/y"]
    assert sorted(listed) == [".", "src"]


def test_tracked_files_in_an_ignored_folder_are_taken_without_opening_it(
    top: Path, listed: list[str]
) -> None:
    put(top, ".gitignore", data="build/\n")
    put(top, "build/deep/tracked", "build/untracked", "build/run.sh")
    tracked = (b"build/deep/tracked", b"build/gone", b"build/run.sh", b"other")

    assert taken(top, tracked=tracked) == [".gitignore", "build/deep/tracked", "build/run.sh"]
    assert listed == ["."]


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


def test_a_denied_folder_is_never_opened_and_gives_up_its_tracked_files(
    top: Path, listed: list[str]
) -> None:
    put(top, "node_modules/deep/x", "node_modules/tracked", "src/node_modules/y")
    rules: dict[str, Any] = {
        "deny": patterns("node_modules/"),
        "tracked": (b"node_modules/tracked",),
    }
    found = scanned(top, **rules)

    assert set(found.files) == {b"node_modules/tracked"}
    assert set(found.skipped) == {b"node_modules", b"src/node_modules"}
    assert set(found.skipped.values()) == {SkipReason.DENIED}
    assert sorted(listed) == [".", "src"]


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


def test_a_folder_that_cannot_be_listed_is_unreadable_and_gives_up_its_tracked_files(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(top, "src/tracked", "src/untracked", "a")
    refusing(monkeypatch, "scandir", "/src")
    found = scanned(top, tracked=(b"src/tracked",))

    assert set(found.files) == {b"a", b"src/tracked"}
    assert found.skipped == {b"src": SkipReason.UNREADABLE}


def test_a_top_that_cannot_be_listed_is_unreadable(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(top, "a", "b/c", "d")
    refusing(monkeypatch, "scandir", "/" + top.name + "/")
    found = scanned(top, tracked=(b"a", b"b/c"))

    assert set(found.files) == {b"a", b"b/c"}
    assert found.skipped == {b"": SkipReason.UNREADABLE}


def test_a_tracked_file_that_cannot_be_looked_at_is_unreadable(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(top, ".gitignore", data="build/\n")
    put(top, "build/tracked")
    refusing(monkeypatch, "lstat", "build/tracked")

    assert skipped(top, tracked=(b"build/tracked",)) == {"build/tracked": "unreadable"}


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

    assert found.gitlinks == [b"sub"]
    assert (found.files, found.skipped) == ({}, {})
    assert listed == ["."]


def test_the_folder_of_a_submodule_is_looked_into_however_late_it_is(top: Path) -> None:
    put(top, "sub/a", "sub/deep/b", "new/c")
    (top / "empty").mkdir()
    rules = ScanRules(gitlinks=frozenset([b"empty", b"sub"]))
    found = scan(os.fsencode(top), rules, deadline=Deadline(0))

    assert set(found.files) == {b"sub/a"}
    assert set(found.skipped) == {b"sub/deep", b"new"}


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


# Included although ignored


# Taken whatever the rules say


def test_a_forced_path_is_taken_whatever_the_rules_say(top: Path) -> None:
    put(top, ".gitignore", data="*.log\nbuild/\n")
    put(top, "a.log", ".env", "build/x", "build/.env")
    put(top, "big", data="12345")
    rules: dict[str, Any] = {
        "deny": patterns(".env"),
        "max_file_size": 4,
        "force": (b".env", b"a.log", b"big", b"build"),
    }

    assert taken(top, **rules) == [".env", "a.log", "big", "build/.env", "build/x"]
    assert skipped(top, **rules) == {".gitignore": "oversize"}


def test_a_forced_path_that_cannot_be_listed_is_unreadable(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(top, ".gitignore", data="build/\n")
    put(top, "build/x")
    refusing(monkeypatch, "scandir", "/build")

    assert skipped(top, force=(b"build",)) == {"build": "unreadable"}


@pytest.mark.parametrize("rule", ["include_paths", "force"])
class TestPathsThatAreNamed:
    """They come from settings and plans, and must not lead where a walk would not go."""

    def test_nothing_is_taken_through_a_link(
        self, rule: str, top: Path, tmp_path_factory: Any
    ) -> None:
        outside = tmp_path_factory.mktemp("outside")
        put(outside, "secret", "deep/secret")
        (top / "link").symlink_to(outside)
        put(top, "in/a")
        (top / "in/link").symlink_to(outside)
        paths = (b"link/secret", b"link/deep", b"link/deep/secret", b"in")

        assert taken(top, **{rule: paths}) == ["in/a", "in/link", "link"]

    @pytest.mark.parametrize(
        "path",
        [b"../secret", b"src/../../secret", b".git/config", b"src/.GIT/x", b"", b".", b"./a"],
    )
    def test_nothing_is_taken_outside_the_worktree_or_in_a_git_dir(
        self, rule: str, path: bytes, tmp_path: Path
    ) -> None:
        top = worktree(tmp_path / "repo")
        put(tmp_path, "secret")
        put(top, "src/.GIT/x", "a")

        assert taken(top, **{rule: (path,)}) == ["a"]

    def test_nothing_is_taken_out_of_a_submodule(self, rule: str, top: Path) -> None:
        worktree(top / "sub")
        put(top, "sub/a", "sub/deep/b")
        rules: dict[str, Any] = {rule: (b"sub", b"sub/a", b"sub/deep")}
        found = scanned(top, gitlinks=frozenset([b"sub"]), **rules)

        assert found.gitlinks == [b"sub"]
        assert found.files == {}

    def test_nothing_is_taken_out_of_a_nested_repository(self, rule: str, top: Path) -> None:
        put(top, ".gitignore", data="build/\n")
        worktree(top / "build/lib")
        put(top, "build/lib/a", "build/b")
        rules: dict[str, Any] = {rule: (b"build",)}

        assert taken(top, **rules) == [".gitignore", "build/b"]
        assert skipped(top, **rules) == {"build/lib": "nested"}


# Helpers


def test_only_a_regular_file_is_read(top: Path) -> None:
    put(top, "a", data="text")
    (top / "link").symlink_to("a")
    os.mkfifo(top / "pipe")
    (top / "folder").mkdir()

    assert read_plain_file(os.fsencode(top / "a")) == b"text"
    for name in ("link", "pipe", "folder", "absent"):
        assert read_plain_file(os.fsencode(top / name)) is None
