# SPDX-License-Identifier: MIT
"""A line of progress is seen on a terminal, in long work, and by nobody else."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from byhand import worktree

from ckpt import output
from ckpt.output import Progress

PROJECT = Path(__file__).resolve().parents[1]
HOUR = 3600.0


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


def test_the_line_is_taken_away_once(stream: io.StringIO, clock: Clock) -> None:
    drawn = Progress(stream, clock)
    clock.now += 1
    drawn(7, 0)
    drawn.clear()
    drawn.clear()

    assert stream.getvalue() == "\r\033[Kckpt: reading files: 7\r\033[K"


def test_a_terminal_that_went_away_ends_the_drawing_only(clock: Clock) -> None:
    class Gone(io.StringIO):
        writes = 0

        def write(self, _: str) -> int:
            self.writes += 1
            raise OSError(5, "Input/output error")

    stream = Gone()
    drawn = Progress(stream, clock)
    for _ in range(3):
        clock.now += 1
        drawn(7, 0)
    drawn.clear()

    assert stream.writes == 1


def test_the_line_fits_into_a_narrow_terminal(clock: Clock) -> None:
    own, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 10, 0, 0))
    with os.fdopen(theirs, "w") as stream:
        drawn = Progress(stream, clock)
        clock.now += 1
        drawn(7, 0)
        seen = os.read(own, 100)
    os.close(own)

    assert seen == b"\r\033[Kckpt: rea"


def in_a_terminal(repo: Path, *words: str, patience: float, stderr: int | None = None) -> str:
    """What `git ckpt` writes to a terminal, whose patience is set."""
    setup = f"from ckpt import cli, output; output._PATIENCE = {patience}"
    code = f"{setup}; output._INTERVAL = 0; raise SystemExit(cli.main())"
    own, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs if stderr is None else stderr,
    )
    os.close(theirs)
    seen = b""
    while piece := _read(own):
        seen += piece
    os.close(own)
    child.wait()
    return seen.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # as Linux ends a terminal that nobody holds any more
        return b""


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
    seen = in_a_terminal(repo, "save", patience=0)

    assert "\r\033[Kckpt: reading files: 1" in seen
    assert "reading files" not in left_on_screen(seen)
    assert left_on_screen(seen).startswith("Saved checkpoint")


def test_an_error_stands_alone_on_the_screen(repo: Path) -> None:
    seen = in_a_terminal(repo, "rollback", "no-such", patience=0)

    assert "reading files" not in left_on_screen(seen)
    assert "error:" in left_on_screen(seen)


def test_quick_work_shows_no_progress(repo: Path) -> None:
    seen = in_a_terminal(repo, "save", patience=HOUR)

    assert "Saved checkpoint" in seen
    assert "reading files" not in seen
    assert "\033[K" not in seen


@pytest.mark.parametrize("option", ["-q", "--json"])
def test_who_asked_for_silence_or_json_sees_no_progress(repo: Path, option: str) -> None:
    assert "reading files" not in in_a_terminal(repo, "save", option, patience=0)


def test_a_pipe_or_a_file_gets_no_progress(repo: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        seen = in_a_terminal(repo, "save", patience=0, stderr=file.fileno())

    assert "Saved checkpoint" in seen
    assert "reading files" not in seen
    assert log.read_bytes() == b""


def test_patience_is_half_a_second() -> None:
    assert (output._PATIENCE, output._INTERVAL) == (0.5, 0.1)
