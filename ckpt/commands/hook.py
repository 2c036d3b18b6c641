# SPDX-License-Identifier: MIT
"""`git ckpt hook`: what git's hooks, the guard, pre-commit and agents call.

Returns as soon as an event turns out not to matter. Prints nothing on success but the answer that
an agent expects. Never stops the command that waits for it, unless `on_error` says so; never an
agent.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING

from ckpt import jsontext
from ckpt.cli import Context, close_stdout
from ckpt.models import Outcome, SaveResult
from ckpt.settings.settings import disabled_by_env

if TYPE_CHECKING:
    import argparse

    from ckpt.triggers.agents.event import Agent
    from ckpt.triggers.fire import Fired

# The events that people may name, and the module that knows each.
EVENTS = {
    "pre-commit": "git_hooks",
    "pre-merge-commit": "git_hooks",
    "pre-rebase": "git_hooks",
    "pre-push": "git_hooks",
    "post-checkout": "git_hooks",
    "ckpt-save": "precommit",
    "ckpt-prune": "precommit",
    "guard": "guard",
    "wrapper": "guard",
    "claude-code": "agents.claude_code",
    "codex": "agents.codex",
    "gemini": "agents.gemini",
    "cursor": "agents.cursor",
}
_AGENTS = "agents."
# What an agent writes to a hook holds the file that it is about to write.
_LARGEST_INPUT = 64 << 20
_INPUT_SECONDS = 2.0  # as long as a hook may take
_A_MOMENT = 0.05


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("event", metavar="EVENT", choices=list(EVENTS), help=", ".join(EVENTS))
    parser.add_argument("words", metavar="ARG", nargs="*", help="what git passes to its hook")


def run(context: Context, event: str, words: list[str]) -> int:
    if EVENTS[event].startswith(_AGENTS):
        return _run_agent(context, event)
    if disabled_by_env(context.env, event):
        _tell(context, None, "disabled")
        return 0
    module = import_module("ckpt.triggers." + EVENTS[event])
    act = module.prune if event == "ckpt-prune" else module.run
    fired: Fired | None = act(context.start, context.env, event, words)
    _tell(context, fired)
    return 1 if fired is not None and fired.blocks else 0


def _run_agent(context: Context, name: str) -> int:
    """Read an agent's event, act on it, and answer as the agent expects, whatever happened."""
    from ckpt.triggers.agents import event as events

    agent: Agent = import_module("ckpt.triggers." + EVENTS[name]).AGENT
    document, fired = _read_document(), None
    event = None if disabled_by_env(context.env, name) else events.read(agent, document)
    if event is not None:
        from ckpt.triggers.agents.act import act

        fired = act(name, event, context.env)
    elif not isinstance(document, dict):
        fired = _not_understood(context, name)
    _tell(context, fired)
    if not context.output.as_json:
        try:  # with -q too: it is no message
            sys.stdout.write(agent.answer(events.name_of(document)))
            sys.stdout.flush()
        except OSError:  # the agent is gone, which is no failure of the hook
            close_stdout()
    return 0


def _tell(context: Context, fired: Fired | None, otherwise: str = "needless") -> None:
    """The warnings, and with --json the result; `otherwise` is why nothing was to be done."""
    try:
        context.warn(() if fired is None else fired.warnings)
    except (OSError, ValueError):  # standard error is closed
        pass
    if context.output.as_json:
        from ckpt import documents

        nothing = SaveResult(Outcome.SKIPPED, reason=otherwise)
        context.output.document(documents.save(nothing if fired is None else fired.result))


def _not_understood(context: Context, name: str) -> Fired | None:
    """Warn, and note for `status`, that nothing was saved: where there is something to save."""
    from ckpt.errors import CkptError
    from ckpt.triggers.fire import fire_other

    def fail(_: object) -> None:
        raise CkptError("what came on standard input is no JSON object")

    return fire_other(context.start, context.env, name, fail)


def _read_document() -> object:
    """The JSON on standard input, as far as it comes within seconds; None if it is not JSON.

    Some agents leave the pipe open: there the document ends when it is complete, and a moment
    passes without more.
    """
    import select

    deadline, data, size = monotonic() + _INPUT_SECONDS, bytearray(), 0
    try:
        while not os.isatty(0) and (left := deadline - monotonic()) > 0:
            if not select.select([0], [], [], min(left, _A_MOMENT) if data else left)[0]:
                if data and _parsed(data) is not None:
                    break
                continue
            part = os.read(0, 1 << 20)
            if not part:
                break
            size += len(part)
            data += part if size <= _LARGEST_INPUT else b""
    except (OSError, ValueError):  # standard input is closed
        return None
    return _parsed(data)


def _parsed(data: bytearray) -> object:
    try:
        return jsontext.load(bytes(data))
    except ValueError:
        return None
