# SPDX-License-Identifier: MIT
"""Strike ckpt while it works: kill it, fail it, let it wait, or change something behind its back.

`Driver.run` runs a command in a child of a warm process and reports the operations on
the disk that it got to; `start` runs one as a process of its own, beside others. `strikes`
says where in a sweep to strike, and how.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import traceback
from binascii import crc32
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from figures import PROPERTY
from seam import UNFINISHED

DRIVER = Path(__file__).with_name("driver.py")
# Tests run with an environment from which everything of ckpt's is taken away.
TORTURE = os.environ.get("CKPT_TORTURE") == "1"
MOST_SHOWN = 5
MOST_CHARACTERS = 3000

Operations = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Blow:
    """What happens before the `nth` operation (from 1) of that name and end of path, which may be a
    pattern; with `only`, of those that have one of these names.

    In this order: `command` is run, a file is waited for, what `Driver.beside` runs goes on,
    `signal` is sent, `error` is raised, and if it `stays`, by every later one as well.
    """

    nth: int = 1
    operation: str | None = None
    path: str = ""
    only: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    wait_for: str | None = None
    pauses: bool = False
    signal: int | None = None
    error: int | None = None
    stays: bool = False


Blows = Blow | Sequence[Blow]


def begun(path: str) -> str:
    """A pattern of the name that a file in the worktree has while a rollback writes it."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{UNFINISHED}{crc32(name.encode()):08x}*"


def kill(nth: int = 1, operation: str | None = None, path: str = "") -> Blow:
    return Blow(nth, operation, path, signal=signal.SIGKILL)


# What fails on a full disk. Removing, renaming and flushing still work.
NEEDS_SPACE = ("create", "write", "mkdir", "symlink", "link")
FLUSHES = ("fsync", "fsync-dir", "sync")

# In which ways a sweep strikes: what a blow is, but for its place.
WAYS = {
    "kill": Blow(signal=signal.SIGKILL),
    "interrupt": Blow(signal=signal.SIGINT),
    "full": Blow(error=errno.ENOSPC, only=NEEDS_SPACE, stays=True),
    "broken": Blow(error=errno.EIO),
    "forbidden": Blow(error=errno.EACCES),
    "read-only": Blow(error=errno.EROFS, stays=True),
    "no handles": Blow(error=errno.EMFILE, only=("create",)),
    "full for a moment": Blow(error=errno.ENOSPC),
}
# Errors that are not tried at every operation but for `make torture`, there each of them.
FAILING = ("broken", "forbidden", "read-only", "no handles", "full for a moment")
KINDS = ("kill", "full", "failing")
# After these something unfinished may lie there until the next command: nobody was left to take
# it away, or the disk did not let it go.
LEAVING = ("kill", *FAILING)


@dataclass(frozen=True)
class Struck:
    """How a run ended; the last of `operations` is the one that the blow prevented.

    A negative code is the signal that ended it. `beside` is the command that went on while
    this one paused, None if that did not come to pass; `has_waited` is one that slept.
    """

    code: int
    stdout: str
    stderr: str
    operations: tuple[tuple[str, str], ...]
    beside: Struck | None = None
    has_waited: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    def did(self, operation: str, path: str) -> bool:
        """True if a rename, removal or the like of a path that ends so was carried out."""
        done = self.operations[:-1] if self.killed else self.operations
        return any(name == operation and at.endswith(path) for name, at in done)


class Driver:
    """Starts the process that runs the commands, and talks to it."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-I", str(DRIVER), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        cwd: Path,
        *words: str,
        blow: Blows = (),
        opening: bool = False,
    ) -> Struck:
        """Run a command and wait for its end; `opening` counts also calls that open a file or a
        folder, to read it too."""
        return self._ask({**_request(cwd, words, blow), "opening": opening})

    def beside(self, cwd: Path, words: Sequence[str], at: int | Blow, *others: str) -> Struck:
        """Let a command stand still before an operation while another runs, to its end unless
        it waits for the first. The other may be one of git's."""
        blow = Blow(at, pauses=True) if isinstance(at, int) else replace(at, pauses=True)
        request = _request(cwd, words, blow)
        return self._ask({**request, "beside": _request(cwd, others, ())})

    def _ask(self, request: dict[str, Any]) -> Struck:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            pytest.exit(f"the process that runs the commands has gone: {self._server.wait()}")
        return _struck(json.loads(answer))

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


