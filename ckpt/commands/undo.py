# SPDX-License-Identifier: MIT
"""`git ckpt undo`: take back the last rollback."""

from __future__ import annotations

import argparse

from ckpt.cli import Context
from ckpt.commands.rollback import current_folder, tell
from ckpt.errors import Refused


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--yes", action="store_true", help="even if it removes most of the files")


def run(context: Context, dry_run: bool, yes: bool) -> int:
    place = current_folder()
    with context.quiet_manager() as manager:
        context.warn(manager.forgiving_settings.notes)
        result = manager.undo(dry_run=dry_run, yes=yes)
        tell(context.output, result, place)
    return 0 if result.is_complete else Refused.exit_code
