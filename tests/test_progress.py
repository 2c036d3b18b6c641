# SPDX-License-Identifier: MIT
"""A line of progress is seen on a terminal, in long work, and by nobody else."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from byhand import worktree
from terminals import Terminal

from ckpt.output import Progress

PROJECT = Path(__file__).resolve().parents[1]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def test_nothing_is_drawn_in_the_first_half_second(stream: io.StringIO, clock: Clock) -> None:
    drawn = Progress(stream, clock)
    drawn(1, 10)
    clock.now += 0.49
    drawn(2, 20)
    drawn.clear()

    assert stream.getvalue() == ""


def test_the_line_is_drawn_ten_times_a_second_at_most(stream: io.StringIO, clock: Clock) -> None:
    drawn = Progress(stream, clock)
    for number in range(200):
        clock.now += 0.01
        drawn(number, 0)

    assert 14 <= stream.getvalue().count("reading files") <= 16


def in_a_terminal(repo: Path, *words: str, errors: str = "/dev/tty") -> str:
    """What `git ckpt` writes to a terminal, without patience."""
    code = "from ckpt import cli, output; output._PATIENCE = output._INTERVAL = 0; cli.program()"
    command = f'cd "$0" && exec "$@" 2> {errors}'
    env = {**os.environ, "PYTHONPATH": str(PROJECT), "TERM": "xterm"}
    program = ["sh", "-c", command, str(repo), sys.executable, "-c", code, *words]
    with Terminal(program, env) as terminal:
        terminal.end()
        return terminal.shown


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    top = Path(worktree(tmp_path / "repo"))
    (top / "a").write_text("a\n")
    return top


def left_on_screen(seen: str) -> str:
    """The lines as they stand in the end."""
    return "\n".join(
        line.rpartition("\033[K")[2] for line in seen.replace("\r\n", "\n").split("\n")
    )


def test_long_work_is_told_on_a_terminal_and_leaves_nothing_there(repo: Path) -> None:
    seen = in_a_terminal(repo, "save")

    assert "\r\033[Kckpt: reading files: 1" in seen
    assert "reading files" not in left_on_screen(seen)
    assert left_on_screen(seen).startswith("Saved checkpoint")


def test_an_error_stands_alone_on_the_screen(repo: Path) -> None:
    seen = in_a_terminal(repo, "rollback", "no-such")

    assert "reading files" not in left_on_screen(seen)
    assert "error:" in left_on_screen(seen)


@pytest.mark.parametrize("option", ["-q", "--json"])
def test_who_asked_for_silence_or_json_sees_no_progress(repo: Path, option: str) -> None:
    assert "reading files" not in in_a_terminal(repo, "save", option)


def test_a_pipe_or_a_file_gets_no_progress(repo: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    seen = in_a_terminal(repo, "save", errors=str(log))

    assert "Saved checkpoint" in seen
    assert "reading files" not in seen
    assert log.read_bytes() == b""
