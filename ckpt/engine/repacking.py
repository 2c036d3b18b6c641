# SPDX-License-Identifier: MIT
"""Which of the checkpoints' objects to put into a pack, and beside which.

Only loose ones are looked at, from the checkpoints down: what is in a pack is taken to hold
packed things only, so that the work follows what has piled up, not the size of the repository.
They are put in rows: commits, and for each path the contents and the folders that it had, newest
first, for these resemble each other. How a pack is made of them is in `store.repack`.
"""

from __future__ import annotations

import os
import time
from binascii import Error as NotHexadecimal
from binascii import hexlify, unhexlify

from ckpt.store.loose import loose_path
from ckpt.store.object_scan import loose_objects
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.record import read_commit
from ckpt.store.repack import Repacked, remove_copies, repack
from ckpt.store.trees import FOLDER, GITLINK, UnsafeTree, read_tree
from ckpt.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ckpt.store.repository import Repository

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
