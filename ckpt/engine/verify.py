# SPDX-License-Identifier: MIT
"""Check that every object that checkpoints need is present and valid, and that what they record
about themselves is true.

Each object is read once, however many checkpoints share it. Refs of other tools below
refs/checkpoints/ are not looked at. Left out: the history behind HEAD's commit and its parents
(`git fsck`). Nothing is written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ckpt import ids
from ckpt.engine.catalog import Catalog, load
from ckpt.engine.foreign import shown
from ckpt.engine.nested import open_nested
from ckpt.engine.recorded import Recorded
from ckpt.errors import CkptError, NotFound, UsageError
from ckpt.git import index, record
from ckpt.git.formats import ObjectID
from ckpt.git.history import behind, ends_of_history
from ckpt.git.objects import MissingObject
from ckpt.git.reachability import MISSING, PROMISED, Fault, Inspection
from ckpt.git.refs import SYMREF
from ckpt.git.repack import promised
from ckpt.git.repository import Repository
from ckpt.git.trees import (
    FOLDER,
    GITLINK,
    Entries,
    TreeEntry,
    is_null,
    lookup,
    parse_tree,
    read_tree,
    walk,
)
from ckpt.models import REF_PREFIX, TRASH_PREFIX, Checkpoint, Scope, SkipReason
from ckpt.paths import folders_above, from_json, is_within, to_bytes

_MANIFEST_FORMAT = 1
_SHOWN = 80  # characters of a path
_DAMAGE = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)


class Facts:
    """Compares one checkpoint after the other; trees that many share are read once."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._known: dict[ObjectID, Entries] = {}
        self._compared: dict[tuple[ObjectID, ObjectID | None], bytes | None] = {}

    def untrue(self, checkpoint: Checkpoint) -> Iterator[str]:
        """One line for each thing that is not so."""
        try:
            checkpoint.data  # noqa: B018  # for the errors of reading the agent's state
            if checkpoint.scope is Scope.STATE:
                yield from self._state_only(checkpoint)
            else:
                yield from self._full(Recorded(self._repo, checkpoint))
        except _DAMAGE as error:
            yield f"what it says of itself is damaged ({error!r})"

    def _state_only(self, checkpoint: Checkpoint) -> Iterator[str]:
        if read_tree(self._repo.objects, ObjectID(checkpoint.tree.encode())):
            yield "it is of scope 'state', and has files"

    def _full(self, recorded: Recorded) -> Iterator[str]:
        yield from _trailers(recorded)
        yield from self._modes(recorded)
        yield from self._folders_and_skipped(recorded)
        yield from self._nested(recorded)
        yield from self._index(recorded)
        yield from self._conversions(recorded)

    # -- the manifest --------------------------------------------------------------

    def _modes(self, recorded: Recorded) -> Iterator[str]:
        modes, manifest = recorded.manifest.modes, recorded.manifest
        for path in modes.others:
            if not self._is_file(recorded.tree, path):
                yield f"it has permissions of {_shown(path)}, which is no file of it"
        aside = (*manifest.empty_folders, *manifest.skipped)
        for path in modes.folders:
            entry = self._entry(recorded.tree, path)
            is_folder = entry is not None and entry.mode == FOLDER
            if not is_folder and path and not any(is_within(each, (path,)) for each in aside):
                yield f"it has permissions of {_shown(path)}, which is no folder of it"

    def _folders_and_skipped(self, recorded: Recorded) -> Iterator[str]:
        manifest = recorded.manifest
        for path in manifest.empty_folders:
            if not self._is_empty(recorded, path):
                yield f"it calls {_shown(path)} an empty folder, and has something there"
        for path, reason in manifest.skipped.items():
            if self._is_file(recorded.tree, path):
                yield f"it has {_shown(path)}, and says that it was left out ({reason})"
        for path in manifest.unskipped:
            is_left_out = path in manifest.skipped or self._is_below_file(recorded.tree, path)
            if self._entry(recorded.tree, path) is None and not is_left_out:
                yield f"it says that {_shown(path)} was on disk, and does not have it"

    def _nested(self, recorded: Recorded) -> Iterator[str]:
        for path in (to_bytes(state.path) for state in recorded.manifest.nested):
            entry = self._entry(recorded.tree, path)
            if entry is None or entry.mode == GITLINK:
                continue
            if entry.mode != FOLDER or not self._is_tracked_below(recorded, path):
                yield f"it calls {_shown(path)} a repository, and has another there"

    def _is_tracked_below(self, recorded: Recorded, folder: bytes) -> bool:
        """Whether a folder has tracked files, which stay so if a repository is begun in it."""
        flags = index.read_flags(self._repo.objects, recorded.state_tree)
        stages = index.stage_trees(self._repo.objects, recorded.state_tree)
        held = (self._entry(tree, folder) for tree in stages if tree is not None)
        return any(entry is not None and entry.mode == FOLDER for entry in held) or any(
            is_within(from_json(item), (folder,)) for item in flags.get("intent_to_add", ())
        )

    # -- what is staged ------------------------------------------------------------

    def _index(self, recorded: Recorded) -> Iterator[str]:
        flags = index.read_flags(self._repo.objects, recorded.state_tree)
        stages = index.stage_trees(self._repo.objects, recorded.state_tree)
        intended = [from_json(item) for item in flags.get("intent_to_add", ())]
        for name in ("assume_valid", "skip_worktree", "stale", "unseen"):
            for path in map(from_json, flags.get(name, ())):
                held = (self._entry(tree, path) for tree in stages if tree is not None)
                if path not in intended and not any(held):
                    yield f"the index flag '{name}' is for {_shown(path)}, which is not staged"

    # -- files that git converts ---------------------------------------------------

    def _conversions(self, recorded: Recorded) -> Iterator[str]:
        top = recorded.raw_files.tree
        stray = None if top is None else self._stray(top, recorded.tree)
        if stray is not None:
            yield f"it says how {_shown(stray)} was on disk, which is no file of it"

    def _stray(self, top: ObjectID, files: ObjectID | None) -> bytes | None:
        """A path below one tree that is no file below the other; each pair is compared once."""
        if (top, files) not in self._compared:
            self._compared[top, files] = None  # also against going round for ever
            self._compared[top, files] = self._compare(top, files)
        return self._compared[top, files]

    def _compare(self, top: ObjectID, files: ObjectID | None) -> bytes | None:
        there = {} if files is None else _children(self._repo, files)
        for name, entry in _children(self._repo, top).items():
            other = there.get(name)
            if entry.mode == FOLDER:
                below = other.id if other is not None and other.mode == FOLDER else None
                stray = self._stray(entry.id, below)
                if stray is not None:
                    return name + b"/" + stray
            elif other is None or not stat.S_ISREG(other.mode):
                return name
        return None

    # -- looking things up ---------------------------------------------------------

    def _entry(self, tree: ObjectID, path: bytes) -> TreeEntry | None:
        return lookup(self._repo.objects, tree, path, self._known)

    def _is_file(self, tree: ObjectID, path: bytes) -> bool:
        entry = self._entry(tree, path)
        return entry is not None and entry.mode not in (FOLDER, GITLINK)

    def _is_below_file(self, tree: ObjectID, path: bytes) -> bool:
        """Whether something else stands where a folder of this path was left out."""
        above = (self._entry(tree, folder) for folder in folders_above(path))
        return any(entry is not None and entry.mode != FOLDER for entry in above)

    def _is_empty(self, recorded: Recorded, path: bytes) -> bool:
        """Whether the tree has nothing there but what a sparse checkout left out."""
        entry = self._entry(recorded.tree, path)
        if entry is None or path in recorded.absent:
            return True
        if entry.mode != FOLDER:
            return False
        files = (file for file, _ in walk(self._repo.objects, entry.id, path))
        return all(file in recorded.absent for file in files)


