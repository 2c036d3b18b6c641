# SPDX-License-Identifier: MIT
"""`git ckpt pin` and `unpin`: protect a checkpoint from being dropped by rule, or no longer."""

from __future__ import annotations

import argparse

from ckpt.cli import Context


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="what to protect")


def run(context: Context, id: str) -> int:
    with context.manager() as manager:
        context.changed(manager.pin(id), "Pinned")
    return 0


def unpin_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="what to protect no longer")


def unpin(context: Context, id: str) -> int:
    with context.manager() as manager:
        context.changed(manager.unpin(id), "Unpinned")
    return 0
