# SPDX-License-Identifier: MIT
"""The operation in progress in a rollback: never half of one with half of another.

Without `--head` the operation stays, so the one now must be the one then. With it, the
operation goes along with HEAD: the present one is cleared before the first file changes,
the wanted one put in place when all the rest is done. In between git sees none.

After a crash somebody may have begun one or ended one: the same rule holds.
"""

from __future__ import annotations

from ckpt.errors import Refused
from ckpt.models import OperationReport
from ckpt.store.operation import ORIG_HEAD, Operation, OperationFiles, in_progress, read
from ckpt.store.operation_record import OperationState
from ckpt.store.repository import Repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.engine.recorded import Recorded

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


def strayed(repo: Repository, goal: Recorded) -> str | None:
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
    from ckpt.store import operation_files

    operation_files.clear(repo.git_dir, repo.private_dir)


def install(repo: Repository, wanted: OperationState) -> None:
    """Put the wanted operation in its place; safe to repeat after `clear`."""
    from ckpt.store import operation_files

    if wanted.files.contents:
        operation_files.install(repo.git_dir, repo.private_dir, wanted.files)


def is_strange(repo: Repository, *known: OperationFiles) -> bool:
    """Whether files of an operation are there that belong to none of the known states."""
    return has_strange(read(repo.git_dir), *known)


def has_strange(now: OperationFiles, *known: OperationFiles) -> bool:
    """Whether some of these files belong to none of the known states."""
    return any(
        all(state.contents.get(path) != data for state in known)
        for path, data in now.contents.items()
        if path != ORIG_HEAD
    )


def report(now: OperationFiles, then: OperationFiles) -> OperationReport:
    return OperationReport(_name(now), _name(then))


def _name(files: OperationFiles) -> str | None:
    operation = files.operation
    return None if operation is None else operation.name
