# SPDX-License-Identifier: MIT
"""Whose a file in a git dir is that may not be touched, and how to get it back.

`sudo git ckpt save`, like `sudo git commit`, leaves files of root's in a repository, and from
then on its owner is refused. Only asked when something has failed.
"""

from __future__ import annotations

import os
import pwd
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_GIT_DIR = "/.git"
_PRIVATE = "ckpt/"  # in it


def owner_hint(path: str) -> str | None:
    """The command that helps, if a git dir of ours holds what is another's, or if it is not ours
    and somebody else takes the checkpoints of its worktree."""
    top, inside, rest = path.partition(f"{_GIT_DIR}/")
    git_dir = top + _GIT_DIR
    try:
        us = os.stat(git_dir).st_uid
    except OSError:
        return None
    owner = _owner(path)
    if not inside or owner == os.geteuid():
        return None
    if us != os.geteuid():
        return _private_hint(owner) if rest.startswith(_PRIVATE) else None
    command = f"sudo chown -R {name_of(us)} {shlex.quote(git_dir)}"
    return f"it belongs to {name_of(owner)}: get it back with '{command}'"


def _private_hint(owner: int) -> str:
    own = "'git worktree add PATH' makes you a worktree of your own"
    return f"the checkpoints of this worktree are those of {name_of(owner)}: {own}"


def is_others(status: os.stat_result, git_dir: str) -> bool:
    """Whether a file of ours in a git dir belongs neither to us nor to whose that is."""
    return status.st_uid not in (os.geteuid(), os.stat(git_dir).st_uid)


def claim(paths: Sequence[str], git_dir: str) -> str:
    """The command that gives such files to us, or if we are root, who may be at work for somebody
    else, to whose the git dir is."""
    us = os.geteuid() or os.stat(git_dir).st_uid
    return f"sudo chown {shlex.join([name_of(us), *paths])}"


def _owner(path: str) -> int:
    """Of the path, or of the folder around it that can be looked at."""
    try:
        return os.lstat(path).st_uid
    except OSError:
        return _owner(os.path.dirname(path))


def name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
