# SPDX-License-Identifier: MIT
"""Twenty turns of an agent through its hooks, with a state object, a bad turn and retention."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from helpers import git

from ckpt import CheckpointManager
from ckpt.models import Kind

SESSION = "loop"
TURNS = 20
BAD = 17


class Agent:
    """What an agent does to a folder, and what it tells its hooks of that."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def tell(self, event: str, **more: Any) -> None:
        known = {"session_id": SESSION, "cwd": str(self.top), "hook_event_name": event}
        ran = subprocess.run(
            [sys.executable, "-I", "-m", "ckpt", "hook", "claude-code"],
            input=json.dumps({**known, **more}).encode(),
            capture_output=True,
            cwd=self.top,
        )
        assert (ran.returncode, ran.stderr) == (0, b"")

    def write(self, name: str, text: str) -> None:
        tool = {"tool_name": "Write", "tool_input": {"file_path": os.path.join(self.top, name)}}
        self.tell("PreToolUse", **tool)
        (self.top / name).write_text(text)
        self.tell("PostToolUse", **tool)

    def shell(self, command: str) -> None:
        self.tell("PreToolUse", tool_name="Bash", tool_input={"command": command})
        subprocess.run(["sh", "-c", command], cwd=self.top, check=True)


def test_a_bad_turn_of_twenty_is_taken_back_and_the_rest_is_kept(repo: Path) -> None:
    agent, state = Agent(repo), {"turn": 0}
    with CheckpointManager(repo, session=SESSION) as manager:
        manager.track("state", state)
        agent.tell("SessionStart", source="startup")
        for turn in range(1, TURNS + 1):
            agent.tell("UserPromptSubmit", prompt=f"turn {turn}")
            state["turn"] = turn
            agent.write("src/app.py", f"turn {turn}\n")
            if turn == BAD:
                before = manager.create("before the bad turn", kind="feature")
                agent.write("wrong.py", "wrong\n")
            if turn % 5 == 0:
                agent.shell("rm -f made && echo made >made")
        (repo / "README.md").write_text("a person's, in between\n")

        kinds = [found.kind for found in manager]
        assert kinds[0] is Kind.SESSION
        assert kinds.count(Kind.AUTO) >= TURNS - 1

        told = manager.rollback(before, keep_edits=True)
        assert (repo / "src/app.py").read_text() == f"turn {BAD}\n"
        assert not (repo / "wrong.py").exists()
        assert (repo / "README.md").read_text() == "a person's, in between\n"
        assert "README.md" in {item.path for item in told.kept}
        assert state == {"turn": BAD}

        dropped = {one.checkpoint.id for one in manager.prune().dropped}
        left = manager.list()
        autos = [found for found in left if found.kind is Kind.AUTO]
        assert len(autos) == 5 and not dropped & {found.id for found in left}
        assert before.id in {found.id for found in left}
        manager.undo()
        assert (repo / "src/app.py").read_text() == f"turn {TURNS}\n"
    assert git("fsck", "--strict") == ""
