# SPDX-License-Identifier: MIT
"""How a filter driver can fail.

Apart from filter_process.py, which takes 20 ms to import: who converts files has to know
these, but few repositories have a driver to run.
"""

from __future__ import annotations


class FilterFailed(Exception):
    """A driver that gave no content; the message is the reason."""


class TimedOut(FilterFailed):
    """A driver that was killed because it took too long."""

    def __init__(self) -> None:
        super().__init__("timed out")


class Rejected(FilterFailed):
    """A process that will not convert this file, and is ready for the next one."""
