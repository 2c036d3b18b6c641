# SPDX-License-Identifier: MIT
"""`git ckpt drop`: move checkpoints to the trash."""

from __future__ import annotations

import argparse

from ckpt import documents
from ckpt.cli import Context


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="what to drop")


def run(context: Context, ids: list[str]) -> int:
    with context.manager() as manager:
        # All words are resolved before the first is dropped: 'latest~1' must not shift.
        chosen = list({found.id: found for found in map(manager.get, ids)}.values())
        for found in chosen:
            manager.delete(found)
            context.output.line(f"Dropped checkpoint {found.id}")
        if context.output.as_json:
            context.output.document(documents.dropped(chosen))
        else:
            which = chosen[0].id if len(chosen) == 1 else "ID"
            context.output.line(f"bring back with: git ckpt restore-dropped {which}")
    return 0
