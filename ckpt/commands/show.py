# SPDX-License-Identifier: MIT
"""`git ckpt show`: one checkpoint in full."""

from __future__ import annotations

import argparse

from ckpt.cli import Context


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", nargs="?", default="latest", metavar="ID", help="which one (default: latest)"
    )


def run(context: Context, id: str) -> int:
    with context.manager() as manager:
        context.output.shown(manager.get(id))
    return 0
