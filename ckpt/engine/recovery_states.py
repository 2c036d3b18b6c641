# SPDX-License-Identifier: MIT
"""The states that an interrupted rollback lies between, as far as they are those of then."""

from __future__ import annotations

from ckpt.engine.catalog import Catalog
from ckpt.engine.journal import Journal
from ckpt.engine.recorded import Recorded, opened
from ckpt.engine.way_out import check_goal, instead, is_as_begun, is_still
from ckpt.errors import CkptError, Refused
from ckpt.store.repository import Repository


def opened_goal(repo: Repository, record: Journal, forwards: bool) -> Recorded:
    """The state to go to, unless it is another one by now. A ref may have been fetched anew since
    the rollback began: git must not go by what it says now."""
    check_goal(repo, record, forwards=forwards)
    checkpoint = Catalog(repo).get(record.target if forwards else record.safety)
    if not forwards and checkpoint.commit == record.safety_commit:
        return Recorded(repo, checkpoint)  # which the rollback made itself
    trust = forwards and record.asked_trust and is_as_begun(repo, record, forwards)
    goal = opened(repo, checkpoint, trust)
    try:
        if goal.is_foreign and not trust:
            from ckpt.engine import foreign

            foreign.check_target(goal, head=record.asked_head)
        if goal.is_foreign and record.asked_head:
            from ckpt.engine.operation_objects import check_objects

            check_objects(goal.objects, goal.operation)
        if not is_as_begun(repo, record, forwards):
            raise Refused(
                f"checkpoint '{checkpoint.id}' is another one by now than when the rollback began"
            )
    except Refused as error:
        hint = instead(repo, record, forwards=forwards)
        raise Refused(error.message, hint=hint, details=error.details) from None
    return goal


def opened_other(repo: Repository, record: Journal, forwards: bool) -> Recorded | None:
    """The state that is not gone to, if it is still that of then, and whole: only compared with,
    it must not keep anyone from the goal."""
    if not is_as_begun(repo, record, not forwards):
        return None
    return _opened_whole(repo, record.safety if forwards else record.target)


def opened_edits(repo: Repository, record: Journal) -> Recorded | None:
    """What a recovery that was interrupted in turn had found and saved, if that is still there."""
    if record.edits is None or not is_still(repo, record.edits, record.edits_commit):
        return None
    return _opened_whole(repo, record.edits)


def _opened_whole(repo: Repository, checkpoint_id: str) -> Recorded | None:
    try:
        state = Recorded(repo, Catalog(repo).get(checkpoint_id))
        _, _, _ = state.manifest, state.index, state.operation
    except CkptError:
        return None
    return state
