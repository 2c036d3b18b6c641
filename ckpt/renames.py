# SPDX-License-Identifier: MIT
"""Two ways to rename that Python does not offer: in exchange, and only to a name that is free.

Each is one step for all who look on, so that what stood at a name the moment before is never
lost unseen. To Python, the system or the file system that may be unknown.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from ckpt import disk

try:
    import ctypes
except ImportError:  # a Python that was built without
    _library = None
else:
    _library = ctypes.CDLL(None, use_errno=True)

# What the C library calls it, and what its flags are: only to a free name, in exchange.
_CALLS = {"linux": ("renameat2", 1, 2), "darwin": ("renameatx_np", 4, 2)}
# So says a system that has no such call, or a file system that cannot.
_IMPOSSIBLE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)

_name, _FREE, _EXCHANGE = _CALLS.get(sys.platform, ("", 0, 0))
_call: Callable[[int, bytes, int, bytes, int], int] | None = getattr(_library, _name, None)


def exchange(one: bytes, other: bytes, dir_fd: int) -> bool:
    """Let two files in a folder swap their names; False, and nothing done, where that cannot be."""
    return _rename(one, other, dir_fd, _EXCHANGE)


def to_free(source: bytes, target: bytes, dir_fd: int) -> None:
    """Rename within a folder, FileExistsError if the name is taken; where there is no such
    rename, by a look before."""
    if _rename(source, target, dir_fd, _FREE):
        return
    with suppress(FileNotFoundError):
        os.stat(target, dir_fd=dir_fd, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    disk.rename(source, target, dir_fd=dir_fd)


def _rename(source: bytes, target: bytes, dir_fd: int, flag: int) -> bool:
    if _call is None:
        return False
    if _call(dir_fd, source, dir_fd, target, flag) == 0:
        return True
    error = ctypes.get_errno()
    if error in _IMPOSSIBLE:
        return False
    raise OSError(error, os.strerror(error), target)
