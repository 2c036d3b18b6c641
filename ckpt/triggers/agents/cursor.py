# SPDX-License-Identifier: MIT
"""Cursor's hooks.

As its documents have it: each event has `conversation_id`, `generation_id`, `hook_event_name` and
`workspace_roots`; `beforeShellExecution` adds `command` and `cwd`, `afterFileEdit` a `file_path`
and the edits, `preToolUse` and `postToolUse` a `tool_name` and `tool_input`. JSON is expected on
every path: `continue` after a prompt, else an object. `permission` is left out on purpose. It
could be "allow", but to let a command run is for the user's own rules to decide, and a hook that
does not say it stops nothing.
"""

from __future__ import annotations

from ckpt.triggers.agents.event import AFTER, BEFORE, PROMPT, START, Agent


def answer(event: str) -> str:
    return '{"continue": true}\n' if event == "beforeSubmitPrompt" else "{}\n"


AGENT = Agent(
    occasions={
        "sessionStart": START,
        "beforeSubmitPrompt": PROMPT,
        "beforeShellExecution": BEFORE,
        "beforeMCPExecution": BEFORE,
        "preToolUse": BEFORE,
        "postToolUse": AFTER,
        "afterFileEdit": AFTER,
    },
    edits=frozenset({"Write", "Edit", "MultiEdit", "StrReplace", "Delete", "EditNotebook"}),
    shells=frozenset({"Shell"}),
    harmless=frozenset({"Glob", "Grep", "LS", "Read", "ReadLints", "SemanticSearch", "TodoWrite"}),
    answer=answer,
)
