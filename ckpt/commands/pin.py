# SPDX-License-Identifier: MIT
"""`git ckpt pin`: protect a checkpoint from being dropped by rule."""

from __future__ import annotations

import argparse

from ckpt.cli import Context


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="what to protect")


def run(context: Context, id: str) -> int:
    with context.manager() as manager:
        found = manager.pin(id)
        context.changed(found, "Pinned")
    return 0
