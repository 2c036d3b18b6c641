# SPDX-License-Identifier: MIT
"""The settings of coding agents: ckpt's hooks are added to them, and removed again.

The file is the user's or the team's, so only ckpt's entries are added or removed, in its text. One
that is tracked, or outside the worktree, is left alone unless `edit_tracked`; one that is not
valid JSON always is. What was added, and where, is noted: if the file has not changed since,
removing it restores every byte. Otherwise ckpt's entries are found by the command they run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from shlex import quote, split
from typing import Any

from ckpt import disk
from ckpt.install import edit
from ckpt.install.edit import Node, NotJson
from ckpt.install.record import (
    ADDED,
    CHANGED,
    KEPT,
    NOTE,
    REMOVED,
    TO_DO,
    Record,
    Step,
    Target,
    missing_folders,
    remove_folders,
    write_file,
)
from ckpt.models import INSTALLED, REPLACED, Finding
from ckpt.paths import home_dir

_SECONDS = 10


@dataclass(frozen=True)
class Format:
    """`local` is the file in a worktree, `user` the one in a user's folder, whose place an
    environment variable may change. `events` maps an event to its pattern for tools, if it has
    one. `note` is what the user has to know or do besides."""

    local: str
    user: str
    events: Mapping[str, str | None]
    variable: str = ""
    has_groups: bool = True
    timeout: int = _SECONDS
    has_comments: bool = False
    required: Mapping[str, object] = field(default_factory=dict)
    note: str = ""


# A file of the repository is shared with others; Claude Code has one beside it that is not.
FORMATS = {
    "claude-code": Format(
        local=".claude/settings.local.json",
        user=".claude/settings.json",
        variable="CLAUDE_CONFIG_DIR",
        events={
            "SessionStart": None,
            "UserPromptSubmit": None,
            "PreToolUse": "^(Edit|MultiEdit|Write|NotebookEdit|Bash|PowerShell|mcp__.*)$",
            "PostToolUse": "Edit|MultiEdit|Write|NotebookEdit",
        },
    ),
    "codex": Format(
        local=".codex/hooks.json",
        user=".codex/hooks.json",
        variable="CODEX_HOME",
        events={
            "SessionStart": None,
            "UserPromptSubmit": None,
            "PreToolUse": "^(Bash|apply_patch|mcp__.*)$",
            "PostToolUse": "apply_patch",
        },
        note="codex runs new hooks only when you have reviewed them: type /hooks in it",
    ),
    "gemini": Format(
        local=".gemini/settings.json",
        user=".gemini/settings.json",
        events={
            "SessionStart": None,
            "BeforeAgent": None,
            "BeforeTool": "^(write_file|replace|run_shell_command|mcp_.*)$",
            "AfterTool": "^(write_file|replace)$",
        },
        timeout=1000 * _SECONDS,
        has_comments=True,
    ),
    "cursor": Format(
        local=".cursor/hooks.json",
        user=".cursor/hooks.json",
        events={
            "sessionStart": None,
            "beforeSubmitPrompt": None,
            "preToolUse": "Write|Edit|MultiEdit|StrReplace|EditNotebook|Delete",
            "beforeShellExecution": None,
            "beforeMCPExecution": None,
            "afterFileEdit": None,
            "postToolUse": "Delete",
        },
        has_groups=False,
        has_comments=True,
        required={"version": 1},
    ),
}
AGENTS = tuple(FORMATS)
_HOOKS = "hooks"
_FOR_SHARED = ("--edit-tracked", "--global")


class Unfit(Exception):
    """The file cannot be edited, for this reason."""


def install(target: Target, agent: str) -> list[Step]:
    everywhere = None if target.is_global else user_path(agent, target.env)
    if everywhere is not None and _is_current(everywhere, agent, target.python):
        return [Step(KEPT, f"{agent}, for all of your repositories", everywhere)]
    path = _path(target, agent)
    try:
        text = _read(path)
        if text is not None and found(text, agent) == wanted(agent, target.python):
            return [Step(KEPT, agent, path)]
        if _is_foreign(target, path):
            advice = tuple(f"git ckpt install --agent {agent} {o}" for o in _FOR_SHARED)
            what = f"{agent}: its settings file is shared with others; edit it, or your own"
            return [Step(TO_DO, what, path, advice)]
        is_renewed = text is not None and bool(_take_out(target.record, agent, path))
        _put_in(target.record, agent, path, target.python)
    except Unfit as reason:
        return [_to_correct(agent, path, reason)]
    if is_renewed:
        return [Step(CHANGED, f"{agent}, which calls {target.python} now", path)]
    return [Step(ADDED, f"{agent}: its hooks", path), *_notes(target, agent, path, text is None)]


def uninstall(target: Target, agent: str) -> list[Step]:
    """Out of every file that is noted, and of the one that would be used here now."""
    noted = _noted(target.record, agent)
    steps: list[Step] = []
    for path in dict.fromkeys([*noted, _path(target, agent)]):
        try:
            if not found(_read(path) or "", agent):
                _note(target.record, agent, path, None)
            elif path in noted or not _is_foreign(target, path):
                steps += _take_out(target.record, agent, path)
            else:
                advice = (f"git ckpt uninstall --agent {agent} --edit-tracked",)
                what = f"{agent}: its hooks are left in a shared file"
                steps.append(Step(NOTE, what, path, advice))
        except Unfit as reason:
            steps += [_to_correct(agent, path, reason)] if path in noted else []
    return steps


def files(target: Target) -> list[str]:
    """All files that an install may write, for any agent."""
    noted = [path for agent in FORMATS for path in _noted(target.record, agent)]
    has_place = target.env.get("HOME") or not target.is_global
    return noted + ([_path(target, agent) for agent in FORMATS] if has_place else [])


def inspect(target: Target) -> list[Finding]:
    """The state of the agents that ckpt is, or was, installed for."""
    return [finding for agent in FORMATS for finding in _inspected(target, agent)]


def _inspected(target: Target, agent: str) -> Iterator[Finding]:
    mend = f"git ckpt install --agent {agent}"
    path = _path(target, agent)
    is_noted = path in _noted(target.record, agent)
    for place in (path, user_path(agent, target.env)) if target.env.get("HOME") else (path,):
        try:
            hooks = found(_read(place) or "", agent)
        except Unfit as reason:
            if place == path and is_noted:
                yield Finding(agent, REPLACED, f"'{place}': {reason}", mend)
            continue
        if not hooks:
            continue
        if set(hooks) != set(FORMATS[agent].events):
            yield Finding(agent, REPLACED, f"'{place}' has only some of its hooks", mend)
        elif not os.access(python := _python_of(hooks, agent), os.X_OK):
            yield Finding(agent, REPLACED, f"'{python}', which it starts, is gone", mend)
        else:
            yield Finding(agent, INSTALLED, f"'{place}'")
        return
    if is_noted:
        yield Finding(agent, REPLACED, f"its hooks were taken out of '{path}'", mend)


def _to_correct(agent: str, path: str, reason: Unfit) -> Step:
    return Step(TO_DO, f"{agent}: {reason}", path, ("correct the file, then try again",))


def _notes(target: Target, agent: str, path: str, is_new: bool) -> Iterator[Step]:
    if FORMATS[agent].note:
        yield Step(NOTE, FORMATS[agent].note, path)
    if is_new and not target.is_global:
        exclude = os.path.join(target.require_repo().common_dir, "info", "exclude")
        what = "this file names a program of this machine; to keep it out of commits"
        yield Step(NOTE, what, path, (f"echo /{FORMATS[agent].local} >> {quote(exclude)}",))


# -- The files


def user_path(agent: str, env: Mapping[str, str]) -> str:
    """The settings for all of a user's projects."""
    known = FORMATS[agent]
    moved = env.get(known.variable) if known.variable else None
    if moved:
        return os.path.join(os.path.abspath(moved), os.path.basename(known.user))
    return os.path.join(home_dir(env), known.user)


