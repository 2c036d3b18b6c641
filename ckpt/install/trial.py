# SPDX-License-Identifier: MIT
"""Try triggers out: real git, in a scratch repository that is removed afterwards.

Only what is byte for byte as this ckpt writes it is run: other hooks may deploy, or take an
hour, and what merely looks like ours may do anything. The rest is reported as not tried out. The
user's configuration does not reach the scratch repository. A trigger works if the checkpoint it
took holds a file that was never added.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ckpt.git.trigger_log import TriggerLog
from ckpt.install import guard, hooks, wrapper
from ckpt.install.programs import run
from ckpt.install.record import Target, read_file, write_file
from ckpt.models import INSTALLED, Finding
from ckpt.settings.sources import TRIGGERS

_NAME = "untracked"
# What sets each trigger off; `side` is a commit that is not merged yet.
_ACTS = {
    "pre-commit": "commit -q --allow-empty -m three",
    "pre-merge-commit": "merge -q --no-ff --no-edit side",
    "pre-rebase": "rebase -q side",
    "pre-push": "push -q . HEAD:refs/heads/pushed",
    "post-checkout": "checkout -q -b switched",
    "guard": "clean -f -q",
    "wrapper": "clean -f -q",
}


class Trial(NamedTuple):
    """`worked` is None for what was not tried out; `is_renewable` if installing again helps."""

    trigger: str
    worked: bool | None
    detail: str
    is_renewable: bool = True


class _TrialFailed(Exception):
    """Git could not do in the scratch repository what it must be able to do anywhere."""


def try_out(target: Target, findings: Sequence[Finding]) -> list[Trial]:
    """Make each trigger that is installed fire once."""
    known = [each.trigger for each in findings if each.state == INSTALLED and each.trigger in _ACTS]
    if not known:
        return []
    folder = tempfile.mkdtemp(prefix="ckpt-doctor-")
    try:
        return [_Scratch(target, os.path.join(folder, name)).trial(name) for name in known]
    except _TrialFailed as error:
        return [Trial(name, False, str(error)) for name in known]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Scratch:
    """The repository in which one trigger is tried out."""

    def __init__(self, target: Target, folder: str) -> None:
        self.top = os.path.join(folder, "repository")
        self.target = target
        self.env = _isolated(target.env, folder)

    def trial(self, trigger: str) -> Trial:
        os.makedirs(self.top)
        self.git("init", "-q")
        self.git("commit", "-q", "--allow-empty", "-m", "one")
        words = ("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "side")
        self.git("branch", "side", self.git(*words).strip())
        self.git("commit", "-q", "--allow-empty", "-m", "two")
        path = self.installed(trigger)
        if path is not None:
            told = f"'{path}' calls ckpt, but not as this ckpt writes it: not tried out"
            return Trial(trigger, None, told, not _is_by_hand(path, trigger))
        with open(os.path.join(self.top, _NAME), "w", encoding="utf-8") as file:
            file.write("never added\n")
        git = wrapper.program(self.target) if trigger == "wrapper" else "git"
        said = run([git, *_ACTS[trigger].split()], self.env, self.top)[2]
        notes = TriggerLog(os.path.join(self.top, ".git", "ckpt"), TRIGGERS).read(trigger)
        if notes.failure is not None:
            told = f"it failed in a scratch repository: {notes.failure.message}"
            return Trial(trigger, False, told)
        if notes.success is None:
            more = f": {said.splitlines()[0]}" if said.strip() else ""
            return Trial(trigger, False, f"git took no checkpoint in a scratch repository{more}")
        self.git("cat-file", "-e", f"refs/checkpoints/{notes.success.id}:{_NAME}")
        return Trial(trigger, True, f"tried out, {notes.success.seconds:.2f} s")

    def installed(self, trigger: str) -> str | None:
        """Install the trigger here as it is there; if it is not ours, the path of its file."""
        target, own = self.target, os.path.join(self.top, ".git")
        if trigger == "wrapper":
            return None if wrapper.is_own(target) else wrapper.program(target)
        if trigger == "guard":
            program = guard.program_of(target)
            places = (target._replace(is_global=True), target)
            if read_file(program) not in map(guard.own_script, places):
                return program
            # A copy that calls no other program, and keeps its notes here.
            copy = os.path.join(own, "ckpt-guard")
            write_file(copy, guard.script(target.python, notes=copy + ".notes"), 0o755)
            self.git("config", "core.fsmonitor", copy)
            return None
        config = hooks.configured_in(target, trigger)
        if config is not None:
            entries = hooks.own_entries(config, trigger, target.python)
            for key, value in entries:
                self.git("config", key, value)
            return None if entries else config.path
        path = hooks.where_it_runs(target, trigger) or ""
        lines = hooks.own_lines(read_file(path), trigger, target.python)
        os.makedirs(os.path.join(own, "hooks"), exist_ok=True)
        write_file(os.path.join(own, "hooks", trigger), hooks.SHEBANG + lines, 0o755)
        return None if lines else path

    def git(self, *words: str) -> str:
        code, out, err = run(["git", *words], self.env, self.top)
        if code != 0:
            raise _TrialFailed(f"'git {words[0]}' failed in a scratch repository: {err.strip()}")
        return out


def _is_by_hand(path: str, trigger: str) -> bool:
    return trigger in hooks.EVENTS and not hooks.has_block(read_file(path))


def _isolated(env: Mapping[str, str], folder: str) -> dict[str, str]:
    """The environment without what belongs to the user's repository and settings."""
    kept = {k: v for k, v in env.items() if not k.startswith(("GIT_", "CKPT_"))}
    for who in ("AUTHOR", "COMMITTER"):
        kept |= {f"GIT_{who}_NAME": "ckpt", f"GIT_{who}_EMAIL": "ckpt@localhost"}
    own = {"HOME": os.path.join(folder, "home"), "GIT_CONFIG_GLOBAL": os.devnull}
    return {**kept, **own, "GIT_CONFIG_NOSYSTEM": "1"}
