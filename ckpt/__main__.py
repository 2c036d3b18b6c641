# SPDX-License-Identifier: MIT
"""Where the program begins: `git ckpt`, and `python -m ckpt`, which is the same.

Ctrl-C may come while all the rest is being imported, when nothing has been done yet: then it
is over at once, and not with the traceback that Python has for it. What comes before the
first line here is Python's own affair.

Without `-I`, Python looks for modules in the current folder first, and a repository
may hold a `ckpt`, `json` or `dulwich` of its own. So `python -m ckpt` refuses to run when it
was found inside the worktree it would work on, unless that is ckpt's own checkout.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    import _signal as signal  # the other one takes 2 ms


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


def _interrupt(number: int, frame: object) -> NoReturn:
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(130)


def program() -> NoReturn:
    """What `git ckpt` starts."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from ckpt import cli
    except (EOFError, ValueError, TypeError) as error:
        from ckpt.bytecode import discard_torn

        torn = discard_torn(error)
        if torn is None:
            raise
        sys.exit(f"error: Python has written only a part of '{torn}'\nhint: try again")
    cli.program()


def run() -> NoReturn:
    """What `python -m ckpt` starts."""
    if _found_in_the_current_folder() and not _is_own_checkout():
        sys.stderr.write(
            f"error: ckpt was imported from '{_package_parent()}', the folder it would work on\n"
            "hint: python -I -m ckpt\n"
        )
        sys.exit(4)
    program()


if __name__ == "__main__":
    run()
