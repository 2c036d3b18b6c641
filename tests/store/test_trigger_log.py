# SPDX-License-Identifier: MIT
"""What triggers leave for `status`: a notice that is never in the way, whatever became of it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from seam import failing

from ckpt.engine.trigger_log import Failure, Success, TriggerLog, TriggerNotes

DONE = Success(1000.5, 0.25, "created", "20261115-233412-123-k7pq")
NOTHING = TriggerNotes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ckpt"


@pytest.fixture
def log(folder: Path) -> TriggerLog:
    return TriggerLog(str(folder))


@pytest.fixture
def file(folder: Path) -> Path:
    return folder / "triggers"


def test_what_was_noted_is_read_by_another_process(log: TriggerLog, folder: Path) -> None:
    log.note_success("second", DONE)
    log.note_failure("third", 2000.0, "the disk is full")

    other = TriggerLog(str(folder))
    assert other.read("first") == NOTHING
    assert other.read("second") == TriggerNotes(DONE)
    assert other.read("third") == TriggerNotes(None, Failure(2000.0, 1, "the disk is full"))


def test_failures_are_counted_until_something_succeeds(log: TriggerLog) -> None:
    for number in range(3):
        log.note_failure("first", 2000.0 + number, f"full {number}")
    assert log.read("first").failure == Failure(2002.0, 3, "full 2")
    log.note_success("first", Success(2500.0, 0.1, "created", ""))
    log.note_failure("first", 3000.0, "full again")

    assert log.read("first").failure == Failure(3000.0, 1, "full again")


def test_a_message_becomes_one_line_that_fits(log: TriggerLog) -> None:
    log.note_success("first", DONE)
    log.note_failure("first", 2000.0, "a\tb\nc\u2028d \udce9 " + "é" * 5000)
    log.note_success("second", DONE)

    found = log.read("first").failure
    assert found is not None
    assert found.message.startswith("a b c d \\udce9 éé")
    assert len(found.message) > 600
    assert log.read("second") == TriggerNotes(DONE)


def test_the_file_is_private_and_never_grows(log: TriggerLog, file: Path) -> None:
    log.note_success("first", DONE)
    size = file.stat().st_size
    for name in ("first", "second", "third"):
        log.note_failure(name, 2000.0, "x" * 5000)

    assert file.stat().st_size == size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_what_cannot_be_written_is_let_go(log: TriggerLog, tmp_path: Path) -> None:
    with failing("overwrite", "mkdir"):
        log.note_failure("first", 2000.0, "full")
        log.note_success("first", DONE)
    assert log.read("first") == NOTHING
    write_file = tmp_path / "a file"
    write_file.write_text("")
    blocked = TriggerLog(str(write_file / "ckpt"))
    blocked.note_success("first", DONE)

    assert blocked.read("first") == NOTHING


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"short",
        b"\0" * 4096,
        b"\xff" * 4096,
        b"[]",
        b'{"first": "of another program"}',
        b'{"first": [[1.0, 2.0], null]}',
        b'{"first": [null, [-5.0, 1, "message"]]}',
        b'{"first": [null, ["x", 1, "message"]]}',
    ],
)
def test_a_damaged_or_foreign_file_reads_as_empty_and_is_written_again(
    damage: bytes, log: TriggerLog, file: Path
) -> None:
    file.parent.mkdir(0o700)
    file.write_bytes(damage)
    file.chmod(0o600)
    assert log.read("first") == NOTHING

    log.note_failure("first", 2000.0, "full")
    log.note_success("third", DONE)
    assert log.read("first") == TriggerNotes(None, Failure(2000.0, 1, "full"))
    assert log.read("third") == TriggerNotes(DONE)
