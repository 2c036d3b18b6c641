# SPDX-License-Identifier: MIT
"""Install, uninstall and inspect all parts: hooks, guard, wrapper and agents.

If `git-ckpt` is not on PATH, the alias to add for `git ckpt` is printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from ckpt.disk import clear_dead
from ckpt.engine.health import remotes
from ckpt.errors import CkptError
from ckpt.git.config import GitConfig
from ckpt.install import agents, guard, hooks, record
from ckpt.install.record import Step, Target
from ckpt.models import INSTALLED, MISSING, Finding
from ckpt.settings.sources import AGENTS, GIT_HOOKS

EVERYTHING = (*GIT_HOOKS, "guard", "wrapper", *AGENTS)


def install(target: Target, names: Sequence[str]) -> list[Step]:
    """Install the named triggers: hooks, `guard`, `wrapper`, agents."""
    _get_ready(target)
    steps = hooks.install(target, [name for name in names if name in GIT_HOOKS])
    steps += guard.install(target) if "guard" in names else []
    steps += guard.install_wrapper(target) if "wrapper" in names else []
    for agent in (name for name in names if name in AGENTS):
        steps += agents.install(target, agent)
    name = _inspect_name(target)
    if name.mend is not None:
        steps.append(Step("note", name.detail, "alias.ckpt", (name.mend,)))
    for told in () if target.repo is None else remotes(target.repo):
        steps.append(Step("note", told.detail, "remotes", (told.mend or "",)))
    return steps


def uninstall(target: Target, names: Sequence[str]) -> list[Step]:
    _clear_left_over(target)
    steps = guard.uninstall(target) if "guard" in names else []
    if "wrapper" in names:
        is_named = target.is_global or names != EVERYTHING
        steps += guard.uninstall_wrapper(target, is_named=is_named)
    for agent in (name for name in names if name in AGENTS):
        steps += agents.uninstall(target, agent)
    steps += hooks.uninstall(target, [name for name in names if name in GIT_HOOKS])
    record.remove_user_dir(target.user_dir)
    return steps


def inspect(target: Target) -> list[Finding]:
    found = [*hooks.inspect(target), *guard.inspect(target), *agents.inspect(target)]
    return [*found, _inspect_name(target)]


def _get_ready(target: Target) -> None:
    """Check that hooks can start ckpt before anything is written."""
    if record.output_of([target.python, "-I", "-c", "import ckpt.cli"], target.env) is None:
        raise CkptError(
            f"'{target.python} -I' does not find ckpt, and hooks must start it like that",
            hint="install git-ckpt into a virtual environment, or with pipx",
        )
    _clear_left_over(target)


def _clear_left_over(target: Target) -> None:
    """Remove stale files of a killed install."""
    for folder in (target.private, target.user_dir):
        clear_dead(folder)


# -- The `git ckpt` command


def _inspect_name(target: Target) -> Finding:
    program = record.find("git-ckpt", target.env)
    if program is not None:
        return Finding("git ckpt", INSTALLED, f"'{program}'")
    if GitConfig.load(target.env).get("alias.ckpt"):
        return Finding("git ckpt", INSTALLED, "alias in git's configuration")
    start = f"{quote(target.python)} -I -m ckpt"
    alias = f'!cd "./$GIT_PREFIX" && exec {start}'
    mend = f"git config --global alias.ckpt {quote(alias)}"
    return Finding("git ckpt", MISSING, "git-ckpt is not on PATH, and there is no alias", mend)