def _request(cwd: Path, words: Sequence[str], blow: Blows) -> dict[str, Any]:
    return {
        "cwd": str(cwd),
        "env": dict(os.environ),
        "words": list(words),
        "blows": [asdict(each) for each in ([blow] if isinstance(blow, Blow) else blow)],
        "opening": False,
        "announce_sleep": None,
        "beside": None,
    }


def _struck(reply: dict[str, Any]) -> Struck:
    operations = tuple(map(tuple, reply["operations"]))
    beside = reply.get("beside")
    return Struck(
        **{**reply, "operations": operations, "beside": None if beside is None else _struck(beside)}
    )


def sample(operations: Operations, every: int, *, edges: bool = False) -> list[int]:
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


def kills(operations: Operations, every: int, *, edges: bool = False) -> list[int]:
    """The same of those that a kill can come before with another outcome than before the next: a
    flush changes nothing that the living can see, so that before and after it is one moment."""
    flushes = {nth for nth, (name, _) in enumerate(operations[:-1], 1) if name in FLUSHES}
    return [nth for nth in sample(operations, every, edges=edges) if nth not in flushes]


def strikes(
    operations: Operations, kind: str, every: int, *, edges: bool = False
) -> Iterator[tuple[int, str, Blow]]:
    """The operations of a run to strike, each with the way to do it, by name and as a blow.

    Of "failing", which is several ways, each operation that is tried gets another, or two.
    """
    ways = FAILING if kind == "failing" else (kind,)
    chosen = kills if kind == "kill" else sample
    for turn, nth in enumerate(chosen(operations, every, edges=edges)):
        turned = [ways[(turn + step) % len(ways)] for step in range(len(ways))]
        blows = [(way, _blow_at(operations, nth, WAYS[way])) for way in turned]
        possible = [(nth, way, blow) for way, blow in blows if blow is not None]
        yield from possible[: 2 if TORTURE else 1]


def _blow_at(operations: Operations, nth: int, way: Blow) -> Blow | None:
    """None if it cannot happen to that operation."""
    counted = [way.only is None or name in way.only for name, _ in operations[:nth]]
    return replace(way, nth=sum(counted)) if counted[-1] else None


def check_told(struck: Struck, way: str) -> None:
    """A failure that can be made good is not one; any other is told in one line and a hint."""
    if struck.code != 0:
        assert struck.code == {"kill": -signal.SIGKILL, "interrupt": 130}.get(way, 1), struck
    lines = struck.stderr.splitlines()
    if struck.code == 1:
        assert [line.split(":")[0] for line in lines] == ["error", "hint"], struck
        assert "this is a bug" not in struck.stderr, struck
    elif struck.code == 130:
        assert lines[0] == "interrupted", struck
    else:
        assert lines == [], struck


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

    def is_over(self, struck: Struck, nth: int) -> bool:
        """Whether a run ended well before the blow. How many operations there are varies by one
        or two, with the folders that new ids fall into."""
        if len(struck.operations) >= nth:
            return False
        assert struck.code == 0, struck
        self.count("runs over before the blow")
        return True

    @contextmanager
    def trying(self, what: object) -> Iterator[None]:
        try:
            yield
        except AssertionError as error:
            where = traceback.extract_tb(error.__traceback__)[1:]
            lines = "".join(traceback.format_list(where))
            self._failures.append(f"{what}\n{lines}{str(error)[:MOST_CHARACTERS]}")
