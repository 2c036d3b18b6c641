# SPDX-License-Identifier: MIT
"""Check that every object that checkpoints need is present and valid.

Each object is read once, however many checkpoints share it. Refs of other tools below
refs/checkpoints/ are not looked at. Left out: the history behind HEAD's commit and its parents
(`git fsck`), and in a partial clone what was left at the remote. Nothing is written.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ckpt import ids
from ckpt.engine.catalog import Catalog, load
from ckpt.engine.recorded import Recorded
from ckpt.errors import CkptError, NotFound, UsageError, is_want
from ckpt.git import record
from ckpt.git.formats import ObjectID
from ckpt.git.index import read_flags
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.reachability import behind, ends_of_history
from ckpt.git.refs import SYMREF
from ckpt.git.repository import Repository
from ckpt.git.trees import GITLINK, is_null, parse_tree
from ckpt.models import REF_PREFIX, TRASH_PREFIX, Checkpoint, Scope

MISSING, DAMAGED, UNREADABLE, NO_CHECKPOINT = "missing", "damaged", "unreadable", "no-checkpoint"
# Where in a checkpoint an object is needed: its own commit, the files, what is staged, the rest
# of the state, HEAD's commit, the commits right behind it, those of an operation in progress.
PARTS = ("commit", "worktree", "index", "state", "head", "history", "operation")
COMMIT, WORKTREE, INDEX, STATE, HEAD, HISTORY, OPERATION = PARTS
_STAGED = (b"index/", b"stages/1/", b"stages/2/", b"stages/3/")
_MOST_PLACES = 1000  # of faults below one tree
_DAMAGE = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)

Progress = Callable[[int, int], None]
Child = tuple[bytes, int, ObjectID]


class Target(NamedTuple):
    """A ref of ours and its raw content `said`; `problem` says why it names no commit."""

    ref: str
    id: str
    commit: ObjectID | None
    problem: str | None = None
    said: bytes = b""

    @property
    def is_dropped(self) -> bool:
        return self.ref.startswith(TRASH_PREFIX)


class Place(NamedTuple):
    """A part of a checkpoint, and a path in it; an empty path is the part as a whole."""

    within: str
    path: bytes


class Problem(NamedTuple):
    """`kind` and `object` name the object that is at fault, if it is one."""

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

    @property
    def has_files(self) -> bool:
        """Whether some of its files can still be restored by path."""
        fatal = {Place(part, b"") for part in (WORKTREE, STATE, COMMIT)}
        fatal.add(Place(STATE, record.MANIFEST))
        places = {place for problem in self.problems for place in problem.places}
        return self.checkpoint is not None and fatal.isdisjoint(places)


class VerifyResult(NamedTuple):
    """`promised` counts objects that a partial clone left at its remote."""

    checkpoints: tuple[Verified, ...]
    objects: int
    bytes: int
    promised: int

    @property
    def is_whole(self) -> bool:
        return all(found.is_whole for found in self.checkpoints)


# -- which refs ----------------------------------------------------------------------


def every_target(repo: Repository) -> list[Target]:
    """All refs of ours, newest first, then those in the trash."""
    found: list[Target] = []
    for prefix in (REF_PREFIX, TRASH_PREFIX):
        said = repo.refs.contents_below(prefix)
        for name in sorted(said, reverse=True):
            day, _, checkpoint_id = name.rpartition("/")
            is_ours = ids.is_id(checkpoint_id) and bool(day) == (prefix == TRASH_PREFIX)
            if is_ours and "/" not in day:
                found.append(_target(repo, prefix + name, checkpoint_id, said[name]))
    return found


def _target(repo: Repository, ref: str, checkpoint_id: str, said: bytes) -> Target:
    commit, problem = repo.refs.named_by(said), None
    if said.startswith(SYMREF.strip()):
        problem = "it is a symbolic ref, which no checkpoint has"
    elif commit is None:
        problem = "the ref names no object"
    return Target(ref, checkpoint_id, commit, problem, said)


def named_targets(repo: Repository, words: Iterable[str]) -> list[Target]:
    """The refs that these words mean, each once, also if their checkpoints cannot be read; with
    `latest`, newer ones that cannot be read too."""
    catalog, targets = Catalog(repo), every_target(repo)
    readable = {checkpoint.id for checkpoint in catalog}
    unreadable = [t for t in targets if t.id not in readable and not t.is_dropped]
    found: dict[str, Target] = {}
    for word in words:
        is_latest = word.partition("~")[0] == "latest"
        hidden = unreadable if is_latest else [t for t in targets if ids.matches(t.id, word)]
        try:
            meant = catalog.resolve(word, Scope.FULL)
        except UsageError:
            raise
        except CkptError as error:
            ambiguous = len(hidden) > 1 and not is_latest and isinstance(error, NotFound)
            if not hidden or ambiguous:
                raise
            found |= {t.ref: t for t in (hidden if is_latest else hidden[:1])}
            continue
        if is_latest:
            found |= {target.ref: target for target in unreadable if target.id > meant.id}
        found[meant.ref] = Target(meant.ref, meant.id, ObjectID(meant.commit.encode()))
    return [*found.values()]


# -- objects -------------------------------------------------------------------------


class _Fault(NamedTuple):
    problem: str
    kind: bytes
    id: ObjectID
    detail: str


class _Reader:
    """Reads each object once, and notes those that are missing or damaged.

    `progress` is called with the number of objects and bytes that were read.
    """

    def __init__(self, objects: ObjectStore, progress: Progress | None = None) -> None:
        self._objects = objects
        self._progress = progress
        self._children: dict[ObjectID, list[Child]] = {}
        self._parents: dict[ObjectID, list[ObjectID]] = {}
        self._bad: set[ObjectID] = set()
        self._seen: set[ObjectID] = set()
        self.faults: dict[ObjectID, _Fault] = {}
        self.promised = 0
        self.bytes = 0

    @property
    def count(self) -> int:
        return len(self._seen)

    def read(self, kind: bytes, object_id: ObjectID) -> bytes | None:
        """The content of an object; None if it is at fault."""
        if object_id in self.faults:
            return None
        try:
            data = self._objects.read(object_id, kind)
        except (CkptError, OSError) as error:
            self._blame(kind, object_id, error)
            return None
        self._passed(object_id, len(data))
        return data

    def commit(self, commit: ObjectID) -> record.CommitData | None:
        if self.read(b"commit", commit) is None:
            return None
        try:
            return record.read_commit(self._objects, commit)
        except MissingObject:
            self._condemn(b"commit", commit, "its tree or a parent is no id")
            return None

    def check(self, tops: Iterable[ObjectID]) -> None:
        """Read trees, and all that is in them."""
        blobs = self._gather(tops)
        for blob, size in self._objects.sizes(blobs).items():  # in the order of the packs
            self._check_blob(blob, size)
            blobs.discard(blob)
        for blob in sorted(blobs):
            self._check_blob(blob, 0)
        todo = [tree for tree in self._parents if any(True for _ in self._own_faults(b"", tree))]
        while todo:
            tree = todo.pop()
            if tree not in self._bad:
                self._bad.add(tree)
                todo += self._parents[tree]

    def faults_in(self, top: ObjectID) -> Iterator[tuple[bytes, _Fault]]:
        """The paths below a tree at which something is wrong, the first so many."""
        todo, count = [(b"", top)], 0
        while todo and count < _MOST_PLACES:
            folder, tree = todo.pop()
            if tree in self._bad:
                for path, fault in self._own_faults(folder, tree):
                    count += 1
                    yield path, fault
                children = self._children.get(tree, ())
                below = [(_join(folder, n), c) for n, mode, c in children if stat.S_ISDIR(mode)]
                todo += reversed(below)

    def _gather(self, tops: Iterable[ObjectID]) -> set[ObjectID]:
        """Read trees; returns the blobs in them that were not read before."""
        blobs: set[ObjectID] = set()
        todo = [top for top in tops if top not in self._parents]
        self._parents |= {top: [] for top in todo}
        while todo:
            tree = todo.pop()
            if tree in self._children:
                continue
            self._children[tree] = self._read_tree(tree)
            for _, mode, child in self._children[tree]:
                if stat.S_ISDIR(mode):
                    if child not in self._parents:
                        todo.append(child)
                    self._parents.setdefault(child, []).append(tree)
                elif mode != GITLINK:
                    blobs.add(child)
        return blobs - self._seen - self.faults.keys()

    def _read_tree(self, tree: ObjectID) -> list[Child]:
        """The entries of a tree; none if it is missing or damaged, which is noted."""
        data = self.read(b"tree", tree)
        if data is None:
            return []
        try:
            children = parse_tree(data, self._objects.object_format.oid_length)
            _check_entries(children)
        except (ValueError, CkptError) as error:
            self._condemn(b"tree", tree, error.message if isinstance(error, CkptError) else error)
            return []
        return children

    def _own_faults(self, folder: bytes, tree: ObjectID) -> Iterator[tuple[bytes, _Fault]]:
        if tree in self.faults:
            yield folder, self.faults[tree]
        for name, mode, child in self._children.get(tree, ()):
            if not stat.S_ISDIR(mode) and mode != GITLINK and child in self.faults:
                yield _join(folder, name), self.faults[child]

    def _check_blob(self, blob: ObjectID, size: int) -> None:
        try:
            self._objects.check(blob, b"blob")
        except (CkptError, OSError) as error:
            self._blame(b"blob", blob, error)
        else:
            self._passed(blob, size)

    def _passed(self, object_id: ObjectID, size: int) -> None:
        if object_id not in self._seen:
            self._seen.add(object_id)
            self.bytes += size
            if self._progress is not None:
                self._progress(len(self._seen), self.bytes)

    def _condemn(self, kind: bytes, object_id: ObjectID, reason: object) -> None:
        detail = f"damaged {kind.decode()} {_shown(object_id)}: {reason}"
        self.faults[object_id] = _Fault(DAMAGED, kind, object_id, detail)

    def _blame(self, kind: bytes, object_id: ObjectID, error: Exception) -> None:
        if isinstance(error, OSError) and is_want(error):
            raise error
        problem, reason = DAMAGED, ""
        if isinstance(error, OSError):
            problem, reason = UNREADABLE, f": {error.strerror}"
        elif not self._objects.has(object_id):
            if self._objects.is_partial:  # what git fetches when it is asked for
                self.promised += 1
                return
            problem = MISSING
        detail = f"{problem} {kind.decode()} {_shown(object_id)}{reason}"
        self.faults[object_id] = _Fault(problem, kind, object_id, detail)


def _check_entries(children: Sequence[Child]) -> None:
    """Refuse entries that git does not write into a tree."""
    keys = [name + b"/" * stat.S_ISDIR(mode) for name, mode, _ in children]
    if len({name for name, _, _ in children}) < len(children) or keys != sorted(keys):
        raise ValueError("its entries are not in order, or two have one name")
    for name, mode, child in children:
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode) or mode == GITLINK):
            raise ValueError(f"it has an entry of the unknown mode {mode:o}")
        if is_null(child):
            raise ValueError(f"its entry '{name.decode(errors='backslashreplace')}' names nothing")


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def _shown(object_id: ObjectID) -> str:
    return object_id.decode("ascii", "backslashreplace")


# -- checkpoints ---------------------------------------------------------------------


class _Needs:
    """What one checkpoint needs: commits, and trees with all that is in them."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.checkpoint: Checkpoint | None = None
        self.problems: list[Problem] = []
        self.commits: dict[ObjectID, str] = {}
        self.trees: dict[tuple[str, ObjectID], None] = {}


