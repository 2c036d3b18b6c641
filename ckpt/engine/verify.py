# SPDX-License-Identifier: MIT
"""Verify that all objects of checkpoints are present and valid.

Each object is read once, even if checkpoints share it. Not checked: refs of other tools, the
history of HEAD (see `git fsck`), objects a partial clone has not fetched, and what valid objects
say: a rollback parses that before it touches anything. Nothing is written.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ckpt.engine.catalog import Catalog, load
from ckpt.errors import CkptError
from ckpt.git import record
from ckpt.git.objects import MissingObject, ObjectID, ObjectStore
from ckpt.git.reachability import ends_of_history, only_in
from ckpt.git.refs import is_ours
from ckpt.git.repository import Repository
from ckpt.git.trees import GITLINK, parse_tree
from ckpt.models import REF_PREFIX, TRASH_PREFIX, Checkpoint

MISSING, DAMAGED, NO_CHECKPOINT = "missing", "damaged", "no-checkpoint"
# The parts of a checkpoint: its own commit, the files, the state commit with the index, the
# commit at HEAD, and the commits of an operation in progress.
COMMIT, WORKTREE, STATE, HEAD, OPERATION = "commit", "worktree", "state", "head", "operation"

Part = tuple[str, ObjectID]  # a part of a checkpoint, and a commit or tree in it


class Target(NamedTuple):
    """A ref of ours, and its raw content `said`; `commit` is None if it names no object."""

    ref: str
    id: str
    commit: ObjectID | None
    said: bytes

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
            if is_ours(prefix + name):
                commit = repo.refs.named_by(said[name])
                found.append(Target(prefix + name, name.rpartition("/")[2], commit, said[name]))
    return found


def named_targets(repo: Repository, words: Iterable[str]) -> list[Target]:
    """Return the refs that words name; a full id may name an unreadable or dropped checkpoint."""
    catalog, targets = Catalog(repo), every_target(repo)
    found: dict[Target, None] = {}
    for word in words:
        known = word if any(target.id == word for target in targets) else catalog.resolve(word).id
        found |= dict.fromkeys(target for target in targets if target.id == known)
    return [*found]


# -- objects -------------------------------------------------------------------------


class _Reader:
    """Reads objects, and records what is wrong with them."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._children: dict[ObjectID, list[tuple[bytes, bool, ObjectID]]] = {}
        self.seen: set[tuple[bytes, ObjectID]] = set()
        self.faults: dict[ObjectID, Problem] = {}
        self.promised: set[ObjectID] = set()

    def read(self, kind: bytes, object_id: ObjectID) -> bytes | None:
        """Read an object; return its content (empty for a blob), or None if that fails."""
        data = b""
        try:
            if kind == b"blob":
                for _ in self._objects.pieces(object_id, kind):
                    pass
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
        self.seen.add((kind, object_id))
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
        except (ValueError, CkptError) as error:
            self._note(DAMAGED, b"tree", tree, f": {error}")
            return []
        return [(name, stat.S_ISDIR(mode), one) for name, mode, one in children if mode != GITLINK]

    def _note(self, problem: str, kind: bytes, object_id: ObjectID, why: str = "") -> None:
        name, shown = kind.decode(), object_id.decode("ascii", "backslashreplace")
        detail = f"{problem} {name} {shown}{why}"
        self.faults.setdefault(object_id, Problem(problem, detail, name, shown))


# -- checkpoints ---------------------------------------------------------------------


def verify(repo: Repository, targets: Sequence[Target]) -> VerifyResult:
    """Verify checkpoints, reading shared objects once."""
    reader = _Reader(repo.objects)
    found = tuple(_verified(repo, target, reader) for target in targets)
    return VerifyResult(found, len(reader.seen), len(reader.promised))


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
    if target.commit is None:
        return Verified(target, None, (Problem(NO_CHECKPOINT, "the ref names no object"),))
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
            places.setdefault(fault, {})[Place(within, path)] = None
    problems = tuple(fault._replace(places=tuple(where)) for fault, where in places.items())
    return Verified(target, checkpoint, problems)


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
