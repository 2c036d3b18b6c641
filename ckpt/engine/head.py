# SPDX-License-Identifier: MIT
"""Move HEAD, branches and the operation in progress in a rollback with `--head`.

A ref is only moved if it still has the value that was read. Commits no longer on a branch stay
reachable from the safety checkpoint. Two operations are never mixed.
"""

from __future__ import annotations

from contextlib import suppress

from ckpt.engine.checkpoint import Recorded
from ckpt.engine.journal import BranchMove, HeadMove, Journal
from ckpt.engine.working_state import Present
from ckpt.errors import CkptError, Refused, RollbackError
from ckpt.git.objects import ObjectID
from ckpt.git.operation import ORIG_HEAD, OperationState, read
from ckpt.git.refs import Head, HeadMoved, short_name
from ckpt.git.repository import Repository
from ckpt.models import BranchReport, HeadReport, OperationReport

WITHOUT_HEAD = "without --head, a rollback leaves HEAD where it is"

# -- Plan the move


def check_commits(repo: Repository, target: Recorded) -> None:
    """Refuse if commits of the target's HEAD or operation are missing."""
    if target.head == Head(None, None):  # not a valid HEAD
        raise RollbackError(
            f"where HEAD was is not known of checkpoint '{target.checkpoint.id}'",
            hint=WITHOUT_HEAD,
        )
    kept = target.kept if target.operation.contents else ()
    for commit in filter(None, (target.head.commit, *kept, *target.operation.branches.values())):
        if repo.objects.kind(commit) != b"commit":
            raise RollbackError(
                f"the commit '{commit.decode('ascii', 'replace')}' of the checkpoint's HEAD or "
                "operation is missing",
                hint=WITHOUT_HEAD,
            )


def plan_move(
    repo: Repository, now: Head, target: Recorded, returning: tuple[BranchMove, ...] = ()
) -> HeadMove | None:
    """Return the moves that restore the target's HEAD, or None; refuse if a branch cannot be moved.
    `returning` are the other branches that an undo moves back."""
    wanted, refs = target.head, repo.refs
    others = {}
    for move in returning:
        is_to_move = move.before != move.after and refs.read(move.branch) == move.before
        if is_to_move and _other_worktree_with(repo, move.branch) is None:
            others[move.branch] = move
    for branch, commit in target.operation.branches.items():
        before = refs.read(branch)
        # A rebase ends by moving branches, which must be where they were when it began.
        if before != commit:
            _check_branch(repo, branch, commit)
            others[branch] = BranchMove(branch, before, commit)
    others.pop(wanted.branch or b"", None)
    branch_now = refs.read(wanted.branch) if wanted.branch is not None else None
    if now == wanted and branch_now == (wanted.commit if wanted.branch else None):
        if not others:
            return None
    elif wanted.branch is not None:
        _check_branch(repo, wanted.branch, wanted.commit)
    if now.branch is not None and refs.contents(now.branch).startswith(b"ref:"):
        raise _impossible(now.branch, "it is a symbolic ref")  # its target would move
    own = [] if wanted.branch is None else [BranchMove(wanted.branch, branch_now, wanted.commit)]
    return HeadMove(now, wanted, (*own, *others.values()))


def _check_branch(repo: Repository, branch: bytes, commit: ObjectID | None) -> None:
    """Refuse if a branch cannot be moved, or is used by another worktree."""
    is_there = commit is not None and repo.refs.read(branch) == commit
    obstacle = None if is_there else repo.refs.obstacle_to(branch)
    if obstacle is not None:
        raise _impossible(branch, obstacle)
    other = _other_worktree_with(repo, branch)
    if other is not None:
        raise Refused(
            f"branch '{short_name(branch)}' is checked out in another worktree ('{other}')",
            hint=WITHOUT_HEAD,
        )


def _other_worktree_with(repo: Repository, branch: bytes) -> str | None:
    """Return the git directory of another worktree that has a branch checked out, or whose rebase
    will move it."""
    main, *linked = repo.refs.git_dirs()
    others = linked if repo.config.get_bool("core.bare", False) else [main, *linked]
    for git_dir in others:
        if git_dir == repo.git_dir:
            continue
        with suppress(CkptError, OSError):  # corrupt
            head = repo.refs.of_worktree(git_dir).head()
            if branch in (head.branch, *read(git_dir).moved):
                return git_dir
    return None


