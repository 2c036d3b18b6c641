# SPDX-License-Identifier: MIT
"""The program started as a module, in repositories that hold modules of the same names."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ckpt
from scenes import write

import ckpt as package

PACKAGE = Path(package.__file__).parent


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, capture_output=True, text=True, env=os.environ
    )


@pytest.mark.parametrize("name", ["ckpt.py", "ckpt/__init__.py", "json.py", "dulwich/__init__.py"])
def test_modules_in_the_repository_are_not_run(repo: Path, name: str) -> None:
    write(repo, name, "raise SystemExit('the repository took over')\n")

    ckpt("save", "taken", code=0)

    assert "taken" in ckpt("list", code=0).stdout
    assert "taken" in ckpt("list", cwd=repo / "src", code=0).stdout


# A person loses patience the moment the program goes to sleep.
IMPATIENT = """
import signal, sys, time
time.sleep = lambda seconds: signal.raise_signal(signal.SIGINT)
from ckpt.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize(("words", "said"), [((), "interrupted\n"), (("--json",), "")])
def test_control_c_ends_with_130_and_one_line(
    repo: Path, words: tuple[str, ...], said: str
) -> None:
    ckpt("save", code=0)
    with open(repo / ".git/ckpt/lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        interrupted = run("-I", "-c", IMPATIENT, "save", *words, cwd=repo)

    assert interrupted.returncode == 130
    assert interrupted.stderr == said
    if words:
        assert json.loads(interrupted.stdout)["error"]["code"] == "interrupted"
