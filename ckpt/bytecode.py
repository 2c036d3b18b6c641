# SPDX-License-Identifier: MIT
"""Compiled modules that Python could not write to their end, as on a full disk.

It takes such a file for whole, and fails on it each time: what was needed for the way back stays
out of reach also when there is room again. So a process of ckpt's own compiles the module anew
where that file cannot be used, and leaves none that is not all there.

For that it changes how Python imports, which no library may: only the program does. What is
imported before is smaller than a block of a file system, which is written as a whole or not.
"""

from __future__ import annotations

import os
from _frozen_importlib_external import SourceFileLoader, cache_from_source
from types import CodeType

_get_code, _set_data = SourceFileLoader.get_code, SourceFileLoader.set_data


def get_over_torn() -> None:
    """From now on, import what a file cut off in the middle stands for."""
    for name, function in {"get_code": _get_anyway, "set_data": _set_whole}.items():
        setattr(SourceFileLoader, name, function)


def _get_anyway(loader: SourceFileLoader, module: str) -> CodeType | None:
    try:
        return _get_code(loader, module)
    except (EOFError, ImportError, TypeError, ValueError):
        path = loader.get_filename(module)
        _remove(cache_from_source(path))
        return loader.source_to_code(loader.get_data(path), path)


def _set_whole(loader: SourceFileLoader, path: str, data: bytes, *, _mode: int = 0o666) -> None:
    _set_data(loader, path, data, _mode=_mode)
    try:
        is_whole = os.stat(path).st_size == len(data)
    except OSError:  # not written at all
        return
    if not is_whole:
        _remove(path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:  # it stays in the way of others; here it is not
        pass
