# SPDX-License-Identifier: MIT
"""The programs that `install` asks before it writes anything: git, man, Python.

`install` is a command that a person types and may start processes, which the engine never
does; here is the one place for it. No program that is not there is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

from ckpt import disk
from ckpt.errors import CkptError, Refused
from ckpt.git.config import GitConfig
from ckpt.install.record import data_home, missing_folders, remove_folders
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
from ckpt.locks import NOT_SHARED

_PACKAGE = Path(__file__).resolve().parent.parent


def asset(name: str) -> Path:
    """The file or folder of that name, such as `hooks/guard`."""
    packed = _PACKAGE / "_assets"
    path = (packed if packed.is_dir() else _PACKAGE.parent) / name
    if not path.exists():
        raise CkptError(
            f"this installation of ckpt lacks its file '{name}'",
            hint="python3 -m pip install --force-reinstall git-ckpt",
        )
    return path


# -- The programs that `install` asks before it writes anything: git, man, Python

_SECONDS = 20
CONFIGURED_HOOKS = (2, 54)


def git_version(env: Mapping[str, str]) -> tuple[int, int] | None:
    """The version of the git on PATH; None without git."""
    told = _output(["git", "version"], env)
    found = re.search(r"version (\d+)\.(\d+)", told or "")
    return (int(found[1]), int(found[2])) if found else None


def has_configured_hooks(env: Mapping[str, str]) -> bool:
    """Whether git runs hooks that its configuration names."""
    version = git_version(env)
    return version is not None and version >= CONFIGURED_HOOKS


def man_finds(page: str, env: Mapping[str, str]) -> bool | None:
    """Whether `man` has a page; None where there is no `man`."""
    if find("man", env) is None:
        return None
    return bool((_output(["man", "-w", page], env) or "").strip())


def runs_alone(python: str, env: Mapping[str, str]) -> bool:
    """Whether an interpreter finds ckpt without the user's own site folder and PYTHONPATH."""
    return _output([python, "-I", "-c", "import ckpt.cli"], env) is not None


def run(words: Sequence[str], env: Mapping[str, str], folder: str) -> tuple[int, str, str]:
    """Run a program to its end: status, output, errors."""
    try:
        ran = subprocess.run(
            list(words),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            cwd=folder,
        )
    except FileNotFoundError:
        return 127, "", f"'{words[0]}' is not there"
    except subprocess.TimeoutExpired:
        return 124, "", f"'{words[0]}' took more than {_SECONDS} s"
    return ran.returncode, os.fsdecode(ran.stdout), os.fsdecode(ran.stderr)


def find(program: str, env: Mapping[str, str]) -> str | None:
    return shutil.which(program, path=env.get("PATH", os.defpath))


def _output(words: Sequence[str], env: Mapping[str, str]) -> str | None:
    """What a program prints; None if it is missing or fails."""
    program = find(words[0], env)
    if program is None:
        return None
    try:
        ran = subprocess.run(
            [program, *words[1:]],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(ran.stdout) if ran.returncode == 0 else None


# -- `git ckpt` where the console script is not on PATH: an alias in the user's configuration

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


# -- The man page, for `git help ckpt` and `man git-ckpt`: a link where `man` looks for it

_PAGE = "git-ckpt"
_PART = "man"


def install_man_link(target: Target) -> list[Step]:
    path, page = _link(target), str(asset("man/git-ckpt.1"))
    if os.path.islink(path) and os.readlink(path) == page:
        return [Step(KEPT, "man page", path)]
    was_ours = _is_ours_man_link(target, path)
    if not was_ours and (os.path.lexists(path) or man_finds(_PAGE, target.env) is not False):
        return []
    notes = target.user_record.get(_PART)
    made = notes.get("made", []) or missing_folders(os.path.dirname(path))
    target.user_record.put(_PART, {"page": page, "made": made})
    if was_ours:
        disk.unlink(path)
    NOT_SHARED.make_folders(os.path.dirname(path))
    disk.symlink(page, path)
    if not man_finds(_PAGE, target.env):  # it does not look there either
        return uninstall_man_link(target)[1:]
    return [Step(CHANGED if was_ours else ADDED, "man page", path)]


def uninstall_man_link(target: Target) -> list[Step]:
    path = _link(target)
    is_ours = _is_ours_man_link(target, path)
    if is_ours:
        disk.unlink(path)
    if is_ours or not os.path.lexists(path):  # one that was killed may have noted it only
        remove_folders(target.user_record.get(_PART).get("made", []))
        target.user_record.drop(_PART)
    return [Step(REMOVED, "man page", path)] if is_ours else []


def _link(target: Target) -> str:
    return os.path.join(data_home(target.env), "man", "man1", f"{_PAGE}.1")


def _is_ours_man_link(target: Target, path: str) -> bool:
    if not os.path.islink(path):
        return False
    page = target.user_record.get(_PART).get("page")
    return os.readlink(path) in (page, str(asset("man/git-ckpt.1")))
