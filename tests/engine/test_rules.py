# SPDX-License-Identifier: MIT
"""The rules of a scan, gathered from the index, git's exclude files and settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from byhand import NOWHERE, index, worktree
from byhand import open_repository as opened

from ckpt.engine.scan_cache import facts_of
from ckpt.engine.scan_rules import read_excludes, scan_rules
from ckpt.git.index import IndexEntry, read_staged
from ckpt.git.repository import Repository
from ckpt.git.trees import GITLINK
from ckpt.settings.settings import Settings
from ckpt.worktree.scan import ScanRules


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with opened(worktree(tmp_path / "repo")) as repository:
        yield repository


def rules(repo: Repository, **settings: Any) -> ScanRules:
    staged = read_staged(repo)
    excludes, facts = read_excludes(repo), facts_of(staged, None)
    return scan_rules(repo, Settings(**settings), excludes, facts)


def test_tracked_paths_are_sorted_and_submodules_apart(repo: Repository) -> None:
    entries = [
        IndexEntry.of(b"b", NOWHERE, 0o100644),
        IndexEntry.of(b"a", NOWHERE, 0o100644, 1 << 12),
        IndexEntry.of(b"a", NOWHERE, 0o100644, 2 << 12),
        IndexEntry.of(b"sub", NOWHERE, GITLINK),
    ]
    index(Path(repo.git_dir), *entries)
    found = rules(repo)

    assert found.tracked == (b"a", b"b")
    assert found.gitlinks == {b"sub"}


def test_both_exclude_files_are_read_and_the_nearer_one_wins(
    repo: Repository, isolated: Path
) -> None:
    (isolated / ".config/git").mkdir(parents=True)
    (isolated / ".config/git/ignore").write_text("*.log\n*.tmp\n")
    Path(repo.git_dir, "info/exclude").write_text("!keep.log\n")
    found = rules(repo).ignore

    assert found.ignored(b"a.log", False)
    assert found.ignored(b"a.tmp", False)
    assert not found.ignored(b"keep.log", False)


def test_the_users_own_exclude_file_may_be_a_link(repo: Repository, isolated: Path) -> None:
    (isolated / "rules").write_text("*.log\n")
    Path(repo.git_dir, "info/exclude").symlink_to(isolated / "rules")

    assert read_excludes(repo) == {"global": b"", "info": b"*.log\n"}


def test_a_git_dir_inside_the_worktree_is_known(tmp_path: Path) -> None:
    top = worktree(tmp_path / "repo")
    (top / ".git").rename(top / "meta")
    (top / ".git").write_text("gitdir: meta\n")

    with opened(top) as repo:
        assert rules(repo).git_dirs == {b"meta"}


def test_secrets_and_dependency_folders_are_denied(repo: Repository) -> None:
    deny = rules(repo, deny=("*.secret",)).deny

    assert deny.ignored(b".env", False)
    assert deny.ignored(b"node_modules", True)
    assert deny.ignored(b"my.secret", False)
    assert not deny.ignored(b"a.py", False)


def test_only_paths_that_patterns_begin_with_are_looked_for_in_ignored_folders(
    repo: Repository,
) -> None:
    include = ("build/out.json", "/dist/x/", "*.log", "name", "folder/", "a/*.c", "!a/b", "/top")
    roots = (b"build/out.json", b"dist/x", b"a", b"top")

    assert rules(repo, include=include).include_roots == roots
    assert rules(repo, include=include).trusted_roots == ()
    assert rules(repo, trusted_include=include).trusted_roots == roots
