# SPDX-License-Identifier: MIT
"""How the answer of `git ckpt verify` looks as text: what is broken, and what can be done.

Pure, as `render`.
"""

from __future__ import annotations

from shlex import quote

from ckpt.engine.verify import (
    COMMIT,
    DROPPED,
    HEAD,
    HISTORY,
    INDEX,
    OPERATION,
    STATE,
    UNTRUE,
    WORKTREE,
)
from ckpt.paths import to_str
from ckpt.render import printable, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ckpt.engine.verify import Place, Problem, Verified, VerifyResult

_MOST_PLACES = 3
_MOST_PROBLEMS = 20
_WITHIN = {
    COMMIT: "the checkpoint itself",
    WORKTREE: "all its files",
    INDEX: "all that was staged",
    STATE: "its state",
    HEAD: "HEAD's commit",
    HISTORY: "the history behind HEAD's commit",
    OPERATION: "a commit that the operation in progress needs",
}
_AT = {INDEX: "staged ", STATE: "state ", HEAD: "HEAD's ", OPERATION: "the operation's "}


def verified(result: VerifyResult, paint: Callable[[str, str], str]) -> Iterator[str]:
    """What is broken, each problem in a line, then how many were looked at."""
    for found in result.checkpoints:
        if not found.is_whole:
            yield from _broken(found, paint)
    if result.promised:
        yield f"{_count(result.promised, 'object')} left at the remote of this partial clone"
    yield _sum(result)


def _broken(found: Verified, paint: Callable[[str, str], str]) -> Iterator[str]:
    name = f" '{found.checkpoint.name}'" if found.checkpoint and found.checkpoint.name else ""
    shown = found.target.id
    dropped = " (dropped)" if found.target.is_dropped else ""
    yield f"{paint('red', 'broken')} {paint('id', shown)}{printable(name)}{dropped}"
    for problem in found.problems[:_MOST_PROBLEMS]:
        yield f"  {printable(problem.detail)}{_places(problem)}"
    if len(found.problems) > _MOST_PROBLEMS:
        yield f"  and {len(found.problems) - _MOST_PROBLEMS} more (--json lists all)"
    yield f"  {paint('dim', printable(_way_out(found)))}"


def _places(problem: Problem) -> str:
    shown = [_place(place) for place in problem.places[:_MOST_PLACES]]
    more = len(problem.places) - len(shown)
    if more:
        shown.append(f"{more} more")
    return ": " + _joined(shown) if shown else ""


def _place(place: Place) -> str:
    if not place.path:
        return _WITHIN[place.within]
    return _AT.get(place.within, "") + quoted(to_str(place.path))


def _joined(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _way_out(found: Verified) -> str:
    """The next thing to type."""
    lost = [p for p in found.problems if p.object is not None and p.kind is not None]
    if found.target.commit is None:
        return "git ckpt doctor --fix"
    if found.target.is_dropped:
        return f"look at it with: git show {quote(found.target.ref)}"
    for problem in found.problems:
        if problem.problem == DROPPED:
            place = quote(to_str(problem.places[0].path))
            return f"bring that back with: git -C {place} ckpt restore-dropped {problem.object}"
    is_behind = {at.within for each in found.problems for at in each.places} == {HISTORY}
    if lost and (is_behind or not found.has_files):
        return (
            "another clone may have it: git -C CLONE cat-file "
            f"{lost[0].kind} {lost[0].object} | git hash-object -t {lost[0].kind} -w --stdin"
        )
    if not found.has_files or all(problem.problem == UNTRUE for problem in found.problems):
        return f"look at it with: git show --first-parent {found.target.ref}"
    return f"other files come back with: git ckpt rollback {found.target.id} -- PATH"


def _sum(result: VerifyResult) -> str:
    looked = len(result.checkpoints)
    if not looked:
        return "No checkpoints to verify."
    counted = f"{_count(looked, 'checkpoint')}, {_count(result.objects, 'object')}"
    broken = sum(not found.is_whole for found in result.checkpoints)
    if not broken:
        return f"Verified {counted}: all there and true."
    return f"Verified {counted}: {broken} broken."


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
