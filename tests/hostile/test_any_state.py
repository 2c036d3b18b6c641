# SPDX-License-Identifier: MIT
"""Whatever bytes stand in a checkpoint, what reads them says that it is damaged, or reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from byhand import open_repository, worktree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckpt.engine import foreign
from ckpt.engine.catalog import load
from ckpt.engine.foreign import TreeCheck, Unsafe
from ckpt.engine.recorded import Recorded
from ckpt.errors import CkptError
from ckpt.git import record
from ckpt.git.formats import ObjectID
from ckpt.git.operation import OperationFiles, OperationState
from ckpt.git.repository import Repository
from ckpt.git.trees import REGULAR, TreeEntry, walk, write_tree
from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint

PARTS = (
    b"manifest.json",
    b"index-flags.json",
    b"state/files.json",
    b"state/data.json",
    b"op/branches",
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
contents = st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode())


@pytest.fixture
def made(tmp_path: Path) -> Iterator[tuple[Repository, Checkpoint]]:
    top = worktree(tmp_path / "repo")
    (top / "file").write_text("then")
    with CheckpointManager(top) as manager:
        checkpoint = manager.create("x", data={"a": 1}, state_files=["file"]).checkpoint
    assert checkpoint is not None
    with open_repository(top) as repo:
        yield repo, checkpoint


def read_all(repo: Repository, checkpoint: Checkpoint) -> None:
    target = Recorded(repo, checkpoint)
    for part in ("manifest", "index", "operation", "state_files", "absent", "head", "edited"):
        try:
            getattr(target, part)
        except CkptError:
            pass
    for part in ("data", "skipped", "nested", "operation", "dirty_files", "tracked"):
        try:
            getattr(checkpoint.git_state if part == "dirty_files" else checkpoint, part)
        except CkptError:
            pass


ONE_REPOSITORY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@ONE_REPOSITORY
@given(part=st.sampled_from(PARTS), content=contents)
def test_any_part_of_a_state_can_be_anything(
    made: tuple[Repository, Checkpoint], part: bytes, content: bytes
) -> None:
    repo, checkpoint = made
    objects = repo.objects
    state = ObjectID(checkpoint.state_commit.encode())
    entries = dict(walk(objects, record.read_commit(objects, state).tree))
    entries[part] = TreeEntry(REGULAR, objects.add(b"blob", content))
    state_tree = write_tree(objects, entries)
    other = record.write_commit(objects, state_tree, (), "x\n", checkpoint.timestamp)
    changed = replace(checkpoint, state_commit=other.decode())
    tree, head = ObjectID(checkpoint.tree.encode()), checkpoint.head_commit
    parents = [other] if head is None else [ObjectID(head.encode()), other]
    message = record.compose_message(changed)
    commit = record.write_commit(objects, tree, parents, message, checkpoint.timestamp)

    read_all(repo, load(repo, checkpoint.id, commit))
    objects.discard()


@ONE_REPOSITORY
@given(edit=st.binary(max_size=30), place=st.floats(0, 1), cut=st.integers(0, 40))
def test_any_bytes_of_a_commit_can_be_others(
    made: tuple[Repository, Checkpoint], edit: bytes, place: float, cut: int
) -> None:
    repo, checkpoint = made
    data = repo.objects.read(ObjectID(checkpoint.commit.encode()), b"commit")
    at = int(place * len(data))
    commit = repo.objects.add(b"commit", data[:at] + edit + data[at + cut :])

    try:
        read_all(repo, load(repo, checkpoint.id, commit))
    except CkptError:
        pass
    repo.objects.discard()


@ONE_REPOSITORY
@given(data=st.binary(max_size=80) | st.lists(st.binary(max_size=10)).map(b" x\0".join))
def test_any_bytes_can_be_a_tree(made: tuple[Repository, Checkpoint], data: bytes) -> None:
    objects = made[0].objects

    try:
        TreeCheck(objects).check(objects.add(b"tree", data))
    except Unsafe:
        pass
    objects.discard()


NAMES = sorted({*foreign._CHECK_OF, *foreign._HOW, "refs/bisect/x"})


@given(path=st.sampled_from(NAMES) | st.text(max_size=20), data=st.binary(max_size=60))
def test_any_file_of_an_operation_is_judged(path: str, data: bytes) -> None:
    state = OperationState(OperationFiles({path: data}))

    try:
        foreign.check_files(state)
    except Unsafe:
        return
    commands = foreign.needs_consent(state)
    runs = [line.split()[:1] for line in data.splitlines() if line.split()]
    if path in foreign.TODO_LISTS and [b"exec"] in runs:
        assert commands
