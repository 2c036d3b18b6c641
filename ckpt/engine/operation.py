# SPDX-License-Identifier: MIT
"""The operation in progress in a rollback: never half of one with half of another.

Without `--head` the operation stays, so the one now must be the one then. With it, the
operation goes along with HEAD: the present one is cleared before the first file changes,
the wanted one put in place when all the rest is done. In between git sees none.
"""

from __future__ import annotations

from ckpt.errors import Refused
from ckpt.models import OperationReport
from ckpt.store.operation import ORIG_HEAD, Operation, OperationFiles, read
from ckpt.store.operation_record import OperationState
from ckpt.store.repository import Repository

# Those that end in one commit, on top of HEAD wherever it has gone meanwhile.
_ON_HEAD = {"merge", "cherry-pick", "revert"}


def check_operation(
    now: Operation | None, then: Operation | None, target: str, *, head_moved: bool
) -> None:
    """Files of one operation and the HEAD of another must not meet in a commit."""
    if now == then and (now is None or not head_moved or not _ON_HEAD & set(now.name.split("+"))):
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
    from ckpt.store import operation_files, rerere

    rerere.install(repo.common_dir, wanted.rerere)
    if wanted.files.contents:
        operation_files.install(repo.git_dir, repo.private_dir, wanted.files)


def is_strange(repo: Repository, *known: OperationFiles) -> bool:
    """Whether files of an operation are there that belong to none of the known states."""
    now = read(repo.git_dir)
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
