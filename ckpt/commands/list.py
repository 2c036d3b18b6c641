# SPDX-License-Identifier: MIT
"""`git ckpt list`: the checkpoints, newest first."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from ckpt.engine.catalog import Catalog, counts_as_latest
from ckpt.errors import UsageError
from ckpt.models import REF_PREFIX, Checkpoint, Kind
from ckpt.render import table

if TYPE_CHECKING:
    import argparse

    from ckpt.cli import Context
    from ckpt.output import Output

_DEFAULT_ROWS = 30


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kind", choices=[kind.value for kind in Kind], help="only checkpoints of that kind"
    )
    parser.add_argument("--name", metavar="NAME", help="only those of that name")
    parser.add_argument("--session", metavar="S", help="only those of that session")
    parser.add_argument(
        "--since", metavar="TIME", help="later than this: 36h, 7d or 2026-11-15T23:00"
    )
    parser.add_argument("--until", metavar="TIME", help="not later than this")
    parser.add_argument(
        "--all",
        action="store_true",
        help="also safety checkpoints and those taken during a rollback",
    )
    parser.add_argument("--all-worktrees", action="store_true", help="those of every worktree")
    parser.add_argument(
        "-n",
        type=int,
        default=_DEFAULT_ROWS,
        metavar="N",
        dest="limit",
        help=f"at most N (default: {_DEFAULT_ROWS}; 0: no limit)",
    )


def run(
    context: Context,
    kind: str | None,
    name: str | None,
    session: str | None,
    since: str | None,
    until: str | None,
    all: bool,
    all_worktrees: bool,
    limit: int,
) -> int:
    if limit < 0:
        raise UsageError("-n must not be negative", hint="-n 0 shows all")
    with context.manager() as manager:
        found = manager.list(
            kind=kind,
            name=name,
            session=session,
            since=parse_time(since),
            until=parse_time(until),
            all_worktrees=all_worktrees,
        )
        if not all and kind is None:
            found = [c for c in found if counts_as_latest(c)]
        _tell(context.output, found, found[:limit] if limit else found)
        unreadable = [] if found else Catalog(manager.repository).unreadable()
        if unreadable:  # which is why the list is empty
            more = f" and {len(unreadable) - 1} more" if len(unreadable) > 1 else ""
            context.output.warning(f"'{REF_PREFIX}{unreadable[0]}'{more} cannot be read")
            context.output.hint("git ckpt doctor")
    return 0


def _tell(output: Output, found: list[Checkpoint], shown: list[Checkpoint]) -> None:
    if output.as_json:
        from ckpt import documents

        output.document(documents.listing(shown))
        return
    if not shown:
        output.line("No checkpoints to show.")
        output.line("take one:   git ckpt save [NAME]")
        return
    for row in table(shown, output.paint, output.width()):
        output.line(row)
    output.line()
    if any(each.foreign for each in shown):
        output.line("foreign ones were not made here; a rollback looks them over before")
    if len(shown) < len(found):
        output.line(f"{len(found) - len(shown)} older ones are not shown; -n 0 shows all")
    output.line("look at one:   git ckpt show ID")
    output.line("compare:       git ckpt diff ID")
    output.line("go back:       git ckpt rollback ID")


def parse_time(text: str | None, now: datetime | None = None) -> datetime | None:
    """A moment: how long ago, or a date with or without a time, local unless it says."""
    if text is None:
        return None
    from ckpt.settings.sources import DURATION

    try:
        ago = DURATION.read(text)
        if isinstance(ago, float):
            return (now or datetime.now(timezone.utc)) - timedelta(seconds=ago)
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return moment if moment.tzinfo is not None else moment.astimezone()
    except (ValueError, OverflowError):
        raise UsageError(
            f"'{text}' is not a time", hint="for example 90s, 15m, 36h, 7d, 4w or 2026-11-15T23:00"
        ) from None
