# SPDX-License-Identifier: MIT
"""Gemini CLI's hooks.

As its documents have it (0.61): the common fields are `session_id`, `cwd`, `hook_event_name` and
`timestamp`; `BeforeAgent` comes with each prompt, `BeforeTool` and `AfterTool` with `tool_name`
and `tool_input`. Standard output is read as JSON and must hold nothing else; an empty object
decides nothing. `write_file` and `replace` name their file in `file_path`.
"""

from __future__ import annotations

from ckpt.triggers.agents.event import AFTER, BEFORE, PROMPT, START, Agent

_HARMLESS = (
    "activate_skill ask_user codebase_investigator enter_plan_mode exit_plan_mode glob "
    "google_web_search grep_search list_directory read_file read_many_files search_file_content "
    "web_fetch write_todos"
)
AGENT = Agent(
    occasions={
        "SessionStart": START,
        "BeforeAgent": PROMPT,
        "BeforeTool": BEFORE,
        "AfterTool": AFTER,
    },
    edits=frozenset({"write_file", "replace"}),
    shells=frozenset({"run_shell_command"}),
    harmless=frozenset(_HARMLESS.split()),
    answer=lambda _: "{}\n",
)
