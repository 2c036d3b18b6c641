# SPDX-License-Identifier: MIT
"""One series of checkpoints, many policies, and what becomes of each, as tables to read.

The tables lie in tests/engine/golden_retention/, one a policy. After a change that is meant,
write them anew, and read what `git diff` says of them:

    python tests/engine/retention_tables.py
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from byhand import draft

from ckpt.engine.retention import Decision, decide
from ckpt.models import Checkpoint, Kind, Scope
from ckpt.settings.settings import Policy, Rules

FOLDER = Path(__file__).parent / "golden_retention"
NOW = datetime(2026, 11, 16, 12, 0, tzinfo=timezone.utc)  # a Monday
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
RULED = (Kind.AUTO, Kind.SESSION, Kind.HOOK, Kind.SAFETY)
SIDE, GONE = "worktrees/side", "worktrees/gone"


# The series


def at(age: timedelta, kind: Kind, **more: Any) -> Checkpoint:
    moment = NOW - age
    return draft(timestamp=moment, kind=kind, **more)


def burst(age: timedelta, count: int, **more: Any) -> Iterator[Checkpoint]:
    """So many within an hour, ten minutes apart, the newest so old."""
    yield from (at(age + number * 10 * MINUTE, Kind.HOOK, **more) for number in range(count))


def session(age: timedelta, name: str, count: int, **more: Any) -> Iterator[Checkpoint]:
    """One `session` and then so many `auto`, an hour apart, with three names in turn."""
    for number in range(count):
        turn = ("plan", "edit", "test")[number % 3]
        yield at(age + number * HOUR, Kind.AUTO, session=name, name=turn, **more)
    yield at(age + count * HOUR, Kind.SESSION, session=name, **more)


def _all() -> Iterator[Checkpoint]:
    # Bursts of hooks; from 8 to 3 days ago, nothing.
    yield from burst(3 * HOUR + 5 * MINUTE, 4)
    yield from burst(27 * HOUR + 5 * MINUTE, 4)
    yield from burst(2 * DAY + 5 * MINUTE, 3, name="rebase")
    yield from burst(9 * DAY + 65 * MINUTE, 4)
    yield from burst(9 * DAY + 5 * HOUR + 5 * MINUTE, 3, name="merge")
    yield from burst(40 * DAY, 2)
    yield at(75 * DAY, Kind.HOOK, name="rebase", pinned=True)
    yield at(400 * DAY, Kind.HOOK)
    yield at(-2 * DAY, Kind.HOOK, name="tomorrow")  # a clock was wrong
    # Agents: one at work, one of the day before, one long ago, one in another worktree.
    yield from session(2 * HOUR, "now", 7)
    yield from session(30 * HOUR, "yesterday", 7)
    yield from session(20 * DAY, "old", 7)
    yield from session(12 * DAY, "side", 4, worktree=SIDE)
    yield at(21 * DAY, Kind.AUTO, session="old", name="plan", pinned=True)
    yield from (
        at(50 * MINUTE + number * MINUTE, Kind.AUTO, session="now", scope=Scope.STATE)
        for number in range(3)
    )
    # By hand.
    yield at(1 * DAY + HOUR, Kind.MANUAL, name="before")
    yield at(33 * DAY, Kind.MANUAL, name="before")
    yield at(90 * DAY, Kind.MANUAL)
    yield at(5 * DAY, Kind.FEATURE, name="login")
    yield at(300 * DAY, Kind.FEATURE, name="start")
    # Rollbacks, here and there.
    yield from (at(age * DAY + HOUR, Kind.SAFETY) for age in (1, 6, 8, 9, 25, 60))
    yield at(10 * DAY, Kind.SAFETY, worktree=SIDE)
    yield from burst(4 * DAY, 2, worktree=SIDE)
    # A worktree that is not there any more.
    yield from burst(100 * DAY, 3, worktree=GONE)
    yield at(101 * DAY, Kind.SAFETY, worktree=GONE)


def _with_ids(checkpoints: list[Checkpoint]) -> list[Checkpoint]:
    """Newest first; the last part of an id is its number in the series."""
    ordered = sorted(checkpoints, key=lambda c: c.timestamp, reverse=True)
    return [
        found._replace(id=f"{found.timestamp:%Y%m%d-%H%M%S}-000-{number:04d}")
        for number, found in enumerate(ordered)
    ]


SERIES = _with_ids(list(_all()))
NEEDED = {
    next(c.id for c in reversed(SERIES) if c.kind is Kind.SAFETY and c.worktree == "main"): (
        "needed by a rollback"
    ),
    next(c.id for c in reversed(SERIES) if c.session == "old" and not c.pinned): (
        "belongs to a checkpoint of the repository around it"
    ),
}


class Holding:
    """What each holds: 100 kB of its own, ten times that for every seventh; and what each hour's
    have in common, another 500 kB."""

    def __init__(self, checkpoints: list[Checkpoint]) -> None:
        self._own = {c.id: 1_000_000 if n % 7 == 0 else 100_000 for n, c in enumerate(checkpoints)}
        self._hours: set[str] = set()
        self.total = 0

    def add(self, found: Checkpoint, limit: int | None) -> bool:
        size = self._own[found.id] + 500_000 * (found.id[:11] not in self._hours)
        if limit is not None and self.total + size > limit:
            return False
        self._hours.add(found.id[:11])
        self.total += size
        return True


# The policies


def ruled(max_checkpoints: int | None = None, max_bytes: int | None = None, **rules: Any) -> Policy:
    """The same rules for every kind that the usual ones let go."""
    return Policy(dict.fromkeys(RULED, Rules(**rules)), max_checkpoints, max_bytes)


def capped(max_checkpoints: int | None = None, max_bytes: int | None = None) -> Policy:
    return Policy(max_checkpoints=max_checkpoints, max_bytes=max_bytes)


def seconds(span: timedelta) -> float:
    return span.total_seconds()


COUNTS = {
    "last": (1, 2, 5, 1000),
    "first": (1, 3),
    "hourly": (1, 3, 24),
    "daily": (1, 3, 7),
    "weekly": (1, 4),
    "monthly": (1, 12),
}
SPANS = {"36h": 36 * HOUR, "7d": 7 * DAY, "30d": 30 * DAY, "1y": 365 * DAY}

POLICIES = {
    "usual": Policy(),
    **{f"{rule}-{n}": ruled(**{rule: n}) for rule, counts in COUNTS.items() for n in counts},
    **{f"within-{text}": ruled(within=seconds(span)) for text, span in SPANS.items()},
    "latest-per-name": ruled(latest_per_name=True),
    "last-2-first-1": ruled(last=2, first=1),
    "last-2-latest-per-name": ruled(last=2, latest_per_name=True),
    "grandfathers": ruled(hourly=6, daily=4, weekly=3, monthly=6),
    "within-2d-daily-10-first-1": ruled(within=seconds(2 * DAY), daily=10, first=1),
    "system-b": ruled(first=1, last=20, latest_per_name=True, max_checkpoints=100),
    "hooks-alone": Policy({Kind.HOOK: Rules(last=1)}),
    "manual-too": Policy({Kind.MANUAL: Rules(last=1), Kind.HOOK: Rules(monthly=2)}),
    "autos-for-ever": Policy({Kind.AUTO: Rules(forever=True)}),
    "at-most-1": capped(1),
    "at-most-12": capped(12),
    "at-most-20": capped(20),
    "at-most-30-of-all": ruled(30, last=1000),
    "at-most-5-within-30d": ruled(5, within=seconds(30 * DAY)),
    "at-most-20MB": capped(max_bytes=20_000_000),
    "at-most-40MB-of-all": ruled(max_bytes=40_000_000, last=1000),
    "at-most-1-byte": capped(max_bytes=1),
    "at-most-20-and-20MB": ruled(20, 20_000_000, last=1000),
}


def decided(policy: Policy) -> list[Decision]:
    return decide(SERIES, policy, NOW, NEEDED, Holding(SERIES).add)


# The tables


def table(name: str) -> str:
    policy = POLICIES[name]
    head = [f"# {name}: what becomes of each checkpoint at {NOW:%Y-%m-%d %H:%M} UTC, and why."]
    for kind in RULED if len(policy.kinds) == len(Kind) else policy.kinds:
        rules = policy.rules(kind)
        head.append(f"#   {kind:<8} {'for ever' if rules.forever else rules.words()}")
    for cap in ("max_checkpoints", "max_bytes"):
        most = getattr(policy, cap)
        head += [] if most is None else [f"#   {cap} {most}"]
    told = decided(policy)
    count = sum(one.keep for one in told)
    return "\n".join([*head, f"# {count} of {len(told)} stay.", "", *map(_line, told), ""])


def _line(one: Decision) -> str:
    found = one.checkpoint
    place = "" if found.worktree == "main" else found.worktree.removeprefix("worktrees/") + "/"
    scope = "state " if found.scope is Scope.STATE else ""
    words = [scope + found.kind, found.session, found.name and f"'{found.name}'"]
    what = place + " ".join(filter(None, words))
    action = "keep" if one.keep else "drop"
    return f"{action}  {found.id}  {what:<28}  {'; '.join(one.reasons)}"


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.txt"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for name in POLICIES:
        path_of(name).write_text(table(name), encoding="utf-8")


if __name__ == "__main__":
    main()
