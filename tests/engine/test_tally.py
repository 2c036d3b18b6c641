# SPDX-License-Identifier: MIT
"""When retention looks again: after so many saves, or a day; never because of a broken file."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ckpt.engine import snapshot


def saves(folder: Path, count: int) -> list[bool]:
    return [snapshot.count_save(str(folder)) for _ in range(count)]


def test_it_is_time_after_so_many_saves_and_then_until_somebody_has_looked(tmp_path: Path) -> None:
    assert saves(tmp_path, snapshot.EVERY) == [False] * snapshot.EVERY
    assert saves(tmp_path, 2) == [True, True]
    snapshot.start_again(str(tmp_path))
    assert saves(tmp_path, snapshot.EVERY) == [False] * (snapshot.EVERY - 1) + [True]


@pytest.mark.parametrize("ago", [86401, -10])
def test_it_is_time_after_a_day_or_when_the_clock_went_back(tmp_path: Path, ago: int) -> None:
    (tmp_path / "saves").write_bytes(b"%010d\n" % (time.time() - ago))

    assert saves(tmp_path, 1) == [True]


@pytest.mark.parametrize("content", [b"\0" * 20, b"garbage-garbage", b"1"])
def test_a_damaged_file_means_no_more_than_a_look(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "saves").write_bytes(content)

    assert saves(tmp_path, 1) in ([True], [False])
    snapshot.start_again(str(tmp_path))
    assert saves(tmp_path, 1) == [False]


def test_where_nothing_can_be_written_it_is_never_time(tmp_path: Path) -> None:
    assert not snapshot.count_save(str(tmp_path / "nowhere"))
    (tmp_path / "saves").symlink_to(tmp_path / "other")
    assert not snapshot.count_save(str(tmp_path))
    assert not (tmp_path / "other").exists()
