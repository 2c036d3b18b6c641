# SPDX-License-Identifier: MIT
"""`git ckpt drop`, `trash` and `restore-dropped`: into the trash, what is there, and out again."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from ckpt import documents
from ckpt.cli import Context
from ckpt.models import Dropped
from ckpt.render import Paint, table


def arguments(parser: argparse.ArgumentParser) -> None:
    """Takes none of its own."""


def run(context: Context) -> int:
    with context.manager() as manager:
        context.output.tell(manager.trash(), documents.trash, _rows)
    return 0


def _rows(found: Sequence[Dropped], paint: Paint, width: int) -> Iterator[str]:
    if not found:
        yield "The trash is empty."
        return
    yield from table([item.checkpoint for item in found], paint, width)
    yield ""
    yield "bring back:   git ckpt restore-dropped ID"


def drop_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="what to drop")


def drop(context: Context, ids: list[str]) -> int:
    with context.manager() as manager:
        # All words are resolved before the first is dropped: 'latest~1' must not shift.
        chosen = list({found.id: found for found in map(manager.get, ids)}.values())
        for found in chosen:
            manager.delete(found)
            context.output.line(f"Dropped checkpoint {found.id}")
        if context.output.as_json:
            context.output.document(documents.dropped(chosen))
        which = chosen[0].id if len(chosen) == 1 else "ID"
        context.output.line(f"bring back with: git ckpt restore-dropped {which}")
    return 0


def restore_dropped_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="as 'git ckpt trash' shows it, or a prefix")


def restore_dropped(context: Context, id: str) -> int:
    with context.manager() as manager:
        context.changed(manager.restore_dropped(id), "Brought back")
    return 0
