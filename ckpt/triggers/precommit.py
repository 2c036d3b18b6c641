# SPDX-License-Identifier: MIT
"""The hook `ckpt-save` of pre-commit: a checkpoint with the edits that pre-commit has hidden.

Before its hooks run, pre-commit takes unstaged edits of tracked files off the disk and keeps
them in a patch. They belong to what the user had on disk on typing `git commit`, so they are
laid over what is there now, against the index that git lends for this commit. Where that is
not possible to the letter, the checkpoint holds what is on disk and is partial.

Untracked files stay where they are. Of entries that were only intended to be added (`git add
-N`) pre-commit leaves no trace in the index while a plain `git commit` runs: their files are
in the checkpoint, as untracked ones.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor

from ckpt.engine.present import Present
from ckpt.errors import CkptError
from ckpt.git.index import Index
from ckpt.git.patch import LARGEST
from ckpt.git.repository import Repository
from ckpt.triggers import git_hooks
from ckpt.triggers.fire import Fired, Request, fire, fire_other
from ckpt.triggers.processes import Process, upwards

_PATCH = re.compile(r"patch([0-9]{1,12})-([1-9][0-9]{0,9})")
_PYTHON = re.compile(r"(?i)(python|pypy)[0-9.]*(-dbg|t)?")
_WITH_MODULE = re.compile(r"-[bBdEiIOPqsSuvx]*m(.*)")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_SCRIPT = re.compile(r"pre-commit(-script\.py|[-0-9.]*\.pyz)?")
_TICK = 0.02  # by which the time of a file may lie behind the clock
_ENVIRONMENT = "py_env-"


@dataclass(frozen=True, slots=True)
class PatchFile:
    """Where a patch is, and what is in it; `problem` says why it cannot be used."""

    path: str
    data: bytes = b""
    problem: str | None = None


def pre_commits(pid: int) -> list[Process]:
    """The processes above that are pre-commit, the nearest first."""
    return [process for process in upwards(pid) if is_pre_commit(process.words)]


def is_pre_commit(words: Sequence[str]) -> bool:
    """Whether a command is pre-commit: its script, or its module in some Python. Of one with
    blanks in the path to Python, `ps` gives the pieces."""
    if words and os.path.basename(words[0]) == "pre-commit":
        return True
    rest = iter(words)
    for word in rest:
        if _PYTHON.fullmatch(os.path.basename(word)):
            return _is_told_to_run_it(rest)
    return False


def _is_told_to_run_it(options: Iterator[str]) -> bool:
    for word in options:
        module = _WITH_MODULE.fullmatch(word)
        if module is not None:
            return (module[1] or next(options, "")) == "pre_commit"
        if word in _WITH_VALUE:
            next(options, "")
        elif not word.startswith("-"):
            return bool(_SCRIPT.fullmatch(os.path.basename(word)))
    return False


def stores(env: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """Where pre-commit may keep its patches; `prefix` is that of our Python, which stands in
    another store if pre-commit was told to try a repository out."""
    cache = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", ""), ".cache")
    found = [env.get("PRE_COMMIT_HOME") or os.path.join(cache, "pre-commit")]
    if os.path.basename(prefix).startswith(_ENVIRONMENT):
        found.append(os.path.dirname(os.path.dirname(prefix)))
    return tuple(dict.fromkeys(map(os.path.realpath, found)))


def find_patch(folders: Iterable[str], process: Process) -> PatchFile | None:
    """The patch that a process has made; the newest, if it has hidden edits several times."""
    found = [
        (int(match[1]), os.path.join(folder, match[0]))
        for folder in folders
        for match in map(_PATCH.fullmatch, _names(folder))
        if match is not None and int(match[2]) == process.pid
    ]
    since = started_at(process) if found else None
    made, path = max(found, default=(-1, ""))
    return None if since is None or made < floor(since) else _read(path, since)


def started_at(process: Process) -> float | None:
    """When a process was started, in seconds since 1970, or a little before; None if that
    cannot be told."""
    try:
        if not process.started.isdecimal():
            return _started_by_ps(process.pid)
        since_boot = int(process.started) / os.sysconf("SC_CLK_TCK")
        # The time of the boot, as /proc has it, is rounded, and does not follow the clock.
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot
    except (OSError, ValueError):
        return None


def _started_by_ps(pid: int) -> float:
    """The same where there is no /proc, in whole seconds."""
    import subprocess
    from calendar import timegm

    told = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)],
        env={"LC_ALL": "C", "PATH": os.defpath, "TZ": "UTC0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    return float(timegm(time.strptime(told.stdout.decode().strip(), "%a %b %d %H:%M:%S %Y")))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(path: str, since: float) -> PatchFile | None:
    """The patch in a file; None if the file is older than that."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return PatchFile(path, problem=f"it cannot be read ({error.strerror})")
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if _is_older(status.st_mtime_ns, since):
            return None
        problem = _problem(status)
        return PatchFile(path, b"" if problem else file.read(LARGEST), problem)


def _is_older(mtime_ns: int, since: float) -> bool:
    """Where a file system keeps whole seconds, a time is no better than that."""
    if mtime_ns % 1_000_000_000 == 0:
        return mtime_ns // 1_000_000_000 < floor(since)
    return mtime_ns / 1e9 < since - _TICK


def _problem(status: os.stat_result) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "it is no plain file"
    if status.st_uid != os.geteuid():
        return "it belongs to somebody else"
    if status.st_size > LARGEST:
        return f"it is over {LARGEST >> 20} MiB"
    return None


# -- The hook `ckpt-save` of pre-commit: a checkpoint with the edits that pre-commit has hidden

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
    return replace(fired, warnings=(*fired.warnings, *hidden.warnings))


class HiddenEdits:
    """Puts back into a checkpoint what pre-commit took off the disk; `warnings` tell what of it
    is not certain."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.warnings: list[str] = []

    def lay_over(self, repo: Repository, present: Present) -> Present:
        self.warnings.clear()
        above = pre_commits(os.getppid())
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


# -- The hook `ckpt-prune` of pre-commit: retention after a commit, by the rules of the settings


def prune(start: str, env: Mapping[str, str], event: str, words: Sequence[str]) -> Fired | None:
    return fire_other(start, env, event, _prune)


def _prune(repo: Repository) -> None:
    from ckpt.engine.prune import prune
    from ckpt.settings.settings import load_forgiving

    repo.check_writable()
    settings = load_forgiving(repo)
    prune(repo, settings.policy, patience=settings.hook_budget)
