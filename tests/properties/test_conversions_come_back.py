# SPDX-License-Identifier: MIT
"""Random walks through a worktree in which git converts nearly everything.

Attributes, configuration and contents change at every other step, so that files are often
not what their rules would make of them. What must hold is in walk.py.
"""

from __future__ import annotations

import os
import random

import pytest
from helpers import git
from properties.walk import Step, Walk

NAMES = ["a", "b", "d/a", "d/b", "c.txt", "d/c.txt"]
ATTRIBUTES_FILES = [".gitattributes", "d/.gitattributes"]
CONTENTS = [
    *(b"", b"1\n", b"2\n", b"1\n2\n", b"1\r\n2\r\n", b"1\r\n2\n", b"2\r\n", b"$Id$\n"),
    *(b"$Id: x $\r\n", b"\0\r\n", b"3\r\n\r\n", b"\xff\xfe1\0\n\0", b"xyz\n", b"yxz\r\n"),
]
ATTRIBUTES = [
    *("", "* text=auto\n", "*.txt eol=crlf\n", "a text\n", "* -text\n", "* ident\n"),
    *("*.txt text ident\n", "c.txt working-tree-encoding=UTF-16\n", "* filter=turn\n"),
    *("*.txt filter=turn text\nd/** ident\n", "b filter=lossy\n", "* text=auto eol=crlf\n"),
    *("* text=auto\n.gitattributes filter=turn\n", "* filter=broken\n"),
]
COMMANDS = [
    *("add -A", "add a d", "add -N b", "commit -qam one", "commit -qam two", "reset -q --hard"),
    *("reset -q", "checkout -qf other", "checkout -qf main", "stash -q", "stash pop -q"),
    *("add --renormalize .", "checkout -q .", "rm -q --cached a", "merge other", "status"),
    *("config core.autocrlf true", "config core.autocrlf false", "config core.autocrlf input"),
    *("update-index --really-refresh", "gc -q --prune=now"),
]
DRIVERS = {
    "turn": ("tr x-z a-c", "tr a-c x-z"),
    "lossy": ("tr -d x", "cat"),
    "broken": ("exit 1", "exit 1"),
}


def a_step(chance: random.Random) -> Step:
    kind = chance.choices(
        ["write", "attributes", "remove", "git", "save", "rollback", "undo"],
        [35, 10, 5, 20, 12, 13, 5],
    )[0]
    steps: dict[str, Step] = {
        "write": ("write", chance.choice(NAMES), chance.choice(CONTENTS)),
        "attributes": (
            "write",
            chance.choice(ATTRIBUTES_FILES),
            chance.choice(ATTRIBUTES).encode(),
        ),
        "remove": ("remove", chance.choice([*NAMES, ".gitattributes"])),
        "git": ("git", *chance.choice(COMMANDS).split()),
        "rollback": ("rollback", chance.randrange(8), chance.random() < 0.4),
    }
    return steps.get(kind, (kind,))


@pytest.mark.parametrize("seed", range(int(os.environ.get("CKPT_FUZZ_EXAMPLES", "8"))))
def test_bytes_and_status_come_back_whatever_git_converts(seed: int) -> None:
    chance = random.Random(seed)
    walk = Walk()
    git("config", "core.safecrlf", "false", cwd=walk.top)
    for name, (clean, smudge) in DRIVERS.items():
        git("config", f"filter.{name}.clean", clean, cwd=walk.top)
        git("config", f"filter.{name}.smudge", smudge, cwd=walk.top)
    try:
        for _ in range(40):
            walk.take(*a_step(chance))
    except BaseException as error:
        raise AssertionError(f"after {walk.steps!r}") from error
    walk.end()
