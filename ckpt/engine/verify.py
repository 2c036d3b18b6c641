# SPDX-License-Identifier: MIT
"""Verify that all objects of checkpoints are present and valid.

Each object is read once, even if checkpoints share it. Not checked: refs of other tools, the
history of HEAD (see `git fsck`), and objects a partial clone has not fetched. Nothing is written.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ckpt import ids
from ckpt.engine.catalog import Catalog, load
from ckpt.engine.checkpoint import Recorded
from ckpt.errors import CkptError, UsageError
from ckpt.git import record
from ckpt.git.index import INDEX_PARTS
from ckpt.git.objects import MissingObject, ObjectID, ObjectStore
from ckpt.git.reachability import ends_of_history, only_in
from ckpt.git.repository import Repository
from ckpt.git.trees import GITLINK, is_null, lookup, parse_tree
from ckpt.models import REF_PREFIX, TRASH_PREFIX, Checkpoint, Scope

MISSING, DAMAGED, NO_CHECKPOINT = "missing", "damaged", "no-checkpoint"
# The parts of a checkpoint: its own commit, the files, the index, the rest of its state, the
# commit at HEAD, and the commits of an operation in progress.
COMMIT, WORKTREE, INDEX, STATE = "commit", "worktree", "index", "state"
HEAD, OPERATION = "head", "operation"
_STAGED = (b"index/", b"stages/1/", b"stages/2/", b"stages/3/")
_KINDS = (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR, GITLINK)

Progress = Callable[[int, int], None]
Part = tuple[str, ObjectID]  # a part of a checkpoint, and a commit or tree in it


class Target(NamedTuple):
    """A ref of ours, and its raw content `said`; `problem` is set if it names no commit."""

    ref: str
    id: str
    commit: ObjectID | None
    problem: str | None = None
    said: bytes = b""

    @property
    def is_dropped(self) -> bool:
        return self.ref.startswith(TRASH_PREFIX)


class Place(NamedTuple):
    """A path in a part of a checkpoint; an empty path is the whole part."""

    within: str
    path: bytes


class Problem(NamedTuple):
    """What is wrong; `kind` and `object` name the missing or corrupt object, if any."""

    problem: str
    detail: str
    kind: str | None = None
    object: str | None = None
    places: tuple[Place, ...] = ()


class Verified(NamedTuple):
    target: Target
    checkpoint: Checkpoint | None
    problems: tuple[Problem, ...]

    @property
    def is_whole(self) -> bool:
        return not self.problems


class VerifyResult(NamedTuple):
    """What was verified; `promised` counts objects that a partial clone has not fetched."""

    checkpoints: tuple[Verified, ...]
    objects: int
    bytes: int
    promised: int

    @property
    def is_whole(self) -> bool:
        return all(found.is_whole for found in self.checkpoints)


# -- refs ----------------------------------------------------------------------------


def every_target(repo: Repository) -> list[Target]:
    """Return all refs of ours, newest first, then those in the trash."""
    found: list[Target] = []
    for prefix in (REF_PREFIX, TRASH_PREFIX):
        said = repo.refs.contents_below(prefix)
        for name in sorted(said, reverse=True):
            *days, checkpoint_id = name.split("/")
            if not ids.is_id(checkpoint_id) or len(days) != (prefix == TRASH_PREFIX):
                continue
            commit = repo.refs.named_by(said[name])
            problem = "the ref names no object" if commit is None else None
            found.append(Target(prefix + name, checkpoint_id, commit, problem, said[name]))
    return found


def named_targets(repo: Repository, words: Iterable[str]) -> list[Target]:
    """Return the refs that words name, even of unreadable checkpoints."""
    catalog, targets = Catalog(repo), every_target(repo)
    found: dict[Target, None] = {}
    for word in words:
        try:
            known = catalog.resolve(word, Scope.FULL).ref
            meant = [target for target in targets if target.ref == known]
        except UsageError:
            raise
        except CkptError:
            meant = [t for t in targets if word == "latest" or ids.matches(t.id, word)]
            if not meant:
                raise
        found |= dict.fromkeys(meant)
    return [*found]


# -- objects -------------------------------------------------------------------------


class _Reader:
    """Reads objects, and records what is wrong with them."""

    def __init__(self, objects: ObjectStore, progress: Progress | None = None) -> None:
        self._objects = objects
        self._progress = progress
        self._children: dict[ObjectID, list[tuple[bytes, bool, ObjectID]]] = {}
        self.seen: set[tuple[bytes, ObjectID]] = set()
        self.faults: dict[ObjectID, Problem] = {}
        self.promised: set[ObjectID] = set()
        self.indexes: set[object] = set()  # valid ones
        self.bytes = 0

    def read(self, kind: bytes, object_id: ObjectID) -> bytes | None:
        """Read an object; return its content (empty for a blob), or None if that fails."""
        data, size = b"", 0
        try:
            if kind == b"blob":
                size = sum(map(len, self._objects.pieces(object_id, kind)))
            else:
                data = self._objects.read(object_id, kind)
        except CkptError:
            if self._objects.has(object_id):
                self._note(DAMAGED, kind, object_id)
            elif self._objects.is_partial:  # git fetches it on demand
                self.promised.add(object_id)
            else:
                self._note(MISSING, kind, object_id)
            return None
        if (kind, object_id) not in self.seen:
            self.seen.add((kind, object_id))
            self.bytes += size + len(data)
            if self._progress is not None:
                self._progress(len(self.seen), self.bytes)
        return data

    def commit(self, commit: ObjectID) -> record.CommitData | None:
        if self.read(b"commit", commit) is None:
            return None
        try:
            return record.read_commit(self._objects, commit)
        except MissingObject:
            self._note(DAMAGED, b"commit", commit, ": its tree or a parent is no id")
            return None

    def check(self, top: ObjectID) -> None:
        """Read a tree and everything below it."""
        todo = [top]
        while todo:
            tree = todo.pop()
            if tree in self._children:
                continue
            self._children[tree] = self._entries(tree)
            for _, is_tree, child in self._children[tree]:
                if is_tree:
                    todo.append(child)
                elif (b"blob", child) not in self.seen:
                    self.read(b"blob", child)

    def faults_in(self, top: ObjectID) -> Iterator[tuple[bytes, Problem]]:
        """Yield the path and problem of each fault in a commit or tree."""
        todo, passed = [(b"", top)], {top}
        while todo:
            path, found = todo.pop()
            if found in self.faults:
                yield path, self.faults[found]
            for name, is_tree, child in self._children.get(found, ()):
                if child not in passed and (is_tree or child in self.faults):
                    passed.update([child] * is_tree)
                    todo.append((path + b"/" + name if path else name, child))

    def _entries(self, tree: ObjectID) -> list[tuple[bytes, bool, ObjectID]]:
        """Return the files and subtrees of a tree; none if it is missing or corrupt."""
        data = self.read(b"tree", tree)
        try:
            children = parse_tree(data or b"", self._objects.object_format.oid_length)
            keys = [name + b"/" * stat.S_ISDIR(mode) for name, mode, _ in children]
            if len({name for name, _, _ in children}) < len(keys) or keys != sorted(keys):
                raise ValueError("its entries are not in order, or two have one name")
            for _, mode, child in children:
                if stat.S_IFMT(mode) not in _KINDS or is_null(child):
                    raise ValueError(f"git writes no entry like one of mode {mode:o}")
        except (ValueError, CkptError) as error:
            self._note(DAMAGED, b"tree", tree, f": {error}")
            return []
        return [(name, stat.S_ISDIR(mode), one) for name, mode, one in children if mode != GITLINK]

    def _note(self, problem: str, kind: bytes, object_id: ObjectID, why: str = "") -> None:
        name, shown = kind.decode(), object_id.decode("ascii", "backslashreplace")
        detail = f"{problem} {name} {shown}{why}"
        self.faults.setdefault(object_id, Problem(problem, detail, name, shown))


# -- checkpoints ---------------------------------------------------------------------


def verify(
    repo: Repository, targets: Sequence[Target], progress: Progress | None = None
) -> VerifyResult:
    """Verify checkpoints, reading shared objects once."""
    reader = _Reader(repo.objects, progress)
    found = [_verified(repo, target, reader) for target in targets]
    if not all(each.is_whole for each in found):
        # Ignore checkpoints dropped and pruned in the meantime.
        there = {(target.ref, target.commit) for target in every_target(repo)}
        found = [f for f in found if f.is_whole or (f.target.ref, f.target.commit) in there]
    return VerifyResult(tuple(found), len(reader.seen), reader.bytes, len(reader.promised))


def fault_behind(repo: Repository, *commits: ObjectID) -> str | None:
    """Return the first fault in commits or in their history that is not reachable from a ref, as
    `git gc` fails with a ref to an incomplete history."""
    head = repo.refs.head().commit
    held = {*repo.refs.others(), *(() if head is None else (head,))}
    reader = _Reader(repo.objects)
    try:
        for each in only_in(repo, commits, held):
            reader.check(record.read_commit(repo.objects, each).tree)
    except MissingObject as error:
        return error.message
    return next((fault.detail for fault in reader.faults.values()), None)


def _verified(repo: Repository, target: Target, reader: _Reader) -> Verified:
    if target.problem is not None or target.commit is None:
        return Verified(target, None, (Problem(NO_CHECKPOINT, target.problem or ""),))
    parts: list[Part] = [(COMMIT, target.commit)]
    checkpoint = None
    if reader.read(b"commit", target.commit) is not None:
        try:
            checkpoint = load(repo, target.id, target.commit)
        except CkptError as error:
            return Verified(target, None, (Problem(NO_CHECKPOINT, error.message),))
        parts += _parts(checkpoint, reader, ends_of_history(repo.common_dir))
    places: dict[Problem, dict[Place, None]] = {}
    for within, top in parts if reader.faults else ():
        for path, fault in reader.faults_in(top):
            places.setdefault(fault, {})[_place(within, path)] = None
    problems = [fault._replace(places=tuple(where)) for fault, where in places.items()]
    if checkpoint is not None and not problems:
        try:
            _read_state(repo, checkpoint, reader.indexes)
        except MissingObject:  # not fetched by a partial clone
            pass
        except CkptError as error:
            problems = [Problem(DAMAGED, error.message)]
    return Verified(target, checkpoint, tuple(problems))


def _read_state(repo: Repository, checkpoint: Checkpoint, indexes: set[object]) -> None:
    """Parse the details, manifest, operation and index of a checkpoint, whose objects may be valid
    and their contents not. A shared index is parsed once, as this takes longest."""
    _ = checkpoint.details
    if checkpoint.scope is Scope.FULL:
        recorded = Recorded(repo, checkpoint)
        _ = recorded.manifest, recorded.operation
        index = tuple(lookup(repo.objects, recorded.state_tree, part) for part in INDEX_PARTS)
        if index not in indexes:
            _ = recorded.index
            indexes.add(index)


def _parts(checkpoint: Checkpoint, reader: _Reader, ends: frozenset[ObjectID]) -> Iterator[Part]:
    """Read and yield the commits and trees of a checkpoint, except its own commit."""
    reader.check(ObjectID(checkpoint.tree.encode()))
    yield WORKTREE, ObjectID(checkpoint.tree.encode())
    todo = [(STATE, ObjectID(checkpoint.state_commit.encode()), 2)]
    if checkpoint.head_commit is not None:
        todo.append((HEAD, ObjectID(checkpoint.head_commit.encode()), 0))
    while todo:
        within, commit, levels = todo.pop(0)
        found = reader.commit(commit)
        yield within, commit
        if found is not None:
            reader.check(found.tree)
            yield within, found.tree
            # The index of a stash is a parent commit.
            parents = () if commit in ends else found.parents
            todo += [(OPERATION, parent, levels - 1) for parent in parents if levels]


def _place(within: str, path: bytes) -> Place:
    for prefix in _STAGED if within == STATE else ():
        if path.startswith(prefix):
            return Place(INDEX, path[len(prefix) :])
    return Place(within, path)
