# SPDX-License-Identifier: MIT
"""Is a `git gc --prune=now` at work, which takes objects that are not named yet?

Such a gc listed the refs before it began to prune: one made meanwhile does not protect
its objects. Every other gc leaves what is younger than two weeks, and is none of ours.
"""

from __future__ import annotations

import os
import time

from ckpt import regular
from ckpt.store.config import GitConfig

_AT_ONCE = ("now", "all")


def wait_for_pruning(common_dir: str, config: GitConfig, seconds: float) -> None:
    """Return when no gc is at work that prunes at once, or after that time."""
    end = time.monotonic() + seconds
    while _prunes_at_once(common_dir, config) and time.monotonic() < end:
        time.sleep(0.01)


def _prunes_at_once(common_dir: str, config: GitConfig) -> bool:
    try:
        pid = int(regular.beginning(os.path.join(common_dir, "gc.pid"), 64).split()[0])
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")
    except (OSError, ValueError, IndexError):  # none, or over, or a system that does not tell
        return False
    asked = [word.removeprefix("--prune=") for word in words if word.startswith("--prune=")]
    expire = asked[-1] if asked else config.get("gc.pruneexpire")
    return expire in _AT_ONCE
