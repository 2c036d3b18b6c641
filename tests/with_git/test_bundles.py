# SPDX-License-Identifier: MIT
"""Whole checkpoints in git bundles: git reads ours, we read git's, and nobody is let in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import fsck, git, tree_state

from ckpt import Checkpoint, CheckpointManager, CkptError, NotFound, UsageError


@pytest.fixture
def manager(repo: Path) -> Iterator[CheckpointManager]:
    with CheckpointManager(repo) as manager:
        yield manager


@pytest.fixture
def clone(repo: Path, tmp_path: Path) -> Iterator[CheckpointManager]:
    git("clone", "-q", str(repo), str(tmp_path / "clone"))
    with CheckpointManager(tmp_path / "clone") as manager:
        yield manager


def edited(repo: Path) -> None:
    (repo / "README.md").write_text("edited\n")
    (repo / "new").mkdir(exist_ok=True)
    (repo / "new/file").write_bytes(os.urandom(3 << 20))  # read and written in pieces
    (repo / "run.sh").chmod(0o700)
    git("add", "README.md")


def saved(manager: CheckpointManager, repo: Path) -> Checkpoint:
    edited(repo)
    made = manager.create("before", data={"seen": {1, 2}}, description="why").checkpoint
    assert made is not None
    return made


def test_a_checkpoint_goes_to_another_clone_and_is_rolled_back_to_there(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    made = saved(manager, repo)
    bundle = tmp_path / "x.bundle"

    assert manager.export(bundle) == 1
    (found,) = clone.import_(bundle)
    clone.rollback(found)

    assert (found.id, found.name, found.description) == (made.id, "before", "why")
    assert found.data == {"seen": {1, 2}}
    there = tree_state(tmp_path / "clone")
    assert there == tree_state(repo)
    status = git("-C", str(tmp_path / "clone"), "status", "--porcelain")
    assert status == git("status", "--porcelain") != ""
    assert fsck(tmp_path / "clone") == []
    assert bundle.stat().st_mode & 0o777 == 0o600
    assert clone.import_(bundle) == []


def test_git_reads_our_bundle(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    made = saved(manager, repo)
    manager.export(tmp_path / "x.bundle")
    there = ("-C", str(tmp_path / "clone"))

    git(*there, "bundle", "verify", "-q", str(tmp_path / "x.bundle"))
    git(*there, "fetch", "-q", str(tmp_path / "x.bundle"), "refs/checkpoints/*:refs/checkpoints/*")

    assert clone.get(made.id).data == {"seen": {1, 2}}
    assert fsck(tmp_path / "clone") == []


def test_we_read_a_bundle_of_git_with_its_deltas(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    text = "".join(f"line {number}\n" for number in range(5000))
    ids = []
    for number in range(4):
        (repo / "README.md").write_text(text + f"the end {number}\n")
        ids.append(manager.create(f"n{number}").id)
    refs = [f"refs/checkpoints/{name}" for name in ids]
    git("bundle", "create", "-q", str(tmp_path / "x.bundle"), *refs, "^HEAD")

    made = clone.import_(tmp_path / "x.bundle")

    assert [c.id for c in made] == ids
    clone.rollback("n2")
    assert (tmp_path / "clone/README.md").read_text() == text + "the end 2\n"
    assert fsck(tmp_path / "clone") == []


def test_an_id_that_is_taken_or_yet_to_come_is_given_anew(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    made = saved(manager, repo)
    manager.export(tmp_path / "x.bundle")
    session = CheckpointManager(repo, session="mine")
    (copy,) = session.import_(tmp_path / "x.bundle")

    assert (copy.session, copy.id[:20], copy.tree) == ("mine", made.id[:20], made.tree)
    assert copy.id != made.id
    assert manager.get(made.id) == made
    assert len(session) == 1


def test_some_checkpoints_can_be_chosen(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    first, second = manager.create("one"), manager.create("two")
    manager.export(tmp_path / "x.bundle", [second])

    assert [c.name for c in clone.import_(tmp_path / "x.bundle")] == ["two"]
    with pytest.raises(NotFound):
        manager.export(tmp_path / "x.bundle", ["nothing"])
    with pytest.raises(UsageError, match="no checkpoint to export"):
        manager.export(tmp_path / "x.bundle", [])
    assert first


# What is refused


def refused(manager: CheckpointManager, path: Path) -> str:
    with pytest.raises(CkptError) as caught:
        manager.import_(path)
    assert len(manager) == 0
    return caught.value.message


def test_commits_that_are_not_here_are_named(
    repo: Path, manager: CheckpointManager, tmp_path: Path
) -> None:
    saved(manager, repo)
    manager.export(tmp_path / "x.bundle")
    git("init", "-q", str(tmp_path / "other"))

    message = refused(CheckpointManager(tmp_path / "other"), tmp_path / "x.bundle")
    assert git("rev-parse", "HEAD").strip() in message


def test_no_damage_gets_in(
    repo: Path, manager: CheckpointManager, clone: CheckpointManager, tmp_path: Path
) -> None:
    (repo / "README.md").write_text("edited\n")
    manager.create("x")
    manager.export(tmp_path / "x.bundle")
    data = (tmp_path / "x.bundle").read_bytes()
    pack = data.index(b"PACK")
    objects = tree_state(tmp_path / "clone/.git/objects")

    for place in [*range(0, pack, 7), *range(pack, len(data), 11)]:
        (tmp_path / "bad").write_bytes(
            data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :]
        )
        try:
            made = clone.import_(tmp_path / "bad")
        except CkptError:
            continue
        # Only a comment may have changed.
        assert place < pack
        assert [c.name for c in made] in ([], ["x"])
    for length in (0, 10, pack, pack + 20, len(data) - 1):
        (tmp_path / "bad").write_bytes(data[:length])
        with pytest.raises(CkptError):
            clone.import_(tmp_path / "bad")
    assert objects.keys() <= tree_state(tmp_path / "clone/.git/objects").keys()
    assert fsck(tmp_path / "clone") == []
