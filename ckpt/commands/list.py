# SPDX-License-Identifier: MIT
"""`git ckpt list`: list checkpoints, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from ckpt.engine.catalog import counts_as_latest
from ckpt.errors import UsageError
from ckpt.models import Checkpoint, Kind
from ckpt.render import Paint, table

if TYPE_CHECKING:
    import argparse

    from ckpt.cli import Context

_ROWS = 30


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--kind", choices=[kind.value for kind in Kind], help="only checkpoints of that kind")
    add("--name", metavar="NAME", help="only those of that name")
    add("--session", metavar="S", help="only those of that session")
    what = "later than this: 36h, 7d or 2026-11-15T23:00"
    add("--since", metavar="TIME", type=parse_time, help=what)
    add("--until", metavar="TIME", type=parse_time, help="not later than this")
    add("--all", action="store_true", help="also safety checkpoints and those during a rollback")
    add("--all-worktrees", action="store_true", help="those of every worktree")
    what = f"at most N (default: {_ROWS}; 0: no limit)"
    add("-n", type=number, metavar="N", dest="limit", help=what)


def number(text: str) -> int | None:
    found = int(text)
    if found < 0:
        raise ValueError(text)
    return found or None


def run(context: Context, all: bool = False, limit: int | None = _ROWS, **options: Any) -> None:
    """List checkpoints with the options of `CheckpointManager.list`."""
    found = context.manager.list(**options)
    if not all and "kind" not in options:
        found = [c for c in found if counts_as_latest(c)]
    shown = found[:limit]
    context.output.tell(shown, None, partial(_rows, len(found)))


def _rows(number: int, shown: Sequence[Checkpoint], paint: Paint, width: int) -> Iterator[str]:
    if not shown:
        yield "No checkpoints to show."
        yield "take one:   git ckpt save [NAME]"
        return
    yield from table(shown, paint, width)
    yield ""
    if any(each.foreign for each in shown):
        yield "foreign ones were not made here; a rollback looks them over before"
    if len(shown) < number:
        yield f"{number - len(shown)} older ones are not shown; -n 0 shows all"
    yield "look at one:   git ckpt show ID"
    yield "compare:       git ckpt diff ID"
    yield "go back:       git ckpt rollback ID"


def parse_time(text: str) -> datetime:
    """Parse an age, or a date with or without a time."""
    from ckpt.settings.sources import DURATION

    try:
        ago = DURATION.read(text)
        if isinstance(ago, float):
            return datetime.now(timezone.utc) - timedelta(seconds=ago)
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (ValueError, OverflowError):
        hint = "for example 90s, 15m, 36h, 7d, 4w or 2026-11-15T23:00"
        raise UsageError(f"'{text}' is not a time", hint=hint) from None
