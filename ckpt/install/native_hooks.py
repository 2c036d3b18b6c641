# SPDX-License-Identifier: MIT
"""Git's own hooks: which way into each there is, and what is to be seen of it.

The way that disturbs least: git's configuration where git runs hooks from there, else the
hook's file. A file that lies outside the git dir is left alone unless `edit_tracked`; the
line to add to it is told. Changing from one way to the other takes the old one out, so
that no hook calls ckpt twice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ckpt.errors import Refused
from ckpt.install import config_hooks, hook_files, hook_text, template
from ckpt.install.hook_places import (
    Place,
    earlier_places,
    files_of,
    find_place,
    is_run_by_pre_commit,
    read_file,
)
from ckpt.install.programs import has_configured_hooks
from ckpt.install.record import missing_folders, remove_folders
from ckpt.install.target import (
    FOREIGN,
    INSTALLED,
    KEPT,
    MISSING,
    NOTE,
    REPLACED,
    TO_DO,
    Finding,
    Step,
    Target,
)

EVENTS = ("pre-commit", "pre-merge-commit", "pre-rebase", "pre-push", "post-checkout")
_PART = "hooks"


def install(target: Target, events: Sequence[str] = EVENTS) -> list[Step]:
    if not events:
        return []
    if has_configured_hooks(target.env):
        # Each goes before those that are there: the last is the first of the file.
        return [step for event in reversed(events) for step in _into_config(target, event)]
    if target.is_global:
        _note(target, events=list(events))
        return template.install(target, events)
    steps = [step for event in events for step in _into_file(target, event)]
    return steps + _how_to_edit(target, steps)


def uninstall(target: Target, events: Sequence[str] = EVENTS) -> list[Step]:
    if not events:
        return []
    config = target.config_file
    steps = [step for event in events for step in config_hooks.take_out(config, event)]
    steps += (
        template.uninstall(target, events) if target.is_global else _out_of_files(target, events)
    )
    _forget(target, events)
    return steps


def files(target: Target) -> list[str]:
    """All that is written to put them in."""
    if target.is_global:
        hooks = os.path.join(template.template_dir(target), "hooks")
        return [os.path.join(hooks, event) for event in EVENTS]
    noted = target.record.get(_PART).get("folders", [])
    places = earlier_places(target.require_repo(), noted)
    return [path for place in places for event in EVENTS for path in files_of(place, event)]


def inspect(target: Target, events: Sequence[str] = EVENTS) -> list[Finding]:
    """How it stands with each hook, in this repository, however it was installed."""
    reads_config = has_configured_hooks(target.env)
    return [_inspected(target, event, reads_config) for event in events]


def _into_config(target: Target, event: str) -> list[Step]:
    _note(target, events=[event])
    step = config_hooks.put_in(target.config_file, event, target.python)
    return [step, *_out_of_files(target, [event])]


def _into_file(target: Target, event: str) -> list[Step]:
    repo = target.require_repo()
    place = find_place(repo)
    path = _where_it_runs(place, event) or place.file(event)
    if place.is_foreign and not target.edit_tracked:
        return [_by_hand(target, place, event)]
    _note(target, events=[event], folders=[place.hooks])
    _make_folder(target, place.scripts)
    step = hook_files.put_in(
        path, event, target.python, is_script=place.is_husky, sharing=repo.sharing
    )
    return [step, *config_hooks.take_out(target.config_file, event)]


def _by_hand(target: Target, place: Place, event: str) -> Step:
    path = place.file(event)
    if hook_text.calls_ckpt(read_file(path), event):
        return Step(KEPT, f"hook {event}", path)
    line = hook_text.line_to_add(event, target.python)
    if os.path.lexists(path) or place.is_husky:
        return Step(TO_DO, f"hook {event}: add this line at the beginning", path, (line,))
    return Step(TO_DO, f"hook {event}: make this script", path, ("#!/bin/sh", line))


def _how_to_edit(target: Target, steps: Sequence[Step]) -> list[Step]:
    place = find_place(target.require_repo())
    if not place.is_foreign or target.edit_tracked or all(s.action != TO_DO for s in steps):
        return []
    what = "hooks are outside the git dir, where ckpt changes files only if asked"
    return [Step(NOTE, what, place.scripts, ("git ckpt install --edit-tracked",))]


def _make_folder(target: Target, folder: str) -> None:
    if not os.path.isdir(folder):
        _note(target, made=missing_folders(folder))
        target.require_repo().sharing.make_folders(folder)


def _out_of_files(target: Target, events: Sequence[str]) -> list[Step]:
    if target.is_global:
        return []
    noted = target.record.get(_PART).get("folders", [])
    steps: list[Step] = []
    for place in earlier_places(target.require_repo(), noted):
        may_edit = not place.is_foreign or target.edit_tracked or place.hooks in noted
        out_of = _out_of_place if may_edit else _left_in_place
        steps += [step for event in events for step in out_of(place, event)]
    return steps


def _out_of_place(place: Place, event: str) -> list[Step]:
    steps = [step for path in files_of(place, event) for step in hook_files.take_out(path, event)]
    return steps + hook_files.give_back(place.file(event), event)


def _left_in_place(place: Place, event: str) -> list[Step]:
    """Somebody else, or an install into another repository, has put it there."""
    path = place.file(event)
    if not hook_text.has_block(read_file(path)):
        return []
    what = f"hook {event} is left in a shared file"
    return [Step(NOTE, what, path, ("git ckpt uninstall --edit-tracked",))]


def _forget(target: Target, events: Sequence[str]) -> None:
    """What was noted of these events need not be known any more."""
    notes = target.record.get(_PART)
    left = [event for event in notes.get("events", []) if event not in events]
    if left:
        target.record.put(_PART, {**notes, "events": left})
        return
    remove_folders(notes.get("made", []))
    target.record.drop(_PART)


def _note(target: Target, **more: list[str]) -> None:
    notes = target.record.get(_PART)
    for name, values in more.items():
        notes[name] = list(dict.fromkeys([*notes.get(name, []), *values]))
    target.record.put(_PART, notes)


def _where_it_runs(place: Place, event: str) -> str | None:
    """The file through which git comes to call ckpt for an event."""
    for path in files_of(place, event):
        is_run = path == place.file(event) or is_run_by_pre_commit(path)
        if is_run and hook_text.calls_ckpt(read_file(path), event):
            return path
    return None


def where_it_runs(target: Target, event: str) -> str | None:
    """The file through which git comes to call ckpt for an event in a repository."""
    try:
        return _where_it_runs(find_place(target.require_repo()), event)
    except Refused:
        return None


def _inspected(target: Target, event: str, reads_config: bool) -> Finding:
    configs = (target.config_file, target.user_config_file)
    named = [config.path for config in configs if config_hooks.is_in(config, event)]
    if named and reads_config:
        return Finding(event, INSTALLED, f"git's configuration, '{named[0]}'")
    try:
        place = find_place(target.require_repo())
    except Refused as error:
        return Finding(event, FOREIGN, error.message, error.hint)
    path = _where_it_runs(place, event)
    if path is not None:
        return Finding(event, INSTALLED, f"'{path}'")
    mend = f"git ckpt install --hooks {event}"
    if place.is_foreign:
        told = f"hooks are in '{place.scripts}', outside the git dir"
        return Finding(event, FOREIGN, told, f"{mend} --edit-tracked")
    if named:
        return Finding(event, REPLACED, "this git takes no hooks from its configuration", mend)
    if event in target.record.get(_PART).get("events", []):
        return Finding(event, REPLACED, f"another tool took it out of '{place.file(event)}'", mend)
    return Finding(event, MISSING, "not installed", mend)
