# SPDX-License-Identifier: MIT
"""Add ckpt's hooks to the settings of coding agents, and remove them.

A file that is tracked or outside the worktree is not edited without `edit_tracked`, and one that
is not plain JSON never. Uninstall restores the recorded former text if the file has not changed
since; otherwise it removes the entries that run ckpt.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from shlex import quote
from typing import Any

from ckpt import codec, disk
from ckpt.install.record import Step, Target, installed, write_file
from ckpt.models import REPLACED, Finding
from ckpt.paths import home_dir
from ckpt.triggers.agents import AGENTS

_HOOKS = "hooks"
Document = dict[str, Any]


class Unfit(Exception):
    """The reason why a settings file cannot be edited."""


def install(target: Target, agent: str) -> list[Step]:
    path, ours = _path(target, agent), wanted(agent, target.python)
    if not target.is_global:
        everywhere = user_path(agent, target.env)
        with suppress(Unfit):
            if _found_in(everywhere, agent) == ours:
                return [Step("kept", f"{agent}, for all of your repositories", everywhere)]
    try:
        before, present = _read(path), _found_in(path, agent)
        if present == ours:
            return [Step("kept", agent, path)]
        if _is_foreign(target, path):
            command = f"git ckpt install --agent {agent}"
            what = f"{agent}: its settings file is shared with others; edit it, or your own"
            advice = (f"{command} --edit-tracked", f"{command} --global")
            return [Step("to-do", what, path, advice)]
        if present:
            before = _before(target, agent, path)
        text = merged(before or "", agent, target.python)
    except Unfit as reason:
        return [_to_correct(agent, path, reason)]
    target.record.put(_part(agent), path, {"before": before, "after": text})
    write_file(path, text.encode("utf-8"), target.private)
    if present:
        return [Step("changed", f"{agent}, which calls {target.python} now", path)]
    return [
        Step("added", f"{agent}: its hooks", path),
        *_notes(target, agent, path, before is None),
    ]


def uninstall(target: Target, agent: str) -> list[Step]:
    """Remove the hooks from all recorded files, and from the one an install would edit."""
    noted = target.record.get(_part(agent))
    steps: list[Step] = []
    for path in dict.fromkeys([*noted, _path(target, agent)]):
        try:
            if not _found_in(path, agent):
                target.record.put(_part(agent), path, None)
            elif path in noted or not _is_foreign(target, path):
                _take_out(target, agent, path)
                steps.append(Step("removed", f"{agent}: its hooks", path))
            else:
                advice = (f"git ckpt uninstall --agent {agent} --edit-tracked",)
                what = f"{agent}: its hooks are left in a shared file"
                steps.append(Step("note", what, path, advice))
        except Unfit as reason:
            steps += [_to_correct(agent, path, reason)] if path in noted else []
    return steps


def inspect(target: Target) -> list[Finding]:
    """Return findings for the agents ckpt is, or was, installed for."""
    found = [_inspected(target, agent) for agent in AGENTS]
    return [finding for finding in found if finding is not None]


def _inspected(target: Target, agent: str) -> Finding | None:
    mend = f"git ckpt install --agent {agent}"
    path = _path(target, agent)
    told = f"its hooks were taken out of '{path}'"
    for place in (path, user_path(agent, target.env)) if target.env.get("HOME") else (path,):
        try:
            hooks = _found_in(place, agent)
        except Unfit as reason:
            told = f"'{place}': {reason}" if place == path else told
            continue
        if hooks:
            [items, *_], is_own = hooks.values(), hooks == wanted(agent, target.python)
            text = os.fsencode(_commands(items[0], agent)[0])
            return installed(agent, place, text, is_own, mend)
    is_noted = path in target.record.get(_part(agent))
    return Finding(agent, REPLACED, told, mend) if is_noted else None


def _to_correct(agent: str, path: str, reason: Unfit) -> Step:
    return Step("to-do", f"{agent}: {reason}", path, ("correct the file, then try again",))


def _notes(target: Target, agent: str, path: str, is_new: bool) -> Iterator[Step]:
    if AGENTS[agent].note:
        yield Step("note", AGENTS[agent].note, path)
    if is_new and not target.is_global:
        exclude = os.path.join(target.require_repo().common_dir, "info", "exclude")
        what = "this file names a program of this machine; to keep it out of commits"
        yield Step("note", what, path, (f"echo /{AGENTS[agent].local} >> {quote(exclude)}",))


# -- The files


def user_path(agent: str, env: Mapping[str, str]) -> str:
    """Return the path of a user's global settings."""
    known = AGENTS[agent]
    moved = env.get(known.variable) if known.variable else None
    if moved:
        return os.path.join(os.path.abspath(moved), os.path.basename(known.user))
    return os.path.join(home_dir(env), known.user)


def _path(target: Target, agent: str) -> str:
    """Return the file to edit, with symbolic links resolved so that they are kept."""
    if target.is_global:
        return os.path.realpath(user_path(agent, target.env))
    return os.path.realpath(os.path.join(target.require_repo().worktree, AGENTS[agent].local))


def _is_foreign(target: Target, path: str) -> bool:
    """Return whether the file is tracked or outside the worktree, and `edit_tracked` is off."""
    if target.is_global or target.edit_tracked:
        return False
    repo = target.require_repo()
    top = os.path.join(repo.worktree, "")
    if not path.startswith(top):
        return True
    from ckpt.git.index import read_staged

    name = os.fsencode(path[len(top) :])
    return any(staged.path == name for staged in read_staged(repo).entries)


