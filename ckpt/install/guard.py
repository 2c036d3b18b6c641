# SPDX-License-Identifier: MIT
"""The guard: `hooks/guard` as the program that git asks which files may have changed.

Git asks one such program (`core.fsmonitor`). A user's own is called by the guard, which passes
its answer on. Git's own daemon cannot be called like that; where it is enabled, the wrapper is
offered. The script is in the git dir, readable for all who use the repository, and names what it
starts: when Python or ckpt is gone, it still answers git.
"""

from __future__ import annotations

import os
from shlex import quote, split

from ckpt import disk
from ckpt.git.config import GitConfig, parse_bool
from ckpt.install.hooks import PROGRAM
from ckpt.install.programs import asset
from ckpt.install.record import (
    ADDED,
    CHANGED,
    KEPT,
    REMOVED,
    TO_DO,
    ConfigFile,
    Step,
    Target,
    read_file,
    write_file,
)
from ckpt.locks import NOT_SHARED
from ckpt.models import FOREIGN, INSTALLED, MISSING, REPLACED, Finding
from ckpt.paths import GUARD_NOTES, data_dir

_KEY = "core.fsmonitor"
_PART = "guard"
_NAME = "ckpt-guard"
_WRAPPER = "git ckpt install --wrapper"
# With one of these in it, git has a shell take the value apart.
_SHELL_CHARACTERS = frozenset("|&;<>()$`\\\"' \t\n*?[#~=%")


def install(target: Target) -> list[Step]:
    former = _former(target)
    config = _config_file(target)
    if former is None:
        what = "guard: git's own file system monitor is on, and git asks only one"
        return [Step(TO_DO, what, f"{config.path}: {_KEY}", (_WRAPPER,))]
    path, value = _script_path(target), _value(_script_path(target))
    before, text = read_file(path), own_script(target)
    is_set = [v for key, v in config.entries() if key == _KEY][-1:] == [value]
    if before == text and is_set:
        return [Step(KEPT, "guard", path)]
    target.record.put(_PART, {"config": config.path})
    sharing = NOT_SHARED if target.is_global else target.require_repo().sharing
    NOT_SHARED.make_folders(os.path.dirname(path))
    write_file(path, text, 0o777, sharing)
    if not is_set:
        config.remove(_is_ours)
        config.add("core", None, [("fsmonitor", value)])
    what = f"guard, which also calls '{former}'" if former else "guard"
    return [Step(CHANGED if before else ADDED, what, path)]


def uninstall(target: Target) -> list[Step]:
    path = _script_path(target)
    noted = target.record.get(_PART).get("config")
    files = [_config_file(target), *([ConfigFile(noted, target.record)] if noted else [])]
    was_there = [config.remove(_is_ours) for config in files] + [os.path.lexists(path)]
    if was_there[-1]:
        disk.unlink(path)
    disk.remove(_notes_path(target))
    target.record.drop(_PART)
    return [Step(REMOVED, "guard", path)] if any(was_there) else []


def inspect(target: Target) -> list[Finding]:
    """Whether git calls the guard here, however it was installed."""
    target.require_repo()
    value = (_values(target._replace(is_global=False)) or [""])[-1]
    mend = "git ckpt install --guard"
    if _is_guard(value):
        program = _program(value)
        gone = program if not os.path.exists(program) else what_is_gone(program)
        if gone is None:
            return [Finding("guard", INSTALLED, f"'{program}'")]
        told = f"'{gone}' is gone" if gone == program else f"'{gone}', which it starts, is gone"
        return [Finding("guard", REPLACED, told, mend)]
    if parse_bool(value):
        told = "git's own file system monitor is on (core.fsmonitor=true)"
        return [Finding("guard", FOREIGN, told, _WRAPPER)]
    if target.record.get(_PART):
        told = f"core.fsmonitor is '{value}'" if value else "core.fsmonitor is not set"
        return [Finding("guard", REPLACED, f"another tool took it out: {told}", mend)]
    return [Finding("guard", MISSING, "not installed", mend)]


def files(target: Target) -> list[str]:
    """All files that an install may write."""
    return [_script_path(target)]


def program_of(target: Target) -> str:
    """The guard that git calls in a repository, of this place or another."""
    return _program((_values(target._replace(is_global=False)) or [""])[-1])


def own_script(target: Target) -> bytes:
    """What an install would write for this place."""
    return script(target.python, _former(target) or "", _notes_path(target))


def script(python: str, former: str = "", notes: str = "") -> bytes:
    """`hooks/guard` with what it starts, the program that was there before it, and the file in
    which it notes what it has done."""
    text = asset("hooks/guard").read_bytes()
    filled = {"PYTHON": python, "PROGRAM": PROGRAM, "FORMER": former, "NOTES": notes}
    for name, value in filled.items():
        text = text.replace(b"'@%s@'" % name.encode(), os.fsencode(quote(value)), 1)
    return text


def what_is_gone(path: str) -> str | None:
    """What a guard starts and does not exist any more."""
    lines = read_file(path).splitlines()
    for name in (b"python=", b"program="):
        line = next((line for line in lines if line.startswith(name)), name)
        started = _program(os.fsdecode(line[len(name) :]))
        if not os.path.exists(started):
            return started
    return None


def _script_path(target: Target) -> str:
    folder = data_dir(target.env) if target.is_global else target.require_repo().common_dir
    return os.path.join(folder, _NAME)


def _notes_path(target: Target) -> str:
    """One file for all worktrees, or all repositories."""
    if target.is_global:
        return os.path.join(data_dir(target.env), GUARD_NOTES)
    return os.path.join(target.require_repo().common_dir, "ckpt", GUARD_NOTES)


def _former(target: Target) -> str | None:
    """The program that the guard is to call, if any; None for git's own daemon."""
    former = next((value for value in reversed(_values(target)) if not _is_guard(value)), "false")
    is_on = parse_bool(former)
    return None if is_on else former if is_on is None else ""


def _values(target: Target) -> list[str]:
    """All values that git's configuration has for the program, the one that counts last."""
    config = GitConfig.load(target.env)
    if target.repo is not None and not target.is_global:
        config = target.repo.config
    section, name = _KEY.split(".")
    return [value for key, value, _ in config.items(section) if key == name]


def _config_file(target: Target) -> ConfigFile:
    """The file in which the value counts: a worktree may have one of its own."""
    repo = target.repo
    if repo is None or target.is_global:
        return target.config_file
    if repo.config.get_bool("extensions.worktreeconfig", False):
        own = ConfigFile(os.path.join(repo.git_dir, "config.worktree"), target.record)
        if any(key == _KEY for key, _ in own.entries()):
            return own
    return target.config_file


def _value(path: str) -> str:
    """A path as git's configuration has to name it."""
    return quote(path) if _SHELL_CHARACTERS & set(path) else path


def _program(value: str) -> str:
    try:
        return (split(value) or [""])[0]
    except ValueError:  # unbalanced quotes
        return value


def _is_guard(value: str) -> bool:
    """Whether a value names a guard: of this place, of another, or of one that was moved."""
    return os.path.basename(_program(value)) == _NAME


def _is_ours(key: str, value: str) -> bool:
    return key == _KEY and _is_guard(value)
