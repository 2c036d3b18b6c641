# SPDX-License-Identifier: MIT
"""What is captured makes a tree that git accepts, however odd the worktree is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from byhand import index, worktree
from byhand import open_repository as opened

from ckpt.engine.capture import capture
from ckpt.engine.present import Present
from ckpt.git.index import IndexEntry
from ckpt.git.repository import Repository
from ckpt.git.trees import read_tree, walk, write_tree
from ckpt.settings.settings import Settings


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with opened(worktree(tmp_path / "repo")) as repository:
        yield repository


def captured(repo: Repository) -> Present:
    return capture(repo, Settings(), repo.objects)


def sparse(repo: Repository, *paths: bytes) -> None:
    """Stage paths that a sparse checkout leaves out."""
    blob = repo.objects.add(b"blob", b"staged")
    repo.objects.flush()
    entries = [IndexEntry.of(path, blob, 0o100644, skip_worktree=True) for path in paths]
    index(Path(repo.git_dir), *entries)


def test_a_path_left_out_by_a_sparse_checkout_is_no_deletion(repo: Repository) -> None:
    sparse(repo, b"a/b", b"c")
    Path(repo.worktree, "c").write_bytes(b"on disk")
    found = captured(repo)

    assert set(found.entries) == {b"a/b", b"c"}
    assert found.entries[b"c"].id == repo.objects.hash(b"blob", b"on disk")


@pytest.mark.parametrize(("staged", "on_disk"), [(b"a/b", "a"), (b"a/b/c", "a"), (b"a", "a/b/c")])
def test_a_file_never_stands_in_a_tree_beside_a_folder_of_its_name(
    staged: bytes, on_disk: str, repo: Repository
) -> None:
    """Someone made a file where a sparse checkout leaves out a folder, or the reverse."""
    sparse(repo, staged)
    path = Path(repo.worktree, on_disk)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"on disk")
    tree = write_tree(repo.objects, captured(repo).entries)

    assert [name for name, _, _ in read_tree(repo.objects, tree)] == [b"a"]
    assert [found for found, _ in walk(repo.objects, tree)] == [on_disk.encode()]
