# SPDX-License-Identifier: MIT
"""Format checkpoints, paths and rollbacks as lines of text.

Output of a single command is formatted in its own module. Nothing here prints; colour is a
function argument.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, takewhile
from time import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ckpt.models import Checkpoint, HeadReport, RollbackResult, Skipped, Stats

Paint = Callable[[str, str], str]

# Control characters, including those that end a line or reverse the direction of text.
_OBEYED = frozenset(
    map(chr, (*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)))
) - {"\t"}

MOST_PATHS = 20
_MARKS = ("foreign", "pinned", "partial", "during_rollback")
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


def age(moment: float, now: float | None = None) -> str:
    """Format the age of a moment in seconds since 1970 as git log does: `5 minutes ago`."""
    seconds = (time() if now is None else now) - moment
    if seconds < -60:
        return "in the future"
    for size, unit in _UNITS:
        count = int(seconds // size)
        if count >= 1:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return f"{max(0, int(seconds))} seconds ago" if seconds >= 2 else "just now"


def stats_text(value: Stats) -> str:
    if not value.files_changed:
        return "clean"
    return f"+{value.insertions} -{value.deletions} in {counted(value.files_changed, 'file')}"


def marks(checkpoint: Checkpoint) -> list[str]:
    """List the marks of a checkpoint, such as `pinned` or `partial`."""
    found = [word.replace("_", "-") for word in _MARKS if getattr(checkpoint, word)]
    return [*found, f"session {checkpoint.session}"] if checkpoint.session else found


def size(amount: int) -> str:
    """Format a number of bytes, such as `1.5 MiB`."""
    if amount < 1024:
        return f"{amount} bytes"
    power = min((amount.bit_length() - 1) // 10, 3)
    return f"{amount / 1024**power:.1f} {'KMG'[power - 1]}iB"


def table(shown: Sequence[Checkpoint], paint: Paint, width: int) -> Iterator[str]:
    """Format checkpoints in columns, shortening names on a narrow terminal."""
    rows: list[tuple[str, ...]] = [("ID", "AGE", "KIND", "NAME", "CHANGES", "MARKS")]
    for c in shown:
        facts = (c.kind.value, c.name or "", stats_text(c.stats), ", ".join(marks(c)))
        rows.append((c.id, age(c.timestamp.timestamp()), *map(printable, facts)))
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    yield from aligned(rows, paint, width, 3, {0: "id", 3: "bold"})


def aligned(
    rows: Sequence[Sequence[str]], paint: Paint, width: int, flexible: int, styles: dict[int, str]
) -> Iterator[str]:
    """Align columns below their heads, shortening column `flexible` on a narrow terminal."""
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
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
    """List skipped paths, except nested repositories with their own checkpoint."""
    saved = {state.path for state in checkpoint.nested if state.checkpoint is not None}
    return [item for item in checkpoint.skipped if item.path not in saved]


def skipped_summary(items: Sequence[Skipped]) -> str:
    """Summarize skipped files, such as `2 files on the deny list, 1 over the size limit`."""
    reasons = [item.reason for item in items]
    parts: list[str] = []
    for reason in sorted({*reasons}):
        number = reasons.count(reason)
        count = str(number) if parts else counted(number, "file")
        parts.append(f"{count} {_SKIPPED.get(reason, f'({reason})')}")
    return ", ".join(parts)


def counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def quoted(path: str) -> str:
    """Quote a path in C style, as git does, if it contains unprintable characters or quotes."""
    if path.isprintable() and '"' not in path:
        return path
    from ckpt.git.linediff import quote_path  # rarely needed

    return quote_path(os.fsencode(path)).decode("ascii")


def printable(text: str) -> str:
    """Escape control characters, and bytes that are not UTF-8."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if char in _OBEYED or 0xD800 <= code <= 0xDFFF:
        return char.encode("unicode_escape").decode("ascii")
    return char


