# SPDX-License-Identifier: MIT
"""HEAD, its branch and the operation in progress in a rollback; they move only on request.

Each moves from the value that was read and from no other. Commits that are left behind stay
reachable from the safety checkpoint. Never is half of an operation put together with half of
another.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckpt.engine.journal import BranchMove, HeadMove
from ckpt.engine.present import Present
from ckpt.engine.recorded import Recorded
from ckpt.errors import Refused, RollbackError
from ckpt.git import operation as operation_files
from ckpt.git.formats import ObjectID
from ckpt.git.operation import (
    ORIG_HEAD,
    Operation,
    OperationFiles,
    OperationState,
    in_progress,
    read,
)
from ckpt.git.refs import Head, HeadMoved, branch_name, short_name
from ckpt.git.repository import Repository
from ckpt.models import BranchReport, GitState, HeadReport, OperationReport
from ckpt.paths import to_str

WITHOUT_HEAD = "leave HEAD where it is: repeat the command without --head"


def check_move(repo: Repository, target: Recorded) -> None:
    """Refuse a move that another worktree or a missing commit forbids; where HEAD stands as it
    did, whatever else has its branch forbids nothing."""
    if target.head == Head(None, None):  # no HEAD is like that
        raise RollbackError(
            f"where HEAD was is not known of checkpoint '{target.checkpoint.id}'",
            hint=WITHOUT_HEAD,
        )
    wanted: dict[bytes | None, ObjectID | None] = dict(_operation_branches(repo, target))
    wanted[target.head.branch] = target.head.commit
    stands = repo.refs.head() == target.head
    for branch, commit in wanted.items():
        if commit is not None and repo.objects.kind(commit) != b"commit":
            raise RollbackError(
                f"the commit '{commit.decode('ascii', 'replace')}' of the checkpoint's "
                f"{'HEAD' if branch == target.head.branch else 'operation'} is missing",
                hint=WITHOUT_HEAD,
            )
        if branch is not None:
            if branch != target.head.branch or not stands:
                _check_branch(repo, branch, commit)
            below = [name for name in wanted if name is not None and name.startswith(branch + b"/")]
            if below:
                raise _impossible(below[0], f"'{short_name(branch)}' is to be there too")


def _check_branch(repo: Repository, branch: bytes, commit: ObjectID | None) -> None:
    """Refuse where a branch cannot be moved to a commit, or must not be HEAD's."""
    repo.refs.check_branch(branch)
    is_there = commit is not None and repo.refs.read(branch) == commit
    obstacle = None if is_there else repo.refs.obstacle_to(branch)
    if obstacle is not None:
        raise _impossible(branch, obstacle)
    other = repo.refs.other_worktree_with(branch)
    if other is not None:
        raise Refused(
            f"branch '{short_name(branch)}' is checked out in another worktree ('{other}')",
            hint=WITHOUT_HEAD,
        )


def _impossible(branch: bytes, obstacle: str) -> Refused:
    return Refused(
        f"branch '{short_name(branch)}' cannot be put back: {obstacle}", hint=WITHOUT_HEAD
    )


def plan_move(
    repo: Repository, present: Present, target: Recorded, returning: tuple[BranchMove, ...] = ()
) -> HeadMove | None:
    """How HEAD must move to stand where the target's stood; None if it does already.

    `returning` are the branches that an undo puts back besides.
    """
    wanted = target.head
    others = {move.branch: move for move in returning if _may_move(repo, move)}
    others |= {move.branch: move for move in _operation_moves(repo, target)}
    others.pop(wanted.branch or b"", None)
    branch_now = repo.refs.read(wanted.branch) if wanted.branch is not None else None
    stands = present.head == wanted and branch_now == (wanted.commit if wanted.branch else None)
    if stands and not others:
        return None
    if wanted.branch is not None and not stands:
        _check_branch(repo, wanted.branch, wanted.commit)  # again: it may have stood at first
    move = HeadMove(present.head, wanted, branch_now, tuple(others.values()))
    _check_alias(repo, move)
    return move


def _check_alias(repo: Repository, move: HeadMove) -> None:
    """Refuse to move what HEAD's branch is only another name of: HEAD would move along, and not
    as planned."""
    moved = {other.branch for other in move.others}
    if move.branch_before != move.after.commit:
        moved.add(move.after.branch or b"")
    for branch in filter(None, (move.before.branch, move.after.branch)):
        behind = repo.refs.behind(branch)
        if behind != branch and behind in moved:
            from shlex import quote  # for a hint that few see

            raise Refused(
                f"branch '{short_name(branch)}' is a symbolic ref to '{short_name(behind)}', "
                "which has to move",
                hint=f"git checkout {quote(short_name(behind))}",
            )


def _operation_moves(repo: Repository, target: Recorded) -> Iterator[BranchMove]:
    for branch, commit in _operation_branches(repo, target):
        now = repo.refs.read(branch)
        if commit is not None and now != commit:
            yield BranchMove(branch, now, commit)


