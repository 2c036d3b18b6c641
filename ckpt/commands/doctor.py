# SPDX-License-Identifier: MIT
"""`git ckpt doctor`: try the triggers out, say what is wrong and what mends it."""

from __future__ import annotations

import sys

from ckpt.diagnosis import WRONG, diagnose
from ckpt.engine import status
from ckpt.install import parts, trial
from ckpt.install.target import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ckpt.cli import Context


def arguments(parser: argparse.ArgumentParser) -> None:
    """Takes none of its own."""


def run(context: Context) -> int:
    with context.quiet_manager() as manager:
        repo = manager.repository
        target = Target(repo, context.env, sys.executable)
        findings = parts.inspect(target)
        found = status.look(repo, findings)
        diagnoses = diagnose(found, trial.try_out(target, findings), manager.forgiving_settings)
        context.output.diagnosed(diagnoses)
    return 1 if any(one.state == WRONG for one in diagnoses) else 0
