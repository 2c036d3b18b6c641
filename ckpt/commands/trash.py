# SPDX-License-Identifier: MIT
"""`git ckpt drop`, `trash`, `restore-dropped`, `pin` and `unpin`: drop and keep checkpoints."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from ckpt import documents
from ckpt.cli import Context
from ckpt.models import Checkpoint, Dropped
from ckpt.render import Paint, table


def run(context: Context) -> None:
    dropped = context.manager.trash()
    context.output.tell(dropped, lambda found: documents.document(trash=found), _rows)


def _rows(found: Sequence[Dropped], paint: Paint, width: int) -> Iterator[str]:
    if not found:
        yield "The trash is empty."
        return
    yield from table([item.checkpoint for item in found], paint, width)
    yield ""
    yield "bring back:   git ckpt restore-dropped ID"


def drop_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="what to drop")


def drop(context: Context, ids: list[str]) -> None:
    manager = context.manager
    # Resolve all ids before dropping any: 'latest~1' must not shift.
    chosen = list({found.id: found for found in map(manager.get, ids)}.values())
    for found in chosen:
        manager.delete(found)
        context.output.line(f"Dropped checkpoint {found.id}")
    if context.output.as_json:
        context.output.document(documents.document(dropped=[found.id for found in chosen]))
    which = chosen[0].id if len(chosen) == 1 else "ID"
    context.output.line(f"bring back with: git ckpt restore-dropped {which}")


def restore_dropped_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="as 'git ckpt trash' shows it, or a prefix")


def restore_dropped(context: Context, id: str) -> None:
    _tell(context, context.manager.restore_dropped(id), "Brought back")


def pin_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="which one")


unpin_arguments = pin_arguments


def pin(context: Context, id: str) -> None:
    _tell(context, context.manager.pin(id), "Pinned")


def unpin(context: Context, id: str) -> None:
    _tell(context, context.manager.unpin(id), "Unpinned")


def _tell(context: Context, found: Checkpoint, verb: str) -> None:
    context.output.tell(found, None, lambda *_: [f"{verb} checkpoint {found.id}"])