def _read(path: str) -> str | None:
    """Return the text of a settings file; None if it does not exist."""
    try:
        return disk.read(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Unfit(f"cannot be read: {getattr(error, 'strerror', 'not UTF-8')}") from None


def _found_in(path: str, agent: str) -> dict[str, list[Any]]:
    return found(_load(_read(path), agent), agent)


def _take_out(target: Target, agent: str, path: str) -> None:
    before = _before(target, agent, path)
    if before is None:
        os.unlink(path)
        with suppress(OSError):  # not empty
            os.rmdir(os.path.dirname(path))
    else:
        write_file(path, before.encode("utf-8"), target.private)
    target.record.put(_part(agent), path, None)


def _before(target: Target, agent: str, path: str) -> str | None:
    """Return the text without our entries; None if the file was created for them."""
    text, notes = _read(path) or "", target.record.get(_part(agent)).get(path, {})
    if notes.get("after") == text:
        former: str | None = notes["before"]
        return former
    left = without_ours(_load(text, agent), agent)
    is_made_here = notes.get("before", "") is None
    return None if is_made_here and left in ({}, AGENTS[agent].required) else _dump(left, text)


def _part(agent: str) -> str:
    """Return the part of the record with the former text of each edited file."""
    return f"agent {agent}"


# -- The text


def wanted(agent: str, python: str) -> dict[str, list[Any]]:
    """Return the items to add for each event."""
    known = AGENTS[agent]
    run = {"command": f"{quote(python)} -I -m ckpt hook {agent}", "timeout": known.timeout}
    items: dict[str, list[Any]] = {}
    for event, (_, tools) in known.events.items():
        pattern = {} if tools is None else {"matcher": tools}
        grouped = {**pattern, _HOOKS: [{"type": "command", **run}]}
        items[event] = [grouped if known.has_groups else {**run, **pattern}]
    return items


def found(document: Document, agent: str) -> dict[str, list[Any]]:
    """Return the items of each event that run ckpt."""
    lists = {e: items for e, items in document.get(_HOOKS, {}).items() if isinstance(items, list)}
    ours = {event: [i for i in items if _commands(i, agent)] for event, items in lists.items()}
    return {event: items for event, items in ours.items() if items}


def _entries(item: object) -> list[dict[str, Any]]:
    """Return an item, which may be an entry itself, and the entries in its group."""
    inner = item.get(_HOOKS) if isinstance(item, dict) else None
    return [e for e in (item, *(inner if isinstance(inner, list) else ())) if isinstance(e, dict)]


def _commands(item: object, agent: str) -> list[str]:
    """Return the commands in an item that run ckpt, with any Python."""
    commands = [entry.get("command") for entry in _entries(item)]
    tail = f" -I -m ckpt hook {agent}"
    return [each for each in commands if isinstance(each, str) and each.endswith(tail)]


def _load(text: str | None, agent: str) -> Document:
    try:
        document = codec.load((text or "{}").encode())
    except ValueError as error:
        line = getattr(error, "lineno", None)
        raise Unfit("not valid JSON" + (f", line {line}" if line else "")) from None
    hooks = document.get(_HOOKS, {}) if isinstance(document, dict) else None
    lists = [hooks.get(e, []) for e in AGENTS[agent].events] if isinstance(hooks, dict) else [None]
    if not all(isinstance(each, list) for each in lists):
        raise Unfit("it does not have the form of the agent's settings")
    return dict(document)


def _dump(document: Document, like: str) -> str:
    """Return a document as JSON, indented like another text."""
    unit = re.search(r"\n([ \t]+)\S", like)
    end = "\n" if like.endswith("\n") or not like else ""
    text = json.dumps(document, indent=unit[1] if unit else 2, ensure_ascii=False) + end
    return text.encode("utf-8", "backslashreplace").decode()  # JSON escapes of lone surrogates


def merged(text: str, agent: str, python: str) -> str:
    ours, document = wanted(agent, python), _load(text, agent)
    required = {k: v for k, v in AGENTS[agent].required.items() if k not in document}
    hooks = document.get(_HOOKS, {})
    together = {**hooks, **{event: [*hooks.get(event, []), *ours[event]] for event in ours}}
    if _HOOKS in document or not text:
        return _dump({**required, **document, _HOOKS: together}, text)
    new = _dump({**required, _HOOKS: ours}, text).strip()[1:-1]
    at = text.index("{") + 1
    return text[:at] + (new.rstrip() + "," if document else new) + text[at:]


def without_ours(document: Document, agent: str) -> Document:
    """Return the settings without ckpt's entries, and without lists and objects left empty."""
    hooks = {}
    for event, items in document.get(_HOOKS, {}).items():
        is_list = isinstance(items, list)
        left = [rest for i in items for rest in _rest_of(i, agent)] if is_list else items
        if left or not items:
            hooks[event] = left
    rest = {**document, _HOOKS: hooks}
    return rest if hooks else {key: value for key, value in rest.items() if key != _HOOKS}


def _rest_of(item: Any, agent: str) -> list[Any]:
    """Return an item without ckpt's entries; a group may have others."""
    if not _commands(item, agent):
        return [item]
    left = [each for each in _entries(item)[1:] if not _commands(each, agent)]
    return [{**item, _HOOKS: left}] if left else []
