# SPDX-License-Identifier: MIT
"""What is in a git dir: bytes, files, and objects that are stored twice.

Counts all of it, also refs and what ckpt keeps for itself.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.processes import CommandFailed, git_program
from bench.repositories import Clone

_BLOCK = 512  # the unit of st_blocks
_STEP = 2**24


@dataclass(frozen=True, slots=True)
class Usage:
    files: int
    packs: int
    length: int
    allotted: int

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            self.files - other.files,
            self.packs - other.packs,
            self.length - other.length,
            self.allotted - other.allotted,
        )


def usage(folder: Path) -> Usage:
    files = packs = length = allotted = 0
    for place, _, names in os.walk(folder):
        allotted += os.lstat(place).st_blocks * _BLOCK
        for name in names:
            found = os.lstat(os.path.join(place, name))
            files += 1
            packs += name.endswith(".pack")
            length += found.st_size
            allotted += found.st_blocks * _BLOCK
    return Usage(files, packs, length, allotted)


def trees(clone: Clone) -> set[str]:
    """The ids of all trees that the repository has."""
    listed = clone.git(
        "cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)"
    )
    pairs = (line.split() for line in listed.splitlines())
    return {name for kind, name in pairs if kind == "tree"}


def stored_again(clone: Clone, existing: set[str]) -> int:
    """How many of the trees that existed are now in the repository more than once."""
    places = Counter(name for name in _stored(clone) if name in existing)
    return sum(number > 1 for number in places.values())


def _stored(clone: Clone) -> Iterator[str]:
    objects = clone.git_dir / "objects"
    for folder in objects.iterdir():
        if len(folder.name) == 2:
            yield from (folder.name + name for name in os.listdir(folder))
    for index in (objects / "pack").glob("*.idx"):
        yield from _names_in(index)


def _names_in(index: Path) -> Iterator[str]:
    words = [git_program(), "show-index"]
    with open(index, "rb") as file:
        done = subprocess.run(words, stdin=file, capture_output=True, text=True)
    if done.returncode:
        raise CommandFailed(words, done.returncode, done.stderr)
    return (line.split()[1] for line in done.stdout.splitlines())


def write_large_file(path: Path, size: int) -> None:
    """Mostly holes, with noise in between, so that it is soon read and compressed."""
    chance = random.Random(size)
    with open(path, "wb") as file:
        for start in range(0, size, _STEP):
            file.seek(start)
            file.write(chance.randbytes(2**16))
        file.truncate(size)