def _children(repo: Repository, tree: ObjectID) -> dict[bytes, TreeEntry]:
    return {name: TreeEntry(mode, id) for name, mode, id in read_tree(repo.objects, tree)}


def _trailers(recorded: Recorded) -> Iterator[str]:
    """What the commit's message and the manifest both say."""
    checkpoint, manifest = recorded.checkpoint, recorded.manifest
    document = record.read_json(recorded.objects, checkpoint, record.MANIFEST)
    if document.get("format") != _MANIFEST_FORMAT:
        raise CkptError(
            f"its manifest has format {document.get('format')!r}, which this ckpt does not know",
            hint="upgrade ckpt: pip install --upgrade git-ckpt",
        )
    if manifest.branch != checkpoint.branch:
        yield f"its commit is of branch '{checkpoint.branch}', its manifest of '{manifest.branch}'"
    if SkipReason.UNREADABLE.value in manifest.skipped.values() and not checkpoint.partial:
        yield "it is not marked partial, and some of it could not be read"
    if recorded.operation.files.operation != manifest.operation:
        yield "the operation in its manifest is not that of its files"


def _shown(path: bytes) -> str:
    text = path.decode("utf-8", "backslashreplace")
    return f"'{text if len(text) <= _SHOWN else text[: _SHOWN - 1] + '…'}'"