def _path(target: Target, agent: str) -> str:
    """The file to edit: where a link leads, so that it stays one."""
    if target.is_global:
        return os.path.realpath(user_path(agent, target.env))
    return os.path.realpath(os.path.join(target.require_repo().worktree, FORMATS[agent].local))


def _is_foreign(target: Target, path: str) -> bool:
    """Whether the file is tracked or outside the worktree."""
    if target.is_global or target.edit_tracked:
        return False
    repo = target.require_repo()
    top = os.path.join(repo.worktree, "")
    if not path.startswith(top):
        return True
    from ckpt.git.index import read_staged

    name = os.fsencode(path[len(top) :])
    return any(staged.path == name for staged in read_staged(repo).index.entries)


def _read(path: str) -> str | None:
    """The text of a settings file; None if there is none."""
    try:
        return disk.read(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise Unfit("it cannot be read: not UTF-8") from None
    except OSError as error:
        raise Unfit(f"it cannot be read: {error.strerror}") from None


def _is_current(path: str, agent: str, python: str) -> bool:
    try:
        return found(_read(path) or "", agent) == wanted(agent, python)
    except Unfit:
        return False


def _put_in(record: Record, agent: str, path: str, python: str) -> None:
    before = _read(path)
    text, new = _with_ours(before or "", agent, python)
    made = missing_folders(os.path.dirname(path))
    notes = {"sha256": _digest(text), "new": new, "is_new": before is None, "made": made}
    _note(record, agent, path, notes)
    disk.make_folders(os.path.dirname(path))
    write_file(path, text.encode("utf-8"))


def _take_out(record: Record, agent: str, path: str) -> list[Step]:
    text = _read(path)
    notes = _noted(record, agent).get(path, {})
    steps = []
    if text is not None and found(text, agent):
        is_as_left = notes.get("sha256") == _digest(text)
        rest = edit.cut(text, notes["new"]) if is_as_left else _without_ours(text, agent)
        if notes.get("is_new") and _is_bare(rest, agent):
            disk.unlink(path)
            remove_folders(notes.get("made", []))
        else:
            write_file(path, rest.encode("utf-8"))
        steps = [Step(REMOVED, f"{agent}: its hooks", path)]
    _note(record, agent, path, None)
    return steps


def _noted(record: Record, agent: str) -> dict[str, Any]:
    """What was added, by the files that it was added to."""
    return record.get(f"agent {agent}")


def _note(record: Record, agent: str, path: str, notes: dict[str, Any] | None) -> None:
    others = {name: each for name, each in _noted(record, agent).items() if name != path}
    record.put(f"agent {agent}", others if notes is None else {**others, path: notes})


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8")).hexdigest()


# -- The text


def wanted(agent: str, python: str) -> dict[str, list[Any]]:
    """The items of ours, by events."""
    return {event: [_item(agent, event, python)] for event in FORMATS[agent].events}


def _item(agent: str, event: str, python: str) -> dict[str, Any]:
    known = FORMATS[agent]
    matcher = known.events[event]
    pattern = {} if matcher is None else {"matcher": matcher}
    run = {"command": f"{quote(python)} -I -m ckpt hook {agent}", "timeout": known.timeout}
    if not known.has_groups:
        return {**run, **pattern}
    return {**pattern, "hooks": [{"type": "command", **run}]}


def found(text: str, agent: str) -> dict[str, list[Any]]:
    """What is ours in a text, by events: the items of each list that run ckpt."""
    hooks = _parse(text, agent).get(_HOOKS) if text.strip() else None
    events = {} if hooks is None else edit.load(text, hooks)
    lists = {event: items for event, items in events.items() if isinstance(items, list)}
    ours = {event: [i for i in items if _runs(i, agent)] for event, items in lists.items()}
    return {event: items for event, items in ours.items() if items}


def _runs(item: object, agent: str) -> list[str]:
    """The commands in an item that run ckpt, by whichever Python."""
    inner = item.get(_HOOKS) if isinstance(item, dict) else None
    entries = [item, *(inner if isinstance(inner, list) else ())]
    commands = [entry.get("command") for entry in entries if isinstance(entry, dict)]
    tail = f" -I -m ckpt hook {agent}"
    return [each for each in commands if isinstance(each, str) and each.endswith(tail)]


def _python_of(hooks: dict[str, list[Any]], agent: str) -> str:
    """The interpreter that our items start."""
    runs = [run for items in hooks.values() for item in items for run in _runs(item, agent)]
    try:
        return split(runs[0])[0]
    except (ValueError, IndexError):
        return ""


def _parse(text: str, agent: str) -> Node:
    try:
        root = edit.parse(text, comments=FORMATS[agent].has_comments)
    except NotJson as error:
        raise Unfit(str(error)) from None
    hooks = root.get(_HOOKS) if root.kind == "object" else None
    lists = () if hooks is None else tuple(map(hooks.get, FORMATS[agent].events))
    if (
        root.kind != "object"
        or (hooks is not None and hooks.kind != "object")
        or any(node is not None and node.kind != "array" for node in lists)
    ):
        raise Unfit("it does not have the form of the agent's settings")
    return root


def _with_ours(text: str, agent: str, python: str) -> tuple[str, list[list[int]]]:
    ours, required = wanted(agent, python), FORMATS[agent].required
    if not text.strip():
        return edit.insert(text, [(len(text), edit.written({**required, _HOOKS: ours}))])
    root = _parse(text, agent)
    hooks = root.get(_HOOKS)
    members = [(key, value) for key, value in required.items() if root.get(key) is None]
    insertions = []
    if hooks is None:
        members.append((_HOOKS, ours))
    else:
        lists = {event: node for event in ours if (node := hooks.get(event)) is not None}
        insertions = [edit.added(text, lists[e], [(None, ours[e][0])]) for e in lists]
        missing = [(event, ours[event]) for event in ours if event not in lists]
        insertions += [edit.added(text, hooks, missing)] if missing else []
    insertions += [edit.added(text, root, members)] if members else []
    return edit.insert(text, insertions)


def _is_bare(text: str, agent: str) -> bool:
    """Whether nothing is left in a file that ckpt has made."""
    left = edit.load(text, _parse(text, agent)) if text.strip() else {}
    return {key: value for key, value in left.items() if value != {}} in (
        {},
        dict(FORMATS[agent].required),
    )


def _without_ours(text: str, agent: str) -> str:
    """The text without ckpt's entries, and without lists and objects that are empty then."""
    while (shorter := _without_one(text, agent)) is not None:
        text = shorter
    return text


def _without_one(text: str, agent: str) -> str | None:
    """The text without the first entry that is ours; None if there is none."""
    root = _parse(text, agent)
    at, hooks = root.index(_HOOKS), root.get(_HOOKS)
    for number, event in enumerate(() if hooks is None else hooks.items):
        for place, item in enumerate(event.items):
            if not _runs(edit.load(text, item), agent):
                continue
            inner = item.get(_HOOKS) if item.kind == "object" else None
            if inner is not None and len(inner.items) > 1:  # a group with entries of others
                ours = [bool(_runs(edit.load(text, entry), agent)) for entry in inner.items]
                return edit.without(text, inner, ours.index(True))
            assert hooks is not None and at is not None, "there is an event"
            for node, index in ((event, place), (hooks, number)):
                if len(node.items) > 1:
                    return edit.without(text, node, index)
            return edit.without(text, root, at)
    return None
