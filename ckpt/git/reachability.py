# SPDX-License-Identifier: MIT
"""Compare the histories of commits, which dulwich walks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ckpt import disk
from ckpt.git.objects import MissingObject, ObjectID, ObjectStore
from ckpt.git.record import read_commit
from ckpt.git.repository import Repository

if TYPE_CHECKING:
    from dulwich.objects import Commit

_MOST_COMMITS = 20_000


def ahead_behind(repo: Repository, left: ObjectID, right: ObjectID) -> tuple[int, int] | None:
    """Count the commits only in `left` and only in `right`; None if unknown."""
    try:
        ahead = only_in(repo, [left], [right], _MOST_COMMITS)
        return len(ahead), len(only_in(repo, [right], [left], _MOST_COMMITS))
    except MissingObject:
        return None


def only_in(
    repo: Repository,
    commits: Sequence[ObjectID],
    others: Iterable[ObjectID],
    most: float = float("inf"),
) -> list[ObjectID]:
    """Return the commits reachable from `commits` but not from `others`, up to the boundary of a
    shallow clone; MissingObject if one is missing or more than `most` are walked."""
    from dulwich.walk import Walker

    ends = ends_of_history(repo.common_dir)
    held = [other for other in others if repo.objects.kind(other) == b"commit"]
    walker = Walker(
        _Commits(repo.objects, most),  # type: ignore[arg-type]  # has what a walk uses
        commits,
        held,
        get_parents=lambda found: [] if found.id in ends else found.parents,
    )
    return [entry.commit.id for entry in walker]


class _Commits:
    """A store of commits for dulwich's walker."""

    def __init__(self, objects: ObjectStore, most: float) -> None:
        self._objects = objects
        self._left = most

    def __getitem__(self, name: ObjectID) -> Commit:
        from dulwich.errors import ObjectFormatException
        from dulwich.objects import Commit

        self._left -= 1
        if self._left < 0:
            raise MissingObject(name, "too far away is commit")
        commit = Commit()
        commit.set_raw_string(read_commit(self._objects, name).header + b"\n\n", name)
        try:
            int(commit.commit_time)
        except (ObjectFormatException, TypeError):
            raise MissingObject(name, "damaged commit") from None
        return commit


def ends_of_history(common_dir: str) -> frozenset[ObjectID]:
    """Return the boundary commits of a shallow clone."""
    try:
        found = disk.read(os.path.join(common_dir, "shallow"), disk.LARGE)
    except FileNotFoundError:
        return frozenset()
    return frozenset(map(ObjectID, found.split()))
