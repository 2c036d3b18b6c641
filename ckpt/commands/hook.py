# SPDX-License-Identifier: MIT
"""`git ckpt hook`: the entry point of git's hooks, the guard, pre-commit and agents.

It returns early from events that need no checkpoint, and on success prints only the answer that
an agent expects. It never stops an agent, and stops another command only if `on_error` says so.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING

from ckpt import codec
from ckpt.cli import Context, close_stdout
from ckpt.errors import Refused
from ckpt.settings.settings import disabled_by_env
from ckpt.settings.sources import AGENTS, GIT_HOOKS

if TYPE_CHECKING:
    import argparse

# The events, and the modules that handle them.
EVENTS = {
    **dict.fromkeys((*GIT_HOOKS, "ckpt-save", "ckpt-prune"), "git_hooks"),
    **dict.fromkeys(("guard", "wrapper"), "guard"),
    **dict.fromkeys(AGENTS, "agents"),
}
# The input from an agent contains the file that it is about to write.
_LARGEST_INPUT = 64 << 20
_INPUT_SECONDS = 2.0  # the time limit of a hook


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("event", metavar="EVENT", choices=list(EVENTS), help=", ".join(EVENTS))
    parser.add_argument("words", metavar="ARG", nargs="*", help="what git passes to its hook")


def run(context: Context, event: str, words: list[str]) -> int:
    from ckpt.triggers.fire import Fired, skipped

    is_agent = EVENTS[event] == "agents"
    given = _read_document() if is_agent else words
    fired: Fired = skipped("disabled")
    if not disabled_by_env(context.env, event):
        module = import_module("ckpt.triggers." + EVENTS[event])
        fired = module.run(context.start, context.env, event, given) or skipped("needless")
    with suppress(OSError, ValueError):  # standard error is closed
        context.warn(fired.warnings)
    if context.output.as_json:
        from ckpt import documents

        context.output.document(documents.of(fired.result))
    elif is_agent:
        _answer(event, given)
    return Refused.exit_code if fired.blocks and not is_agent else 0


def _answer(name: str, document: object) -> None:
    """Print the answer that the agent expects, even with -q or after a failure."""
    from ckpt.triggers import agents

    try:
        sys.stdout.write(agents.AGENTS[name].answer(agents.name_of(document)))
        sys.stdout.flush()
    except OSError:  # the agent is gone, which is not an error
        close_stdout()


def _read_document() -> object:
    """Read a JSON object from standard input; return None if it does not arrive in time."""
    import select

    deadline, data = monotonic() + _INPUT_SECONDS, bytearray()
    try:
        while not os.isatty(0) and select.select([0], [], [], deadline - monotonic())[0]:
            part = os.read(0, 1 << 20)
            data += part
            if data.rstrip().endswith(b"}"):
                with suppress(ValueError):
                    return codec.load(bytes(data))  # some agents leave the pipe open
            if not part or len(data) > _LARGEST_INPUT:
                break
    except (OSError, ValueError):  # standard input is closed, or timed out
        pass
    return None
