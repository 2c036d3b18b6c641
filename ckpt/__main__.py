# SPDX-License-Identifier: MIT
"""`python -m ckpt`: the same program as `git ckpt`.

Without `-I`, Python looks for modules in the current folder first, and a repository
may hold a `ckpt`, `json` or `dulwich` of its own. So this refuses to run when it was
found inside the worktree it would work on, unless that is ckpt's own checkout.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_PACKAGE_PARENT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def _found_in_the_current_folder() -> bool:
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        return False
    try:
        return os.path.realpath(os.getcwd()) == _PACKAGE_PARENT
    except FileNotFoundError:
        return False


def _is_own_checkout() -> bool:
    try:
        with open(os.path.join(_PACKAGE_PARENT, "pyproject.toml"), encoding="utf-8") as file:
            return 'name = "git-ckpt"' in file.read()
    except (OSError, UnicodeError):
        return False


def run() -> NoReturn:
    if _found_in_the_current_folder() and not _is_own_checkout():
        sys.stderr.write(
            f"error: ckpt was imported from '{_PACKAGE_PARENT}', the folder it would work on\n"
            "hint: python -I -m ckpt\n"
        )
        sys.exit(4)
    from ckpt.cli import program

    program()


if __name__ == "__main__":
    run()
