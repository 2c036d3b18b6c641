# SPDX-License-Identifier: MIT
"""Is a new checkpoint whole, although git may have pruned while it was made?

Its own objects are looked up. Of those that it took over from an earlier checkpoint it is
enough that this one is still there, and of those that git's index named, that the index has
not changed: git prunes neither. If the index did change, everything is looked up, and what nothing
else names is written once more.

What an earlier checkpoint should hold may be gone all the same, by damage. So what only
checkpoints have is looked up before it is taken over: the file itself may still be there.
"""

from __future__ import annotations

import os

from ckpt.engine import scan_cache
from ckpt.engine.index_facts import index_identity
from ckpt.engine.present import Present
from ckpt.paths import folders_above, folders_of
from ckpt.store import record
from ckpt.store.objects import MissingObject, ObjectID, ObjectsPruned, ObjectStore
from ckpt.store.repository import Repository
from ckpt.store.staging import stage_trees
from ckpt.store.trees import GITLINK, lookup, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from ckpt.engine.summary import Compared
    from ckpt.store.trees import Entries

_MOST_LOOKED_FOR = 1000


def is_whole(
    repo: Repository, present: Present, commit: ObjectID, relied_on: AbstractSet[ObjectID]
) -> bool:
    """False if an object of a commit is gone that a ref holds by now; it relied on those."""
    if present.source is not None and not scan_cache.is_held(repo, present.source):
        return False
    if repo.objects.missing({commit, *relied_on}):
        return False
    is_index_same = present.knows_index or index_identity(repo) == present.index.identity
    return is_index_same or (_holds_everything(repo, present, commit) and _keeps(repo, commit))


def has_what_it_relies_on(objects: ObjectStore, present: Present, compared: Compared) -> bool:
    """False if something is gone that the cache names and HEAD does not have, which is git's to
    look after. Of very many files a part is looked for, another part the next time."""
    if present.source is None:
        return True
    paths = [path for path, (_, now) in compared.changes.items() if now is not None]
    if len(paths) > _MOST_LOOKED_FOR:
        start = int.from_bytes(os.urandom(4), "big") % len(paths)
        paths = (paths + paths)[start : start + _MOST_LOOKED_FOR]
    return all(map(objects.has, _on_the_way(present, compared, paths)))


def flush_what_git_wrote(objects: ObjectStore, present: Present, compared: Compared) -> None:
    """Have the next flush include what `git add` and `git commit` may have left in memory: what
    is staged or taken over from the index since the last time, and the commit at HEAD. What is
    staged is missing also if only a broken file is left of it."""
    before = present.source
    changes = compared.changes if present.delta is None else present.delta
    new = {now.id for _, now in changes.values() if now is not None and now.mode != GITLINK}
    staged: set[ObjectID] = set()
    if before is None or not present.knows_index:
        staged = {ObjectID(entry.id) for entry in present.staged_at({*compared.staged})}
    was = None if before is None or before.compared is None else before.compared.commit
    if compared.commit is not None and compared.commit != was:
        new.add(compared.commit)
    for lost in sorted(objects.rely_on(new | staged) & staged):
        if not objects.is_partial:
            raise MissingObject(lost, "damaged object")


def leave_to_head(
    objects: ObjectStore,
    present: Present,
    compared: Compared,
    tree: ObjectID,
    packed: AbstractSet[ObjectID],
) -> None:
    """Have nothing written again that HEAD names: of the files and folders that only a pack has,
    all but what differs from HEAD, the folders on the way there, and what git would convert."""
    if not packed or compared.head_tree is None:
        return
    known: dict[ObjectID, Entries] = {}
    folders = (lookup(objects, tree, f, known) for f in (b"", *folders_of(compared.changes)))
    differing = {entry.id for entry in folders if entry is not None}
    differing |= {now.id for _, now in compared.changes.values() if now is not None}
    differing |= {converted.raw for converted in present.converted.values()}
    objects.leave_packed(packed - differing)


def _on_the_way(present: Present, compared: Compared, paths: list[bytes]) -> Iterator[ObjectID]:
    """The blobs of files, and the trees of all folders above them."""
    for path in paths:
        entry = compared.changes[path][1]
        if entry is not None and entry.mode != GITLINK:
            yield entry.id
    folders = {folder for path in paths for folder in (*folders_above(path), b"")}
    for listing in filter(None, map(present.listings.get, sorted(folders))):
        if listing.tree:
            yield ObjectID(listing.tree.hex().encode())


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


def _keeps(repo: Repository, commit: ObjectID) -> bool:
    """Write once more what the index named until now, and only a pack has; False if it is gone."""
    from ckpt.engine.unnamed import only_in

    objects = repo.objects
    try:
        found = record.read_commit(objects, commit)
        head = record.read_commit(objects, found.parents[0]).tree if found.parents[1:] else None
        state = record.read_commit(objects, found.parents[-1]).tree
        for tree in (found.tree, *filter(None, stage_trees(objects, state))):
            objects.reuse(only_in(objects, tree, head))
        objects.flush()
    except (MissingObject, ObjectsPruned):
        return False
    return True


def _blobs(repo: Repository, tree: ObjectID) -> set[ObjectID]:
    return {entry.id for _, entry in walk(repo.objects, tree) if entry.mode != GITLINK}
