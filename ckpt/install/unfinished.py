# SPDX-License-Identifier: MIT
"""What an install or uninstall that was killed has not finished.

A file is written beside the one that it replaces, always under the same name, so that the next
one to write it takes away what is left. Whoever does not write that file, or takes all of ckpt
out, does so here. One that a living process has in hand is left.
"""

from __future__ import annotations

from ckpt.store.lock import is_dead, remove_dead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

NEW = ".ckpt-new"


def left(paths: Iterable[str]) -> list[str]:
    """Those of them that a killed process has left."""
    return [path + NEW for path in paths if is_dead(path + NEW)]


def clear(paths: Iterable[str]) -> None:
    """Take away what was to become these files."""
    for path in paths:
        remove_dead(path + NEW)
