# SPDX-License-Identifier: MIT
"""Objects that nothing names any more: no ref, reflog, index or operation of any worktree.

What is named is marked, commits all through, trees and contents only as far as it takes to
judge the objects that can be unreachable. Those are the ones in files of their own and in
cruft packs, for git packs nothing else that it does not need, and commits wherever they are:
`git maintenance` packs what is loose without asking whether it is needed.

What a very long history holds only far back is taken for unreachable here: too much is shown
rather than too little.
"""

from __future__ import annotations

import os
from binascii import unhexlify

from ckpt.patterns import lazy_pattern
from ckpt.store import operation
from ckpt.store.history import seconds, time_in
from ckpt.store.loose import DamagedObject, loose_path
from ckpt.store.object_scan import cruft_objects, loose_objects, packed_commits
from ckpt.store.objects import MissingObject, ObjectID, ObjectStore
from ckpt.store.packs import PackList
from ckpt.store.raw_ids import to_hex, to_raw
from ckpt.store.refs import IDENTITY
from ckpt.store.repository import Repository
from ckpt.store.roots import git_dirs, held_by_git
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_STATE = b"ckpt: state of "  # how the message of a state commit begins
_STATE_COMMITTER = b"\ncommitter %s 0 +0000" % IDENTITY
_MOST_COMMITS = 200_000
_MOST_TREES = 100_000  # to be read of git's own history
_FIRST_COMMITS = 500  # whose trees are looked at in any case
_FULL_ID = lazy_pattern(rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")
_ENTRIES = {
    20: lazy_pattern(rb"([0-7]+) [^\0]+\0([\0-\xff]{20})"),
    32: lazy_pattern(rb"([0-7]+) [^\0]+\0([\0-\xff]{32})"),
}
_FOLDERS = (b"40000", b"040000")
_GITLINK = b"160000"


@value_class
class Unreachable:
    """The ends of it: commits that are no other's parent, trees and blobs that no commit and
    no tree of these has. With the time of each, in seconds since 1970: a commit's own, and
    of the others the one when git wrote them, or used them last."""

    commits: dict[ObjectID, int]
    trees: dict[ObjectID, int]
    blobs: dict[ObjectID, int]


def unreachable(repo: Repository) -> Unreachable:
    """Find them; reads only."""
    cruft = cruft_objects(repo.objects)
    loose = set(loose_objects(repo.objects))
    reach = _Reach(repo.objects, loose)
    try:
        lost = _look_for(repo, reach, {*cruft, *loose})
        commits = {to_hex(raw_id): reach.time_of(raw_id) for raw_id in lost.ends}
    finally:
        reach.close()

    def time_of(raw_id: bytes) -> int:
        return cruft.get(raw_id) or _mtime(repo.objects, raw_id)

    return Unreachable(
        commits,
        {to_hex(raw_id): time_of(raw_id) for raw_id in lost.trees},
        {to_hex(raw_id): time_of(raw_id) for raw_id in lost.blobs},
    )


def _look_for(repo: Repository, reach: _Reach, judged: set[bytes]) -> _Lost:
    reach.mark_commits(_tips(repo, reach))
    reach.mark_trees(_FIRST_COMMITS)
    lost = _Lost(reach, judged - reach.marked)
    if lost.blobs or lost.trees:
        reach.mark_trees(_MOST_COMMITS)
        lost.forget(reach.marked)
    return lost


def _tips(repo: Repository, reach: _Reach) -> Iterator[bytes]:
    """Where everything that is named begins; what an index has is marked by the way."""
    roots = held_by_git(repo)
    reach.marked |= roots.whole
    reach.also_trees += roots.trees
    yield from roots.tips
    yield from map(unhexlify, repo.refs.checkpoints().values())
    yield from map(unhexlify, repo.refs.trash().values())
    for git_dir in git_dirs(repo):
        files = operation.read(git_dir).contents if os.path.isdir(git_dir) else {}
        for text in files.values():
            yield from map(unhexlify, _FULL_ID.findall(text))


class _Reach:
    """What was found to be named."""

    def __init__(self, objects: ObjectStore, loose: set[bytes]) -> None:
        self.objects = objects
        self._loose = loose
        self._packs = PackList(objects.object_format)
        self._packs.look([objects.path])
        self.marked: set[bytes] = set()
        self.also_trees: list[bytes] = []
        self.is_cut_off = False
        self._entries = _ENTRIES[objects.object_format.oid_length]
        self._trees: list[tuple[int, bytes]] = []
        self._trees_left = _MOST_TREES

    def mark_commits(self, tips: Iterable[bytes]) -> None:
        todo = list(tips)
        count = 0
        while todo:
            commit = todo.pop()
            if commit in self.marked:
                continue
            self.marked.add(commit)
            named = self._named_by_tip(commit)
            if named is None:
                continue
            count += 1
            self.is_cut_off = count >= _MOST_COMMITS
            if self.is_cut_off:
                break
            time, tree, parents = named
            self._trees.append((time, tree))
            todo += parents
        self._trees.sort()

    def _named_by_tip(self, tip: bytes) -> tuple[int, bytes, list[bytes]] | None:
        """What a commit names; a tag leads to one, and a tree is kept for later."""
        for _ in range(5):  # a tag of a tag
            found = self.commit(tip)
            if found is not None:
                return found
            data = self._read(tip, b"tag")
            if not data:
                self.marked.discard(tip)
                self.also_trees.append(tip)
                return None
            tip = to_raw(data.partition(b"\n")[0].removeprefix(b"object ")) or tip
            self.marked.add(tip)
        return None

    def mark_trees(self, most_commits: int) -> None:
        """Of the newest so many commits that are left, of the indexes, and of odd tips."""
        while self.also_trees:
            self.mark_tree(self.also_trees.pop(), self.marked)
        for _ in range(min(most_commits, len(self._trees))):
            self.mark_tree(self._trees.pop()[1], self.marked)

    def mark_tree(self, tree: bytes, into: set[bytes]) -> None:
        """Mark a tree and all in it that is not marked anyway."""
        todo = [tree]
        while todo:
            current = todo.pop()
            if current in into or current in self.marked or self._trees_left <= 0:
                continue
            into.add(current)
            self._trees_left -= 1
            todo += self._mark_contents(current, into)

    def mark_inside(self, tree: bytes, into: set[bytes]) -> None:
        """Mark all that is in a tree, and not the tree itself."""
        for folder in self._mark_contents(tree, into):
            self.mark_tree(folder, into)

    def _mark_contents(self, tree: bytes, into: set[bytes]) -> list[bytes]:
        """Mark the contents of files right in a tree; returns the trees of its folders."""
        folders = []
        for mode, child in self._entries.findall(self._read(tree, b"tree")):
            if mode in _FOLDERS:
                folders.append(child)
            elif mode != _GITLINK:
                into.add(child)
        return folders

    def time_of(self, commit: bytes) -> int:
        found = self.commit(commit)
        return 0 if found is None else found[0]

    def commit(self, commit: bytes) -> tuple[int, bytes, list[bytes]] | None:
        """The time, the tree and the parents of one that can be read."""
        header = self._read(commit, b"commit").partition(b"\n\n")[0]
        lines = header.split(b"\n")
        tree = to_raw(lines[0].removeprefix(b"tree ")) if lines[0].startswith(b"tree ") else None
        if tree is None:
            return None
        parents = [to_raw(line[7:]) for line in lines if line.startswith(b"parent ")]
        return time_in(header), tree, [parent for parent in parents if parent]

    def is_state(self, commit: bytes) -> bool:
        """Whether it is one that a checkpoint keeps its state in."""
        header, _, message = self._read(commit, b"commit").partition(b"\n\n")
        return header.endswith(_STATE_COMMITTER) and message.startswith(_STATE)

    def _read(self, raw_id: bytes, kind: bytes) -> bytes:
        """The content of an object; nothing, if it cannot be read or is of another kind. What
        is in a pack is not compared with its id: that would take as long again."""
        place = None if raw_id in self._loose else self._packs.find(raw_id)
        try:
            if place is None:
                return self.objects.read(to_hex(raw_id), kind)
            found, data = self._packs.read(*place)
        except (MissingObject, DamagedObject):
            return b""
        return data if found == kind else b""

    def close(self) -> None:
        self._packs.close()


class _Lost:
    """Objects that are not marked, sorted out: `ends` are commits, and what `trees` and `blobs`
    have left is in none of them."""

    def __init__(self, reach: _Reach, unmarked: set[bytes]) -> None:
        kinds: dict[bytes | None, set[bytes]] = {b"commit": set(), b"tree": set(), b"blob": set()}
        for raw_id in unmarked:
            kinds.setdefault(reach.objects.kind(to_hex(raw_id)), set()).add(raw_id)
        commits = kinds[b"commit"]
        if not reach.is_cut_off:
            commits |= set(packed_commits(reach.objects)) - reach.marked
        below: set[bytes] = set()
        parents: dict[bytes, list[bytes]] = {}
        trees: dict[bytes, bytes] = {}
        for commit in commits:
            found = reach.commit(commit)
            if found is not None:
                _, trees[commit], parents[commit] = found
        # What a save or rescue that was killed has written of a checkpoint hides nothing, neither
        # a commit nor what was staged, which is in a tree of it.
        halves = {commit for commit in _ends(commits, parents) if reach.is_state(commit)}
        self.ends = _ends(commits - halves, parents)
        for commit in trees.keys() - halves:
            reach.mark_tree(trees[commit], below)
        others = kinds[b"tree"] - {trees[commit] for commit in halves & trees.keys()}
        self.trees = others - below
        for tree in others:
            reach.mark_inside(tree, below)
        self.trees -= below
        self.blobs = kinds[b"blob"] - below

    def forget(self, marked: set[bytes]) -> None:
        """Leave out what turns out to be named after all."""
        self.trees -= marked
        self.blobs -= marked


def _ends(commits: set[bytes], parents: dict[bytes, list[bytes]]) -> set[bytes]:
    """Those that are a parent of none of them."""
    return commits.difference(*(parents.get(commit, ()) for commit in commits))


def _mtime(objects: ObjectStore, raw_id: bytes) -> int:
    try:
        return seconds(str(int(os.stat(loose_path(objects.path, to_hex(raw_id))).st_mtime)))
    except OSError:
        return 0
