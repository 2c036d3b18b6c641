# SPDX-License-Identifier: MIT
"""How far apart two commits are, and what of its history only one of them has.

Walks newest first and stops where everything left is common. For the distance, a history that
is cut off (shallow), or a gap that is very wide, gives None rather than a guess.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterable, Set
from dataclasses import dataclass

from ckpt import disk
from ckpt.errors import CkptError, is_want
from ckpt.git.formats import ObjectID
from ckpt.git.objects import MissingObject, ObjectStore

_COMMITTER = re.compile(rb"(?m)^committer .*> (-?\d+) [-+]\d{4}$")
_LEFT, _RIGHT, _BOTH = 1, 2, 3
_MOST_COMMITS = 20_000
_LAST_SECOND = 253_370_764_799  # of the year 9998: whatever the zone, a calendar has it
_MOST_DIGITS = 15


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


@dataclass(frozen=True, slots=True)
class Behind:
    """The commits that one leads to, itself included, and others do not, or more of them where a
    clock ran backwards; `unreadable` are those that are named and cannot be read."""

    commits: tuple[ObjectID, ...]
    unreadable: tuple[ObjectID, ...]


def behind(
    objects: ObjectStore, commit: ObjectID, others: Iterable[ObjectID], ends: Set[ObjectID]
) -> Behind:
    """Walk back from a commit to what others hold; at `ends` a shallow clone ends."""
    sides = dict.fromkeys(others, _RIGHT)
    sides[commit] = sides.get(commit, 0) | _LEFT
    queue: list[tuple[int, ObjectID, list[ObjectID]]] = []
    queued: set[ObjectID] = set()
    left: set[ObjectID] = set()  # of these, those that no other is known to hold
    unreadable: set[ObjectID] = set()

    def add(found: ObjectID) -> None:
        (left.add if sides[found] == _LEFT else left.discard)(found)
        if found in queued:
            return
        try:
            header = _header(objects, found)
        except MissingObject:  # which may be a tag, among the others
            left.discard(found)
            if sides[found] & _LEFT:
                unreadable.add(found)
            return
        heapq.heappush(queue, (-time_in(header), found, _parents_in(header)))
        queued.add(found)

    for each in list(sides):
        add(each)
    while left:
        _, current, parents = heapq.heappop(queue)
        queued.discard(current)
        left.discard(current)
        for parent in parents if current not in ends else ():
            known = sides.get(parent, 0)
            sides[parent] = known | sides[current]
            if sides[parent] != known:
                add(parent)
    commits = (each for each, side in sides.items() if side == _LEFT and each not in unreadable)
    return Behind(tuple(commits), tuple(unreadable))


def ends_of_history(common_dir: str) -> frozenset[ObjectID]:
    """The commits at which a shallow clone ends: their parents are elsewhere."""
    try:
        found = disk.read(os.path.join(common_dir, "shallow"), disk.LARGE)
        return frozenset(map(ObjectID, found.split()))
    except OSError as error:
        if is_want(error):
            raise
        return frozenset()


def _header(objects: ObjectStore, commit: ObjectID) -> bytes:
    return objects.read(commit, b"commit").partition(b"\n\n")[0]


def seconds(digits: str | bytes) -> int:
    """A time since 1970 that anybody may have written, as one that a calendar has."""
    return min(max(int(digits[:_MOST_DIGITS]), 0), _LAST_SECOND)


def time_in(header: bytes) -> int:
    """When the commit with that header was made; 0 if it does not say so."""
    match = _COMMITTER.search(header)
    return seconds(match[1]) if match else 0


def _time(objects: ObjectStore, commit: ObjectID) -> int:
    return time_in(_header(objects, commit))


def _parents(objects: ObjectStore, commit: ObjectID) -> list[ObjectID]:
    return _parents_in(_header(objects, commit))


def _parents_in(header: bytes) -> list[ObjectID]:
    lines = header.split(b"\n")
    return [ObjectID(line[7:]) for line in lines if line.startswith(b"parent ")]
