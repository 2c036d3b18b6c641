# SPDX-License-Identifier: MIT
"""What a scan takes, what it leaves and why, and which folders it never opens."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from byhand import git_dir, worktree

from ckpt.git.rules import IgnoreStack, parse
from ckpt.models import SkipReason
from ckpt.paths import is_nested_repository, read_plain_file
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


def test_files_and_links_are_taken_with_their_stat_data(top: Path) -> None:
    put(top, "a", "deep/er/b")
    (top / "link").symlink_to("nowhere")
    (top / "to-folder").symlink_to("deep")
    found = scanned(top)

    assert set(found.files) == {b"a", b"deep/er/b", b"link", b"to-folder"}
    assert found.files[b"a"].st_ino == (top / "a").stat().st_ino
    assert found.files[b"link"].st_mode == (top / "link").lstat().st_mode
    assert found.skipped == {}


def test_names_of_any_bytes_are_taken(top: Path) -> None:
    names = {b"caf\xe9", b"two\nlines", b" ", b"\xff\xfe", b"-rf"}
    for name in names:
        with open(os.path.join(os.fsencode(top), name), "wb"):
            pass

    assert set(scanned(top).files) == names


def test_empty_folders_are_listed(top: Path) -> None:
    (top / "empty/inner").mkdir(parents=True)
    put(top, "full/x")

    assert scanned(top).empty_folders == [b"empty/inner"]


def test_an_empty_worktree_is_no_empty_folder(top: Path) -> None:
    assert scanned(top).empty_folders == []


def test_a_worktree_that_is_gone_holds_nothing(top: Path) -> None:
    assert scanned(top / "gone") == Scan()


def test_progress_is_told_folder_by_folder(top: Path) -> None:
    put(top, "a", "b/c")
    told: list[int] = []
    scan(os.fsencode(top), ScanRules(), lambda files, bytes: told.append(files))

    assert told == [1, 2]


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


def test_a_file_that_only_resembles_a_half_written_one_is_taken(top: Path) -> None:
    name, rollback = ".ckpt-tmp-0123456789abcdef-fedcba9876543210", b"0123456789abcdef"
    put(top, ".ckpt-tmp-mine", ".ckpt-tmp-0123456789abcdef", f"x{name}", f"{name}0")
    put(top, name, f"src/{name}/a")

    assert len(taken(top, unfinished=rollback)) == 5
    assert len(taken(top, unfinished=rollback, tracked=(name.encode(),))) == 6


# Ignoring


def test_ignored_files_are_not_taken(top: Path) -> None:
    put(top, ".gitignore", data="*.log\n/build\n")
    put(top, "a.log", "src/b.log", "build/x", "src/build/y")

    assert taken(top) == [".gitignore", "src/build/y"]


def test_the_rules_given_count_below_those_of_the_worktree(top: Path) -> None:
    put(top, ".gitignore", data="!keep.log\n")
    put(top, "a.log", "keep.log")

    assert taken(top, ignore=patterns("*.log")) == [".gitignore", "keep.log"]


def test_a_gitignore_counts_from_its_folder_down(top: Path) -> None:
    put(top, "src/.gitignore", data="/x\n")
    put(top, "x", "src/x", "src/deep/x")

    assert taken(top) == ["src/.gitignore", "src/deep/x", "x"]


def test_a_gitignore_that_is_a_link_is_not_read(top: Path) -> None:
    put(top, "rules", data="a\n")
    (top / ".gitignore").symlink_to("rules")
    put(top, "a")

    assert taken(top) == [".gitignore", "a", "rules"]


def test_case_is_ignored_where_the_file_system_ignores_it(top: Path) -> None:
    put(top, ".gitignore", data="*.LOG\n")
    put(top, "a.log")

    assert taken(top) == [".gitignore", "a.log"]
    assert taken(top, ignore_case=True) == [".gitignore"]


def test_the_ignore_files_that_were_read_are_told_with_their_texts(top: Path) -> None:
    put(top, ".gitignore", data="/build\n")
    put(top, "src/.gitignore", "build/.gitignore", data="x\n")

    assert scanned(top).ignore_files == {b".gitignore": b"/build\n", b"src/.gitignore": b"x\n"}


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


def test_a_tracked_file_that_matches_a_pattern_is_taken(top: Path) -> None:
    put(top, ".gitignore", data="*.log\n")
    put(top, "a.log", "b.log")

    assert taken(top, tracked=(b"a.log",)) == [".gitignore", "a.log"]


def test_tracked_paths_of_a_folder_with_a_similar_name_are_not_mixed_up(top: Path) -> None:
    put(top, ".gitignore", data="a/\n")
    put(top, "a/x", "a.b/x", "ab/x")
    tracked = (b"a.b/x", b"a/x", b"ab/x")

    assert taken(top, tracked=tracked) == [".gitignore", "a.b/x", "a/x", "ab/x"]


# Links on the way


def test_a_tracked_path_behind_a_link_is_a_deletion(top: Path, tmp_path_factory: Any) -> None:
    outside = tmp_path_factory.mktemp("outside")
    put(outside, "x", "deep/y")
    (top / "src").symlink_to(outside)

    assert taken(top, tracked=(b"src/deep/y", b"src/x")) == ["src"]


def test_a_tracked_path_behind_a_link_in_an_ignored_folder_is_a_deletion(
    top: Path, tmp_path_factory: Any
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    put(outside, "x")
    put(top, ".gitignore", data="build/\n")
    put(top, "build/a")
    (top / "build/link").symlink_to(outside)

    assert taken(top, tracked=(b"build/a", b"build/link/x")) == [".gitignore", "build/a"]


def test_a_tracked_path_below_a_file_is_a_deletion(top: Path) -> None:
    put(top, ".gitignore", data="build/\n")
    put(top, "build/a")

    assert taken(top, tracked=(b"build/a/b/c",)) == [".gitignore"]


# Skipping, with reasons


def test_an_untracked_file_over_the_limit_is_oversize(top: Path) -> None:
    put(top, "big", "tracked", data="12345")
    put(top, "small", data="1234")
    rules: dict[str, Any] = {"max_file_size": 4, "tracked": (b"tracked",)}

    assert taken(top, **rules) == ["small", "tracked"]
    assert skipped(top, **rules) == {"big": "oversize"}


def test_a_denied_file_is_skipped_unless_it_is_tracked(top: Path) -> None:
    put(top, ".env", "src/.env", "a")
    rules: dict[str, Any] = {"deny": patterns(".env"), "tracked": (b"src/.env",)}

    assert taken(top, **rules) == ["a", "src/.env"]
    assert skipped(top, **rules) == {".env": "denied"}


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


def test_what_is_ignored_is_not_listed_as_denied(top: Path) -> None:
    put(top, ".gitignore", data=".env\nnode_modules/\n")
    put(top, ".env", "node_modules/x")

    assert skipped(top, deny=patterns(".env", "node_modules/")) == {}


def test_special_files_are_skipped_even_if_tracked(top: Path) -> None:
    os.mkfifo(top / "pipe")
    put(top, ".gitignore", data="build/\n")
    (top / "build").mkdir()
    os.mkfifo(top / "build/pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(top)
        listener.bind("socket")

        assert skipped(top, tracked=(b"build/pipe", b"pipe")) == {
            "build/pipe": "special",
            "pipe": "special",
            "socket": "special",
        }


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


def test_an_ignored_special_file_is_only_ignored(top: Path) -> None:
    put(top, ".gitignore", data="pipe\n")
    os.mkfifo(top / "pipe")

    assert skipped(top) == {}


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


def test_a_nested_repository_is_listed_and_not_entered(top: Path) -> None:
    worktree(top / "vendor/lib")
    put(top, "vendor/lib/a", "vendor/lib/deep/b", "vendor/c")

    assert taken(top) == ["vendor/c"]
    assert skipped(top) == {"vendor/lib": "nested"}


def test_a_nested_worktree_with_a_gitfile_is_listed(top: Path) -> None:
    put(top, "linked/.git", data="gitdir: /elsewhere\n")
    put(top, "linked/a")

    assert taken(top) == []
    assert skipped(top) == {"linked": "nested"}


def test_tracked_files_in_a_nested_repository_are_taken(top: Path) -> None:
    worktree(top / "lib")
    put(top, "lib/tracked", "lib/other")

    assert taken(top, tracked=(b"lib/tracked",)) == ["lib/tracked"]


def test_something_called_dot_git_that_is_no_repository_is_passed_over(top: Path) -> None:
    put(top, "a/.git/x", "a/y")
    put(top, "b/.git", "b/z", data="not a gitfile")

    assert taken(top) == ["a/y", "b/z"]
    assert skipped(top) == {}


@pytest.mark.parametrize("name", [".GIT", ".Git", ".git ", ".git.", "git~1", "GIT~1", ".git::$x"])
def test_a_name_that_git_takes_into_no_tree_is_listed(name: str, top: Path) -> None:
    put(top, f"{name}/x", f"src/{name}", "a", ".gitignore", ".github", "git")

    assert taken(top) == [".github", ".gitignore", "a", "git"]
    assert skipped(top) == {name: "special", f"src/{name}": "special"}


def test_the_git_dir_of_another_repository_is_nested(top: Path) -> None:
    git_dir(top / "backup.git")
    put(top, "half/HEAD", "half/objects/x")

    assert taken(top) == ["half/HEAD", "half/objects/x"]
    assert skipped(top) == {"backup.git": "nested"}


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


def test_a_submodule_that_is_not_checked_out_is_no_empty_folder(top: Path) -> None:
    (top / "sub").mkdir()
    found = scanned(top, gitlinks=frozenset([b"sub"]))

    assert (found.gitlinks, found.empty_folders) == ([b"sub"], [])


def test_files_in_the_folder_of_a_submodule_are_taken_if_it_is_no_repository(top: Path) -> None:
    put(top, "sub/a", "sub/deep/b", "sub/.env", "sub/x.log", ".gitignore", data="*.log\n")
    rules: dict[str, Any] = {"gitlinks": frozenset([b"sub"]), "deny": patterns(".env")}
    found = scanned(top, **rules)

    assert found.gitlinks == [b"sub"]
    assert found.files.keys() - found.untracked == set()
    assert taken(top, **rules) == [".gitignore", "sub/a", "sub/deep/b"]
    assert skipped(top, **rules) == {"sub/.env": "denied"}


def test_the_folder_of_a_submodule_is_looked_into_however_late_it_is(top: Path) -> None:
    put(top, "sub/a", "sub/deep/b", "new/c")
    (top / "empty").mkdir()
    rules = ScanRules(gitlinks=frozenset([b"empty", b"sub"]))
    found = scan(os.fsencode(top), rules, deadline=Deadline(0))

    assert set(found.files) == {b"sub/a"}
    assert set(found.skipped) == {b"sub/deep", b"new"}


def test_a_submodule_in_an_ignored_folder_is_known(top: Path) -> None:
    put(top, ".gitignore", data="vendor/\n")
    worktree(top / "vendor/sub")

    assert scanned(top, gitlinks=frozenset([b"vendor/sub"])).gitlinks == [b"vendor/sub"]


def test_a_submodule_whose_folder_is_gone_is_gone(top: Path) -> None:
    assert scanned(top, gitlinks=frozenset([b"sub"])).gitlinks == []


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


def test_an_included_file_is_taken_although_it_is_ignored(top: Path) -> None:
    put(top, ".gitignore", data="*.log\n")
    put(top, "a.log", "keep.log")

    assert taken(top, include=patterns("keep.log")) == [".gitignore", "keep.log"]


def test_an_included_folder_is_taken_with_all_that_is_in_it(top: Path) -> None:
    put(top, ".gitignore", data="build/\n*.o\n")
    put(top, "build/deep/x", "build/y.o")

    assert taken(top, include=patterns("build/")) == [".gitignore", "build/deep/x", "build/y.o"]


def test_what_is_denied_stays_out_of_an_included_folder(top: Path) -> None:
    put(top, ".gitignore", data="build/\nnode_modules/\n")
    put(top, "build/.env", "build/a", "node_modules/x")
    rules: dict[str, Any] = {
        "include": patterns("build/", "node_modules/"),
        "deny": patterns(".env", "node_modules/"),
    }

    assert taken(top, **rules) == [".gitignore", "build/a"]
    assert skipped(top, **rules) == {"build/.env": "denied", "node_modules": "denied"}


def test_a_submodule_and_an_own_git_dir_stay_closed_in_spite_of_an_include(top: Path) -> None:
    put(top, ".gitignore", data="sub/\nown/\n")
    worktree(top / "sub")
    git_dir(top / "own")
    found = scanned(
        top,
        include=patterns("*"),
        gitlinks=frozenset([b"sub"]),
        git_dirs=frozenset([b"own"]),
    )

    assert found.gitlinks == [b"sub"]
    assert set(found.files) == {b".gitignore"}
    assert found.skipped == {}


def test_a_path_named_for_inclusion_is_found_in_an_ignored_folder(top: Path) -> None:
    put(top, ".gitignore", data="build/\n")
    put(top, "build/out/x", "build/out/deep/y", "build/other")

    assert taken(top, include_paths=(b"build/out",)) == [
        ".gitignore",
        "build/out/deep/y",
        "build/out/x",
    ]
    assert taken(top, include_paths=(b"build/out/x",)) == [".gitignore", "build/out/x"]
    assert taken(top, include_paths=(b"build/absent", b"absent")) == [".gitignore"]


def test_the_other_rules_count_for_a_path_named_for_inclusion(top: Path) -> None:
    put(top, ".gitignore", data="build/\n")
    put(top, "build/out/.env", "build/out/a", "build/out/cache/x")
    put(top, "build/out/big", data="12345678")
    os.mkfifo(top / "build/out/pipe")
    rules: dict[str, Any] = {
        "include_paths": (b"build/out",),
        "deny": patterns(".env", "cache/"),
        "max_file_size": 7,
    }

    assert taken(top, **rules) == [".gitignore", "build/out/a"]
    assert skipped(top, **rules) == {
        "build/out/.env": "denied",
        "build/out/big": "oversize",
        "build/out/cache": "denied",
        "build/out/pipe": "special",
    }


def test_a_path_named_for_inclusion_that_is_denied_is_left(top: Path) -> None:
    put(top, "secrets/.env", ".gitignore")

    assert taken(top, include_paths=(b"secrets/.env",), deny=patterns(".env")) == [".gitignore"]


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


def test_a_forced_special_file_is_skipped_all_the_same(top: Path) -> None:
    os.mkfifo(top / "pipe")

    assert skipped(top, force=(b"pipe",)) == {"pipe": "special"}


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


def test_a_nested_repository_is_told_by_its_git_dir(top: Path) -> None:
    worktree(top / "yes")
    put(top, "file/.git", data="gitdir: x")
    (top / "linked").mkdir()
    (top / "linked/.git").symlink_to("../yes/.git")
    put(top, "no/.git/x")
    (top / "none").mkdir()

    found = [n for n in os.listdir(top) if is_nested_repository(os.fsencode(top / n))]
    assert sorted(found) == ["file", "linked", "yes"]
