# SPDX-License-Identifier: MIT
"""All that `install` adds and `uninstall` removes, part by part.

The parts do the work; here is only which of them, and for how long: the alias serves all
of a user's repositories and goes with the last place that ckpt is removed from. The user's record
names those places.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from ckpt.errors import CkptError, UsageError
from ckpt.git.trigger_log import TriggerLog
from ckpt.install import agents, guard, hooks, programs, record, wrapper
from ckpt.install.record import KEPT, NOTE, TO_DO, Step, Target
from ckpt.locks import clear_own_locks, dead_locks, dead_unfinished
from ckpt.models import Finding
from ckpt.paths import data_dir
from ckpt.settings.sources import TRIGGERS

_USED_BY = "used-by"


class Selection(NamedTuple):
    """Which triggers: git's hooks, the guard, the wrapper, and settings of coding agents."""

    hooks: tuple[str, ...] = hooks.EVENTS
    guard: bool = False
    wrapper: bool = False
    agents: tuple[str, ...] = ()


EVERYTHING = Selection(hooks.EVENTS, True, True, agents.AGENTS)


def read_hooks(text: str) -> tuple[str, ...]:
    """Names of hooks as they are typed, separated by commas; or `all`, or `none`."""
    if text in ("all", "none"):
        return hooks.EVENTS if text == "all" else ()
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in hooks.EVENTS:
            known = ", ".join(hooks.EVENTS)
            raise UsageError(f"unknown hook '{name}'", hint=f"{known}; or all, or none")
    return names


def install(target: Target, selection: Selection) -> list[Step]:
    _get_ready(target)
    steps = hooks.install(target, selection.hooks)
    steps += guard.install(target) if selection.guard else []
    steps += wrapper.install(target) if selection.wrapper else []
    for agent in selection.agents:
        steps += agents.install(target, agent)
    user = target.user_record
    if any(step.action != TO_DO for step in steps):
        user.put_users(_USED_BY, [*user.users(_USED_BY), target.place])
    return steps + programs.install(target)


def uninstall(target: Target, selection: Selection) -> list[Step]:
    clear_left_over(target)
    steps = guard.uninstall(target) if selection.guard else []
    steps += wrapper.uninstall(target) if selection.wrapper else []
    for agent in selection.agents:
        steps += agents.uninstall(target, agent)
    steps += hooks.uninstall(target, selection.hooks)
    if selection != EVERYTHING:
        return steps
    user = target.user_record
    left = [place for place in user.users(_USED_BY) if place != target.place]
    steps += [] if left else programs.uninstall(target)
    for config in (target.config_file, *([] if left else [target.user_config_file])):
        config.forget()
    user.put_users(_USED_BY, left)
    record.remove_folders([data_dir(target.env)])
    return steps


def inspect(target: Target) -> list[Finding]:
    return [
        *hooks.inspect(target),
        *guard.inspect(target),
        *wrapper.inspect(target),
        *agents.inspect(target),
        *hooks.inspect_pre_commit(target),
        *programs.inspect(target),
    ]


def _get_ready(target: Target) -> None:
    """Fail before anything is written, if at all; and reserve the file for failures of triggers."""
    if not programs.runs_alone(target.python, target.env):
        raise CkptError(
            f"'{target.python} -I' does not find ckpt, and hooks must start it like that",
            hint="install git-ckpt into a virtual environment, or with pipx",
        )
    for config in (target.config_file, target.user_config_file):
        config.entries()
    if target.repo is not None:
        TriggerLog(target.repo.private_dir, TRIGGERS).prepare()
    clear_left_over(target)


def clear_left_over(target: Target) -> None:
    """Remove what an install that was killed has left."""
    configs = [os.path.realpath(f.path) for f in (target.config_file, target.user_config_file)]
    for folder in (target.record.path, target.user_record.path):
        clear_own_locks(os.path.dirname(folder), configs)
    record.clear_left_over(_files(target))


def left_over(target: Target) -> list[str]:
    """What that would remove."""
    folders = {os.path.dirname(each.path) for each in (target.record, target.user_record)}
    dead = [path for f in folders for path in (*dead_locks(f), *dead_unfinished(f))]
    return [*dead, *record.left_over(_files(target))]


def _files(target: Target) -> list[str]:
    """All files that an install may write."""
    parts = (hooks, agents, guard, wrapper)
    return [path for part in parts for path in part.files(target)]


# -- What an install or uninstall tells people and programs

_VERBS = {"added": "Added", "changed": "Changed", "removed": "Removed", "note": "Note:"}


def done_lines(steps: Sequence[Step], start: str) -> Iterator[str]:
    """What was done, a line each; what was there already together in one."""
    for step in steps:
        if step.action in _VERBS:
            yield f"{_VERBS[step.action]} {step.what} ({_shown(step.place, start)})"
            yield from (f"  {line}" for line in step.advice)
    kept = [step.what for step in steps if step.action == KEPT]
    if kept:
        yield f"Already there: {', '.join(kept)}"


def to_do(steps: Sequence[Step], start: str) -> Iterator[tuple[str, Sequence[str]]]:
    """What is left for the user to do, each with the lines to type or to add."""
    for step in steps:
        if step.action == TO_DO:
            yield f"{step.what} ({_shown(step.place, start)})", step.advice


def is_news(steps: Sequence[Step]) -> bool:
    return any(step.action not in (KEPT, NOTE, TO_DO) for step in steps)


def document(steps: Sequence[Step]) -> dict[str, Any]:
    return {"schema": 1, "steps": [_json(step) for step in steps]}


def _json(step: Step) -> dict[str, Any]:
    place = step.place.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {**asdict(step), "place": place, "advice": list(step.advice)}


def _shown(place: str, start: str) -> str:
    """A path as people type it: from the current directory if it is below that."""
    here = os.path.join(os.path.realpath(start), "")
    return place[len(here) :] if place.startswith(here) else place
