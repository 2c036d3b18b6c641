# SPDX-License-Identifier: MIT
"""HEAD and its branch in a rollback: report where they went, move them only on request.

The branch moves from the value that was read and from no other. Commits that are left
behind stay reachable from the safety checkpoint.
"""

from __future__ import annotations

from ckpt.engine.capture import Present
from ckpt.engine.journal import BranchMove, HeadMove
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
    repo.refs.check_branch(head.branch)
    obstacle = repo.refs.obstacle_to(head.branch)
    if obstacle is not None:
        raise Refused(
            f"branch '{branch_name(head)}' cannot be put back: {obstacle}",
            hint="leave HEAD where it is: repeat the command without --head",
        )
    other = repo.refs.other_worktree_with(head.branch)
    if other is not None:
        raise Refused(
            f"branch '{branch_name(head)}' is checked out in another worktree ('{other}')",
            hint="leave HEAD where it is: repeat the command without --head",
        )


def plan_move(
    repo: Repository, present: Present, target: Recorded, left: BranchMove | None = None
) -> HeadMove | None:
    """How HEAD must move to stand where the target's stood; None if it does already."""
    wanted = target.head
    if left is not None and not _may_move(repo, left):
        left = None
    branch_now = repo.refs.read(wanted.branch) if wanted.branch is not None else None
    stands = present.head == wanted and branch_now == (wanted.commit if wanted.branch else None)
    if stands and left is None:
        return None
    return HeadMove(present.head, wanted, branch_now, left)


def _may_move(repo: Repository, left: BranchMove) -> bool:
    is_where_it_was = repo.refs.read(left.branch) == left.before
    return is_where_it_was and repo.refs.other_worktree_with(left.branch) is None


def branch_to_return(move: HeadMove | None) -> BranchMove | None:
    """The branch that a rollback took HEAD to from another one, back to where it stood."""
    if move is None or move.after.branch is None or move.after.branch == move.before.branch:
        return None
    if move.branch_before == move.after.commit:
        return None
    return BranchMove(move.after.branch, move.after.commit, move.branch_before)


def branch_to_keep(present: Present, move: HeadMove | None) -> tuple[ObjectID, ...]:
    """The commits that moving branches leave, where HEAD's own commit does not hold them."""
    if move is None:
        return ()
    leaving = {move.branch_before, move.left.before if move.left is not None else None}
    return tuple(sorted(c for c in leaving if c is not None and c != present.head.commit))


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
    if move.left is not None:
        move_left_branch(repo, move.left, message)


def move_left_branch(repo: Repository, left: BranchMove, message: bytes) -> None:
    """Move a branch that HEAD is not on, unless someone else has moved it."""
    if repo.refs.read(left.branch) == left.before:
        repo.refs.move_branch(left.branch, left.before, left.after, message)


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
