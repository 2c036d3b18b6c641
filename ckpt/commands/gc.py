# SPDX-License-Identifier: MIT
"""`git ckpt gc`: give space back that checkpoints take, and tidy up."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ckpt import documents
from ckpt.cli import Context
from ckpt.engine.gc import Collected, collect
from ckpt.git.reachability import Unreachable
from ckpt.render import Paint, size


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--now",
        action="store_true",
        help="also run 'git gc --prune=now', which removes every unreachable object",
    )


def run(context: Context, now: bool) -> int:
    def tell(lost: Unreachable) -> None:
        counts = [(len(lost.commits), "unreachable commit"), (len(lost.blobs), "unreachable file")]
        told = " and ".join(_count(count, what) for count, what in counts if count)
        if told:
            context.output.warning(f"git gc --prune=now also removes {told}")

    with context.manager() as manager:
        done = collect(manager.repository, now=now, tell=tell)
        context.output.tell(done, documents.gc, _rows)
    return 0


def _rows(done: Collected, paint: Paint, width: int) -> Iterator[str]:
    if done.emptied:
        yield f"Removed {_count(len(done.emptied), 'checkpoint')} from the trash"
    if done.cleared:
        yield f"Removed {_count(len(done.cleared), 'file')} that killed processes left"
    if done.packed_refs:
        yield f"Packed {_count(done.packed_refs, 'ref')}"
    if not (done.emptied or done.cleared or done.packed_refs):
        yield "Nothing to do."
    if done.loose:
        waiting = f"{_count(done.loose, 'loose object')} ({size(done.loose_bytes)})"
        yield f"{waiting} for git to pack: git gc"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
