# SPDX-License-Identifier: MIT
"""`git ckpt run`: a checkpoint, a command, and the way back.

The command has the terminal and its own exit code; what is said about it comes after it, on
standard error. With --json its standard output goes there too, because ours holds one document.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator

from ckpt import documents
from ckpt.cli import Context
from ckpt.engine import diff, rollback  # noqa: F401  # the command may change our own files
from ckpt.errors import UsageError
from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint, GitState, RollbackResult
from ckpt.render import commits, kept, printable, quoted, stats_text
from ckpt.settings.settings import SESSION, session_of_env
from ckpt.settings.sources import DURATION, Unfit
from ckpt.triggers import run as runs
from ckpt.triggers.run import HeldSignals, Moved, RunResult, die_of

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
        runs.check(words, context.start, context.env)
        with context.quiet_manager() as manager:
            before = _begin(context, manager, name)
            manager.close()  # the command may remove packs that are open
            with HeldSignals() as signals:
                ended = runs.run(
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
    except runs.CannotRun as error:
        context.output.error(error)
        return error.status


def _begin(context: Context, manager: CheckpointManager, name: str | None) -> Checkpoint:
    context.warn(manager.settings.notes)
    before = runs.begin(manager, name, session_of_env(context.env))
    if before.partial:
        context.warn([f"checkpoint {before.id} is partial: see 'git ckpt show {before.id}'"])
    context.output.clear()
    return before


def _tell(context: Context, result: RunResult) -> None:
    try:
        if context.output.as_json:
            context.output.document(documents.run(result))
        else:
            for row in _summary(result):
                context.output.note(row)
            for problem in result.problems:
                context.output.error(problem)
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
            seconds = float(str(DURATION.of_text(text)))
        except Unfit:
            raise ValueError(text) from None
    if not 0 < seconds < math.inf:
        raise ValueError(text)
    return seconds


def _summary(result: RunResult) -> Iterator[str]:
    """What changed, how it ended if it failed, and the command to type next."""
    if not result.ended.is_success:
        yield f"ckpt: {_ending(result)}"
    if result.changed is not None:
        files = result.changed.files
        what = stats_text(result.changed.stats) if files else "no files changed"
        yield f"ckpt: {what} since checkpoint {result.checkpoint.id}"
    if result.head is not None:
        yield f"  {_head(result.head)}"
    if result.after is not None and result.after.id is not None:
        yield f"  saved as {result.after.id}"
    if result.rollback is not None:
        yield from _rolled_back(result.rollback)
    elif result.changed is None or result.changed.files or result.head is not None:
        yield f"  go back with: {result.rollback_command}"


def _ending(result: RunResult) -> str:
    ended, word = result.ended, quoted(result.command[0])
    if ended.timed_out:
        return f"'{word}' timed out"
    if ended.signal is not None:
        return f"'{word}' died of signal {ended.signal}"
    return f"'{word}' failed with exit code {ended.exit_code}"


def _head(moved: Moved) -> str:
    gained = "" if not moved.commits else f", with {commits(moved.commits)} more"
    before, after = _place(moved.before), _place(moved.after)
    return f"HEAD went from {before} to {after}{gained}"


def _place(state: GitState) -> str:
    commit = (state.commit_hash or "unborn")[:12]
    return commit if state.branch is None else f"{printable(state.branch)} ({commit})"


def _rolled_back(done: RollbackResult) -> Iterator[str]:
    if done.changed or done.skipped:
        yield f"ckpt: {'' if done.changed else 'not '}rolled back to checkpoint {done.target.id}"
    for item in done.skipped:
        yield f"  left {quoted(item.path)} alone: {printable(item.reason)}"
    yield from kept(done)
    if done.undo_command is not None:
        yield f"  bring its work back with: {done.undo_command}"