# -- Check that every object that checkpoints need is present and valid, and that what they record

# Where in a checkpoint an object is needed: its own commit, the files, what is staged, the rest
# of the state, HEAD's commit, the commits right behind it, those of an operation in progress.
PARTS = ("commit", "worktree", "index", "state", "head", "history", "operation")
COMMIT, WORKTREE, INDEX, STATE, HEAD, HISTORY, OPERATION = PARTS
UNTRUE, NO_CHECKPOINT, DROPPED = "untrue", "no-checkpoint", "dropped"
_STAGED = (b"index/", b"stages/1/", b"stages/2/", b"stages/3/")
_MOST_PLACES = 1000  # of faults below one tree


# -- refs --------------------------------------------------------------------------


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
    """The refs that these words mean, each once."""
    found: dict[str, Target] = {}
    for word in words:
        found |= {target.ref: target for target in _named(repo, word)}
    return [*found.values()]


def _named(repo: Repository, word: str) -> Iterator[Target]:
    """The ref for a word, also if its checkpoint cannot be read; before `latest`, the newer ones
    that cannot be read."""
    catalog = Catalog(repo)
    is_latest = word.partition("~")[0] == "latest"
    targets = every_target(repo)
    try:
        meant = catalog.resolve(word, Scope.FULL)
    except UsageError:
        raise
    except CkptError as error:
        hidden = [t for t in targets if ids.matches(t.id, word)]
        if is_latest:
            hidden = _unreadable(catalog, targets)
        elif not isinstance(error, NotFound):
            hidden = hidden[:1]
        if not hidden or (len(hidden) > 1 and not is_latest):
            raise
        yield from hidden
        return
    if is_latest:
        yield from (target for target in _unreadable(catalog, targets) if target.id > meant.id)
    yield Target(meant.ref, meant.id, ObjectID(meant.commit.encode()))


def _unreadable(catalog: Catalog, targets: Iterable[Target]) -> list[Target]:
    readable = {checkpoint.id for checkpoint in catalog}
    return [each for each in targets if each.id not in readable and not each.is_dropped]


# -- results -----------------------------------------------------------------------


class Place(NamedTuple):
    within: str
    path: bytes


class Problem(NamedTuple):
    """`object` is the id of what is missing or corrupt; `places` are at most a thousand."""

    problem: str
    detail: str
    kind: str | None = None
    object: str | None = None
    places: tuple[Place, ...] = ()


class Verified(NamedTuple):
    """`checkpoint` is None if the ref leads to none that can be read."""

    target: Target
    checkpoint: Checkpoint | None
    problems: tuple[Problem, ...]

    @property
    def is_whole(self) -> bool:
        return not self.problems

    @property
    def has_files(self) -> bool:
        """Whether some of its files can still be restored by path."""
        tops = {Place(part, b"") for part in (WORKTREE, STATE, COMMIT)}
        fatal = {*tops, Place(STATE, record.MANIFEST)}
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


# -- trees -------------------------------------------------------------------------


