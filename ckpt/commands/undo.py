# SPDX-License-Identifier: MIT
"""`git ckpt undo`: take back the last rollback."""

from __future__ import annotations

import argparse

from ckpt.cli import Context
from ckpt.errors import Refused


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--yes", action="store_true", help="even if it removes most of the files")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="also to a checkpoint that was not made here, with commands that git would run",
    )


def run(context: Context, dry_run: bool, yes: bool, trust: bool) -> int:
    context.output.get_ready()
    with context.quiet_manager() as manager:
        context.warn(manager.forgiving_settings.notes)
        result = manager.undo(dry_run=dry_run, yes=yes, trust=trust)
        context.output.rolled_back(result)
    return 0 if result.is_complete else Refused.exit_code
