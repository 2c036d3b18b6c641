# SPDX-License-Identifier: MIT
"""Is a new checkpoint whole, although git may have pruned while it was made?

Its own objects are looked up. Of those that it took over from an earlier checkpoint it is
enough that this one is still there, and of those that git's index named, that the index has
not changed: git prunes neither. If the index did change, everything is looked up.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from ckpt.engine import scan_cache
from ckpt.engine.index_facts import index_identity
from ckpt.engine.present import Present
from ckpt.store import record
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.repository import Repository
from ckpt.store.trees import GITLINK, walk


def is_whole(
    repo: Repository, present: Present, commit: ObjectID, relied_on: AbstractSet[ObjectID]
) -> bool:
    """False if an object of a commit is gone that a ref holds by now; it relied on those."""
    if present.source is not None and not scan_cache.is_held(repo, present.source):
        return False
    if repo.objects.missing({commit, *relied_on}):
        return False
    is_index_same = present.knows_index or index_identity(repo) == present.index.identity
    return is_index_same or _holds_everything(repo, present, commit)


def _holds_everything(repo: Repository, present: Present, commit: ObjectID) -> bool:
    try:
        found = record.read_commit(repo.objects, commit)
        state = record.read_commit(repo.objects, found.parents[-1])
        blobs = _blobs(repo, found.tree) | _blobs(repo, state.tree)
    except MissingObject:
        return False
    if repo.objects.is_partial:  # of which the remote may have the rest
        blobs = {entry.id for path, entry in present.entries.items() if path in present.stats}
    return not repo.objects.missing(blobs)


def _blobs(repo: Repository, tree: ObjectID) -> set[ObjectID]:
    return {entry.id for _, entry in walk(repo.objects, tree) if entry.mode != GITLINK}