class _Trees:
    """Trees with all that is in them, each read once; `blobs` are their contents."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self._parents: dict[ObjectID, list[ObjectID]] = {}
        self._bad: set[ObjectID] | None = None
        self.blobs: set[ObjectID] = set()

    def gather(self, top: ObjectID) -> None:
        todo = [top] if top not in self._parents else []
        self._parents.setdefault(top, [])
        while todo:
            tree = todo.pop()
            for _, mode, child in self._children(tree):
                if stat.S_ISDIR(mode):
                    if child not in self._parents:
                        todo.append(child)
                    self._parents.setdefault(child, []).append(tree)
                elif mode != GITLINK:
                    self.blobs.add(child)

    def faults_in(self, top: ObjectID) -> Iterator[tuple[bytes, Fault]]:
        """The paths below a tree at which something is wrong, the first so many."""
        if self._bad is None:
            self._bad = self._with_faults()
        todo, count = [(b"", top)], 0
        while todo and count < _MOST_PLACES:
            folder, tree = todo.pop()
            if tree in self._bad:
                for path, fault in self._faults_at(folder, tree):
                    count += 1
                    yield path, fault
                children = self._children(tree)
                below = [(_join(folder, n), c) for n, mode, c in children if stat.S_ISDIR(mode)]
                todo += reversed(below)

    def _with_faults(self) -> set[ObjectID]:
        """The trees with a fault at any depth: those with one of their own, and all above."""
        todo = [tree for tree in self._parents if any(True for _ in self._faults_at(b"", tree))]
        bad: set[ObjectID] = set()
        while todo:
            tree = todo.pop()
            if tree not in bad:
                bad.add(tree)
                todo += self._parents[tree]
        return bad

    def _faults_at(self, folder: bytes, tree: ObjectID) -> Iterator[tuple[bytes, Fault]]:
        children = self._children(tree)  # first, for it may be gone since it was gathered
        own = self._inspection.fault(b"tree", tree)
        if own is not None:
            yield folder, own
        for name, mode, child in children:
            if not stat.S_ISDIR(mode) and mode != GITLINK:
                fault = self._inspection.fault(b"blob", child)
                if fault is not None:
                    yield _join(folder, name), fault

    def _children(self, tree: ObjectID) -> list[tuple[bytes, int, ObjectID]]:
        """The entries of a tree; none if it is missing or corrupt, which is noted."""
        data = self._inspection.read(b"tree", tree)
        if data is None:
            return []
        try:
            children = parse_tree(data, self._inspection.objects.object_format.oid_length)
            _check(children)
        except (ValueError, CkptError) as error:
            told = error.message if isinstance(error, CkptError) else str(error)
            self._inspection.condemn(b"tree", tree, told)
            return []
        return children


def _check(children: Sequence[tuple[bytes, int, ObjectID]]) -> None:
    """Refuse entries that git does not write into a tree."""
    keys = [name + b"/" * stat.S_ISDIR(mode) for name, mode, _ in children]
    if len({name for name, _, _ in children}) < len(children):
        raise ValueError("it has two entries of one name")
    if keys != sorted(keys):
        raise ValueError("its entries are not in order")
    for name, mode, child in children:
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode) or mode == GITLINK):
            raise ValueError(f"it has an entry of the unknown mode {mode:o}")
        if is_null(child):
            raise ValueError(f"its entry '{shown(name)}' names no object")


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


# -- checkpoints -------------------------------------------------------------------


@dataclass
class _Needs:
    """What one checkpoint needs: commits, and trees with all that is in them."""

    target: Target
    checkpoint: Checkpoint | None = None
    problems: list[Problem] = field(default_factory=list)
    commits: dict[ObjectID, str] = field(default_factory=dict)
    trees: list[tuple[str, ObjectID]] = field(default_factory=list)


def verify(
    repo: Repository,
    targets: Sequence[Target],
    progress: Callable[[int, int], None] | None = None,
) -> VerifyResult:
    """Verify some refs together; what they share is read once."""
    inspection = Inspection(repo.objects, progress)
    trees = _Trees(inspection)
    ends = ends_of_history(repo.common_dir)
    needs = [_needs_of(repo, inspection, target, ends) for target in targets]
    for each in needs:
        for _, tree in each.trees:
            trees.gather(tree)
    inspection.check_blobs(trees.blobs)
    inspection.distrust_packs()
    kept = _set_promised_apart(repo, inspection)
    facts = Facts(repo)
    found = [_verified(each, inspection, trees, facts) for each in needs]
    if not all(each.is_whole for each in found):
        # What was dropped and pruned meanwhile is not damage.
        there = {(target.ref, target.commit) for target in every_target(repo)}
        found = [f for f in found if f.is_whole or (f.target.ref, f.target.commit) in there]
    return VerifyResult(tuple(found), inspection.read_objects, inspection.read_bytes, kept)


def _needs_of(
    repo: Repository, inspection: Inspection, target: Target, ends: frozenset[ObjectID]
) -> _Needs:
    needs = _Needs(target)
    if target.problem is not None or target.commit is None:
        needs.problems.append(Problem(NO_CHECKPOINT, target.problem or "the ref names no object"))
        return needs
    needs.commits[target.commit] = COMMIT
    if inspection.read(b"commit", target.commit) is None:
        return needs
    try:
        checkpoint = needs.checkpoint = load(repo, target.id, target.commit)
    except CkptError as error:
        needs.problems.append(Problem(NO_CHECKPOINT, error.message))
        return needs

    def add(within: str, commit: ObjectID) -> tuple[ObjectID, ...]:
        """Note a commit and its tree; returns its parents, unless a shallow clone ends there."""
        needs.commits.setdefault(commit, within)
        found = _read_commit(inspection, commit)
        if found is None:
            return ()
        needs.trees.append((within, found.tree))
        return () if commit in ends else found.parents

    needs.trees.append((WORKTREE, ObjectID(checkpoint.tree.encode())))
    if checkpoint.head_commit is not None:
        for parent in add(HEAD, ObjectID(checkpoint.head_commit.encode())):
            needs.commits.setdefault(parent, HISTORY)
            inspection.read(b"commit", parent)
    for commit in add(STATE, ObjectID(checkpoint.state_commit.encode())):
        for parent in add(OPERATION, commit):  # of a stash, what was staged
            add(OPERATION, parent)
    return needs


def _read_commit(inspection: Inspection, commit: ObjectID) -> record.CommitData | None:
    if inspection.read(b"commit", commit) is None:
        return None
    try:
        return record.read_commit(inspection.objects, commit)
    except MissingObject:
        inspection.condemn(b"commit", commit, "its tree or a parent is no id")
        return None


def _set_promised_apart(repo: Repository, inspection: Inspection) -> int:
    """Tell what a partial clone left at its remote from what is lost; returns how many."""
    if not repo.objects.is_partial:
        return 0
    missing = {f.id: key for key, f in inspection.faults.items() if f.problem == MISSING}
    kept = promised(repo.objects, missing)
    for key in (missing[object_id] for object_id in kept):
        fault = inspection.faults[key]
        inspection.faults[key] = Fault(PROMISED, fault.kind, fault.id, fault.detail)
    return len(kept)


def _verified(needs: _Needs, inspection: Inspection, trees: _Trees, facts: Facts) -> Verified:
    problems = [*needs.problems]
    places: dict[Fault, list[Place]] = {}
    for fault, place in _faults(needs, inspection, trees) if inspection.faults else ():
        if fault.problem != PROMISED:
            places.setdefault(fault, []).append(place)
    for fault, found in places.items():
        shown_id = fault.id.decode("ascii", "backslashreplace")
        where = tuple(dict.fromkeys(found))
        problems.append(Problem(fault.problem, fault.detail, fault.kind.decode(), shown_id, where))
    if needs.checkpoint is not None:
        try:
            problems += [Problem(UNTRUE, told) for told in facts.untrue(needs.checkpoint)]
        except CkptError as error:
            # Reported already, or left at the remote of a partial clone.
            if not problems and not (inspection.faults and isinstance(error, MissingObject)):
                problems.append(Problem(UNTRUE, error.message))
    return Verified(needs.target, needs.checkpoint, tuple(problems))


def _faults(needs: _Needs, inspection: Inspection, trees: _Trees) -> Iterator[tuple[Fault, Place]]:
    for commit, within in needs.commits.items():
        fault = inspection.fault(b"commit", commit)
        if fault is not None:
            yield fault, Place(within, b"")
    for within, tree in dict.fromkeys(needs.trees):
        for path, fault in trees.faults_in(tree):
            yield fault, _place(within, path)


def _place(within: str, path: bytes) -> Place:
    for prefix in _STAGED if within == STATE else ():
        if path.startswith(prefix):
            return Place(INDEX, path[len(prefix) :])
    return Place(within, path)


# -- repositories inside -----------------------------------------------------------


def verify_nested(
    repo: Repository, result: VerifyResult, progress: Callable[[int, int], None] | None = None
) -> VerifyResult:
    """Verify the checkpoints of the repositories inside that these name, and add their problems.

    One that is in the trash there is a problem too, unless the one around it is as well.
    """
    found, objects, size, kept = [], result.objects, result.bytes, result.promised
    for outer in result.checkpoints:
        problems = [*outer.problems]
        for path, checkpoint_id in _links(outer):
            inner = _verify_link(repo, path, checkpoint_id, progress)
            if isinstance(inner, VerifyResult):
                objects, size = objects + inner.objects, size + inner.bytes
                kept += inner.promised
                inside = [p for each in inner.checkpoints[:1] for p in _problems(each, outer)]
            else:
                inside = [Problem(MISSING, inner)]
            problems += [_below(path, problem) for problem in inside]
        found.append(outer._replace(problems=tuple(problems)))
    return VerifyResult(tuple(found), objects, size, kept)


def _links(found: Verified) -> list[tuple[str, str]]:
    try:
        states = () if found.checkpoint is None else found.checkpoint.nested
    except CkptError:  # reported already
        return []
    return [(state.path, state.checkpoint) for state in states if state.checkpoint is not None]


def _verify_link(
    repo: Repository,
    path: str,
    checkpoint_id: str,
    progress: Callable[[int, int], None] | None,
) -> VerifyResult | str:
    """The result for a checkpoint of a repository inside, or why there is none."""
    if not os.path.lexists(os.path.join(repo.worktree, path)):
        return "the repository is gone"
    try:
        with open_nested(repo, to_bytes(path)) as nested:
            targets = [target for target in every_target(nested) if target.id == checkpoint_id]
            if not targets:
                return f"its checkpoint '{checkpoint_id}' is gone"
            return verify_nested(nested, verify(nested, targets[:1], progress), progress)
    except CkptError as error:
        return error.message


def _problems(inner: Verified, outer: Verified) -> Iterator[Problem]:
    if inner.target.is_dropped and not outer.target.is_dropped:
        told = f"its checkpoint '{inner.target.id}' was dropped"
        yield Problem(DROPPED, told, "checkpoint", inner.target.id)
    yield from inner.problems


def _below(path: str, problem: Problem) -> Problem:
    """The same problem, as seen from the repository around."""
    prefix = to_bytes(path)
    places = [Place(at.within, _join(prefix, at.path).rstrip(b"/")) for at in problem.places]
    detail = f"in '{path}': {problem.detail}"
    return problem._replace(detail=detail, places=tuple(places) or (Place(WORKTREE, prefix),))


# -- for rescue and import ---------------------------------------------------------


def fault_behind(repo: Repository, commit: ObjectID) -> str | None:
    """The first thing wrong with a commit or its history as far as no ref of git's holds it.

    Git prunes unreachable objects one by one; a ref to a history with a gap makes `git gc` fail.
    """
    head = repo.refs.head().commit
    held = {*repo.refs.others(), *(() if head is None else (head,))}
    found = behind(repo.objects, commit, held, ends_of_history(repo.common_dir))
    inspection = Inspection(repo.objects)
    commits = [_read_commit(inspection, each) for each in (*found.unreadable, *found.commits)]
    return _first_fault(repo, inspection, {each.tree for each in commits if each is not None})


def fault_in(repo: Repository, trees: Iterable[ObjectID]) -> str | None:
    """The first thing wrong with trees and all that is in them."""
    return _first_fault(repo, Inspection(repo.objects), trees)


def _first_fault(repo: Repository, inspection: Inspection, tops: Iterable[ObjectID]) -> str | None:
    trees = _Trees(inspection)
    for tree in tops:
        trees.gather(tree)
    inspection.check_blobs(trees.blobs)
    _set_promised_apart(repo, inspection)
    faults = inspection.faults.values()
    return next((fault.detail for fault in faults if fault.problem != PROMISED), None)
