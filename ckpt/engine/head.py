# SPDX-License-Identifier: MIT
"""HEAD and its branch in a rollback: report where they went, move them only on request.

The branch moves from the value that was read and from no other. Commits that are left
behind stay reachable from the safety checkpoint.
"""

from __future__ import annotations

from ckpt.engine.capture import Present
from ckpt.engine.journal import HeadMove
from ckpt.engine.recorded import Recorded
from ckpt.engine.snapshot import branch_name
from ckpt.errors import Refused, RollbackError
from ckpt.models import GitState, HeadReport
from ckpt.paths import to_str
from ckpt.store.history import ahead_behind
from ckpt.store.objects import ObjectID
from ckpt.store.refs import Head
from ckpt.store.repository import Repository


def check_move(repo: Repository, target: Recorded) -> None:
    """Refuse a move that another worktree or a missing commit forbids."""
    head = target.head
    if head.commit is not None and not repo.objects.has(head.commit):
        raise RollbackError(
            f"the commit '{head.commit.decode()}' of the checkpoint's HEAD is missing",
            hint="leave HEAD where it is: repeat the command without --head",
        )
    if head.branch is None:
        return
    other = repo.refs.other_worktree_with(head.branch)
    if other is not None:
        raise Refused(
            f"branch '{branch_name(head)}' is checked out in another worktree ('{other}')",
            hint="leave HEAD where it is: repeat the command without --head",
        )


def plan_move(repo: Repository, present: Present, target: Recorded) -> HeadMove | None:
    """How HEAD must move to stand where the target's stood; None if it does already."""
    wanted = target.head
    branch_now = repo.refs.read(wanted.branch) if wanted.branch is not None else None
    if present.head == wanted and branch_now == (wanted.commit if wanted.branch else None):
        return None
    return HeadMove(present.head, wanted, branch_now)


def branch_to_keep(present: Present, move: HeadMove | None) -> tuple[ObjectID, ...]:
    """The commit that a moving branch leaves, where HEAD's own commit does not hold it."""
    if move is None or move.branch_before in (None, present.head.commit):
        return ()
    return () if move.branch_before is None else (move.branch_before,)


def move_head(repo: Repository, move: HeadMove, target_id: str) -> None:
    """Move the branch, then HEAD; safe to repeat."""
    message = f"ckpt: rollback to {target_id}".encode()
    wanted = move.after
    if wanted.branch is not None:
        now = repo.refs.read(wanted.branch)
        if now != wanted.commit:
            repo.refs.move_branch(wanted.branch, move.branch_before, wanted.commit, message)
    before = Head(move.before.branch, move.before.commit)
    if repo.refs.head() != wanted or before != wanted:
        repo.refs.set_head(wanted, move.before.commit, message)


def head_report(
    repo: Repository, present: Head, target: Recorded, move: HeadMove | None
) -> HeadReport:
    """Where HEAD was and is; how far the checkpoint's commit is from the present one."""
    ahead = behind = None
    then = target.head.commit
    if present.commit is not None and then is not None:
        counts = ahead_behind(repo.objects, present.commit, then)
        if counts is not None:
            ahead, behind = counts
    return HeadReport(
        moved=move is not None,
        before=_state(present),
        after=_state(move.after if move is not None else present),
        ahead=ahead,
        behind=behind,
    )


def _state(head: Head) -> GitState:
    commit = None if head.commit is None else to_str(head.commit)
    return GitState(commit, branch_name(head))
