# SPDX-License-Identifier: MIT
"""Filter drivers, with real commands: the shell's and a small process in Python."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from ckpt.worktree.filters import Driver, FilterFailed, Filters, read_drivers
from ckpt.worktree.scan import Deadline

PROCESS = Path(__file__).parents[1] / "filter_process.py"


def process(*words: str) -> str:
    return shlex.join([sys.executable, str(PROCESS), *words])


@contextmanager
def file(content: bytes) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as source:
        source.write(content)
        source.seek(0)
        yield source


@pytest.fixture
def filters(tmp_path: Path) -> Iterator[Filters]:
    with Filters({}, top=str(tmp_path), env=dict(os.environ)) as filters:
        yield filters


def cleaned(filters: Filters, driver: Driver, content: bytes, path: bytes = b"a") -> bytes | None:
    with file(content) as source:
        filters.drivers = {"odd": driver}
        output = filters.run("clean", "odd", path, source)
        if output is None:
            return None
        with output:
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
        ("stray", "nothing", "config"),
    ]

    assert read_drivers(items) == {
        "lfs": Driver("git-lfs clean -- %f", None, "git-lfs filter-process"),
        "a.b": Driver(smudge="cat"),
    }


def test_a_command_has_the_content_on_its_standard_input(filters: Filters) -> None:
    assert cleaned(filters, Driver(clean="tr a-z A-Z"), b"shout") == b"SHOUT"


def test_a_command_is_run_in_the_top_folder_with_the_given_environment(tmp_path: Path) -> None:
    env = {**os.environ, "SAID": "hello"}
    with Filters({}, top=str(tmp_path), env=env, timeout=60) as filters:
        said = cleaned(filters, Driver(clean='pwd; echo "$SAID"'), b"")

    assert said == os.fsencode(tmp_path) + b"\nhello\n"


@pytest.mark.parametrize("path", [b"it's", b"a b", b"$(touch x)", b"\xff", b"-n", b"a;b"])
def test_the_path_is_quoted_for_the_shell(filters: Filters, path: bytes) -> None:
    driver = Driver(clean="printf '%%s|%%d %q' %f 2>/dev/null; printf '%%s' %f")

    assert (cleaned(filters, driver, b"", path) or b"").endswith(path)


def test_a_percent_sign_stands_for_itself_when_doubled_or_before_another_letter(
    filters: Filters,
) -> None:
    assert cleaned(filters, Driver(clean="echo 100%% %x '%'"), b"") == b"100% %x %\n"


def test_a_driver_without_the_command_does_nothing(filters: Filters) -> None:
    assert cleaned(filters, Driver(smudge="cat"), b"a") is None
    assert cleaned(filters, Driver(clean=""), b"a") is None
    assert cleaned(filters, Driver(clean="cat", process=""), b"a") is None


def test_a_command_need_not_read_its_input(filters: Filters) -> None:
    assert cleaned(filters, Driver(clean="echo yes"), b"x" * 1_000_000) == b"yes\n"


def test_a_command_that_fails_gives_its_exit_code_and_last_words(filters: Filters) -> None:
    driver = Driver(clean="echo first >&2; echo no such key >&2; exit 7")
    with pytest.raises(FilterFailed, match=r"^exit code 7: no such key$"):
        cleaned(filters, driver, b"a")


def test_a_command_that_is_not_there_fails(filters: Filters) -> None:
    with pytest.raises(FilterFailed, match=r"exit code 127: .*no-such-command"):
        cleaned(filters, Driver(clean="no-such-command"), b"a")


def test_a_folder_that_is_not_there_fails(tmp_path: Path) -> None:
    with (
        Filters({}, top=str(tmp_path / "gone"), env={}, timeout=60) as filters,
        pytest.raises(FilterFailed),
    ):
        cleaned(filters, Driver(clean="cat"), b"a")


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    driver = Driver(clean="echo $$ > pid; sleep 1000 & echo $! > child; wait")
    with (
        Filters({}, top=str(tmp_path), env=dict(os.environ), timeout=1) as filters,
        pytest.raises(FilterFailed, match="timed out"),
    ):
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
    driver = Driver(clean="echo start >> log; exec sleep 1000")
    with Filters({}, top=str(tmp_path), env=dict(os.environ), timeout=1) as filters:
        for _ in range(3):
            with pytest.raises(FilterFailed, match="timed out"):
                cleaned(filters, driver, b"a")

    assert (tmp_path / "log").read_text() == "start\n"


def test_one_process_serves_many_files(filters: Filters, tmp_path: Path) -> None:
    driver = Driver(process=process(f"log={tmp_path / 'log'}"))

    assert cleaned(filters, driver, b"abc", b"one") == b"cba"
    assert cleaned(filters, driver, b"", b"two words") == b""
    with (
        file(b"xyz") as source,
        filters.run("smudge", "odd", b"three", source, b"0" * 40) or io.BytesIO(),
    ):
        pass
    assert (tmp_path / "log").read_text() == "start\nclean one\nclean two words\nsmudge three\n"


@pytest.mark.parametrize("size", [65515, 65516, 65517, 3_000_000])
def test_content_of_many_packets_comes_through(filters: Filters, size: int) -> None:
    content = (b"%09d" * (size // 9 + 1) % tuple(range(size // 9 + 1)))[:size]

    assert cleaned(filters, Driver(process=process()), content) == content[::-1]


def test_a_process_may_refuse_one_file_and_serve_the_next(filters: Filters, tmp_path: Path) -> None:
    driver = Driver(process=process("refuse=bad", f"log={tmp_path / 'log'}"))
    with pytest.raises(FilterFailed, match="answered 'error'"):
        cleaned(filters, driver, b"abc", b"bad")

    assert cleaned(filters, driver, b"abc", b"good") == b"cba"
    assert (tmp_path / "log").read_text().count("start") == 1


def test_a_process_may_take_its_success_back(filters: Filters) -> None:
    with pytest.raises(FilterFailed, match="answered 'error'"):
        cleaned(filters, Driver(process=process("late")), b"abc")


def test_a_process_that_aborts_is_not_asked_again(filters: Filters, tmp_path: Path) -> None:
    driver = Driver(process=process("abort", f"log={tmp_path / 'log'}"))
    with pytest.raises(FilterFailed, match="answered 'abort'"):
        cleaned(filters, driver, b"abc")

    assert cleaned(filters, driver, b"abc") is None
    assert (tmp_path / "log").read_text() == "start\nclean a\n"


def test_a_process_does_only_what_it_says_it_can(filters: Filters) -> None:
    driver = Driver(process=process("only=clean"))

    assert cleaned(filters, driver, b"abc") == b"cba"
    with file(b"abc") as source:
        assert filters.run("smudge", "odd", b"a", source) is None


def test_a_process_that_dies_is_started_again_for_the_next_file(
    filters: Filters, tmp_path: Path
) -> None:
    driver = Driver(process=process("die", f"log={tmp_path / 'log'}"))
    for _ in range(2):
        with pytest.raises(FilterFailed, match="exit code 3: out of luck"):
            cleaned(filters, driver, b"abc")

    assert (tmp_path / "log").read_text().count("start") == 2


def test_a_process_that_answers_without_end_fails(filters: Filters) -> None:
    with pytest.raises(FilterFailed, match="too long"):
        cleaned(filters, Driver(process=process("chatty")), b"abc")


@pytest.mark.parametrize(("budget", "grace"), [(None, 5.0), (60, 0.5), (54, 0)])
def test_a_process_that_does_not_end_is_waited_for_within_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: float | None, grace: float
) -> None:
    now: list[float] = [0.0]
    waited: list[float | None] = []
    wait_for = subprocess.Popen.wait

    def wait(child: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        waited.append(timeout)
        if timeout is not None:
            raise subprocess.TimeoutExpired("", timeout)
        return wait_for(child)

    monkeypatch.setattr(subprocess.Popen, "wait", wait)
    deadline = Deadline(budget, lambda: now[0]) if budget else None
    filters = Filters({}, top=str(tmp_path), env=dict(os.environ), timeout=60, deadline=deadline)
    with filters:
        assert cleaned(filters, Driver(process=process("stay")), b"abc") == b"cba"
        now[0] = 59.5

    assert waited == [grace, None]


def test_a_process_that_hangs_is_killed(tmp_path: Path) -> None:
    driver = Driver(process=process("hang"))
    with (
        Filters({}, top=str(tmp_path), env=dict(os.environ), timeout=2) as filters,
        pytest.raises(FilterFailed, match="timed out"),
    ):
        cleaned(filters, driver, b"abc")


def test_a_process_that_reads_nothing_is_killed(tmp_path: Path) -> None:
    driver = Driver(process="sleep 1000")
    with (
        Filters({}, top=str(tmp_path), env=dict(os.environ), timeout=1) as filters,
        pytest.raises(FilterFailed, match="timed out"),
    ):
        cleaned(filters, driver, b"x" * 1_000_000)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo hello; sleep 1000", "packets"),
        ("exit 5", "exit code 5"),
        ("true", "ended"),
        ("printf '0000'; sleep 1000", "version 2"),
        ("printf '000eversion=3\\n0000'; sleep 1000", "version 2"),
        ("yes 0005x | head -n 100000 | tr -d '\\n'; printf 0000; sleep 1000", "too long"),
    ],
)
def test_a_process_that_does_not_speak_the_protocol_fails_once_and_for_all(
    filters: Filters, tmp_path: Path, command: str, reason: str
) -> None:
    driver = Driver(process=f"echo start >> log; {command}")
    for _ in range(2):
        with pytest.raises(FilterFailed, match=reason):
            cleaned(filters, driver, b"abc")

    assert (tmp_path / "log").read_text() == "start\n"


def test_memory_does_not_grow_with_the_content(tmp_path: Path) -> None:
    program = """