def _impossible(branch: bytes, obstacle: str) -> Refused:
    return Refused(
        f"branch '{short_name(branch)}' cannot be put back: {obstacle}", hint=WITHOUT_HEAD
    )


def commits_to_keep(head: Head, move: HeadMove | None) -> tuple[ObjectID, ...]:
    """Return the former commits of moved branches, except HEAD's own."""
    leaving = {each.before for each in (() if move is None else move.branches)}
    return tuple(sorted(c for c in leaving if c is not None and c != head.commit))


# -- Move


def move_head(repo: Repository, move: HeadMove, target_id: str) -> None:
    """Move the branch, then HEAD, then other branches; safe to repeat."""
    message = f"ckpt: rollback to {target_id}".encode()
    wanted, refs = move.after, repo.refs
    if refs.head() not in (move.before, wanted):
        raise HeadMoved
    for branch, before, after in move.branches:
        if branch == wanted.branch and refs.read(branch) != after:
            refs.move_branch(branch, before, after, message)
    if refs.head() != wanted or move.before != wanted:
        refs.set_head(wanted, move.before, message)
    for branch, before, after in move.branches:
        if before != after and refs.read(branch) == before:  # else moved by another process
            refs.move_branch(branch, before, after, message)


# -- Report


def head_report(
    repo: Repository, present: Present, target: Recorded, record: Journal
) -> HeadReport:
    """Report HEAD before and after, and how far the target's commit is ahead or behind."""
    here, move = present.head, record.head
    now, then = here.commit, target.head.commit
    counts = None if now is None else (0, 0)
    if now != then:
        from ckpt.git.reachability import ahead_behind

        counts = ahead_behind(repo, now, then) if now and then else None
    ahead, behind = counts or (None, None)
    operation = None
    if record.operation:
        was, shall = present.operation.identity, target.operation.identity
        operation = OperationReport(was and was.name, shall and shall.name)
    return HeadReport(
        moved=move is not None,
        before=here.state,
        after=(here if move is None else move.after).state,
        ahead=ahead,
        behind=behind,
        branches=tuple(
            BranchReport(short_name(branch), _text(before), _text(after))
            for branch, before, after in sorted(move.branches if move is not None else ())
            if branch != here.branch or branch != target.head.branch
        ),
        operation=operation,
    )


def _text(commit: ObjectID | None) -> str | None:
    return None if commit is None else commit.decode()


# -- The operation in progress

# Operations that end with a commit on top of the current HEAD.
_ON_HEAD = {"merge", "cherry-pick", "revert"}


def check_operation(repo: Repository, target: Recorded, *, resumed: bool) -> None:
    """Refuse a rollback without `--head` if the operation in progress has changed. A recovery
    accepts one that has ended."""
    now, then = read(repo.git_dir).identity, target.operation.identity
    if now == then:
        head_moved = repo.refs.head().commit != target.head.commit
        if now is None or not head_moved or _ON_HEAD.isdisjoint(now.name.split("+")):
            return
    was = f"in the middle of a {then.name}" if then else "with no operation in progress"
    has = f"a {now.name} is in progress" if now else "none is in progress now"
    if now is not None and then is not None and now.name == then.name:
        has = f"the {now.name} has moved on since, or is another one"
    if resumed and now is None:
        return
    name = target.checkpoint.id
    way = (
        f"'git ckpt rollback {name} --head' puts HEAD and the operation back too, "
        f"'git ckpt rollback {name} -- PATH' single files only"
    )
    if resumed:
        way = "'git ckpt save', then finish or abort it, and repeat the command"
    raise Refused(f"checkpoint '{name}' was taken {was}, but {has}", hint=way)


def differs(now: OperationState, then: OperationState) -> bool:
    """Return whether the operation changes, ignoring an ORIG_HEAD that the target does not have."""
    left_alone = set() if ORIG_HEAD in then.contents else {ORIG_HEAD}
    return {p: data for p, data in now.contents.items() if p not in left_alone} != then.contents
