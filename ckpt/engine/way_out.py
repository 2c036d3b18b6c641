# SPDX-License-Identifier: MIT
"""Which ways lead out of an interrupted rollback, by the checkpoints that are still there.

Each way needs the checkpoint that it leads to, and no other. Somebody may have removed a ref by
hand, or fetched with `--prune`; what the trash still has, and what `rescue` may find, is said.
"""

from __future__ import annotations

from ckpt.engine import trash
from ckpt.engine.journal import Journal
from ckpt.engine.pending import FINISH, TAKE_BACK
from ckpt.errors import Refused
from ckpt.store.repository import Repository


class GoalGone(Refused):
    """The checkpoint is gone to which this way leads."""


def open_ways(repo: Repository, record: Journal) -> tuple[str, ...]:
    """The commands that end a rollback, or bring back what that needs; none if all is gone."""
    ways = {FINISH: record.target, TAKE_BACK: record.safety}
    there = tuple(way for way, goal in ways.items() if _is_there(repo, goal))
    return there or tuple(map(_bring_back, filter(_in_trash(repo).__contains__, ways.values())))


def check_goal(repo: Repository, target: str, safety: str, *, forwards: bool) -> None:
    """Refuse to go where no checkpoint is any more, before anything is touched."""
    goal, origin = (target, safety) if forwards else (safety, target)
    if _is_there(repo, goal):
        return
    needs = f"the interrupted rollback needs checkpoint '{goal}', which"
    if goal in _in_trash(repo):
        raise Refused(f"{needs} was dropped", hint=_bring_back(goal))
    other = "'git ckpt doctor --fix' puts the rollback aside and leaves all files as they are"
    if _is_there(repo, origin):
        other = f"'{TAKE_BACK}' returns to the state before it"
        if not forwards:
            other = f"'{FINISH}' finishes it"
    raise GoalGone(f"{needs} is gone", hint=f"'git ckpt rescue' may find it; {other}")


def _is_there(repo: Repository, checkpoint_id: str) -> bool:
    return repo.refs.checkpoint(checkpoint_id) is not None


def _in_trash(repo: Repository) -> set[str]:
    return {item.checkpoint.id for item in trash.dropped(repo)}


def _bring_back(checkpoint_id: str) -> str:
    return f"git ckpt restore-dropped {checkpoint_id}"
