# SPDX-License-Identifier: MIT
"""`git ckpt verify`: check that every object that checkpoints need is present and valid."""

from __future__ import annotations

import argparse

from ckpt.cli import Context
from ckpt.errors import UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="which ones (default: latest)")
    parser.add_argument(
        "--all", action="store_true", help="every one of every worktree, and the trash"
    )


def run(context: Context, ids: list[str], all: bool) -> int:
    if ids and all:
        raise UsageError("--all and an ID exclude each other", hint="git ckpt verify --all")
    with context.manager() as manager:
        from ckpt.engine.verify import every_target, named_targets, verify

        repo = manager.repository
        repo.check_there()
        targets = every_target(repo) if all else named_targets(repo, ids or ["latest"])
        result = verify(repo, targets, manager.progress)
        context.output.verified(result)
    return 0 if result.is_whole else 1
