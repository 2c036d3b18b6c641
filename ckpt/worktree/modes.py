# SPDX-License-Identifier: MIT
"""Permission bits, which git's trees round to 644 and 755, and of folders do not know.

Kept as the bits most files of a worktree have and the files that differ, so that a
worktree made under any umask costs a few bytes and a private file stays private; and
likewise for folders.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

_DEFAULTS = (0o644, 0o755)
_FOLDER = 0o755


@dataclass(frozen=True, slots=True)
class Modes:
    """`plain` and `executable` are the usual bits; `others` the files that have different ones.

    `folder` and `folders` say the same of folders; None if nothing was recorded about them.
    """

    plain: int = _DEFAULTS[0]
    executable: int = _DEFAULTS[1]
    others: Mapping[bytes, int] = field(default_factory=dict)
    folder: int | None = None
    folders: Mapping[bytes, int] = field(default_factory=dict)

    def of_folder(self, path: bytes) -> int | None:
        return None if self.folder is None else self.folders.get(path, self.folder)

    def of(self, path: bytes, is_executable: bool) -> int:
        usual = self.executable if is_executable else self.plain
        return self.others.get(path, usual)


def collect(
    permissions: Mapping[bytes, int],
    executables: Set[bytes],
    folders: Mapping[bytes, int],
    *,
    listed: Set[bytes] = frozenset(),
) -> Modes:
    """Sum up the bits of regular files and of folders by path; `executables` are the files
    that git calls so, which without core.fileMode is not for the bits to say. Files of
    `listed` are always among the others: git takes them for links, which have no bits."""
    usual = [_DEFAULTS[0], _DEFAULTS[1]]
    counts = Counter((path in executables, bits) for path, bits in permissions.items())
    for executable in (False, True):
        candidates = [(n, bits) for (kind, bits), n in counts.items() if kind == executable]
        if candidates:
            usual[executable] = max(candidates)[1]
    others = {
        path: bits
        for path, bits in permissions.items()
        if path in listed or bits != usual[path in executables]
    }
    ranking = ((n, bits) for bits, n in Counter(folders.values()).items())
    folder = max(ranking, default=(0, _FOLDER))[1]
    odd_folders = {path: bits for path, bits in folders.items() if bits != folder}
    return Modes(usual[0], usual[1], others, folder, odd_folders)


def is_executable(bits: int) -> bool:
    """As git judges it: the owner may run it."""
    return bool(bits & stat.S_IXUSR)
