# SPDX-License-Identifier: MIT
"""What programs read: every key of every document, with null for what is absent."""

from __future__ import annotations

import json
import os
from datetime import date
from typing import Any

import pytest
from byhand import ID, draft

from ckpt import documents
from ckpt.errors import Busy, CkptError, NotFound, Refused, RollbackError, UsageError
from ckpt.models import (
    BranchReport,
    Details,
    DiffResult,
    Dropped,
    FeatureState,
    FileChange,
    GitState,
    HeadReport,
    Kind,
    NestedState,
    Outcome,
    RollbackResult,
    SaveResult,
    Scope,
    Skipped,
    Stats,
)

NOT_UTF8 = os.fsdecode(b"caf\xe9")
AS_JSON = {"path": "caf\ufffd", "path_b64": "Y2Fm6Q=="}


def printed(document: dict[str, Any]) -> dict[str, Any]:
    """A document as a program reads it."""
    read = json.loads(json.dumps(document, ensure_ascii=True))
    assert read.pop("schema") == 1
    return read


def test_a_checkpoint_with_nothing_optional_has_every_key() -> None:
    assert documents.checkpoint(draft(branch=None)) == {
        "id": ID,
        "name": None,
        "description": None,
        "kind": "manual",
        "trigger": None,
        "scope": "full",
        "timestamp": "2026-11-15T23:34:12.123456+00:00",
        "ref": f"refs/checkpoints/{ID}",
        "commit": "",
        "worktree": "main",
        "session": None,
        "pinned": False,
        "partial": False,
        "foreign": False,
        "during_rollback": False,
        "git_state": {
            "commit_hash": None,
            "branch": None,
            "dirty_files": [],
            "operation": None,
        },
        "feature_state": {"current": None, "completed": [], "snapshot_path": None},
        "context": None,
        "data": None,
        "metadata": None,
        "stats": {"files_changed": 0, "insertions": 0, "deletions": 0},
        "skipped": [],
        "nested": [],
        "problem": None,
        "state_files": [],
    }


def test_a_checkpoint_with_everything_tells_it_all() -> None:
    details = Details(
        skipped=(Skipped(".env", "denied"), Skipped(NOT_UTF8, "oversize")),
        nested=(
            NestedState("lib", "e" * 40, "main", True, ID, "partial"),
            NestedState(NOT_UTF8, None, None, None),
        ),
        data=[1, {"two": None}],
        metadata={"k": "v"},
        context={"turn": 2},
        features=FeatureState("auth", ("login",), "features.json"),
        state_files=("features.json", NOT_UTF8),
    )
    full = draft(
        name="before",
        description="why",
        kind=Kind.FEATURE,
        trigger="cli",
        scope=Scope.STATE,
        commit="c" * 40,
        head_commit="d" * 40,
        branch="topic",
        session="s",
        pinned=True,
        partial=True,
        during_rollback=True,
        stats=Stats(1, 2, 3),
        _details=lambda: details,
        _dirty_files=lambda: ("a", NOT_UTF8),
    )

    found = printed(documents.single(full))["checkpoint"]
    assert found["git_state"] == {
        "commit_hash": "d" * 40,
        "branch": "topic",
        "dirty_files": [{"path": "a"}, AS_JSON],
        "operation": None,
    }
    assert found["skipped"] == [
        {"path": ".env", "reason": "denied"},
        AS_JSON | {"reason": "oversize"},
    ]
    assert found.pop("nested") == [
        {
            "path": "lib",
            "commit_hash": "e" * 40,
            "branch": "main",
            "dirty": True,
            "checkpoint": ID,
            "problem": "partial",
        },
        AS_JSON | dict.fromkeys(("commit_hash", "branch", "dirty", "checkpoint", "problem")),
    ]
    assert found.pop("state_files") == [{"path": "features.json"}, AS_JSON]
    assert found["feature_state"] == {
        "current": "auth",
        "completed": ["login"],
        "snapshot_path": "features.json",
    }
    assert found["stats"] == {"files_changed": 1, "insertions": 2, "deletions": 3}
    assert found | {"git_state": 0, "skipped": 0, "feature_state": 0, "stats": 0} == {
        "id": ID,
        "name": "before",
        "description": "why",
        "kind": "feature",
        "trigger": "cli",
        "scope": "state",
        "timestamp": "2026-11-15T23:34:12.123456+00:00",
        "ref": f"refs/checkpoints/{ID}",
        "commit": "c" * 40,
        "worktree": "main",
        "session": "s",
        "pinned": True,
        "partial": True,
        "foreign": False,
        "during_rollback": True,
        "context": {"turn": 2},
        "data": [1, {"two": None}],
        "metadata": {"k": "v"},
        "problem": None,
        "git_state": 0,
        "skipped": 0,
        "feature_state": 0,
        "stats": 0,
    }


@pytest.mark.parametrize("microsecond", [0, 1, 999999])
def test_a_timestamp_always_has_six_digits_and_a_zone(microsecond: int) -> None:
    moment = draft().timestamp.replace(microsecond=microsecond)
    shown = documents.checkpoint(draft(timestamp=moment))["timestamp"]

    assert shown == f"2026-11-15T23:34:12.{microsecond:06}+00:00"


