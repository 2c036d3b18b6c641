# SPDX-License-Identifier: MIT
"""How checkpoints and diffs look as text: pure, values in and lines out.

Nothing here prints or knows a terminal; colour comes as a function, and the time
against which ages are told as an argument.
"""

from __future__ import annotations

import os
from itertools import accumulate, takewhile
from time import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ckpt.engine.prune import PruneResult
    from ckpt.engine.space import Space
    from ckpt.models import Checkpoint, DiffResult, NestedState, Skipped, Stats

    Paint = Callable[[str, str], str]

# Of control characters a terminal shows none; some turn the direction of writing around, and
# some end a line for whoever reads it.
_OBEYED = frozenset(
    map(chr, (*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)))
) - {"\t"}

MOST_PATHS = 20
_STAT_WIDTH = 40
_WIDEST = 400  # of a cell: what ckpt calls a name has 200 characters of two columns at most
_LONGEST_FACT = 1000
_MARKS = ("pinned", "partial", "during_rollback")
_SIZES = ("bytes", "KiB", "MiB", "GiB")
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
    files = f"{value.files_changed} file{'' if value.files_changed == 1 else 's'}"
    return f"+{value.insertions} -{value.deletions} in {files}"


def marks(checkpoint: Checkpoint) -> str:
    """What is unusual about one, in a word each; first that others made it."""
    found = ["foreign"] if checkpoint.foreign else []
    return ", ".join([*found, *_own_marks(checkpoint)])


def _own_marks(checkpoint: Checkpoint) -> list[str]:
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


def table(
    shown: Sequence[Checkpoint],
    paint: Paint,
    width: int,
    sizes: Mapping[str, int] | None = None,
) -> Iterator[str]:
    """Checkpoints as aligned columns; only the name gives way on a narrow terminal."""
    rows: list[tuple[str, ...]] = [("ID", "AGE", "KIND", "NAME", "CHANGES", "SIZE", "MARKS")]
    rows += [
        (
            *(c.id, age(c.timestamp), c.kind.value, printable(c.name or ""), stats(c)),
            *("" if sizes is None or c.id not in sizes else size(sizes[c.id]), printable(marks(c))),
        )
        for c in shown
    ]
    for column in (-2, -1):
        if not any(row[column] for row in rows[1:]):
            rows = [row[:column] + row[len(row) + column + 1 :] for row in rows]
    widths = [min(max(map(columns, column)), _WIDEST) for column in zip(*rows, strict=True)]
    spare = width - sum(widths) - 2 * (len(widths) - 1)
    if spare < 0:
        widths[3] = max(len("NAME"), widths[3] + spare)
    for number, row in enumerate(rows):
        cells = [_fit(cell, size) for cell, size in zip(row, widths, strict=True)]
        if number == 0:
            yield paint("dim", "  ".join(cells).rstrip())
            continue
        cells[0] = paint("id", cells[0])
        cells[3] = paint("bold", cells[3])
        yield "  ".join(cells).rstrip()


def space(found: Space) -> str:
    """What all checkpoints hold together: more than the sum, as they share much."""
    trash = f", {size(found.trash)} wait in the trash" if found.trash else ""
    return f"all checkpoints together hold {size(found.total)}{trash}"


def details(checkpoint: Checkpoint, paint: Paint) -> Iterator[str]:
    """One checkpoint in full."""
    yield paint("id", f"checkpoint {checkpoint.id}")
    head = checkpoint.head_commit[:12] if checkpoint.head_commit else "unborn"
    place = f"on {checkpoint.branch}" if checkpoint.branch else "detached"
    is_head_known = checkpoint.head_commit is not None or checkpoint.branch is not None
    own_marks = ", ".join(_own_marks(checkpoint))
    facts = (
        ("Name", checkpoint.name),
        ("Kind", f"{checkpoint.kind}" + (f" ({own_marks})" if own_marks else "")),
        ("Origin", "foreign: not made in this repository" if checkpoint.foreign else None),
        ("Date", f"{checkpoint.timestamp:%Y-%m-%d %H:%M:%S} UTC ({age(checkpoint.timestamp)})"),
        ("HEAD", f"{head}, {place}" if is_head_known else "not known"),
        ("During", f"a {checkpoint.operation}" if checkpoint.operation else None),
        ("Changes", f"{stats(checkpoint)}, against HEAD"),
        ("Worktree", checkpoint.worktree if checkpoint.worktree != "main" else None),
        ("Ref", checkpoint.ref),
    )
    for label, value in facts:
        if value:
            yield f"{label + ':':<10}{printable(_short(value, _LONGEST_FACT))}"
    if checkpoint.description:
        from ckpt.ids import MAX_DESCRIPTION

        yield ""
        told = _short(checkpoint.description, MAX_DESCRIPTION)
        yield from ("    " + printable(line) for line in told.split("\n"))
    yield from _section("Changed files:", [quoted(p) for p in checkpoint.git_state.dirty_files])
    skipped = [f"{quoted(item.path)} ({printable(item.reason)})" for item in left_out(checkpoint)]
    yield from _section("Left out:", skipped)
    yield from _section("State files:", [quoted(path) for path in checkpoint.state_files])
    yield from _section("Tracked objects:", [*map(printable, checkpoint.tracked)])
    yield from _section("Repositories inside:", [nested(state) for state in checkpoint.nested])
    for title, state in (
        ("Data:", checkpoint.data),
        ("Metadata:", checkpoint.metadata),
        ("Context:", checkpoint.context),
    ):
        if state is not None:
            import json

            from ckpt.state import plain

            yield from _section(title, json.dumps(plain(state), indent=2).split("\n"))
    yield ""
    yield f"compare:   git ckpt diff {checkpoint.id}"
    yield f"go back:   git ckpt rollback {checkpoint.id}{' --head' if checkpoint.operation else ''}"


