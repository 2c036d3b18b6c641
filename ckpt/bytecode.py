# SPDX-License-Identifier: MIT
"""Compiled modules that Python could not write to their end, as on a full disk.

It takes such a file for whole, and fails on it each time: what was needed for the way back stays
out of reach also when there is room again. Without the file, Python compiles the module anew.
"""

from __future__ import annotations

import os
from contextlib import suppress

_READER, _PATH = "_compile_bytecode", "bytecode_path"


def discard_torn(error: BaseException) -> str | None:
    """Remove the file, if an error comes of one; returns its path."""
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        path = frame.f_locals.get(_PATH) if frame.f_code.co_name == _READER else None
        if isinstance(path, str):
            with suppress(OSError):
                os.unlink(path)
            return path
        trace = trace.tb_next
    return None
