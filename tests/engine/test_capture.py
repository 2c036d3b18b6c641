# SPDX-License-Identifier: MIT
"""What is captured makes a tree that git accepts, however odd the worktree is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from byhand import index, worktree
from byhand import open_repository as opened

from ckpt.engine import capture as capturing
from ckpt.engine.capture import capture
from ckpt.engine.working_state import Present
from ckpt.git.index import SKIP_WORKTREE, IndexEntry
from ckpt.git.objects import ObjectID, ObjectStore
from ckpt.git.repository import Repository
from ckpt.git.trees import TreeEntry, read_tree, walk, write_tree
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
    entries = [IndexEntry.of(path, blob, 0o100644, SKIP_WORKTREE) for path in paths]
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


@pytest.mark.parametrize(
    ("path", "others"),
    [(b"d", {b"e/y"}), (b"d/x/new", {b"d/z", b"e/y"}), (b"new", {b"d/x", b"d/z", b"e/y"})],
)
def test_a_correction_gives_another_state_and_leaves_the_first_as_it_was(
    path: bytes, others: set[bytes], repo: Repository
) -> None:
    for name in ("d/x", "d/z", "e/y"):
        Path(repo.worktree, name).parent.mkdir(exist_ok=True)
        Path(repo.worktree, name).write_bytes(b"on disk")
    first = captured(repo)
    entries = dict(first.entries)
    blob = repo.objects.add(b"blob", b"later")
    later = first.with_files(
        repo.objects, {path: (TreeEntry(0o100755, blob), (0, 0, 0, 5, 0o100700))}
    )

    assert set(later.entries) == {path, *others} == {p for p, _ in walk(repo.objects, later.tree)}
    assert later.entry(path) == TreeEntry(0o100755, blob)
    assert later.modes.of(path, True) == 0o700
    gone = later.with_files(repo.objects, {path: None, b"e/y": None})
    assert set(gone.entries) == others - {b"e/y"} == {p for p, _ in walk(repo.objects, gone.tree)}
    assert first.entries == entries and captured(repo).tree == first.tree


@pytest.mark.parametrize("times", [1, 1000])
def test_what_vanishes_is_looked_at_once_more_and_then_listed(
    times: int, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(repo.worktree, "file").write_bytes(b"on disk")
    real, calls = capturing.add_stable, []

    def vanishing(objects: ObjectStore, path: bytes) -> tuple[ObjectID, os.stat_result]:
        calls.append(path)
        if len(calls) <= times:
            raise capturing.VanishedFile(path)
        return real(objects, path)

    monkeypatch.setattr(capturing, "add_stable", vanishing)
    found = captured(repo)

    assert len(calls) == 2
    assert (b"file" in found.entries) == (times == 1)
    assert found.is_partial == (b"file" in found.skipped) == (times > 1)
