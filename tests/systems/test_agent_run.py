# SPDX-License-Identifier: MIT
"""A coding agent with its hooks, started by `git ckpt run`; then a person, and the way back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt, git

# Three turns. In each the agent writes files with a tool and tells its hooks; in the last it
# also commits, and fails.
AGENT = """if True:
    import json, os, subprocess, sys

    def tell(event, **more):
        document = {"session_id": "its own", "cwd": os.getcwd(), "hook_event_name": event, **more}
        words = [sys.executable, "-I", "-m", "ckpt", "hook", "claude-code"]
        subprocess.run(words, input=json.dumps(document).encode(), check=True)

    def write(name, text):
        tool = {"tool_name": "Write", "tool_input": {"file_path": os.path.abspath(name)}}
        tell("PreToolUse", **tool)
        with open(name, "w") as file:
            file.write(text)
        tell("PostToolUse", **tool)

    tell("SessionStart")
    for turn in (1, 2, 3):
        tell("UserPromptSubmit", prompt="go on")
        write("src/app.py", f"turn {turn}\\n")
        write(f"made-{turn}", "made\\n")
    subprocess.run(["git", "add", "-A"], check=True)
    subprocess.run(["git", "commit", "-qm", "by the agent"], check=True)
    sys.exit(7)
"""


def checkpoints(kind: str) -> list[dict[str, Any]]:
    """Oldest first."""
    found = ckpt("list", "--kind", kind, "--json", code=0).json["checkpoints"]
    return found[::-1]


def test_all_that_it_does_goes_back_when_it_fails(repo: Path) -> None:
    ckpt("run", "-q", "--on-failure", "rollback", "--", sys.executable, "-c", AGENT, code=7)

    assert git("log", "--format=%s") == "first\n"
    assert git("status", "--porcelain") == ""
    [safety] = checkpoints("safety")
    assert "by the agent" in git("log", "--format=%s", safety["commit"])


@pytest.fixture
def session(repo: Path) -> str:
    """The agent has run and its work is there; returns the session."""
    ckpt("run", "-q", "--", sys.executable, "-c", AGENT, code=7)
    [before] = checkpoints("session")
    return str(before["session"])


def test_its_checkpoints_are_those_of_the_run_one_a_turn(session: str) -> None:
    turns = checkpoints("auto")

    assert {one["session"] for one in turns} == {session}
    held = [git("show", f"{one['commit']}:src/app.py") for one in turns]
    assert held == [git("show", "HEAD~1:src/app.py"), "turn 1\n", "turn 2\n"]


def test_a_bad_turn_goes_back_and_what_a_person_did_since_stays(repo: Path, session: str) -> None:
    last = checkpoints("auto")[-1]
    (repo / "made-1").write_text("mine, after the agent\n")
    (repo / "notes").write_text("mine\n")

    told = ckpt("rollback", last["id"], "--keep-edits", "--json", code=0).json

    assert {item["path"] for item in told["kept"]} == {"made-1", "notes"}
    assert (repo / "src/app.py").read_text() == "turn 2\n"
    assert not (repo / "made-3").exists()
    assert (repo / "made-2").exists()
    changed = ckpt("diff", "--session", session, "--json", code=0).json["files"]
    assert [file["path"] for file in changed] == ["made-1", "made-2", "notes", "src/app.py"]
    ckpt("undo", code=0)
    assert (repo / "made-3").read_text() == "made\n"