def _operation_branches(
    repo: Repository, target: Recorded
) -> Iterator[tuple[bytes, ObjectID | None]]:
    """Where branches must stand: a rebase ends by moving some, and only from where they
    stood when it began. The one that a bisect goes back to need only be there."""
    for branch, commit in target.operation.branches.items():
        if branch in target.operation.files.branches or repo.refs.read(branch) is None:
            yield branch, commit


def _may_move(repo: Repository, move: BranchMove) -> bool:
    is_where_it_was = repo.refs.read(move.branch) == move.before
    return is_where_it_was and repo.refs.other_worktree_with(move.branch) is None


def branches_to_return(move: HeadMove | None) -> tuple[BranchMove, ...]:
    """The branches that a rollback moved and HEAD was not on, back to where they stood."""
    if move is None:
        return ()
    back = [other.reversed() for other in move.others]
    branch = move.after.branch
    if branch is not None and branch != move.before.branch:
        back.append(BranchMove(branch, move.after.commit, move.branch_before))
    return tuple(move for move in back if move.before != move.after)


def moved_besides(move: HeadMove) -> tuple[BranchMove, ...]:
    """The branches that stand elsewhere afterwards and HEAD was not on: also the one that HEAD
    goes to, unless it is made for that."""
    branch, before, after = move.after.branch, move.branch_before, move.after.commit
    is_moved = branch is not None and before not in (None, after)
    if branch is None or branch == move.before.branch or not is_moved:
        return move.others
    return (*move.others, BranchMove(branch, before, after))


def commits_to_keep(present: Present, move: HeadMove | None) -> tuple[ObjectID, ...]:
    """The commits that moving branches leave, where HEAD's own commit does not hold them."""
    if move is None:
        return ()
    leaving = {move.branch_before, *(other.before for other in move.others)}
    return tuple(sorted(c for c in leaving if c is not None and c != present.head.commit))


def move_head(repo: Repository, move: HeadMove, target_id: str) -> None:
    """Move the branch, then HEAD, unless somebody else has moved it; safe to repeat."""
    message = f"ckpt: rollback to {target_id}".encode()
    wanted = move.after
    if repo.refs.head() not in (move.before, wanted):
        raise HeadMoved
    if wanted.branch is not None:
        now = repo.refs.read(wanted.branch)
        if now != wanted.commit:
            repo.refs.move_branch(wanted.branch, move.branch_before, wanted.commit, message)
    if repo.refs.head() != wanted or move.before != wanted:
        repo.refs.set_head(wanted, move.before, message)
    for other in move.others:
        move_other_branch(repo, other, message)


def move_other_branch(repo: Repository, move: BranchMove, message: bytes) -> None:
    """Move a branch that HEAD is not on, unless someone else has moved it."""
    if repo.refs.read(move.branch) == move.before:
        repo.refs.move_branch(move.branch, move.before, move.after, message)


def strayed(repo: Repository, planned: HeadMove, wanted: Head) -> str | None:
    """Where somebody has moved the branch that HEAD is to return to, if neither state had it
    there: a commit on it is not ours to take off."""
    branch = wanted.branch
    if branch is None:
        return None
    moves = [BranchMove(branch, wanted.commit, wanted.commit), *planned.others]
    if branch == planned.after.branch:
        moves.append(BranchMove(branch, planned.branch_before, planned.after.commit))
    ends = {end for m in moves if m.branch == branch for end in (m.before, m.after)}
    now = repo.refs.read(branch)
    if now in ends:
        return None
    place = "gone" if now is None else f"at {now.decode()[:12]}"
    return f"branch '{short_name(branch)}' is {place}, where neither state had it"


def head_report(
    repo: Repository, present: Head, target: Recorded, move: HeadMove | None
) -> HeadReport:
    """Where HEAD was and is; how far the checkpoint's commit is from the present one."""
    ahead = behind = None
    then = target.head.commit
    if present.commit == then and then is not None:
        ahead = behind = 0
    elif present.commit is not None and then is not None:
        from ckpt.git.reachability import ahead_behind

        counts = ahead_behind(repo.objects, present.commit, then)
        if counts is not None:
            ahead, behind = counts
    return HeadReport(
        moved=move is not None,
        before=_state(present),
        after=_state(move.after if move is not None else present),
        ahead=ahead,
        behind=behind,
        branches=() if move is None else _branch_reports(move),
    )


def _branch_reports(move: HeadMove) -> tuple[BranchReport, ...]:
    others = sorted(moved_besides(move), key=lambda other: other.branch)
    return tuple(
        BranchReport(short_name(o.branch), _text(o.before), _text(o.after)) for o in others
    )


def _state(head: Head) -> GitState:
    return GitState(_text(head.commit), branch_name(head))


def _text(commit: ObjectID | None) -> str | None:
    return None if commit is None else to_str(commit)


