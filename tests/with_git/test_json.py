# SPDX-License-Identifier: MIT
"""The JSON documents: their exact keys, one document on standard output, nothing missing."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timezone
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import git
from scenes import creatable, remove, write

CHECKPOINT = {
    *("id", "name", "description", "kind", "trigger", "scope", "timestamp", "ref", "commit"),
    *("worktree", "session", "pinned", "partial", "git_state", "feature_state", "context"),
    *("data", "metadata", "stats", "skipped"),
}
ROLLBACK = {
    *("target", "safety", "written", "removed", "kept", "skipped", "state", "head", "undo"),
    "dry_run",
}


def document(*words: str, code: int = 0) -> dict:
    """What a command prints; with --json nothing may stand beside it."""
    for where in (("--json", *words), (*words[:1], "--json", *words[1:])):
        ran = ckpt(*where, code=code)
        assert ran.stderr == ""
        assert ran.stdout.count("\n") == 1
        assert ran.json["schema"] == 1
        if words[0] in ("save", "rollback", "undo", "drop"):
            break
    return ran.json


def check_checkpoint(found: dict) -> None:
    assert found.keys() >= CHECKPOINT
    assert found["git_state"].keys() == {"commit_hash", "branch", "dirty_files", "operation"}
    assert found["feature_state"].keys() == {"current", "completed", "snapshot_path"}
    assert found["stats"].keys() == {"files_changed", "insertions", "deletions"}
    assert found["ref"] == f"refs/checkpoints/{found['id']}"
    assert found["scope"] == "full"
    moment = datetime.fromisoformat(found["timestamp"])
    assert moment.tzinfo == timezone.utc
    assert moment.isoformat(timespec="microseconds") == found["timestamp"]


def test_a_checkpoint_of_nothing_special_has_every_key(repo: Path) -> None:
    told = document("save")
    found = told["checkpoint"]

    assert told.keys() == {"schema", "outcome", "checkpoint", "reason"}
    assert (told["outcome"], told["reason"]) == ("created", None)
    check_checkpoint(found)
    absent = ("name", "description", "session", "context", "data", "metadata")
    assert [found[key] for key in absent] == [None] * len(absent)
    assert found["feature_state"] == {"current": None, "completed": [], "snapshot_path": None}
    assert found["skipped"] == []
    assert (found["pinned"], found["partial"]) == (False, False)
    assert found["kind"] == "manual"
    assert found["worktree"] == "main"
    assert found["stats"] == {"files_changed": 0, "insertions": 0, "deletions": 0}
    assert found["git_state"] == {
        "commit_hash": git("rev-parse", "HEAD").strip(),
        "branch": "main",
        "dirty_files": [],
        "operation": None,
    }


def test_a_checkpoint_with_everything_comes_back_as_it_was_saved(repo: Path) -> None:
    write(repo, "README.md", "# An example\nand a line\n")
    write(repo, "new", "1\n2\n3\n")
    remove(repo, "src/app.py")
    git("rm", "-q", "--cached", "run.sh")
    write(repo, ".env", "SECRET=1\n")
    data = {"step": 3, "ünï": ["日本", None, True, 1.5, {"deep": {}}], "big": 2**70}
    words = ("--kind", "feature", "--session", "s 1", "--pin", "--meta", "a=b", "--meta", "c=d=e")

    found = document("save", "a name", "-m", "why\n\nand more", "--data", json.dumps(data), *words)
    found = found["checkpoint"]

    check_checkpoint(found)
    assert found["name"] == "a name"
    assert found["description"] == "why\n\nand more"
    assert found["data"] == data
    assert found["metadata"] == {"a": "b", "c": "d=e"}
    assert (found["kind"], found["session"], found["pinned"]) == ("feature", "s 1", True)
    assert found["stats"] == {"files_changed": 3, "insertions": 4, "deletions": 1}
    assert found["git_state"]["dirty_files"] == [
        {"path": "README.md"},
        {"path": "new"},
        {"path": "run.sh"},
        {"path": "src/app.py"},
    ]
    assert found["skipped"] == [{"path": ".env", "reason": "denied"}]
    assert document("show", "a name") == {"schema": 1, "checkpoint": found}
    assert document("list") == {"schema": 1, "checkpoints": [found]}


def test_data_can_come_from_a_file(repo: Path) -> None:
    write(repo, "state.json", '{"a": [1, 2]}')

    assert document("save", "--data", "@state.json")["checkpoint"]["data"] == {"a": [1, 2]}
    told = ckpt("-C", "src", "save", "--json", "--data", "@../state.json", code=0).json
    assert told["checkpoint"]["data"] == {"a": [1, 2]}


def test_lists_are_newest_first(repo: Path) -> None:
    made = [document("save", name)["checkpoint"] for name in ("one", "two", "three")]

    assert document("list")["checkpoints"] == made[::-1]
    assert document("list", "--name", "nothing")["checkpoints"] == []


def test_a_diff_has_its_keys_and_a_patch_that_git_applies(repo: Path) -> None:
    write(repo, "gone", "was here\n")
    one = document("save", "one")["checkpoint"]["id"]
    write(repo, "README.md", "# An example\nmore\n")
    write(repo, "src/data.bin", b"\0other")
    (repo / "src/app.py").chmod(0o755)
    write(repo, "current", "no link now\n")
    write(repo, "new", "new")
    remove(repo, "gone")
    two = document("save", "two")["checkpoint"]["id"]

    told = document("diff", "one", "two")

    assert told.keys() == {"schema", "from", "to", "files", "patch"}
    assert (told["from"], told["to"]) == (one, two)
    keys = ("path", "status", "insertions", "deletions")
    assert [tuple(file[key] for key in keys) for file in told["files"]] == [
        ("README.md", "M", 1, 0),
        ("current", "T", 1, 1),
        ("gone", "D", 0, 1),
        ("new", "A", 1, 0),
        ("src/app.py", "M", 0, 0),
        ("src/data.bin", "M", 0, 0),
    ]
    assert document("diff", "one") == told | {"to": None}
    assert document("diff", "two")["files"] == []
    assert [file["path"] for file in document("diff", "one", "two", "--", "src")["files"]] == [
        "src/app.py",
        "src/data.bin",
    ]
    text = ckpt("diff", "one", "two", "--", "README.md", "new", "gone", "current", code=0).stdout
    git("apply", "--check", "--reverse", "-", stdin=text)


def test_a_rollback_has_its_keys_and_undo_the_same(repo: Path) -> None:
    write(repo, "gone", "was here\n")
    one = document("save", "one")["checkpoint"]
    remove(repo, "gone")
    write(repo, "new", "new\n")
    write(repo, "README.md", "edited\n")

    told = document("rollback", "one")
    assert told.keys() >= ROLLBACK | {"schema"}
    assert told["target"] == one
    check_checkpoint(told["safety"])
    assert told["safety"]["kind"] == "safety"
    assert told["written"] == [{"path": "README.md"}, {"path": "gone"}]
    assert told["removed"] == [{"path": "new"}]
    assert (told["kept"], told["skipped"], told["state"]) == ([], [], None)
    assert told["head"].keys() >= {"moved", "before", "after"}
    assert (told["undo"], told["dry_run"]) == ("git ckpt undo", False)

    undone = document("undo")
    assert undone.keys() == told.keys()
    assert undone["target"] == told["safety"]
    assert undone["written"] == [{"path": "README.md"}, {"path": "new"}]
    assert undone["removed"] == [{"path": "gone"}]


def test_paths_that_are_not_utf8_have_their_bytes_beside_them(repo: Path) -> None:
    name = b"caf\xe9"
    if not creatable(repo, (name,)):
        pytest.skip("this file system takes UTF-8 only")
    document("save", "before")
    write(repo, name, "x\n")
    shown = {"path": "caf\ufffd", "path_b64": base64.b64encode(name).decode()}

    assert document("save")["checkpoint"]["git_state"]["dirty_files"] == [shown]
    assert document("diff", "before")["files"][0].items() >= shown.items()
    assert document("rollback", "before", "--dry-run")["removed"] == [shown]
    assert document("rollback", "before")["removed"] == [shown]


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        (("save", ""), 2, "usage"),
        (("bogus",), 2, "usage"),
        (("show", "nothing"), 3, "not-found"),
        (("undo",), 3, "not-found"),
        (("rollback", "one", "--", "no such path"), 1, "failed"),
        (("rollback", "one"), 4, "busy"),
        (("list", "-C", "/"), 1, "failed"),
    ],
)
def test_a_failure_has_its_keys_and_its_code(
    repo: Path, words: tuple[str, ...], code: int, name: str
) -> None:
    document("save", "one")
    write(repo, "README.md", "edited\n")
    if name == "busy":
        write(repo, ".git/index.lock", "")

    failed = document(*words, code=code)

    assert failed.keys() == {"schema", "error"}
    assert failed["error"].keys() == {"code", "message", "hint", "details"}
    assert failed["error"]["code"] == name
    assert failed["error"]["message"][0].islower() or failed["error"]["message"][0] in "'-"
    assert not failed["error"]["message"].endswith(".")
    assert failed["error"]["hint"]


def test_what_differed_from_head_is_told_of_any_checkpoint_from_its_trees(repo: Path) -> None:
    """Staged and taken back, changed, removed and new: not written down, but worked out."""
    for name in ("staged", "changed", "gone", "same"):
        (repo / name).write_text("one\n")
    git("add", ".")
    git("commit", "-qm", "four")
    (repo / "staged").write_text("two\n")
    git("add", "staged")
    (repo / "staged").write_text("one\n")
    (repo / "changed").write_text("two\n")
    (repo / "gone").unlink()
    (repo / "new").write_text("new\n")
    saved = document("save")["checkpoint"]["git_state"]["dirty_files"]

    assert [file["path"] for file in saved] == ["changed", "gone", "new", "staged"]
    assert document("show", "latest")["checkpoint"]["git_state"]["dirty_files"] == saved
    assert document("list")["checkpoints"][0]["git_state"]["dirty_files"] == saved
