# SPDX-License-Identifier: MIT
"""The programs that `install` asks before it writes anything: git, man, Python.

`install` is a command that a person types and may start processes, which the engine never
does; here is the one place for it. No program that is not there is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

_SECONDS = 20
CONFIGURED_HOOKS = (2, 54)


def git_version(env: Mapping[str, str]) -> tuple[int, int] | None:
    """The version of the git on PATH; None without git."""
    told = _output(["git", "version"], env)
    found = re.search(r"version (\d+)\.(\d+)", told or "")
    return (int(found[1]), int(found[2])) if found else None


def has_configured_hooks(env: Mapping[str, str]) -> bool:
    """Whether git runs hooks that its configuration names."""
    version = git_version(env)
    return version is not None and version >= CONFIGURED_HOOKS


def man_finds(page: str, env: Mapping[str, str]) -> bool | None:
    """Whether `man` has a page; None where there is no `man`."""
    if find("man", env) is None:
        return None
    return bool((_output(["man", "-w", page], env) or "").strip())


def runs_alone(python: str, env: Mapping[str, str]) -> bool:
    """Whether an interpreter finds ckpt without the user's own site folder and PYTHONPATH."""
    return _output([python, "-I", "-c", "import ckpt.cli"], env) is not None


def run(words: Sequence[str], env: Mapping[str, str], folder: str) -> tuple[int, str, str]:
    """Run a program to its end: status, output, errors."""
    try:
        ran = subprocess.run(
            list(words),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            cwd=folder,
        )
    except FileNotFoundError:
        return 127, "", f"'{words[0]}' is not there"
    except subprocess.TimeoutExpired:
        return 124, "", f"'{words[0]}' took more than {_SECONDS} s"
    return ran.returncode, os.fsdecode(ran.stdout), os.fsdecode(ran.stderr)


def find(program: str, env: Mapping[str, str]) -> str | None:
    return shutil.which(program, path=env.get("PATH", os.defpath))


def _output(words: Sequence[str], env: Mapping[str, str]) -> str | None:
    """What a program prints; None if it is missing or fails."""
    program = find(words[0], env)
    if program is None:
        return None
    try:
        ran = subprocess.run(
            [program, *words[1:]],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(ran.stdout) if ran.returncode == 0 else None
