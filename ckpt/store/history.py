# SPDX-License-Identifier: MIT
"""How far apart two commits are: the commits that each has and the other lacks.

Walks newest first and stops where everything left is common to both. A history that
is cut off (shallow), or a gap that is very wide, gives None rather than a guess.
"""

from __future__ import annotations

import heapq

from ckpt.errors import CkptError
from ckpt.patterns import lazy_pattern
from ckpt.store.objects import ObjectID, ObjectStore

_COMMITTER = lazy_pattern(rb"(?m)^committer .*> (-?\d+) [-+]\d{4}$")
_LEFT, _RIGHT, _BOTH = 1, 2, 3
_MOST_COMMITS = 20_000


def ahead_behind(objects: ObjectStore, left: ObjectID, right: ObjectID) -> tuple[int, int] | None:
    """(commits only in `left`, commits only in `right`)."""
    sides = {left: _LEFT}
    sides[right] = sides.get(right, 0) | _RIGHT
    try:
        queue = [(-_time(objects, commit), commit) for commit in sides]
        heapq.heapify(queue)
        queued = set(sides)
        while any(sides[commit] != _BOTH for _, commit in queue):
            if len(sides) > _MOST_COMMITS:
                return None
            _, commit = heapq.heappop(queue)
            queued.discard(commit)
            for parent in _parents(objects, commit):
                known = sides.get(parent, 0)
                sides[parent] = known | sides[commit]
                if sides[parent] != known and parent not in queued:
                    heapq.heappush(queue, (-_time(objects, parent), parent))
                    queued.add(parent)
        _settle(objects, sides, list(queued))
    except CkptError:
        return None
    found = list(sides.values())
    return found.count(_LEFT), found.count(_RIGHT)


def _settle(objects: ObjectStore, sides: dict[ObjectID, int], common: list[ObjectID]) -> None:
    """Where a clock ran backwards, common commits were passed before that was known."""
    while common:
        for parent in _parents(objects, common.pop()):
            if sides.get(parent, _BOTH) != _BOTH:
                sides[parent] = _BOTH
                common.append(parent)


def _header(objects: ObjectStore, commit: ObjectID) -> bytes:
    return objects.read(commit, b"commit").partition(b"\n\n")[0]


def _time(objects: ObjectStore, commit: ObjectID) -> int:
    match = _COMMITTER.search(_header(objects, commit))
    return int(match[1]) if match else 0


def _parents(objects: ObjectStore, commit: ObjectID) -> list[ObjectID]:
    lines = _header(objects, commit).split(b"\n")
    return [ObjectID(line[7:]) for line in lines if line.startswith(b"parent ")]
