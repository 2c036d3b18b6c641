# SPDX-License-Identifier: MIT
"""Agents at work, as real processes: the commands that `install --agent` has put into their
settings are run by a shell, with what the agent would write to them."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt, ckpt_here, git

from ckpt.commands import hook
from ckpt.engine.sessions import SessionState, look
from ckpt.install.agents import AGENTS, FORMATS
from ckpt.settings.settings import Settings

EVENTS = Path(__file__).parents[1] / "triggers/events"
SILENT = ("claude-code", "codex")
every_agent = pytest.mark.parametrize("agent", AGENTS)


class Loop:
    """An agent that has ckpt's hooks in its settings."""

    def __init__(self, agent: str, top: Path) -> None:
        self.agent, self.top = agent, top
        ckpt_here("install", "--agent", agent, cwd=top, code=0)
        self._hooks = json.loads((top / FORMATS[agent].local).read_text())["hooks"]

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

    @property
    def state(self) -> SessionState:
        document = self.sample("prompt")
        session = document.get("session_id") or document["conversation_id"]
        return SessionState(str(self.top / ".git/ckpt"), session)

    def checkpoints(self, kind: str) -> list[dict[str, Any]]:
        found = ckpt_here("list", "--kind", kind, "--json", cwd=self.top, code=0).json
        return list(found["checkpoints"])


@every_agent
def test_an_agent_loop_of_several_turns(agent: str, repo: Path) -> None:
    (repo / "edited.txt").write_text("one\n")
    loop = Loop(agent, repo)
    loop.tell("start")
    for turn in range(1, 4):
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

    assert loop.state.turn == 3
    assert len(loop.checkpoints("session")) == 1
    autos = loop.checkpoints("auto")
    saved = [git("show", f"{checkpoint['ref']}:edited.txt") for checkpoint in autos]
    assert saved == ["turn 3\n", "turn 2\n", "turn 1\n", "one\n"]
    assert {checkpoint["trigger"] for checkpoint in autos} == {agent}
    assert all(checkpoint["session"] in loop.sample("prompt").values() for checkpoint in autos)
    writes = loop.state.writes()
    assert {path: write.created for path, write in writes.items()} == {
        b"edited.txt": False,
        b"created.txt": True,
    }
    assert writes[b"edited.txt"].content == look(str(repo / "edited.txt"))


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
@pytest.mark.parametrize("text", ["", '{"hook_event_name":"PreToolUse"', "null", "[1]"])
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


def test_an_agent_that_says_nothing_is_waited_for_no_longer_than_a_hook_may_take() -> None:
    assert Settings().hook_budget >= hook._INPUT_SECONDS


@every_agent
def test_a_checkpoint_that_fails_stops_no_agent(agent: str, repo: Path) -> None:
    event = json.dumps(Loop(agent, repo).sample("before-edit"))
    git("config", "ckpt.onError", "block")
    (repo / ".git/refs/checkpoints").write_text("in the way")
    ran = ckpt("hook", agent, stdin=event, code=0)

    assert "no checkpoint was taken" in ran.stderr
    assert ran.stdout == ("" if agent in SILENT else "{}\n")
    assert f"{agent}" in ckpt_here("status").stdout


def test_tools_that_run_at_once_wait_for_the_one_checkpoint(repo: Path) -> None:
    """The second must not begin to write while the first is still being saved for."""
    loop = Loop("claude-code", repo)
    loop.tell("prompt")
    (repo / "README.md").write_text("by a person\n")
    command = ["sh", "-c", next(loop._commands("PreToolUse"))]
    text = json.dumps(loop.sample("before-edit")).encode()
    started = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(4)]
    for process in started:
        process.communicate(text)

    assert [process.returncode for process in started] == [0] * 4
    assert len(loop.checkpoints("auto")) == 1


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

    assert [(repo / FORMATS[a].local).exists() for a in AGENTS] == [False, True, False, False]
    assert (repo / ".git/hooks/pre-commit").exists()
    ckpt_here("uninstall", code=0)
    assert git("status", "--short") == ""
    assert not (repo / ".git/hooks/pre-commit").exists()
    ckpt_here("install", "--agent", "nobody", code=2)


def test_an_agent_for_all_repositories_has_no_part_in_their_hooks(repo: Path) -> None:
    def template() -> list[str]:
        return [line for line in git("config", "--list").split("\n") if "templatedir" in line]

    git("config", "--global", "--unset", "init.templateDir")
    ckpt_here("install", "--agent", "gemini", "--global", code=0)
    assert template() == []
    ckpt_here("install", "--hooks", "pre-push", "--global", code=0)
    with_hooks = template()
    ckpt_here("uninstall", "--agent", "gemini", "--global", code=0)

    assert template() == with_hooks != []
    ckpt_here("uninstall", "--global", code=0)


def test_settings_that_are_no_json_stop_nothing_else(repo: Path) -> None:
    (repo / ".gemini").mkdir()
    (repo / ".gemini/settings.json").write_text("{,}")
    ran = ckpt_here("install", "--agent", "gemini", "--agent", "cursor", code=4)

    assert "not valid JSON, line 1" in ran.stderr
    assert (repo / ".gemini/settings.json").read_text() == "{,}"
    assert (repo / ".cursor/hooks.json").exists()


LIMITED = "from ckpt.cli import main; from ckpt.commands import hook; hook.%s; sys.exit(main())"


def limited(limit: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-c", "import sys; " + LIMITED % limit, "hook", "gemini"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_input_without_end_is_not_kept(repo: Path) -> None:
    event = json.dumps({**Loop("gemini", repo).sample("before-edit"), "more": "x" * 10**6})
    process = limited("_LARGEST_INPUT = 1000")

    assert process.communicate(event.encode())[0] == b"{}\n"
    assert git("for-each-ref", "refs/checkpoints") == ""


def test_an_agent_that_leaves_the_pipe_open_is_served(repo: Path) -> None:
    event = json.dumps(Loop("gemini", repo).sample("before-edit"))
    process = limited("_INPUT_SECONDS = 3600")
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(event.encode())
    process.stdin.flush()
    assert select.select([process.stdout], [], [], 60)[0], "it waits for the pipe to be closed"
    answer = process.stdout.read()
    process.stdin.close()

    assert (answer, process.wait()) == (b"{}\n", 0)
    process.stdout.close()
    assert git("for-each-ref", "refs/checkpoints") != ""
