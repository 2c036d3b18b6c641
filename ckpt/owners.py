# SPDX-License-Identifier: MIT
"""Whose a file in a git dir is that may not be touched, and how to get it back.

`sudo git ckpt save`, like `sudo git commit`, leaves files of root's in a repository, and from
then on its owner is refused. Only asked when something has failed.
"""

from __future__ import annotations

import os
import pwd
import shlex

_GIT_DIR = "/.git"


def chown_hint(path: str) -> str | None:
    """The command that helps, if a git dir of ours holds what is another's."""
    top, inside, _ = path.partition(f"{_GIT_DIR}/")
    git_dir = top + _GIT_DIR
    try:
        us = os.stat(git_dir).st_uid
    except OSError:
        return None
    owner = _owner(path)
    if not inside or us != os.geteuid() or owner == us:
        return None
    command = f"sudo chown -R {_name(us)} {shlex.quote(git_dir)}"
    return f"it belongs to {_name(owner)}: get it back with '{command}'"


def _owner(path: str) -> int:
    """Of the path, or of the folder around it that can be looked at."""
    try:
        return os.lstat(path).st_uid
    except OSError:
        return _owner(os.path.dirname(path))


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
