# SPDX-License-Identifier: MIT
"""The globs in the conditions of git's conditional includes.

Apart from config_sources.py, because few configurations have a condition and `re` takes
longer to import than most of them to read. Unlike git, ckpt reads the configuration of any
repository that lies in a worktree, and none of them may keep it for ever.
"""

from __future__ import annotations

import os
import re

from ckpt import wildmatch

MOST_STEPS = 1 << 28  # for the conditions of one configuration: a second or two at the worst
_STEPS_TO_READ = 64


def steps(pattern: str, text: str) -> int:
    """How long it may take to compare these, in steps."""
    return (len(pattern) + _STEPS_TO_READ) * (len(text) + _STEPS_TO_READ)


def all_below(pattern: str) -> str:
    """What a slash at the end of a glob means."""
    return pattern + "**" if pattern.endswith("/") else pattern


def matches(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    glob = wildmatch.read_any(os.fsencode(pattern), ignore_case=ignore_case)
    name = os.fsencode(text)
    # What has more stars than the text could fill is better not made an expression of.
    if glob is None or wildmatch.shortest(glob) > len(name):
        return False
    return bool(re.fullmatch(wildmatch.expression(glob), name.lower() if ignore_case else name))