def test_a_save_without_a_checkpoint_has_its_key_all_the_same() -> None:
    result = SaveResult(Outcome.SKIPPED, reason="disabled")

    assert printed(documents.save(result)) == {
        "outcome": "skipped",
        "checkpoint": None,
        "reason": "disabled",
    }


def test_a_save_tells_its_outcome_and_checkpoint() -> None:
    found = printed(documents.save(SaveResult(Outcome.PARTIAL, draft())))

    assert (found["outcome"], found["checkpoint"]["id"], found["reason"]) == ("partial", ID, None)


def test_a_listing_keeps_the_order_it_is_given() -> None:
    found = printed(documents.listing([draft(name="b"), draft(name="a")]))

    assert [item["name"] for item in found["checkpoints"]] == ["b", "a"]
    assert printed(documents.listing([])) == {"checkpoints": []}


def test_the_trash_tells_the_day() -> None:
    item = Dropped(draft(), date(2026, 11, 16), "refs/checkpoints-trash/20261116/x")

    (found,) = printed(documents.trash([item]))["trash"]
    assert found["dropped_on"] == "2026-11-16"
    assert found["checkpoint"]["id"] == ID


def test_dropped_checkpoints_are_named_by_id() -> None:
    assert printed(documents.dropped([draft()])) == {"dropped": [ID]}


def test_a_diff_with_the_present_goes_to_null() -> None:
    files = (FileChange(NOT_UTF8, "M", 1, 2), FileChange("b", "A", 0, 0, binary=True))
    patch = b"+caf\xe9\n"

    assert printed(documents.diff(DiffResult(draft(), None, files, patch))) == {
        "from": ID,
        "to": None,
        "files": [
            AS_JSON | {"status": "M", "insertions": 1, "deletions": 2, "binary": False},
            {"path": "b", "status": "A", "insertions": 0, "deletions": 0, "binary": True},
        ],
        "patch": "+caf\ufffd\n",
    }


def test_a_diff_of_two_checkpoints_names_both() -> None:
    other = draft(id="20270101-000000-000-aaaa")

    assert printed(documents.diff(DiffResult(draft(), other, (), b"")))["to"] == other.id


def test_a_rollback_with_nothing_to_tell_has_every_key() -> None:
    found = printed(documents.rollback(RollbackResult(draft(), None)))

    assert found.pop("target")["id"] == ID
    assert found == {
        "safety": None,
        "began_from": None,
        "written": [],
        "removed": [],
        "kept": [],
        "skipped": [],
        "folders_changed": False,
        "index_changed": False,
        "state": None,
        "head": None,
        "undo": None,
        "dry_run": False,
        "foreign": False,
        "nested": [],
    }


def test_a_rollback_tells_paths_reasons_and_head() -> None:
    before, after = GitState("a" * 40, "main"), GitState(None, None)
    result = RollbackResult(
        draft(),
        draft(id="20270101-000000-000-aaaa"),
        written=(NOT_UTF8,),
        removed=("b",),
        kept=(Skipped("c", "submodule"),),
        skipped=(Skipped("d", "denied"),),
        index_changed=True,
        head=HeadReport(
            True, before, after, 1, None, branches=(BranchReport("topic", None, "c" * 40),)
        ),
        dry_run=True,
        undo_command="git ckpt undo",
    )

    found = printed(documents.rollback(result))
    assert found["safety"]["id"] == "20270101-000000-000-aaaa"
    assert found["written"] == [AS_JSON]
    assert found["removed"] == [{"path": "b"}]
    assert found["kept"] == [{"path": "c", "reason": "submodule"}]
    assert found["skipped"] == [{"path": "d", "reason": "denied"}]
    assert found["head"] == {
        "moved": True,
        "before": {"commit_hash": "a" * 40, "branch": "main"},
        "after": {"commit_hash": None, "branch": None},
        "ahead": 1,
        "behind": None,
        "operation": None,
        "branches": [{"name": "topic", "before": None, "after": "c" * 40}],
    }
    assert (found["index_changed"], found["dry_run"], found["undo"]) == (
        True,
        True,
        "git ckpt undo",
    )


@pytest.mark.parametrize(
    ("kind", "code", "exit_code"),
    [
        (CkptError, "failed", 1),
        (RollbackError, "failed", 1),
        (UsageError, "usage", 2),
        (NotFound, "not-found", 3),
        (Refused, "refused", 4),
        (Busy, "busy", 4),
    ],
)
def test_an_error_has_its_code(kind: type[CkptError], code: str, exit_code: int) -> None:
    error = kind("it did not work", hint="git ckpt list", details={"available": []})

    assert error.exit_code == exit_code
    assert printed(documents.error(error)) == {
        "error": {
            "code": code,
            "message": "it did not work",
            "hint": "git ckpt list",
            "details": {"available": []},
        }
    }


def test_an_error_without_hint_or_details_has_null() -> None:
    found = printed(documents.error(CkptError("no")))["error"]

    assert found == {"code": "failed", "message": "no", "hint": None, "details": None}


def test_an_interruption_has_the_form_of_an_error() -> None:
    found = printed(documents.interrupted())["error"]

    assert found == {
        "code": "interrupted",
        "message": "interrupted",
        "hint": None,
        "details": None,
    }
