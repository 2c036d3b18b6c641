# SPDX-License-Identifier: MIT
"""The guard: `hooks/guard` as the program that git asks which files may have changed.

There is room for one such program (`core.fsmonitor`). One that the user has goes on
working: the guard calls it and passes its answer on. Git's own daemon cannot be called like
that; where it is on, the wrapper is offered instead. The script lies in the git dir, readable
for all who use the repository, and says what it has to start: when Python or ckpt has gone,
it still answers git.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import replace
from shlex import quote, split

from ckpt import disk
from ckpt.git.config import GitConfig, parse_bool
from ckpt.git.repository import Repository
from ckpt.install.hooks import PROGRAM, unquoted
from ckpt.install.programs import asset
from ckpt.install.record import NEW, ConfigFile, data_dir
from ckpt.install.target import (
    ADDED,
    CHANGED,
    FOREIGN,
    INSTALLED,
    KEPT,
    MISSING,
    REMOVED,
    REPLACED,
    TO_DO,
    Finding,
    Step,
    Target,
)
from ckpt.locks import NOT_SHARED, Sharing

_KEY = "core.fsmonitor"
_PART = "guard"
_NOTES = "guarded"
_NAME = "ckpt-guard"
# With one of these in it, git has a shell take the value apart.
_SHELL_CHARACTERS = frozenset("|&;<>()$`\\\"' \t\n*?[#~=%")
_WRAPPER = "git ckpt install --wrapper"
# What a guard was given, each a word of shell, whose quotes may go over several lines.
_SETTING = re.compile(rb"""(?m)^(python|program|former|notes)=((?:'[^']*'|"'"|[^\s'"])*)""")


def install(target: Target) -> list[Step]:
    others = [value for value in _values(target) if not _is_guard(value)]
    former = others[-1] if others else ""
    if parse_bool(former):
        return [_daemon_is_on(target)]
    if parse_bool(former) is False:
        former = ""
    path, config = script_path(target), _config_file(target)
    before, text = read(path), script(target.python, former, _notes_path(target))
    is_set = config.values(_KEY)[-1:] == [_value(path)]
    if before == text and is_set:
        return [Step(KEPT, "guard", path)]
    target.record.put(_PART, {"config": config.path})
    write_program(path, text, _sharing(target))
    if not is_set:
        config.remove(_is_ours)
        config.add("core", None, [("fsmonitor", _value(path))])
    what = f"guard, which also calls '{former}'" if former else "guard"
    return [Step(CHANGED if before else ADDED, what, path)]


def uninstall(target: Target) -> list[Step]:
    path = script_path(target)
    noted = target.record.get(_PART).get("config")
    files = [_config_file(target), *([ConfigFile(noted, target.record)] if noted else [])]
    was_set = [config.remove(_is_ours) for config in files]
    is_there = os.path.lexists(path)
    if is_there:
        disk.unlink(path)
    disk.remove(_notes_path(target))
    target.record.drop(_PART)
    return [Step(REMOVED, "guard", path)] if is_there or any(was_set) else []


def inspect(target: Target) -> list[Finding]:
    """Whether git calls the guard here, however it was installed."""
    target.require_repo()
    value = (_values(replace(target, is_global=False)) or [""])[-1]
    mend = "git ckpt install --guard"
    if _is_guard(value):
        program = _program(value)
        if not os.path.exists(program):
            return [Finding("guard", REPLACED, f"'{program}' is gone", mend)]
        gone = what_is_gone(program)
        if gone is not None:
            return [Finding("guard", REPLACED, f"'{gone}', which it starts, is gone", mend)]
        return [Finding("guard", INSTALLED, f"'{program}'")]
    if parse_bool(value):
        told = "git's own file system monitor is on (core.fsmonitor=true)"
        return [Finding("guard", FOREIGN, told, _WRAPPER)]
    if target.record.get(_PART):
        told = f"core.fsmonitor is '{value}'" if value else "core.fsmonitor is not set"
        return [Finding("guard", REPLACED, f"another tool took it out: {told}", mend)]
    return [Finding("guard", MISSING, "not installed", mend)]


def program_of(target: Target) -> str:
    """The guard that git calls in a repository, of this place or another."""
    return _program((_values(replace(target, is_global=False)) or [""])[-1])


def script_path(target: Target) -> str:
    if target.is_global:
        return os.path.join(data_dir(target.env), _NAME)
    return os.path.join(target.require_repo().common_dir, _NAME)


def files(target: Target) -> list[str]:
    """All that is written to put it in."""
    return [script_path(target)]


def _notes_path(target: Target) -> str:
    """One file for all worktrees, or all repositories."""
    if target.is_global or target.repo is None:
        return os.path.join(data_dir(target.env), _NOTES)
    return os.path.join(target.require_repo().common_dir, "ckpt", _NOTES)


def notes_paths(repo: Repository) -> tuple[str, str]:
    """Where a guard that is called in a repository may have left its notes."""
    return os.path.join(repo.common_dir, "ckpt", _NOTES), os.path.join(data_dir(repo.env), _NOTES)


def script(python: str, former: str = "", notes: str = "", program: str = PROGRAM) -> bytes:
    """`hooks/guard` with what it starts, the program that was there before it, and where it
    remembers what it has done."""
    text = asset("hooks/guard").read_bytes()
    filled = {"PYTHON": python, "PROGRAM": program, "FORMER": former, "NOTES": notes}
    for name, value in filled.items():
        text = text.replace(b"'@%s@'" % name.encode(), os.fsencode(quote(value)), 1)
    return text


def alone(text: bytes, notes: str) -> bytes:
    """The same guard with notes of its own, and without the program that was there before it.
    Nothing, unless it is word for word what ckpt writes, for any interpreter."""
    words = [unquoted(word) for _, word in _SETTING.findall(text)]
    if len(words) != 4 or not os.path.isabs(words[0]):
        return b""
    python, program, former, own_notes = words
    is_ours = text == script(python, former, own_notes, program)
    return script(python, notes=notes, program=program) if is_ours else b""


def _daemon_is_on(target: Target) -> Step:
    what = "guard: git's own file system monitor is on, and git asks only one"
    place = f"{_config_file(target).path}: {_KEY}"
    return Step(TO_DO, what, place, (_WRAPPER,))


def _values(target: Target) -> list[str]:
    """All that git's configuration says of the program, the one that counts last."""
    config = GitConfig.load(target.env)
    if target.repo is not None and not target.is_global:
        config = target.repo.config
    section, name = _KEY.split(".")
    return [value for key, value, _ in config.items(section) if key == name]


