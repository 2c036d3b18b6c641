# SPDX-License-Identifier: MIT
"""How checkpoints, paths and rollbacks look as text: values in, lines out.

What only one command prints is beside that command. Nothing here prints or knows a terminal;
colour is a function, and the time that ages count from an argument.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, takewhile
from time import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from ckpt.models import (
        BranchReport,
        Checkpoint,
        OperationReport,
        RollbackResult,
        Skipped,
        Stats,
    )

Paint = Callable[[str, str], str]

# Of control characters a terminal shows none; some turn the direction of writing around, and
# some end a line for whoever reads it.
_OBEYED = frozenset(
    map(chr, (*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)))
) - {"\t"}

MOST_PATHS = 20
_WIDEST = 400  # of a cell: what ckpt calls a name has 200 characters of two columns at most
_MARKS = ("pinned", "partial", "during_rollback")
_SIZES = ("bytes", "KiB", "MiB", "GiB")
_SKIPPED = {
    "denied": "on the deny list",
    "oversize": "over the size limit",
    "budget": "over the limits of one checkpoint",
    "special": "of a special kind",
    "nested": "in other repositories",
}
_UNITS = (
    (365 * 86400, "year"),
    (30 * 86400, "month"),
    (7 * 86400, "week"),
    (86400, "day"),
    (3600, "hour"),
    (60, "minute"),
)


def age(moment: datetime, now: datetime | None = None) -> str:
    """`5 minutes ago`, as git log has it."""
    seconds = (now.timestamp() if now else time()) - moment.timestamp()
    if seconds < -60:
        return "in the future"
    for size, unit in _UNITS:
        count = int(seconds // size)
        if count >= 1:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return f"{max(0, int(seconds))} seconds ago" if seconds >= 2 else "just now"


def stats(checkpoint: Checkpoint) -> str:
    return stats_text(checkpoint.stats)


def stats_text(value: Stats) -> str:
    if not value.files_changed:
        return "clean"
    return f"+{value.insertions} -{value.deletions} in {counted(value.files_changed, 'file')}"


def marks(checkpoint: Checkpoint) -> str:
    """What is unusual about one, in a word each; first that others made it."""
    found = ["foreign"] if checkpoint.foreign else []
    return ", ".join([*found, *unusual(checkpoint)])


def unusual(checkpoint: Checkpoint) -> list[str]:
    found = [word.replace("_", "-") for word in _MARKS if getattr(checkpoint, word)]
    if checkpoint.session:
        found.append(f"session {checkpoint.session}")
    return found


def size(amount: int) -> str:
    """`1.5 MiB`."""
    number, unit = float(amount), _SIZES[0]
    for unit in _SIZES:
        if number < 1024 or unit == _SIZES[-1]:
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == _SIZES[0] else f"{number:.1f} {unit}"


def table(shown: Sequence[Checkpoint], paint: Paint, width: int) -> Iterator[str]:
    """Checkpoints as aligned columns; only the name gives way on a narrow terminal."""
    rows: list[tuple[str, ...]] = [("ID", "AGE", "KIND", "NAME", "CHANGES", "MARKS")]
    rows += [
        (
            *(c.id, age(c.timestamp), c.kind.value, printable(c.name or "")),
            *(stats(c), printable(marks(c))),
        )
        for c in shown
    ]
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    yield from aligned(rows, paint, width, 3, {0: "id", 3: "bold"})


def aligned(
    rows: Sequence[Sequence[str]], paint: Paint, width: int, flexible: int, styles: dict[int, str]
) -> Iterator[str]:
    """Columns below their heads; on a narrow terminal the `flexible` one gives way."""
    widths = [min(max(map(columns, column)), _WIDEST) for column in zip(*rows, strict=True)]
    spare = width - sum(widths) - 2 * (len(widths) - 1)
    if spare < 0:
        widths[flexible] = max(len(rows[0][flexible]), widths[flexible] + spare)
    for number, row in enumerate(rows):
        cells = [fit(cell, size) for cell, size in zip(row, widths, strict=True)]
        if number == 0:
            yield paint("dim", "  ".join(cells).rstrip())
            continue
        for column, style in styles.items():
            cells[column] = paint(style, cells[column])
        yield "  ".join(cells).rstrip()


def listed(items: Sequence[str]) -> Iterator[str]:
    yield from ("  " + item for item in items[:MOST_PATHS])
    if len(items) > MOST_PATHS:
        yield f"  … and {len(items) - MOST_PATHS} more (all of them with --json)"


def skipped(checkpoint: Checkpoint) -> list[Skipped]:
    """What is in no checkpoint; a repository inside may have one of its own."""
    saved = {state.path for state in checkpoint.nested if state.checkpoint is not None}
    return [item for item in checkpoint.skipped if item.path not in saved]


def skipped_summary(items: Sequence[Skipped]) -> str:
    """`2 files on the deny list, 1 over the size limit`."""
    reasons = [item.reason for item in items]
    counted: list[str] = []
    for reason in sorted({*reasons}):
        number = reasons.count(reason)
        what = _SKIPPED.get(reason, f"({printable(reason)})")
        files = "" if counted else f" file{'' if number == 1 else 's'}"
        counted.append(f"{number}{files} {what}")
    return ", ".join(counted)


def commits(number: int) -> str:
    return counted(number, "commit")


def counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def quoted(path: str) -> str:
    """A path as git prints it: in C quotes if it holds anything odd, but UTF-8 as it is."""
    raw = os.fsencode(path)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable() and '"' not in text:
        return text
    from ckpt.git.patch import quote_path  # of names that few have

    return quote_path(raw).decode("ascii")


def printable(text: str) -> str:
    """A text in which a terminal finds nothing to obey, and a row no other: what it would not
    show, and bytes that are no text, are escapes. Whatever a checkpoint tells goes through this
    before it is painted, for a checkpoint may be anybody's."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if char in _OBEYED or 0xD800 <= code <= 0xDFFF:
        return char.encode("unicode_escape").decode("ascii")
    return char


