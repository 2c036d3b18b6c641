# SPDX-License-Identifier: MIT
"""The memory of conversions: right, or empty."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ckpt.engine.remembered import Conversion, Memory
from ckpt.store.objects import ObjectID
from ckpt.worktree.identity import identity

BLOB = ObjectID(b"1" * 40)
RAW = ObjectID(b"2" * 40)
PATH = b"caf\xe9"


@pytest.fixture
def status(tmp_path: Path) -> os.stat_result:
    """A file that was last changed long ago."""
    fields = list(os.stat(tmp_path))
    return os.stat_result([*fields[:6], 5, 0, 0, 0, 0, 0, 0, 0, 123_000_456, 124_000_456])


def converted(status: os.stat_result) -> Conversion:
    return Conversion(identity(status), "rule", BLOB, RAW, "eol=crlf")


def remembered(folder: Path, status: os.stat_result) -> Path:
    """A memory of one file; returns where it is kept."""
    memory = Memory(str(folder), "/top")
    memory.add(PATH, status, converted(status))
    memory.save()
    return folder / "conversions"


def found(folder: Path, status: os.stat_result, rule: str = "rule", top: str = "/top") -> object:
    return Memory(str(folder), top).find(PATH, status, rule, BLOB)


def test_a_file_that_has_not_changed_is_known(tmp_path: Path, status: os.stat_result) -> None:
    path = remembered(tmp_path, status)

    assert found(tmp_path, status) == converted(status)
    assert path.stat().st_mode & 0o777 == 0o600


def test_another_rule_blob_worktree_or_path_is_not_known(
    tmp_path: Path, status: os.stat_result
) -> None:
    remembered(tmp_path, status)

    assert found(tmp_path, status, rule="another") is None
    assert found(tmp_path, status, top="/elsewhere") is None
    assert Memory(str(tmp_path), "/top").find(PATH, status, "rule", RAW) is None
    assert Memory(str(tmp_path), "/top").find(b"a", status, "rule", BLOB) is None


def test_a_file_whose_stat_data_changed_is_not_known(
    tmp_path: Path, status: os.stat_result
) -> None:
    remembered(tmp_path, status)
    fields = list(status)

    assert found(tmp_path, os.stat_result([*fields[:6], 6, *fields[7:]])) is None


def test_a_file_written_a_moment_ago_is_not_remembered(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a")
    status = os.stat(tmp_path / "file")
    remembered(tmp_path, status)

    assert found(tmp_path, status) is None


def test_what_is_not_asked_for_again_is_forgotten(tmp_path: Path, status: os.stat_result) -> None:
    remembered(tmp_path, status)
    memory = Memory(str(tmp_path), "/top")
    memory.add(b"other", status, replace(converted(status), recipe=""))
    memory.save()

    assert found(tmp_path, status) is None


@pytest.mark.parametrize("at", [0, 10, 40, 90, 200])
def test_a_damaged_memory_is_empty(tmp_path: Path, status: os.stat_result, at: int) -> None:
    path = remembered(tmp_path, status)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert found(tmp_path, status) is None

    path.write_bytes(data[:at])
    assert found(tmp_path, status) is None


def test_a_memory_that_others_may_write_is_empty(tmp_path: Path, status: os.stat_result) -> None:
    path = remembered(tmp_path, status)
    path.chmod(0o660)
    assert found(tmp_path, status) is None

    path.rename(tmp_path / "other")
    path.symlink_to("other")
    assert found(tmp_path, status) is None


def test_a_memory_that_cannot_be_written_is_no_error(
    tmp_path: Path, status: os.stat_result
) -> None:
    (tmp_path / "file").write_bytes(b"")
    memory = Memory(str(tmp_path / "file"), "/top")
    memory.add(PATH, status, converted(status))
    memory.save()

    assert found(tmp_path / "file", status) is None
