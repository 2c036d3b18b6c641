# SPDX-License-Identifier: MIT
"""Report a bug of ckpt: one line for the user, the rest in a file.

The log is among the private files of the worktree, to be sent along with a report. It holds a
traceback, versions and the words that were typed.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence

from ckpt import __version__, disk
from ckpt.errors import CkptError

_LOG = "error.log"


def report(error: Exception, words: Sequence[str], start: str, env: Mapping[str, str]) -> CkptError:
    """Log an unexpected error and turn it into one that can be shown."""
    log = _write_log(error, words, start, env)
    return CkptError(
        f"unexpected {type(error).__name__}: {error}",
        hint=f"this is a bug in ckpt; please report it with '{log}'"
        if log is not None
        else "this is a bug in ckpt; please report it",
    )


def _write_log(
    error: Exception, words: Sequence[str], start: str, env: Mapping[str, str]
) -> str | None:
    from ckpt.git.repository import discover

    text = "\n".join(
        [
            f"git-ckpt {__version__}, Python {sys.version.split()[0]}, {sys.platform}",
            f"words: {list(words)!r}",
            *traceback.format_exception(error),
        ]
    )
    try:
        path = os.path.join(discover(start, env).private_dir, _LOG)
        disk.replace(path, text.encode("utf-8", "backslashreplace"))
    except Exception:  # no place for a log, or the same bug once more
        return None
    return path