import os, resource, sys, tempfile
from ckpt.worktree.filters import Driver, Filters
filters = Filters({}, top=".", env=dict(os.environ), timeout=60)
with tempfile.TemporaryFile() as source, filters:
    source.truncate(200 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for driver in (Driver(clean="cat"), Driver(process=sys.argv[1])):
        source.seek(0)
        filters.drivers = {"odd": driver}
        with filters.run("clean", "odd", b"a", source) as output:
            assert output.seek(0, 2) == 200 << 20
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    echo = tmp_path / "echo.py"
    echo.write_text(ECHO)
    words = [sys.executable, "-c", program, shlex.join([sys.executable, str(echo)])]
    folder = Path(__file__).parents[2]
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)

    unit = 1 if sys.platform == "darwin" else 1024
    assert int(ran.stdout) * unit < 20 << 20


# Spools what it is given, so that it needs little memory itself.
ECHO = """
import sys, tempfile
read, write = sys.stdin.buffer.read, sys.stdout.buffer.write
def packets():
    while (length := int(read(4) or sys.exit(), 16)):
        yield read(length - 4)
list(packets()); write(b"0016git-filter-server\\n000eversion=2\\n0000"); sys.stdout.flush()
list(packets()); write(b"0015capability=clean\\n0000"); sys.stdout.flush()
while True:
    list(packets())
    with tempfile.TemporaryFile() as spool:
        for data in packets():
            spool.write(data)
        spool.seek(0)
        write(b"0013status=success\\n0000")
        while data := spool.read(65516):
            write(b"%04x" % (len(data) + 4) + data)
        write(b"00000000"); sys.stdout.flush()
"""
