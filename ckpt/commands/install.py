# SPDX-License-Identifier: MIT
"""`git ckpt install`: let git, and coding agents, take checkpoints by themselves; `uninstall`
takes that out again, to the byte."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ckpt.cli import Context
from ckpt.errors import Refused
from ckpt.git.repository import NotARepository, discover
from ckpt.install import parts
from ckpt.install.agents import AGENTS
from ckpt.install.record import TO_DO, Step, Target


def arguments(parser: argparse.ArgumentParser) -> None:
    _choices(
        parser,
        "which of git's hooks, with commas between; all, or none",
        "also before checkouts and the like",
        "a shell function, where the guard cannot be used",
        "into the settings of a coding agent, and nowhere else unless asked",
        "for all of your repositories",
        "edit files that others share with you too",
    )


def uninstall_arguments(parser: argparse.ArgumentParser) -> None:
    _choices(
        parser,
        "only these hooks; all, or none",
        "only the guard",
        "only the wrapper",
        "only out of the settings of a coding agent",
        "what was installed for all repositories",
        "also out of shared files that others have put it into",
    )


def _choices(parser: argparse.ArgumentParser, *helps: str) -> None:
    """What can be installed can be taken out: both commands have the same options."""
    hooks, guard, wrapper, agent, everywhere, edit_tracked = helps
    parser.add_argument("--hooks", metavar="NAMES", help=hooks)
    parser.add_argument("--guard", action="store_true", help=guard)
    parser.add_argument("--wrapper", action="store_true", help=wrapper)
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        dest="agents",
        metavar="NAME",
        choices=AGENTS,
        help=f"{agent}: {', '.join(AGENTS)}",
    )
    parser.add_argument("--global", action="store_true", dest="is_global", help=everywhere)
    parser.add_argument("--edit-tracked", action="store_true", help=edit_tracked)


def run(
    context: Context,
    hooks: str | None,
    guard: bool,
    wrapper: bool,
    agents: list[str],
    is_global: bool,
    edit_tracked: bool,
) -> int:
    default = "none" if agents and not guard and not wrapper else "all"
    selection = _selection(hooks or default, guard, wrapper, agents)
    steps = parts.install(_target(context, is_global, edit_tracked), selection)
    code = _tell(context, steps, "not installed")
    if not context.output.as_json and parts.is_news(steps):
        _tell_next(context, guard or bool(agents), " --global" if is_global else "")
    return code


def uninstall(
    context: Context,
    hooks: str | None,
    guard: bool,
    wrapper: bool,
    agents: list[str],
    is_global: bool,
    edit_tracked: bool,
) -> int:
    selection = parts.EVERYTHING
    if hooks is not None or guard or wrapper or agents:
        selection = _selection(hooks or "none", guard, wrapper, agents)
    steps = parts.uninstall(_target(context, is_global, edit_tracked), selection)
    code = _tell(context, steps, "not as before")
    if not steps:
        context.output.line("Nothing of ckpt is installed here.")
    return code


def _selection(hooks: str, guard: bool, wrapper: bool, agents: list[str]) -> parts.Selection:
    return parts.Selection(parts.read_hooks(hooks), guard, wrapper, tuple(dict.fromkeys(agents)))


def _target(context: Context, is_global: bool, edit_tracked: bool) -> Target:
    """Where to install; for all repositories none need be here."""
    try:
        repo = discover(context.start, context.env)
    except NotARepository:
        if not is_global:
            raise
        repo = None
    return Target(repo, context.env, sys.executable, is_global, edit_tracked)


def _tell(context: Context, steps: Sequence[Step], otherwise: str) -> int:
    """What was done; of what was not, that it is `otherwise`, and what to do about it. Returns
    the exit code."""
    output = context.output
    if output.as_json:
        output.document(parts.document(steps))
    else:
        for missing, advice in parts.to_do(steps, context.start):
            output.warning(f"{otherwise}: {missing}")
            for line in advice:
                output.hint(line)
        for line in parts.done_lines(steps, context.start):
            output.line(line)
    return Refused.exit_code if any(step.action == TO_DO for step in steps) else 0


def _tell_next(context: Context, has_guard: bool, place: str) -> None:
    line = context.output.line
    line()
    if not has_guard:
        line(f"before checkouts too:   git ckpt install --guard{place}")
    line("see what is saved:      git ckpt list")
    line(f"take it out again:      git ckpt uninstall{place}")
