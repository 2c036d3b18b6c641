# SPDX-License-Identifier: MIT
"""How far two commits are apart, what of its history only one has, and what is unreachable.

Walks of two sides read commits newest first and stop where everything left is common; what is too
far apart, or cut off by a shallow clone, gives None rather than a guess. Unreachable objects, for
`rescue`, are what no ref, reflog, index or operation of any worktree leads to.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterable, Iterator, Set
from typing import TYPE_CHECKING, NamedTuple

from ckpt import disk
from ckpt.errors import CkptError, is_want
from ckpt.git import operation
from ckpt.git.formats import ObjectID, to_hex
from ckpt.git.index import UnsupportedIndex, read_index
from ckpt.git.loose import loose_ids, loose_path
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.refs import IDENTITY
from ckpt.git.repository import Repository, git_dirs
from ckpt.git.streams import DamagedObject

if TYPE_CHECKING:
    from ckpt.git.packs import OpenPack

_OURS = ("refs/checkpoints", "refs/checkpoints-trash")
_COMMITTER = re.compile(rb"(?m)^committer .*> (-?\d+) [-+]\d{4}$")
_TREE = re.compile(rb"tree ([0-9a-f]+)\n")
_LEFT, _RIGHT = 1, 2
_MOST_COMMITS = 20_000
_LAST_SECOND = 253_370_764_799  # of the year 9998: whatever the zone, a calendar has it
_MOST_DIGITS = 15


# History


def ahead_behind(objects: ObjectStore, left: ObjectID, right: ObjectID) -> tuple[int, int] | None:
    """(commits only in `left`, commits only in `right`); None if that cannot be told."""
    walk = _Apart(objects, left, [right])
    try:
        while walk.one_sided():
            walk.step()
            if len(walk.sides) > _MOST_COMMITS:
                return None
        walk.settle()
    except CkptError:
        return None
    sides = list(walk.sides.values())
    return None if walk.unreadable else (sides.count(_LEFT), sides.count(_RIGHT))


class Behind(NamedTuple):
    """The commits that one leads to, itself included, and others do not, or more of them where a
    clock ran backwards; `unreadable` are those that are named and cannot be read."""

    commits: tuple[ObjectID, ...]
    unreadable: tuple[ObjectID, ...]


def behind(
    objects: ObjectStore, commit: ObjectID, others: Iterable[ObjectID], ends: Set[ObjectID]
) -> Behind:
    """Walk back from a commit to what others hold; at `ends` a shallow clone ends."""
    walk = _Apart(objects, commit, others, ends)
    while walk.left:
        walk.step()
    commits = (i for i, side in walk.sides.items() if side == _LEFT and i not in walk.unreadable)
    return Behind(tuple(commits), tuple(walk.unreadable))


class _Apart:
    """A walk back from both sides, newest first. `left` and `right` are the commits still to be
    looked at that are known to be on one side only."""

    def __init__(
        self,
        objects: ObjectStore,
        commit: ObjectID,
        others: Iterable[ObjectID],
        ends: Set[ObjectID] = frozenset(),
    ) -> None:
        self._objects = objects
        self._ends = ends
        self.sides = dict.fromkeys(others, _RIGHT)
        self.sides[commit] = self.sides.get(commit, 0) | _LEFT
        self.left: set[ObjectID] = set()
        self.right: set[ObjectID] = set()
        self.unreadable: set[ObjectID] = set()
        self._queue: list[tuple[int, ObjectID]] = []
        self._parents: dict[ObjectID, list[ObjectID]] = {}
        for each in list(self.sides):
            self._add(each)

    def one_sided(self) -> bool:
        return bool(self.left or self.right)

    def step(self) -> None:
        _, commit = heapq.heappop(self._queue)
        self.left.discard(commit)
        self.right.discard(commit)
        for parent in self._parents[commit]:
            known = self.sides.get(parent, 0)
            self.sides[parent] = known | self.sides[commit]
            if self.sides[parent] != known:
                self._add(parent)

    def settle(self) -> None:
        """Where a clock ran backwards, common commits were passed before that was known."""
        todo = [commit for commit, side in self.sides.items() if side == _LEFT | _RIGHT]
        while todo:
            for parent in self._parents.get(todo.pop(), ()):
                if self.sides.get(parent, _LEFT | _RIGHT) != _LEFT | _RIGHT:
                    self.sides[parent] = _LEFT | _RIGHT
                    todo.append(parent)

    def _add(self, commit: ObjectID) -> None:
        self.left.discard(commit)
        self.right.discard(commit)
        try:
            header = _header(self._objects, commit)
        except MissingObject:  # which may be a tag, among the others
            if self.sides[commit] & _LEFT:
                self.unreadable.add(commit)
            return
        if self.sides[commit] == _LEFT:
            self.left.add(commit)
        elif self.sides[commit] == _RIGHT:
            self.right.add(commit)
        self._parents[commit] = [] if commit in self._ends else _parents_in(header)
        heapq.heappush(self._queue, (-time_in(header), commit))


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


def _parents_in(header: bytes) -> list[ObjectID]:
    lines = header.split(b"\n")
    return [ObjectID(line[7:]) for line in lines if line.startswith(b"parent ")]


# Unreachable objects

_STATE = b"ckpt: state of "  # how the message of a state commit begins
_STATE_COMMITTER = b"\ncommitter %s 0 +0000" % IDENTITY
_MOST_READS = 400_000  # commits and trees
_ENTRIES = {
    length: re.compile(rb"([0-7]+) [^\0]+\0([\0-\xff]{%d})" % length) for length in (20, 32)
}
_FOLDERS = (b"40000", b"040000")
_GITLINK = b"160000"
_FULL_ID = re.compile(rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")


class Unreachable(NamedTuple):
    """The ends of it: commits that are no other's parent, trees and blobs that are in no commit
    and no tree of these. With the time of each, in seconds since 1970: a commit's own, and of the
    others the one when git wrote them, or used them last."""

    commits: dict[ObjectID, int]
    trees: dict[ObjectID, int]
    blobs: dict[ObjectID, int]


def unreachable(repo: Repository) -> Unreachable:
    """Find the objects that no ref, reflog, index or operation of any worktree holds; what is in
    packs that git keeps for reachable objects is looked through for commits only."""
    objects = repo.objects
    times = _last_used(objects)
    walk = _Walk(objects)
    walk.mark(_tips(repo))
    lost: dict[bytes, set[ObjectID]] = {b"commit": set(), b"tree": set(), b"blob": set()}
    for object_id in times.keys() - walk.marked:
        lost.setdefault(objects.kind(object_id) or b"", set()).add(object_id)
    if not walk.is_cut_off:
        lost[b"commit"] |= {i for i in _packed_commits(objects) if i not in walk.marked}
    found = {commit: walk.commit(commit) for commit in lost[b"commit"]}
    named = {commit: data for commit, data in found.items() if data is not None}
    # A save or rescue that was killed has written a state commit: it hides nothing.
    states = {commit for commit in named if _is_state(objects, commit)}
    parents = {parent for commit in named.keys() - states for parent in named[commit][2]}
    ends = named.keys() - states - parents
    below = _Walk(objects, walk.marked)
    below.mark(named[commit][1] for commit in named.keys() - states)
    trees = lost[b"tree"] - below.marked - {named[commit][1] for commit in states}
    inner = _Walk(objects, walk.marked | below.marked)
    for tree in trees:
        inner.mark(child for mode, child in inner.entries(tree) if mode != _GITLINK)
    return Unreachable(
        {commit: named[commit][0] for commit in ends},
        {tree: times[tree] for tree in trees - inner.marked},
        {blob: times[blob] for blob in lost[b"blob"] - below.marked - inner.marked},
    )


def _last_used(objects: ObjectStore) -> dict[ObjectID, int]:
    """When each loose object and each of a cruft pack was used last."""
    found: dict[ObjectID, int] = {}
    for pack in _own_packs(objects):
        if pack.is_cruft:
            found |= {to_hex(raw_id): time for raw_id, time in pack.times().items()}
    for name in loose_ids(objects.path, objects.object_format.hex_length):
        try:
            modified = os.stat(loose_path(objects.path, name)).st_mtime
        except OSError:
            continue
        found.setdefault(ObjectID(name), seconds(str(int(modified))))
    return found


def _own_packs(objects: ObjectStore) -> list[OpenPack]:
    packs = () if objects.packs is None else objects.packs.all
    return [pack for pack in packs if pack.path.startswith(os.path.join(objects.path, ""))]


def _packed_commits(objects: ObjectStore) -> Iterator[ObjectID]:
    """The commits of packs that hold more than what a partial clone fetched."""
    for pack in _own_packs(objects):
        try:
            if not pack.is_promised:
                yield from map(to_hex, pack.commits())
        except DamagedObject:
            continue


def _tips(repo: Repository) -> Iterator[ObjectID]:
    """Every object that a ref, reflog, index or operation of any worktree names."""
    yield from repo.refs.others()
    yield from repo.refs.checkpoints().values()
    yield from repo.refs.trash().values()
    for git_dir in git_dirs(repo):
        yield from _heads(repo, git_dir)
        yield from _logged(os.path.join(git_dir, "logs"), repo.object_format.hex_length)
        yield from _staged(repo, git_dir)
        files = operation.read(git_dir).contents if os.path.isdir(git_dir) else {}
        for text in files.values():
            yield from map(ObjectID, _FULL_ID.findall(text))


def _heads(repo: Repository, git_dir: str) -> Iterator[ObjectID]:
    refs = type(repo.refs)(git_dir, repo.common_dir, repo.object_format.hex_length)
    try:
        commit = refs.head().commit
    except (CkptError, OSError):
        return
    if commit is not None:
        yield commit
    yield from refs.own()


def _logged(logs: str, hex_length: int) -> set[ObjectID]:
    """The old and the new value of each line of each reflog."""
    found: set[bytes] = set()
    for folder, folders, names in os.walk(logs):
        folders[:] = [
            name
            for name in folders
            if os.path.relpath(os.path.join(folder, name), logs) not in _OURS
        ]
        for name in names:
            try:
                lines = disk.read(os.path.join(folder, name), disk.LARGE).split(b"\n")
            except OSError:
                continue
            for line in lines:
                found.update(line[: 2 * hex_length + 1].split(b" "))
    ids = (word for word in found if len(word) == hex_length and word.strip(b"0"))
    return {ObjectID(word) for word in ids if not word.strip(b"0123456789abcdef")}


def _staged(repo: Repository, git_dir: str) -> Iterator[ObjectID]:
    """The blobs and trees of a worktree's index, if it can be read."""
    try:
        data = disk.read(os.path.join(git_dir, "index"), disk.LARGE)
        index = read_index(
            data, hash_len=repo.object_format.oid_length, hash_name=repo.format.hash_name
        )
    except UnsupportedIndex:  # what it names is not known
        raise
    except (OSError, CkptError):
        return
    yield from (ObjectID(entry.id) for entry in index.entries)
    yield from map(ObjectID, index.trees.values())


