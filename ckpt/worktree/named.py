# SPDX-License-Identifier: MIT
"""Take the paths that a scan's rules name, whatever the walk made of them.

An included path lies in an ignored folder that the walk did not open; a forced one is about
to be overwritten, and is taken even against the rules. A plain save has neither, and does
not read this. What no walk may enter stays closed here too: links, git dirs, submodules.
"""

from __future__ import annotations

import os
import stat

from ckpt.models import SkipReason
from ckpt.paths import folders_above
from ckpt.worktree import reach
from ckpt.worktree.git_names import is_like_dot_git
from ckpt.worktree.reach import is_nested_repository, is_repository
from ckpt.worktree.scan import Walk


def take_named(walk: Walk) -> None:
    """Add to what a walk has found."""
    for path in walk.rules.include_paths:
        _Naming(walk, forced=False).take(path)
    for path in walk.rules.force:
        _Naming(walk, forced=True).take(path)


class _Naming:
    def __init__(self, walk: Walk, *, forced: bool) -> None:
        self._walk = walk
        self._rules = walk.rules
        self._found = walk.found
        self._forced = forced

    def take(self, path: bytes) -> None:
        """Take a path and all below it."""
        todo = self._take_one(path) if self._can_be_reached(path) else []
        while todo:
            inside = todo.pop()
            todo.extend(self._take_one(inside, is_listed=True))

    def _can_be_reached(self, path: bytes) -> bool:
        """False where a walk would not come: through a link, or inside a git dir or submodule."""
        if any(name in (b"", b".", b"..") or is_like_dot_git(name) for name in path.split(b"/")):
            return False
        if any(map(self._is_closed, folders_above(path))):
            return False
        try:
            return self._walk.parents_are_folders(path, b"")
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # looking at the path itself will tell
            return True

    def _take_one(self, path: bytes, *, is_listed: bool = False) -> list[bytes]:
        """Take a file; give back what is in a folder."""
        try:
            status = reach.lstat(self._place(path))
            if stat.S_ISDIR(status.st_mode):
                return self._open(path, status)
            self._take_file(path, status)
        except (FileNotFoundError, NotADirectoryError):
            if is_listed:
                self._found.miss(path)
        except OSError:
            self._found.skipped[path] = SkipReason.UNREADABLE
        return []

    def _take_file(self, path: bytes, status: os.stat_result) -> None:
        self._found.skipped.pop(path, None)
        self._found.untracked.discard(path)
        self._walk.sort(path, status, self._forced or path in self._walk.tracked)

    def _open(self, folder: bytes, status: os.stat_result) -> list[bytes]:
        if not self._may_open(folder):
            return []
        self._found.folders[folder] = status.st_mode & 0o777
        children = reach.children(self._place(folder))
        if self._forced and not children and folder not in self._found.empty_folders:
            self._found.empty_folders.append(folder)
        return [
            inside
            for child in children
            if not is_like_dot_git(child.name)
            and not self._walk.is_unfinished(inside := folder + b"/" + child.name, child)
        ]

    def _may_open(self, folder: bytes) -> bool:
        if self._is_closed(folder):
            return False
        if not self._forced and self._rules.deny.ignored(folder, True):
            self._found.skipped[folder] = SkipReason.DENIED
            return False
        if not self._forced and self._walk.is_too_late_for(folder):
            self._found.leave_for_later(folder)
            return False
        if is_repository(self._place(folder)):
            self._found.skipped[folder] = SkipReason.NESTED
            return False
        return True

    def _is_closed(self, folder: bytes) -> bool:
        if folder in self._rules.gitlinks:
            return is_nested_repository(self._place(folder))
        return folder in self._rules.git_dirs

    def _place(self, path: bytes) -> bytes:
        return os.path.join(self._walk.top, path)
