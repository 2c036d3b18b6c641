# SPDX-License-Identifier: MIT
"""Entries of somebody else's index that stay out of the index here.

A file that is tracked is saved whatever the rules say, and `git reset --hard` removes it. So no
checkpoint that others made has a file tracked which is ignored, denied or left out here and is
not tracked yet: neither what is on disk now nor what may come to be there. Only what the rollback
itself puts where nothing was is staged as it was there, since it is theirs.
"""

from __future__ import annotations

import os
import stat

from ckpt.engine.plan import GIT_DIR, Plan, in_repositories
from ckpt.engine.present import Present
from ckpt.engine.rules import Included, scan_rules
from ckpt.models import SkipReason
from ckpt.paths import folders_above, is_within
from ckpt.settings import Settings
from ckpt.store.index import Index
from ckpt.store.repository import Repository
from ckpt.worktree.ignore import IgnoreTree
from ckpt.worktree.reach import read_plain_file
from ckpt.worktree.write import Worktree

_NOT_STAGED = "so not staged"


def unstaged(
    index: Index, present: Present, plan: Plan, rules: Rules, limits: tuple[bytes, ...]
) -> dict[bytes, str]:
    """The paths of an index that stay out, each with the reason."""
    fold = rules.fold
    tracked = {fold(entry.path) for entry in present.staged.index.entries}
    written = {action.path for action in plan.writes}
    found = {}
    for path in {entry.path for entry in index.entries} - written:
        if fold(path) in tracked or (limits and not is_within(path, limits)):
            continue
        reason = None if present.entry(path) is not None else rules.why_hidden(path)
        if reason is not None:
            found[path] = f"{reason}, {_NOT_STAGED}"
    return found


def in_other_repositories(
    index: Index, present: Present, worktree: Worktree, limits: tuple[bytes, ...]
) -> dict[bytes, str]:
    """Those that stay out however much is trusted: tracked, they would be written into another
    repository by the next rollback."""
    paths = {e.path for e in index.entries if not limits or is_within(e.path, limits)}
    found = in_repositories(paths, present, worktree)
    return {path: f"{reason}, {_NOT_STAGED}" for path, reason in found.items()}


class Rules:
    """Those of the present, also for paths at which nothing is."""

    def __init__(
        self, repo: Repository, settings: Settings, present: Present, worktree: Worktree
    ) -> None:
        staged = present.staged if present.index.is_sparse else None
        self._rules = scan_rules(repo, settings, present.excludes, present.index, staged)
        self._present = present
        self._worktree = worktree
        self._top = os.fsencode(repo.worktree)
        ignore_case = self._rules.ignore_case
        self._ignore = IgnoreTree(self._rules.ignore, self._read, ignore_case=ignore_case)
        self._included = Included(settings.include, ignore_case)

    def fold(self, path: bytes) -> bytes:
        return path.lower() if self._rules.ignore_case else path

    def why_hidden(self, path: bytes) -> str | None:
        """Why no checkpoint would hold a path that is not tracked; None if one would."""
        if is_within(path, tuple(self._rules.git_dirs)):
            return GIT_DIR
        skipped = self._present.skipped
        for place in (path, *folders_above(path)):
            if place in skipped:
                return str(skipped[place])
        return self._by_pattern(path)

    def _by_pattern(self, path: bytes) -> str | None:
        is_folder = self._is_folder(path)
        if self._ignore.ignored(path, is_folder):
            is_taken = self._included.takes(path, is_folder, self._ignore)
            return None if is_taken else "ignored"
        deny = self._rules.deny
        denied = deny.ignored(path, is_folder) or any(
            deny.ignored(folder, True) for folder in folders_above(path)
        )
        return str(SkipReason.DENIED) if denied else None

    def _is_folder(self, path: bytes) -> bool:
        try:
            status = self._worktree.lstat(path)
        except OSError:
            return False
        return status is not None and stat.S_ISDIR(status.st_mode)

    def _read(self, folder: bytes) -> bytes | None:
        path = os.path.join(folder, b".gitignore")
        text = read_plain_file(os.path.join(self._top, path))
        return self._rules.absent_ignore_files.get(path) if text is None else text
