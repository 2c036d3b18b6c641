# SPDX-License-Identifier: MIT
"""What stands for git's index in a checkpoint: found once for each present.

A save writes it, and a rollback compares it with that of its target: if the trees are the
same, neither index need be read entry by entry. Where the index is the one that the last
checkpoint was made of, its trees are known and it is not even opened.
"""

from __future__ import annotations

from ckpt.engine import stat_views
from ckpt.engine.index_facts import packed
from ckpt.engine.present import Present
from ckpt.store import record, staging
from ckpt.store.objects import MissingObject, ObjectID, ObjectStore
from ckpt.store.trees import TreeEntry, diff_trees
from ckpt.values import replace, value_class


@value_class
class IndexState:
    """The index's entries of a state tree, and the files that mislead git, see `stat_views`."""

    entries: dict[bytes, TreeEntry]
    stale: frozenset[bytes] = frozenset()
    unseen: frozenset[bytes] = frozenset()

    @property
    def misleads(self) -> bool:
        return bool(self.stale or self.unseen)

    def is_in(self, objects: ObjectStore, state_tree: ObjectID) -> bool:
        """Whether a state tree holds the same index."""
        return staging.is_stored(objects, state_tree, self.entries)


def index_state(objects: ObjectStore, present: Present, tree: ObjectID) -> IndexState:
    """Write what stands for the index; `tree` is that of the present. As for the last
    checkpoint, if that can be."""
    if present.index_state is None:
        if _is_known(objects, present, tree):
            present.index_state = IndexState(present.index.state_entries())
        else:
            present.index_state = _written(objects, present, tree)
    return present.index_state


def _is_known(objects: ObjectStore, present: Present, tree: ObjectID) -> bool:
    """Whether the trees of the index are known, and no file misleads git."""
    if present.knows_index:
        return stat_views.is_seen_through(present, tree, objects)
    if present.glance is None:
        return False
    changed = _changed(objects, present, present.index.state_entries()[record.INDEX].id, tree)
    misleads = changed is None or stat_views.stale(present) or stat_views.unseen(present, changed)
    return not misleads


def _written(objects: ObjectStore, present: Present, tree: ObjectID) -> IndexState:
    index = present.staged.index
    # What an earlier checkpoint relies on was found whole then, and flushed.
    whole = staging.whole_trees(objects, index) if present.source is None else None
    stages = staging.write_stages(objects, index, whole)
    stale = frozenset(stat_views.stale(present))
    unseen = frozenset(stat_views.unseen(present, _changed(objects, present, stages[0], tree)))
    state = IndexState(
        staging.write_state(objects, index, stale, unseen, stages=stages), stale, unseen
    )
    known = None if state.misleads else packed(state.entries)
    present.index = replace(present.index, state=known)
    return state


def _changed(
    objects: ObjectStore, present: Present, staged: ObjectID, tree: ObjectID
) -> set[bytes] | None:
    """Paths that are not as staged; None if a partial clone cannot tell."""
    try:
        return {path for path, _, _ in diff_trees(objects, staged, tree, present.trees)}
    except MissingObject:
        return None
