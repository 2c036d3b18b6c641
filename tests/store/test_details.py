# SPDX-License-Identifier: MIT
"""What the state tree of a checkpoint tells, and what counts as damage to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from byhand import ID, MOMENT, NOWHERE, blob, draft, object_store

from ckpt.errors import CkptError
from ckpt.git import record
from ckpt.git.objects import ObjectStore
from ckpt.git.record import NotACheckpoint, read_details
from ckpt.git.trees import write_tree
from ckpt.models import Checkpoint, Details, FeatureState, Skipped

INSIDE = {
    **dict.fromkeys(("commit", "branch", "dirty", "checkpoint", "problem")),
    "path": "inside",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    opened = object_store(tmp_path_factory.mktemp("objects"))
    yield opened
    opened.close()


def with_state(store: ObjectStore, **blobs: Any) -> Checkpoint:
    """A checkpoint whose state tree holds these documents."""
    paths = {"manifest": record.MANIFEST, "state": b"state/state.json"}
    entries = {
        paths[name]: blob(store, value if isinstance(value, bytes) else json.dumps(value).encode())
        for name, value in blobs.items()
    }
    commit = record.write_commit(store, write_tree(store, entries), (), "state\n", MOMENT)
    return draft(state_commit=commit.decode())


def test_details_come_from_the_state_tree(store: ObjectStore) -> None:
    checkpoint = with_state(
        store,
        manifest={
            "skipped": [
                {"path": ".env", "reason": "denied"},
                {"path": "caf\ufffd", "path_b64": "Y2Fm6Q==", "reason": "oversize"},
            ],
        },
        state={
            "data": [1],
            "metadata": {"a": 1},
            "context": {"b": 2},
            "features": {"current": "x", "completed": ["y"], "snapshot_path": None},
        },
    )

    assert read_details(store, checkpoint) == Details(
        skipped=(Skipped(".env", "denied"), Skipped(os.fsdecode(b"caf\xe9"), "oversize")),
        data=[1],
        metadata={"a": 1},
        context={"b": 2},
        features=FeatureState("x", ("y",), None),
    )


def test_a_checkpoint_without_agent_state_has_none(store: ObjectStore) -> None:
    assert read_details(store, with_state(store, manifest={})) == Details()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"\xff\xfe", b"[" * 100_000, b"NaN"])
@pytest.mark.parametrize("name", ["manifest", "state"])
def test_a_damaged_document_is_an_error_that_names_the_checkpoint(
    name: str, data: bytes, store: ObjectStore
) -> None:
    with pytest.raises(NotACheckpoint, match=f"of checkpoint '{ID}' is damaged"):
        read_details(store, with_state(store, **{name: data}))


@pytest.mark.parametrize(
    "blobs",
    [
        {"manifest": {"skipped": 7}},
        {"manifest": {"skipped": [{"path_b64": 1, "reason": "denied"}]}},
        {"manifest": {"skipped": [{"path": "x"}]}},
        {"manifest": {"skipped": {"path": "x"}}},
        {"state": {"features": []}},
        {"state": {"features": {"completed": 7}}},
        {"state": {"features": {"completed": [7]}}},
        {"state": {"features": {"current": 7}}},
        {"state": {"features": {"snapshot_path": []}}},
        {"manifest": {"operation": {"name": 7}}},
    ],
)
def test_a_document_of_another_shape_is_an_error(blobs: dict[str, Any], store: ObjectStore) -> None:
    with pytest.raises(NotACheckpoint, match="is damaged"):
        read_details(store, with_state(store, **blobs))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/etc",
        "..",
        "../other",
        "a/../../b",
        "a//b",
        "a/",
        "./a",
        "a/.git/b",
        ".GIT",
        "a\0",
    ],
)
def test_a_nested_repository_outside_the_worktree_is_damage(path: str, store: ObjectStore) -> None:
    checkpoint = with_state(store, manifest={"nested": [{**INSIDE, "path": path}]})

    with pytest.raises(NotACheckpoint, match="is damaged"):
        read_details(store, checkpoint)


@pytest.mark.parametrize("value", [7, 1.5, [], {}, [None]])
@pytest.mark.parametrize("key", ["commit", "branch", "dirty", "checkpoint", "problem"])
def test_what_is_told_of_a_nested_repository_is_of_its_kind(
    key: str, value: object, store: ObjectStore
) -> None:
    checkpoint = with_state(store, manifest={"nested": [{**INSIDE, key: value}]})

    with pytest.raises(NotACheckpoint, match="is damaged"):
        read_details(store, checkpoint)


@pytest.mark.parametrize("text", ["", "latest", "../x", ID + "\n", ID.upper()])
def test_the_checkpoint_of_a_nested_repository_is_an_id(text: str, store: ObjectStore) -> None:
    checkpoint = with_state(store, manifest={"nested": [{**INSIDE, "checkpoint": text}]})

    with pytest.raises(NotACheckpoint, match="is no id of a checkpoint"):
        read_details(store, checkpoint)


def test_a_missing_state_commit_is_an_error(store: ObjectStore) -> None:
    with pytest.raises(CkptError, match=NOWHERE.decode()):
        read_details(store, draft())


def test_an_absent_document_is_empty(store: ObjectStore) -> None:
    assert record.read_json(store, with_state(store), record.MANIFEST) == {}
    assert record.read_state_blob(store, with_state(store), b"no/such") is None
