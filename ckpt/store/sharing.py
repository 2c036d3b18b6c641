# SPDX-License-Identifier: MIT
"""Repositories that several users write to (`core.sharedRepository`).

New files and folders in the git dir get the bits that git would give them, whatever the
umask of who runs ckpt. What is already there is left as it is; so are ckpt's private
files, which are nobody else's.
"""

from __future__ import annotations

import os
import stat

from ckpt import disk
from ckpt.errors import Refused
from ckpt.values import value_class

_NAMED = {
    "group": 0o660,
    "true": 0o660,
    "yes": 0o660,
    "on": 0o660,
    "1": 0o660,
    "all": 0o664,
    "world": 0o664,
    "everybody": 0o664,
    "2": 0o664,
}
_UNSHARED = ("", "umask", "false", "no", "off", "0")


@value_class
class Sharing:
    """`bits` are added to what the umask left or, if `exact`, stand instead of it. `top` is the
    folder that all is in, which nobody makes anew when it is gone."""

    bits: int = 0
    exact: bool = False
    top: str | None = None

    def adjust(self, path: str) -> None:
        """Give a file or folder that was just made the bits of a shared one."""
        if self.bits:
            mode = os.lstat(path).st_mode
            wanted = self.wanted(mode)
            if wanted != stat.S_IMODE(mode):
                _chmod(path, wanted)

    def wanted(self, mode: int) -> int:
        bits = self.bits
        if not mode & stat.S_IWUSR:
            bits &= ~0o222
        if mode & stat.S_IXUSR:
            bits |= (bits & 0o444) >> 2
        special = stat.S_IMODE(mode) & ~0o777
        wanted = bits | special if self.exact else bits | stat.S_IMODE(mode)
        if stat.S_ISDIR(mode) and wanted & 0o060:
            wanted |= stat.S_ISGID  # what is made inside belongs to the same group
        return wanted

    def make_folders(self, path: str) -> None:
        """Make a folder and those above it, as shared ones where they are new."""
        for folder in disk.make_folders(path, self.top):
            self.adjust(folder)


NOT_SHARED = Sharing()


def _chmod(path: str, bits: int) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        disk.chmod(fd, bits)
    finally:
        os.close(fd)


def read_sharing(value: str | None) -> Sharing:
    """What a value of `core.sharedRepository` asks for; None where there is none."""
    word = (value if value is not None else "umask").lower()
    if word in _UNSHARED:
        return NOT_SHARED
    if word in _NAMED:
        return Sharing(_NAMED[word])
    mode = int(word, 8) if set(word) <= set("01234567") else 0
    if mode & 0o600 != 0o600:
        raise Refused(
            f"bad value '{value}' of core.sharedRepository",
            hint="git config core.sharedRepository group",
        )
    return Sharing(mode & 0o666, exact=True)