def _config_file(target: Target) -> ConfigFile:
    """Where the program has to stand to count: a worktree may have a value of its own."""
    repo = target.repo
    if target.is_global or repo is None:
        return target.config_file
    if repo.config.get_bool("extensions.worktreeconfig", False):
        own = ConfigFile(os.path.join(repo.git_dir, "config.worktree"), target.record)
        if own.values(_KEY):
            return own
    return target.config_file


def _sharing(target: Target) -> Sharing:
    return NOT_SHARED if target.is_global or target.repo is None else target.repo.sharing


def _value(path: str) -> str:
    """A path as git's configuration has to name it."""
    return quote(path) if _SHELL_CHARACTERS & set(path) else path


def _program(value: str) -> str:
    try:
        return (split(value) or [""])[0]
    except ValueError:  # a quote without its other half
        return value


def _is_guard(value: str) -> bool:
    """Whether a value names a guard: of this place, of another, or of one that was moved."""
    return os.path.basename(_program(value)) == _NAME


def _is_ours(key: str, value: str) -> bool:
    return key == _KEY and _is_guard(value)


def what_is_gone(path: str) -> str | None:
    """What a guard starts and is not there any more."""
    lines = read(path).splitlines()
    for name in (b"python=", b"program="):
        line = next((line for line in lines if line.startswith(name)), name)
        started = _program(os.fsdecode(line[len(name) :]))
        if not os.path.exists(started):
            return started
    return None


def read(path: str) -> bytes:
    try:
        return disk.read(path)
    except OSError:
        return b""


def write_program(path: str, text: bytes, sharing: Sharing = NOT_SHARED) -> None:
    """Somebody may be starting it at this moment: there is always a whole one."""
    NOT_SHARED.make_folders(os.path.dirname(path))
    temporary = path + NEW
    with suppress(FileNotFoundError):
        disk.unlink(temporary)
    with disk.replacing(path, temporary, 0o777) as fd:
        disk.write(fd, text)
        sharing.adjust(temporary)