def verify(
    repo: Repository, targets: Sequence[Target], progress: Progress | None = None
) -> VerifyResult:
    """Verify some refs together; what they share is read once."""
    reader = _Reader(repo.objects, progress)
    ends = ends_of_history(repo.common_dir)
    needs = [_needs_of(repo, reader, target, ends) for target in targets]
    reader.check([tree for each in needs for _, tree in each.trees])
    found = [_verified(repo, each, reader) for each in needs]
    if not all(each.is_whole for each in found):
        # What was dropped and pruned meanwhile is not damage.
        there = {(target.ref, target.commit) for target in every_target(repo)}
        found = [f for f in found if f.is_whole or (f.target.ref, f.target.commit) in there]
    return VerifyResult(tuple(found), reader.count, reader.bytes, reader.promised)


def first_fault(
    repo: Repository, commits: Iterable[ObjectID], trees: Iterable[ObjectID] = ()
) -> str | None:
    """The first thing wrong with some commits and trees, and all that is in them."""
    reader = _Reader(repo.objects)
    read = [reader.commit(commit) for commit in commits]
    reader.check([*trees, *(each.tree for each in read if each is not None)])
    return next((fault.detail for fault in reader.faults.values()), None)


def fault_behind(repo: Repository, commit: ObjectID) -> str | None:
    """The first thing wrong with a commit or its history as far as no ref of git's holds it.

    Git prunes unreachable objects one by one; a ref to a history with a gap makes `git gc` fail.
    """
    head = repo.refs.head().commit
    held = {*repo.refs.others(), *(() if head is None else (head,))}
    found = behind(repo.objects, commit, held, ends_of_history(repo.common_dir))
    return first_fault(repo, (*found.unreadable, *found.commits))


