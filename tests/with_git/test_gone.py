# SPDX-License-Identifier: MIT
"""What was staged, or the commit at HEAD, is gone from the object store, as a power cut leaves it.

Git does not flush all that it writes. People then find out that `git reset --hard` makes git work
again, which takes all other edits with it: so these have to be saved nevertheless.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git, tree_state
from scenes import write

from ckpt import CheckpointManager, Outcome


def loose(repo: Path, blob: str) -> Path:
    return repo / ".git/objects" / blob[:2] / blob[2:]


def lose(repo: Path, blob: str) -> None:
    loose(repo, blob).unlink()


def hollow(repo: Path, blob: str, content: bytes) -> None:
    """Leave a file of its name, and nothing in it."""
    lose(repo, blob)
    loose(repo, blob).write_bytes(content)


@pytest.fixture(params=[None, b"", bytes(30)], ids=["no file", "empty file", "zeros"])
def lost(repo: Path, request: pytest.FixtureRequest) -> Path:
    """What is staged of `new` is gone, and there are edits that no other place has."""
    write(repo, "new", "staged\n")
    git("add", "new")
    blob = git("rev-parse", ":new").strip()
    lose(repo, blob) if request.param is None else hollow(repo, blob, request.param)
    write(repo, "new", "edited since\n")
    write(repo, "README.md", "edited\n")
    return repo


def test_all_else_is_saved_and_the_checkpoint_says_what_is_missing(lost: Path) -> None:
    before = tree_state(lost)

    saved = ckpt("save", "start", code=0)

    assert "warning: what was staged of 'new' is gone\n" in saved.stderr
    assert ckpt("show", "--json", "start", code=0).json["checkpoint"]["partial"] is True
    ckpt("verify", "--all", code=0)
    git("reset", "-q", "--hard")
    staged = git("hash-object", "--stdin", stdin="staged\n").strip()
    loose(lost, staged).unlink(missing_ok=True)
    assert fsck(lost) == []
    ckpt("rollback", "start", code=0)
    assert tree_state(lost) == before
    assert git("status", "--short") == " M README.md\n?? new\n"


def test_what_is_in_the_file_still_is_written_anew(repo: Path) -> None:
    ckpt("save", code=0)
    write(repo, "new", "staged\n")
    git("add", "new")
    hollow(repo, git("rev-parse", ":new").strip(), b"")

    assert ckpt("save", "--json", code=0).json["outcome"] == "created"

    ckpt("verify", "--all", code=0)
    assert git("show", ":new") == "staged\n"


def test_a_trigger_finds_what_it_has_saved(lost: Path) -> None:
    with CheckpointManager(lost) as manager:
        first = manager.create(kind="auto")
        again = manager.create(kind="auto")

    assert (first.outcome, first.reason) == (Outcome.PARTIAL, "gone")
    assert first.warnings == ("what was staged of 'new' is gone",)
    assert (again.outcome, again.id) == (Outcome.UNCHANGED, first.id)


@pytest.mark.parametrize("tree", ["HEAD^{tree}", "HEAD:src"])
def test_a_tree_of_head_that_is_gone_keeps_nothing_from_being_saved(repo: Path, tree: str) -> None:
    write(repo, "src/main.py", "committed\n")
    git("add", "src")
    git("commit", "-q", "-m", "src")
    write(repo, "src/main.py", "staged\n")
    git("add", "src")
    write(repo, "README.md", "edited\n")
    lose(repo, git("rev-parse", tree).strip())

    saved = ckpt("save", "start", code=0)

    assert "warning: a tree of the commit at HEAD is gone\n" in saved.stderr
    shown = ckpt("show", "start", "--json", code=0).json["checkpoint"]
    assert git("show", f"{shown['ref']}:README.md") == "edited\n"
    assert git("show", f"{shown['ref']}:src/main.py") == "staged\n"
    ckpt("verify", "--all", code=0)


@pytest.mark.parametrize("left", [None, b"", bytes(30)])
def test_a_rollback_waits_until_the_index_is_mended(repo: Path, left: bytes | None) -> None:
    """It would replace an index that no checkpoint can hold."""
    ckpt("save", "start", code=0)
    write(repo, "a b", "staged\n")
    git("add", "a b")
    blob = git("rev-parse", ":a b").strip()
    lose(repo, blob) if left is None else hollow(repo, blob, left)
    write(repo, "a b", "edited since\n")
    before = tree_state(repo)

    refused = ckpt("rollback", "start", "--json", code=4).json["error"]

    assert refused["message"].startswith("what was staged of 'a b' is gone")
    assert refused["hint"].startswith("'git add -- 'a b'' stages the file as it is now")
    assert tree_state(repo) == before
    git("add", "--", "a b")
    ckpt("rollback", "start", code=0)
    assert not (repo / "a b").exists()


def test_without_the_commit_at_head_files_are_saved_before_git_reset_takes_them(
    repo: Path,
) -> None:
    before = git("rev-parse", "HEAD").strip()
    git("commit", "-q", "--allow-empty", "-m", "lost")
    lose(repo, git("rev-parse", "HEAD").strip())
    write(repo, "README.md", "edited\n")
    ckpt("install", "--guard", code=0)

    git("reset", "-q", "--hard", before, env={"CKPT_DISABLE": ""})

    saved = ckpt("list", "--json", code=0).json["checkpoints"][-1]
    assert (saved["partial"], saved["git_state"]["commit_hash"]) == (True, None)
    assert git("show", f"{saved['ref']}:README.md") == "edited\n"
    git("reflog", "expire", "--expire=now", "--all")  # which name it as well
    assert fsck(repo) == []
    ckpt("verify", "--all", code=0)
    ckpt("rollback", saved["id"], code=0)
    assert (repo / "README.md").read_text() == "edited\n"
