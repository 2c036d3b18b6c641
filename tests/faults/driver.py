# SPDX-License-Identifier: MIT
"""The process that is struck: runs ckpt and does something at a chosen operation.

Started by striking.py with nothing but this Python and ckpt. `once REQUEST` runs one
command as the program itself would; `serve` reads requests line by line and forks a
warm child for each, so that a sweep of hundreds of real kills takes no hundred starts
of Python. Either way it is ckpt's own command line that runs, up to the blow.
"""

from __future__ import annotations

import builtins
import gc
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import ckpt
import ckpt.cli

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import seam

# In place of a command's name: read checkpoints from a file.
IMPORT = "import()"

# Where a blow that pauses says so, and where it reads that it may go on.
pause: tuple[int, int] | None = None


class Observer:
    """Notes every operation, and strikes before those that the blows name."""

    def __init__(self, blows: list[dict[str, Any]], note: Callable[[str, str], None]) -> None:
        self._blows = blows
        self._note = note
        self._seen = [0] * len(blows)

    def __call__(self, operation: str, path: str) -> None:
        self._note(operation, path)
        for number, blow in enumerate(self._blows):
            if not _matches(blow, operation, path):
                continue
            self._seen[number] += 1
            if self._seen[number] == blow["nth"]:
                _strike(blow)
            elif self._seen[number] > blow["nth"] and blow["stays"]:
                _fail(blow["error"])


def _matches(blow: dict[str, Any], operation: str, path: str) -> bool:
    if blow["only"] is not None and operation not in blow["only"]:
        return False
    return blow["operation"] in (None, operation) and fnmatchcase(path, "*" + blow["path"])


def _strike(blow: dict[str, Any]) -> None:
    if blow["command"] is not None:
        subprocess.run(blow["command"], check=True, stdin=subprocess.DEVNULL)
    if blow["wait_for"] is not None:
        _announce_and_wait(blow["wait_for"])
    if blow["pauses"] and pause is not None:
        os.write(pause[0], b".")
        os.read(pause[1], 1)
    if blow["signal"] is not None:
        os.kill(os.getpid(), blow["signal"])
    if blow["error"] is not None:
        _fail(blow["error"])


def _fail(error: int) -> None:
    raise OSError(error, os.strerror(error))


def _announce_and_wait(go: str) -> None:
    """Leave a file that says how far we are, and go on when the other file appears."""
    open(f"{go}.{os.getpid()}", "x").close()
    while not os.path.exists(go):
        time.sleep(0.005)


def _observe_opening() -> None:
    """Observe each file and folder that is opened, for whatever purpose."""
    for module, name in ((os, "open"), (os, "scandir"), (os, "listdir"), (builtins, "open")):
        setattr(module, name, _announced(getattr(module, name)))
    io.open = builtins.open


def _announced(call: Callable[..., Any]) -> Callable[..., Any]:
    def announced(path: Any = ".", *rest: Any, **options: Any) -> Any:
        # A handle that is made a file is open already; messages go to whoever reads them.
        if not isinstance(path, int):
            seam.about_to("opening", os.fsdecode(path))
        return call(path, *rest, **options)

    return announced


def _announce_sleep(announce: Callable[[], object]) -> None:
    """ckpt sleeps only while it waits for somebody else: say so each time."""
    sleep = time.sleep

    def announced(seconds: float) -> None:
        announce()
        sleep(seconds)

    time.sleep = announced


def run(request: dict[str, Any], note: Callable[[str, str], None]) -> int:
    """One command of ckpt, in this process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    if (path := request["announce_sleep"]) is not None:
        _announce_sleep(lambda: os.close(os.open(path, os.O_CREAT, 0o600)))
    seam.observe(Observer(request["blows"], note))
    if request["opening"]:
        _observe_opening()
    if request["words"][0] == IMPORT:
        return _import(*request["words"][1:])
    if request["words"][0] == "git":
        return subprocess.run(request["words"], stdin=subprocess.DEVNULL).returncode
    return ckpt.cli.main(request["words"])


def _import(path: str, *words: str) -> int:
    """What only the API can do; each new checkpoint is a line."""
    try:
        with ckpt.CheckpointManager(".", worktree="--state" not in words) as manager:
            sys.stdout.write("".join(f"{each.id}\n" for each in manager.import_(path)))
    except (ckpt.CkptError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def once(request: dict[str, Any]) -> int:
    return run(request, lambda operation, path: None)


def serve() -> None:
    _import_all()
    # Killing a process does not empty the page cache: waiting for the disk proves nothing.
    os.fsync = lambda fd: None
    gc.freeze()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(json.loads(line))) + "\n")
        sys.stdout.flush()


def _import_all() -> None:
    for module in walk_packages(ckpt.__path__, "ckpt."):
        if module.name != "ckpt.__main__":
            import_module(module.name)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    if request["beside"] is None:
        return Child(request).end()
    return _together(request, request["beside"])


def _together(request: dict[str, Any], beside: dict[str, Any]) -> dict[str, Any]:
    """One command until it pauses; another until it ends, or waits for the first; then both."""
    (paused, pauses), (may_go, go) = os.pipe(), os.pipe()
    first = Child(request, pause=(pauses, may_go))
    os.close(pauses)
    waiting, waits = os.pipe()  # which the first must not hold open
    second = None
    if os.read(paused, 1):
        second = Child(beside, waits=waits)
    os.close(waits)
    has_waited = os.read(waiting, 1) != b""
    os.write(go, b".")
    ended = first.end()
    ended["beside"] = None if second is None else {**second.end(), "has_waited": has_waited}
    for fd in (paused, may_go, go, waiting):
        os.close(fd)
    return ended


class Child:
    """A fork that runs one command; `pause` are the pipes of a blow that pauses, and to `waits`
    it writes when it sleeps."""

    def __init__(
        self,
        request: dict[str, Any],
        pause: tuple[int, int] | None = None,
        waits: int | None = None,
    ) -> None:
        self._files = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115 - end() closes
        self._pid = os.fork()
        if self._pid == 0:
            globals()["pause"] = pause
            if waits is not None:
                _announce_sleep(lambda: os.write(waits, b"."))
            _be_the_child(request, *(file.fileno() for file in self._files))

    def end(self) -> dict[str, Any]:
        _, status = os.waitpid(self._pid, 0)
        for file in self._files:
            file.seek(0)
        out, err, notes = self._files
        ended = {
            "code": os.waitstatus_to_exitcode(status),
            "stdout": os.fsdecode(out.read()),
            "stderr": os.fsdecode(err.read()),
            "operations": [json.loads(line) for line in notes],
        }
        for file in self._files:
            file.close()
        return ended


def _be_the_child(request: dict[str, Any], out: int, err: int, notes: int) -> None:
    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.environ.clear()
        os.environ.update(request["env"])
        time.tzset()

        def note(operation: str, path: str) -> None:
            os.write(notes, json.dumps([operation, path]).encode() + b"\n")

        code = run(request, note)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


if __name__ == "__main__":
    os.umask(0o022)
    if sys.argv[1] == "serve":
        serve()
    else:
        sys.exit(once(json.loads(sys.argv[2])))
