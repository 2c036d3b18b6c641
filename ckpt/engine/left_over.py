# SPDX-License-Identifier: MIT
"""What processes of ours left that were killed: locks, and files that were never finished.

A lock goes when its process is dead, which the kernel tells, and so does what it left in the
object store and in ckpt's folders. Any other temporary file goes when nobody has written to it for
a day; it has a name that only ckpt gives, so that git's own are left to git. Whoever comes back
after a day finds it gone, fails, and has lost nothing.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from math import inf

from ckpt import private
from ckpt.patterns import lazy_pattern
from ckpt.store.lock import dead_unfinished
from ckpt.store.pack_writer import release_left_over
from ckpt.store.roots import git_dirs
from ckpt.store.temporaries import clear_dead, dead_files, is_gone, names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ckpt.store.repository import Repository

_A_DAY = 86_400.0
_OBJECT = lazy_pattern(r"tmp_(obj|pack|idx)_[0-9a-f]{16}(_[0-9]+)?")
_PRIVATE = lazy_pattern(r"\.tmp-[0-9a-f]{16}")


def clear(repo: Repository, now: float | None = None) -> list[str]:
    """Take away what is left over in a repository; returns the paths."""
    repo.refs.clear_dead_locks()
    removed = []
    with suppress(OSError):  # first, as by their indexes it is known which packs are not finished
        removed += release_left_over(os.path.join(repo.objects.path, "pack"))
    removed += clear_dead(repo.objects.path)
    removed += [path for path in _dead_private(repo) if is_gone(path)]
    return removed + [path for path in _old(repo, now) if is_gone(path)]


def unfinished(repo: Repository, now: float | None = None) -> list[str]:
    """Temporary files of ours that nobody is at work at."""
    dead = [path for left in dead_files(repo.objects.path) for path in left if _is_file(path)]
    return [*dict.fromkeys([*dead, *_dead_private(repo), *_old(repo, now)])]


def _dead_private(repo: Repository) -> Iterator[str]:
    for folder in _private_dirs(repo):
        yield from dead_unfinished(folder)


def _old(repo: Repository, now: float | None) -> list[str]:
    before = (time.time() if now is None else now) - _A_DAY
    return [path for path in _unfinished(repo) if _is_file(path, before)]


def _unfinished(repo: Repository) -> Iterator[str]:
    """Temporary files of ours, whoever is at work at them."""
    objects = repo.objects.path
    folders = [f"{objects}/pack", *(f"{objects}/{number:02x}" for number in range(256))]
    for folder in (objects, *folders):
        yield from (os.path.join(folder, n) for n in names_in(folder) if _OBJECT.fullmatch(n))
    for folder in _private_dirs(repo):
        names = private.names_in(folder)
        yield from (os.path.join(folder, name) for name in names if _PRIVATE.fullmatch(name))


def _private_dirs(repo: Repository) -> list[str]:
    return [os.path.join(git_dir, "ckpt") for git_dir in git_dirs(repo)]


def _is_file(path: str, before: float = inf) -> bool:
    """Whether there is a file, last written before a moment: we leave nothing else."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_mtime < before
