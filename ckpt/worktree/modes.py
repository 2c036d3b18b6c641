# SPDX-License-Identifier: MIT
"""Permission bits, which git's trees round to 644 and 755, and of folders do not know.

Kept as the bits most files of a worktree have and the files that differ, so that a
worktree made under any umask costs a few bytes and a private file stays private; and
likewise for folders.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from typing import NamedTuple

_DEFAULTS = (0o644, 0o755)
_FOLDER = 0o755

# Marks of a file beside its permissions: what git takes it for.
IS_EXECUTABLE, IS_LISTED = 0o1000, 0o2000


class Bounds(NamedTuple):
    """Bits that files and folders get at most, and those that they get in any case: without
    them their owner could not so much as save them again."""

    most: int = 0o777
    least: int = 0

    def of_file(self, bits: int) -> int:
        return bits & self.most | self.least & 0o600

    def of_folder(self, bits: int) -> int:
        return bits & self.most | self.least


ANY_BITS = Bounds()


class Modes(NamedTuple):
    """`plain` and `executable` are the usual bits; `others` the files that have different ones.

    `folder` and `folders` say the same of folders; None if nothing was recorded about them.
    """

    plain: int = _DEFAULTS[0]
    executable: int = _DEFAULTS[1]
    others: Mapping[bytes, int] = {}
    folder: int | None = None
    folders: Mapping[bytes, int] = {}

    def of_folder(self, path: bytes) -> int | None:
        return None if self.folder is None else self.folders.get(path, self.folder)

    def within(self, bounds: Bounds) -> Modes:
        """The same with no more bits and no fewer than that."""
        if bounds == ANY_BITS:
            return self
        return Modes(
            bounds.of_file(self.plain),
            bounds.of_file(self.executable),
            {path: bounds.of_file(own) for path, own in self.others.items()},
            None if self.folder is None else bounds.of_folder(self.folder),
            {path: bounds.of_folder(own) for path, own in self.folders.items()},
        )

    def of(self, path: bytes, is_executable: bool) -> int:
        usual = self.executable if is_executable else self.plain
        return self.others.get(path, usual)


class Usual(NamedTuple):
    """The bits that most files and folders have."""

    plain: int
    executable: int
    folder: int

    def is_unusual_file(self, bits: int) -> bool:
        """Whether a file must be named, from its permissions and marks."""
        usual = self.executable if bits & IS_EXECUTABLE else self.plain
        return bool(bits & IS_LISTED) or bits & 0o777 != usual


def usual(files: Mapping[int, int], folders: Mapping[int, int]) -> Usual:
    """From how many files and folders have which bits, marks of files included."""
    counts: dict[int, int] = {}
    for bits, number in files.items():
        counts[bits & ~IS_LISTED] = counts.get(bits & ~IS_LISTED, 0) + number
    plain = [(n, bits) for bits, n in counts.items() if not bits & IS_EXECUTABLE]
    executable = [(n, bits & 0o777) for bits, n in counts.items() if bits & IS_EXECUTABLE]
    ranking = ((n, bits) for bits, n in folders.items())
    return Usual(
        max(plain, default=(0, _DEFAULTS[0]))[1],
        max(executable, default=(0, _DEFAULTS[1]))[1],
        max(ranking, default=(0, _FOLDER))[1],
    )


def is_executable(bits: int) -> bool:
    """As git judges it: the owner may run it."""
    return bool(bits & stat.S_IXUSR)
