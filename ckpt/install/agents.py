# SPDX-License-Identifier: MIT
"""Puts ckpt's hooks into the settings of a coding agent, and takes them out again.

The file is the user's or the team's, so that only what is ckpt's is added or removed, in its
text. One that is tracked, or lies outside the worktree, is left alone unless `edit_tracked`;
one that is no valid JSON always is. What was put in, and where, is noted: if nobody has changed
the file since, taking it out gives back every byte, and a file that was made goes. Otherwise
ckpt's entries are known by the command that they run.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from shlex import quote, split
from typing import Any

from ckpt import disk
from ckpt.errors import CkptError
from ckpt.install import edit
from ckpt.install.edit import Draft, Node, NotJson
from ckpt.install.record import NEW, Record, missing_folders, remove_folders
from ckpt.install.target import (
    ADDED,
    CHANGED,
    INSTALLED,
    KEPT,
    NOTE,
    REMOVED,
    REPLACED,
    TO_DO,
    Finding,
    Step,
    Target,
)

_SECONDS = 10


@dataclass(frozen=True, slots=True)
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


def command(python: str, agent: str) -> str:
    """What the agent's shell runs."""
    return f"{quote(python)}{_tail(agent)}"


def is_ours(entry: object, agent: str) -> bool:
    """Whether an entry runs ckpt, by whichever Python."""
    text = entry.get("command") if isinstance(entry, dict) else None
    return isinstance(text, str) and text.endswith(_tail(agent))


def _tail(agent: str) -> str:
    return f" -I -m ckpt hook {agent}"


def entry(agent: str, event: str, python: str) -> dict[str, Any]:
    """An item of an event's list."""
    known = FORMATS[agent]
    matcher = known.events[event]
    pattern = {} if matcher is None else {"matcher": matcher}
    run = {"command": command(python, agent), "timeout": known.timeout}
    if not known.has_groups:
        return {**run, **pattern}
    return {**pattern, "hooks": [{"type": "command", **run}]}


def user_path(agent: str, env: Mapping[str, str]) -> str:
    """The settings that hold for all of a user's projects."""
    known = FORMATS[agent]
    moved = env.get(known.variable) if known.variable else None
    if moved:
        return os.path.join(os.path.abspath(moved), os.path.basename(known.user))
    if not env.get("HOME"):
        raise CkptError("$HOME is not set", hint="set HOME to your home folder, then try again")
    return os.path.join(env["HOME"], known.user)


# -- The text of an agent's settings: what is ckpt's in it, with it and without it

_HOOKS = "hooks"


class Unfit(Exception):
    """The file cannot be edited, for this reason."""


def wanted(agent: str, python: str) -> dict[str, list[Any]]:
    return {event: [entry(agent, event, python)] for event in FORMATS[agent].events}


def found(text: str, agent: str) -> dict[str, list[Any]]:
    """What is ours in a text, by events: the items of each list that run ckpt."""
    hooks = _parse(text, agent).get(_HOOKS) if text.strip() else None
    events = {} if hooks is None else edit.load(text, hooks)
    lists = {event: items for event, items in events.items() if isinstance(items, list)}
    ours = {event: [i for i in items if _has_ours(i, agent)] for event, items in lists.items()}
    return {event: items for event, items in ours.items() if items}


def _has_ours(item: object, agent: str) -> bool:
    inner = item.get(_HOOKS) if isinstance(item, dict) else None
    return is_ours(item, agent) or (
        isinstance(inner, list) and any(is_ours(one, agent) for one in inner)
    )


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


def python_of(found: dict[str, list[Any]], agent: str) -> str:
    """The interpreter that our entries start."""
    items = [item for event in found.values() for item in event]
    runs = [one for item in items for one in (item, *item.get(_HOOKS, ())) if is_ours(one, agent)]
    try:
        return split(runs[0]["command"])[0]
    except (ValueError, IndexError):
        return ""


def whole(agent: str, python: str) -> str:
    """A settings file with nothing but ckpt's hooks."""
    return edit.written({**FORMATS[agent].required, _HOOKS: wanted(agent, python)})


def is_current(text: str, agent: str, python: str) -> bool:
    """Whether all of ours is there as it is to be."""
    return found(text, agent) == wanted(agent, python)


def add(draft: Draft, agent: str, wanted: dict[str, list[Any]]) -> None:
    for key, value in FORMATS[agent].required.items():
        root = _parse(draft.text, agent)
        if root.get(key) is None:
            draft.insert(edit.added_member(draft.text, root, key, value))
    root = _parse(draft.text, agent)
    if root.get(_HOOKS) is None:
        draft.insert(edit.added_member(draft.text, root, _HOOKS, wanted))
        return
    for event, items in wanted.items():
        hooks = _parse(draft.text, agent).get(_HOOKS)
        assert hooks is not None, "looked for above"
        there = hooks.get(event)
        if there is None:
            draft.insert(edit.added_member(draft.text, hooks, event, items))
        else:
            draft.insert(edit.added_item(draft.text, there, items[0]))


