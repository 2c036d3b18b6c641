# SPDX-License-Identifier: MIT
"""Which process is pre-commit, and which of the patches in its store it has just made."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ckpt.triggers.git_hooks import find_patch, is_pre_commit, started_at, stores
from ckpt.triggers.guard import Process, find, from_ps

TICKS = os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/python3 -mpre_commit hook-impl --config=.pre-commit-config.yaml",
        "python3.12 -m pre_commit run",
        "/v/bin/python -I -X utf8 -W error -Ium pre_commit run",
        "/v/bin/python /v/bin/pre-commit run",
        "/v/bin/pypy3 /v/bin/pre-commit run",
        "/opt/Python.app/Contents/MacOS/Python /v/bin/pre-commit run",
        "python3 pre-commit-4.0.1.pyz run",
        "/v/bin/python3 /v/bin/pre-commit",
        "pre-commit run",
        "/home/a b/bin/python3 -mpre_commit hook-impl",
    ],
)
def test_pre_commit_is_known_by_its_command(command: str) -> None:
    assert is_pre_commit(command.split())


@pytest.mark.parametrize(
    "command",
    [
        "",
        "python3",
        "python3 -c pre_commit",
        "python3 -m pytest pre_commit",
        "python3 -m",
        "python3 setup.py pre-commit",
        "sh /repo/.git/hooks/pre-commit",
        "/repo/.git/hooks/pre-commit.legacy",
        "git hook run pre-commit",
        "vim pre-commit",
        "python3 -X",
    ],
)
def test_what_only_speaks_of_it_is_not_pre_commit(command: str) -> None:
    assert not is_pre_commit(command.split())


def test_the_store_is_where_pre_commit_looks_for_it(tmp_path: Path) -> None:
    home = {"HOME": "/h"}

    assert stores(home, "/usr") == ("/h/.cache/pre-commit",)
    assert stores(home | {"XDG_CACHE_HOME": "/c"}, "/usr") == ("/c/pre-commit",)
    assert stores(home | {"PRE_COMMIT_HOME": "/s"}, "/usr") == ("/s",)
    assert stores(home, "/tmp/try/repo1/py_env-python3") == ("/h/.cache/pre-commit", "/tmp/try")


def process(pid: int, started: float) -> Process:
    """One that was started so many seconds since 1970."""
    since_boot = started - time.time() + time.clock_gettime(time.CLOCK_BOOTTIME)
    return Process(pid, 1, 1, str(int(since_boot * TICKS)), ("pre-commit",))


def plant(store: Path, pid: int, made: float, mtime: float | None = None) -> Path:
    path = store / f"patch{int(made)}-{pid}"
    path.write_bytes(b"patch of %d" % int(made))
    os.utime(path, (made, made if mtime is None else mtime))
    return path


def test_a_patch_from_before_the_process_is_none_of_its_own(tmp_path: Path) -> None:
    now = time.time()
    plant(tmp_path, 7, now - 2)

    assert find_patch([str(tmp_path)], process(7, now)) is None


def test_a_patch_that_was_copied_lately_is_as_old_as_its_name_says(tmp_path: Path) -> None:
    now = time.time()
    plant(tmp_path, 7, now - 2, mtime=now)

    assert find_patch([str(tmp_path)], process(7, now)) is None


def test_a_name_without_fractions_of_a_second_may_be_of_the_same_second(tmp_path: Path) -> None:
    began = int(time.time()) - 10 + 0.5
    made = plant(tmp_path, 7, began + 0.3)

    assert find_patch([str(tmp_path)], process(7, began)) == str(made)


def test_the_newest_of_several_counts(tmp_path: Path) -> None:
    now = time.time()
    made = [plant(tmp_path, 7, now - age) for age in (3, 1, 2)]
    plant(tmp_path, 77, now)

    found = find_patch([str(tmp_path), str(tmp_path / "nowhere")], process(7, now - 10))

    assert found == str(made[1])


def test_the_start_of_a_process_is_known_to_a_hundredth_of_a_second() -> None:
    before = time.time()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    after = time.time()
    try:
        found = find(child.pid)
        started = None if found is None else started_at(found)
        told = from_ps(child.pid)
        by_ps = None if told is None else started_at(told)
    finally:
        child.communicate(b"\n")

    assert started is not None and before - 0.03 <= started <= after + 0.03
    assert by_ps is not None and int(before) - 1 <= by_ps <= after + 1


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    assert started_at(Process(2**22 + 1, 1, 1, "Mon Jan  1 00:00:00 2026", ())) is None
