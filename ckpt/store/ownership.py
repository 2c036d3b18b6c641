# SPDX-License-Identifier: MIT
"""Whether a repository of another user, or a bare one, may be used: git's rules for it.

`safe.directory` and `safe.bareRepository` count only from protected configuration, which no
repository can write itself. A value may be a folder, a folder with `/*` for all below it (git
2.46), `*` for all, `.` for the folder that one is in, or nothing, which takes back what came
before. What is not absolute besides is not heard. Left out: `%(prefix)`.
"""

from __future__ import annotations

import os

from ckpt.errors import Refused
from ckpt.store.config import GitConfig
from ckpt.store.config_syntax import expand_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_A_WORKTREE = ("/.git/worktrees/", "/.git/modules/")


def check_declared_safe(subject: str, start: str, env: Mapping[str, str]) -> None:
    """Refuse a repository of another user, unless it is declared safe."""
    is_safe = False
    for value in GitConfig.load(env).get_all("safe.directory"):
        is_safe = bool(value) and (is_safe or _means(value, subject, start, env))
    if not is_safe:
        from shlex import quote

        raise Refused(
            f"detected dubious ownership in repository at '{subject}'",
            hint=f"git config --global --add safe.directory {quote(subject)}",
        )


def _means(value: str, subject: str, start: str, env: Mapping[str, str]) -> bool:
    if value in ("*", "."):
        return value == "*" or subject == start
    path = expand_user(value, env)
    if path is None or not os.path.isabs(path):
        return False
    try:
        if path.endswith("/*"):
            return subject.startswith(os.path.join(os.path.realpath(path[:-1], strict=True), ""))
        return subject == os.path.realpath(path, strict=True)
    except OSError:
        return False  # as one file of settings may serve several machines


def check_bare(git_dir: str, env: Mapping[str, str]) -> None:
    """Refuse a bare repository that was come upon, if only named ones are to be used."""
    is_of_worktree = git_dir.endswith("/.git") or any(part in git_dir for part in _OF_A_WORKTREE)
    wanted = GitConfig.load(env).get("safe.barerepository")
    if wanted == "explicit" and not is_of_worktree:
        raise Refused(
            f"cannot use bare repository '{git_dir}' (safe.bareRepository is 'explicit')",
            hint="name it with GIT_DIR",
        )
