# SPDX-License-Identifier: MIT
"""`git ckpt install` and `uninstall`: add triggers to git and coding agents, or remove them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ckpt import documents
from ckpt.cli import Context
from ckpt.errors import Refused, UsageError
from ckpt.git.repository import NotARepository, discover
from ckpt.install import parts
from ckpt.install.record import Step, Target
from ckpt.settings.sources import AGENTS, GIT_HOOKS

_VERBS = {"added": "Added", "changed": "Changed", "removed": "Removed", "note": "Note:"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of both commands."""
    add = parser.add_argument
    add("--hooks", metavar="NAMES", help="which of git's hooks, with commas between; all, or none")
    add("--guard", action="store_true", help="before checkouts and the like")
    add("--wrapper", action="store_true", help="a shell function, where the guard cannot be used")
    known = ", ".join(AGENTS)
    add(
        "--agent",
        action="append",
        dest="agents",
        metavar="NAME",
        choices=AGENTS,
        help=f"the settings of a coding agent, and nothing else unless asked: {known}",
    )
    add("--global", action="store_true", dest="is_global", help="for all of your repositories")
    add("--edit-tracked", action="store_true", help="edit files that others share with you too")


uninstall_arguments = arguments


def run(context: Context, **options: Any) -> int:
    is_for_agents = options.keys() & {"agents", "guard", "wrapper"} == {"agents"}
    names = _named(options, "none" if is_for_agents else "all")
    steps = parts.install(_target(context, options), names)
    code = _tell(context, steps, "not installed")
    is_news = any(step.action in ("added", "changed") for step in steps)
    if not context.output.as_json and is_news:
        place, line = " --global" if "is_global" in options else "", context.output.line
        line()
        if "guard" not in options and "agents" not in options:
            line(f"before checkouts too:   git ckpt install --guard{place}")
        line("see what is saved:      git ckpt list")
        line("leave it out of a log:  git log --exclude='refs/checkpoints*' --all")
        line(f"take it out again:      git ckpt uninstall{place}")
    return code


def uninstall(context: Context, **options: Any) -> int:
    is_part = options.keys() & {"hooks", "guard", "wrapper", "agents"}
    names = _named(options, "none") if is_part else parts.EVERYTHING
    steps = parts.uninstall(_target(context, options), names)
    code = _tell(context, steps, "not as before")
    if not steps:
        context.output.line("Nothing of ckpt is installed here.")
    return code


def _named(options: Mapping[str, Any], default: str) -> list[str]:
    """Return the triggers that the options name; `default` replaces a missing `--hooks`."""
    typed = options.get("hooks") or default
    listed = tuple(name.strip() for name in typed.split(","))
    hooks = {"all": GIT_HOOKS, "none": ()}.get(typed, listed)
    for name in hooks:
        if name not in GIT_HOOKS:
            known = ", ".join(GIT_HOOKS)
            raise UsageError(f"unknown hook '{name}'", hint=f"{known}; or all, or none")
    others = [name for name in ("guard", "wrapper") if name in options]
    return [*hooks, *others, *dict.fromkeys(options.get("agents", ()))]


def _target(context: Context, options: Mapping[str, Any]) -> Target:
    """Return where to install; --global needs no repository here."""
    is_global = "is_global" in options
    try:
        repo = discover(context.start, context.env)
    except NotARepository:
        if not is_global:
            raise
        repo = None
    return Target(repo, context.env, sys.executable, is_global, "edit_tracked" in options)


def _tell(context: Context, steps: Sequence[Step], otherwise: str) -> int:
    """Report the steps, with advice on those not done; return the exit code."""
    output, here = context.output, os.path.join(os.path.realpath(context.start), "")
    to_do = [step for step in steps if step.action == "to-do"]
    if output.as_json:
        output.document(documents.document(steps=documents.as_json(steps)))
    for step in to_do:
        output.warning(f"{otherwise}: {step.what} ({step.place.removeprefix(here)})")
        for line in step.advice:
            output.hint(line)
    for step in steps:
        if step.action in _VERBS:
            output.line(f"{_VERBS[step.action]} {step.what} ({step.place.removeprefix(here)})")
            for line in step.advice:
                output.line(f"  {line}")
    kept = [step.what for step in steps if step.action == "kept"]
    if kept:
        output.line(f"Already there: {', '.join(kept)}")
    return Refused.exit_code if to_do else 0
