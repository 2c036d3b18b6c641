# SPDX-License-Identifier: MIT
"""`git ckpt run`: a checkpoint, a command, and the way back.

The command has the terminal and its own exit code; what is said about it comes after it, on
standard error. With --json its standard output goes there too, because ours holds one document.
"""

from __future__ import annotations

import argparse
import math
import sys

from ckpt.cli import Context
from ckpt.errors import UsageError
from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint
from ckpt.settings.settings import SESSION, session_of_env
from ckpt.settings.sources import Unfit, duration
from ckpt.triggers import run as child
from ckpt.triggers import run as runs
from ckpt.triggers.run import HeldSignals, RunResult, die_of

TAKES_COMMAND = True
_EXAMPLE = "for example: git ckpt run --on-failure rollback -- make test"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "git ckpt run [--name N] [--on-failure rollback|keep] [--timeout S]\n"
        "                    [--save-after] -- COMMAND [ARGUMENTS]"
    )
    parser.add_argument("--name", metavar="N", help="name of the checkpoint before")
    parser.add_argument(
        "--on-failure",
        default="keep",
        choices=["rollback", "keep"],
        help="what becomes of its work if it fails (default: keep)",
    )
    parser.add_argument(
        "--timeout", type=seconds, metavar="S", help="end it after S seconds, or 90m, or 2h"
    )
    parser.add_argument(
        "--save-after", action="store_true", help="take a checkpoint after it too, if it succeeds"
    )


def run(
    context: Context,
    name: str | None,
    on_failure: str,
    timeout: float | None,
    save_after: bool,
    words: list[str],
) -> int:
    if not words:
        raise UsageError("no command after '--'", hint=_EXAMPLE)
    try:
        return _run(context, name, on_failure, timeout, save_after, words)
    except child.CannotRun as error:
        context.output.error(error)
        return error.status


def _run(
    context: Context,
    name: str | None,
    on_failure: str,
    timeout: float | None,
    save_after: bool,
    words: list[str],
) -> int:
    child.check(words, context.start, context.env)
    with context.quiet_manager() as manager:
        before = _begin(context, manager, name)
        manager.close()  # of what is there now, much may be gone afterwards
        with HeldSignals() as signals:
            ended = child.run(
                words,
                signals,
                start=context.start,
                env={**context.env, SESSION: before.session or ""},
                stdout=sys.stderr.fileno() if context.output.as_json else None,
                timeout=timeout,
            )
            result = runs.RunResult(tuple(words), before, ended)
            if context.output.as_json or not context.output.quiet:
                result = runs.look(manager, result)
            if save_after and ended.is_success:
                result = runs.save_after(manager, result)
            elif on_failure == "rollback" and not ended.is_success:
                result = runs.roll_back(manager, result)
            _tell(context, result)
            if ended.signal is not None and not ended.timed_out:
                die_of(ended.signal)
    return ended.exit_code


def _begin(context: Context, manager: CheckpointManager, name: str | None) -> Checkpoint:
    context.warn(manager.settings.notes)
    before = runs.begin(manager, name, session_of_env(context.env))
    if before.partial:
        context.warn([f"checkpoint {before.id} is partial: see 'git ckpt show {before.id}'"])
    _get_ready(context)
    return before


def _get_ready(context: Context) -> None:
    """Import what is needed afterwards: the command may change files that are our own."""
    from ckpt import render  # noqa: F401
    from ckpt.engine import diff, rollback  # noqa: F401  # imported now, used when the command has ended

    context.output.get_ready()
    context.output.clear()


def _tell(context: Context, result: RunResult) -> None:
    try:
        context.output.ran(result)
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # the terminal is gone, and the exit code says enough
        pass


def seconds(text: str) -> float:
    """A number of seconds, or one with a unit."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = duration(text)
        except Unfit:
            raise ValueError(text) from None
    if not 0 < seconds < math.inf:
        raise ValueError(text)
    return seconds
