# SPDX-License-Identifier: MIT
"""All that `install` puts in and `uninstall` takes out, part by part.

The parts do the work; here is only which of them, and for how long: the alias and the man
page serve all of a user's repositories, so they go with the last place that ckpt is taken out
of. The record names those places.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ckpt.errors import CkptError, UsageError
from ckpt.git.trigger_log import TriggerLog
from ckpt.install import agents as agent_settings
from ckpt.install import hooks as native_hooks
from ckpt.install import hooks as pre_commit_config
from ckpt.install import programs
from ckpt.install import record as unfinished
from ckpt.install.agents import AGENTS
from ckpt.install.programs import runs_alone
from ckpt.install.record import data_dir, remove_folders
from ckpt.install.target import KEPT, NOTE, TO_DO, Finding, Step, Target
from ckpt.locks import clear_own_locks, dead_locks, dead_unfinished
from ckpt.settings.sources import TRIGGERS

if TYPE_CHECKING:

    class Part(Protocol):
        def install(self, target: Target) -> list[Step]: ...

        def uninstall(self, target: Target) -> list[Step]: ...

        def inspect(self, target: Target) -> list[Finding]: ...

        def files(self, target: Target) -> list[str]: ...


_USED_BY = "used-by"
_GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which triggers; `modules` are parts that are a module of this package each, `agents` the
    coding agents whose settings are to start them."""

    hooks: tuple[str, ...] = native_hooks.EVENTS
    modules: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


EVERYTHING = Selection(native_hooks.EVENTS, ("guard", "wrapper"), AGENTS)


def read_hooks(text: str) -> tuple[str, ...]:
    """Names of hooks as they are typed, with commas between; `all` and `none` are known too."""
    if text in ("all", "none"):
        return native_hooks.EVENTS if text == "all" else ()
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in native_hooks.EVENTS:
            known = ", ".join(native_hooks.EVENTS)
            raise UsageError(f"unknown hook '{name}'", hint=f"{known}; or all, or none")
    return names


def install(target: Target, selection: Selection) -> list[Step]:
    _check_python(target)
    _get_ready(target)
    clear_left_over(target)
    steps = native_hooks.install(target, selection.hooks)
    for name in selection.modules:
        steps += _module(name).install(target)
    for agent in selection.agents:
        steps += agent_settings.install(target, agent)
    if any(step.action != "to-do" for step in steps):
        _add_user(target)
    return steps + programs.install(target) + programs.install_man_link(target)


def uninstall(target: Target, selection: Selection) -> list[Step]:
    clear_left_over(target)
    steps: list[Step] = []
    for name in selection.modules:
        steps += _module(name).uninstall(target)
    for agent in selection.agents:
        steps += agent_settings.uninstall(target, agent)
    steps += native_hooks.uninstall(target, selection.hooks)
    return steps if selection != EVERYTHING else steps + _out_of_the_place(target)


def _out_of_the_place(target: Target) -> list[Step]:
    """Nothing of ckpt is left here; what serves all places goes with the last of them."""
    left = [place for place in _users(target) if place != _place(target)]
    steps = [] if left else programs.uninstall(target) + programs.uninstall_man_link(target)
    for config in (target.config_file, *([] if left else [target.user_config_file])):
        config.forget()
    _put_users(target, left)
    remove_folders([data_dir(target.env)])
    return steps


def inspect(target: Target) -> list[Finding]:
    found = native_hooks.inspect(target)
    for name in EVERYTHING.modules:
        found += _module(name).inspect(target)
    found += agent_settings.inspect(target)
    return found + pre_commit_config.inspect_pre_commit_config(target) + programs.inspect(target)


def _module(name: str) -> Part:
    module: Part = __import__(f"ckpt.install.{name}", fromlist=["install"])
    return module


def _check_python(target: Target) -> None:
    if not runs_alone(target.python, target.env):
        raise CkptError(
            f"'{target.python} -I' does not find ckpt, and hooks must start it like that",
            hint="install git-ckpt into a virtual environment, or with pipx",
        )


def _get_ready(target: Target) -> None:
    """What can fail does so before anything is put in; and room for failures to be noted in is
    taken while there is some."""
    for config in (target.config_file, target.user_config_file):
        config.entries()
    if target.repo is not None:
        TriggerLog(target.repo.private_dir, TRIGGERS).prepare()


def clear_left_over(target: Target) -> None:
    """Take away what one that was killed has left: the folders are to be empty again at the end."""
    configs = [
        os.path.realpath(file.path) for file in (target.config_file, target.user_config_file)
    ]
    for record in (target.record, target.user_record):
        clear_own_locks(os.path.dirname(record.path), configs)
    unfinished.clear(_files(target))


def left_over(target: Target) -> list[str]:
    """What that would take away, but for the repository's own private files."""
    folder = os.path.dirname(target.user_record.path)
    return [*dead_locks(folder), *dead_unfinished(folder), *unfinished.left(_files(target))]


def _files(target: Target) -> list[str]:
    """All files that are written beside themselves first."""
    found = [*native_hooks.files(target), *agent_settings.files(target)]
    return found + [path for name in EVERYTHING.modules for path in _module(name).files(target)]


def _place(target: Target) -> str:
    return _GLOBAL if target.is_global else target.require_repo().common_dir


def _add_user(target: Target) -> None:
    _put_users(target, [*_users(target), _place(target)])


def _users(target: Target) -> list[str]:
    places: Sequence[str] = target.user_record.get(_USED_BY).get("places", ())
    return [place for place in places if place == _GLOBAL or os.path.isdir(place)]


def _put_users(target: Target, places: Sequence[str]) -> None:
    unique = list(dict.fromkeys(places))
    target.user_record.put(_USED_BY, {"places": unique} if unique else {})


# -- What an install or uninstall tells people and programs: steps to lines, steps to JSON

_VERBS = {"added": "Added", "changed": "Changed", "removed": "Removed", "note": "Note:"}


def done_lines(steps: Sequence[Step], start: str) -> Iterator[str]:
    """What was done, a line each; what was there already comes together in one."""
    for step in steps:
        if step.action in _VERBS:
            yield f"{_VERBS[step.action]} {step.what} ({shown(step.place, start)})"
            yield from (f"  {line}" for line in step.advice)
    kept = [step.what for step in steps if step.action == KEPT]
    if kept:
        yield f"Already there: {', '.join(kept)}"


def to_do(steps: Sequence[Step], start: str) -> Iterator[tuple[str, Sequence[str]]]:
    """What is missing for the user to do, each with the lines to type or to add."""
    for step in steps:
        if step.action == TO_DO:
            yield f"{step.what} ({shown(step.place, start)})", step.advice


def document(steps: Sequence[Step]) -> dict[str, Any]:
    return {"schema": 1, "steps": [_step(step) for step in steps]}


def shown(place: str, start: str) -> str:
    """A path as people type it here: from the current folder if it is below that."""
    here = os.path.join(os.path.realpath(start), "")
    return place[len(here) :] if place.startswith(here) else place


def is_news(steps: Sequence[Step]) -> bool:
    return any(step.action not in (KEPT, NOTE, TO_DO) for step in steps)


def _step(step: Step) -> dict[str, Any]:
    place = step.place.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {
        "action": step.action,
        "what": step.what,
        "place": place,
        "advice": list(step.advice),
    }
