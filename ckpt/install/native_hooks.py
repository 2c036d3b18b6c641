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

from ckpt import disk
from ckpt.install import config_hooks, hook_files, hook_text
from ckpt.install.hook_places import (
    Place,
    earlier_places,
    files_of,
    find_place,
    is_run_by_pre_commit,
    read_file,
)
from ckpt.install.programs import has_configured_hooks
from ckpt.install.target import FOREIGN, INSTALLED, MISSING, REPLACED, TO_DO, Finding, Step, Target

EVENTS = ("pre-commit", "pre-merge-commit", "pre-rebase", "pre-push", "post-checkout")
_PART = "hooks"


def install(target: Target, events: Sequence[str] = EVENTS) -> list[Step]:
    if has_configured_hooks(target.env):
        return [step for event in events for step in _into_config(target, event)]
    return [step for event in events for step in _into_file(target, event)]


def uninstall(target: Target, events: Sequence[str] = EVENTS) -> list[Step]:
    config = target.config_file
    steps = [step for event in events for step in config_hooks.take_out(config, event)]
    return steps + _out_of_files(target, events)


def inspect(target: Target, events: Sequence[str] = EVENTS) -> list[Finding]:
    """How it stands with each hook, in this repository, however it was installed."""
    return [_inspected(target, event) for event in events]


def _into_config(target: Target, event: str) -> list[Step]:
    step = config_hooks.put_in(target.config_file, event, target.python)
    _note(target, events=[event])
    return [step, *_out_of_files(target, [event])]


def _into_file(target: Target, event: str) -> list[Step]:
    repo = target.require_repo()
    place = find_place(repo)
    if _where_it_runs(place, event) and not place.is_husky:
        path = _where_it_runs(place, event) or ""
    else:
        path = place.file(event)
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
        return Step("kept", f"hook {event}", path)
    what = f"hook {event}: this file is shared, add this near its beginning"
    if not os.path.lexists(path):
        what = f"hook {event}: this folder is shared, make this script in it"
    return Step(TO_DO, what, path, (hook_text.line_to_add(event, target.python),))


def _make_folder(target: Target, folder: str) -> None:
    if not os.path.isdir(folder):
        _note(target, made=[folder])
        target.require_repo().sharing.make_folders(folder)


def _out_of_files(target: Target, events: Sequence[str]) -> list[Step]:
    if target.repo is None or target.is_global:
        _forget(target, events)
        return []
    steps: list[Step] = []
    for place in earlier_places(target.repo, target.record.get(_PART).get("folders", [])):
        for event in events:
            for path in files_of(place, event):
                steps += hook_files.take_out(path, event)
            steps += hook_files.give_back(place.file(event), event)
    return steps


def finish(target: Target, events: Sequence[str]) -> None:
    """After an uninstall: what was noted of these events need not be known any more."""
    _forget(target, events)


def _forget(target: Target, events: Sequence[str]) -> None:
    notes = target.record.get(_PART)
    left = [event for event in notes.get("events", []) if event not in events]
    if left:
        target.record.put(_PART, {**notes, "events": left})
        return
    for folder in notes.get("made", []):
        try:
            disk.rmdir(folder)
        except OSError:  # others have put something there
            pass
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


def _inspected(target: Target, event: str) -> Finding:
    repo = target.require_repo()
    for config in (target.config_file, target.user_config_file):
        if config_hooks.is_in(config, event) and has_configured_hooks(target.env):
            return Finding(event, INSTALLED, f"git's configuration, '{config.path}'")
    place = find_place(repo)
    path = _where_it_runs(place, event)
    if path is not None:
        return Finding(event, INSTALLED, f"'{path}'")
    mend = f"git ckpt install --hooks {event}"
    if place.is_foreign:
        told = f"hooks are in '{place.scripts}', outside the git dir"
        return Finding(event, FOREIGN, told, f"{mend} --edit-tracked")
    if event in target.record.get(_PART).get("events", []):
        return Finding(event, REPLACED, f"another tool took it out of '{place.file(event)}'", mend)
    return Finding(event, MISSING, "not installed", mend)
