# SPDX-License-Identifier: MIT
"""`git ckpt trash`: what was dropped and can be brought back."""

from __future__ import annotations

import argparse

from ckpt.cli import Context


def arguments(parser: argparse.ArgumentParser) -> None:
    """Takes none of its own."""


def run(context: Context) -> int:
    with context.manager() as manager:
        context.output.trash(manager.trash())
    return 0
