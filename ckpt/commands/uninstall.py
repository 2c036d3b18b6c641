# SPDX-License-Identifier: MIT
"""`git ckpt uninstall`: take out what `git ckpt install` has put in, to the byte."""

from __future__ import annotations

import argparse

from ckpt.cli import Context
from ckpt.commands.install import add_choices, make_target, tell, unique
from ckpt.install import parts
from ckpt.install.record import TO_DO


def arguments(parser: argparse.ArgumentParser) -> None:
    add_choices(
        parser,
        hooks="only these hooks; all, or none",
        guard="only the guard",
        wrapper="only the wrapper",
        agent="only out of the settings of a coding agent",
        everywhere="what was installed for all repositories",
        edit_tracked="also out of shared files that others have put it into",
    )


def run(
    context: Context,
    hooks: str | None,
    guard: bool,
    wrapper: bool,
    agents: list[str] | None,
    is_global: bool,
    edit_tracked: bool,
) -> int:
    target = make_target(context, is_global=is_global, edit_tracked=edit_tracked)
    steps = parts.uninstall(target, _selection(hooks, guard, wrapper, agents))
    tell(context, steps, "not as before")
    if not steps:
        context.output.line("Nothing of ckpt is installed here.")
    return 4 if any(step.action == TO_DO for step in steps) else 0


def _selection(
    hooks: str | None, guard: bool, wrapper: bool, agents: list[str] | None
) -> parts.Selection:
    if hooks is None and not guard and not wrapper and not agents:
        return parts.EVERYTHING
    return parts.Selection(
        parts.read_hooks(hooks or "none"),
        guard,
        wrapper,
        unique(agents),
    )
