# SPDX-License-Identifier: MIT
"""What the parts of `install` are given, and what they answer.

Each part (the hooks, the guard, the wrapper, the alias, the man page) is a module with
the same three functions: `install(target)` and `uninstall(target)` return what they did,
step by step, and `inspect(target)` changes nothing and returns what it found. None of them
prints. A step that was done already is returned as `kept`: a second install changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ckpt.errors import Refused
from ckpt.git.repository import Repository
from ckpt.install.record import ConfigFile, Record, data_dir, global_config_path

# What a step did. `to-do`: a trigger that was asked for is not there, because only the user
# may do what it takes; `note`: what was asked for is there, and this is good to know.
ADDED, CHANGED, REMOVED, KEPT = "added", "changed", "removed", "kept"
TO_DO, NOTE = "to-do", "note"
# What a finding says of a trigger.
INSTALLED, MISSING, REPLACED, FOREIGN = "installed", "missing", "replaced", "foreign"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was done, in words that finish 'Added …', or is left to the user.

    `place` is the file, or the config key after its file and a colon. `advice` is what to
    type or to add, line by line.
    """

    action: str
    what: str
    place: str
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """How it stands with a trigger, and the command that mends it if something is wrong.

    `missing` was never installed here, `replaced` was, and another tool took it away;
    `foreign` is where ckpt could only come in by editing what is not its own to edit.
    """

    trigger: str
    state: str
    detail: str
    mend: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where to install: one repository, or, with `is_global`, all of the user's.

    `python` is the interpreter that triggers are to start, by its absolute path. `repo` is
    None only where `is_global` is true and the current folder is in no repository.
    """

    repo: Repository | None
    env: Mapping[str, str]
    python: str
    is_global: bool = False
    edit_tracked: bool = False

    def require_repo(self) -> Repository:
        if self.repo is None:
            raise Refused(
                "this can only be installed into a repository",
                hint="change into one, or name it with -C DIR",
            )
        return self.repo

    @property
    def record(self) -> Record:
        """What was installed here before; of `is_global`, what was installed for the user."""
        return self.user_record if self.is_global else Record(self._repo_record_path())

    @property
    def user_record(self) -> Record:
        return Record(os.path.join(data_dir(self.env), "installed.json"), is_users=True)

    @property
    def config_file(self) -> ConfigFile:
        """Git's configuration for the place to install to: the repository's or the user's."""
        if self.is_global:
            return self.user_config_file
        path = os.path.join(self.require_repo().common_dir, "config")
        return ConfigFile(path, self.record)

    @property
    def user_config_file(self) -> ConfigFile:
        return ConfigFile(global_config_path(self.env), self.user_record)

    def _repo_record_path(self) -> str:
        return os.path.join(self.require_repo().common_dir, "ckpt", "installed.json")
