# SPDX-License-Identifier: MIT
"""What each checkpoint alone holds of the disk, what all hold together, what the trash holds.

    space = measure(repo)        # reads refs, commits and trees; changes nothing
    space.sizes[id]              # bytes that only this checkpoint holds: they would go with it
    space.total                  # bytes that checkpoints hold, and no branch, tag, reflog or index
    space.trash                  # bytes that only dropped checkpoints hold, until these go, too
    left = space.dropping()      # to try out what dropping several of them would free, in order
    left.drop(id)                # the bytes that go with it now, those before it being gone
    left.size(id)                # the same without doing it
    left.total, left.trash       # what the others hold, and what waits by then

Sizes do not add up: what two checkpoints share goes with the last of them. For `max_bytes`:
first `drop` what rules let go, then one after the other until `left.total` is small enough.

Exact, but for two bounds that keep it quick: what is in none of their HEADs counts as the
checkpoints' if git's own history held it only some hundred commits before the oldest of these, or
not within the last few thousand; and a HEAD further back than many thousand counts as git's.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import re
import time
from binascii import unhexlify
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ckpt import disk, jsontext
from ckpt.engine.collector import without_collector
from ckpt.git.formats import to_hex, to_raw
from ckpt.git.history import time_in
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.reachability import held_by_git
from ckpt.git.refs import IDENTITY
from ckpt.git.repack import disk_sizes
from ckpt.git.repository import Repository

if TYPE_CHECKING:
    Commit = tuple[int, bytes, bytes, list[bytes]]


@dataclass(frozen=True, slots=True)
class Graph:
    """`children` are what an object names, each once; `roots` the commits of checkpoints."""

    roots: Mapping[str, bytes]
    children: Mapping[bytes, tuple[bytes, ...]]
    sizes: Mapping[bytes, int]

    def size(self) -> int:
        return sum(self.sizes.values())


class Dropping:
    """What is left when some of the checkpoints go; the graph itself stays as it is."""

    def __init__(self, graph: Graph, names: Iterable[str]) -> None:
        self._graph = graph
        self._left = {name: graph.roots[name] for name in names}
        self._holders: dict[bytes, int] = {}
        self.total = self._take_up()

    @property
    def trash(self) -> int:
        """What nothing holds any more but dropped checkpoints."""
        return self._graph.size() - self.total

    def drop(self, name: str) -> int:
        """Let go of one; the bytes that it was the last to hold."""
        gone = self._let_go(self._left.pop(name))
        freed = self._bytes(gone)
        self.total -= freed
        return freed

    def size(self, name: str) -> int:
        """The bytes that one alone holds, as things stand."""
        root = self._left[name]
        gone = self._let_go(root)
        for object_id in gone:
            for child in self._graph.children.get(object_id, ()):
                self._holders[child] += 1
        self._holders[root] += 1
        return self._bytes(gone)

    def _bytes(self, object_ids: Iterable[bytes]) -> int:
        sizes = self._graph.sizes
        return sum([sizes.get(object_id, 0) for object_id in object_ids])

    def _take_up(self) -> int:
        """Count who names each object; the bytes of all that are named."""
        holders, children = self._holders, self._graph.children
        todo = list(self._left.values())
        while todo:
            object_id = todo.pop()
            count = holders.get(object_id, 0)
            holders[object_id] = count + 1
            if not count:
                todo += children.get(object_id, ())
        return self._bytes(holders)

    def _let_go(self, root: bytes) -> list[bytes]:
        """Count down from a root; the objects that nothing names any more."""
        holders, children = self._holders, self._graph.children
        gone, todo = [], [root]
        while todo:
            object_id = todo.pop()
            holders[object_id] -= 1
            if not holders[object_id]:
                gone.append(object_id)
                todo += children.get(object_id, ())
        return gone


# -- What each checkpoint alone holds of the disk, what all hold together, what the trash holds

# age, id, tree, parents

_MOST_COMMITS = 20_000  # of git's own history, to find out whether it holds a HEAD
_MOST_WITH_TREES = 3_000  # of these, whose contents are looked at
_FURTHER = 300  # commits that are looked at though they are older than every HEAD
_MOST_LOST = 1_000  # commits that only checkpoints hold
_WRONG_CLOCK = 86_400  # seconds that a commit may be older than its parent
_ENTRIES = {
    20: re.compile(rb"([0-7]+) [^\0]+\0([\0-\xff]{20})"),
    32: re.compile(rb"([0-7]+) [^\0]+\0([\0-\xff]{32})"),
}
_FOLDERS = (b"40000", b"040000")
_GITLINK = b"160000"


@dataclass(frozen=True)
class Space:
    """`living` are the ids of the checkpoints that are not in the trash."""

    graph: Graph
    living: tuple[str, ...]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """What each checkpoint alone holds."""
        left = self.dropping()
        return {name: left.size(name) for name in self.living}

    @cached_property
    def total(self) -> int:
        return self.dropping().total

    @cached_property
    def trash(self) -> int:
        return self.graph.size() - self.total

    def dropping(self) -> Dropping:
        return Dropping(self.graph, self.living)


class TooMuch(Exception):
    """More would have to be read than who asked can wait for."""


def measure(repo: Repository, most_reads: int | None = None) -> Space:
    """Look at what all checkpoints hold, those in the trash included; TooMuch if so many objects
    do not tell."""
    living = repo.refs.checkpoints()
    roots = {**living, **repo.refs.trash()}  # a name in the trash begins with a day
    with without_collector():
        walk = _Walk(repo.objects, most_reads)
        commits = {name: unhexlify(commit) for name, commit in roots.items()}
        walk.pass_over(repo, set(walk.relied_on(commits.values())))
        children = walk.graph(commits.values())
    sizes = disk_sizes(repo.objects, children.keys())
    return Space(Graph(commits, children, sizes), tuple(sorted(living)))


class _Walk:
    """What git holds by itself, first; then what checkpoints hold besides."""

    def __init__(self, objects: ObjectStore, most_reads: int | None) -> None:
        self._objects = objects
        self._reads_left = most_reads
        self._entries = _ENTRIES[objects.object_format.oid_length]
        self._of_git: set[bytes] = set()
        self._is_cut_off = False
        self._lost: set[bytes] = set()

    def relied_on(self, commits: Iterable[bytes]) -> Iterator[bytes]:
        """The commits of git's that checkpoints stand on, or that an operation in them names."""
        for commit in set(commits):
            for parent in self._parents(commit):
                yield from self._parents(parent) if self._is_ours(parent) else (parent,)

    def _parents(self, commit: bytes) -> list[bytes]:
        found = self._commit(commit)
        return [] if found is None else found[3]

    def _is_ours(self, commit: bytes) -> bool:
        header = self._read(commit, b"commit").partition(b"\n\n")[0]
        return b"\ncommitter " + IDENTITY in header

    # -- git's own -----------------------------------------------------------------

    def pass_over(self, repo: Repository, wanted: set[bytes]) -> None:
        """Everything that stays whatever becomes of checkpoints, newest commits first, until the
        wanted ones have been passed, or cannot come any more."""
        roots = held_by_git(repo)
        self._of_git |= roots.whole
        queue = [commit for tip in roots.tips for commit in self._commits_at(tip)]
        heapq.heapify(queue)
        left = {found[1]: found[0] for found in map(self._commit, wanted) if found is not None}
        oldest = max(left.values(), default=0) + _WRONG_CLOCK
        count = further = 0
        while queue and count < _MOST_COMMITS and further < _FURTHER:
            age, commit, tree, parents = heapq.heappop(queue)
            left.pop(commit, None)
            if count < _MOST_WITH_TREES:
                self._pass_over_tree(tree)
            self._queue_parents(queue, parents)
            count += 1
            if not left or age > oldest:
                further += 1
        self._is_cut_off = bool(queue) and not further
        for tree in roots.trees:
            self._pass_over_tree(tree)
        for commit in wanted if self._is_cut_off else wanted & self._of_git:
            self._pass_over_head(commit)

    def _pass_over_head(self, commit: bytes) -> None:
        """What a checkpoint differs from is git's, however far back."""
        self._of_git.add(commit)
        found = self._commit(commit)
        if found is not None:
            self._pass_over_tree(found[2])

    def _queue_parents(self, queue: list[Commit], parents: list[bytes]) -> None:
        for parent in parents:
            if parent not in self._of_git:
                self._of_git.add(parent)
                found = self._commit(parent)
                if found is not None:
                    heapq.heappush(queue, found)

    def _commits_at(self, tip: bytes) -> Iterator[Commit]:
        """The commit that a tip is or leads to; anything else is passed over here."""
        while tip not in self._of_git:
            kind = self._objects.kind(to_hex(tip))
            if kind == b"commit":
                found = self._commit(tip)
                yield from () if found is None else (found,)
            elif kind == b"tree":
                self._pass_over_tree(tip)
            self._of_git.add(tip)
            if kind == b"tag":
                tip = self._tagged(tip) or tip

    def _tagged(self, tag: bytes) -> bytes | None:
        line = self._read(tag, b"tag").partition(b"\n")[0]
        return to_raw(line.removeprefix(b"object "))

    def _commit(self, commit: bytes) -> Commit | None:
        """Of one that can be read: its age, its id, its tree and its parents."""
        header = self._read(commit, b"commit").partition(b"\n\n")[0]
        named = [to_raw(line[-2 * len(commit) :]) for line in _naming_lines(header)]
        tree, *parents = [found for found in named if found is not None] or [b""]
        return (-time_in(header), commit, tree, parents) if tree else None

    def _pass_over_tree(self, tree: bytes) -> None:
        seen, todo = self._of_git, [tree]
        while todo:
            current = todo.pop()
            if current in seen:
                continue
            seen.add(current)
            for mode, child in self._entries.findall(self._read(current, b"tree")):
                if mode in _FOLDERS:
                    todo.append(child)
                else:
                    seen.add(child)

    # -- the checkpoints' ----------------------------------------------------------

    def graph(self, commits: Iterable[bytes]) -> dict[bytes, tuple[bytes, ...]]:
        """All objects that only checkpoints hold, with what each of them names."""
        children: dict[bytes, tuple[bytes, ...]] = {}
        todo = [(commit, b"commit") for commit in commits if commit not in self._of_git]
        while todo:
            object_id, kind = todo.pop()
            if object_id in children:
                continue
            named = {i: k for i, k in self._named(object_id, kind) if i not in self._of_git}
            children[object_id] = tuple(named)
            children.update([(i, ()) for i, k in named.items() if k == b"blob"])
            todo += [(i, k) for i, k in named.items() if k != b"blob"]
        return children

    def _named(self, object_id: bytes, kind: bytes) -> Iterator[tuple[bytes, bytes]]:
        if kind == b"tree":
            for mode, child in self._entries.findall(self._read(object_id, b"tree")):
                if mode != _GITLINK:
                    yield child, b"tree" if mode in _FOLDERS else b"blob"
        elif kind == b"commit":
            found = self._commit(object_id)
            if found is not None:
                yield found[2], b"tree"
                yield from ((parent, b"commit") for parent in found[3] if self._is_followed(parent))

    def _is_followed(self, parent: bytes) -> bool:
        """Whether a commit is held by checkpoints alone, so far as that is known."""
        if parent in self._of_git:
            return False
        if parent in self._lost or self._is_ours(parent):
            return True
        if self._is_cut_off or len(self._lost) >= _MOST_LOST:
            return False
        self._lost.add(parent)
        return True

    def _read(self, object_id: bytes, kind: bytes) -> bytes:
        """The content of an object; nothing, if it cannot be read."""
        if self._reads_left is not None:
            self._reads_left -= 1
            if self._reads_left < 0:
                raise TooMuch
        try:
            return self._objects.read(to_hex(object_id), kind)
        except MissingObject:
            return b""


