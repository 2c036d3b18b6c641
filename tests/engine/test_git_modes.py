# SPDX-License-Identifier: MIT
"""When two states of a path are the same on disk."""

from __future__ import annotations

import stat

from ckpt.engine.checkpoint import file_state
from ckpt.engine.journal import FileState
from ckpt.git.objects import ObjectID
from ckpt.git.trees import EXECUTABLE, REGULAR, SYMLINK, TreeEntry
from ckpt.models import Modes

ID = ObjectID(b"1" * 40)
FILE, TOOL, LINK = stat.S_IFREG | 0o644, stat.S_IFREG | 0o755, stat.S_IFLNK | 0o777


def test_states_are_equal_that_are_the_same_on_disk() -> None:
    plain = FileState.of(TreeEntry(REGULAR, ID), 0o755)

    assert plain == FileState.of(TreeEntry(EXECUTABLE, ID), 0o755)
    assert plain == FileState.of(TreeEntry(SYMLINK, ID), 0o755)
    assert hash(plain) == hash(FileState.of(TreeEntry(EXECUTABLE, ID), 0o755))
    assert plain != FileState.of(TreeEntry(REGULAR, ID), 0o644)
    assert plain != FileState.of(TreeEntry(REGULAR, ObjectID(b"2" * 40)), 0o755)
    assert FileState.of(TreeEntry(REGULAR, ID), 0) != FileState.of(TreeEntry(SYMLINK, ID), 0)
    assert plain != None  # noqa: E711  the comparison itself is what is tested


def test_a_link_that_is_a_plain_file_is_told_by_its_bits() -> None:
    modes = Modes(others={b"link": 0o644})

    link = TreeEntry(SYMLINK, ID)
    assert file_state(b"link", link, modes) == FileState.of(TreeEntry(REGULAR, ID), 0o644)
    real = file_state(b"real", link, modes)
    assert real is not None and real.is_link
    assert file_state(b"gone", None, Modes()) is None
