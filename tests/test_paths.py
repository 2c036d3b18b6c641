# SPDX-License-Identifier: MIT
"""Paths survive JSON byte for byte, and what a user types means what it means to git."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt import paths
from ckpt.errors import UsageError


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "repo/src/deep").mkdir(parents=True)
    (tmp_path / "repository").mkdir()
    return tmp_path / "repo"


def typed(path: str, top: Path, start: str = "") -> bytes:
    return paths.relative_to_top(path, str(top), str(top / start))


@given(st.binary())
def test_a_path_of_any_bytes_survives_json(path: bytes) -> None:
    document = json.loads(json.dumps(paths.to_json(path)))

    assert paths.from_json(document) == path


def test_a_path_that_is_utf8_needs_no_second_form() -> None:
    assert paths.to_json("naïve".encode()) == {"path": "naïve"}
    assert paths.to_json("naïve") == {"path": "naïve"}


def test_a_path_that_is_not_utf8_has_its_bytes_beside_it() -> None:
    expected = {"path": "caf\ufffd", "path_b64": "Y2Fm6Q=="}

    assert paths.to_json(b"caf\xe9") == expected
    assert paths.to_json(os.fsdecode(b"caf\xe9")) == expected


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"path_b64": "a"},
        {"path_b64": "é"},
        {"path_b64": 7},
        {"path_b64": None},
        {"path": "half a \ud83d smile"},
        [],
        "path",
        "path_b64",
        None,
        7,
    ],
)
def test_what_is_no_path_is_a_value_error(document: Any) -> None:
    with pytest.raises(ValueError, match="not a path"):
        paths.from_json(document)


@pytest.mark.parametrize(
    ("path", "start", "expected"),
    [
        ("file", "", b"file"),
        ("file", "src", b"src/file"),
        ("./file", "src", b"src/file"),
        ("deep//file/", "src", b"src/deep/file"),
        ("../file", "src", b"file"),
        ("../../src/../file", "src/deep", b"file"),
        ("absent/folder/file", "", b"absent/folder/file"),
        (os.fsdecode(b"caf\xe9"), "src", b"src/caf\xe9"),
        (".gitignore", "", b".gitignore"),
        ("src/.github", "", b"src/.github"),
    ],
)
def test_a_path_is_taken_from_the_folder_it_is_typed_in(
    path: str, start: str, expected: bytes, top: Path
) -> None:
    assert typed(path, top, start) == expected


@pytest.mark.parametrize(
    ("path", "start"), [(".", ""), ("..", "src"), ("../..", "src/deep"), ("src/..", ""), ("./", "")]
)
def test_the_top_of_the_worktree_is_the_empty_path(path: str, start: str, top: Path) -> None:
    assert typed(path, top, start) == b""


def test_an_absolute_path_inside_the_worktree_is_taken(top: Path) -> None:
    assert typed(str(top / "src/file"), top) == b"src/file"
    assert typed(str(top), top, "src") == b""
    assert typed(f"{top}/", top, "src") == b""


@pytest.mark.parametrize(
    ("path", "start"),
    [("..", ""), ("../x", ""), ("../../..", "src"), ("/", ""), ("../repository", ""), ("/etc", "")],
)
def test_a_path_outside_the_worktree_is_refused(path: str, start: str, top: Path) -> None:
    with pytest.raises(UsageError, match="is outside the worktree"):
        typed(path, top, start)


def test_a_path_beyond_a_link_is_refused(top: Path) -> None:
    (top / "short").symlink_to("src/deep")

    with pytest.raises(UsageError, match="'short/file' is beyond a symbolic link"):
        typed("short/file", top)
    assert typed("src/deep/file", top) == b"src/deep/file"


def test_a_link_that_leads_outside_takes_its_contents_with_it(top: Path) -> None:
    (top / "away").symlink_to(top.parent / "repository")

    with pytest.raises(UsageError, match="is outside the worktree"):
        typed("away/file", top)


def test_a_link_at_the_end_names_itself(top: Path) -> None:
    (top / "away").symlink_to("/etc")
    (top / "here").symlink_to(".")

    assert typed("away", top) == b"away"
    assert typed("here", top) == b"here"


@pytest.mark.parametrize("path", [".git", ".git/config", "src/.git", "src/.GIT/hooks/x", ".Git"])
def test_a_path_in_a_git_dir_is_refused(path: str, top: Path) -> None:
    with pytest.raises(UsageError, match="is inside a git dir"):
        typed(path, top)


@pytest.mark.parametrize(
    ("path", "limits", "expected"),
    [
        (b"a/b", (b"a",), True),
        (b"a/b", (b"a/b",), True),
        (b"a/b", (b"x", b"a/b"), True),
        (b"a/b", (b"",), True),
        (b"ab", (b"a",), False),
        (b"a", (b"a/b",), False),
        (b"a", (), False),
    ],
)
def test_a_limit_holds_itself_and_what_is_below(
    path: bytes, limits: tuple[bytes, ...], expected: bool
) -> None:
    assert paths.is_within(path, limits) is expected


def test_the_folders_above_a_path_come_nearest_first() -> None:
    assert list(paths.folders_above(b"a/b/c")) == [b"a/b", b"a"]
    assert list(paths.folders_above(b"a")) == []
