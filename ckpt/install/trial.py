# SPDX-License-Identifier: MIT
"""Try triggers out: real git, in a scratch repository that is thrown away afterwards.

What ckpt has put into a hook is taken over word for word, and nothing else: other hooks of
the user's may deploy, or take an hour, and what only looks like ours may do anything: it is not
tried out, and that is told. The user's configuration does not reach the scratch
repository, nor does anything there reach the user's. A trigger has worked if the checkpoint
it took holds an edit that was neither staged nor committed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ckpt.git.trigger_log import TriggerLog
from ckpt.install import guard, hooks, wrapper
from ckpt.install.programs import run
from ckpt.install.record import ConfigFile
from ckpt.install.target import INSTALLED, Finding, Target
from ckpt.settings.sources import TRIGGERS

_EDITED, _OTHER, _UNTRACKED = "edited", "other", "untracked"


@dataclass(frozen=True, slots=True)
class Trial:
    """`worked` is None for what was not tried out; to install it again may be of use then."""

    trigger: str
    worked: bool | None
    detail: str
    is_renewable: bool = True


def try_out(target: Target, findings: Sequence[Finding]) -> list[Trial]:
    """Make each trigger that is installed fire once."""
    installed = [found.trigger for found in findings if found.state == INSTALLED]
    known = [name for name in installed if name in _ACTS]
    if not known:
        return []
    folder = tempfile.mkdtemp(prefix="ckpt-doctor-")
    try:
        scratch = _Scratch(target, folder)
        scratch.create()
        return [scratch.trial(name) for name in known]
    except _TrialFailed as error:
        return [Trial(name, False, str(error)) for name in known]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _TrialFailed(Exception):
    """Git could not do in the scratch repository what it must be able to do anywhere."""


class _NotOurs(Exception):
    """What is installed is not in ckpt's own words, and must not be run."""

    def __init__(self, path: str, *, is_renewable: bool = True) -> None:
        super().__init__(f"'{path}' calls ckpt, but not as ckpt itself writes it: not tried out")
        self.is_renewable = is_renewable


class _Scratch:
    """The repository in which triggers are tried out."""

    def __init__(self, target: Target, folder: str) -> None:
        self.folder = os.path.join(folder, "repository")
        self.target = target
        self._env = _isolated(target.env, folder)
        self._edits = 0

    def create(self) -> None:
        os.mkdir(self.folder)
        self.git("init", "-q")
        for name in (_EDITED, _OTHER):
            self.write(name, "as committed\n")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "one")

    def trial(self, trigger: str) -> Trial:
        """Edit a file, do what the trigger is there for, and look for the edit."""
        put_in, act, name = _ACTS[trigger]
        self.git("reset", "-q", "--hard")
        try:
            put_in(self, trigger)
        except _NotOurs as error:
            return Trial(trigger, None, str(error), error.is_renewable)
        self._edits += 1
        edit = f"edit {self._edits}, not staged\n"
        self.write(name, edit)
        log = TriggerLog(os.path.join(self.folder, ".git", "ckpt"), TRIGGERS)
        said = act(self)
        notes = log.read(trigger)
        if notes.failure is not None:
            told = f"it failed in a scratch repository: {notes.failure.message}"
            return Trial(trigger, False, told)
        if notes.success is None:
            more = f": {said.splitlines()[0]}" if said.strip() else ""
            return Trial(trigger, False, f"git took no checkpoint in a scratch repository{more}")
        ref = f"refs/checkpoints/{notes.success.id}"
        if self.git("cat-file", "blob", f"{ref}:{name}") != edit:
            return Trial(trigger, False, "its checkpoint lacks an edit that was not staged")
        return Trial(trigger, True, f"tried out, {notes.success.seconds:.2f} s")

    def other_branch(self) -> str:
        """A commit that is not merged yet."""
        root = self.git("rev-list", "--max-parents=0", "HEAD").strip()
        words = ("commit-tree", f"{root}^{{tree}}", "-p", root, "-m", f"branch {self._edits}")
        return self.git(*words).strip()

    def write(self, name: str, text: str) -> None:
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def git(self, *words: str) -> str:
        code, out, err = self.run("git", *words)
        if code != 0:
            raise _TrialFailed(f"'git {words[0]}' failed in a scratch repository: {err.strip()}")
        return out

    def run(self, *words: str) -> tuple[int, str, str]:
        return run(words, self._env, self.folder)


