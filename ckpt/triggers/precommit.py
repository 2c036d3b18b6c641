# SPDX-License-Identifier: MIT
"""The hook `ckpt-save` of pre-commit: a checkpoint with the edits that pre-commit has hidden.

Before its hooks run, pre-commit moves unstaged edits of tracked files into a patch. They belong to
what the user had on disk, so they are laid over the files there are now, against the index that git
lends for this commit. Where that cannot be done exactly, the checkpoint holds what is on disk and
is partial. Intent-to-add entries (`git add -N`) are saved as untracked files.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import floor
from typing import TYPE_CHECKING, NamedTuple

from ckpt import disk
from ckpt.errors import CkptError
from ckpt.git.repository import Repository
from ckpt.settings.settings import load_forgiving
from ckpt.triggers import git_hooks
from ckpt.triggers.fire import Fired, Request, fire, fire_other
from ckpt.triggers.processes import Process, upwards

if TYPE_CHECKING:
    from ckpt.engine.present import Present
    from ckpt.git.index import Index

_PATCH = re.compile(r"patch([0-9]{1,12})-([1-9][0-9]{0,9})")
# Its script, or its module in some Python. With blanks in the path to Python, `ps` splits that.
_PRE_COMMIT = re.compile(
    r"(?i)(?:\S*/)?pre-commit(?: |\Z)"
    r"|(?:[^\n]*/)?(?:python|pypy)[\d.]*(?:-dbg|t)?(?: -[WX] \S+| -[a-zA-Z]+)*?"
    r"(?: -[a-zA-Z]*m ?pre_commit| (?:\S*/)?pre-commit(?:-script\.py|[-\d.]*\.pyz)?)(?: |\Z)"
)
_ENVIRONMENT = "py_env-"
_UNKNOWN = (
    "unstaged edits that pre-commit may have hidden are not in this checkpoint: "
    "it is not among the processes that started this one"
)


def run(start: str, env: Mapping[str, str], event: str, words: Sequence[str]) -> Fired | None:
    """A checkpoint for a call of the hook; None if there is no reason for one."""
    checkout_type = env.get("PRE_COMMIT_CHECKOUT_TYPE")
    if checkout_type is not None:
        refs = [env.get(f"PRE_COMMIT_{side}_REF", "") for side in ("FROM", "TO")]
        if not git_hooks.has_switched(env, [*refs, checkout_type]):
            return None
    hidden = HiddenEdits(env)
    fired = fire(start, env, Request(event, complete=hidden.lay_over))
    return fired._replace(warnings=(*fired.warnings, *hidden.warnings))


class HiddenEdits:
    """Adds the edits that pre-commit has hidden to a checkpoint; `warnings` name those that are
    not certain."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.warnings: list[str] = []

    def lay_over(self, repo: Repository, present: Present) -> Present:
        self.warnings.clear()
        above = [each for each in upwards(os.getppid()) if is_pre_commit(each.words)]
        folders = stores(self._env, sys.prefix)
        for process in above:
            patch = find_patch(folders, process)
            found = present if patch is None else self._laid_over(repo, present, patch)
            if patch is not None and not isinstance(found, str):
                return found
            # That of an outer pre-commit may well be for another repository.
            if patch is not None and process is above[0]:
                what = f"the unstaged edits in '{patch.path}' are not in this checkpoint"
                return self._without_edits(present, f"{what}: {found}")
        if not above and self._env.get("PRE_COMMIT"):
            return self._without_edits(present, _UNKNOWN)
        return present

    def _without_edits(self, present: Present, message: str) -> Present:
        self.warnings.append(message)
        return replace(present, lacks_edits=True)

    def _laid_over(self, repo: Repository, present: Present, patch: PatchFile) -> Present | str:
        """Lay a patch over what is on disk, or say why that cannot be done."""
        from ckpt.engine import overlay
        from ckpt.git.patch import BadPatch, parse

        if patch.problem is not None:
            return patch.problem
        try:
            index = _lent_index(repo, self._env)
            changes = overlay.edits(repo, parse(patch.data), index)
        except BadPatch as error:
            return str(error)
        except CkptError as error:
            return error.message
        present, doubts = overlay.lay_over(repo, present, changes)
        self.warnings += doubts
        return present


def _lent_index(repo: Repository, env: Mapping[str, str]) -> Index:
    """The index of which git makes the commit: of `commit -- path` it is not the user's own."""
    from ckpt.git.index import read_staged

    named = env.get("GIT_INDEX_FILE")
    if not named:
        return read_staged(repo).index
    lent = replace(repo, index_path=os.path.join(repo.worktree, named))
    vars(lent)["objects"] = repo.objects
    return read_staged(lent).index


def prune(start: str, env: Mapping[str, str], event: str, words: Sequence[str]) -> Fired | None:
    """The hook `ckpt-prune`: retention after a commit, by the rules of the settings."""
    return fire_other(start, env, event, _prune)


def _prune(repo: Repository) -> None:
    from ckpt.engine.prune import prune

    repo.check_writable()
    settings = load_forgiving(repo)
    prune(repo, settings.policy, patience=settings.hook_budget)


# -- The patches of pre-commit


class PatchFile(NamedTuple):
    """Where a patch is, and its contents; `problem` says why it cannot be used."""

    path: str
    data: bytes = b""
    problem: str | None = None


def is_pre_commit(words: Sequence[str]) -> bool:
    return _PRE_COMMIT.match(" ".join(words)) is not None


def stores(env: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """Where pre-commit may keep its patches; `prefix` is that of our Python, which is in another
    store under `pre-commit try-repo`."""
    cache = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", ""), ".cache")
    found = [env.get("PRE_COMMIT_HOME") or os.path.join(cache, "pre-commit")]
    if os.path.basename(prefix).startswith(_ENVIRONMENT):
        found.append(os.path.dirname(os.path.dirname(prefix)))
    return tuple(dict.fromkeys(map(os.path.realpath, found)))


def find_patch(folders: Iterable[str], process: Process) -> PatchFile | None:
    """The patch that a process has made; the newest, if it has hidden edits several times."""
    found = [(-1, "")]
    for folder in folders:
        with suppress(OSError):
            for match in filter(None, map(_PATCH.fullmatch, os.listdir(folder))):
                if int(match[2]) == process.pid:
                    found.append((int(match[1]), os.path.join(folder, match[0])))
    made, path = max(found)
    since = started_at(process) if path else None
    if since is None or made < floor(since):
        return None
    try:
        return PatchFile(path, disk.read_private(path, refused=0))
    except OSError as error:
        return PatchFile(path, problem=f"it cannot be read ({error.strerror})")


def started_at(process: Process) -> float | None:
    """When a process was started, in seconds since 1970; None if that is not known."""
    try:
        if process.started.isdecimal():
            since_boot = int(process.started) / os.sysconf("SC_CLK_TCK")
            # The time of the boot, as /proc has it, is rounded, and does not follow the clock.
            return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot
        from calendar import timegm

        return float(timegm(time.strptime(process.started, "%a-%b-%d-%H:%M:%S-%Y")))
    except (OSError, ValueError):
        return None
