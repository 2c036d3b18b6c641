# SPDX-License-Identifier: MIT
"""gc: expire the trash, clear what killed processes left, pack our refs.

Objects are git's to pack and to collect: how many of them wait for its gc is counted.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from math import inf
from typing import NamedTuple

from ckpt import disk
from ckpt.engine import trash
from ckpt.engine.prune import IN_TRASH
from ckpt.engine.trash import pack_refs
from ckpt.errors import Busy
from ckpt.git.loose import clear_dead, dead_files, loose_ids, loose_path, names_in
from ckpt.git.repository import Repository, git_dirs
from ckpt.locks import dead_unfinished, prune_lock

_PATIENCE = 0.5
_A_DAY = 86_400.0
_OBJECT = re.compile(r"tmp_(obj|pack)_[0-9a-f]{16}(_[0-9]+)?")
_PRIVATE = re.compile(r"\.tmp-[0-9a-f]{16}")
# Of 256 directories: some 8,000 in all. Git's own gc comes at 6,700, if it is allowed to.
_ONE_FOLDER, _MANY_IN_ONE = "17", 32


class Collected(NamedTuple):
    """`emptied` are the ids that left the trash, `cleared` the paths of leftover files; `loose`
    and `loose_bytes` are what waits for git's own gc."""

    emptied: tuple[str, ...]
    cleared: tuple[str, ...]
    packed_refs: int
    loose: int
    loose_bytes: int


def collect(repo: Repository, today: datetime | None = None) -> Collected:
    """Do all of it."""
    repo.check_writable()
    emptied = _expire_trash(repo, today or datetime.now(timezone.utc))
    cleared = clear(repo)
    return Collected(tuple(emptied), tuple(cleared), pack_refs(repo, 1), *_loose(repo))


def _loose(repo: Repository) -> tuple[int, int]:
    count = size = 0
    for object_id in loose_ids(repo.objects.path, repo.object_format.hex_length):
        with suppress(OSError):
            size += os.stat(loose_path(repo.objects.path, object_id)).st_size
            count += 1
    return count, size


def _expire_trash(repo: Repository, now: datetime) -> list[str]:
    try:
        with prune_lock(repo.common_dir, timeout=_PATIENCE):
            return trash.empty(repo, (now - IN_TRASH).date())
    except Busy:  # the process that prunes does the same
        return []


def have_piled_up(repo: Repository) -> bool:
    """Whether git's gc would help, by a glance: ids are spread evenly over the directories."""
    return len(names_in(os.path.join(repo.objects.path, _ONE_FOLDER))) >= _MANY_IN_ONE


# Leftover files


def clear(repo: Repository, now: float | None = None) -> list[str]:
    """Remove what killed processes left; returns the paths."""
    repo.refs.clear_dead_locks()
    removed = clear_dead(repo.objects.path)
    for path in [*_dead_private(repo), *_old(repo, now)]:
        with suppress(OSError):
            disk.unlink(path)
            removed.append(path)
    return removed


def unfinished(repo: Repository, now: float | None = None) -> list[str]:
    """Temporary files of ours that no process is writing."""
    dead = filter(_is_file, dead_files(repo.objects.path))
    return [*dict.fromkeys([*dead, *_dead_private(repo), *_old(repo, now)])]


def _dead_private(repo: Repository) -> Iterator[str]:
    for folder in _private_dirs(repo):
        yield from dead_unfinished(folder)


def _old(repo: Repository, now: float | None) -> list[str]:
    """Temporary files that were last written more than a day ago."""
    before = (time.time() if now is None else now) - _A_DAY
    objects = repo.objects.path
    found = [os.path.join(f, n) for f in (objects, f"{objects}/pack") for n in _named(f, _OBJECT)]
    for folder in _private_dirs(repo):
        names = filter(_PRIVATE.fullmatch, disk.names_in(folder))
        found += [os.path.join(folder, name) for name in names]
    return [path for path in found if _is_file(path, before)]


def _named(folder: str, pattern: re.Pattern[str]) -> list[str]:
    return list(filter(pattern.fullmatch, names_in(folder)))


def _private_dirs(repo: Repository) -> list[str]:
    return [os.path.join(git_dir, "ckpt") for git_dir in git_dirs(repo)]


def _is_file(path: str, before: float = inf) -> bool:
    """Whether a regular file is there, last written before a moment."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_mtime < before
