# SPDX-License-Identifier: MIT
"""`git ckpt rescue`: find what other tools dropped, and make a checkpoint of it."""

from __future__ import annotations

import argparse
import sys

from ckpt.cli import Context
from ckpt.errors import UsageError

_DEFAULT_ROWS = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "which", nargs="?", metavar="WHICH", help="a number in the list, or an id (default: list)"
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="a name for the checkpoint")
    parser.add_argument(
        "-n",
        type=int,
        default=_DEFAULT_ROWS,
        metavar="N",
        dest="limit",
        help=f"list at most N (default: {_DEFAULT_ROWS}; 0: no limit)",
    )


def run(context: Context, which: str | None, name: str | None, limit: int) -> int:
    if limit < 0:
        raise UsageError(f"-n {limit} is less than nothing", hint="-n 0 shows all")
    with context.manager() as manager:
        from ckpt.engine.rescue import find_lost, with_files
        from ckpt.triggers.precommit import stores

        repo = manager.repository
        repo.check_there()
        if which is not None:
            repo.check_writable()
        found = find_lost(repo, stores(context.env, sys.prefix))
        if which is None:
            shown = [with_files(repo, each) for each in found[: limit or None]]
            context.output.rescued(shown, len(found))
            return 0
        from ckpt.engine.rescue import choose, rescue

        chosen = with_files(repo, choose(found, which))
        made = rescue(repo, manager.settings, chosen, name, manager.progress)
        if made.lacks is not None:
            context.output.warning(f"the history behind it is not kept: {made.lacks}")
        if made.unsafe is not None:
            context.output.warning(f"it counts as foreign, for it is not safe: {made.unsafe}")
        context.output.rescued([chosen], len(found), made)
    return 0
