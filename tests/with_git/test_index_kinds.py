# SPDX-License-Identifier: MIT
"""Every kind of index entry and index file comes back, with the default rollback."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import git
from journeys import reset, reset_and_clean, save, there_and_back
from scenes import remove, staged, state, write


def conflicted(top: Path, ours, theirs) -> None:
    """Stop in the middle of a merge of what two people did to the same project."""
    git("checkout", "-q", "-b", "theirs", cwd=top)
    theirs(top)
    git("add", "-A", cwd=top)
    git("commit", "-q", "-m", "theirs", cwd=top)
    git("checkout", "-q", "main", cwd=top)
    ours(top)
    git("add", "-A", cwd=top)
    git("commit", "-q", "-m", "ours", cwd=top)
    ran = subprocess.run(["git", "merge", "-q", "theirs"], cwd=top, capture_output=True)
    assert ran.returncode == 1, ran.stderr


def edited(text: str):
    return lambda top: write(top, "src/app.py", text)


def moved(target: str):
    return lambda top: git("mv", "src/app.py", target, cwd=top)


def gone(top: Path) -> None:
    remove(top, "src/app.py")


def forget_and_clean(top: Path) -> None:
    """As a hard reset, which stops at some flags."""
    git("read-tree", "HEAD", cwd=top)
    reset_and_clean(top)


def stages(top: Path) -> set[tuple[str, str]]:
    """(stage, path) of every unmerged entry."""
    lines = git("ls-files", "--unmerged", "-z", cwd=top).split("\0")
    return {(line.split("\t")[0][-1], line.split("\t")[1]) for line in lines if line}


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        pytest.param(edited("a\n"), edited("b\n"), "1 2 3", id="both edited"),
        pytest.param(edited("a\n"), gone, "1 2", id="edited and deleted"),
        pytest.param(gone, edited("b\n"), "1 3", id="deleted and edited"),
        pytest.param(moved("src/one.py"), moved("src/two.py"), "1 2 3", id="renamed twice"),
        pytest.param(moved("src/one.py"), gone, "1 2", id="renamed and deleted"),
        pytest.param(
            lambda top: write(top, "new", "a\n"),
            lambda top: write(top, "new", "b\n", 0o755),
            "2 3",
            id="added twice",
        ),
        pytest.param(
            lambda top: write(top, "new", "a\n"),
            lambda top: write(top, "new/inside", "b\n"),
            "2",
            id="file and folder",
        ),
    ],
)
def test_the_sides_of_every_kind_of_conflict_come_back(
    repo: Path, ours, theirs, expected: str
) -> None:
    conflicted(repo, ours, theirs)
    assert {stage for stage, _ in stages(repo)} == set(expected.split())

    def resolve(top: Path) -> None:
        """Wrongly, but the merge stays the same one."""
        git("add", "-A", cwd=top)
        write(top, "README.md", "edited\n")

    there_and_back(repo, resolve)


@pytest.mark.parametrize("kept", ["1", "2", "3", "1 3", "2 3"])
def test_single_sides_of_a_conflict_come_back(repo: Path, kept: str) -> None:
    blob = git("rev-parse", "HEAD:README.md", cwd=repo).strip()
    lines = [f"100644 {blob} {stage}\tsrc/half\n" for stage in kept.split()]
    git("update-index", "--index-info", stdin="".join(lines), cwd=repo)
    assert stages(repo) == {(stage, "src/half") for stage in kept.split()}

    there_and_back(repo, reset)


def test_flags_of_every_combination_come_back(repo: Path) -> None:
    for number in range(8):
        write(repo, f"f{number}", f"{number}\n", 0o755 if number % 2 else 0o644)
        git("add", *(["-N"] if number & 1 else []), f"f{number}")
        if number & 2:
            git("update-index", "--assume-unchanged", f"f{number}")
        if number & 4:
            git("update-index", "--skip-worktree", f"f{number}")
    assert len({flags for _, flags in staged(repo)}) == 8

    there_and_back(repo, forget_and_clean)


def test_exec_bits_that_only_the_index_has_come_back(repo: Path) -> None:
    git("config", "core.fileMode", "false")
    git("update-index", "--chmod=+x", "README.md", "src/app.py")
    git("update-index", "--chmod=-x", "run.sh")
    write(repo, "src/app.py", "edited\n")
    write(repo, "tool", "new\n", 0o755)

    before, _ = there_and_back(repo, reset_and_clean)
    assert "100755" in "".join(line for line, _ in before.index if "README" in line)


# -- an index behind a link --------------------------------------------------------------


@pytest.fixture
def linked(repo: Path, tmp_path: Path) -> Path:
    """Where the index is to which the one in the git dir is a link."""
    place = tmp_path / "elsewhere" / "index"
    place.parent.mkdir()
    (repo / ".git/index").rename(place)
    (repo / ".git/index").symlink_to(place)
    return place


def test_an_index_behind_a_link_is_replaced_where_it_is(repo: Path, linked: Path) -> None:
    saved = save(repo)
    before = state(repo)
    write(repo, "README.md", "edited\n")
    git("add", "README.md")

    ckpt("rollback", saved, code=0)

    assert (repo / ".git/index").readlink() == linked
    assert state(repo) == before


def _times(repo: Path) -> dict[Path, int]:
    """When each file was written, but for the lock, which every command takes."""
    lock = repo / ".git/ckpt/lock"
    files = (path for path in repo.rglob("*") if path.is_file() and path != lock)
    return {path: path.lstat().st_mtime_ns for path in files}


@pytest.mark.parametrize(
    "words", [("save",), ("rollback", "latest"), ("rollback", "latest", "--", "src")]
)
def test_a_split_index_is_refused_before_anything_is_touched(
    repo: Path, words: tuple[str, ...]
) -> None:
    save(repo)
    write(repo, "src/app.py", "edited\n")
    git("update-index", "--split-index")
    before = _times(repo)

    refused = ckpt(*words, cwd=repo, code=4)

    assert "git update-index --no-split-index" in refused.stderr
    assert _times(repo) == before
    git("update-index", "--no-split-index")
    ckpt(*words, cwd=repo, code=0)
