# SPDX-License-Identifier: MIT
"""Compare the histories of commits, and find unreachable commits and blobs.

dulwich walks the history; the result is None if it is too long or incomplete. Unreachable objects,
for `rescue` and `gc --now`, are those of git fsck, without those of alternates.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ckpt import disk
from ckpt.git.objects import MissingObject, ObjectID, ObjectStore
from ckpt.git.record import CommitData, read_commit
from ckpt.git.repository import Repository
from ckpt.git.trees import UnsafeTree, reach

if TYPE_CHECKING:
    from dulwich.objects import Commit

_STATE = "ckpt: state of "  # the prefix of a state commit's message
_COMMITTER = re.compile(rb"(?m)^committer .*> (\d{1,15})\d* [-+]\d{4}$")
_LAST_SECOND = 253_370_764_799  # of the year 9998, which datetime supports in any time zone
_MOST_COMMITS = 20_000


# -- History


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


# -- Unreachable objects


# Lists objects not reachable from a ref, reflog or index, without checking their contents.
FSCK = ("fsck", "--connectivity-only", "--unreachable", "--no-dangling", "--no-progress")


def unreachable(
    repo: Repository, fsck: bytes
) -> tuple[dict[ObjectID, CommitData], dict[ObjectID, int]]:
    """Return the unreachable commits without unreachable children, and the unreachable blobs in no
    commit with the time git wrote or packed them; `fsck` is the output of `FSCK`."""
    objects = repo.objects
    own = {name: int(status.st_mtime) for name, status in objects.loose_files()}
    for pack in objects.own_packs():
        own |= dict.fromkeys(pack, int(os.stat(pack.path).st_mtime))
    told = re.findall(rb"(?m)^unreachable (commit|blob) ([0-9a-f]+)$", fsck)
    lost = [(kind, ObjectID(name)) for kind, name in told if name in own]
    commits: dict[ObjectID, CommitData] = {}
    held: set[ObjectID] = set()
    for name in (name for kind, name in lost if kind == b"commit"):
        with suppress(MissingObject, UnsafeTree):
            found = read_commit(objects, name)
            if not found.message.startswith(_STATE):  # of a killed save
                commits[name] = found
                reach(objects, found.tree, held)
    inner = {parent for found in commits.values() for parent in found.parents}
    blobs = {name: own[name] for kind, name in lost if kind == b"blob" and name not in held}
    return {name: commits[name] for name in commits.keys() - inner}, blobs


def time_of(commit: CommitData) -> int:
    """Return the commit time, clamped to a valid date."""
    found = _COMMITTER.search(commit.header)
    return min(int(found[1]), _LAST_SECOND) if found else 0
