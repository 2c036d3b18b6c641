# SPDX-License-Identifier: MIT
"""Claude Code's hooks.

As its documents have it (2.1): JSON on standard input with `session_id`, `cwd` and
`hook_event_name`, for tools also `tool_name` and `tool_input`, whose file paths are absolute.
`SessionStart` comes with a `source`: startup, resume, clear or compact. What a hook prints at
`SessionStart` and `UserPromptSubmit` goes into the model's context, and JSON at `PreToolUse` can
decide on permission, so the answer is silence, always. Exit code 2 would block. Subagents have
the session of the agent that started them.
"""

from __future__ import annotations

from ckpt.triggers.agents.event import AFTER, BEFORE, PROMPT, START, Agent

_HARMLESS = (
    "AskUserQuestion BashOutput EnterPlanMode ExitPlanMode Glob Grep KillShell LS LSP "
    "ListMcpResourcesTool NotebookRead Read ReadMcpResourceTool Skill TaskCreate TaskGet TaskList "
    "TaskOutput TaskUpdate TodoRead TodoWrite ToolSearch WebFetch WebSearch"
)
AGENT = Agent(
    occasions={
        "SessionStart": START,
        "UserPromptSubmit": PROMPT,
        "PreToolUse": BEFORE,
        "PostToolUse": AFTER,
    },
    edits=frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"}),
    shells=frozenset({"Bash"}),
    harmless=frozenset(_HARMLESS.split()),
)
