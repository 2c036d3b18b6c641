# SPDX-License-Identifier: MIT
"""No checkpoint lacks an object, though the save found it unnecessary to write.

What an earlier checkpoint or git's index names is not looked up. Here these let go of it, and
git prunes at once: before the save, between its scan and its ref, and right after.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import fsck, git, tree_state, verified
from saving import Saver, committed, content, lose_all_checkpoints, prune, write_all

from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint

FILES = {"a": b"a\n", "d/x": b"x\n", "d/e/y": b"y\n", "k/z": b"z\n"}
EDITED = {"d/x": b"edited\n", "d/e/new": b"new\n", "fresh/file": b"fresh\n"}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return committed(tmp_path / "work", FILES)


@pytest.fixture
def saver(top: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Saver]:
    saver = Saver(top, monkeypatch)
    yield saver
    saver.close()


def check(saver: Saver, saved: Checkpoint) -> None:
    """Nothing is missing, now or after another gc, and all of it comes back."""
    for _ in range(2):
        assert fsck(saver.top) == []
        assert verified(saver.top) == []
        assert saved.id in {found.id for found in saver.manager.list()}
        prune(saver.top)
    state = tree_state(saver.top)
    for path in saver.top.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    saver.manager.rollback(saved.id, yes=True)
    assert tree_state(saver.top) == state


@pytest.mark.parametrize("lives_on", [True, False])
def test_the_same_state_is_saved_again_when_all_checkpoints_of_it_are_gone(
    saver: Saver, lives_on: bool
) -> None:
    write_all(saver.top, EDITED)
    first = saver.settle()
    lose_all_checkpoints(saver.top)
    assert git("cat-file", "--batch-check", cwd=saver.top, stdin=first.tree).endswith("missing\n")
    if not lives_on:
        saver.start_anew()
    saved = saver.save()

    assert saved.tree == first.tree
    check(saver, saved)


def test_dropped_by_ckpt_and_gone_from_the_trash(saver: Saver) -> None:
    write_all(saver.top, EDITED)
    for _ in range(3):
        saver.settle()
        for found in saver.manager.list():
            saver.manager.delete(found.id)
        lose_all_checkpoints(saver.top)
        write_all(saver.top, {"a": b"a %d\n" % time.time_ns()})
        saved = saver.save()

    check(saver, saved)


def test_what_is_only_staged_is_held_by_the_next_checkpoint(saver: Saver) -> None:
    """Its index is known, so that it is not written anew; an edit hides the staged content."""
    saver.settle()
    write_all(saver.top, {"d/x": b"staged\n"})
    git("add", "d/x", cwd=saver.top)
    write_all(saver.top, {"d/x": b"edited\n"})
    saver.settle()
    saved = saver.save()
    git("reset", "-q", cwd=saver.top)
    prune(saver.top)

    assert fsck(saver.top) == []
    assert verified(saver.top) == []
    assert git("show", f"{saved.state_commit}:index/d/x", cwd=saver.top) == "staged\n"


def test_a_living_process_notices_what_others_did(saver: Saver) -> None:
    write_all(saver.top, EDITED)
    saver.settle()
    git_dir = saver.top / ".git"
    write_all(saver.top, {"d/x": b"by another\n"})
    with CheckpointManager(saver.top) as other:
        other.create()
    lose_all_checkpoints(saver.top)
    shutil.rmtree(git_dir / "ckpt")
    write_all(saver.top, {"d/x": b"once more\n"})
    saved = saver.save()

    assert content(saver.top, saved, "d/x") == b"once more\n"
    check(saver, saved)
