# SPDX-License-Identifier: MIT
"""`git ckpt rescue`: find what other tools dropped, and make a checkpoint of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from functools import partial

from ckpt import documents
from ckpt.cli import Context
from ckpt.engine.rescue import Lost, Rescued, choose, find_lost, rescue, with_files
from ckpt.errors import UsageError
from ckpt.paths import to_str
from ckpt.render import Paint, age, aligned, counted, printable, quoted
from ckpt.triggers.precommit import stores

_DEFAULT_ROWS = 20
_HEADS = ("", "AGE", "KIND", "ID", "WHAT", "SUBJECT")
_SHORT = 12
# Kinds that hold all tracked files.
_WHOLE = ("stash", "commit", "tree")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "which", nargs="?", metavar="WHICH", help="a number in the list, or an id (default: list)"
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="a name for the checkpoint")
    parser.add_argument(
        "-n",
        type=int,
        default=_DEFAULT_ROWS,
        metavar="N",
        dest="limit",
        help=f"list at most N (default: {_DEFAULT_ROWS}; 0: no limit)",
    )


def run(context: Context, which: str | None, name: str | None, limit: int) -> int:
    if limit < 0:
        raise UsageError("-n must not be negative", hint="-n 0 shows all")
    output = context.output
    with context.manager() as manager:
        repo = manager.repository
        repo.check_there()
        if which is not None:
            repo.check_writable()
        found = find_lost(repo, stores(context.env, sys.prefix))
        total = len(found)
        if which is None:
            shown = [with_files(repo, each) for each in found[: limit or None]]
            output.tell(
                shown,
                lambda shown: documents.rescue(shown, total, None),
                lambda shown, paint, width: _rows(shown, total, paint, width),
            )
            return 0
        chosen = with_files(repo, choose(found, which))
        made = rescue(repo, manager.settings, chosen, name, manager.progress)
        if made.unsafe is not None:
            output.warning(f"it counts as foreign, for it is not safe: {made.unsafe}")
        output.tell(
            made,
            lambda made: documents.rescue([chosen], total, made.checkpoint),
            partial(_rescued, chosen),
        )
    return 0


def _rows(found: Sequence[Lost], total: int, paint: Paint, width: int) -> Iterator[str]:
    """A numbered line each, newest first, and the command to type next."""
    if not found:
        yield "Nothing was found that is lost."
        return
    rows = [_HEADS, *(_row(number, each) for number, each in enumerate(found, 1))]
    yield from aligned(rows, paint, width, len(_HEADS) - 1, {})
    yield ""
    if total > len(found):
        yield f"{total - len(found)} older ones are not shown; -n 0 shows all"
    yield "make a checkpoint of one:   git ckpt rescue NUMBER [NAME]"


def _rescued(found: Lost, made: Rescued, paint: Paint, width: int) -> Iterator[str]:
    checkpoint = made.checkpoint
    name = f" '{checkpoint.name}'" if checkpoint.name else ""
    amount = f" ({_amount(found)})" if _amount(found) else ""
    yield f"Rescued {found.kind} {_shown_id(found)}{amount}: {paint('id', checkpoint.id)}{name}"
    yield f"look at it:   git ckpt diff {checkpoint.id}"
    if found.kind in _WHOLE:
        yield f"some of it:   git ckpt rollback {checkpoint.id} -- PATH"
        yield f"all of it:    git ckpt rollback {checkpoint.id}"
        return
    path = "" if made.path is None else f" -- {to_str(made.path)}"
    yield f"get it back:  git ckpt rollback {checkpoint.id}{path}"


def _row(number: int, each: Lost) -> tuple[str, ...]:
    when = age(datetime.fromtimestamp(each.time, timezone.utc)) if each.time else "unknown"
    return str(number), when, each.kind, _shown_id(each), _amount(each), _subject(each)


def _shown_id(each: Lost) -> str:
    return printable(each.id if each.path is not None else each.id[:_SHORT])


def _subject(each: Lost) -> str:
    return ", ".join(map(quoted, each.paths)) if each.paths else printable(each.subject)


def _amount(each: Lost) -> str:
    if each.size is not None:
        return f"{each.size:,} bytes"
    if each.files is None:
        return ""
    return counted(each.files, "file")