def is_bare(text: str, agent: str) -> bool:
    """Whether nothing is left in a file that ckpt has made."""
    if not text.strip():
        return True
    left = edit.load(text, _parse(text, agent))
    return {key: value for key, value in left.items() if value != {}} in (
        {},
        dict(FORMATS[agent].required),
    )


def without_ours(text: str, agent: str) -> str:
    """The text without ckpt's entries, and without lists and objects that are empty then."""
    while True:
        shorter = _without_one(text, agent)
        if shorter is None:
            return text
        text = shorter


def _without_one(text: str, agent: str) -> str | None:
    """The text without the first entry that is ours; None if there is none."""
    root = _parse(text, agent)
    hooks = root.get(_HOOKS)
    for at, event in enumerate(() if hooks is None else hooks.items):
        for number, item in enumerate(event.items):
            if _has_ours(edit.load(text, item), agent):
                assert hooks is not None, "it has this event"
                return _cut_out(
                    text, (root, _last(root, _HOOKS)), (hooks, at), (event, number), agent
                )
    return None


def _cut_out(
    text: str,
    outer: tuple[Node, int],
    middle: tuple[Node, int],
    inner: tuple[Node, int],
    agent: str,
) -> str:
    """Cut an item out, or the outermost of what holds nothing else; of a group with entries of
    others, only ours."""
    group = inner[0].items[inner[1]]
    entries = group.get(_HOOKS) if group.kind == "object" else None
    if entries is not None and len(entries.items) > 1:
        ours = [is_ours(edit.load(text, one), agent) for one in entries.items]
        return edit.without(text, entries, ours.index(True))
    for node, number in (inner, middle):
        if len(node.items) > 1:
            return edit.without(text, node, number)
    return edit.without(text, *outer)


def _last(node: Node, key: str) -> int:
    return max(number for number, name in enumerate(node.keys) if name == key)


# -- Puts ckpt's hooks into the settings of a coding agent, and takes them out again


def install(target: Target, agent: str) -> list[Step]:
    if not target.is_global and _is_current(user_path(agent, target.env), agent, target.python):
        return [Step(KEPT, f"{agent}, for all of your repositories", user_path(agent, target.env))]
    path = _path(target, agent)
    try:
        text = _read(path)
        if text is not None and is_current(text, agent, target.python):
            return [Step(KEPT, agent, path)]
        if _is_foreign(target, path):
            return [_by_hand(agent, path)]
        before = [] if text is None else _take_out(target.record, agent, path)
        _put_in(target.record, agent, path, target.python)
    except Unfit as reason:
        return [_mend(agent, path, reason)]
    if before:
        return [Step(CHANGED, f"{agent}, which calls {target.python} now", path)]
    return [Step(ADDED, f"{agent}: its hooks", path), *_notes(target, agent, path, text is None)]


def uninstall(target: Target, agent: str) -> list[Step]:
    """Out of every file that is noted, and of the one that would be used here now."""
    record = target.record
    steps: list[Step] = []
    for path in dict.fromkeys([*_noted(record, agent), _path(target, agent)]):
        is_noted = path in _noted(record, agent)
        try:
            if not found(_read(path) or "", agent):
                _forget(record, agent, path)
            elif is_noted or not _is_foreign(target, path):
                steps += _take_out(record, agent, path)
            else:
                advice = (f"git ckpt uninstall --agent {agent} --edit-tracked",)
                what = f"{agent}: its hooks are left in a shared file"
                steps.append(Step(NOTE, what, path, advice))
        except Unfit as reason:
            steps += [_mend(agent, path, reason)] if is_noted else []
    return steps


def files(target: Target) -> list[str]:
    """All that is written to put it in, for any agent."""
    noted = [path for agent in FORMATS for path in _noted(target.record, agent)]
    has_place = target.env.get("HOME") or not target.is_global
    return noted + ([_path(target, agent) for agent in FORMATS] if has_place else [])


def inspect(target: Target) -> list[Finding]:
    """Of the agents that ckpt is, or was, installed for."""
    return [found for agent in FORMATS for found in _inspected(target, agent)]


def _inspected(target: Target, agent: str) -> Iterator[Finding]:
    mend = f"git ckpt install --agent {agent}"
    path = _path(target, agent)
    for place in (path, user_path(agent, target.env)) if target.env.get("HOME") else (path,):
        try:
            hooks = found(_read(place) or "", agent)
        except Unfit as reason:
            if place in _noted(target.record, agent):
                yield Finding(agent, REPLACED, f"'{place}': {reason}", mend)
            continue
        if not hooks:
            continue
        if set(hooks) != set(FORMATS[agent].events):
            yield Finding(agent, REPLACED, f"'{place}' has only some of its hooks", mend)
        elif not os.access(python_of(hooks, agent), os.X_OK):
            gone = f"'{python_of(hooks, agent)}', which it starts, is gone"
            yield Finding(agent, REPLACED, gone, mend)
        else:
            yield Finding(agent, INSTALLED, f"'{place}'")
        return
    if path in _noted(target.record, agent):
        yield Finding(agent, REPLACED, f"its hooks were taken out of '{path}'", mend)


