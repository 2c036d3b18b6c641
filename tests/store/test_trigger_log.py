# SPDX-License-Identifier: MIT
"""What triggers leave for `status`: a notice that is never in the way, whatever became of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from seam import failing, observed

from ckpt.git.trigger_log import Failure, Success, TriggerLog, TriggerNotes

NAMES = ("first", "second", "third")
DONE = Success(1000.5, 0.25, "created", "20261115-233412-123-k7pq")
NOTHING = TriggerNotes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ckpt"


@pytest.fixture
def log(folder: Path) -> TriggerLog:
    return TriggerLog(str(folder), NAMES)


@pytest.fixture
def file(folder: Path) -> Path:
    return folder / "triggers"


def test_what_was_noted_is_read_by_another_process(log: TriggerLog, folder: Path) -> None:
    log.note_success("second", DONE)
    log.note_failure("third", 2000.0, "the disk is full")

    other = TriggerLog(str(folder), NAMES)
    assert other.read("first") == NOTHING
    assert other.read("second") == TriggerNotes(DONE)
    assert other.read("third") == TriggerNotes(None, Failure(2000.0, 1, "the disk is full"))


def test_a_trigger_keeps_its_last_success_and_its_last_failure(log: TriggerLog) -> None:
    log.note_success("first", DONE)
    log.note_failure("first", 2000.0, "full")
    assert log.read("first") == TriggerNotes(DONE, Failure(2000.0, 1, "full"))
    assert log.read("first").is_failing

    later = Success(3000.0, 1.0, "unchanged", DONE.id)
    log.note_success("first", later)
    assert log.read("first") == TriggerNotes(later, Failure(2000.0, 1, "full"))
    assert not log.read("first").is_failing


def test_failures_are_counted_until_something_succeeds(log: TriggerLog) -> None:
    for number in range(3):
        log.note_failure("first", 2000.0 + number, f"full {number}")
    assert log.read("first").failure == Failure(2002.0, 3, "full 2")
    log.note_success("first", Success(2500.0, 0.1, "created", ""))
    log.note_failure("first", 3000.0, "full again")

    assert log.read("first").failure == Failure(3000.0, 1, "full again")


def test_it_is_known_what_was_told_lately(log: TriggerLog) -> None:
    log.note_failure("first", 2000.0, "the  disk\nis full")

    assert log.told("first", "the disk is full", since=1999.0)
    assert not log.told("first", "the disk is full", since=2001.0)
    assert not log.told("first", "read-only", since=1999.0)
    assert not log.told("second", "the disk is full", since=1999.0)


def test_a_message_becomes_one_line_that_fits(log: TriggerLog) -> None:
    log.note_success("first", DONE)
    log.note_failure("first", 2000.0, "a\tb\nc\u2028d \udce9 " + "é" * 5000)
    log.note_success("second", DONE)

    found = log.read("first").failure
    assert found is not None
    assert found.message.startswith("a b c d \\udce9 éé")
    assert 600 < len(found.message.encode()) <= 700
    assert log.read("second") == TriggerNotes(DONE)
    assert log.told("first", "a\tb\nc\u2028d \udce9 " + "é" * 5000, since=0)


def test_the_file_is_private_and_never_grows(log: TriggerLog, file: Path) -> None:
    log.note_success("first", DONE)
    size = file.stat().st_size
    for name in NAMES:
        log.note_failure(name, 2000.0, "x" * 5000)

    assert file.stat().st_size == size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_the_file_is_written_in_place(log: TriggerLog, file: Path) -> None:
    """On a full disk there is no room for a new one."""
    log.note_success("first", DONE)
    inode = file.stat().st_ino
    with observed() as seen:
        log.note_failure("first", 2000.0, "No space left on device")

    assert seen == [("overwrite", str(file))]
    assert file.stat().st_ino == inode


def test_what_cannot_be_written_is_let_go(log: TriggerLog, tmp_path: Path) -> None:
    with failing("overwrite", "mkdir"):
        log.note_failure("first", 2000.0, "full")
        log.note_success("first", DONE)
    assert log.read("first") == NOTHING
    write_file = tmp_path / "a file"
    write_file.write_text("")
    blocked = TriggerLog(str(write_file / "ckpt"), NAMES)
    blocked.note_success("first", DONE)

    assert blocked.read("first") == NOTHING


def test_a_trigger_that_has_no_slot_is_nobody_s_trouble(log: TriggerLog) -> None:
    log.note_success("fourth", DONE)
    log.note_failure("fourth", 2000.0, "full")

    assert log.read("fourth") == NOTHING
    assert [log.read(name) for name in NAMES] == [NOTHING] * 3


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"short",
        b"\0" * 4096,
        b"\xff" * 4096,
        b"success\t1.0\n",
        b"success\t1.0\tlong\tcreated\tid\n",
        b"success\tnan\t1.0\tcreated\tid\n",
        b"success\t1e300\t1.0\tcreated\tid\n",
        b"success\t-5.0\t1.0\tcreated\tid\n",
        b"failure\tinf\t1\tmessage\n",
        b"failure\t1.0\tmany\tmessage\n",
        b"failure\t1.0\n",
        b"failure\n",
        b'{"first": "of another program"}',
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


def test_one_torn_slot_leaves_the_others_readable(log: TriggerLog, file: Path) -> None:
    for name in NAMES:
        log.note_success(name, DONE)
    data = bytearray(file.read_bytes())
    slot = len(data) // len(NAMES)
    data[slot : slot + 20] = b"\xc3" * 20
    file.write_bytes(data)

    assert [log.read(name) for name in NAMES] == [TriggerNotes(DONE), NOTHING, TriggerNotes(DONE)]


def test_a_file_that_was_cut_off_keeps_what_is_left(log: TriggerLog, file: Path) -> None:
    for name in NAMES:
        log.note_success(name, DONE)
    os.truncate(file, file.stat().st_size // 2)

    assert log.read("first") == TriggerNotes(DONE)
    assert log.read("third") == NOTHING
    log.note_success("third", DONE)
    assert log.read("third") == TriggerNotes(DONE)


def test_neither_a_link_nor_a_pipe_nor_somebody_s_open_file_is_read(
    log: TriggerLog, file: Path, tmp_path: Path
) -> None:
    log.note_success("first", DONE)
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    log.note_failure("first", 2000.0, "full")
    assert log.read("first") == NOTHING
    assert elsewhere.read_bytes() == before

    file.unlink()
    os.mkfifo(file, 0o600)
    log.note_failure("first", 2000.0, "full")
    assert log.read("first") == NOTHING

    file.unlink()
    elsewhere.rename(file)
    file.chmod(0o664)
    assert log.read("first") == NOTHING
    file.chmod(0o644)  # which forges nothing
    assert log.read("first").success == DONE
