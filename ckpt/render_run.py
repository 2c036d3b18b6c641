# SPDX-License-Identifier: MIT
"""What `git ckpt run` says when the command has ended: a few lines, after the command's own."""

from __future__ import annotations

from ckpt import render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ckpt.models import GitState
    from ckpt.run import Moved, RunResult


def summary(result: RunResult) -> Iterator[str]:
    """What changed, how it ended if it failed, and the command to type next."""
    if not result.ended.is_success:
        yield f"ckpt: {_ending(result)}"
    if result.changed is not None:
        yield f"ckpt: {_changes(result)} since checkpoint {result.checkpoint.id}"
    if result.head is not None:
        yield f"  {_head(result.head)}"
    if result.after is not None and result.after.id is not None:
        yield f"  saved as {result.after.id}"
    yield from _rolled_back(result) if result.rollback is not None else _way_back(result)


def _ending(result: RunResult) -> str:
    ended, word = result.ended, render.quoted(result.command[0])
    if ended.timed_out:
        return f"'{word}' was ended: its time was up"
    if ended.signal is not None:
        return f"'{word}' died of signal {ended.signal}"
    return f"'{word}' failed with exit code {ended.exit_code}"


def _changes(result: RunResult) -> str:
    if result.changed is None or not result.changed.files:
        return "no files changed"
    return render.stats_text(result.changed.stats)


def _head(moved: Moved) -> str:
    gained = "" if not moved.commits else f", with {render.commits(moved.commits)} more"
    return f"HEAD went from {_place(moved.before)} to {_place(moved.after)}{gained}"


def _place(state: GitState) -> str:
    commit = (state.commit_hash or "unborn")[:12]
    return commit if state.branch is None else f"{render.printable(state.branch)} ({commit})"


def _rolled_back(result: RunResult) -> Iterator[str]:
    done = result.rollback
    if done is None:
        return
    if done.changed or done.skipped:
        yield f"ckpt: {'' if done.changed else 'not '}rolled back to checkpoint {done.target.id}"
    for item in done.skipped:
        yield f"  left {render.quoted(item.path)} alone: {render.printable(item.reason)}"
    for item in done.kept[: render.MOST_PATHS]:
        yield f"  kept {render.quoted(item.path)} ({render.printable(item.reason)})"
    if len(done.kept) > render.MOST_PATHS:
        yield f"  … and {len(done.kept) - render.MOST_PATHS} more"
    if done.undo_command is not None:
        yield f"  bring its work back with: {done.undo_command}"


def _way_back(result: RunResult) -> Iterator[str]:
    changed = result.changed is None or result.changed.files
    if changed or result.head is not None:
        yield f"  go back with: {result.rollback_command}"
