# SPDX-License-Identifier: MIT
"""`git ckpt` where the console script is not on PATH: an alias in the user's configuration.

Git runs a program `git-ckpt` that it finds on PATH before any alias, so that the alias is
set only where there is none, and one that belongs to another installation is told of.
A `!` alias is run at the top of the worktree; git says in GIT_PREFIX where it was typed.
"""

from __future__ import annotations

import os
from shlex import quote

from ckpt.errors import Refused
from ckpt.install.programs import find
from ckpt.install.target import (
    ADDED,
    CHANGED,
    INSTALLED,
    KEPT,
    MISSING,
    NOTE,
    REMOVED,
    Finding,
    Step,
    Target,
)
from ckpt.store.config import GitConfig

_KEY = "alias.ckpt"
_MARK = ' -I -m ckpt "$@"; }; f'


def install(target: Target) -> list[Step]:
    program = find("git-ckpt", target.env)
    if program is not None:
        return [] if _is_ours(program, target.python) else [_other_program(target, program)]
    wanted = alias(target.python)
    set_now = GitConfig.load(target.env).get(_KEY)
    if set_now == wanted:
        return [Step(KEPT, "alias 'git ckpt'", _KEY)]
    if set_now and _MARK not in set_now:
        what = f"alias 'git ckpt': you have one of your own ({set_now})"
        return [Step(NOTE, what, _KEY, ("git config --global --unset alias.ckpt",))]
    config = target.user_config_file
    try:
        config.remove(_is_our_entry)
        config.add("alias", None, [("ckpt", wanted)])
    except (OSError, Refused) as error:
        what = f"alias 'git ckpt' could not be set: {error}"
        return [Step(NOTE, what, config.path, (f"{quote(target.python)} -I -m ckpt",))]
    what = "alias 'git ckpt', because git-ckpt is not on PATH"
    return [Step(CHANGED if set_now else ADDED, what, f"{config.path}: {_KEY}")]


def uninstall(target: Target) -> list[Step]:
    config = target.user_config_file
    if not config.remove(_is_our_entry):
        return []
    return [Step(REMOVED, "alias 'git ckpt'", f"{config.path}: {_KEY}")]


def inspect(target: Target) -> list[Finding]:
    program = find("git-ckpt", target.env)
    if program is not None:
        return [Finding("git ckpt", INSTALLED, f"'{program}'")]
    if _MARK in (GitConfig.load(target.env).get(_KEY) or ""):
        return [Finding("git ckpt", INSTALLED, "alias in git's configuration")]
    mend = f"{quote(target.python)} -I -m ckpt install"
    return [Finding("git ckpt", MISSING, "git-ckpt is not on PATH, and there is no alias", mend)]


def alias(python: str) -> str:
    return f'!f() {{ cd "./$GIT_PREFIX" && exec {quote(python)}{_MARK}'


def _is_our_entry(key: str, value: str) -> bool:
    return key == _KEY and _MARK in value


def _is_ours(program: str, python: str) -> bool:
    """Whether a console script starts this interpreter: it lies beside it, or names it."""
    if os.path.dirname(os.path.realpath(program)) == os.path.dirname(python):
        return True
    with open(program, "rb") as file:
        return os.fsencode(python) in file.read(4096)


def _other_program(target: Target, program: str) -> Step:
    what = f"'git ckpt' starts another installation than the hooks, which call {target.python}"
    return Step(NOTE, what, program, ("git ckpt install   (to let the hooks call that one)",))
