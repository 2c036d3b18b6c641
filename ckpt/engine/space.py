# SPDX-License-Identifier: MIT
"""How much of the disk checkpoints hold that git's own history does not.

One walk over all checkpoints, those in the trash included. Trees are compared with those of the
HEAD that each checkpoint was taken at: what differs from all of these counts as the checkpoints'.
Left out: contents that a branch holds elsewhere, and what deltas would save.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ckpt.git.formats import ObjectID
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.record import INDEX, read_commit
from ckpt.git.repository import Repository
from ckpt.git.trees import FOLDER, GITLINK, UnsafeTree, read_tree
from ckpt.ids import is_id

_QUICK_READS = 20_000  # of commits and trees

Children = dict[ObjectID, tuple[ObjectID, ...]]


class TooMuch(Exception):
    """More would have to be read than who asked can wait for."""


class Held(NamedTuple):
    """Bytes that checkpoints hold, and that only dropped ones do."""

    total: int
    trash: int


def held(repo: Repository) -> Held | None:
    """What checkpoints hold; None if that takes long to find out."""
    try:
        return measure(repo, _QUICK_READS).held()
    except TooMuch:
        return None


def measure(repo: Repository, most_reads: int | None = None) -> Space:
    """What each checkpoint holds; TooMuch if more objects would have to be read."""
    living = {name: commit for name, commit in repo.refs.checkpoints().items() if is_id(name)}
    roots = {**living, **repo.refs.trash()}  # a name in the trash begins with a day
    walk = _Walk(repo.objects, most_reads)
    children = walk.below(roots.values(), repo.refs.head().commit)
    sizes = repo.objects.disk_sizes(children)
    return Space(roots, children, sizes, living)


class Space:
    """What is left when some checkpoints go: `children` are what an object refers to, each once."""

    def __init__(
        self,
        roots: Mapping[str, ObjectID],
        children: Children,
        sizes: Mapping[ObjectID, int],
        living: Iterable[str],
    ) -> None:
        self._children = children
        self._sizes = sizes
        self._left = {name: roots[name] for name in living}
        self._holders: dict[ObjectID, int] = {}
        self.total = self._count()

    def held(self) -> Held:
        return Held(self.total, sum(self._sizes.values()) - self.total)

    def drop(self, name: str, /) -> int:
        """Let go of one; the bytes that it was the last to hold."""
        root = self._left.pop(name, None)  # None: taken or dropped since this was measured
        freed = 0 if root is None else self._bytes(self._let_go(root))
        self.total -= freed
        return freed

    def size(self, name: str, /) -> int:
        """The bytes that one alone holds, as things stand."""
        root = self._left.get(name)
        if root is None:
            return 0
        gone = self._let_go(root)
        for object_id in gone:
            for child in self._children.get(object_id, ()):
                self._holders[child] += 1
        self._holders[root] += 1
        return self._bytes(gone)

    def _bytes(self, object_ids: Iterable[ObjectID]) -> int:
        return sum(self._sizes.get(object_id, 0) for object_id in object_ids)

    def _count(self) -> int:
        """Count what refers to each object; the bytes of all."""
        todo = list(self._left.values())
        while todo:
            object_id = todo.pop()
            count = self._holders.get(object_id, 0)
            self._holders[object_id] = count + 1
            if not count:
                todo += self._children.get(object_id, ())
        return self._bytes(self._holders)

    def _let_go(self, root: ObjectID) -> list[ObjectID]:
        """Count down from a root; the objects that nothing refers to any more."""
        gone, todo = [], [root]
        while todo:
            object_id = todo.pop()
            self._holders[object_id] -= 1
            if not self._holders[object_id]:
                gone.append(object_id)
                todo += self._children.get(object_id, ())
        return gone


class _Walk:
    """The objects of checkpoints that are not in the trees of their HEADs."""

    def __init__(self, objects: ObjectStore, most_reads: int | None) -> None:
        self._objects = objects
        self._reads_left = most_reads
        self._of_git: set[ObjectID] = set()
        self._children: Children = {}

    def below(self, commits: Iterable[ObjectID], head: ObjectID | None) -> Children:
        checkpoints = [found for found in map(self._commit, commits) if found is not None]
        heads = dict.fromkeys(parents[0] for _, _, parents in checkpoints if parents[1:])
        trees = [self._tree(commit) for commit in (*heads, head) if commit is not None]
        for older, newer in zip([None, *trees], trees, strict=False):
            if older is not None:  # what was committed since is git's
                self._of_git.update(self._differing(newer, older))
        for commit, tree, parents in checkpoints:
            base = self._tree(parents[0]) if parents[1:] else None
            self._children[commit] = (tree, *parents[-1:])
            self._add_tree(tree, base)
            for _, state, _ in filter(None, map(self._commit, parents[-1:])):
                self._children[parents[-1]] = (state,)
                self._add_tree(state, None, base)
        return self._children

    def _commit(self, commit: ObjectID) -> tuple[ObjectID, ObjectID, tuple[ObjectID, ...]] | None:
        self._spend()
        try:
            found = read_commit(self._objects, commit)
        except MissingObject:
            return None
        return commit, found.tree, found.parents

    def _tree(self, commit: ObjectID) -> ObjectID | None:
        found = self._commit(commit)
        return None if found is None else found[1]

    def _add_tree(
        self, tree: ObjectID, base: ObjectID | None, index_base: ObjectID | None = None
    ) -> None:
        """Note what a tree has that its base does not; the tree of the index has its own base."""
        todo = [(tree, base)]
        while todo:
            now, before = todo.pop()
            if now == before or now in self._children or now in self._of_git:
                continue
            there = {name: child for name, _, child in self._entries(before)}
            named = []
            for name, mode, child in self._entries(now):
                was = index_base if now == tree and name == INDEX else there.get(name)
                if child == was or mode == GITLINK or child in self._of_git:
                    continue
                named.append(child)
                if mode == FOLDER:
                    todo.append((child, was))
                else:
                    self._children[child] = ()
            self._children[now] = tuple(dict.fromkeys(named))

    def _differing(self, tree: ObjectID | None, base: ObjectID | None) -> Iterator[ObjectID]:
        todo = [(tree, base)]
        while todo:
            now, before = todo.pop()
            if now is None or now == before:
                continue
            yield now
            there = {name: child for name, _, child in self._entries(before)}
            for name, mode, child in self._entries(now):
                if mode == FOLDER:
                    todo.append((child, there.get(name)))
                elif child != there.get(name):
                    yield child

    def _entries(self, tree: ObjectID | None) -> list[tuple[bytes, int, ObjectID]]:
        if tree is None:
            return []
        self._spend()
        try:
            return read_tree(self._objects, tree)
        except (MissingObject, UnsafeTree):
            return []

    def _spend(self) -> None:
        if self._reads_left is not None:
            self._reads_left -= 1
            if self._reads_left < 0:
                raise TooMuch
