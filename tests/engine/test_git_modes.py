# SPDX-License-Identifier: MIT
"""What git takes a file for, and when two states of a path are the same on disk."""

from __future__ import annotations

import os
import stat

import pytest

from ckpt.engine.journal import FileState
from ckpt.engine.reading import GitModes
from ckpt.engine.recorded import file_state
from ckpt.git.formats import ObjectID
from ckpt.git.trees import EXECUTABLE, GITLINK, REGULAR, SYMLINK, TreeEntry
from ckpt.worktree.modes import Modes

ID = ObjectID(b"1" * 40)
FILE, TOOL, LINK = stat.S_IFREG | 0o644, stat.S_IFREG | 0o755, stat.S_IFLNK | 0o777


@pytest.mark.parametrize(
    ("file_mode", "symlinks", "staged", "on_disk", "expected"),
    [
        (True, True, REGULAR, TOOL, EXECUTABLE),
        (True, True, EXECUTABLE, FILE, REGULAR),
        (True, True, SYMLINK, FILE, REGULAR),
        (True, True, None, LINK, SYMLINK),
        (False, True, None, TOOL, REGULAR),
        (False, True, EXECUTABLE, FILE, EXECUTABLE),
        (False, True, REGULAR, TOOL, REGULAR),
        (False, True, SYMLINK, TOOL, REGULAR),
        (False, True, GITLINK, TOOL, REGULAR),
        (True, False, SYMLINK, FILE, SYMLINK),
        (True, False, REGULAR, LINK, SYMLINK),
        (True, False, None, TOOL, EXECUTABLE),
        (False, False, SYMLINK, TOOL, SYMLINK),
    ],
)
def test_a_mode_is_git_s(
    file_mode: bool, symlinks: bool, staged: int | None, on_disk: int, expected: int
) -> None:
    modes = GitModes({} if staged is None else {b"a": staged}, file_mode, symlinks)

    assert modes.of(b"a", os.stat_result([on_disk, *[0] * 9])) == expected


def test_states_are_equal_that_are_the_same_on_disk() -> None:
    plain = FileState(TreeEntry(REGULAR, ID), 0o755)

    assert plain == FileState(TreeEntry(EXECUTABLE, ID), 0o755)
    assert plain == FileState(TreeEntry(SYMLINK, ID), 0o755)
    assert hash(plain) == hash(FileState(TreeEntry(EXECUTABLE, ID), 0o755))
    assert plain != FileState(TreeEntry(REGULAR, ID), 0o644)
    assert plain != FileState(TreeEntry(REGULAR, ObjectID(b"2" * 40)), 0o755)
    assert FileState(TreeEntry(REGULAR, ID), 0) != FileState(TreeEntry(SYMLINK, ID), 0)
    assert plain != None  # noqa: E711  the comparison itself is what is tested


def test_a_link_that_is_a_plain_file_is_told_by_its_bits() -> None:
    modes = Modes(others={b"link": 0o644})

    link = TreeEntry(SYMLINK, ID)
    assert file_state(b"link", link, modes) == FileState(TreeEntry(REGULAR, ID), 0o644)
    real = file_state(b"real", link, modes)
    assert real is not None and real.is_link
    assert file_state(b"gone", None, Modes()) is None