def columns(text: str) -> int:
    """Count the columns of a text on a terminal."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(char: str) -> int:
    from unicodedata import combining, east_asian_width

    is_wide = east_asian_width(char) in "WF"
    return 1 + is_wide - (combining(char) > 0)


def fit(text: str, width: int) -> str:
    """Pad or truncate a text to `width` columns."""
    if columns(text) > width:
        ends = accumulate(map(_width, text))
        pairs = zip(text, takewhile(width.__gt__, ends), strict=False)
        text = "".join(char for char, _ in pairs) + "…"
    return text + " " * (width - columns(text))


# -- The report of a rollback

_WOULD = {
    "Rolled": "Would roll",
    "is": "would be",
    "is no longer in progress": "would end",
    "is now": "would be",
    "kept": "would keep",
    "removed": "would remove",
    "restored": "would restore",
    "wrote": "would write",
}


def _verb(done: str, result: RollbackResult) -> str:
    return _WOULD[done] if result.dry_run else done


def report(result: RollbackResult, paint: Paint, width: int = 0) -> Iterator[str]:
    """Describe what a rollback did, or would do."""
    name = f" '{result.target.name}'" if result.target.name else ""
    target = f"checkpoint {paint('id', result.target.id)}{name}"
    if result.changed or result.skipped:
        yield f"{_verb('Rolled', result)} back to {target}"
    elif result.target.scope == "state":
        yield f"No file was touched: {target} holds agent state only"
    else:
        yield f"Nothing to do: {'all else' if result.kept else 'everything'} is as in {target}"
    for done, paths in (("wrote", result.written), ("removed", result.removed)):
        if paths:
            yield f"  {_verb(done, result)} {counted(len(paths), 'file')}:"
            yield from ("  " + line for line in listed([quoted(path) for path in paths]))
    if result.folders_changed:
        yield f"  {_verb('restored', result)} folders or their permission bits"
    if result.index_changed:
        yield f"  {_verb('restored', result)} the index"
    yield from kept(result)
    if result.head is not None:
        yield from _head(result, result.head)
    # The target of an aborted rollback is its own safety checkpoint.
    if result.safety is not None and result.safety.id != result.target.id:
        yield f"The state before is saved as {paint('id', result.safety.id)}"
    for inside in result.nested:
        yield f"In {quoted(inside.path)}:"
        yield from ("  " + line for line in report(inside.result, paint))
        if inside.result.undo_command is not None:
            yield f"  undo with: {inside.result.undo_command}"


def kept(result: RollbackResult) -> Iterator[str]:
    verb = _verb("kept", result)
    yield from listed([f"{verb} {quoted(x.path)} ({x.reason})" for x in result.kept])


def _head(result: RollbackResult, head: HeadReport) -> Iterator[str]:
    is_now = _verb("is now", result)
    if head.moved:
        place = head.after.branch or "detached HEAD"
        yield f"  HEAD {is_now} at {(head.after.commit_hash or 'unborn')[:12]} ({place})"
    elif head.ahead or head.behind:
        counts = ((head.ahead, "ahead of"), (head.behind, "behind"))
        parts = [f"{counted(count, 'commit')} {where}" for count, where in counts if count]
        yield f"  HEAD stays, {' and '.join(parts)} the checkpoint's commit:"
        seen = "git sees the difference as staged; " if result.index_changed else ""
        yield f"  {seen}--head moves HEAD too"
    for branch in head.branches:  # those other than HEAD's
        place = "gone" if branch.after is None else f"at {branch.after[:12]}"
        yield f"  branch '{branch.name}' {is_now} {place}"
    before, after = head.operation or (None, None)
    if after is not None:
        yield f"  the {after} {_verb('is', result)} in progress again"
    elif before is not None:
        yield f"  the {before} {_verb('is no longer in progress', result)}"


def warnings(result: RollbackResult) -> Iterator[str]:
    if result.foreign:
        yield f"checkpoint '{result.target.id}' was not made in this repository"
    for path, reason in _left(result):
        yield f"left '{path}' alone: {reason}"


def _left(result: RollbackResult, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield skipped paths, relative to the outermost worktree, and their reasons."""
    for item in result.skipped:
        yield os.path.join(place, item.path), item.reason
    for inside in result.nested:
        yield from _left(inside.result, os.path.join(place, inside.path))


def hints(result: RollbackResult, paths: Sequence[str]) -> Iterator[str]:
    """Suggest options that would restore more; `paths` are the limits as typed."""
    from shlex import join

    from ckpt.models import GONE_REPOSITORY

    again = f"git ckpt rollback {result.target.id}"
    limits = f" -- {join(paths)}" if paths else ""
    if any(item.reason in ("ignored", "denied") for item in result.skipped):
        command = f"{again} --overwrite-ignored{limits}"
        yield f"'{command}' saves what is in the way, then replaces it"
    kept = {item.path for item in result.kept if item.reason != GONE_REPOSITORY}
    if any(s.checkpoint is not None and s.path in kept for s in result.target.nested):
        yield f"'{again} --recurse{limits}' takes the repositories inside along"
