# SPDX-License-Identifier: MIT
"""Filter drivers: the commands that git's configuration names for cleaning and smudging.

They are run as git runs them: `clean` and `smudge` once for each file, through the shell, the
content on their standard input and output; `process` once for all, with version 2 of git's
protocol for long-running filters (`delay` is not offered). Contents go from file to file, so
that memory does not grow with their size. Whatever goes wrong is a FilterFailed with its
reason, also when a command hangs: it is killed with everything it has started.

Left out: which driver a path has (attributes.py), and what happens when it fails.
"""

from __future__ import annotations

import os
import time
from functools import cached_property

from ckpt.patterns import lazy_pattern
from ckpt.values import value_class
from ckpt.worktree.filter_errors import FilterFailed, Rejected, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import IO

    from ckpt.worktree.deadline import Deadline
    from ckpt.worktree.filter_process import FilterProcess, Starter

_SIGN = lazy_pattern(rb"%[%f]")
TIMEOUT = 60.0  # seconds that a driver may take for one file


@value_class
class Driver:
    """What configuration says of one driver; a command may be missing."""

    name: str
    clean: str | None = None
    smudge: str | None = None
    process: str | None = None
    required: bool = False

    def command(self, direction: str) -> str | None:
        """The command to run once for a file; with `process` set git runs only that."""
        if self.process is not None:
            return None
        return (self.clean if direction == "clean" else self.smudge) or None


def read_drivers(items: Iterable[tuple[str, str, str]]) -> dict[str, Driver]:
    """From the section `filter` of git's configuration: name, value, file, in order."""
    found: dict[str, dict[str, str]] = {}
    for key, value, _ in items:
        name, dot, variable = key.rpartition(".")
        if dot:
            found.setdefault(name, {})[variable] = value
    return {name: _driver(name, variables) for name, variables in found.items()}


def _driver(name: str, variables: Mapping[str, str]) -> Driver:
    return Driver(
        name,
        variables.get("clean"),
        variables.get("smudge"),
        variables.get("process"),
        variables.get("required", "false").lower() not in ("", "false", "no", "off", "0"),
    )


class Filters:
    """Runs the drivers of one worktree; a process lives until this is closed."""

    def __init__(
        self,
        drivers: Mapping[str, Driver],
        *,
        top: str,
        env: Mapping[str, str],
        timeout: float,
        scratch: str | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """`scratch` is a folder for temporary files without a name; it must be there. After the
        deadline every driver has timed out."""
        self.drivers = drivers
        self._top = top
        self._env = dict(env)
        self._scratch = scratch
        self._timeout = timeout
        self._deadline = deadline
        self._processes: dict[str, FilterProcess] = {}
        self._given_up: dict[str, str] = {}

    @cached_property
    def _start(self) -> Starter:
        from ckpt.worktree.filter_process import Starter

        return Starter(self._top, self._env, self._scratch)

    def __enter__(self) -> Filters:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self._processes:
            _, process = self._processes.popitem()
            process.close(self._grace())

    def clean(self, driver: Driver, path: bytes, source: IO[bytes]) -> IO[bytes] | None:
        """What the driver makes of a file's bytes; None if it does nothing with them."""
        return self._run("clean", driver, path, source)

    def smudge(
        self, driver: Driver, path: bytes, source: IO[bytes], blob_id: bytes | None = None
    ) -> IO[bytes] | None:
        """The reverse. `source` is a real file, read from where it stands."""
        return self._run("smudge", driver, path, source, blob_id)

    def _run(
        self,
        direction: str,
        driver: Driver,
        path: bytes,
        source: IO[bytes],
        blob_id: bytes | None = None,
    ) -> IO[bytes] | None:
        command = driver.command(direction) or driver.process
        if not command:
            return None
        if command in self._given_up:
            raise FilterFailed(self._given_up[command])
        deadline = time.monotonic() + self._seconds()
        try:
            if command != driver.process:
                return self._start.once(_with_path(command, path), source, deadline)
            process = self._process(command, deadline)
            if direction not in process.capabilities:
                return None
            return process.convert(direction, path, source, deadline, blob_id)
        except BaseException as error:
            self._after(command, error)
            raise

    def _seconds(self) -> float:
        """How long a driver may take for a file."""
        if self._deadline is None:
            return self._timeout
        left = self._deadline.left()
        if not left:  # it would be started only to be killed
            raise TimedOut
        return min(self._timeout, left)

    def _grace(self) -> float:
        """How long a process may take to end."""
        from ckpt.worktree.filter_process import GRACE

        return GRACE if self._deadline is None else min(GRACE, self._deadline.left())

    def _after(self, command: str, error: BaseException) -> None:
        """After `status=error` a process is fit for the next file; else it is not."""
        if isinstance(error, TimedOut):  # which would be waited for again with every file
            self._given_up[command] = str(error)
        if command in self._processes and not isinstance(error, Rejected):
            self._processes.pop(command).kill()

    def _process(self, command: str, deadline: float) -> FilterProcess:
        from ckpt.worktree.filter_process import FilterProcess

        if command not in self._processes:
            try:
                self._processes[command] = FilterProcess(self._start, command, deadline)
            except FilterFailed as error:
                self._given_up[command] = str(error)
                raise
        return self._processes[command]


def _with_path(command: str, path: bytes) -> bytes:
    """`%f` is the path, quoted for the shell, and `%%` a percent sign."""
    import shlex

    quoted = os.fsencode(shlex.quote(os.fsdecode(path)))
    meaning = {b"%%": b"%", b"%f": quoted}
    return _SIGN.sub(lambda found: meaning[found[0]], os.fsencode(command))