def _needs_of(
    repo: Repository, reader: _Reader, target: Target, ends: frozenset[ObjectID]
) -> _Needs:
    needs = _Needs(target)
    if target.problem is not None or target.commit is None:
        needs.problems.append(Problem(NO_CHECKPOINT, target.problem or "the ref names no object"))
        return needs
    needs.commits[target.commit] = COMMIT
    if reader.read(b"commit", target.commit) is None:
        return needs
    try:
        checkpoint = needs.checkpoint = load(repo, target.id, target.commit)
    except CkptError as error:
        needs.problems.append(Problem(NO_CHECKPOINT, error.message))
        return needs

    def add(within: str, commit: ObjectID) -> tuple[ObjectID, ...]:
        """Note a commit and its tree; returns its parents, unless a shallow clone ends there."""
        needs.commits.setdefault(commit, within)
        found = reader.commit(commit)
        if found is None:
            return ()
        needs.trees[within, found.tree] = None
        return () if commit in ends else found.parents

    needs.trees[WORKTREE, ObjectID(checkpoint.tree.encode())] = None
    if checkpoint.head_commit is not None:
        for parent in add(HEAD, ObjectID(checkpoint.head_commit.encode())):
            needs.commits.setdefault(parent, HISTORY)
            reader.read(b"commit", parent)
    for commit in add(STATE, ObjectID(checkpoint.state_commit.encode())):
        for parent in add(OPERATION, commit):  # of a stash, what was staged
            add(OPERATION, parent)
    return needs


