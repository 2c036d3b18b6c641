# SPDX-License-Identifier: MIT
"""The journal of a rollback: whatever it says comes back, and no damaged byte is believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt.disk import journal_exists
from ckpt.engine import journal
from ckpt.engine.journal import BranchMove, FolderChange, HeadMove, Journal
from ckpt.errors import Refused
from ckpt.git.objects import ObjectID
from ckpt.git.refs import Head

ONE, TWO = ObjectID(b"1" * 40), ObjectID(b"2" * 40)
WHOLE = Journal(
    target="target",
    safety="safety",
    paths=(b"a", b"\xff/\n"),
    files=(b"new", b"gone"),
    folders=(FolderChange(b"folder", 0o700, None),),
    index=False,
    operation=True,
    head=HeadMove(
        Head(b"refs/heads/main", ONE),
        Head(None, TWO),
        (BranchMove(b"refs/heads/b", ONE, None),),
    ),
    asked_head=True,
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
    journal.complete(private)

    assert journal.last_rollback(private) == WHOLE
    assert not journal_exists(private)


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

    with pytest.raises(Refused, match="cannot be used"):
        journal.read(str(folder))


@pytest.mark.parametrize("name", ["journal", "last-rollback"])
def test_no_pipe_is_waited_for(name: str, private: str) -> None:
    os.mkfifo(f"{private}/{name}")

    assert journal.last_rollback(private) is None
    if name == "journal":
        with pytest.raises(Refused, match="not a private file"):
            journal.read(private)
