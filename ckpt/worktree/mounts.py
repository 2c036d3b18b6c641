# SPDX-License-Identifier: MIT
"""Whether a file system can be relied on to change a folder's times with the names in it.

POSIX asks for that and nearly all do; FAT does not, and what stands behind FUSE, 9P or a
shared folder of a virtual machine may not. Only those that are known to do so are trusted;
elsewhere every folder is listed each time, as git does it everywhere.
"""

from __future__ import annotations

import os
import sys

_TABLE = "/proc/self/mountinfo"
_RELIABLE = frozenset(
    b"bcachefs btrfs ext2 ext3 ext4 f2fs jfs nfs nfs4 overlay ramfs reiserfs tmpfs xfs zfs".split()
)


def dates_folders(folder: str) -> bool:
    """True if the times of the folders on the file system of one tell of changes to names."""
    if not sys.platform.startswith("linux"):
        return sys.platform == "darwin"
    try:
        with open(_TABLE, "rb") as file:
            return _kind(file.read(), os.fsencode(os.path.realpath(folder))) in _RELIABLE
    except OSError:
        return False


def _kind(table: bytes, folder: bytes) -> bytes:
    """The type of the file system that a folder is on; of several at one place, the last."""
    found, longest = b"", 0
    for line in table.splitlines():
        fields, _, behind = line.partition(b" - ")
        place = _unescaped(fields.split(b" ")[4:5])
        if len(place) >= longest and (folder + b"/").startswith(place.rstrip(b"/") + b"/"):
            found, longest = behind.split(b" ")[0], len(place)
    return found


def _unescaped(place: list[bytes]) -> bytes:
    """Blanks and backslashes are written as octal numbers."""
    text = b"".join(place)
    for code in (b"040", b"011", b"012", b"134"):
        text = text.replace(b"\\" + code, bytes([int(code, 8)]))
    return text
