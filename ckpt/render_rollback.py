# SPDX-License-Identifier: MIT
"""How a rollback is told of, real or dry: what it did, what it left alone, what to type next.

Pure, as `render` is. It is imported before the first file changes, since that may be ckpt's own.
"""

from __future__ import annotations

import os

from ckpt.models import GONE_REPOSITORY, HEAD_FILE
from ckpt.render import MOST_PATHS, commits, listed, printable, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ckpt.models import BranchReport, OperationReport, RollbackResult
    from ckpt.render import Paint


def report(result: RollbackResult, paint: Paint) -> Iterator[str]:
    """The report of a rollback, real or dry."""
    dry = result.dry_run
    yield _headline(result, paint)
    yield from _paths("would write" if dry else "wrote", result.written)
    yield from _paths("would remove" if dry else "removed", result.removed)
    if result.folders_changed:
        yield f"  {'would restore' if dry else 'restored'} folders or their permission bits"
    if result.index_changed:
        yield f"  {'would restore' if dry else 'restored'} the index"
    for item in result.kept[:MOST_PATHS]:
        yield f"  {'would keep' if dry else 'kept'} {quoted(item.path)} ({printable(item.reason)})"
    if len(result.kept) > MOST_PATHS:
        yield f"  … and {len(result.kept) - MOST_PATHS} more"
    yield from _head(result)
    # Aborted, a rollback ends where its safety checkpoint was taken.
    if result.safety is not None and result.safety.id != result.target.id:
        yield f"The state before is saved as {paint('id', result.safety.id)}"
    if result.began_from is not None:
        yield f"The rollback had begun from {paint('id', result.began_from.id)}"
    for inside in result.nested:
        yield f"In {quoted(inside.path)}:"
        yield from ("  " + line for line in report(inside.result, paint))
        if inside.result.undo_command is not None:
            yield f"  undo with: {inside.result.undo_command}"


def _headline(result: RollbackResult, paint: Paint) -> str:
    name = f" '{printable(result.target.name)}'" if result.target.name else ""
    target = f"checkpoint {paint('id', result.target.id)}{name}"
    if result.changed or result.skipped:
        return f"{'Would roll' if result.dry_run else 'Rolled'} back to {target}"
    if result.target.scope == "state":
        return f"No file was touched: {target} holds agent state only"
    return f"Nothing to do: {'all else' if result.kept else 'everything'} is as in {target}"


def _paths(verb: str, paths: Sequence[str]) -> Iterator[str]:
    if paths:
        yield f"  {verb} {len(paths)} file{'' if len(paths) == 1 else 's'}:"
        yield from ("  " + line for line in listed([quoted(path) for path in paths]))


def _head(result: RollbackResult) -> Iterator[str]:
    head = result.head
    if head is None:
        return
    if head.moved:
        place = printable(head.after.branch or "detached HEAD")
        commit = (head.after.commit_hash or "unborn")[:12]
        yield f"  HEAD {'would be' if result.dry_run else 'is now'} at {commit} ({place})"
    elif head.ahead or head.behind:
        parts = []
        if head.ahead:
            parts.append(f"{commits(head.ahead)} ahead of")
        if head.behind:
            parts.append(f"{commits(head.behind)} behind")
        yield f"  HEAD stays, {' and '.join(parts)} the checkpoint's commit:"
        seen = "git sees the difference as staged; " if result.index_changed else ""
        yield f"  {seen}--head moves HEAD too"
    yield from listed([_branch(branch, result.dry_run) for branch in head.branches])
    if head.operation is not None:
        yield from map(printable, _operation(head.operation, result.dry_run))


def _branch(branch: BranchReport, dry: bool) -> str:
    """Where a branch went that HEAD was not on."""
    place = "gone" if branch.after is None else f"at {branch.after[:12]}"
    return f"branch '{printable(branch.name)}' {'would be' if dry else 'is now'} {place}"


def _operation(operation: OperationReport, dry: bool) -> Iterator[str]:
    """Which operation the rollback ended, or which it brought back."""
    if operation.after is not None:
        yield f"  the {operation.after} {'would be' if dry else 'is'} in progress again"
    elif operation.before is not None:
        yield f"  the {operation.before} {'would end' if dry else 'is no longer in progress'}"


def warnings(result: RollbackResult) -> Iterator[str]:
    if result.foreign:
        yield f"checkpoint '{result.target.id}' was not made in this repository"
    for path, reason in _left(result):
        yield f"left '{path}' alone: {reason}"


def _left(result: RollbackResult, place: str = "") -> Iterator[tuple[str, str]]:
    """All paths that were left, from the top of the outermost worktree, with the reasons."""
    for item in result.skipped:
        yield os.path.join(place, item.path), item.reason
    for inside in result.nested:
        yield from _left(inside.result, os.path.join(place, inside.path))


def hints(result: RollbackResult, paths: Sequence[str]) -> Iterator[str]:
    """Which option would have done more; `paths` are those that it was limited to, as typed."""
    again = f"git ckpt rollback {result.target.id}"
    if any(item.reason in ("ignored", "denied") for item in result.skipped):
        command = f"{again} --overwrite-ignored{_limits(paths)}"
        yield f"'{command}' saves what is in the way, then replaces it"
    for command in _moving_head(result):
        yield f"'{command}' moves it all the same, and the safety checkpoint keeps its commits"
    kept = {item.path for item in result.kept if item.reason != GONE_REPOSITORY}
    if any(s.checkpoint is not None and s.path in kept for s in result.target.nested):
        yield f"'{again} --recurse{_limits(paths)}' takes the repositories inside along"


def _moving_head(result: RollbackResult, place: str = "") -> Iterator[str]:
    """What to type for each HEAD that was left where it is."""
    if any(item.path == HEAD_FILE for item in result.skipped):
        from shlex import quote  # for a hint that few see

        there = f"git -C {quote(place)} ckpt" if place else "git ckpt"
        yield f"{there} rollback {result.target.id} --head"
    for inside in result.nested:
        yield from _moving_head(inside.result, os.path.join(place, inside.path))


def _limits(paths: Sequence[str]) -> str:
    from shlex import join  # for a hint that few see

    return f" -- {join(paths)}" if paths else ""
