# SPDX-License-Identifier: MIT
"""Filter drivers, with real commands: the shell's and a small process in Python."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from ckpt.worktree.filters import Filters, Unconvertible, read_drivers


@contextmanager
def file(content: bytes) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as source:
        source.write(content)
        source.seek(0)
        yield source


@pytest.fixture
def filters(tmp_path: Path) -> Filters:
    return Filters({}, top=str(tmp_path), env=dict(os.environ), hung=set())


def cleaned(filters: Filters, command: str | None, content: bytes, path: bytes = b"a") -> bytes:
    filters = filters._replace(drivers={"odd": command})
    with file(content) as source, filters.clean("odd", path, source) as output:
        return output.read()


def children() -> set[int]:
    """Processes of this one, also those that ended and were not waited for."""
    me = str(os.getpid())
    words = ["ps", "-A", "-o", "ppid=,pid=,comm="]
    ps = subprocess.run(words, capture_output=True, text=True, check=True)
    rows = [row.split() for row in ps.stdout.splitlines()]
    return {int(row[1]) for row in rows if row[0] == me and row[2] != "ps"}


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


def test_drivers_are_read_from_configuration() -> None:
    items = [
        ("lfs.clean", "git-lfs clean -- %f", "config"),
        ("lfs.process", "git-lfs filter-process", "config"),
        ("a.b.smudge", "old", "config"),
        ("a.b.smudge", "cat", "config"),
        ("other.process", "other", "config"),
        ("stray", "nothing", "config"),
    ]

    assert read_drivers(items) == {
        "lfs": "git-lfs clean -- %f",
        "a.b": "",
        "other": None,
    }


def test_a_command_has_the_content_on_its_standard_input(filters: Filters) -> None:
    assert cleaned(filters, "tr a-z A-Z", b"shout") == b"SHOUT"


def test_a_command_is_run_in_the_top_folder_with_the_given_environment(tmp_path: Path) -> None:
    env = {**os.environ, "SAID": "hello"}
    filters = Filters({}, top=str(tmp_path), env=env, hung=set(), timeout=60)
    said = cleaned(filters, 'pwd; echo "$SAID"', b"")

    assert said == os.fsencode(tmp_path) + b"\nhello\n"


@pytest.mark.parametrize("path", [b"it's", b"a b", b"$(touch x)", b"\xff", b"-n", b"a;b"])
def test_the_path_is_quoted_for_the_shell(filters: Filters, path: bytes) -> None:
    driver = "printf '%%s|%%d %q' %f 2>/dev/null; printf '%%s' %f"

    assert cleaned(filters, driver, b"", path).endswith(path)


def test_a_percent_sign_stands_for_itself_when_doubled_or_before_another_letter(
    filters: Filters,
) -> None:
    assert cleaned(filters, "echo 100%% %x '%'", b"") == b"100% %x %\n"


def test_a_driver_with_a_process_only_fails(filters: Filters) -> None:
    with pytest.raises(Unconvertible):
        cleaned(filters, None, b"a")


def test_a_command_need_not_read_its_input(filters: Filters) -> None:
    assert cleaned(filters, "echo yes", b"x" * 1_000_000) == b"yes\n"


def test_a_command_that_fails_gives_nothing(filters: Filters) -> None:
    driver = "echo first >&2; echo no such key >&2; exit 7"
    with pytest.raises(Unconvertible):
        cleaned(filters, driver, b"a")


def test_a_command_that_is_not_there_fails(filters: Filters) -> None:
    with pytest.raises(Unconvertible):
        cleaned(filters, "no-such-command", b"a")


def test_a_folder_that_is_not_there_fails(tmp_path: Path) -> None:
    filters = Filters({}, top=str(tmp_path / "gone"), env={}, hung=set(), timeout=60)
    with pytest.raises(Unconvertible):
        cleaned(filters, "cat", b"a")


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    driver = "echo $$ > pid; sleep 1000 & echo $! > child; wait"
    filters = Filters({}, top=str(tmp_path), env=dict(os.environ), hung=set(), timeout=1)
    with pytest.raises(Unconvertible):
        cleaned(filters, driver, b"a")

    for name in ("pid", "child"):
        state = subprocess.run(
            ["ps", "-o", "stat=", "-p", (tmp_path / name).read_text().strip()],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        # An orphan may wait a moment for the first process to notice that it ended.
        assert state.strip()[:1] in ("", "Z")


def test_a_command_that_hung_once_is_not_tried_again(tmp_path: Path) -> None:
    driver = "echo start >> log; exec sleep 1000"
    filters = Filters({}, top=str(tmp_path), env=dict(os.environ), hung=set(), timeout=1)
    for _ in range(3):
        with pytest.raises(Unconvertible):
            cleaned(filters, driver, b"a")

    assert (tmp_path / "log").read_text() == "start\n"


def test_memory_does_not_grow_with_the_content() -> None:
    program = """
import os, resource, sys, tempfile
from ckpt.worktree.filters import Filters
filters = Filters({"odd": "cat"}, top=".", env=dict(os.environ), hung=set(), timeout=60)
with tempfile.TemporaryFile() as source:
    source.truncate(200 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with filters.clean("odd", b"a", source) as output:
        assert output.seek(0, 2) == 200 << 20
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    words = [sys.executable, "-c", program]
    folder = Path(__file__).parents[2]
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)

    unit = 1 if sys.platform == "darwin" else 1024
    assert int(ran.stdout) * unit < 20 << 20
