# SPDX-License-Identifier: MIT
"""Agents at work, as real processes: the commands that `install --agent` has put into their
settings are run by a shell, with what the agent would write to them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt, ckpt_here, git

EVENTS = Path(__file__).parents[1] / "triggers/events"
SILENT = ("claude-code", "codex")
# Where each has its settings for one repository.
SETTINGS = {
    "claude-code": ".claude/settings.local.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/hooks.json",
}
every_agent = pytest.mark.parametrize("agent", SETTINGS)


class Loop:
    """An agent that has ckpt's hooks in its settings."""

    def __init__(self, agent: str, top: Path) -> None:
        self.agent, self.top = agent, top
        ckpt_here("install", "--agent", agent, cwd=top, code=0)
        self._hooks = json.loads((top / SETTINGS[agent]).read_text())["hooks"]

    def sample(self, event: str) -> dict[str, Any]:
        text = (EVENTS / f"{self.agent}.json").read_text()
        found: dict[str, Any] = json.loads(text.replace("@REPO@", str(self.top)))[event]
        return found

    def tell(self, event: str) -> None:
        """Run each command that is set for an event, as the agent does, and judge its answer."""
        document = self.sample(event)
        for command in self._commands(document["hook_event_name"]):
            ran = subprocess.run(
                ["sh", "-c", command], input=json.dumps(document).encode(), capture_output=True
            )
            assert (ran.returncode, ran.stderr) == (0, b""), (event, ran)
            if self.agent in SILENT:
                assert ran.stdout == b""
            else:
                assert isinstance(json.loads(ran.stdout), dict)

    def _commands(self, event: str) -> Iterator[str]:
        for entry in self._hooks.get(event, []):
            yield from (one["command"] for one in entry.get("hooks", [entry]))

    def checkpoints(self, kind: str) -> list[dict[str, Any]]:
        found = ckpt_here("list", "--kind", kind, "--json", cwd=self.top, code=0).json
        return list(found["checkpoints"])


@every_agent
def test_an_agent_loop_of_several_turns(agent: str, repo: Path) -> None:
    (repo / "edited.txt").write_text("one\n")
    loop = Loop(agent, repo)
    loop.tell("start")
    for turn in range(1, 3):
        loop.tell("prompt")
        loop.tell("before-reading")
        loop.tell("before-edit")
        (repo / "edited.txt").write_text(f"turn {turn}\n")
        loop.tell("after-edit")
        loop.tell("before-shell")
        loop.tell("before-create")
        (repo / "created.txt").write_text(f"made in turn {turn}\n")
        loop.tell("after-create")
        loop.tell("stop")
    loop.tell("before-destroying")
    loop.tell("end")

    assert len(loop.checkpoints("session")) == 1
    autos = loop.checkpoints("auto")
    saved = [git("show", f"{checkpoint['ref']}:edited.txt") for checkpoint in autos]
    assert saved == ["turn 2\n", "turn 1\n", "one\n"]
    assert {checkpoint["trigger"] for checkpoint in autos} == {agent}
    assert all(checkpoint["session"] in loop.sample("prompt").values() for checkpoint in autos)
    (begun,) = loop.checkpoints("session")
    ckpt_here("rollback", begun["id"], "--keep-edits", code=0)
    assert (repo / "edited.txt").read_text() == "one\n"
    assert not (repo / "created.txt").exists()


@every_agent
def test_a_destroyed_turn_comes_back(agent: str, repo: Path) -> None:
    loop = Loop(agent, repo)
    loop.tell("prompt")
    loop.tell("before-create")
    (repo / "created.txt").write_text("an hour of work\n")
    loop.tell("after-create")
    loop.tell("before-destroying")
    (repo / "created.txt").unlink()
    (repo / "README.md").unlink()
    ckpt_here("rollback", "latest", code=0)

    assert (repo / "created.txt").read_text() == "an hour of work\n"
    assert (repo / "README.md").exists()


@every_agent
def test_whatever_comes_the_agent_gets_its_answer(agent: str, repo: Path, tmp_path: Path) -> None:
    nowhere = json.dumps({**Loop(agent, repo).sample("before-edit"), "cwd": str(tmp_path)})
    nowhere = nowhere.replace(str(repo), str(tmp_path))
    for text in ("", "{", "null", "[1]", "\xff\0", '{"hook_event_name": 7}', "[" * 9999, nowhere):
        ran = ckpt("hook", agent, cwd=tmp_path, stdin=text, code=0)
        assert ran.stderr == ""
        assert ran.stdout == ("" if agent in SILENT else "{}\n")
    off = ckpt("hook", agent, "-q", stdin=nowhere, env={"CKPT_DISABLE": agent}, code=0)
    assert off.stdout == ran.stdout

    assert git("for-each-ref", "refs/checkpoints") == ""


@every_agent
@pytest.mark.parametrize("text", ["", "[1]"])
def test_input_that_cannot_be_used_is_warned_of_and_noted(
    agent: str, text: str, repo: Path
) -> None:
    ran = ckpt("hook", agent, stdin=text, code=0)

    told = f"{agent} did nothing: what came on standard input is no JSON object"
    assert ran.stderr == f"warning: {told}\n"
    assert ran.stdout == ("" if agent in SILENT else "{}\n")
    assert "no JSON object" in ckpt_here("status").stdout
    document = ckpt("hook", agent, "--json", stdin=text, code=0).json
    assert document["outcome"] == "failed"
    off = ckpt("hook", agent, stdin=text, env={"CKPT_DISABLE": agent}, code=0)
    assert off.stderr == ""
    assert git("for-each-ref", "refs/checkpoints") == ""


@every_agent
def test_a_checkpoint_that_fails_stops_no_agent(agent: str, repo: Path) -> None:
    event = json.dumps(Loop(agent, repo).sample("before-edit"))
    git("config", "ckpt.onError", "block")
    (repo / ".git/refs/checkpoints").write_text("in the way")
    ran = ckpt("hook", agent, stdin=event, code=0)

    assert "no checkpoint was taken" in ran.stderr
    assert ran.stdout == ("" if agent in SILENT else "{}\n")
    assert f"{agent}" in ckpt_here("status").stdout


def test_agents_are_installed_alone_unless_more_is_asked_for(repo: Path) -> None:
    words = ["install", "--agent", "codex", "--agent", "gemini", "--agent", "codex"]
    told = ckpt_here(*words, "--json", code=0).json["steps"]
    assert [step["what"] for step in told if step["action"] == "added"][:2] == [
        "codex: its hooks",
        "gemini: its hooks",
    ]
    assert not (repo / ".git/hooks/pre-commit").exists()
    ckpt_here("install", "--agent", "cursor", "--hooks", "pre-commit", code=0)
    assert (repo / ".git/hooks/pre-commit").exists()
    ckpt_here("uninstall", "--agent", "gemini", "--agent", "cursor", code=0)

    assert [(repo / path).exists() for path in SETTINGS.values()] == [False, True, False, False]
    assert (repo / ".git/hooks/pre-commit").exists()
    ckpt_here("uninstall", code=0)
    assert git("status", "--short") == ""
    assert not (repo / ".git/hooks/pre-commit").exists()
    ckpt_here("install", "--agent", "nobody", code=2)
