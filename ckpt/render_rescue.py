# SPDX-License-Identifier: MIT
"""How the answer of `git ckpt rescue` looks as text: what is lost, or what became of it.

Pure, as `render`.
"""

from __future__ import annotations

from ckpt.paths import to_str
from ckpt.render import age, columns, printable, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ckpt.engine.lost import Lost
    from ckpt.engine.rescue import Rescued

    Paint = Callable[[str, str], str]

_HEADS = ("", "AGE", "KIND", "ID", "WHAT", "SUBJECT")
_SHORT = 12
# What has all files of another time in it, and none of those that nobody tracks.
_WHOLE = ("stash", "commit", "tree")


def lost(found: Sequence[Lost], total: int, paint: Paint, width: int) -> Iterator[str]:
    """A numbered line each, newest first, and what to type next."""
    if not found:
        yield "Nothing was found that is lost."
        return
    rows = [_HEADS, *(_row(number, each) for number, each in enumerate(found, 1))]
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(
            cell + " " * (size - columns(cell)) for cell, size in zip(row, widths, strict=True)
        )
        text = _cut(line.rstrip(), width)
        yield paint("dim", text) if row is _HEADS else text
    yield ""
    if total > len(found):
        yield f"{total - len(found)} older ones are not shown; -n 0 shows all"
    yield "make a checkpoint of one:   git ckpt rescue NUMBER [NAME]"


def rescued(found: Lost, made: Rescued, paint: Paint) -> Iterator[str]:
    checkpoint = made.checkpoint
    name = f" '{checkpoint.name}'" if checkpoint.name else ""
    amount = f" ({_amount(found)})" if _amount(found) else ""
    yield f"Rescued {found.kind} {_shown_id(found)}{amount}: {paint('id', checkpoint.id)}{name}"
    yield f"look at it:   git ckpt diff {checkpoint.id}"
    if found.kind in _WHOLE:
        yield f"some of it:   git ckpt rollback {checkpoint.id} -- PATH"
        yield f"all of it:    git ckpt rollback {checkpoint.id}"
        return
    path = "" if made.path is None else f" -- {to_str(made.path)}"
    yield f"get it back:  git ckpt rollback {checkpoint.id}{path}"


def _row(number: int, each: Lost) -> tuple[str, ...]:
    from datetime import datetime, timezone

    when = age(datetime.fromtimestamp(each.time, timezone.utc)) if each.time else "unknown"
    return str(number), when, each.kind, _shown_id(each), _amount(each), _subject(each)


def _shown_id(each: Lost) -> str:
    return printable(each.id if each.path is not None else each.id[:_SHORT])


def _subject(each: Lost) -> str:
    return ", ".join(map(quoted, each.paths)) if each.paths else printable(each.subject)


def _amount(each: Lost) -> str:
    if each.size is not None:
        return f"{each.size:,} bytes"
    if each.files is None:
        return ""
    return f"{each.files:,} file{'' if each.files == 1 else 's'}"


def _cut(line: str, width: int) -> str:
    if columns(line) <= width:
        return line
    while columns(line) >= width:
        line = line[:-1]
    return line + "…"
