# SPDX-License-Identifier: MIT
"""By which stat data a file is known to be the one that it was, with the content that it had."""

from __future__ import annotations

import os


def identity(status: os.stat_result) -> tuple[int, ...]:
    """What changes when a file's content or mode does."""
    return (*renamed_identity(status), status.st_ctime_ns)


def renamed_identity(status: os.stat_result) -> tuple[int, ...]:
    """The same of a file that was given another name meanwhile, which changes a time."""
    return (status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns)
