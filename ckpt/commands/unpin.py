# SPDX-License-Identifier: MIT
"""`git ckpt unpin`: let rules drop a checkpoint again."""

from __future__ import annotations

import argparse

from ckpt.cli import Context


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="what to protect no longer")


def run(context: Context, id: str) -> int:
    with context.manager() as manager:
        found = manager.unpin(id)
        context.changed(found, "Unpinned")
    return 0