def _verified(repo: Repository, needs: _Needs, reader: _Reader) -> Verified:
    problems = [*needs.problems]
    places: dict[_Fault, list[Place]] = {}
    for fault, place in _faults(needs, reader) if reader.faults else ():
        places.setdefault(fault, []).append(place)
    for fault, found in places.items():
        where = tuple(dict.fromkeys(found))
        kind, shown = fault.kind.decode(), _shown(fault.id)
        problems.append(Problem(fault.problem, fault.detail, kind, shown, where))
    if needs.checkpoint is not None and not problems:
        unreadable = _unreadable(repo, needs.checkpoint)
        if unreadable is not None:
            problems.append(Problem(DAMAGED, unreadable))
    return Verified(needs.target, needs.checkpoint, tuple(problems))


def _unreadable(repo: Repository, checkpoint: Checkpoint) -> str | None:
    """Why the state of a checkpoint cannot be read, although its objects are valid."""
    try:
        checkpoint.data  # noqa: B018  # reading it is the test
        if checkpoint.scope is Scope.FULL:
            recorded = Recorded(repo, checkpoint)
            recorded.manifest, recorded.index, recorded.operation  # noqa: B018  # likewise
            read_flags(repo.objects, recorded.state_tree)
    except MissingObject:  # left at the remote of a partial clone
        return None
    except CkptError as error:
        return error.message
    except _DAMAGE as error:
        return f"its recorded state is damaged ({error!r})"
    return None


def _faults(needs: _Needs, reader: _Reader) -> Iterator[tuple[_Fault, Place]]:
    for commit, within in needs.commits.items():
        if commit in reader.faults:
            yield reader.faults[commit], Place(within, b"")
    for within, tree in needs.trees:
        for path, fault in reader.faults_in(tree):
            yield fault, _place(within, path)


def _place(within: str, path: bytes) -> Place:
    for prefix in _STAGED if within == STATE else ():
        if path.startswith(prefix):
            return Place(INDEX, path[len(prefix) :])
    return Place(within, path)
