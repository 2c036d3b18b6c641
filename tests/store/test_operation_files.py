# SPDX-License-Identifier: MIT
"""The files of an operation, taken out of a git dir and put into one."""

from __future__ import annotations

from pathlib import Path

import pytest
from byhand import files_below
from seam import observed

from ckpt.git import operation as operation_files
from ckpt.git.operation import OperationFiles

BISECT = {"BISECT_LOG": b"log\n", "refs/bisect/bad": b"1" * 40 + b"\n"}


@pytest.fixture
def git_dir(tmp_path: Path) -> Path:
    (tmp_path / "git/refs").mkdir(parents=True)
    return tmp_path / "git"


def test_an_operation_is_put_in_and_taken_out_without_a_trace(git_dir: Path) -> None:
    private = str(git_dir / "ckpt")

    operation_files.install(str(git_dir), private, OperationFiles(BISECT))
    assert files_below(git_dir) == sorted(BISECT)
    operation_files.clear(str(git_dir), private)

    assert files_below(git_dir) == []


def test_every_folder_in_which_a_name_came_or_went_is_flushed(git_dir: Path) -> None:
    """Git's own folder for refs, too: or a power cut takes a bisection back that was told of."""
    folders = {str(git_dir), str(git_dir / "refs")}

    for act in (
        lambda private: operation_files.install(str(git_dir), private, OperationFiles(BISECT)),
        lambda private: operation_files.clear(str(git_dir), private),
    ):
        with observed() as seen:
            act(str(git_dir / "ckpt"))
        last = max(at for at, (operation, _) in enumerate(seen) if operation == "rename")
        assert {path for operation, path in seen[last:] if operation == "fsync-dir"} >= folders
