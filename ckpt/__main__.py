# SPDX-License-Identifier: MIT
"""The entry point of `git ckpt`; `python -I -m ckpt` is the same program."""

from __future__ import annotations

import os
from typing import NoReturn


def program() -> NoReturn:
    """Run the command line, without a traceback if its imports are interrupted."""
    try:
        from ckpt import cli
    except KeyboardInterrupt:
        os.write(2, b"interrupted\n")
        os._exit(130)
    cli.program()


if __name__ == "__main__":
    program()
