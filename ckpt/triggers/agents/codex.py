# SPDX-License-Identifier: MIT
"""Codex's hooks.

The shape, names and fields of Claude Code's (seen in the schemas that Codex publishes), with a
`turn_id` beside. Commands of every kind of shell tool come as `Bash`. Files are edited with
`apply_patch`, whose whole patch stands in `tool_input.command`; its headings name the files, from
the folder that the agent works in. Plain text on standard output becomes context at
`SessionStart` and `UserPromptSubmit` and is an error at `Stop`; nothing at all is right everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckpt.triggers.agents.event import AFTER, BEFORE, PROMPT, START, Agent, as_path, paths_named

_HEADINGS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")


def patched(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The files that a patch names, or a tool of another shape."""
    patch = given.get("command", given.get("input"))
    if not isinstance(patch, str):
        return paths_named(given)
    lines = [line.strip() for line in patch.split("\n")]
    named = (line[len(h) :].strip() for line in lines for h in _HEADINGS if line.startswith(h))
    return tuple(filter(None, map(as_path, named)))


AGENT = Agent(
    occasions={
        "SessionStart": START,
        "UserPromptSubmit": PROMPT,
        "PreToolUse": BEFORE,
        "PostToolUse": AFTER,
    },
    edits=frozenset({"apply_patch", "Edit", "Write"}),
    shells=frozenset({"Bash", "shell", "local_shell", "exec_command"}),
    harmless=frozenset({"update_plan", "view_image", "web_search", "list_dir", "read_file"}),
    paths_of=patched,
)
