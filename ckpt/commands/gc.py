# SPDX-License-Identifier: MIT
"""`git ckpt gc`: give space back that checkpoints take, and tidy up."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ckpt import documents
from ckpt.cli import Context
from ckpt.engine.gc import Collected, collect
from ckpt.render import Paint, size


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--force", action="store_true", help="pack objects and refs, however few they are"
    )


def run(context: Context, force: bool) -> int:
    with context.manager() as manager:
        done = collect(manager.repository, force=force)
        context.output.tell(done, documents.gc, _rows)
    return 0


def _rows(done: Collected, paint: Paint, width: int) -> Iterator[str]:
    packed = done.repacked
    trash = f", {size(done.space.trash)} wait in the trash" if done.space.trash else ""
    if done.emptied:
        yield f"Removed {_count(len(done.emptied), 'checkpoint')} from the trash"
    if done.cleared:
        yield f"Removed {_count(len(done.cleared), 'file')} that killed processes left"
    if packed.objects:
        saved = f"{size(packed.loose_bytes)} to {size(packed.pack_bytes)}"
        yield f"Packed {_count(packed.objects, 'object')}, from {saved}"
    if done.packed_refs:
        yield f"Packed {_count(done.packed_refs, 'ref')}"
    if not (done.emptied or done.cleared or packed.objects or packed.removed or done.packed_refs):
        yield "Nothing to do."
    yield f"all checkpoints together hold {size(done.space.total)}{trash}"
    if done.emptied:
        yield "what nothing holds any more goes with: git gc"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
