# SPDX-License-Identifier: MIT
"""`git ckpt status`: what there is, what the triggers did last, and what is wrong.

Whatever it finds, it has done what was asked: the exit code is 0.
"""

from __future__ import annotations

import argparse
import sys

from ckpt.cli import COMMANDS, Context
from ckpt.engine import status
from ckpt.errors import CkptError
from ckpt.git.repository import Repository
from ckpt.install.target import Finding


def arguments(parser: argparse.ArgumentParser) -> None:
    """Takes none of its own."""


def run(context: Context) -> int:
    with context.quiet_manager() as manager:
        repo = manager.repository
        found = status.look(repo, _installed(context, repo))
        context.output.stands(found, has_doctor="doctor" in COMMANDS)
    return 0


def _installed(context: Context, repo: Repository) -> list[Finding]:
    """What is installed; a part that cannot tell must not keep the others from being told."""
    from ckpt.install import parts
    from ckpt.install.target import Target

    try:
        return parts.inspect(Target(repo, context.env, sys.executable))
    except (CkptError, OSError) as error:
        context.output.warning(f"cannot tell what is installed: {error}")
        return []
