# SPDX-License-Identifier: MIT
"""Install the guard, a `core.fsmonitor` hook, and the wrapper.

The guard calls the hook that was configured before and passes its answer on. With git's built-in
daemon, and for commands that run no such hook, the wrapper is suggested: a `git` that takes a
checkpoint before it runs the real one. Shell startup files are not edited; the line to add is
printed.
"""

from __future__ import annotations

import os
import shutil
from functools import partial
from shlex import quote

from ckpt import disk
from ckpt.git.config import GitConfig, parse_bool
from ckpt.install.hooks import PROGRAM
from ckpt.install.record import (
    Action,
    Step,
    Target,
    asset,
    find,
    installed,
    program_of,
    read_file,
    with_section,
    without_section,
    write_file,
)
from ckpt.models import FOREIGN, MISSING, REPLACED, Finding
from ckpt.paths import GUARD_NOTES

_KEY = "core.fsmonitor"
_HEADER = "[core]"
_NAME = "ckpt-guard"
_WRAPPER = "git ckpt install --wrapper"


def install(target: Target) -> list[Step]:
    values, config = _values(target), target.config_file
    former, path = _former(values), _script_path(target)
    if former is None:
        what = "guard: git's own file system monitor is on, and git asks only one"
        return [Step("to-do", what, f"{config.path}: {_KEY}", (_WRAPPER,))]
    value, before = quote(path), read_file(path)
    text = _own_script(target, target.is_global)
    is_set = dict(config.section("core")).get("fsmonitor") == value
    if before == text and is_set:
        return [Step("kept", "guard", path)]
    write_file(path, text, target.private, 0o777)
    if not is_set:
        pairs = [("fsmonitor", value)]
        config.edit(partial(with_section, header=_HEADER, pairs=pairs))
    what = f"guard, which also calls '{former}'" if former else "guard"
    return [Step("changed" if before else "added", what, path)]


def uninstall(target: Target) -> list[Step]:
    path = _script_path(target)
    was_set = target.config_file.edit(partial(without_section, header=_HEADER))
    was_there = was_set or os.path.lexists(path)
    disk.remove(path)
    disk.remove(os.path.join(target.private, GUARD_NOTES))
    return [Step("removed", "guard", path)] if was_there else []


def inspect(target: Target) -> list[Finding]:
    """Return findings for the guard, however it was installed, and for the wrapper."""
    target.require_repo()
    mend = "git ckpt install --guard"
    value, _ = (_values(target._replace(is_global=False)) or [("", "")])[-1]
    text, is_set = read_file(program_of(value)), _is_guard(value)
    if is_set and text:
        is_own = text in (_own_script(target, True), _own_script(target, False))
        found = installed("guard", program_of(value), text, is_own, mend)
    elif parse_bool(value):
        told = "git's own file system monitor is on (core.fsmonitor=true)"
        found = Finding("guard", FOREIGN, told, _WRAPPER)
    elif is_set or os.path.lexists(_script_path(target)):
        told = f"core.fsmonitor is '{value}'" if value else "core.fsmonitor is not set"
        found = Finding("guard", REPLACED, f"removed by another tool: {told}", mend)
    else:
        found = Finding("guard", MISSING, "not installed", mend)
    return [found, _inspect_wrapper(target)]


def _own_script(target: Target, is_global: bool) -> bytes:
    """Return `hooks/guard` with its Python, the former hook and the notes file filled in. The
    notes are shared by all worktrees or, if global, by all repositories."""
    target = target._replace(is_global=is_global)
    former, notes = _former(_values(target)) or "", os.path.join(target.private, GUARD_NOTES)
    return _filled("guard", PYTHON=target.python, PROGRAM=PROGRAM, FORMER=former, NOTES=notes)


def _filled(name: str, **values: str) -> bytes:
    text = asset(f"hooks/{name}").read_bytes()
    for word, value in values.items():
        text = text.replace(b"'@%s@'" % word.encode(), os.fsencode(quote(value)))
    return text


