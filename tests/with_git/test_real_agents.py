# SPDX-License-Identifier: MIT
"""The agents themselves, with ckpt's hooks in their settings and a model that is played to them.

For whoever has the programs: `CKPT_TEST_CLAUDE_CODE`, `CKPT_TEST_CODEX` and `CKPT_TEST_GEMINI`
name them (packages of the same names in npm's registry). Nothing leaves the machine: each is
told that its model is at a port of ours, where it is asked to write a file and to move it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from helpers import ckpt, git

VARIABLES = {
    "claude-code": "CKPT_TEST_CLAUDE_CODE",
    "codex": "CKPT_TEST_CODEX",
    "gemini": "CKPT_TEST_GEMINI",
}
# Read before the tests are isolated.
PROGRAMS = {agent: os.environ.get(variable) for agent, variable in VARIABLES.items()}
WRITTEN = "made by the agent\n"
MOVE = "mv created.txt moved.txt"
PATCH = f"*** Begin Patch\n*** Add File: created.txt\n+{WRITTEN}*** End Patch\n"
Sse = Iterator[Mapping[str, Any]]


def claude(top: Path, number: int) -> Sse:
    """Answers of Anthropic's Messages API."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": f"m{number}", "type": "message", "role": "assistant", "model": "m"}
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": "done"}
    if number < 2:
        write = {"file_path": str(top / "created.txt"), "content": WRITTEN}
        given = (write, {"command": MOVE, "description": "move"})[number]
        name = ("Write", "Bash")[number]
        block = {"type": "tool_use", "id": f"t{number}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
    stop = {"stop_reason": "tool_use" if number < 2 else "end_turn", "stop_sequence": None}
    begun = {**message, "content": [], "stop_reason": None, "usage": usage}
    yield {"type": "message_start", "message": begun}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def codex(top: Path, number: int) -> Sse:
    """Answers of OpenAI's Responses API."""
    call = {"id": f"i{number}", "call_id": f"c{number}"}
    patch = {**call, "type": "custom_tool_call", "name": "apply_patch", "input": PATCH}
    said = {"type": "output_text", "text": "done"}
    end = {"type": "message", "role": "assistant", "id": "m", "content": [said]}
    item = {**patch, "status": "completed"} if number == 0 else end
    count = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage = {**count, "input_tokens_details": None, "output_tokens_details": None}
    yield {"type": "response.created", "response": {"id": f"r{number}"}}
    yield {"type": "response.output_item.done", "item": item}
    yield {"type": "response.completed", "response": {"id": f"r{number}", "usage": usage}}


def gemini(top: Path, number: int) -> Sse:
    """Answers of Google's generateContent API."""
    write = {"file_path": str(top / "created.txt"), "content": WRITTEN}
    parts: list[dict[str, Any]] = [
        {"functionCall": {"name": "write_file", "args": write}},
        {"functionCall": {"name": "run_shell_command", "args": {"command": MOVE}}},
        {"text": "done"},
    ]
    content = {"role": "model", "parts": [parts[min(number, 2)]]}
    yield {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}


@contextmanager
def model(play: Any, top: Path) -> Iterator[str]:
    """A server that plays a model; its address."""
    turns = iter(range(10**6))

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            # Questions beside the work, such as for a title, come without tools.
            is_work = bool(asked.get("tools")) or play is codex
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for event in play(top, next(turns) if is_work else 9):
                kind = f"event: {event['type']}\n" if "type" in event else ""
                self.wfile.write(f"{kind}data: {json.dumps(event)}\n\n".encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def start(agent: str, top: Path, address: str) -> None:
    """Give an agent its task, and wait for it to be done."""
    program = PROGRAMS[agent]
    assert program is not None
    home = Path(os.environ["HOME"])
    words, env = [program, "-p", "work"], {}
    if agent == "claude-code":
        words += ["--allowedTools", "Write,Bash"]
        env = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none"}
        env |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    elif agent == "gemini":
        words = ["node", *words, "--yolo"]
        env = {"GOOGLE_GEMINI_BASE_URL": address, "GEMINI_API_KEY": "none"}
        env |= {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
        (home / ".gemini").mkdir(exist_ok=True)
        auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        (home / ".gemini/settings.json").write_text(json.dumps(auth))
    else:
        _configure_codex(home / ".codex", top, address)
        unasked = ["--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox"]
        words = [program, "exec", *unasked, "work"]
    ran = subprocess.run(
        words,
        cwd=top,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=180,
    )
    assert ran.returncode == 0, ran


def _configure_codex(folder: Path, top: Path, address: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(
        'model = "gpt-6-astra"\nmodel_provider = "played"\n'
        f'[model_providers.played]\nname = "played"\nbase_url = "{address}/v1"\n'
        f'wire_api = "responses"\n[projects."{top}"]\ntrust_level = "trusted"\n'
    )


def parameters(agent: str, play: Any) -> Any:
    missing = pytest.mark.skipif(PROGRAMS[agent] is None, reason=f"{VARIABLES[agent]} is not set")
    return pytest.param(agent, play, id=agent, marks=missing)


@pytest.mark.parametrize(
    ("agent", "play"),
    [parameters("claude-code", claude), parameters("codex", codex), parameters("gemini", gemini)],
)
def test_a_real_agent_runs_the_hooks_and_goes_on(agent: str, play: Any, repo: Path) -> None:
    ckpt("install", "--agent", agent, code=0)
    with model(play, repo) as address:
        start(agent, repo, address)

    saved = ckpt("list", "--json", code=0).json["checkpoints"]
    kinds = [checkpoint["kind"] for checkpoint in saved]
    assert (kinds[-1], kinds.count("session")) == ("session", 1)
    if agent == "codex":  # the played model has no shell there
        assert (repo / "created.txt").read_text() == WRITTEN
        return
    assert (repo / "moved.txt").read_text() == WRITTEN
    assert kinds == ["auto", "session"]
    assert git("show", f"{saved[0]['ref']}:created.txt") == WRITTEN
