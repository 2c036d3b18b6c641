# SPDX-License-Identifier: MIT
"""`git ckpt rollback` and `undo`: restore a checkpoint, or undo the last rollback."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ckpt import documents, render
from ckpt.cli import Context
from ckpt.errors import Refused, UsageError
from ckpt.models import RollbackResult


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "git ckpt rollback [ID] [--dry-run] [--head] [--keep-edits [--session S]]\n"
        "                         [--no-index] [--overwrite-ignored] [--recurse] [--yes]\n"
        "                         [-- PATH...]\n"
        "       git ckpt rollback --continue | --abort"
    )
    add = parser.add_argument
    add("id", nargs="?", metavar="ID", help="go back to this one (default: latest)")
    add("--head", action="store_true", help="put HEAD, its branch and an operation back too")
    what = "take back only what the agent wrote and nobody has changed since"
    add("--keep-edits", action="store_true", help=what)
    add("--session", metavar="S", help="whose writes they are (default: the checkpoint's session)")
    add("--no-index", action="store_false", dest="index", help="leave the index as it is")
    what = "replace ignored and other unsaved files in the way, saving them first"
    add("--overwrite-ignored", action="store_true", help=what)
    what = "put back the repositories inside that were saved with it, and their HEADs"
    add("--recurse", action="store_true", help=what)
    undo_arguments(parser)
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--continue", action="store_true", help="finish an interrupted rollback", dest="resume"
    )
    group.add_argument(
        "--abort", action="store_true", help="return to the state before the interrupted one"
    )


def undo_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--dry-run", action="store_true", help="only say what would be done")
    add("--yes", action="store_true", help="even if it removes most of the files")


def run(
    context: Context,
    id: str | None = None,
    paths: Sequence[str] = (),
    resume: bool = False,
    abort: bool = False,
    **options: Any,
) -> int:
    """Roll back with the options of `CheckpointManager.rollback`."""
    if (resume or abort) and (id or paths or options):
        raise UsageError(
            "--continue and --abort take no other arguments", hint="git ckpt rollback --continue"
        )
    if "head" in options and paths:
        raise UsageError("--head moves the whole HEAD, not paths", hint="leave one of them out")

    if resume:
        return _tell(context, context.manager.resume_rollback())
    if abort:
        return _tell(context, context.manager.abort_rollback())
    which = "latest" if id is None else id
    return _tell(context, context.manager.rollback(which, paths or None, **options), paths)


def undo(context: Context, dry_run: bool = False, yes: bool = False) -> int:
    return _tell(context, context.manager.undo(dry_run=dry_run, yes=yes))


def _tell(context: Context, result: RollbackResult, paths: Sequence[str] = ()) -> int:
    """Report a rollback; `paths` are its limits as typed."""
    output = context.output
    context.warn(context.manager.forgiving_settings.notes)
    output.tell(result, documents.of, render.report)
    context.warn(render.warnings(result))
    for text in render.hints(result, paths):
        output.hint(text)
    if result.undo_command is not None:
        output.line(f"undo with: {result.undo_command}")
    return 0 if result.is_complete else Refused.exit_code
