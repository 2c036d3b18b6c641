# SPDX-License-Identifier: MIT
"""An operation in progress is known by its name and by what it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpt.errors import CkptError
from ckpt.git.operation import Operation, read

# Files as git leaves them when an operation stops: name, path, contents.
STOPPED = [
    ("merge", {"MERGE_HEAD": "1", "MERGE_MSG": "text", "MERGE_MODE": ""}),
    ("cherry-pick", {"CHERRY_PICK_HEAD": "1", "MERGE_MSG": "text"}),
    ("revert", {"REVERT_HEAD": "1", "MERGE_MSG": "text"}),
    ("rebase", {"rebase-merge/onto": "1", "rebase-merge/orig-head": "2"}),
    ("rebase", {"rebase-apply/rebasing": "", "rebase-apply/onto": "1"}),
    ("am", {"rebase-apply/applying": "", "ORIG_HEAD": "1"}),
    ("bisect", {"BISECT_LOG": "", "BISECT_START": "main"}),
    ("sequencer", {"sequencer/todo": "pick 1", "sequencer/head": "2"}),
    ("cherry-pick+sequencer", {"CHERRY_PICK_HEAD": "1", "sequencer/todo": "pick 1"}),
    ("merge+bisect", {"MERGE_HEAD": "1", "BISECT_LOG": "", "BISECT_START": "main"}),
]


def in_progress(git_dir: str) -> Operation | None:
    return read(git_dir).identity


def put(folder: Path, files: dict[str, str]) -> None:
    for name, contents in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(contents)


def test_normally_there_is_no_operation(tmp_path: Path) -> None:
    put(tmp_path, {"HEAD": "x", "ORIG_HEAD": "1", "FETCH_HEAD": "1", "MERGE_MSG": "x"})

    assert in_progress(str(tmp_path)) is None


@pytest.mark.parametrize(("name", "files"), STOPPED)
def test_an_operation_is_named_as_git_names_it(
    name: str, files: dict[str, str], tmp_path: Path
) -> None:
    put(tmp_path, files)
    found = in_progress(str(tmp_path))

    assert found is not None
    assert found.name == name
    assert found == in_progress(str(tmp_path))


@pytest.mark.parametrize(
    ("files", "changed"),
    [
        (files, path)
        for _, files in STOPPED
        for path in files
        if path
        in {
            "MERGE_HEAD",
            "CHERRY_PICK_HEAD",
            "REVERT_HEAD",
            "rebase-merge/onto",
            "rebase-merge/orig-head",
            "rebase-apply/onto",
            "BISECT_START",
            "sequencer/head",
        }
    ],
)
def test_the_same_kind_of_operation_about_something_else_is_another(
    files: dict[str, str], changed: str, tmp_path: Path
) -> None:
    put(tmp_path, files)
    before = in_progress(str(tmp_path))
    put(tmp_path, {changed: "9"})

    assert before != in_progress(str(tmp_path))


def test_an_edited_message_is_the_same_operation(tmp_path: Path) -> None:
    put(tmp_path, {"MERGE_HEAD": "1", "MERGE_MSG": "text"})
    before = in_progress(str(tmp_path))
    put(tmp_path, {"MERGE_MSG": "a better text"})

    assert before == in_progress(str(tmp_path))


@pytest.mark.parametrize(
    ("start", "step"),
    [
        ({"rebase-merge/onto": "1", "rebase-merge/done": "pick 1"}, "rebase-merge/done"),
        ({"rebase-apply/onto": "1", "rebase-apply/next": "1"}, "rebase-apply/next"),
        ({"rebase-apply/applying": "", "rebase-apply/next": "1"}, "rebase-apply/next"),
        ({"BISECT_START": "main", "BISECT_LOG": "bad 1"}, "BISECT_LOG"),
    ],
)
def test_a_step_further_is_another_state_of_the_operation(
    start: dict[str, str], step: str, tmp_path: Path
) -> None:
    put(tmp_path, start)
    before = in_progress(str(tmp_path))
    put(tmp_path, {step: "2"})

    assert before != in_progress(str(tmp_path))


def test_an_operation_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "MERGE_HEAD").mkdir()

    with pytest.raises(CkptError, match="MERGE_HEAD"):
        in_progress(str(tmp_path))