def _isolated(env: Mapping[str, str], folder: str) -> dict[str, str]:
    """The environment without what belongs to the user's repository and settings."""
    kept = {k: v for k, v in env.items() if not k.startswith(("GIT_", "CKPT_"))}
    identity = {f"GIT_{who}_NAME": "ckpt" for who in ("AUTHOR", "COMMITTER")}
    identity |= {f"GIT_{who}_EMAIL": "ckpt@localhost" for who in ("AUTHOR", "COMMITTER")}
    home = {"HOME": os.path.join(folder, "home"), "GIT_CONFIG_GLOBAL": os.devnull}
    return {**kept, **identity, **home, "GIT_CONFIG_NOSYSTEM": "1"}


# What is installed, put into the scratch repository


def _put_hook(scratch: _Scratch, event: str) -> None:
    target = scratch.target
    for config in (target.config_file, target.user_config_file):
        if hooks.is_in(config, event):
            _put_entries(scratch, config, event)
            return
    path = hooks.where_it_runs(target, event) or ""
    text = guard.read(path)
    lines = hooks.our_lines(text, event)
    if not lines:
        raise _NotOurs(path, is_renewable=hooks.has_block(text))
    hook = os.path.join(scratch.folder, ".git", "hooks", event)
    guard.write_program(hook, hooks.SHEBANG + lines)


def _put_entries(scratch: _Scratch, config: ConfigFile, event: str) -> None:
    entries = hooks.our_entries(config, event)
    if not entries:
        raise _NotOurs(config.path)
    for key, value in entries:
        scratch.git("config", key, value)


def _put_guard(scratch: _Scratch, _: str) -> None:
    """A copy that calls no other program, which need not hear of a scratch repository, and
    leaves its notes there."""
    installed = guard.program_of(scratch.target)
    path = os.path.join(scratch.folder, ".git", "ckpt-guard")
    text = guard.alone(guard.read(installed), notes=path + "ed")
    if not text:
        raise _NotOurs(installed)
    guard.write_program(path, text)
    scratch.git("config", "core.fsmonitor", path)


def _put_nothing(scratch: _Scratch, _: str) -> None:
    """The wrapper is the same everywhere."""


# What sets each of them off


def _commit(scratch: _Scratch) -> str:
    scratch.write(_OTHER, "staged\n")
    scratch.run("git", "add", _OTHER)
    return scratch.run("git", "commit", "-q", "-m", "three")[2]


def _merge(scratch: _Scratch) -> str:
    return scratch.run("git", "merge", "-q", "--no-ff", "--no-edit", scratch.other_branch())[2]


def _rebase(scratch: _Scratch) -> str:
    return scratch.run("git", "rebase", "-q", scratch.other_branch())[2]


def _push(scratch: _Scratch) -> str:
    scratch.run("git", "init", "-q", "--bare", os.path.join(scratch.folder, ".git", "remote"))
    return scratch.run("git", "push", "-q", ".git/remote", "HEAD:refs/heads/pushed")[2]


def _switch(scratch: _Scratch) -> str:
    return scratch.run("git", "checkout", "-q", "-b", "switched")[2]


def _discard(scratch: _Scratch) -> str:
    return scratch.run("git", "checkout", "-f", "--", ".")[2]


def _discard_wrapped(scratch: _Scratch) -> str:
    return scratch.run(wrapper.program(scratch.target), "checkout", "-f", "--", ".")[2]


# How each is put in, what sets it off, and the file that is edited before.
_ACTS: dict[str, tuple[Callable[[_Scratch, str], None], Callable[[_Scratch], str], str]] = {
    "pre-commit": (_put_hook, _commit, _EDITED),
    "pre-merge-commit": (_put_hook, _merge, _EDITED),
    # Git starts no rebase with edits, and has put them aside by then with --autostash.
    "pre-rebase": (_put_hook, _rebase, _UNTRACKED),
    "pre-push": (_put_hook, _push, _EDITED),
    "post-checkout": (_put_hook, _switch, _EDITED),
    "guard": (_put_guard, _discard, _EDITED),
    "wrapper": (_put_nothing, _discard_wrapped, _EDITED),
}
