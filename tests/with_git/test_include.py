# SPDX-License-Identifier: MIT
"""Chosen ignored files are captured, come back, and go again if they were made since."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ckpt_here, git, tree_state
from scenes import remove, write

IGNORED = ("a.log", "b.log", "build/a.json", "build/a.o", "build/deep/b.json", "deep/c.log")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    git("init", "-q", cwd=made)
    write(made, ".gitignore", "*.log\nbuild/\nnode_modules/\n")
    git("add", "--all", cwd=made)
    git("commit", "-q", "-m", "start", cwd=made)
    for path in IGNORED:
        write(made, path, f"{path}\n")
    return made


def include(top: Path, *patterns: str) -> None:
    for pattern in patterns:
        git("config", "--add", "ckpt.include", pattern, cwd=top)


def taken(top: Path) -> set[str]:
    saved = ckpt_here("save", "it", "--json", cwd=top, code=0).json["checkpoint"]
    names = git("ls-tree", "-r", "--name-only", saved["ref"], cwd=top).splitlines()
    return set(names) - {".gitignore"}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a.log", {"a.log"}),
        ("*.log", {"a.log", "b.log", "deep/c.log"}),
        ("/*.log", {"a.log", "b.log"}),
        ("build/", {"build/a.json", "build/a.o", "build/deep/b.json"}),
        ("build/deep/", {"build/deep/b.json"}),
        ("build/a.o", {"build/a.o"}),
        ("build/*.json", {"build/a.json"}),
        ("/build/*.json", {"build/a.json"}),
        ("build/**/*.json", {"build/a.json", "build/deep/b.json"}),
        ("build/d*/", {"build/deep/b.json"}),
        ("*.json", set()),  # nothing is looked for in a folder that is ignored
        ("other/*.json", set()),
    ],
)
def test_a_pattern_takes_what_it_matches_and_nothing_else(
    top: Path, pattern: str, expected: set[str]
) -> None:
    include(top, pattern)

    assert taken(top) == expected


def test_what_is_denied_stays_out_of_a_folder_that_is_looked_through(top: Path) -> None:
    write(top, "node_modules/x/package.json", "{}\n")
    write(top, "build/node_modules/y.json", "{}\n")
    write(top, "build/.env", "SECRET=1\n")
    write(top, "ckpt.toml", 'include = ["node_modules/*/package.json", "build/*"]\n')

    saved = ckpt_here("save", "it", "--json", cwd=top, code=0).json["checkpoint"]

    held = git("ls-tree", "-r", "--name-only", saved["ref"], cwd=top).splitlines()
    assert set(held) - {".gitignore", "ckpt.toml"} == {
        "build/a.json",
        "build/a.o",
        "build/deep/b.json",
    }
    assert saved["skipped"] == [
        {"path": path, "reason": "denied"}
        for path in ("build/.env", "build/node_modules", "node_modules")
    ]


@pytest.mark.parametrize("pattern", ["*.log", "build/", "build/*.json", "build/new.json"])
def test_an_included_file_comes_back_and_a_new_one_goes(top: Path, pattern: str) -> None:
    include(top, pattern)
    before = tree_state(top)
    held = taken(top)

    for path in held:
        remove(top, path)
    new = "new.log" if pattern == "*.log" else "build/new.json"
    write(top, new, "new\n")
    after = tree_state(top)
    ckpt_here("rollback", "it", "--yes", cwd=top, code=0)
    assert tree_state(top) == before
    ckpt_here("undo", "--yes", cwd=top, code=0)

    assert tree_state(top) == after


def test_a_file_that_was_not_included_then_is_kept_now(top: Path) -> None:
    taken(top)
    include(top, "*.log")
    write(top, "new.log", "new\n")

    report = ckpt_here("rollback", "it", "--json", cwd=top, code=0).json

    assert report["removed"] == []
    assert {item["path"]: item["reason"] for item in report["kept"]} == dict.fromkeys(
        ["a.log", "b.log", "deep/c.log", "new.log"], "ignored at the checkpoint"
    )