def _script_path(target: Target) -> str:
    folder = target.user_dir if target.is_global else target.require_repo().common_dir
    return os.path.join(folder, _NAME)


def _former(values: list[tuple[str, str]]) -> str | None:
    """Return the former hook, possibly empty; None for git's built-in daemon."""
    former = next((value for value, _ in reversed(values) if not _is_guard(value)), "false")
    is_on = parse_bool(former)
    return None if is_on else former if is_on is None else ""


def _values(target: Target) -> list[tuple[str, str]]:
    """Return the values of core.fsmonitor with their files; the last one takes effect."""
    config = GitConfig.load(target.env)
    if target.repo is not None and not target.is_global:
        config = target.repo.config
    section, name = _KEY.split(".")
    return [(value, file) for key, value, file in config.items(section) if key == name]


def _is_guard(value: str) -> bool:
    """Return whether a value names a guard, possibly of another or a moved repository."""
    return os.path.basename(program_of(value)) == _NAME


# -- The wrapper: functions for bash, zsh and fish, and a program to put first on PATH


def install_wrapper(target: Target) -> list[Step]:
    folder, texts = _folder(target), _texts(target)
    before = {path: read_file(path) for path in texts}
    if before == texts:
        return [Step("kept", "wrapper", folder)]
    for path, text in texts.items():
        write_file(path, text, target.user_dir, 0o777)
    action: Action = "changed" if any(before.values()) else "added"
    shell, fish, bin = (quote(os.path.join(folder, name)) for name in ("git.sh", "git.fish", "bin"))
    lines = {
        "for bash or zsh, add to ~/.bashrc or ~/.zshrc": f"[ ! -f {shell} ] || . {shell}",
        "for fish, add to config.fish": f"test ! -f {fish}; or source {fish}",
        "for agents and other programs, start them with": f"PATH={bin}:$PATH",
    }
    notes = [Step("note", f"wrapper: {where}", folder, (line,)) for where, line in lines.items()]
    return [Step(action, "wrapper, for a shell that reads it", folder), *notes]


def uninstall_wrapper(target: Target, *, is_named: bool) -> list[Step]:
    """Remove the wrapper only if it is named, as it serves all repositories of the user."""
    folder = _folder(target)
    if not os.path.isdir(folder):
        return []
    if not is_named:
        advice = ("git ckpt uninstall --wrapper",)
        return [Step("note", "wrapper is left, for all of your repositories", folder, advice)]
    shutil.rmtree(folder)
    return [Step("removed", "wrapper", folder)]


def _inspect_wrapper(target: Target) -> Finding:
    folder, texts = _folder(target), _texts(target)
    if not os.path.isdir(folder):
        return Finding("wrapper", MISSING, "not installed", _WRAPPER)
    found = {path: read_file(path) for path in texts}
    return installed("wrapper", folder, b"".join(found.values()), found == texts, _WRAPPER)


def _texts(target: Target) -> dict[str, bytes]:
    """Return the files of the wrapper and their contents."""
    folder = _folder(target)
    own = os.path.join(folder, "guard")
    # Find the git on PATH that is not this wrapper.
    folders = target.env.get("PATH", os.defpath).split(os.pathsep)
    bin = os.path.realpath(os.path.join(folder, "bin"))
    others = [other for other in folders if os.path.realpath(other) != bin]
    real = find("git", {**target.env, "PATH": os.pathsep.join(others)}) or ""
    return {
        own: _filled("guard", PYTHON=target.python, PROGRAM=PROGRAM, FORMER="", NOTES=""),
        os.path.join(folder, "git.sh"): _filled("wrapper.sh", GUARD=own),
        os.path.join(folder, "git.fish"): _filled("wrapper.fish", GUARD=own),
        os.path.join(folder, "bin/git"): _filled("wrapper-git", GUARD=own, GIT=real),
    }


def _folder(target: Target) -> str:
    return os.path.join(target.user_dir, "wrapper")
