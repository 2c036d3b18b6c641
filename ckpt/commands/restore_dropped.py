# SPDX-License-Identifier: MIT
"""`git ckpt restore-dropped`: bring a checkpoint back from the trash."""

from __future__ import annotations

import argparse

from ckpt.cli import Context


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="as 'git ckpt trash' shows it, or a prefix")


def run(context: Context, id: str) -> int:
    with context.manager() as manager:
        found = manager.restore_dropped(id)
        context.changed(found, "Brought back")
    return 0
