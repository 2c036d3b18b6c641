# SPDX-License-Identifier: MIT
"""`git ckpt trash`: what was dropped and can be brought back."""

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
