# SPDX-License-Identifier: MIT
"""Is a `git gc` at work that takes objects which are not named yet, as with `--prune=now`?

Such a gc listed the refs before it began to prune: one made meanwhile does not protect
its objects. Any other leaves what is younger than days, and is none of ours.
"""

from __future__ import annotations

import os
import time

from ckpt import regular
from ckpt.patterns import lazy_pattern
from ckpt.store.config import GitConfig

_EXPIRE = "gc.pruneexpire"
# Git takes an option also by its beginning, if no other begins so.
_PRUNE = lazy_pattern(r"(?s)--p(?:r(?:u(?:ne?)?)?)?=(.*)")
# What is younger than that was not written a moment ago, by whichever clock.
_IN_DAYS = lazy_pattern(r"(?i)never|false|0*[1-9][0-9]*[. ](?:day|week|month|year)s?(?:[. ]ago)?")


def wait_for_pruning(common_dir: str, config: GitConfig, seconds: float) -> bool:
    """Return when no gc is at work that prunes at once, or after that time: then False."""
    end = time.monotonic() + seconds
    while _prunes_at_once(common_dir, config):
        if time.monotonic() >= end:
            return False
        time.sleep(0.01)
    return True


def is_collecting(common_dir: str) -> bool:
    """Whether any gc is at work, as far as the system tells."""
    return _told_to_gc(common_dir) is not None


def _prunes_at_once(common_dir: str, config: GitConfig) -> bool:
    told = _told_to_gc(common_dir)
    if told is None:
        return False
    asked = [found[1] for found in map(_PRUNE.fullmatch, told) if found is not None]
    if not asked and any(_EXPIRE in word.lower() for word in told):
        return True  # whatever it is: nobody asks for what is usual
    expire = asked[-1] if asked else config.get(_EXPIRE)
    return expire is not None and _IN_DAYS.fullmatch(expire) is None


def _told_to_gc(common_dir: str) -> list[str] | None:
    """The words and the environment of the gc at work; None if there is none, or it is over, or
    the system does not tell."""
    try:
        pid = int(regular.beginning(os.path.join(common_dir, "gc.pid"), 64).split()[0])
        words = _words(f"/proc/{pid}/cmdline")
        is_gc = "gc" in words or os.path.basename(words[0]) == "git-gc"
        # Else it is the number of a dead one, by which another process goes now.
        return [*words, *_words(f"/proc/{pid}/environ")] if is_gc else None
    except (OSError, ValueError, IndexError):
        return None


def _words(path: str) -> list[str]:
    with open(path, "rb") as file:
        return os.fsdecode(file.read()).split("\0")
