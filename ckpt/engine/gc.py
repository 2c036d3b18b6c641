# SPDX-License-Identifier: MIT
"""Give space back: expire the trash, clear what killed processes left, pack objects and refs.

Each step stands for itself, and whatever kills it leaves nothing that the next time would not put
right. Nothing is taken that anything names: only loose copies of what a pack holds, verified.
What nothing names any more is git's to collect, in its own time.
"""

from __future__ import annotations

import os
import re
import stat
import time
from binascii import Error as NotHexadecimal
from binascii import hexlify, unhexlify
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from math import inf
from time import monotonic
from typing import NamedTuple

from ckpt import disk
from ckpt.engine import trash
from ckpt.engine.prune import IN_TRASH
from ckpt.engine.space import Space, measured
from ckpt.engine.trash import MANY_REFS, pack_refs
from ckpt.errors import Busy
from ckpt.git.formats import ObjectID
from ckpt.git.loose import loose_path
from ckpt.git.objects import MissingObject
from ckpt.git.pack_writer import release_left_over
from ckpt.git.reachability import git_dirs
from ckpt.git.record import read_commit
from ckpt.git.repack import Repacked, loose_objects, remove_copies, repack
from ckpt.git.repository import Repository
from ckpt.git.temporaries import clear_dead, dead_files, is_gone, names_in
from ckpt.git.trees import FOLDER, GITLINK, UnsafeTree, read_tree
from ckpt.locks import dead_unfinished, gc_lock, prune_lock

_A_DAY = 86_400.0
_OBJECT = re.compile(r"tmp_(obj|pack|idx)_[0-9a-f]{16}(_[0-9]+)?")
_PRIVATE = re.compile(r"\.tmp-[0-9a-f]{16}")


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
        names = disk.names_in(folder)
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


# -- Which of the checkpoints' objects to put into a pack, and beside which

MANY_LOOSE = 1_000
GRACE = 900.0  # seconds since somebody used an object
# Of 256: some 8,000 in all. Git's own gc comes at 6,700, if somebody lets it.
_ONE_FOLDER, _MANY_IN_ONE = "17", 32


class _Place(NamedTuple):
    """Where an object stands in a checkpoint. A hash stands for the path, which may be long, and
    is then longer in each folder below; two that are alike would only make a pack larger."""

    is_state: bool
    depth: int
    path: int


_WORKTREE = _Place(is_state=False, depth=0, path=0)
_STATE = _Place(is_state=True, depth=0, path=0)
_INDEX = b"index"  # the folder of a state whose paths are those of the worktree


def _inside(place: _Place, name: bytes) -> _Place:
    if place == _STATE and name == _INDEX:
        return _WORKTREE
    return _Place(place.is_state, place.depth + 1, hash((place.path, name)))


def have_piled_up(repo: Repository) -> bool:
    """Whether a gc would help, by a glance: ids are spread evenly over the folders."""
    try:
        return len(os.listdir(os.path.join(repo.objects.path, _ONE_FOLDER))) >= _MANY_IN_ONE
    except OSError:
        return False


def repack_checkpoints(
    repo: Repository,
    *,
    at_least: int = MANY_LOOSE,
    most: int | None = None,
    grace: float = GRACE,
    has_time: Callable[[], bool] = lambda: True,
) -> Repacked:
    """Pack what checkpoints hold and is loose, if it is so much; of the oldest `most` of them, and
    as much as there is time for."""
    loose = set(loose_objects(repo.objects))
    if len(loose) < max(at_least, 1):
        return Repacked()
    packed, copies = remove_copies(repo.objects, loose, grace=grace, has_time=has_time)
    loose -= packed
    commits = _old_commits(repo, loose, grace)[:most]
    rows = _rows(repo, commits[::-1], loose, has_time)
    done = Repacked(removed=copies)
    if sum(map(len, rows)) < at_least:
        return done
    return done + repack(repo.objects, rows, repo.sharing, grace=grace, has_time=has_time)


def _old_commits(repo: Repository, loose: set[bytes], grace: float) -> list[bytes]:
    """The checkpoints that are loose and not of just now, oldest first."""
    refs = {**repo.refs.checkpoints(), **repo.refs.trash()}
    before = time.time() - grace
    found = []
    for name in sorted(refs, key=lambda name: name.rpartition("/")[2]):
        raw_id = unhexlify(refs[name])
        if raw_id in loose and _time(loose_path(repo.objects.path, refs[name])) <= before:
            found.append(raw_id)
    return found


