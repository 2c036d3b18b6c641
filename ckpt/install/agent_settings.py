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
from shlex import quote

from ckpt import disk, regular
from ckpt.hashing import sha256
from ckpt.install import agent_text, json_edit
from ckpt.install.agent_formats import FORMATS, user_path
from ckpt.install.agent_text import Unfit
from ckpt.install.json_edit import Draft
from ckpt.install.record import Record, missing_folders, remove_folders
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
from ckpt.install.unfinished import NEW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def install(target: Target, agent: str) -> list[Step]:
    if not target.is_global and _is_current(user_path(agent, target.env), agent, target.python):
        return [Step(KEPT, f"{agent}, for all of your repositories", user_path(agent, target.env))]
    path = _path(target, agent)
    try:
        text = _read(path)
        if text is not None and agent_text.is_current(text, agent, target.python):
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
            if not agent_text.found(_read(path) or "", agent):
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
            found = agent_text.found(_read(place) or "", agent)
        except Unfit as reason:
            if place in _noted(target.record, agent):
                yield Finding(agent, REPLACED, f"'{place}': {reason}", mend)
            continue
        if not found:
            continue
        if set(found) != set(FORMATS[agent].events):
            yield Finding(agent, REPLACED, f"'{place}' has only some of its hooks", mend)
        elif not os.access(agent_text.python_of(found, agent), os.X_OK):
            gone = f"'{agent_text.python_of(found, agent)}', which it starts, is gone"
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
    from ckpt.store.staging import read_staged

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
        return regular.read(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except (UnicodeDecodeError, OSError) as error:
        told = "not UTF-8" if isinstance(error, ValueError) else error.strerror
        raise Unfit(f"it cannot be read: {told}") from None


def _is_current(path: str, agent: str, python: str) -> bool:
    try:
        text = _read(path)
        return text is not None and agent_text.is_current(text, agent, python)
    except Unfit:
        return False


# -- putting in ------------------------------------------------------------------------


def _put_in(record: Record, agent: str, path: str, python: str) -> None:
    text = _read(path)
    draft = Draft(text or "")
    if not draft.text.strip():
        draft.insert(json_edit.Insertion(len(draft.text), agent_text.whole(agent, python)))
    else:
        agent_text.add(draft, agent, agent_text.wanted(agent, python))
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
    if text is None or not agent_text.found(text, agent):
        _forget(record, agent, path)
        return []
    is_as_left = notes.get("sha256") == _digest(text)
    rest = json_edit.cut(text, notes["new"]) if is_as_left else agent_text.without_ours(text, agent)
    if notes.get("is_new") and agent_text.is_bare(rest, agent):
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
