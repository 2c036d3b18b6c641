# SPDX-License-Identifier: MIT
"""Strike ckpt while it works: kill it, fail it, or change something behind its back.

`Driver.run` runs a command in a child of a warm process and reports the operations on
the disk that it got to; `start` runs one as a process of its own, beside others.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from figures import PROPERTY

DRIVER = Path(__file__).with_name("driver.py")
# Tests run with an environment from which everything of ckpt's is taken away.
TORTURE = os.environ.get("CKPT_TORTURE") == "1"
MOST_SHOWN = 5
MOST_CHARACTERS = 3000


@dataclass(frozen=True)
class Blow:
    """What happens before the `nth` operation (from 1) of that name and end of path.

    In this order: `command` is run, a file is waited for, `signal` is sent, `error` is
    raised. With `disk_stays_full` only what needs space counts, and fails from then on.
    """

    nth: int = 1
    operation: str | None = None
    path: str = ""
    command: tuple[str, ...] | None = None
    wait_for: str | None = None
    signal: int | None = None
    error: int | None = None
    disk_stays_full: bool = False


Blows = Blow | Sequence[Blow]


def kill(nth: int = 1, operation: str | None = None, path: str = "") -> Blow:
    return Blow(nth, operation, path, signal=signal.SIGKILL)


# In which ways a sweep strikes.
BLOWS: dict[str, Callable[[int], Blow]] = {
    "kill": kill,
    "full": lambda nth: Blow(nth, error=errno.ENOSPC, disk_stays_full=True),
    "broken": lambda nth: Blow(nth, error=errno.EIO),
}


@dataclass(frozen=True)
class Struck:
    """How a run ended; the last of `operations` is the one that the blow prevented.

    A negative code is the signal that ended it.
    """

    code: int
    stdout: str
    stderr: str
    operations: tuple[tuple[str, str], ...]

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    def did(self, operation: str, path: str) -> bool:
        """True if a rename, removal or the like of a path that ends so was carried out."""
        done = self.operations[:-1] if self.killed else self.operations
        deep = any(name.startswith("os.") for name, _ in done)
        wanted = f"os.{operation}" if deep else operation
        return any(name == wanted and at.endswith(path) for name, at in done)


class Driver:
    """Starts the process that runs the commands, and talks to it."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-I", str(DRIVER), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, cwd: Path, *words: str, blow: Blows = (), deep: bool = False) -> Struck:
        """Run a command and wait for its end; `deep` counts calls of the system as well."""
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(_request(cwd, words, blow, deep)) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            pytest.exit(f"the process that runs the commands has gone: {self._server.wait()}")
        reply = json.loads(answer)
        reply["operations"] = tuple(map(tuple, reply["operations"]))
        return Struck(**reply)

    def close(self) -> None:
        self._server.communicate()


def start(
    cwd: Path, *words: str, blow: Blows = (), announce_sleep: Path | None = None
) -> subprocess.Popen[str]:
    """Start a command as a process of its own; creates `announce_sleep` when it has to wait."""
    request = _request(cwd, words, blow)
    request["announce_sleep"] = None if announce_sleep is None else str(announce_sleep)
    return subprocess.Popen(
        [sys.executable, "-I", str(DRIVER), "once", json.dumps(request)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _request(cwd: Path, words: Sequence[str], blow: Blows, deep: bool = False) -> dict[str, Any]:
    return {
        "cwd": str(cwd),
        "env": dict(os.environ),
        "words": list(words),
        "blows": [asdict(each) for each in ([blow] if isinstance(blow, Blow) else blow)],
        "deep": deep,
        "announce_sleep": None,
    }


def sample(operations: Sequence[tuple[str, str]], every: int, *, edges: bool = False) -> list[int]:
    """Which operations of a run to strike: all for `make torture`, else every so many, and
    with `edges` the first and the last of each name."""
    count = len(operations)
    if TORTURE:
        return list(range(1, count + 1))
    chosen = set(range(every // 2, count + 1, every))
    names = [name for name, _ in operations]
    for name in set(names) if edges else ():
        chosen.add(names.index(name) + 1)
        chosen.add(count - names[::-1].index(name))
    return sorted(chosen)


class Sweep:
    """Tries one thing after another, to the end whatever fails, and counts."""

    def __init__(self, record_property: Callable[[str, object], None]) -> None:
        self._record_property = record_property
        self._figures: Counter[str] = Counter()
        self._failures: list[str] = []

    def __enter__(self) -> Sweep:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        figures = {**self._figures, "losses": len(self._failures)}
        self._record_property(PROPERTY, figures)
        if kind is None and self._failures:
            shown = "\n\n".join(self._failures[:MOST_SHOWN])
            pytest.fail(f"{figures}\n\n{shown}", pytrace=False)

    def count(self, figure: str) -> None:
        self._figures[figure] += 1

    @contextmanager
    def trying(self, what: object) -> Iterator[None]:
        try:
            yield
        except AssertionError as error:
            where = traceback.extract_tb(error.__traceback__)[1:]
            lines = "".join(traceback.format_list(where))
            self._failures.append(f"{what}\n{lines}{str(error)[:MOST_CHARACTERS]}")
