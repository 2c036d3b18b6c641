# SPDX-License-Identifier: MIT
"""Sparse checkouts: what is left out is not deleted, and the flags agree with the files."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git, tree_state
from journeys import save, there_and_back
from scenes import remove, staged, write


@pytest.fixture
def top(repo: Path) -> Path:
    for folder in ("a", "b", "b/deep", "c"):
        for number in range(3):
            write(repo, f"{folder}/f{number}", f"{folder} {number}\n")
    git("add", ".")
    git("commit", "-q", "-m", "folders")
    return repo


def narrow(*patterns: str, cone: bool = True) -> None:
    git("sparse-checkout", "set", "--cone" if cone else "--no-cone", *patterns)


def skipped() -> set[str]:
    """Paths that git marks as left out."""
    lines = git("ls-files", "-t").splitlines()
    return {line[2:] for line in lines if line.startswith("S ")}


CONE = pytest.param(("a",), True, id="cone")
NO_CONE = pytest.param(("/*", "!/b/", "!f1"), False, id="patterns")
KINDS = pytest.mark.parametrize(("patterns", "cone"), [CONE, NO_CONE])


@KINDS
def test_what_a_sparse_checkout_leaves_out_is_no_deletion(
    top: Path, patterns: tuple[str, ...], cone: bool
) -> None:
    narrow(*patterns, cone=cone)
    assert "b/deep/f0" in skipped()
    write(top, "a/f0", "edited\n")
    saved = save(top)

    assert git("diff", "--name-status", "HEAD", f"refs/checkpoints/{saved}") == "M\ta/f0\n"
    assert ckpt("show", saved, "--json").json["checkpoint"]["stats"]["files_changed"] == 1


@KINDS
def test_work_in_a_sparse_checkout_comes_back(
    top: Path, patterns: tuple[str, ...], cone: bool
) -> None:
    narrow(*patterns, cone=cone)
    write(top, "a/f0", "edited\n")
    write(top, "a/new", "staged\n")
    git("add", "a/new")
    write(top, "a/f2", "staged\n")
    git("add", "a/f2")
    remove(top, "a/f2")

    def destroy(folder: Path) -> None:
        git("reset", "-q", "--hard", cwd=folder)
        write(folder, "README.md", "broken\n")

    there_and_back(top, destroy)


@KINDS
def test_files_that_are_there_despite_the_sparse_checkout_come_back(
    top: Path, patterns: tuple[str, ...], cone: bool
) -> None:
    narrow(*patterns, cone=cone)
    git("config", "sparse.expectFilesOutsideOfPatterns", "true")
    write(top, "b/f0", "edited though left out\n")
    write(top, "b/untracked", "new\n")
    assert {"b/f0", "b/f1"} <= skipped()

    there_and_back(top, lambda folder: remove(folder, "b"))

    assert not (top / "b/f1").exists()


@pytest.mark.parametrize(
    ("before", "after"), [("a", "b"), ("b", "a"), ("a", "c"), ("b/deep", "b"), ("b", "b/deep")]
)
def test_a_rollback_across_a_change_of_the_cone_loses_nothing(
    top: Path, before: str, after: str
) -> None:
    narrow(before)
    write(top, f"{before}/f0", "edited\n")
    write(top, f"{before}/new", "untracked\n")
    files, entries = tree_state(top), staged(top)
    saved = save(top)
    git("checkout", "-q", f"{before}/f0")
    remove(top, f"{before}/new")
    narrow(after)
    write(top, f"{after}/f1", "edited later\n")
    later = tree_state(top)

    ckpt("rollback", saved, "--yes", code=0)
    assert tree_state(top) == files
    assert staged(top) == entries
    assert " D " not in git("status", "--porcelain")
    assert fsck(top) == []
    ckpt("undo", code=0)
    assert tree_state(top) == later
    assert " D " not in git("status", "--porcelain")


def test_a_folder_that_was_left_out_can_be_restored_by_path(top: Path) -> None:
    saved = save(top)
    narrow("a")

    ckpt("rollback", saved, "--", "b", code=0)

    assert (top / "b/deep/f0").read_text() == "b/deep 0\n"
    assert "c/f0" in skipped()
    assert skipped().isdisjoint({"b/f0", "b/deep/f0"})
    assert git("status", "--porcelain") == ""


def test_a_sparse_index_is_refused_before_anything_is_written(top: Path) -> None:
    git("sparse-checkout", "set", "--cone", "--sparse-index", "a")
    before = tree_state(top / ".git/objects"), (top / ".git/index").read_bytes()

    refused = ckpt("save", code=4)

    assert "sparse index is not supported" in refused.stderr
    assert (tree_state(top / ".git/objects"), (top / ".git/index").read_bytes()) == before
    assert "git sparse-checkout reapply --no-sparse-index" in refused.stderr
    git("sparse-checkout", "reapply", "--no-sparse-index")
    ckpt("save", code=0)
