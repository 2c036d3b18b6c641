# SPDX-License-Identifier: MIT
"""Install git hooks in git's configuration (git 2.54 or later), otherwise in files.

A marked block is added after the first line of a shell hook. Any other hook (binary, another
language, a symbolic link) is renamed to `<name>.ckpt-wrapped` and run by ours. A file outside the
git directory is not edited without `edit_tracked`; the line to add is printed instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from shlex import join, quote
from typing import NamedTuple

from ckpt.git.repository import Repository
from ckpt.install.record import (
    Action,
    Step,
    Target,
    installed,
    output_of,
    read_file,
    with_section,
    without_section,
    write_file,
)
from ckpt.models import FOREIGN, INSTALLED, MISSING, REPLACED, Finding
from ckpt.settings.sources import GIT_HOOKS

# Hooks test for this file, so that they do nothing once ckpt is uninstalled.
PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
_PART = "hooks"  # of the record: the file of each event


# -- All hooks


def install(target: Target, events: Sequence[str]) -> list[Step]:
    if not events:
        return []
    if _has_configured_hooks(target):
        steps = _into_config(target, events)
        return steps + ([] if target.is_global else _out_of_files(target, events))
    if target.is_global:
        what = "hooks for all repositories need git 2.54"
        return [Step("to-do", what, target.config_file.path, ("git ckpt install, in each",))]
    place = find_place(target.require_repo())
    steps = [step for event in events for step in _into_file(target, place, event)]
    if place.is_foreign and any(step.action == "to-do" for step in steps):
        what = "hooks are outside the git dir, where ckpt changes files only on request"
        steps.append(Step("note", what, place.folder, ("git ckpt install --edit-tracked",)))
    return steps


def uninstall(target: Target, events: Sequence[str]) -> list[Step]:
    steps = [step for event in events for step in _out_of_config(target, event)]
    if events and not target.is_global:
        steps += _out_of_files(target, events)
    for event in events:
        target.record.put(_PART, event, None)
    return steps


def inspect(target: Target) -> list[Finding]:
    """Return findings for the hooks of this repository, however they were installed, and for
    pre-commit if it is configured to take checkpoints."""
    reads_config, config = _has_configured_hooks(target), ".pre-commit-config.yaml"
    found = [_inspected(target, event, reads_config) for event in GIT_HOOKS]
    text = read_file(os.path.join(target.require_repo().worktree, config))
    if re.search(rb"(?m)^[^#\n]*\bid:[ \t]*[\"']?ckpt-save\b", text):
        found.append(Finding("ckpt-save", INSTALLED, f"a hook in '{config}'"))
    return found


def _has_configured_hooks(target: Target) -> bool:
    """Return whether the git on PATH runs hooks from its configuration."""
    told = output_of(["git", "version"], target.env) or ""
    found = re.search(r"version (\d+)\.(\d+)", told)
    return found is not None and (int(found[1]), int(found[2])) >= (2, 54)


def _inspected(target: Target, event: str, reads_config: bool) -> Finding:
    mend = f"git ckpt install --hooks {event}"
    for config in (target.config_file, target.user_config_file) if reads_config else ():
        section = config.section(f"hook.ckpt-{event}")
        if section:
            is_own = section == _wanted(event, target.python)
            return installed(event, config.path, os.fsencode(section[-1][1]), is_own, mend)
    place = find_place(target.require_repo())
    path, noted = _where_it_runs(place, event), target.record.get(_PART).get(event)
    if path is not None:
        text = read_file(path)
        is_own = not has_block(text) or with_block(text, block(event, target.python)) == text
        return installed(event, path, text, is_own, mend)
    if place.is_foreign:
        told = f"hooks are in '{place.folder}', outside the git dir"
        return Finding(event, FOREIGN, told, f"{mend} --edit-tracked")
    if noted is not None:
        told = f"removed by another tool from '{noted}', or git does not read that"
        return Finding(event, REPLACED, told, mend)
    return Finding(event, MISSING, "not installed", mend)


# -- In git's configuration


def _into_config(target: Target, events: Sequence[str]) -> list[Step]:
    config, steps = target.config_file, []
    for event in events:
        target.record.put(_PART, event, config.path)
        found, wanted = config.section(f"hook.ckpt-{event}"), _wanted(event, target.python)
        if found != wanted:
            config.edit(partial(with_section, header=_header(event), pairs=wanted, first=True))
        action: Action = "kept" if found == wanted else "changed" if found else "added"
        place = f"{config.path}: hook.ckpt-{event}"
        steps.append(Step(action, f"hook {event}, in git's configuration", place))
    return steps


def _out_of_config(target: Target, event: str) -> list[Step]:
    config = target.config_file
    if not config.edit(partial(without_section, header=_header(event))):
        return []
    return [Step("removed", f"hook {event}", f"{config.path}: hook.ckpt-{event}")]


def _header(event: str) -> str:
    return f'[hook "ckpt-{event}"]'


def _wanted(event: str, python: str) -> list[tuple[str, str]]:
    # Git appends the hook's arguments, which `:` ignores.
    return [("event", event), ("command", command(event, python) + "; :")]


# -- The hooks directory


class Place(NamedTuple):
    """The directory of a user's hooks. With husky this is `.husky`: git runs the scripts in
    `.husky/_`, which `npm install` overwrites, and these run the ones in `.husky`."""

    folder: str
    is_husky: bool
    is_foreign: bool


def find_place(repo: Repository) -> Place:
    folder = os.path.join(repo.common_dir, "hooks")
    if repo.config.get("core.hookspath") is not None:  # if empty, git looks in the root directory
        configured = repo.config.get_path("core.hookspath") or "/"
        folder = os.path.normpath(os.path.join(repo.worktree, configured))
    parent, name = os.path.split(folder)
    is_husky = (name, os.path.basename(parent)) == ("_", ".husky")
    return Place(parent if is_husky else folder, is_husky, _is_foreign(repo, folder))


def _is_foreign(repo: Repository, folder: str) -> bool:
    own = os.path.join(os.path.realpath(repo.common_dir), "")
    return not os.path.join(os.path.realpath(folder), "").startswith(own)


_LEGACY = ".legacy"  # pre-commit renames an existing hook to this, and runs it first


def _where_it_runs(place: Place, event: str) -> str | None:
    """Return the hook file that calls ckpt for an event; None if there is none."""
    hook = os.path.join(place.folder, event)
    is_moved = b"pre-commit" in read_file(hook) and os.access(hook, os.X_OK)
    paths = (hook, hook + _LEGACY) if is_moved else (hook,)
    return next((path for path in paths if calls_ckpt(read_file(path), event)), None)


# -- In the file of a hook


def _into_file(target: Target, place: Place, event: str) -> list[Step]:
    path = os.path.join(place.folder, event)
    if place.is_foreign and not target.edit_tracked:
        if calls_ckpt(read_file(path), event):
            return [Step("kept", f"hook {event}", path)]
        line = command(event, target.python)
        if os.path.lexists(path) or place.is_husky:
            return [Step("to-do", f"hook {event}: add this line at the beginning", path, (line,))]
        return [Step("to-do", f"hook {event}: make this script", path, ("#!/bin/sh", line))]
    path = _where_it_runs(place, event) or path
    target.record.put(_PART, event, path)
    step = put_in(path, event, target.python, target.private, is_script=place.is_husky)
    return [step, *_out_of_config(target, event)]


def _out_of_files(target: Target, events: Sequence[str]) -> list[Step]:
    """Remove our hooks from all files, as core.hooksPath may have been different before."""
    repo, noted = target.require_repo(), target.record.get(_PART)
    folders = (find_place(repo).folder, os.path.join(repo.common_dir, "hooks"))
    steps: list[Step] = []
    for event in events:
        usual = [os.path.join(folder, event) for folder in folders]
        for path in dict.fromkeys([*usual, noted.get(event, usual[0])]):
            is_foreign = _is_foreign(repo, os.path.dirname(path))
            if target.edit_tracked or not is_foreign or path == noted.get(event):
                steps += take_out(path + _LEGACY, event, target.private)
                steps += take_out(path, event, target.private)
    return steps


def put_in(path: str, event: str, python: str, private: str, *, is_script: bool = False) -> Step:
    """Add our block to a hook, or wrap the hook. `is_script` means `sh` always runs it."""
    text, wrapped, what = read_file(path), _wrapped(path, event), f"hook {event}"
    is_there, has_ours, ours = os.path.lexists(path), has_block(text), block(event, python)
    with_ours = with_block(text, ours)
    if with_ours == text or (calls_ckpt(text, event) and not has_ours):
        return Step("kept", what, path)
    if has_ours or (is_there and (is_script or (is_shell(text) and os.access(path, os.X_OK)))):
        write_file(path, with_ours, private)
        if has_ours:
            return Step("changed", f"{what}, which calls {python} now", path)
        return Step("added", f"{what}, in the script that was there", path)
    if is_there and not os.path.lexists(wrapped):
        # Link, not rename, so that the hook works until ours replaces it.
        os.link(path, wrapped, follow_symlinks=False)
    elif is_there and not _is_same(path, wrapped):
        return _beside(path, wrapped, what)
    write_file(path, _OWN + ours + _chain(event), private, 0o777)
    if os.path.lexists(wrapped):
        what += f"; what was there runs after it, as '{os.path.basename(wrapped)}'"
    return Step("added", what, path)


def take_out(path: str, event: str, private: str) -> list[Step]:
    """Remove our part of a hook, and rename a wrapped hook back."""
    text, wrapped, what = read_file(path), _wrapped(path, event), f"hook {event}"
    is_wrapped = os.path.lexists(wrapped)
    if has_block(text):
        rest, own = without_block(text), _OWN + _chain(event)
        if rest != own:  # a user's hook, or ours with a user's changes
            is_own = rest.startswith(own) and not is_wrapped
            write_file(path, rest.replace(own, _SHEBANG, 1) if is_own else rest, private)
        elif is_wrapped:
            os.rename(wrapped, path)
        else:
            os.unlink(path)
        return [Step("removed", what, path)]
    if not is_wrapped or os.path.basename(path) != event or _chain(event) in text:
        return []
    if not os.path.lexists(path):  # another tool has removed our file
        os.link(wrapped, path, follow_symlinks=False)
    elif not _is_same(path, wrapped):
        return [_beside(path, wrapped, what)]
    os.unlink(wrapped)
    return [Step("changed", f"{what}: it has its name back", path)]


def _beside(path: str, wrapped: str, what: str) -> Step:
    told = f"{what}: the file that ckpt had renamed is still there beside a new one"
    return Step("to-do", told, wrapped, (join(["mv", "-i", wrapped, path]),))


def _is_same(path: str, wrapped: str) -> bool:
    """Return whether both names are one file, left by a killed install."""
    return os.path.samestat(os.lstat(path), os.lstat(wrapped))


def _wrapped(path: str, event: str) -> str:
    return os.path.join(os.path.dirname(path), event + _WRAPPED)


# -- The text of a hook

_SHEBANG = b"#!/bin/sh\n"
_OWN = _SHEBANG + b"# Made by 'git ckpt install'.\n"
_WRAPPED = ".ckpt-wrapped"
_BEGIN = b"# >>> ckpt >>> (git ckpt uninstall takes these lines out)\n"
_END = b"# <<< ckpt <<<"
_BLOCK = re.compile(
    rb"^" + re.escape(_BEGIN) + rb"(?:[^\n]*\n)*?" + re.escape(_END) + rb"(?:\n|\Z)", re.MULTILINE
)
_SHELL = re.compile(
    rb"#![ \t]*/(?:\S*/)?(?:env[ \t]+(?:-S[ \t]+)?)?(?:sh|bash|dash|ash|ksh|mksh|zsh)"
    rb"(?:[ \t]+-[eufxplC]*)*[ \t]*\n"
)
# The script passes itself to another interpreter.
_READS_ITSELF = re.compile(rb"""\bexec\b[^\n(]*[ \t]["']?\$(?:0|\{0\})["']?""")


def command(event: str, python: str) -> str:
    """Return the shell command of a hook, which fails only with `on_error = block`."""
    start = quote(python)
    run = f"{start} -I -m ckpt hook {event}"
    after = event.startswith("post-")
    run += ' "$@" </dev/null || :' if after else " </dev/null || [ $? -ne 4 ] || exit 1"
    return f"if [ -x {start} ] && [ -f {quote(PROGRAM)} ]; then {run}; fi"


def block(event: str, python: str) -> bytes:
    return _BEGIN + os.fsencode(command(event, python)) + b"\n" + _END + b"\n"


def _chain(event: str) -> bytes:
    """Return the line that runs the wrapped hook, if any, even after ours is renamed."""
    name = f'"${{0%/*}}/{event}{_WRAPPED}"'
    return f'[ ! -x {name} ] || exec {name} "$@"\n'.encode()


def has_block(text: bytes) -> bool:
    return _BLOCK.search(text) is not None


def calls_ckpt(text: bytes, event: str) -> bool:
    """Return whether a script calls ckpt for an event, in our block or a user's line."""
    called = rb"(?m)^[^#\n]*(?:-m ckpt|git[ -]ckpt) hook %s\b" % event.encode()
    return re.search(called, text) is not None


def with_block(text: bytes, added: bytes) -> bytes:
    """Return the script with a block added after its first line, or replaced."""
    if has_block(text):
        return _BLOCK.sub(lambda _: added, text, 1)
    first = text[: text.find(b"\n") + 1] if text.startswith(b"#!") else b""
    return first + added + text[len(first) :]


def without_block(text: bytes) -> bytes:
    return _BLOCK.sub(b"", text, 1)


def is_shell(text: bytes) -> bool:
    """Return whether a block can safely be added to a script."""
    return bool(_SHELL.match(text)) and b"\0" not in text and not _READS_ITSELF.search(text)