def _time(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _rows(
    repo: Repository, commits: Sequence[bytes], loose: set[bytes], has_time: Callable[[], bool]
) -> list[list[bytes]]:
    """The loose objects of checkpoints, by what they are and where they were.

    What names others comes after them: should there be no time for it, it leads to them again.
    """
    rows: dict[tuple[bytes, _Place], list[bytes]] = {}
    seen: set[bytes] = set()
    for commit in commits:
        todo = [(commit, b"commit", _WORKTREE)] if has_time() else []
        while todo:
            raw_id, kind, place = todo.pop()
            if raw_id not in seen and raw_id in loose:
                seen.add(raw_id)
                rows.setdefault((kind, place), []).append(raw_id)
                todo += _named(repo, raw_id, kind, place)
    return [rows[key] for key in sorted(rows, key=_depth)]


def _depth(row: tuple[bytes, _Place]) -> tuple[bool, bool, int]:
    """Sorts folders after what is in them, then states, then their commits, then checkpoints."""
    kind, place = row
    is_commit = kind == b"commit"
    return is_commit, place.is_state != is_commit, -place.depth - (kind == b"blob")


def _named(
    repo: Repository, raw_id: bytes, kind: bytes, place: _Place
) -> Iterator[tuple[bytes, bytes, _Place]]:
    """What an object names, with the kind and the place of each."""
    object_id = ObjectID(hexlify(raw_id))
    try:
        if kind == b"commit":
            commit = read_commit(repo.objects, object_id)
            # Of a checkpoint the state, which is the last; other commits are git's.
            last = commit.parents[-1:] if place != _STATE else ()
            yield from ((unhexlify(parent), b"commit", _STATE) for parent in last)
            yield unhexlify(commit.tree), b"tree", place
        elif kind == b"tree":
            for name, mode, child in read_tree(repo.objects, object_id):
                if mode != GITLINK:
                    kind = b"tree" if mode == FOLDER else b"blob"
                    yield unhexlify(child), kind, _inside(place, name)
    except (MissingObject, UnsafeTree, NotHexadecimal):
        return


# -- Give space back: expire the trash, clear what killed processes left, pack objects and refs

_PATIENCE = 10.0
_PATIENCE_WITH_PRUNE = 0.5
_MOST_SECONDS = 1.0
_LEAST = 0.8  # seconds, or too little would go into the pack
_MOST_BY_ITSELF = 400  # checkpoints


@dataclass(frozen=True, slots=True)
class Collected:
    """`emptied` are the ids that left the trash, `cleared` the paths of what was left over."""

    emptied: tuple[str, ...]
    cleared: tuple[str, ...]
    repacked: Repacked
    packed_refs: int
    space: Space


def collect(
    repo: Repository, *, force: bool = False, grace: float = GRACE, now: datetime | None = None
) -> Collected:
    """Do all of it; with `force`, pack however few there are."""
    now = now or datetime.now(timezone.utc)
    repo.check_writable()
    with gc_lock(repo.common_dir, timeout=_PATIENCE):
        emptied = _expire_trash(repo, now)
        at_least = 1 if force else MANY_LOOSE
        repacked = repack_checkpoints(repo, at_least=at_least, grace=grace)
        cleared = clear(repo)  # after that, which goes by what a killed gc left
        refs = pack_refs(repo, 1 if force else MANY_REFS)
        return Collected(tuple(emptied), tuple(cleared), repacked, refs, measured(repo))


def collect_by_itself(repo: Repository, seconds: float) -> Repacked:
    """Pack the oldest objects that have piled up, in so many seconds, for nobody asked: rarely,
    as each time makes a pack, and not at all while somebody else is at it."""
    if seconds < _LEAST or not have_piled_up(repo):
        return Repacked()
    until = monotonic() + min(seconds, _MOST_SECONDS) / 2  # the rest goes to finish what was begun
    try:
        with gc_lock(repo.common_dir, timeout=0):
            return repack_checkpoints(
                repo, most=_MOST_BY_ITSELF, has_time=lambda: monotonic() < until
            )
    except Busy:
        return Repacked()


def _expire_trash(repo: Repository, now: datetime) -> list[str]:
    try:
        with prune_lock(repo.common_dir, timeout=_PATIENCE_WITH_PRUNE):
            return trash.empty(repo, (now - IN_TRASH).date())
    except Busy:  # whoever prunes does the same
        return []
