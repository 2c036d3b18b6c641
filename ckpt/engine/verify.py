# SPDX-License-Identifier: MIT
"""Is all there that a checkpoint needs, and is what it says of itself true?

All objects of all checkpoints in question are gathered first and each is read once, however
many share it; then each checkpoint gets its answer: what is missing or damaged, and which paths
that affects. Needed are the commit, its tree, the state commit with its tree, the commits of
HEAD and of an operation in progress (with their parents, of which a stash has some that
matter), and the trees of all these. That HEAD's own parents are there is a glance, and tells
of a history that git cannot follow. Left out: the rest of the history, which is git's to check
(`git fsck`), and what is in submodules. Nothing is written.
"""

from __future__ import annotations

from ckpt.engine import truth
from ckpt.engine.catalog import load
from ckpt.engine.verify_targets import Target, every_target
from ckpt.engine.verify_trees import VerifiedTrees
from ckpt.errors import CkptError
from ckpt.models import Checkpoint
from ckpt.store import record
from ckpt.store.history import ends_of_history
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.promises import promised
from ckpt.store.repository import Repository
from ckpt.store.soundness import MISSING, PROMISED, Fault, Inspection
from ckpt.values import field, replace, value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Where in a checkpoint something is: its own commit, the files, what is staged, the rest of
# the state, HEAD's commit, those right behind it, and those that an operation in progress needs.
COMMIT, WORKTREE, INDEX, STATE, HEAD, HISTORY, OPERATION = (
    "commit",
    "worktree",
    "index",
    "state",
    "head",
    "history",
    "operation",
)
UNTRUE, NO_CHECKPOINT, DROPPED = "untrue", "no-checkpoint", "dropped"
_STAGED = (b"index/", b"stages/1/", b"stages/2/", b"stages/3/")


@value_class
class Place:
    within: str
    path: bytes


@value_class
class Problem:
    """`object` is the id of what is at fault; of very many places the first are listed."""

    problem: str
    detail: str
    kind: str | None = None
    object: str | None = None
    places: tuple[Place, ...] = ()


@value_class
class Verified:
    """`checkpoint` is None if the ref leads to none that can be read."""

    target: Target
    checkpoint: Checkpoint | None
    problems: tuple[Problem, ...]

    @property
    def is_whole(self) -> bool:
        return not self.problems

    @property
    def has_files(self) -> bool:
        """Whether some of its files can still be brought back by their paths."""
        lost = {place for problem in self.problems for place in problem.places}
        return self.checkpoint is not None and not any(
            (place.within, place.path) in ((WORKTREE, b""), (STATE, b""), (COMMIT, b""))
            or (place.within == STATE and place.path == record.MANIFEST)
            for place in lost
        )


@value_class
class VerifyResult:
    """`promised` counts objects that a partial clone left at its remote."""

    checkpoints: tuple[Verified, ...]
    objects: int
    bytes: int
    promised: int

    @property
    def is_whole(self) -> bool:
        return all(found.is_whole for found in self.checkpoints)


@value_class
class _Needs:
    """What one checkpoint needs: objects by themselves, and trees with all that is in them."""

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
    trees = VerifiedTrees(inspection)
    gatherer = _Gatherer(repo, inspection)
    needs = [gatherer.needs_of(target) for target in targets]
    for each in needs:
        for _, tree in each.trees:
            trees.gather(tree)
    inspection.check_blobs(trees.blobs)
    inspection.distrust_packs()
    kept = set_promised_apart(repo, inspection)
    facts = truth.Facts(repo)
    found = [_verified(each, inspection, trees, facts) for each in needs]
    if not all(each.is_whole for each in found):
        found = _without_gone(repo, found)
    return VerifyResult(tuple(found), inspection.read_objects, inspection.read_bytes, kept)


def _without_gone(repo: Repository, found: list[Verified]) -> list[Verified]:
    """Leave out what was dropped meanwhile, and may have been pruned: it is nobody's loss."""
    there = {(target.ref, target.commit) for target in every_target(repo)}
    return [
        each for each in found if each.is_whole or (each.target.ref, each.target.commit) in there
    ]


