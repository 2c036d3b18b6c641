# SPDX-License-Identifier: MIT
"""Where this ckpt was found, if it may be the wrong one.

Without `-I`, Python looks for modules in the current folder first, and a repository
may hold a `ckpt`, `json` or `dulwich` of its own. So `python -m ckpt` refuses to run when it
was found inside the worktree it would work on, unless that is ckpt's own checkout.
"""

from __future__ import annotations

import os
import sys


def refusal() -> str | None:
    """What to tell instead of running, if anything."""
    if not _found_in_the_current_folder() or _is_own_checkout():
        return None
    return (
        f"error: ckpt was imported from '{_package_parent()}', the folder it would work on\n"
        "hint: python -I -m ckpt\n"
    )


def _package_parent() -> str:
    return os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def _found_in_the_current_folder() -> bool:
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        return False
    try:
        return os.path.realpath(os.getcwd()) == _package_parent()
    except FileNotFoundError:
        return False


def _is_own_checkout() -> bool:
    try:
        with open(os.path.join(_package_parent(), "pyproject.toml"), encoding="utf-8") as file:
            return 'name = "git-ckpt"' in file.read()
    except (OSError, UnicodeError):
        return False
