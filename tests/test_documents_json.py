# SPDX-License-Identifier: MIT
"""What programs read: every key of every document, with null for what is absent."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from byhand import ID, draft

from ckpt import documents
from ckpt.errors import Busy, CkptError, NotFound, Refused, RollbackError, UsageError
from ckpt.models import (
    DiffResult,
    FileChange,
    RollbackResult,
)

NOT_UTF8 = os.fsdecode(b"caf\xe9")
AS_JSON = {"path": "caf\ufffd", "path_b64": "Y2Fm6Q=="}


def printed(document: dict[str, Any]) -> dict[str, Any]:
    """A document as a program reads it."""
    read = json.loads(json.dumps(document, ensure_ascii=True))
    assert read.pop("schema") == 1
    return read


@pytest.mark.parametrize("microsecond", [0, 1, 999999])
def test_a_timestamp_always_has_six_digits_and_a_zone(microsecond: int) -> None:
    moment = draft().timestamp.replace(microsecond=microsecond)
    shown = documents.checkpoint(draft(timestamp=moment))["timestamp"]

    assert shown == f"2026-11-15T23:34:12.{microsecond:06}+00:00"


def test_a_diff_with_the_present_goes_to_null() -> None:
    files = (FileChange(NOT_UTF8, "M", 1, 2), FileChange("b", "A", 0, 0, binary=True))
    patch = b"+caf\xe9\n"

    assert printed(documents.of(DiffResult(draft(), None, files, patch))) == {
        "from": ID,
        "to": None,
        "files": [
            AS_JSON | {"status": "M", "insertions": 1, "deletions": 2, "binary": False},
            {"path": "b", "status": "A", "insertions": 0, "deletions": 0, "binary": True},
        ],
        "patch": "+caf\ufffd\n",
    }


def test_a_rollback_with_nothing_to_tell_has_every_key() -> None:
    found = printed(documents.of(RollbackResult(draft(), None)))

    assert found.pop("target")["id"] == ID
    assert found == {
        "safety": None,
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
    assert printed(documents.document(error=error)) == {
        "error": {
            "code": code,
            "message": "it did not work",
            "hint": "git ckpt list",
            "details": {"available": []},
        }
    }


def test_an_error_without_hint_or_details_has_null() -> None:
    found = printed(documents.document(error=CkptError("no")))["error"]

    assert found == {"code": "failed", "message": "no", "hint": None, "details": None}
