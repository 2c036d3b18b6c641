# SPDX-License-Identifier: MIT
"""Folders that are no worktree to take checkpoints of, whatever git or its settings say."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from ckpt.errors import CkptError, Refused

_GITS_OWN = (
    *("objects", "refs", "reftable", "logs", "hooks", "info", "worktrees", "modules", "lfs"),
    *("ckpt", "rr-cache", "branches", "remotes"),
)


class TooBroad(Refused):
    """The worktree is `/`, the home folder or a folder above it."""


def check_exists(worktree: str) -> None:
    """A folder that is gone is not one from which all files were deleted."""
    try:
        if not stat.S_ISDIR(os.stat(worktree).st_mode):
            raise FileNotFoundError
    except FileNotFoundError:
        from shlex import quote

        told = f"the work tree '{worktree}' does not exist"
        hint = f"to have its files come back, first: mkdir -p {quote(worktree)}"
        raise CkptError(told, hint=hint) from None


def check_breadth(worktree: str, env: Mapping[str, str]) -> None:
    """A worktree that is the home folder or holds it would sweep in everything."""
    check_exists(worktree)
    home = os.path.realpath(env["HOME"]) if env.get("HOME") else None
    if worktree == "/" or (home and os.path.join(home, "").startswith(os.path.join(worktree, ""))):
        raise TooBroad(
            f"refusing to take checkpoints of '{worktree}': it is or holds the home folder",
            hint="work in a repository of its own, or name its folder with -C DIR",
        )


def check_apart(worktree: str, git_dir: str, common_dir: str) -> None:
    """A worktree that is a git dir, or what git keeps in one: to go back there would take away
    the objects and refs that came since. Git runs some hooks so. A linked worktree may lie in
    a folder of its own in the git dir that it shares."""
    shared = [os.path.join(common_dir, name) for name in _GITS_OWN]
    if worktree == common_dir or _is_within(worktree, git_dir, *shared):
        raise Refused(
            "this operation must be run in a work tree",
            hint=f"'{worktree}' is git's own; in a hook: unset GIT_DIR, and name the work tree "
            "with 'git -C DIR ckpt'",
        )


def _is_within(path: str, *folders: str) -> bool:
    """Whether a path is one of these folders, or in one."""
    return os.path.join(path, "").startswith(tuple(os.path.join(f, "") for f in folders))