def _naming_lines(header: bytes) -> list[bytes]:
    return [line for line in header.split(b"\n") if line.startswith((b"tree ", b"parent "))]


# -- How much space the checkpoints of a repository take, for those who cannot wait for it

_QUICK_READS = 2_000
_QUICK_INDEX = 1 << 18  # bytes: some 2,500 files


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes that checkpoints hold, and that only dropped ones do; `at` is None if as of now."""

    total: int
    trash: int
    at: float | None = None


def held(repo: Repository) -> Held | None:
    """What is known, or can be found out without much ado."""
    refs = _fingerprint(repo)
    known = _read(repo)
    if known is not None and known[0] == refs:
        return Held(known[1].total, known[1].trash)
    if _size(repo.index_path) <= _QUICK_INDEX:
        with suppress(TooMuch):
            found = measure(repo, _QUICK_READS)
            return Held(found.total, found.trash)
    return None if known is None else known[1]


def measured(repo: Repository) -> Space:
    """Measure it all, and write down what was found."""
    refs, at = _fingerprint(repo), time.time()
    found = measure(repo)
    record = {"refs": refs, "total": found.total, "trash": found.trash, "at": at}
    with suppress(OSError):  # a repository that is not ours to write to
        disk.replace(_path(repo), jsontext.dump(record))
    return found


def _read(repo: Repository) -> tuple[str, Held] | None:
    try:
        record = jsontext.load(disk.read_private(_path(repo)))
        found = Held(int(record["total"]), int(record["trash"]), float(record["at"]))
        return str(record["refs"]), found
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def _path(repo: Repository) -> str:
    return os.path.join(repo.common_dir, "ckpt", "space")


def _fingerprint(repo: Repository) -> str:
    """Of what our refs and HEAD hold, and of the packs: most of what changes what is held."""
    refs = {**repo.refs.checkpoints(), **repo.refs.trash()}
    lines = [f"{name} {refs[name].decode()}\n" for name in sorted(refs)]
    lines += [f"{repo.refs.head().commit!r} {_packs_changed(repo)}"]
    return hashlib.new("sha256", "".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _packs_changed(repo: Repository) -> int:
    try:
        return os.stat(os.path.join(repo.objects.path, "pack")).st_mtime_ns
    except OSError:
        return 0


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