def _is_state(objects: ObjectStore, commit: ObjectID) -> bool:
    """Whether it is one that a checkpoint keeps its state in."""
    header, _, message = objects.read(commit, b"commit").partition(b"\n\n")
    return header.endswith(_STATE_COMMITTER) and message.startswith(_STATE)


class _Walk:
    """Marks objects and all that they refer to; commits first, as trees may become too many."""

    def __init__(self, objects: ObjectStore, marked: Set[ObjectID] = frozenset()) -> None:
        self._objects = objects
        self.marked = set(marked)
        self.is_cut_off = False
        self._reads_left = _MOST_READS
        self._entries = _ENTRIES[objects.object_format.oid_length]

    def mark(self, tips: Iterable[ObjectID]) -> None:
        todo, trees = list(tips), []
        while todo:
            object_id = todo.pop()
            if object_id in self.marked or not self._may_read():
                continue
            found = self.commit(object_id)
            if found is not None:
                self.marked.add(object_id)
                trees.append(found[1])
                todo += found[2]
                continue
            if self._objects.kind(object_id) == b"tag":
                self.marked.add(object_id)
                todo += self._tagged(object_id)
            else:
                trees.append(object_id)
        trees.reverse()  # the newest first
        while trees:
            tree = trees.pop()
            if tree in self.marked:
                continue
            self.marked.add(tree)
            for mode, child in self.entries(tree) if self._may_read() else ():
                if mode in _FOLDERS:
                    trees.append(child)
                elif mode != _GITLINK:
                    self.marked.add(child)

    def _may_read(self) -> bool:
        self._reads_left -= 1
        self.is_cut_off = self._reads_left < 0
        return not self.is_cut_off

    def _tagged(self, tag: ObjectID) -> list[ObjectID]:
        try:
            return [ObjectID(self._objects.read(tag, b"tag").split(b"\n")[0][len(b"object ") :])]
        except MissingObject:
            return []

    def commit(self, commit: ObjectID) -> tuple[int, ObjectID, list[ObjectID]] | None:
        """The time, the tree and the parents of a commit; None if it is none that can be read."""
        if self._objects.kind(commit) != b"commit":
            return None
        try:
            header = _header(self._objects, commit)
        except MissingObject:
            return None
        tree = _TREE.match(header)
        return None if tree is None else (time_in(header), ObjectID(tree[1]), _parents_in(header))

    def entries(self, tree: ObjectID) -> list[tuple[bytes, ObjectID]]:
        """Mode and id of what a tree names, whatever the names; nothing if it cannot be read."""
        if self._objects.kind(tree) != b"tree":
            return []
        try:
            data = self._objects.read(tree, b"tree")
        except MissingObject:
            return []
        return [(mode, to_hex(raw_id)) for mode, raw_id in self._entries.findall(data)]
