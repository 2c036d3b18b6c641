# SPDX-License-Identifier: MIT
"""What git takes a file for, where the file system cannot say all that a tree can.

Without `core.fileMode` the index says what is executable. Without `core.symlinks` a
link is checked out as a plain file with the target in it, and such a file stays a link
as long as the index has one at its path. A real link is one whatever the settings say.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from ckpt.store.repository import Repository
from ckpt.store.staging import Staged
from ckpt.store.trees import EXECUTABLE, REGULAR, SYMLINK
from ckpt.values import value_class
from ckpt.worktree.modes import is_executable


@value_class
class GitModes:
    """`staged` are the modes in the index, which count only where a setting is off."""

    staged: Mapping[bytes, int]
    file_mode: bool
    symlinks: bool

    def of(self, path: bytes, status: os.stat_result) -> int:
        """The mode of a tree entry for a file or link with these stat data."""
        if stat.S_ISLNK(status.st_mode):
            return SYMLINK
        staged = self.staged.get(path, REGULAR)
        if staged == SYMLINK and not self.symlinks:
            return SYMLINK
        if not self.file_mode:
            return EXECUTABLE if staged == EXECUTABLE else REGULAR
        return EXECUTABLE if is_executable(status.st_mode) else REGULAR


def git_modes(repo: Repository, staged: Staged | None) -> GitModes:
    """Without the index, only where the file system says all."""
    file_mode = repo.config.get_bool("core.filemode", True)
    symlinks = repo.config.get_bool("core.symlinks", True)
    entries = () if staged is None or (file_mode and symlinks) else staged.index.entries
    return GitModes({e.path: e.mode for e in entries if e.stage == 0}, file_mode, symlinks)
