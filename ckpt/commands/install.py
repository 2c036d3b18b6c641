# SPDX-License-Identifier: MIT
"""`git ckpt install`: let git, and coding agents, take checkpoints by themselves."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ckpt.cli import Context
from ckpt.install import parts
from ckpt.install.agents import AGENTS
from ckpt.install.record import TO_DO, Step, Target


def arguments(parser: argparse.ArgumentParser) -> None:
    add_choices(
        parser,
        hooks="which of git's hooks, with commas between; all, or none",
        guard="also before checkouts and the like",
        wrapper="a shell function, where the guard cannot be used",
        agent="into the settings of a coding agent, and nowhere else unless asked",
        everywhere="for all of your repositories",
        edit_tracked="edit files that others share with you too",
    )


def add_choices(
    parser: argparse.ArgumentParser,
    *,
    hooks: str,
    guard: str,
    wrapper: str,
    agent: str,
    everywhere: str,
    edit_tracked: str,
) -> None:
    """What can be installed can be taken out: both commands have the same options, each with
    the given help."""
    parser.add_argument("--hooks", metavar="NAMES", help=hooks)
    parser.add_argument("--guard", action="store_true", help=guard)
    parser.add_argument("--wrapper", action="store_true", help=wrapper)
    parser.add_argument(
        "--agent",
        action="append",
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
    agents: list[str] | None,
    is_global: bool,
    edit_tracked: bool,
) -> int:
    default = "none" if agents and not guard and not wrapper else "all"
    selection = parts.Selection(parts.read_hooks(hooks or default), guard, wrapper, unique(agents))
    target = make_target(context, is_global=is_global, edit_tracked=edit_tracked)
    steps = parts.install(target, selection)
    tell(context, steps, "not installed")
    if not context.output.as_json and parts.is_news(steps):
        _tell_next(context, guard or bool(agents), " --global" if is_global else "")
    return 4 if any(step.action == TO_DO for step in steps) else 0


def unique(names: list[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names or ()))


def make_target(context: Context, *, is_global: bool, edit_tracked: bool = False) -> Target:
    """Where to install; for all repositories none need be here."""
    from ckpt.git.repository import NotARepository, discover

    try:
        repo = discover(context.start, context.env)
    except NotARepository:
        if not is_global:
            raise
        repo = None
    return Target(repo, context.env, sys.executable, is_global, edit_tracked)


def tell(context: Context, steps: Sequence[Step], otherwise: str) -> None:
    """What was done; of what was not, that it is `otherwise`, and what to do about it."""
    output = context.output
    if output.as_json:
        return output.document(parts.document(steps))
    for missing, advice in parts.to_do(steps, context.start):
        output.warning(f"{otherwise}: {missing}")
        for line in advice:
            output.hint(line)
    for line in parts.done_lines(steps, context.start):
        output.line(line)
    return None


def _tell_next(context: Context, has_guard: bool, place: str) -> None:
    line = context.output.line
    line()
    if not has_guard:
        line(f"before checkouts too:   git ckpt install --guard{place}")
    line("see what is saved:      git ckpt list")
    line(f"take it out again:      git ckpt uninstall{place}")