class _Gatherer:
    """Reads the commits of checkpoints and notes what else each of them needs."""

    def __init__(self, repo: Repository, inspection: Inspection) -> None:
        self._repo = repo
        self._inspection = inspection
        self._ends = ends_of_history(repo.common_dir)

    def needs_of(self, target: Target) -> _Needs:
        needs = _Needs(target)
        if target.problem is not None or target.commit is None or target.id is None:
            needs.problems.append(Problem(NO_CHECKPOINT, target.problem or "the ref names nothing"))
            return needs
        needs.commits[target.commit] = COMMIT
        if self._inspection.read(b"commit", target.commit) is None:
            return needs
        try:
            checkpoint = load(self._repo, target.id, target.commit)
        except CkptError as error:
            needs.problems.append(Problem(NO_CHECKPOINT, error.message))
            return needs
        self._add_commits(needs, checkpoint)
        return replace(needs, checkpoint=checkpoint)

    def _add_commits(self, needs: _Needs, checkpoint: Checkpoint) -> None:
        needs.trees.append((WORKTREE, ObjectID(checkpoint.tree.encode())))
        if checkpoint.head_commit is not None:
            head = ObjectID(checkpoint.head_commit.encode())
            parents = self._add(needs, HEAD, head)
            for parent in parents if head not in self._ends else ():
                needs.commits.setdefault(parent, HISTORY)
                self._inspection.read(b"commit", parent)
        state = ObjectID(checkpoint.state_commit.encode())
        for kept in self._add(needs, STATE, state):
            parents = self._add(needs, OPERATION, kept)
            for parent in parents if kept not in self._ends else ():
                self._add(needs, OPERATION, parent)

    def _add(self, needs: _Needs, within: str, commit: ObjectID) -> tuple[ObjectID, ...]:
        """Note a commit and its tree; returns its parents."""
        needs.commits.setdefault(commit, within)
        found = read_inspected(self._inspection, commit)
        if found is None:
            return ()
        needs.trees.append((within, found.tree))
        return found.parents


def read_inspected(inspection: Inspection, commit: ObjectID) -> record.CommitData | None:
    """What a commit names; None if it is at fault, which is noted."""
    if inspection.read(b"commit", commit) is None:
        return None
    try:
        return record.read_commit(inspection.objects, commit)
    except MissingObject:
        inspection.condemn(b"commit", commit, "its tree or a parent is no id")
        return None


def set_promised_apart(repo: Repository, inspection: Inspection) -> int:
    """Tell what a partial clone left at its remote from what is lost; returns how much."""
    if not repo.objects.is_partial:
        return 0
    missing = {f.id: key for key, f in inspection.faults.items() if f.problem == MISSING}
    kept = promised(repo.objects, missing)
    for object_id in kept:
        fault = inspection.faults[missing[object_id]]
        inspection.faults[missing[object_id]] = replace(fault, problem=PROMISED)
    return len(kept)


def _verified(
    needs: _Needs, inspection: Inspection, trees: VerifiedTrees, facts: truth.Facts
) -> Verified:
    problems = [*needs.problems, *_objects_at_fault(needs, inspection, trees)]
    if needs.checkpoint is not None:
        try:
            problems += [Problem(UNTRUE, told) for told in facts.untrue(needs.checkpoint)]
        except CkptError as error:
            # What is at fault is told already; or it is at the remote of a partial clone.
            if not problems and not (inspection.faults and isinstance(error, MissingObject)):
                problems.append(Problem(UNTRUE, error.message))
    return Verified(needs.target, needs.checkpoint, tuple(problems))


def _objects_at_fault(
    needs: _Needs, inspection: Inspection, trees: VerifiedTrees
) -> Iterator[Problem]:
    if not inspection.faults:
        return
    places: dict[Fault, list[Place]] = {}
    for fault, place in _faults_by_place(needs, inspection, trees):
        places.setdefault(fault, []).append(place)
    for fault, found in places.items():
        yield Problem(
            fault.problem,
            fault.detail,
            fault.kind.decode(),
            fault.id.decode("ascii", "backslashreplace"),
            tuple(dict.fromkeys(found)),
        )


def _faults_by_place(
    needs: _Needs, inspection: Inspection, trees: VerifiedTrees
) -> Iterator[tuple[Fault, Place]]:
    for commit, within in needs.commits.items():
        fault = inspection.fault(b"commit", commit)
        if fault is not None and fault.problem != PROMISED:
            yield fault, Place(within, b"")
    for within, tree in dict.fromkeys(needs.trees):
        for path, fault in trees.faults_in(tree):
            if fault.problem != PROMISED:
                yield fault, _place(within, path)


def _place(within: str, path: bytes) -> Place:
    if within == STATE:
        for prefix in _STAGED:
            if path.startswith(prefix):
                return Place(INDEX, path[len(prefix) :])
    return Place(within, path)
