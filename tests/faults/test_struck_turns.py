# SPDX-License-Identifier: MIT
"""Whoever saves for a turn of an agent is killed: the turn has no checkpoint, so the next saves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ckpt, git
from seam import SETUP

from ckpt import CheckpointManager

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# The checkpoint's ref is all that is still missing when the signal comes.
STRUCK = f"""{SETUP}
import os
number = int(sys.argv.pop(1))
def strike(operation, path):
    if operation in ("link", "rename") and "/refs/checkpoints/" in path:
        os.kill(os.getpid(), number)
seam.observe(strike)
"""
HOOK = STRUCK + "from ckpt import cli; cli.program()"
ENSURE = STRUCK + "import ckpt; print(ckpt.CheckpointManager('.', session='s').ensure())"
every_signal = pytest.mark.parametrize("number", SIGNALS)


def event(name: str, top: Path) -> str:
    tool = {"tool_name": "Write", "tool_input": {"file_path": str(top / "README.md")}}
    return json.dumps({"session_id": "s", "cwd": str(top), "hook_event_name": name, **tool})


def struck(code: str, number: int, *words: str, stdin: str = "") -> None:
    ran = subprocess.run(
        [sys.executable, "-I", "-c", code, str(int(number)), *words],
        input=stdin,
        capture_output=True,
        text=True,
    )
    assert ran.returncode in (-number, 130), ran


@every_signal
def test_an_agents_hook_that_is_killed_leaves_the_turn_to_the_next(
    number: signal.Signals, repo: Path
) -> None:
    for name in ("SessionStart", "UserPromptSubmit"):
        ckpt("hook", "claude-code", stdin=event(name, repo), code=0)
    (repo / "README.md").write_text("edited by a person\n")
    tool = event("PreToolUse", repo)
    struck(HOOK, number, "hook", "claude-code", stdin=tool)

    saved = ckpt("hook", "claude-code", "--json", stdin=tool, code=0).json

    assert saved["outcome"] == "created"
    assert git("show", f"{saved['checkpoint']['ref']}:README.md") == "edited by a person\n"
    again = ckpt("hook", "claude-code", "--json", stdin=tool, code=0).json
    assert (again["outcome"], again["reason"]) == ("skipped", "needless")


@every_signal
def test_an_ensure_that_is_killed_leaves_the_turn_to_the_next(
    number: signal.Signals, repo: Path
) -> None:
    struck(ENSURE, number)

    with CheckpointManager(repo, session="s") as manager:
        assert [manager.ensure().outcome for _ in range(2)] == ["created", "skipped"]
