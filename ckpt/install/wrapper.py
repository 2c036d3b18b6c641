# SPDX-License-Identifier: MIT
"""The wrapper: a `git` that takes a checkpoint before the real one is run.

For where the guard cannot be used, and for what git never asks it about: `git apply`, `git
worktree remove --force`. A function for bash, zsh and fish, and a program to put first on PATH
for agents. All are in the user's data folder and work in every repository. ckpt edits nobody's
start-up files: which line to add is told.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from shlex import quote

from ckpt import disk
from ckpt.install import guard
from ckpt.install.programs import asset, find
from ckpt.install.record import data_dir
from ckpt.install.target import (
    ADDED,
    CHANGED,
    INSTALLED,
    KEPT,
    MISSING,
    NOTE,
    REMOVED,
    REPLACED,
    Finding,
    Step,
    Target,
)

_PART = "wrapper"
_FUNCTIONS = {"git.sh": "hooks/wrapper.sh", "git.fish": "hooks/wrapper.fish"}
_MEND = "git ckpt install --wrapper"


def install(target: Target) -> list[Step]:
    folder = _folder(target)
    texts = dict(_texts(target))
    before = {name: guard.read(os.path.join(folder, name)) for name in texts}
    _note(target, [*_users(target), _place(target)])
    if before == texts:
        return [Step(KEPT, "wrapper", folder)]
    for name, text in texts.items():
        guard.write_program(os.path.join(folder, name), text)
    action = CHANGED if any(before.values()) else ADDED
    return [Step(action, "wrapper, for a shell that reads it", folder), *_advice(folder)]


def uninstall(target: Target) -> list[Step]:
    """Goes with the last place that asked for it: it works in all repositories."""
    users = _users(target)
    left = [place for place in users if place != _place(target)]
    folder = _folder(target)
    if left == users or left:
        _note(target, left)
        return []
    disk.remove_tree(folder)
    _note(target, [])
    return [Step(REMOVED, "wrapper", folder)]


def inspect(target: Target) -> list[Finding]:
    folder = _folder(target)
    if not _users(target):
        return [Finding("wrapper", MISSING, "not installed", _MEND)]
    names = [name for name, _ in _texts(target)]
    gone = [name for name in names if not os.path.exists(os.path.join(folder, name))]
    if gone:
        return [Finding("wrapper", REPLACED, f"'{folder}/{gone[0]}' is gone", _MEND)]
    missing = guard.what_is_gone(os.path.join(folder, "guard"))
    if missing is not None:
        return [Finding("wrapper", REPLACED, f"'{missing}', which it starts, is gone", _MEND)]
    return [Finding("wrapper", INSTALLED, f"'{folder}', for a shell that reads it")]


def files(target: Target) -> list[str]:
    """All that is written to put it in."""
    names = ["guard", *_FUNCTIONS, "bin/git"]
    return [os.path.join(_folder(target), name) for name in names]


def program(target: Target) -> str:
    """The `git` for agents."""
    return os.path.join(_folder(target), "bin", "git")


def _texts(target: Target) -> Iterator[tuple[str, bytes]]:
    """The files of the wrapper and what each holds."""
    folder = _folder(target)
    yield "guard", guard.script(target.python)
    path = os.fsencode(quote(os.path.join(folder, "guard")))
    for name, source in _FUNCTIONS.items():
        yield name, asset(source).read_bytes().replace(b"'@GUARD@'", path)
    git = os.fsencode(quote(_real_git(target, os.path.join(folder, "bin"))))
    shim = asset("hooks/wrapper-git").read_bytes()
    yield "bin/git", shim.replace(b"'@GUARD@'", path).replace(b"'@GIT@'", git)


def _real_git(target: Target, own: str) -> str:
    """The git on PATH that is not this wrapper; empty if there is none."""
    folders = target.env.get("PATH", os.defpath).split(os.pathsep)
    others = [folder for folder in folders if os.path.realpath(folder) != os.path.realpath(own)]
    return find("git", {**target.env, "PATH": os.pathsep.join(others)}) or ""


def _advice(folder: str) -> list[Step]:
    shell, fish, bin = (quote(os.path.join(folder, name)) for name in ("git.sh", "git.fish", "bin"))
    lines = {
        "for bash or zsh, add to ~/.bashrc or ~/.zshrc": f"[ ! -f {shell} ] || . {shell}",
        "for fish, add to config.fish": f"test ! -f {fish}; or source {fish}",
        "for agents and other programs, start them with": f"PATH={bin}:$PATH",
    }
    return [Step(NOTE, f"wrapper: {where}", folder, (line,)) for where, line in lines.items()]


def _folder(target: Target) -> str:
    return os.path.join(data_dir(target.env), "wrapper")


def _place(target: Target) -> str:
    return "global" if target.is_global else target.require_repo().common_dir


def _users(target: Target) -> list[str]:
    places: list[str] = target.user_record.get(_PART).get("places", [])
    return places


def _note(target: Target, places: list[str]) -> None:
    unique = list(dict.fromkeys(places))
    target.user_record.put(_PART, {"places": unique} if unique else {})
