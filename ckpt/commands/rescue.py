# SPDX-License-Identifier: MIT
"""`git ckpt rescue`: find checkpoints, stashes, commits and files that other tools dropped."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial

from ckpt import documents
from ckpt.cli import Context
from ckpt.commands.gc import run_git
from ckpt.engine.rescue import FSCK, Lost, choose, find_lost, rescue
from ckpt.models import Checkpoint
from ckpt.render import Paint, age, aligned, counted, printable

_ROWS = 20
_HEADS = ("", "AGE", "KIND", "ID", "WHAT", "SUBJECT")
_SHORT = 12


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "which", nargs="?", metavar="WHICH", help="a number in the list, or an id (default: list)"
    )


def run(context: Context, which: str | None = None) -> None:
    repo = context.manager.repository
    found = find_lost(repo, run_git(repo, *FSCK))
    if which is not None:
        found = [choose(found, which)]
    made = None if which is None else rescue(repo, found[0])
    context.output.tell(
        found,
        lambda lost: documents.document(lost=lost, checkpoint=made),
        _rows if made is None else partial(_rescued, made),
    )


def _rows(found: Sequence[Lost], paint: Paint, width: int) -> Iterator[str]:
    """List numbered finds, newest first, then the command to type next."""
    if not found:
        yield "Nothing was found that is lost."
        return
    shown = found[:_ROWS]
    rows = [_HEADS, *(_row(number, each) for number, each in enumerate(shown, 1))]
    yield from aligned(rows, paint, width, len(_HEADS) - 1, {})
    yield ""
    if len(found) > _ROWS:
        yield f"{len(found) - _ROWS} older ones are not shown (all of them with --json)"
    yield "bring one back:   git ckpt rescue NUMBER"


def _rescued(made: Checkpoint, _: Sequence[Lost], paint: Paint, width: int) -> Iterator[str]:
    name = f" '{made.name}'" if made.name else ""
    yield f"Rescued checkpoint {paint('id', made.id)}{name}"
    yield f"look at it:   git ckpt diff {made.id}"
    yield f"go back:      git ckpt rollback {made.id}"


def _row(number: int, each: Lost) -> tuple[str, ...]:
    when = age(each.timestamp) if each.timestamp else "unknown"
    amount = "" if each.files is None else counted(each.files, "file")
    amount = amount if each.bytes is None else f"{each.bytes:,} bytes"
    return str(number), when, each.kind, each.id[:_SHORT], amount, printable(each.subject)