def columns(text: str) -> int:
    """How many columns a terminal gives a text."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(char: str) -> int:
    from unicodedata import combining, east_asian_width

    is_wide = east_asian_width(char) in "WF"
    return 1 + is_wide - (combining(char) > 0)


def fit(text: str, width: int) -> str:
    """The text in exactly that many columns, cut if it is longer."""
    if len(text) <= width and text.isascii():
        return text.ljust(width)
    taken = columns(text)
    if taken <= width:
        return text + " " * (width - taken)
    ends = accumulate(map(_width, text))
    text = "".join(char for char, _ in zip(text, takewhile(width.__gt__, ends), strict=False))
    return text + "…" + " " * (width - 1 - columns(text))


# -- The report of a rollback, real or dry


def report(result: RollbackResult, paint: Paint, width: int = 0) -> Iterator[str]:
    """The report of a rollback, real or dry."""
    dry = result.dry_run
    yield _headline(result, paint)
    yield from _paths("would write" if dry else "wrote", result.written)
    yield from _paths("would remove" if dry else "removed", result.removed)
    if result.folders_changed:
        yield f"  {'would restore' if dry else 'restored'} folders or their permission bits"
    if result.index_changed:
        yield f"  {'would restore' if dry else 'restored'} the index"
    yield from kept(result)
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


def kept(result: RollbackResult) -> Iterator[str]:
    verb = "would keep" if result.dry_run else "kept"
    yield from listed(
        [f"{verb} {quoted(item.path)} ({printable(item.reason)})" for item in result.kept]
    )


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
        yield f"  {verb} {counted(len(paths), 'file')}:"
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
    from ckpt.models import GONE_REPOSITORY

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
    from shlex import quote

    from ckpt.models import HEAD_FILE

    if any(item.path == HEAD_FILE for item in result.skipped):
        there = f"git -C {quote(place)} ckpt" if place else "git ckpt"
        yield f"{there} rollback {result.target.id} --head"
    for inside in result.nested:
        yield from _moving_head(inside.result, os.path.join(place, inside.path))


def _limits(paths: Sequence[str]) -> str:
    from shlex import join

    return f" -- {join(paths)}" if paths else ""
