# SPDX-License-Identifier: MIT
"""Which ways lead out of an interrupted rollback, by the checkpoints that are still there.

Each way needs the checkpoint that it leads to, and no other. Somebody may have removed a ref by
hand, or fetched with `--prune`, or with force: then another commit is under the name, where an
`undo` must not lead either. What the trash still has, what `rescue` may find and which ref to put
back, is said.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckpt.engine import trash
from ckpt.engine.journal import FINISH, TAKE_BACK, Journal
from ckpt.errors import Refused
from ckpt.git import record as made_here
from ckpt.git.formats import ObjectID
from ckpt.git.repository import Repository
from ckpt.models import REF_PREFIX, Checkpoint


class GoalGone(Refused):
    """The checkpoint is gone to which this way leads."""


def open_ways(repo: Repository, record: Journal) -> tuple[str, ...]:
    """The commands that end a rollback, or bring back what that needs; none if all is gone."""
    ways = {FINISH: True, TAKE_BACK: False}
    there = tuple(way for way, forwards in ways.items() if is_as_begun(repo, record, forwards))
    lost = filter(_in_trash(repo).__contains__, (record.target, record.safety))
    return there or tuple(map(_bring_back, lost))


def check_goal(repo: Repository, record: Journal, *, forwards: bool) -> None:
    """Refuse to go where no checkpoint is any more, before anything is touched."""
    goal, _ = _goal(record, forwards)
    if repo.refs.checkpoint(goal) is not None:
        return
    needs = f"the interrupted rollback needs checkpoint '{goal}', which"
    if goal in _in_trash(repo):
        raise Refused(f"{needs} was dropped", hint=_bring_back(goal))
    other = instead(repo, record, forwards=forwards)
    raise GoalGone(f"{needs} is gone", hint=f"'git ckpt rescue' may find it; {other}")


def is_as_begun(repo: Repository, record: Journal, forwards: bool) -> bool:
    """Whether the checkpoint of the goal is the one that it was when the rollback began."""
    return is_still(repo, *_goal(record, forwards))


def is_still(repo: Repository, checkpoint_id: str, known: str | None) -> bool:
    """Whether a checkpoint is there, and the one whose commit is known."""
    commit = repo.refs.checkpoint(checkpoint_id)
    if commit is None:
        return False
    return made_here.is_same(repo.common_dir, checkpoint_id, commit.decode(), known)


def another(repo: Repository, found: Checkpoint, known: str | None) -> Refused:
    """What is said of another's checkpoint under the id of one whose commit is known."""
    ways = (*_bring_back_commit(repo, found.id, known), "--trust takes the one that is there")
    return Refused(
        f"checkpoint '{found.id}' is another one by now: it was commit {known}",
        hint="; ".join(ways),
    )


def instead(repo: Repository, record: Journal, *, forwards: bool) -> str:
    """What can be done where the goal cannot be gone to."""
    ways = [*_bring_back_commit(repo, *_goal(record, forwards))]
    if is_as_begun(repo, record, not forwards):
        back = f"'{TAKE_BACK}' returns to the state before"
        ways.append(back if forwards else f"'{FINISH}' finishes the rollback")
    aside = (
        "'git ckpt doctor' tells how to give the rollback up, which leaves all files as they are"
    )
    return "; ".join(ways) or aside


def _bring_back_commit(repo: Repository, checkpoint_id: str, known: str | None) -> Iterator[str]:
    """How to put back the ref of a checkpoint, if another commit is there and its own is not
    lost."""
    then = None if known is None else ObjectID(known.encode())
    is_replaced = then is not None and repo.refs.checkpoint(checkpoint_id) not in (None, then)
    if is_replaced and then is not None and repo.objects.kind(then) == b"commit":
        yield f"'git update-ref {REF_PREFIX}{checkpoint_id} {known}' brings that one back"


def _goal(record: Journal, forwards: bool) -> tuple[str, str | None]:
    """The checkpoint to which a way leads, and the commit that it had."""
    if forwards:
        return record.target, record.target_commit
    return record.safety, record.safety_commit


def _in_trash(repo: Repository) -> set[str]:
    return {item.checkpoint.id for item in trash.dropped(repo)}


def _bring_back(checkpoint_id: str) -> str:
    return f"git ckpt restore-dropped {checkpoint_id}"
