# SPDX-License-Identifier: MIT
"""`git ckpt gc`: give space back that checkpoints take, and tidy up."""

from __future__ import annotations

import argparse

from ckpt.cli import Context


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--force", action="store_true", help="pack objects and refs, however few they are"
    )


def run(context: Context, force: bool) -> int:
    with context.manager() as manager:
        from ckpt.engine.gc import collect

        context.output.collected(collect(manager.repository, force=force))
    return 0
