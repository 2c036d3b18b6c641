# SPDX-License-Identifier: MIT
"""What was staged, or the commit at HEAD, is gone from the object store, as a power cut leaves it.

Git does not work there either; a save says what is missing, and touches nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import git, tree_state
from scenes import write


def lose(repo: Path, blob: str, left: bytes | None = None) -> None:
    """Leave no file of its name, or one that is damaged."""
    path = repo / ".git/objects" / blob[:2] / blob[2:]
    path.unlink()
    if left is not None:
        path.write_bytes(left)


@pytest.mark.parametrize("name", [":new", "HEAD", "HEAD^{tree}"])
@pytest.mark.parametrize("left", [None, b"", bytes(30)], ids=["no file", "empty file", "zeros"])
def test_a_save_and_a_rollback_name_the_object_and_touch_nothing(
    repo: Path, name: str, left: bytes | None
) -> None:
    ckpt("save", "before", code=0)
    write(repo, "README.md", "committed\n")
    git("commit", "-q", "-a", "-m", "another")
    write(repo, "new", "staged\n")
    git("add", "new")
    write(repo, "new", "edited since\n")
    missing = git("rev-parse", name).strip()
    lose(repo, missing, left)
    before = tree_state(repo)

    for words in (["save"], ["rollback", "before"]):
        error = ckpt(*words, "--json", code=1).json["error"]
        assert missing in error["message"]
        assert "git fsck" in error["hint"]
    assert tree_state(repo) == before


def test_a_trigger_warns_and_git_goes_on(repo: Path) -> None:
    write(repo, "new", "staged\n")
    git("add", "new")
    missing = git("rev-parse", ":new").strip()
    lose(repo, missing)
    write(repo, "new", "edited since\n")

    ran = ckpt("hook", "pre-commit", code=0)

    assert "warning: no checkpoint was taken" in ran.stderr
    assert missing in ran.stderr


def test_what_is_in_the_file_still_is_written_anew(repo: Path) -> None:
    ckpt("save", code=0)
    write(repo, "new", "staged\n")
    git("add", "new")
    lose(repo, git("rev-parse", ":new").strip(), b"")

    assert ckpt("save", "--json", code=0).json["outcome"] == "created"

    ckpt("verify", "--all", code=0)
    assert git("show", ":new") == "staged\n"
