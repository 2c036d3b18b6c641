# SPDX-License-Identifier: MIT
"""The entry point of `git ckpt`; `python -I -m ckpt` is the same program."""

from __future__ import annotations

from ckpt.cli import program

if __name__ == "__main__":
    program()
