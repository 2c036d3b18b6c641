# SPDX-License-Identifier: MIT
"""A gc that prunes at once is known by what it was told, and waited for."""

from __future__ import annotations

from pathlib import Path

import pytest
from collecting import gc_at_work

from ckpt.git.config import GitConfig, parse_file
from ckpt.git.repository import is_collecting, wait_for_pruning


def is_waited_for(git_dir: Path, config: bytes = b"") -> bool:
    return not wait_for_pruning(str(git_dir), GitConfig(parse_file(config, "config"), {}), 0)


AT_ONCE = [
    ["gc", "--prune=now"],
    ["gc", "--prune=all"],
    ["gc", "--prune=1.second.ago"],
    ["gc", "--prune=5.minutes.ago"],
    ["gc", "--prune=2.weeks.ago", "--prune=now"],
    ["gc", "--prune=0.days.ago"],
    ["gc", "--pru=now"],
    ["-c", "gc.pruneExpire=now", "gc"],
    ["-c", "GC.PRUNEEXPIRE=1.hour.ago", "gc", "-q"],
    ["--config-env=gc.pruneexpire=WHEN", "gc"],
]
LATER = [
    ["gc"],
    ["gc", "--auto"],
    ["gc", "--prune=2.weeks.ago"],
    ["gc", "--prune=3 days"],
    ["gc", "--prune=10.days.ago"],
    ["gc", "--prune=never"],
    ["-c", "gc.pruneExpire=now", "gc", "--prune=1.month.ago"],
    ["log", "--prune=now"],  # the number of a gc that is dead
]


@pytest.mark.parametrize("words", AT_ONCE, ids=" ".join)
def test_what_may_go_within_a_day_goes_at_once(tmp_path: Path, words: list[str]) -> None:
    with gc_at_work(tmp_path, words):
        assert is_waited_for(tmp_path)
    assert not is_waited_for(tmp_path)


@pytest.mark.parametrize("words", LATER, ids=" ".join)
def test_a_gc_that_leaves_what_is_young_is_not_waited_for(tmp_path: Path, words: list[str]) -> None:
    with gc_at_work(tmp_path, words):
        assert not is_waited_for(tmp_path)


def test_it_may_be_told_so_by_configuration(tmp_path: Path) -> None:
    with gc_at_work(tmp_path):
        assert is_waited_for(tmp_path, b"[gc]\npruneExpire = now\n")
        assert not is_waited_for(tmp_path, b"[gc]\npruneExpire = 3.days.ago\n")
        assert not is_waited_for(tmp_path, b"[gc]\npruneExpire = never\n")


@pytest.mark.parametrize(
    "env",
    [
        {"GIT_CONFIG_PARAMETERS": "'gc.pruneexpire'='now'"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "gc.pruneExpire"},
    ],
    ids=["parameters", "count"],
)
def test_or_by_its_environment(tmp_path: Path, env: dict[str, str]) -> None:
    with gc_at_work(tmp_path, ["gc"], env):
        assert is_waited_for(tmp_path)


def test_any_gc_is_seen_while_it_is_at_work(tmp_path: Path) -> None:
    with gc_at_work(tmp_path, ["gc", "--auto"]):
        assert is_collecting(str(tmp_path))
    assert not is_collecting(str(tmp_path))


def test_it_may_be_called_by_its_own_name(tmp_path: Path) -> None:
    with gc_at_work(tmp_path, ["--prune=now"], name="/usr/lib/git-core/git-gc"):
        assert is_waited_for(tmp_path)
    assert not is_waited_for(tmp_path)
