# SPDX-License-Identifier: MIT
"""The patch in which pre-commit keeps unstaged edits while its hooks run.

It is named by its time and the id of the process that is pre-commit, and never deleted. So
only a process that started this one can tell which one it is: ids come round again, in
containers after a handful. A patch counts if that process is pre-commit, it is not older
than the process, and it is a file of ours.

What pre-commit hid is known only to itself. Where it is among those that started this
process, but no patch of it is there, it hid nothing.
"""

from __future__ import annotations

import os
import stat
import time
from math import floor

from ckpt.git.patch import LARGEST
from ckpt.patterns import lazy_pattern
from ckpt.triggers.processes import Process, upwards
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_PATCH = lazy_pattern(r"patch([0-9]{1,12})-([1-9][0-9]{0,9})")
_PYTHON = lazy_pattern(r"(?i)(python|pypy)[0-9.]*(-dbg|t)?")
_WITH_MODULE = lazy_pattern(r"-[bBdEiIOPqsSuvx]*m(.*)")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_SCRIPT = lazy_pattern(r"pre-commit(-script\.py|[-0-9.]*\.pyz)?")
_TICK = 0.02  # by which the time of a file may lie behind the clock
_ENVIRONMENT = "py_env-"


@value_class
class PatchFile:
    """Where a patch is, and what is in it; `problem` says why it cannot be used."""

    path: str
    data: bytes = b""
    problem: str | None = None


def pre_commits(pid: int) -> list[Process]:
    """The processes above that are pre-commit, the nearest first."""
    return [process for process in upwards(pid) if is_pre_commit(process.words)]


def is_pre_commit(words: Sequence[str]) -> bool:
    """Whether a command is pre-commit: its script, or its module in some Python. Of one with
    blanks in the path to Python, `ps` gives the pieces."""
    if words and os.path.basename(words[0]) == "pre-commit":
        return True
    rest = iter(words)
    for word in rest:
        if _PYTHON.fullmatch(os.path.basename(word)):
            return _is_told_to_run_it(rest)
    return False


def _is_told_to_run_it(options: Iterator[str]) -> bool:
    for word in options:
        module = _WITH_MODULE.fullmatch(word)
        if module is not None:
            return (module[1] or next(options, "")) == "pre_commit"
        if word in _WITH_VALUE:
            next(options, "")
        elif not word.startswith("-"):
            return bool(_SCRIPT.fullmatch(os.path.basename(word)))
    return False


def stores(env: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """Where pre-commit may keep its patches; `prefix` is that of our Python, which stands in
    another store if pre-commit was told to try a repository out."""
    cache = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", ""), ".cache")
    found = [env.get("PRE_COMMIT_HOME") or os.path.join(cache, "pre-commit")]
    if os.path.basename(prefix).startswith(_ENVIRONMENT):
        found.append(os.path.dirname(os.path.dirname(prefix)))
    return tuple(dict.fromkeys(map(os.path.realpath, found)))


def find_patch(folders: Iterable[str], process: Process) -> PatchFile | None:
    """The patch that a process has made; the newest, if it has hidden edits several times."""
    found = [
        (int(match[1]), os.path.join(folder, match[0]))
        for folder in folders
        for match in map(_PATCH.fullmatch, _names(folder))
        if match is not None and int(match[2]) == process.pid
    ]
    since = started_at(process) if found else None
    made, path = max(found, default=(-1, ""))
    return None if since is None or made < floor(since) else _read(path, since)


def started_at(process: Process) -> float | None:
    """When a process was started, in seconds since 1970, or a little before; None if that
    cannot be told."""
    try:
        if not process.started.isdecimal():
            return _started_by_ps(process.pid)
        since_boot = int(process.started) / os.sysconf("SC_CLK_TCK")
        # The time of the boot, as /proc has it, is rounded, and does not follow the clock.
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot
    except (OSError, ValueError):
        return None


def _started_by_ps(pid: int) -> float:
    """The same where there is no /proc, in whole seconds."""
    import subprocess
    from calendar import timegm

    told = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)],
        env={"LC_ALL": "C", "PATH": os.defpath, "TZ": "UTC0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    return float(timegm(time.strptime(told.stdout.decode().strip(), "%a %b %d %H:%M:%S %Y")))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(path: str, since: float) -> PatchFile | None:
    """The patch in a file; None if the file is older than that."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return PatchFile(path, problem=f"it cannot be read ({error.strerror})")
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if _is_older(status.st_mtime_ns, since):
            return None
        problem = _problem(status)
        return PatchFile(path, b"" if problem else file.read(LARGEST), problem)


def _is_older(mtime_ns: int, since: float) -> bool:
    """Where a file system keeps whole seconds, a time is no better than that."""
    if mtime_ns % 1_000_000_000 == 0:
        return mtime_ns // 1_000_000_000 < floor(since)
    return mtime_ns / 1e9 < since - _TICK


def _problem(status: os.stat_result) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "it is no plain file"
    if status.st_uid != os.geteuid():
        return "it belongs to somebody else"
    if status.st_size > LARGEST:
        return f"it is over {LARGEST >> 20} MiB"
    return None
