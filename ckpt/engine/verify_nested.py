# SPDX-License-Identifier: MIT
"""The checkpoints of repositories inside, which those of the one around them name.

Each repository is opened as git would and nothing in it is written. All checkpoints of one are
verified together, and what is wrong with them is told of the checkpoint around, with the path of
the repository before its own. One that is in the trash there is none that a rollback would find.
"""

from __future__ import annotations

import os

from ckpt.engine.nested import open_nested
from ckpt.engine.verify import DROPPED, WORKTREE, Place, Problem, Verified, VerifyResult, verify
from ckpt.engine.verify_targets import every_target
from ckpt.errors import CkptError
from ckpt.paths import to_bytes
from ckpt.store.repository import Repository
from ckpt.store.soundness import MISSING
from ckpt.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Progress = Callable[[int, int], None] | None
    Problems = dict[str, tuple[Problem, ...]]


def with_nested(repo: Repository, result: VerifyResult, progress: Progress) -> VerifyResult:
    """The same result, with what was found in the repositories inside."""
    for path, named in sorted(_named(result.checkpoints).items()):
        inner, problems = _look_into(repo, path, set(named.values()), progress)
        result = VerifyResult(
            tuple(_joined(each, path, named, problems) for each in result.checkpoints),
            result.objects + inner.objects,
            result.bytes + inner.bytes,
            result.promised + inner.promised,
        )
    return result


def _named(checkpoints: Iterable[Verified]) -> dict[str, dict[str, str]]:
    """For each path of a repository inside: ref of a checkpoint to id of the one it names."""
    found: dict[str, dict[str, str]] = {}
    for each in checkpoints:
        try:
            states = () if each.checkpoint is None else each.checkpoint.nested
        except CkptError:  # which is told already
            continue
        for state in states:
            if state.checkpoint is not None:
                found.setdefault(state.path, {})[each.target.ref] = state.checkpoint
    return found


def _look_into(
    repo: Repository, path: str, ids: set[str], progress: Progress
) -> tuple[VerifyResult, Problems]:
    """Verify these checkpoints of a repository inside; by id, what is wrong with each."""
    if not os.path.lexists(os.path.join(repo.worktree, path)):
        return _nothing(ids, "the repository is gone")
    try:
        with open_nested(repo, to_bytes(path)) as nested:
            targets = [target for target in every_target(nested) if target.id in ids]
            result = with_nested(nested, verify(nested, targets, progress), progress)
    except CkptError as error:
        return _nothing(ids, error.message)
    found: Problems = {}
    for each in reversed(result.checkpoints):  # those in the trash are the last
        found[each.target.id or ""] = (*_dropped(each), *each.problems)
    for missing in ids - found.keys():
        found[missing] = (Problem(MISSING, f"its checkpoint '{missing}' is gone"),)
    return result, found


def _nothing(ids: set[str], reason: str) -> tuple[VerifyResult, Problems]:
    return VerifyResult((), 0, 0, 0), dict.fromkeys(ids, (Problem(MISSING, reason),))


def _dropped(inner: Verified) -> Iterator[Problem]:
    if inner.target.is_dropped:
        told = f"its checkpoint '{inner.target.id}' was dropped"
        yield Problem(DROPPED, told, "checkpoint", inner.target.id)


def _joined(around: Verified, path: str, named: dict[str, str], problems: Problems) -> Verified:
    inside = problems.get(named.get(around.target.ref, ""), ())
    if around.target.is_dropped:  # as both may be, and be brought back, together
        inside = tuple(each for each in inside if each.problem != DROPPED)
    return replace(around, problems=(*around.problems, *(_below(path, each) for each in inside)))


def _below(path: str, problem: Problem) -> Problem:
    prefix = to_bytes(path)
    places = [replace(at, path=b"/".join(filter(None, (prefix, at.path)))) for at in problem.places]
    return replace(
        problem,
        detail=f"in '{path}': {problem.detail}",
        places=tuple(places) or (Place(WORKTREE, prefix),),
    )
