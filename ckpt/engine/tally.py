# SPDX-License-Identifier: MIT
"""How many checkpoints were taken here since retention last looked: whether it is time again.

Every save asks, so it must cost next to nothing: a private file that begins with a time and grows
by one byte a save. It is no more than a hint: lost, damaged or not to be written, retention
looks a little later.
"""

from __future__ import annotations

import os
from time import time

from ckpt import disk, private

EVERY = 25  # saves; in between, that many more than the rules keep are there
_A_DAY = 86400
_NAME = "saves"
_HEAD = 11  # bytes: seconds since 1970, and a line break
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW


def count_save(private_dir: str) -> bool:
    """Count one more; True if it is time to look."""
    path = os.path.join(private_dir, _NAME)
    try:
        fd = disk.open_or_create(path, _FLAGS)
    except OSError:
        return False
    try:
        head = os.pread(fd, _HEAD, 0)
        if not head:
            disk.write(fd, b"%010d\n" % time())
            return False
        disk.write(fd, b".")
        since = int(head) if head[-1:] == b"\n" else 0
        return os.fstat(fd).st_size - _HEAD >= EVERY or not 0 <= time() - since < _A_DAY
    except (OSError, ValueError):
        return False
    finally:
        os.close(fd)


def start_again(private_dir: str) -> None:
    """Retention has looked."""
    try:
        private.replace_cache(os.path.join(private_dir, _NAME), [b"%010d\n" % time()])
    except OSError:
        pass
