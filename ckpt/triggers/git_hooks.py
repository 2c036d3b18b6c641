# SPDX-License-Identifier: MIT
"""Git hooks and pre-commit hooks: decide which calls take a checkpoint.

Before pre-commit runs hooks, it moves unstaged edits of tracked files into a patch. `ckpt-save`
applies that patch to the saved state; if it does not apply exactly, the checkpoint is partial.
Intent-to-add entries are saved as untracked files.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from math import floor
from typing import TYPE_CHECKING

from ckpt import disk
from ckpt.errors import CkptError
from ckpt.git.repository import Repository
from ckpt.triggers import guard
from ckpt.triggers.fire import Fired, Request, fire

if TYPE_CHECKING:
    from ckpt.engine.working_state import Present
    from ckpt.git.index import Index
    from ckpt.settings.settings import Settings

_WHOLE_BRANCH = "1"
_UNKNOWN = (
    "unstaged edits that pre-commit may have hidden are not in this checkpoint: "
    "it is not among the processes that started this one"
)


def run(start: str, env: Mapping[str, str], event: str, words: Sequence[str]) -> Fired | None:
    """Take a checkpoint or prune for a hook, or return None. A checkout of another branch is saved
    because the changes it keeps exist only in the worktree."""
    if event == "ckpt-prune":
        return fire(start, env, Request(event), _prune)
    if event == "ckpt-save":
        checkout = [f"PRE_COMMIT_{name}" for name in ("FROM_REF", "TO_REF", "CHECKOUT_TYPE")]
        words = [env.get(name, "") for name in checkout]
        if checkout[2] in env and not _has_switched(env, words):
            return None
        return _save_with_hidden_edits(start, env)
    if event == "post-checkout" and not _has_switched(env, words):
        return None
    # A hook run by a command the guard has saved for would record a half-finished state, newer
    # than the one to go back to.
    if guard.has_saved(start, env, os.getppid()):
        return None
    complete = guard.stop_if_clean if event == "post-checkout" else None
    return fire(start, env, Request(event, complete=complete))


def _has_switched(env: Mapping[str, str], words: Sequence[str]) -> bool:
    """Return whether `post-checkout` arguments report a switch of HEAD. A checkout of single
    files, a clone or a new worktree leaves nothing to save."""
    if env.get("_PRE_COMMIT_SKIP_POST_CHECKOUT") or len(words) != 3:
        return False
    before, _, flag = words
    return flag == _WHOLE_BRANCH and before.strip("0") != ""


def _prune(repo: Repository, settings: Settings) -> None:
    from ckpt.engine.trash import prune

    prune(repo, settings.policy, patience=settings.hook_budget)


# -- Unstaged edits hidden by pre-commit


def _save_with_hidden_edits(start: str, env: Mapping[str, str]) -> Fired:
    warnings: list[str] = []

    def complete(repo: Repository, present: Present) -> Present:
        present, told = _with_hidden_edits(repo, present, env)
        warnings.extend(told)
        return present

    fired = fire(start, env, Request("ckpt-save", complete=complete))
    return fired._replace(warnings=(*fired.warnings, *warnings))


def _with_hidden_edits(
    repo: Repository, present: Present, env: Mapping[str, str]
) -> tuple[Present, list[str]]:
    """Return the state with the edits pre-commit has hidden, and warnings about it."""
    row = guard.upwards(os.getppid())
    process = next((process for process in row if is_pre_commit(process.words)), None)
    patch = None if process is None else find_patch(stores(env, sys.prefix), process)
    if patch is None:
        if process is not None or not env.get("PRE_COMMIT"):
            return present, []
        return present._replace(lacks_edits=True), [_UNKNOWN]
    from ckpt.engine import overlay
    from ckpt.git.linediff import parse
    from ckpt.git.objects import DamagedObject

    try:
        patches = parse(disk.read_private(patch, refused=0))
        changes = overlay.edits(repo, patches, _lent_index(repo, env))
    except (DamagedObject, OSError, CkptError) as error:
        why = (error.strerror or "unreadable").lower() if isinstance(error, OSError) else error
        told = f"the unstaged edits in '{patch}' are not in this checkpoint: {why}"
        return present._replace(lacks_edits=True), [told]
    return overlay.lay_over(repo, present, changes)


def _lent_index(repo: Repository, env: Mapping[str, str]) -> Index:
    """Read the index git commits from, a temporary one for `git commit -- <path>`."""
    from ckpt.git.index import read_staged

    named = env.get("GIT_INDEX_FILE")
    if not named:
        return read_staged(repo)
    lent = repo._replace(index_path=os.path.join(repo.worktree, named))
    vars(lent)["objects"] = repo.objects
    return read_staged(lent)


def is_pre_commit(words: Sequence[str]) -> bool:
    """Return whether a process is pre-commit, running a command that hides edits."""
    name, commands = r"pre[-_]commit(?:-[-\d.]+pyz)?", r"(?:run|hook-impl|try-repo)\b"
    alone = r"\A\S*python[\d.]* \S*/pre-commit\Z"
    line = " ".join(words)
    return re.search(rf"(?:\A|[/ ]| -\w*m){name} {commands}|{alone}", line) is not None


def stores(env: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """Return the directories where pre-commit may keep patches; `prefix` is our sys.prefix, which
    `pre-commit try-repo` has in another one."""
    cache = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", ""), ".cache")
    found = [env.get("PRE_COMMIT_HOME") or os.path.join(cache, "pre-commit")]
    if os.path.basename(prefix).startswith("py_env-"):
        found.append(os.path.dirname(os.path.dirname(prefix)))
    return tuple(dict.fromkeys(map(os.path.realpath, found)))


def find_patch(folders: Iterable[str], process: guard.Process) -> str | None:
    """Return the newest patch written by a process."""
    found = [
        (int(match[1]), os.path.join(folder, match[0]))
        for folder in folders
        for name in disk.names_in(folder)
        if (match := re.fullmatch(rf"patch([0-9]{{1,12}})-{process.pid}", name))
    ]
    made, path = max(found, default=(0, None))
    since = started_at(process) if path else None
    return None if since is None or made < floor(since) else path


def started_at(process: guard.Process) -> float | None:
    """Return the start time of a process in seconds since 1970; None if unknown."""
    try:
        if process.started.isdecimal():
            since_boot = int(process.started) / os.sysconf("SC_CLK_TCK")
            # The boot time in /proc is rounded, and ignores changes of the clock.
            return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot
        from calendar import timegm

        return float(timegm(time.strptime(process.started, "%a-%b-%d-%H:%M:%S-%Y")))
    except (OSError, ValueError):
        return None
