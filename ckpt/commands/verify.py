# SPDX-License-Identifier: MIT
"""`git ckpt verify`: check that all objects of checkpoints are present and valid."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from shlex import quote

from ckpt.cli import Context
from ckpt.engine.verify import (
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
from ckpt.render import Paint, counted, listed, quoted

_MOST_PLACES = 3


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="which ones (default: latest)")
    parser.add_argument(
        "--all", action="store_true", help="every one of every worktree, and the trash"
    )


def run(context: Context, ids: Sequence[str] = (), all: bool = False) -> int:
    if ids and all:
        raise UsageError("--all and an ID exclude each other", hint="git ckpt verify --all")
    repo = context.manager.repository
    targets = every_target(repo) if all else named_targets(repo, ids or ["latest"])
    result = verify(repo, targets)
    context.output.tell(result, None, _rows)
    return 0 if result.is_whole else 1


def _rows(result: VerifyResult, paint: Paint, width: int) -> Iterator[str]:
    """List the problems, then the number of checkpoints verified."""
    broken = [found for found in result.checkpoints if not found.is_whole]
    for found in broken:
        yield from _broken(found, paint)
    if result.promised:
        yield f"{counted(result.promised, 'object')} left at the remote of this partial clone"
    if not result.checkpoints:
        yield "No checkpoints to verify."
        return
    looked = f"{counted(len(result.checkpoints), 'checkpoint')}, "
    looked += counted(result.objects, "object")
    outcome = f"{len(broken)} broken" if broken else "all objects present and valid"
    yield f"Verified {looked}: {outcome}."


def _broken(found: Verified, paint: Paint) -> Iterator[str]:
    """List the problems of a checkpoint, then the command to type next."""
    target = found.target
    name = f" '{found.checkpoint.name}'" if found.checkpoint and found.checkpoint.name else ""
    dropped = " (dropped)" if target.is_dropped else ""
    yield f"{paint('red', 'broken')} {paint('id', target.id)}{name}{dropped}"
    yield from listed([*map(_problem, found.problems)])
    hint = f"look at it with: git show --first-parent {quote(target.ref)}"
    if target.commit is None:
        hint = "git ckpt doctor --fix"
    elif found.checkpoint is not None and not target.is_dropped:
        hint = f"other files come back with: git ckpt rollback {target.id} -- PATH"
    yield f"  {paint('dim', hint)}"


def _problem(problem: Problem) -> str:
    places = [*map(_shown, problem.places[:_MOST_PLACES])]
    if len(problem.places) > _MOST_PLACES:
        places.append(f"and {len(problem.places) - _MOST_PLACES} more")
    return f"{problem.detail}{': ' * bool(places)}{', '.join(places)}"


def _shown(place: Place) -> str:
    path = quoted(to_str(place.path))
    return path if place.within == WORKTREE and place.path else f"{place.within} {path}".rstrip()
