# SPDX-License-Identifier: MIT
"""`git ckpt rollback`: go back to a checkpoint, or finish or abandon that; and `git ckpt undo`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from shlex import quote

from ckpt import documents, render
from ckpt.cli import Context
from ckpt.errors import Refused, UsageError
from ckpt.models import RollbackResult
from ckpt.output import Output


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "git ckpt rollback [ID] [--dry-run] [--head] [--keep-edits [--session S]]\n"
        "                         [--no-index] [--overwrite-ignored] [--recurse] [--yes]\n"
        "                         [-- PATH...]\n"
        "       git ckpt rollback --continue | --abort"
    )
    parser.add_argument("id", nargs="?", metavar="ID", help="go back to this one (default: latest)")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument(
        "--head",
        action="store_true",
        help="put HEAD, its branch and an operation in progress back too",
    )
    parser.add_argument(
        "--keep-edits",
        action="store_true",
        help="take back only what the agent wrote and nobody has changed since",
    )
    parser.add_argument(
        "--session", metavar="S", help="whose writes they are (default: the checkpoint's session)"
    )
    parser.add_argument("--no-index", action="store_true", help="leave the index as it is")
    parser.add_argument(
        "--overwrite-ignored",
        action="store_true",
        help="replace ignored and other unsaved files in the way, saving them first",
    )
    parser.add_argument(
        "--recurse",
        action="store_true",
        help="put back the repositories inside that were saved with it, and their HEADs",
    )
    parser.add_argument("--yes", action="store_true", help="even if it removes most of the files")
    recovery = parser.add_mutually_exclusive_group()
    recovery.add_argument(
        "--continue", action="store_true", dest="resume", help="finish an interrupted rollback"
    )
    recovery.add_argument(
        "--abort", action="store_true", help="return to the state before the interrupted one"
    )


def run(
    context: Context,
    id: str | None,
    paths: list[str],
    dry_run: bool,
    head: bool,
    keep_edits: bool,
    session: str | None,
    no_index: bool,
    overwrite_ignored: bool,
    recurse: bool,
    yes: bool,
    resume: bool,
    abort: bool,
) -> int:
    others = (id, paths, dry_run, head, keep_edits, session, no_index, overwrite_ignored, recurse)
    if (resume or abort) and any(others):
        raise UsageError(
            "--continue and --abort take no other arguments", hint="git ckpt rollback --continue"
        )
    if head and paths:
        raise UsageError("--head moves the whole HEAD, not paths", hint="leave one of them out")
    place = _current_folder()
    with context.quiet_manager() as manager:
        context.warn(manager.forgiving_settings.notes)
        if resume:
            result = manager.resume_rollback()
        elif abort:
            result = manager.abort_rollback()
        else:
            id = "latest" if id is None else id
            if keep_edits:
                from ckpt.engine.sessions import session_of

                session = session_of(manager.get(id), session)
            result = manager.rollback(
                id,
                paths or None,
                head=head,
                dry_run=dry_run,
                index=not no_index,
                overwrite_ignored=overwrite_ignored,
                recurse=recurse,
                yes=yes,
                keep_edits=keep_edits,
                session=session,
            )
        _tell(context.output, result, place, paths)
    return 0 if result.is_complete else Refused.exit_code


def undo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--yes", action="store_true", help="even if it removes most of the files")


def undo(context: Context, dry_run: bool, yes: bool) -> int:
    place = _current_folder()
    with context.quiet_manager() as manager:
        context.warn(manager.forgiving_settings.notes)
        result = manager.undo(dry_run=dry_run, yes=yes)
        _tell(context.output, result, place)
    return 0 if result.is_complete else Refused.exit_code


def _current_folder() -> str:
    """Where we are, asked before a rollback may remove that; empty if it is gone already."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _tell(output: Output, result: RollbackResult, place: str, paths: Sequence[str] = ()) -> None:
    """The report of a rollback that was limited to `paths`, as they were typed."""
    output.tell(result, documents.rollback, render.report)
    for text in render.warnings(result):
        output.warning(text)
    for text in render.hints(result, paths):
        output.hint(text)
    if result.undo_command is not None:
        output.line(f"undo with: {result.undo_command}")
    there = place
    while there and not os.path.isdir(there):
        there = os.path.dirname(there)
    if there != place:
        output.hint(f"the current folder is gone; leave it first: cd {quote(there)}")
