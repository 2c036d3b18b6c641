# SPDX-License-Identifier: MIT
"""Checkpoints that others made: by `git fetch`, from a bundle, or with a ref written by hand.

Foreign is what the record of checkpoints made here does not name, whatever it says of itself.
All that a rollback to one would rely on is looked at before it is: names that may reach any
file system, modes that git knows, no entry twice, no tree that unfolds into millions of files,
a manifest, an index and state files that can be read. Permission bits are no wider than those
that files get here. An operation that would have git run commands, or that moves branches, needs
consent (`--trust`), which also takes the rest as it is; what can never be right is refused even
then, elsewhere.
"""

from __future__ import annotations

from ckpt.engine.recorded import LARGEST_RULES, Recorded
from ckpt.engine.tree_check import TreeCheck, Unsafe, check_blobs, check_entry, check_path, shown
from ckpt.errors import CkptError, Refused
from ckpt.models import Checkpoint, Scope
from ckpt.paths import to_bytes
from ckpt.store.objects import ObjectID
from ckpt.store.record import read_commit
from ckpt.store.ref_names import is_branch
from ckpt.store.repository import Repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ckpt.store.index import IndexEntry

_MOST_SHOWN = 10
_DAMAGE = (AttributeError, KeyError, TypeError, ValueError)


def check_target(target: Recorded, *, head: bool) -> None:
    """Refuse what is not safe in another's checkpoint; it was opened without trust."""
    try:
        _check_parts(target)
        if head:
            _check_head(target)
    except Unsafe as error:
        raise Refused(
            f"checkpoint '{target.checkpoint.id}' was not made here and is not safe: {error}",
            hint=f"nothing was touched; 'git ckpt show {target.checkpoint.id}' tells more, "
            "--trust takes it as it is",
        ) from None
    if head:
        _check_consent(target)


def _check_consent(target: Recorded) -> None:
    from ckpt.engine.foreign_operation import needs_consent

    commands = needs_consent(target.operation)
    if commands:
        listed = ", ".join(f"'{command}'" for command in commands)
        raise Refused(
            f"checkpoint '{target.checkpoint.id}' was not made here, and git would go by what its "
            f"operation says: {listed}",
            hint=f"look: git ls-tree -r {target.checkpoint.state_commit} op/files/; "
            "repeat the command with --trust to agree, or without --head",
            details={"commands": commands},
        )


def check_branches(target: Recorded, moving: Iterable[bytes]) -> None:
    """Refuse to move branches that HEAD is not on because another's checkpoint says so."""
    branches = [shown(branch) for branch in moving]
    if branches:
        listed = ", ".join(f"'{branch}'" for branch in branches[:_MOST_SHOWN])
        raise Refused(
            f"checkpoint '{target.checkpoint.id}' was not made here, and would move branches that "
            f"HEAD is not on: {listed}",
            hint="repeat the command with --trust to agree, or without --head",
            details={"branches": branches},
        )


def check(repo: Repository, checkpoint: Checkpoint) -> None:
    """Refuse to import a checkpoint that is not whole, or not safe."""
    try:
        _check_import(repo, checkpoint)
    except Unsafe as error:
        raise Refused(
            f"checkpoint '{checkpoint.id}' is not imported: {error}", hint="nothing was imported"
        ) from None


def _check_import(repo: Repository, checkpoint: Checkpoint) -> None:
    from ckpt.engine.verify import fault_behind

    objects = repo.objects
    commits = [ObjectID(checkpoint.head_commit.encode())] if checkpoint.head_commit else []
    commits += read_commit(objects, ObjectID(checkpoint.state_commit.encode())).parents
    for commit in commits:
        if objects.kind(commit) != b"commit":
            raise Unsafe(f"commit {commit.decode()} is not here; fetch it first")
        fault = fault_behind(repo, commit)
        if fault is not None:  # with a ref to it no gc would come to an end
            raise Unsafe(f"commit {commit.decode()} is not whole: {fault}")
    blobs = _check_parts(Recorded(repo, checkpoint))
    check_blobs(objects, blobs)
    if checkpoint.operation is not None:
        raise Unsafe(f"a {checkpoint.operation} was under way, whose files may name commands")


def _check_parts(target: Recorded) -> set[ObjectID]:
    """Look at everything but the operation; returns the contents that trees name."""
    trees = TreeCheck(target.objects)
    try:
        trees.check(target.tree)
        trees.check(target.state_tree)
        _ = target.checkpoint.operation
        _check_rules(target)
        for path in _told_paths(target):
            check_path(path)
        for entry in _intended(target):
            check_entry(entry.path.rpartition(b"/")[2], entry.mode)
    except CkptError as error:
        raise Unsafe(error.message) from None
    except _DAMAGE as error:
        raise Unsafe(f"it is damaged ({error!r})") from None
    return trees.blobs


def _check_rules(target: Recorded) -> None:
    """Millions of ignore rules would take hours."""
    if target.checkpoint.scope is Scope.FULL:
        for text in target.manifest.excludes.values():
            if len(text) > LARGEST_RULES:
                raise Unsafe(f"ignore rules of {len(text):,} bytes")


def _told_paths(target: Recorded) -> Iterator[bytes]:
    """The paths that are not in trees alone, and that something is written to."""
    yield from target.state_files
    if target.checkpoint.scope is not Scope.FULL:
        return
    yield from target.manifest.empty_folders
    yield from (to_bytes(state.path) for state in target.manifest.nested)
    yield from (entry.path for entry in _intended(target))


def _intended(target: Recorded) -> list[IndexEntry]:
    """The entries of the index that no tree has."""
    if target.checkpoint.scope is not Scope.FULL:
        return []
    return [entry for entry in target.index.entries if entry.intent_to_add]


def _check_head(target: Recorded) -> None:
    from ckpt.engine.foreign_operation import check_files

    branch = target.head.branch
    if branch is not None and not is_branch(branch):
        raise Unsafe(f"HEAD would be at '{shown(branch)}', which is no branch")
    try:
        operation = target.operation
    except CkptError as error:
        raise Unsafe(error.message) from None
    check_files(operation)
