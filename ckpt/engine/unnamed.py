# SPDX-License-Identifier: MIT
"""What git names by no ref, and a checkpoint takes over as it is: to a repack it is garbage.

An operation in progress needs such things: the tree of AUTO_MERGE, and the commit into which a
rebase or merge has stashed what was changed; all else that it names is in the history of a branch.
And what was staged is named by nothing any more when the index gets other contents before the
checkpoint has its ref. If only a pack has them, a repack that has counted takes that away.
"""

from __future__ import annotations

from contextlib import suppress

from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.packed_refs import object_id
from ckpt.store.record import read_commit
from ckpt.store.trees import FOLDER, GITLINK, Unfolding, UnsafeTree, read_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ckpt.store.objects import ObjectStore

_MERGED = "AUTO_MERGE"
_STASHES = ("MERGE_AUTOSTASH", "rebase-merge/autostash", "rebase-apply/autostash")


def rely_on_unnamed(objects: ObjectStore, files: Mapping[str, bytes], tree: ObjectID) -> None:
    """Have the next flush rely on them as on what was added; `files` are those of an operation,
    and `tree` is that of the worktree, which is safe."""
    for path in {_MERGED, *_STASHES} & files.keys():
        named = object_id(files[path], objects.object_format.hex_length)
        if named is None:  # as a power cut may leave it
            continue
        with suppress(MissingObject, UnsafeTree):
            if path == _MERGED:
                objects.reuse(only_in(objects, named, tree))
            else:
                objects.reuse(_stashed(objects, named))


def _stashed(objects: ObjectStore, stash: ObjectID) -> Iterator[ObjectID]:
    """A stash and the commits of its own: the first parent is where it was made."""
    yield stash
    found = read_commit(objects, stash)
    base = read_commit(objects, found.parents[0]).tree if found.parents else None
    yield from only_in(objects, found.tree, base)
    for other in found.parents[1:]:
        yield other
        yield from only_in(objects, read_commit(objects, other).tree, base)


def only_in(objects: ObjectStore, tree: ObjectID, base: ObjectID | None) -> Iterator[ObjectID]:
    """The trees and blobs that stand elsewhere than in another tree, or not there."""
    unfolding = Unfolding()
    todo, seen = [(tree, base)], {(tree, base)}
    while todo:
        now, before = todo.pop()
        if now == before:
            continue
        yield now
        entries, others = (
            () if each is None else read_tree(objects, each) for each in (now, before)
        )
        unfolding.add(b"", now, entries)
        unfolding.add(b"", before, others)
        there = {name: (mode, child) for name, mode, child in others}
        for name, mode, child in entries:
            was_mode, was = there.get(name, (0, None))
            if mode == FOLDER:
                both = (child, was if was_mode == FOLDER else None)
                if both not in seen:
                    seen.add(both)
                    todo.append(both)
            elif mode != GITLINK and child != was:
                yield child
