# SPDX-License-Identifier: MIT
"""Runs one program and says how long it took and how much memory it had at its peak.

The clock runs from just before the program is started until it has ended; what it prints
goes into files, so that nobody waits for a reader. The programs see no settings of the
user's: home, git config and locale are the bench's own. Nothing here knows ckpt.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

Environment = Mapping[str, str]

_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
_SHOWN = 2000

# Defaults are git's own; only what works behind one's back is off.
_GIT_CONFIG = """\
[user]
    name = Bench
    email = bench@example.org
[init]
    defaultBranch = main
[gc]
    auto = 0
[maintenance]
    auto = false
[advice]
    detachedHead = false
"""


class BenchError(Exception):
    """The bench cannot go on with what it is doing; the text is for people."""


class CommandFailed(BenchError):
    def __init__(self, words: Sequence[str], code: int, stderr: str) -> None:
        shown = " ".join(os.path.basename(w) if os.path.isabs(w) else w for w in words)
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        super().__init__(f"'{shown}' failed ({how})\n{stderr.strip()[-_SHOWN:]}".strip())


@dataclass(frozen=True, slots=True)
class Ran:
    """One program that ended well."""

    seconds: float
    peak: int
    """Bytes of memory. Linux counts the moment before the program was loaded too, when it
    still shared the memory of the bench: no figure is below the bench's own."""
    out: str
    err: str


def git_program() -> str:
    found = shutil.which("git")
    if found is None:
        raise BenchError("git is not installed")
    return found


def run(words: Sequence[str], cwd: Path, env: Environment) -> Ran:
    os.chdir(cwd)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with open(os.devnull, "rb") as nothing:
            streams = [(os.POSIX_SPAWN_DUP2, nothing.fileno(), 0)]
            streams += [(os.POSIX_SPAWN_DUP2, file.fileno(), n) for n, file in ((1, out), (2, err))]
            started = perf_counter()
            child = os.posix_spawn(words[0], list(words), env, file_actions=streams)
            _, status, usage = os.wait4(child, 0)
            seconds = perf_counter() - started
        printed = []
        for file in (out, err):
            file.seek(0)
            printed.append(file.read().decode("utf-8", "replace"))
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        raise CommandFailed(words, code, printed[1] or printed[0])
    return Ran(seconds, usage.ru_maxrss * _MAXRSS_UNIT, printed[0], printed[1])


def isolated(home: Path) -> dict[str, str]:
    """The environment of every program that is measured."""
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitconfig").write_text(_GIT_CONFIG)
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C.UTF-8",
        "PATH": os.environ.get("PATH", os.defpath),
        "TERM": "dumb",
        "TZ": "UTC",
    }
