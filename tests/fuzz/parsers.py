# SPDX-License-Identifier: MIT
"""The table of what parses bytes; `own_files` and `git_files` fill it, one function a parser.

Such a function is given an empty folder, and tells what a file may look like that is right and
how it is read. What a reader may raise is what its callers in ckpt catch, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

Samples = list[bytes]
Read = Callable[[bytes], object]
Build = Callable[[Path], tuple[Samples, Read]]


class Parser(NamedTuple):
    build: Build
    raises: tuple[type[Exception], ...]


PARSERS: dict[str, Parser] = {}


def parser(*raises: type[Exception]) -> Callable[[Build], Build]:
    """Puts a parser into the table, under the name of the function, which may raise these."""

    def register(build: Build) -> Build:
        PARSERS[build.__name__] = Parser(build, raises)
        return build

    return register
