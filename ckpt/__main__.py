# SPDX-License-Identifier: MIT
"""Where the program begins: `git ckpt`, and `python -m ckpt`, which is the same.

Ctrl-C may come while all the rest is being imported, when nothing has been done yet: then it
is over at once, and not with the traceback that Python has for it. What comes before the
first line here is Python's own affair.

What is done and imported here is little, also for the sake of `bytecode`.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn


def _interrupt(number: int, frame: object) -> NoReturn:
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(130)


def _mind_interrupts() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def program() -> NoReturn:
    """What `git ckpt` starts."""
    _mind_interrupts()
    from ckpt.bytecode import get_over_torn

    get_over_torn()
    from ckpt import cli

    cli.program()


def run() -> NoReturn:
    """What `python -m ckpt` starts."""
    _mind_interrupts()
    from ckpt.shadowing import refusal

    told = refusal()
    if told is not None:
        sys.stderr.write(told)
        sys.exit(4)
    program()


if __name__ == "__main__":
    run()
