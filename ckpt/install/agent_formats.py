# SPDX-License-Identifier: MIT
"""Where each agent keeps its hooks, and what ckpt's entries there look like.

Claude Code, Codex and Gemini CLI have lists of groups by event, each group with a pattern for
tools and a list of commands; Cursor has a flat list of commands by event, and a version. The
patterns leave out tools that only read, so that no process is started for those. Times are in
seconds but for Gemini's, which are in milliseconds; all are far more than a checkpoint takes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from shlex import quote

from ckpt.errors import CkptError
from ckpt.values import field, value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SECONDS = 10


@value_class
class Format:
    """`local` is the file in a worktree, `user` the one in a user's folder, whose place an
    environment variable may change. `events` maps an event to its pattern for tools, if it has
    one. `note` is what the user has to know or do besides."""

    local: str
    user: str
    events: Mapping[str, str | None]
    variable: str = ""
    has_groups: bool = True
    timeout: int = _SECONDS
    has_comments: bool = False
    required: Mapping[str, object] = field(default_factory=dict)
    note: str = ""


# A file of the repository is shared with others; Claude Code has one beside it that is not.
FORMATS = {
    "claude-code": Format(
        local=".claude/settings.local.json",
        user=".claude/settings.json",
        variable="CLAUDE_CONFIG_DIR",
        events={
            "SessionStart": None,
            "UserPromptSubmit": None,
            "PreToolUse": "^(Edit|MultiEdit|Write|NotebookEdit|Bash|PowerShell|mcp__.*)$",
            "PostToolUse": "Edit|MultiEdit|Write|NotebookEdit",
        },
    ),
    "codex": Format(
        local=".codex/hooks.json",
        user=".codex/hooks.json",
        variable="CODEX_HOME",
        events={
            "SessionStart": None,
            "UserPromptSubmit": None,
            "PreToolUse": "^(Bash|apply_patch|mcp__.*)$",
            "PostToolUse": "apply_patch",
        },
        note="codex runs new hooks only when you have reviewed them: type /hooks in it",
    ),
    "gemini": Format(
        local=".gemini/settings.json",
        user=".gemini/settings.json",
        events={
            "SessionStart": None,
            "BeforeAgent": None,
            "BeforeTool": "^(write_file|replace|run_shell_command|mcp_.*)$",
            "AfterTool": "^(write_file|replace)$",
        },
        timeout=1000 * _SECONDS,
        has_comments=True,
    ),
    "cursor": Format(
        local=".cursor/hooks.json",
        user=".cursor/hooks.json",
        events={
            "sessionStart": None,
            "beforeSubmitPrompt": None,
            "preToolUse": "Write|Edit|MultiEdit|StrReplace|EditNotebook|Delete",
            "beforeShellExecution": None,
            "beforeMCPExecution": None,
            "afterFileEdit": None,
            "postToolUse": "Delete",
        },
        has_groups=False,
        has_comments=True,
        required={"version": 1},
    ),
}
AGENTS = tuple(FORMATS)


def command(python: str, agent: str) -> str:
    """What the agent's shell runs."""
    return f"{quote(python)}{_tail(agent)}"


def is_ours(entry: object, agent: str) -> bool:
    """Whether an entry runs ckpt, by whichever Python."""
    text = entry.get("command") if isinstance(entry, dict) else None
    return isinstance(text, str) and text.endswith(_tail(agent))


def _tail(agent: str) -> str:
    return f" -I -m ckpt hook {agent}"


def entry(agent: str, event: str, python: str) -> dict[str, Any]:
    """An item of an event's list."""
    known = FORMATS[agent]
    matcher = known.events[event]
    pattern = {} if matcher is None else {"matcher": matcher}
    run = {"command": command(python, agent), "timeout": known.timeout}
    if not known.has_groups:
        return {**run, **pattern}
    return {**pattern, "hooks": [{"type": "command", **run}]}


def user_path(agent: str, env: Mapping[str, str]) -> str:
    """The settings that hold for all of a user's projects."""
    known = FORMATS[agent]
    moved = env.get(known.variable) if known.variable else None
    if moved:
        return os.path.join(os.path.abspath(moved), os.path.basename(known.user))
    if not env.get("HOME"):
        raise CkptError("$HOME is not set", hint="set HOME to your home folder, then try again")
    return os.path.join(env["HOME"], known.user)
