# SPDX-License-Identifier: MIT
"""A git dir that somebody else has packed, with links where ckpt keeps its private files.

Unpacked by a user it is the user's, and every link in it leads where its maker wants: nothing
there is ever written or taken away.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers import ckpt_here, git, tree_state

A_LONG_TIME_AGO = 1_000_000_000


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Somebody's work, untouched for a long time, beside the repository."""
    folder = tmp_path / "outside"
    names = ["thesis/chapter", ".tmp-0123456789abcdef", "lock-0123456789abcdef", f"{'a' * 32}/turn"]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("precious\n")
    for path in (folder, *folder.glob("**/*")):
        os.utime(path, (A_LONG_TIME_AGO, A_LONG_TIME_AGO))
    return folder


@pytest.mark.parametrize(
    "words",
    [
        *(["save"], ["rollback", "start", "--yes"], ["undo"], ["prune"], ["gc"], ["drop", "start"]),
        *(["doctor", "--fix"], ["status"], ["list"], ["verify", "--all"]),
    ],
    ids=lambda words: words[0],
)
def test_a_private_folder_that_is_a_link_is_not_written_to(
    words: list[str], repo: Path, outside: Path
) -> None:
    ckpt_here("save", "start", cwd=repo, code=0)
    (repo / ".git/ckpt").rename(repo / ".git/aside")
    (repo / "new").write_text("new\n")
    outside.chmod(0o700)
    (repo / ".git/ckpt").symlink_to(outside)
    before = tree_state(outside)

    ran = ckpt_here(*words, cwd=repo)

    assert tree_state(outside) == before
    if words[0] in ("save", "rollback"):
        assert (ran.code, "Not a directory" in ran.stderr) == (1, True), ran
        assert "move away what is there" in ran.stderr


def unpacked(place: Path, ran: Path) -> None:
    """A repository that somebody else has packed, whose configuration names a command."""
    git("init", "-q", str(place), cwd=place.parent)
    for command in ("clean", "smudge"):
        git("config", f"filter.evil.{command}", f"touch '{ran}'; tr a-z A-Z", cwd=place)
    (place / ".gitattributes").write_text("*.txt filter=evil\n")
    (place / "a.txt").write_text("as it is\n")
    git("add", ".gitattributes", cwd=place)
    git("commit", "-q", "-m", "first", cwd=place)


@pytest.mark.parametrize("place", ["got", "got/deeper"])
@pytest.mark.parametrize(
    "words",
    [["save", "--recurse"], ["hook", "wrapper", "--", "clean", "-n"]],
    ids=lambda words: words[0],
)
def test_no_filter_of_a_repository_is_run_that_is_no_submodule(
    words: list[str], place: str, repo: Path, tmp_path: Path
) -> None:
    """Git would not enter it either. A submodule of one is no better."""
    ran = tmp_path / "ran"
    if place != "got":
        unpacked(repo / "got", ran)
        git("config", "--remove-section", "filter.evil", cwd=repo / "got")
    unpacked(repo / place, ran)
    if place != "got":
        git("add", "deeper", cwd=repo / "got")
    ran.unlink(missing_ok=True)
    (repo / "new").write_text("new\n")

    ckpt_here(*words, cwd=repo, code=0)
    (repo / place / "a.txt").write_text("something else\n")
    ckpt_here("rollback", "latest", "--recurse", "--yes", cwd=repo, code=0)

    assert (repo / place / "a.txt").read_text() == "as it is\n"
    assert not ran.exists()


def test_a_repository_inside_that_leads_to_another_gets_no_checkpoint(
    repo: Path, tmp_path: Path
) -> None:
    """It would count as one of the other's own, and be its latest."""
    other, linked = tmp_path / "other", repo / "linked"
    git("init", "-q", str(other), cwd=repo)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=other)
    git("worktree", "add", "-q", str(linked), cwd=other)
    (repo / "got").mkdir()
    (repo / "got/.git").write_text(f"gitdir: {other}/.git\n")
    (repo / "got/evil").write_text("evil\n")

    saved = ckpt_here("save", "--recurse", "--json", cwd=repo, code=0).json["checkpoint"]

    problems = {state["path"]: state["problem"] for state in saved["nested"]}
    told = "the git dir of 'got' belongs to another work tree"
    assert problems == {"got": told, "linked": None}
    of_other = ckpt_here("list", "--all-worktrees", "--json", cwd=other, code=0)
    assert [each["worktree"] for each in of_other.json["checkpoints"]] == ["worktrees/linked"]
