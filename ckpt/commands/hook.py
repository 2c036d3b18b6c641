# SPDX-License-Identifier: MIT
"""`git ckpt hook`: what git's hooks, the guard, pre-commit and agents call.

Ends as soon as an event turns out not to matter, before anything else is imported.
Prints nothing when all is well, and never stops what is waiting for it, unless
`on_error` says so.
"""

from __future__ import annotations

from ckpt.settings import disabled_by_env

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ckpt.cli import Context
    from ckpt.triggers.fire import Fired

# The events that people may name, and the module that knows each.
EVENTS = {
    "pre-commit": "git_hooks",
    "pre-merge-commit": "git_hooks",
    "pre-rebase": "git_hooks",
    "pre-push": "git_hooks",
    "post-checkout": "git_hooks",
    "ckpt-save": "precommit",
    "guard": "guard",
    "wrapper": "guard",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("event", metavar="EVENT", choices=list(EVENTS), help=", ".join(EVENTS))
    parser.add_argument("words", metavar="ARG", nargs="*", help="what git passes to its hook")


def run(context: Context, event: str, words: list[str]) -> int:
    if disabled_by_env(context.env, event):
        return _tell_nothing(context, "disabled")
    module = __import__("ckpt.triggers." + EVENTS[event], fromlist=["run"])
    fired: Fired | None = module.run(context.start, context.env, event, words)
    if fired is None:
        return _tell_nothing(context, "needless")
    try:
        context.warn(fired.warnings)
    except (OSError, ValueError):  # nobody is there to read them
        pass
    if context.output.as_json:
        context.output.saved(fired.result)
    return 1 if fired.blocks else 0


def _tell_nothing(context: Context, reason: str) -> int:
    """Nothing was to be done: only a program that asked for JSON is told so."""
    if context.output.as_json:
        from ckpt.models import Outcome, SaveResult

        context.output.saved(SaveResult(Outcome.SKIPPED, reason=reason))
    return 0