def _short(text: str, most: int) -> str:
    """No more than ckpt itself would have stored: a checkpoint may be anybody's."""
    return text if len(text) <= most else text[:most] + "…"


def _section(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield ""
        yield title
        yield from listed(items)


def listed(items: Sequence[str]) -> Iterator[str]:
    yield from ("  " + item for item in items[:MOST_PATHS])
    if len(items) > MOST_PATHS:
        yield f"  … and {len(items) - MOST_PATHS} more (all of them with --json)"


def left_out(checkpoint: Checkpoint) -> list[Skipped]:
    """What is in no checkpoint; a repository inside may have one of its own."""
    saved = {state.path for state in checkpoint.nested if state.checkpoint is not None}
    return [item for item in checkpoint.skipped if item.path not in saved]


def skipped_summary(items: Sequence[Skipped]) -> str:
    """`2 denied, 1 oversize`."""
    reasons = [item.reason for item in items]
    counted = (f"{reasons.count(reason)} {reason}" for reason in sorted({*reasons}))
    return printable(", ".join(counted))


def diffstat(result: DiffResult, paint: Paint) -> Iterator[str]:
    """One line a file with a bar of plus and minus signs, then the sum."""
    if not result.files:
        return
    names = [quoted(file.path) for file in result.files]
    width = max(map(columns, names))
    most = max(file.insertions + file.deletions for file in result.files)
    scale = min(1.0, _STAT_WIDTH / most) if most else 1.0
    for name, file in zip(names, result.files, strict=True):
        total = "Bin" if file.binary else str(file.insertions + file.deletions)
        plus = paint("green", "+" * _scaled(file.insertions, scale))
        minus = paint("red", "-" * _scaled(file.deletions, scale))
        yield f" {file.status} {_fit(name, width)} | {total:>4} {plus}{minus}".rstrip()
    yield f" {stats_text(result.stats)}"


def _scaled(number: int, scale: float) -> int:
    return max(1, round(number * scale)) if number else 0


def coloured_patch(patch: bytes) -> bytes:
    codes = {b"+": b"32", b"-": b"31", b"@": b"36", b"d": b"1"}
    lines = []
    for line in patch.split(b"\n"):
        code = b"1" if line.startswith((b"+++ ", b"--- ")) else codes.get(line[:1])
        lines.append(b"\033[%sm%s\033[0m" % (code, line) if code else line)
    return b"\n".join(lines)


def nested(state: NestedState) -> str:
    """A repository inside the worktree, in one line."""
    head = state.commit_hash[:12] if state.commit_hash else "unborn"
    place = f"on {state.branch}" if state.branch else "detached"
    facts = [f"{head} {place}"] if state.commit_hash or state.branch else []
    facts.append({True: "changed", False: "clean", None: "not compared"}[state.dirty])
    if state.checkpoint is not None:
        facts.append(f"saved as {state.checkpoint}")
    if state.problem is not None:
        facts.append(f"not saved whole: {state.problem}")
    return f"{quoted(state.path)}: {printable(', '.join(facts))}"


def commits(number: int) -> str:
    return f"{number} commit{'' if number == 1 else 's'}"


def quoted(path: str) -> str:
    """A path as git prints it: in C quotes if it holds anything odd, but UTF-8 as it is."""
    raw = os.fsencode(path)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable() and '"' not in text:
        return text
    from ckpt.git.patch import quote_path

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
    import unicodedata

    is_wide = unicodedata.east_asian_width(char) in "WF"
    return 1 + is_wide - (unicodedata.combining(char) > 0)


def _fit(text: str, width: int) -> str:
    """The text in exactly that many columns, cut if it is longer."""
    if len(text) <= width and text.isascii():
        return text.ljust(width)
    taken = columns(text)
    if taken <= width:
        return text + " " * (width - taken)
    ends = accumulate(map(_width, text))
    text = "".join(char for char, _ in zip(text, takewhile(width.__gt__, ends), strict=False))
    return text + "…" + " " * (width - 1 - columns(text))


def pruned(result: PruneResult, paint: Paint) -> Iterator[str]:
    """A line for each checkpoint, with what becomes of it and why; then what to type."""
    for one in result.decisions:
        word = paint("green", "keep") if one.keep else paint("red", "drop")
        reasons = ", ".join(one.reasons)
        found = one.checkpoint
        yield f"{word}  {paint('id', found.id)}  {found.kind:<7}  {quoted(reasons)}"
    drop, remove = ("Would drop", "Would remove") if result.dry_run else ("Dropped", "Removed")
    yield f"{drop} {len(result.dropped)} of {len(result.decisions)}"
    if result.emptied:
        yield f"{remove} {len(result.emptied)} from the trash, for good"
    in_trash = {one.checkpoint.id for one in result.dropped} - {*result.emptied}
    if in_trash and not result.dry_run:
        yield "bring one back with: git ckpt restore-dropped ID"
