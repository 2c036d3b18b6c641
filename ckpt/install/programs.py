# SPDX-License-Identifier: MIT
"""The programs that `install` depends on: git, Python, and `git ckpt` itself.

Where the console script is not on PATH, an alias in the user's configuration stands for it.
`install` is a command that a person types and may start processes, which the engine never does:
they are started here only.
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
from ckpt.install.record import (
    ADDED,
    CHANGED,
    KEPT,
    NOTE,
    REMOVED,
    Step,
    Target,
)
from ckpt.models import INSTALLED, MISSING, Finding

_PACKAGE = Path(__file__).resolve().parent.parent
_SECONDS = 20
_CONFIGURED_HOOKS = (2, 54)


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


# -- Programs


def run(words: Sequence[str], env: Mapping[str, str], folder: str = "/") -> tuple[int, str, str]:
    """Run a program to its end: status, output, errors."""
    try:
        ran = subprocess.run(
            [find(words[0], env) or words[0], *words[1:]],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            cwd=folder,
        )
    except OSError as error:
        return 127, "", f"'{words[0]}': {error.strerror}"
    except subprocess.TimeoutExpired:
        return 124, "", f"'{words[0]}' took more than {_SECONDS} s"
    return ran.returncode, os.fsdecode(ran.stdout), os.fsdecode(ran.stderr)


def find(program: str, env: Mapping[str, str]) -> str | None:
    return shutil.which(program, path=env.get("PATH", os.defpath))


def has_configured_hooks(env: Mapping[str, str]) -> bool:
    """Whether the git on PATH runs hooks that its configuration names."""
    found = re.search(r"version (\d+)\.(\d+)", run(["git", "version"], env)[1])
    return found is not None and (int(found[1]), int(found[2])) >= _CONFIGURED_HOOKS


def runs_alone(python: str, env: Mapping[str, str]) -> bool:
    """Whether an interpreter finds ckpt without the user's own site folder and PYTHONPATH."""
    return run([python, "-I", "-c", "import ckpt.cli"], env)[0] == 0


# -- The alias, which serves all of a user's repositories

_ALIAS = "alias.ckpt"
_ALIAS_END = ' -I -m ckpt "$@"; }; f'


def install(target: Target) -> list[Step]:
    program = find("git-ckpt", target.env)
    if program is not None:
        if _starts(program, target.python):
            return []
        what = f"'git ckpt' starts another installation than the hooks, which call {target.python}"
        return [Step(NOTE, what, program, ("git ckpt install   (to let the hooks call that one)",))]
    wanted = f'!f() {{ cd "./$GIT_PREFIX" && exec {quote(target.python)}{_ALIAS_END}'
    set_now = GitConfig.load(target.env).get(_ALIAS)
    if set_now == wanted:
        return [Step(KEPT, "alias 'git ckpt'", _ALIAS)]
    if set_now and _ALIAS_END not in set_now:
        what = f"alias 'git ckpt': you have one of your own ({set_now})"
        return [Step(NOTE, what, _ALIAS, ("git config --global --unset alias.ckpt",))]
    config = target.user_config_file
    try:
        config.remove(_is_our_alias)
        config.add("alias", None, [("ckpt", wanted)])
    except (OSError, Refused) as error:
        what = f"alias 'git ckpt' could not be set: {error}"
        return [Step(NOTE, what, config.path, (f"{quote(target.python)} -I -m ckpt",))]
    what = "alias 'git ckpt', because git-ckpt is not on PATH"
    return [Step(CHANGED if set_now else ADDED, what, f"{config.path}: {_ALIAS}")]


def uninstall(target: Target) -> list[Step]:
    config = target.user_config_file
    if not config.remove(_is_our_alias):
        return []
    return [Step(REMOVED, "alias 'git ckpt'", f"{config.path}: {_ALIAS}")]


def inspect(target: Target) -> list[Finding]:
    program = find("git-ckpt", target.env)
    if program is not None:
        return [Finding("git ckpt", INSTALLED, f"'{program}'")]
    if _ALIAS_END in (GitConfig.load(target.env).get(_ALIAS) or ""):
        return [Finding("git ckpt", INSTALLED, "alias in git's configuration")]
    mend = f"{quote(target.python)} -I -m ckpt install"
    return [Finding("git ckpt", MISSING, "git-ckpt is not on PATH, and there is no alias", mend)]


def _is_our_alias(key: str, value: str) -> bool:
    return key == _ALIAS and _ALIAS_END in value


def _starts(program: str, python: str) -> bool:
    """Whether a console script starts this interpreter: it is beside it, or names it."""
    if os.path.dirname(os.path.realpath(program)) == os.path.dirname(python):
        return True
    return os.fsencode(python) in disk.beginning(program, 4096)
