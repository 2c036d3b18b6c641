# SPDX-License-Identifier: MIT
"""When retention looks again: after so many saves."""

from __future__ import annotations

from pathlib import Path

from ckpt.engine import snapshot
from ckpt.models import Outcome, SaveResult

NEW = SaveResult(Outcome.CREATED)


def saves(folder: Path, count: int) -> list[bool]:
    return [snapshot.count_save(str(folder), NEW) for _ in range(count)]


def test_it_is_time_after_so_many_saves_and_then_until_somebody_has_looked(tmp_path: Path) -> None:
    assert saves(tmp_path, snapshot.EVERY) == [False] * snapshot.EVERY
    assert saves(tmp_path, 2) == [True, True]
    snapshot.start_again(str(tmp_path))
    assert saves(tmp_path, snapshot.EVERY) == [False] * snapshot.EVERY


def test_where_nothing_can_be_written_it_is_never_time(tmp_path: Path) -> None:
    assert not snapshot.count_save(str(tmp_path / "nowhere"), NEW)
    (tmp_path / "saves").symlink_to(tmp_path / "other")
    assert not snapshot.count_save(str(tmp_path), NEW)
    assert not (tmp_path / "other").exists()