# -- places ----------------------------------------------------------------------------


def _path(target: Target, agent: str) -> str:
    """The file to edit: where a link leads, so that it stays one."""
    if target.is_global:
        return os.path.realpath(user_path(agent, target.env))
    return os.path.realpath(os.path.join(target.require_repo().worktree, FORMATS[agent].local))


def _is_foreign(target: Target, path: str) -> bool:
    """Whether others get what is written there."""
    if target.is_global or target.edit_tracked:
        return False
    repo = target.require_repo()
    top = os.path.join(repo.worktree, "")
    if not path.startswith(top):
        return True
    from ckpt.git.index import read_staged

    name = os.fsencode(path[len(top) :])
    return any(staged.path == name for staged in read_staged(repo).index.entries)


def _by_hand(agent: str, path: str) -> Step:
    advice = (f"git ckpt install --agent {agent} --edit-tracked", _for_all(agent))
    what = f"{agent}: its settings file is shared with others; edit it all the same, or your own"
    return Step(TO_DO, what, path, advice)


def _for_all(agent: str) -> str:
    return f"git ckpt install --agent {agent} --global"


def _mend(agent: str, path: str, reason: Unfit) -> Step:
    return Step(TO_DO, f"{agent}: {reason}", path, ("correct the file, then try again",))


def _notes(target: Target, agent: str, path: str, is_new: bool) -> Iterator[Step]:
    if FORMATS[agent].note:
        yield Step(NOTE, FORMATS[agent].note, path)
    if is_new and not target.is_global:
        line = f"/{FORMATS[agent].local}"
        exclude = os.path.join(target.require_repo().common_dir, "info", "exclude")
        what = "this file names a program of this machine; to keep it out of commits"
        yield Step(NOTE, what, path, (f"echo {line} >> {quote(exclude)}",))


# -- the text --------------------------------------------------------------------------


def _read(path: str) -> str | None:
    """The text of a settings file; None if there is none."""
    try:
        return disk.read(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except (UnicodeDecodeError, OSError) as error:
        told = "not UTF-8" if isinstance(error, ValueError) else error.strerror
        raise Unfit(f"it cannot be read: {told}") from None


def _is_current(path: str, agent: str, python: str) -> bool:
    try:
        text = _read(path)
        return text is not None and is_current(text, agent, python)
    except Unfit:
        return False


# -- putting in ------------------------------------------------------------------------


def _put_in(record: Record, agent: str, path: str, python: str) -> None:
    text = _read(path)
    draft = Draft(text or "")
    if not draft.text.strip():
        draft.insert(edit.Insertion(len(draft.text), whole(agent, python)))
    else:
        add(draft, agent, wanted(agent, python))
    made = missing_folders(os.path.dirname(path))
    _note(record, agent, path, draft, is_new=text is None, made=made)
    disk.make_folders(os.path.dirname(path))
    _write(path, draft.text)


def _write(path: str, text: str) -> None:
    """Put a file in place in one step, with the bits that it had."""
    temporary = path + NEW
    if os.path.lexists(temporary):  # what a killed process has not finished
        disk.unlink(temporary)
    with disk.replacing(path, temporary, 0o666) as fd:
        disk.write(fd, text.encode("utf-8"))
        if os.path.exists(path):
            disk.chmod(fd, stat.S_IMODE(os.stat(path).st_mode))


# -- taking out ------------------------------------------------------------------------


def _take_out(record: Record, agent: str, path: str) -> list[Step]:
    text = _read(path)
    notes = _noted(record, agent).get(path, {})
    if text is None or not found(text, agent):
        _forget(record, agent, path)
        return []
    is_as_left = notes.get("sha256") == _digest(text)
    rest = edit.cut(text, notes["new"]) if is_as_left else without_ours(text, agent)
    if notes.get("is_new") and is_bare(rest, agent):
        disk.unlink(path)
        remove_folders(notes.get("made", []))
    else:
        _write(path, rest)
    _forget(record, agent, path)
    return [Step(REMOVED, f"{agent}: its hooks", path)]


# -- what is noted ---------------------------------------------------------------------


def _part(agent: str) -> str:
    return f"agent {agent}"


def _noted(record: Record, agent: str) -> dict[str, Any]:
    """What was put in, by the files that it was put into."""
    return record.get(_part(agent))


def _note(
    record: Record, agent: str, path: str, draft: Draft, *, is_new: bool, made: list[str]
) -> None:
    notes = {"sha256": _digest(draft.text), "new": draft.new(), "is_new": is_new, "made": made}
    record.put(_part(agent), {**_noted(record, agent), path: notes})


def _forget(record: Record, agent: str, path: str) -> None:
    left = {name: notes for name, notes in _noted(record, agent).items() if name != path}
    record.put(_part(agent), left)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8")).hexdigest()
