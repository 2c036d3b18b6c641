# SPDX-License-Identifier: MIT
"""`git ckpt verify`: check that every object that checkpoints need is present and valid."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from shlex import quote

from ckpt import documents
from ckpt.cli import Context
from ckpt.engine.verify import (
    COMMIT,
    HEAD,
    HISTORY,
    INDEX,
    OPERATION,
    STATE,
    WORKTREE,
    Place,
    Problem,
    Verified,
    VerifyResult,
    every_target,
    named_targets,
    verify,
)
from ckpt.errors import UsageError
from ckpt.paths import to_str
from ckpt.render import Paint, counted, printable, quoted

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


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="which ones (default: latest)")
    parser.add_argument(
        "--all", action="store_true", help="every one of every worktree, and the trash"
    )


def run(context: Context, ids: list[str], all: bool) -> int:
    if ids and all:
        raise UsageError("--all and an ID exclude each other", hint="git ckpt verify --all")
    with context.manager() as manager:
        repo = manager.repository
        repo.check_there()
        targets = every_target(repo) if all else named_targets(repo, ids or ["latest"])
        result = verify(repo, targets, manager.progress)
        context.output.tell(result, documents.verify, _rows)
    return 0 if result.is_whole else 1


def _rows(result: VerifyResult, paint: Paint, width: int) -> Iterator[str]:
    """Each problem in a line, then how many checkpoints were verified."""
    for found in result.checkpoints:
        if not found.is_whole:
            yield from _broken(found, paint)
    if result.promised:
        yield f"{counted(result.promised, 'object')} left at the remote of this partial clone"
    yield _sum(result)


def _broken(found: Verified, paint: Paint) -> Iterator[str]:
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
    if len(problem.places) > _MOST_PLACES:
        shown.append(f"and {len(problem.places) - _MOST_PLACES} more")
    return ": " + ", ".join(shown) if shown else ""


def _place(place: Place) -> str:
    if not place.path:
        return _WITHIN[place.within]
    return _AT.get(place.within, "") + quoted(to_str(place.path))


def _way_out(found: Verified) -> str:
    """The next thing to type."""
    lost = [p for p in found.problems if p.object is not None and p.kind is not None]
    if found.target.commit is None:
        return "git ckpt doctor --fix"
    if found.target.is_dropped:
        return f"look at it with: git show {quote(found.target.ref)}"
    is_behind = {at.within for each in found.problems for at in each.places} == {HISTORY}
    if lost and (is_behind or not found.has_files):
        return (
            "another clone may have it: git -C CLONE cat-file "
            f"{lost[0].kind} {lost[0].object} | git hash-object -t {lost[0].kind} -w --stdin"
        )
    if not found.has_files or not lost:
        return f"look at it with: git show --first-parent {found.target.ref}"
    return f"other files come back with: git ckpt rollback {found.target.id} -- PATH"


def _sum(result: VerifyResult) -> str:
    looked = len(result.checkpoints)
    if not looked:
        return "No checkpoints to verify."
    what = f"{counted(looked, 'checkpoint')}, {counted(result.objects, 'object')}"
    broken = sum(not found.is_whole for found in result.checkpoints)
    if not broken:
        return f"Verified {what}: all objects present and valid."
    return f"Verified {what}: {broken} broken."
