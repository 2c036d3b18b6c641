# SPDX-License-Identifier: MIT
"""The journal of a rollback: whatever it says comes back, and no damaged byte is believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt.engine import journal
from ckpt.engine.journal import (
    Action,
    BranchMove,
    FileState,
    FolderChange,
    HeadMove,
    Journal,
    Origin,
    WorktreePlace,
)
from ckpt.errors import Refused
from ckpt.git.formats import ObjectID
from ckpt.git.refs import Head
from ckpt.git.trees import REGULAR, SYMLINK, TreeEntry
from ckpt.locks import journal_exists

ONE, TWO = ObjectID(b"1" * 40), ObjectID(b"2" * 40)
THERE = FileState(TreeEntry(REGULAR, ONE), 0o640, Origin(TWO, in_lfs=True))
WHOLE = Journal(
    target="target",
    safety="safety",
    paths=(b"a", b"\xff/\n"),
    actions=(
        Action(b"new", None, THERE),
        Action(b"gone", FileState(TreeEntry(SYMLINK, TWO), 0), None),
        Action(b"left", None, THERE),
    ),
    make_folders=(b"made",),
    remove_folders=(b"empty",),
    folders=(FolderChange(b"folder", 0o700, None),),
    index=False,
    unstaged={b"\xfe": "why"},
    kept={b"kept": "why"},
    blocked={b"left": "why"},
    operation=True,
    head=HeadMove(
        Head(b"refs/heads/main", ONE),
        Head(None, TWO),
        None,
        (BranchMove(b"refs/heads/b", ONE, None),),
    ),
    asked_head=True,
    family="0123",
    target_commit="3" * 40,
    worktree=WorktreePlace(b"..", 1, 2),
)


@pytest.fixture
def private(tmp_path: Path) -> str:
    return str(tmp_path)


def test_a_journal_comes_back(private: str) -> None:
    journal.write(private, WHOLE)

    assert journal.read(private) == WHOLE
    assert os.stat(f"{private}/journal").st_mode & 0o777 == 0o600


def test_when_it_is_complete_it_is_what_undo_takes_back(private: str) -> None:
    journal.write(private, WHOLE)
    journal.complete(private, WHOLE, {b"gone": "busy"})

    last = journal.last_rollback(private)
    assert last is not None and not journal_exists(private)
    assert (last.created, last.replaced) == ({b"new"}, set())


@given(at=st.integers(0, 1400), bit=st.integers(0, 7))
def test_every_damaged_byte_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("private")
    journal.write(str(folder), WHOLE)
    path = folder / "journal"
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1 << bit
    path.write_bytes(data)

    with pytest.raises(Refused, match="damaged"):
        journal.read(str(folder))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rollback", None),
        ("rollback", []),
        ("rollback", ["a"] * 21),
        ("format", "1"),
        ("format", 0),
    ],
)
def test_a_journal_of_another_shape_is_refused(key: str, value: object) -> None:
    document = journal.dump(WHOLE)
    document[key] = value
    with pytest.raises((ValueError, TypeError, AttributeError)):
        journal.load(document)


def test_one_of_a_newer_format_is_not_called_damaged() -> None:
    with pytest.raises(journal.NewerJournal, match="newer than this ckpt"):
        journal.load({"format": 2})


@pytest.mark.parametrize("name", ["journal", "last-rollback"])
def test_no_pipe_is_waited_for(name: str, private: str) -> None:
    os.mkfifo(f"{private}/{name}")

    assert journal.last_rollback(private) is None
    if name == "journal":
        with pytest.raises(Refused, match="it is no file"):
            journal.read(private)
