# SPDX-License-Identifier: MIT
"""A process, its command line, and the processes above and below it.

From `/proc` where there is one, else from `ps`. A process is identified by its id together with
the time it started, because ids are reused. What has ended, or may not be read, is None.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

_MOST = 64  # levels of processes
_PS = ("/bin/ps", "/usr/bin/ps")
_PS_TIMEOUT = 5.0


class Process(NamedTuple):
    """`started` is whatever the system calls that moment; `group` is what a shell at a terminal
    gives to each command that is typed. Unless it `is_exact`, words with blanks in them are in
    pieces."""

    pid: int
    parent: int
    group: int
    started: str
    words: tuple[str, ...]
    is_exact: bool = True

    @property
    def name(self) -> str:
        """What it was started as, without the folder, or the dash of a login shell."""
        first = self.words[0] if self.words else ""
        return first.rpartition("/")[2].removeprefix("-")


def find(pid: int) -> Process | None:
    """The process of that number."""
    look = _from_proc if os.path.isdir("/proc/self") else from_ps
    return look(pid)


def upwards(pid: int, look: Callable[[int], Process | None] = find) -> Iterator[Process]:
    """A process and those above it, as far as they can be seen."""
    for _ in range(_MOST):
        process = look(pid) if pid > 0 else None
        if process is None:
            return
        yield process
        pid = process.parent


def below(pid: int) -> list[int]:
    """The processes that a process has started, where there is a /proc."""
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []
    return [n for n in numbers if n != pid and any(each.pid == pid for each in upwards(n))]


def _from_proc(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name stands in brackets, and may hold some itself.
            fields = file.read().rpartition(b")")[2].split()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")[:-1]
        started = fields[19].decode()
        return Process(pid, int(fields[1]), int(fields[2]), started, tuple(map(os.fsdecode, words)))
    except (OSError, ValueError, IndexError):
        return None


def from_ps(pid: int) -> Process | None:
    """The same where there is no /proc; words with blanks in them come in pieces."""
    import subprocess

    program = next(filter(os.path.exists, _PS), None)
    if program is None:
        return None
    asked = [
        option for name in ("ppid", "pgid", "lstart", "command") for option in ("-o", f"{name}=")
    ]
    try:
        ran = subprocess.run(
            [program, *asked, "-p", str(pid)],
            env={"LC_ALL": "C", "TZ": "UTC0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PS_TIMEOUT,
        )
        parent, group, *rest = os.fsdecode(ran.stdout).split()
        return Process(pid, int(parent), int(group), "-".join(rest[:5]), tuple(rest[5:]), False)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