# -- The operation in progress

# Those that end in one commit, on top of HEAD wherever it has gone meanwhile.
_ON_HEAD = {"merge", "cherry-pick", "revert"}


def check_operation(
    now: Operation | None, then: Operation | None, target: str, *, head_moved: bool
) -> None:
    """Files of one operation and the HEAD of another must not meet in a commit."""
    if not _is_other(now, then, head_moved):
        return
    was = f"in the middle of a {then.name}" if then else "with no operation in progress"
    has = f"a {now.name} is in progress" if now else "none is in progress now"
    if now is not None and then is not None and now.name == then.name:
        has = f"the {now.name} has moved on since, or is another one"
    raise Refused(
        f"checkpoint '{target}' was taken {was}, but {has}",
        hint=f"'git ckpt rollback {target} --head' puts HEAD and the operation back too, "
        f"'git ckpt rollback {target} -- PATH' single files only",
    )


def _is_other(now: Operation | None, then: Operation | None, head_moved: bool) -> bool:
    if now != then:
        return True
    return now is not None and head_moved and not _ON_HEAD.isdisjoint(now.name.split("+"))


def comes_along(repo: Repository, goal: Recorded, *, head: bool) -> bool:
    """Whether an interrupted rollback has to put back an operation that it had no need to touch:
    one was begun or ended since. Without `head` it stays, and who began it has to end it."""
    now, then = in_progress(repo.git_dir), goal.operation.files.operation
    if not _is_other(now, then, repo.refs.head().commit != goal.head.commit):
        return False
    if now is None or head:
        return head
    what = f"a {now.name} was begun since the rollback was interrupted"
    if then is not None:
        what = f"the {now.name} has moved on since the rollback was interrupted, or is another one"
    # Git gives up with it what was resolved by hand, which no checkpoint holds yet.
    give_up = f"git ckpt save && {_way_out(now, then)}"
    raise Refused(what, hint=f"'{give_up}' gives it up; then repeat the command")


def _way_out(now: Operation, then: Operation | None) -> str:
    """How git gives up an operation; of several, one that was not in progress then."""
    known = set() if then is None else {*then.name.split("+")}
    names = now.name.split("+")
    name = next((name for name in names if name not in known), names[0])
    return {"bisect": "git bisect reset", "sequencer": "git cherry-pick --abort"}.get(
        name, f"git {name} --abort"
    )


def ended(repo: Repository, goal: Recorded) -> str | None:
    """What to tell of the operation that was in progress in a state, if none is now."""
    then = goal.operation.files.operation
    if then is None or in_progress(repo.git_dir) is not None:
        return None
    return f"the {then.name} has ended since, and is not put back"


def strayed_operation(repo: Repository, goal: Recorded) -> str | None:
    """Where somebody has moved HEAD, from which the operation of a state is to go on."""
    now = repo.refs.head().commit
    if goal.operation.files.operation is None or now == goal.head.commit:
        return None
    place = "unborn" if now is None else f"at {now.decode()[:12]}"
    return f"HEAD is {place}, where neither state had it"


def differs(now: OperationFiles, then: OperationFiles) -> bool:
    """Whether putting HEAD back changes anything about the operation."""
    return _lasting(now, then) != _lasting(then, then)


def _lasting(files: OperationFiles, wanted: OperationFiles) -> dict[str, bytes]:
    """An ORIG_HEAD that no operation needs may stay as it is."""
    left_alone = set() if ORIG_HEAD in wanted.contents else {ORIG_HEAD}
    return {path: data for path, data in files.contents.items() if path not in left_alone}


def clear(repo: Repository) -> None:
    """From here on git sees no operation; safe to repeat."""
    operation_files.clear(repo.git_dir, repo.private_dir)


def install(repo: Repository, wanted: OperationState) -> None:
    """Put the wanted operation in its place; safe to repeat after `clear`."""
    if wanted.files.contents:
        operation_files.install(repo.git_dir, repo.private_dir, wanted.files)


def is_unknown(repo: Repository, *known: OperationFiles) -> bool:
    """Whether files of an operation are there that belong to none of the known states."""
    return any(
        all(state.contents.get(path) != data for state in known)
        for path, data in read(repo.git_dir).contents.items()
        if path != ORIG_HEAD
    )


def report(now: OperationFiles, then: OperationFiles) -> OperationReport:
    return OperationReport(_name(now), _name(then))


def _name(files: OperationFiles) -> str | None:
    operation = files.operation
    return None if operation is None else operation.name


def check_operation_objects(target: Recorded) -> None:
    """Refuse to put back an operation without the commits that its files name."""
    if not target.operation.files.contents:
        return
    for commit in target.kept:
        if target.objects.kind(commit) != b"commit":
            raise RollbackError(
                f"the commit '{commit.decode()}' of the checkpoint's operation is missing",
                hint=WITHOUT_HEAD,
            )
