# SPDX-License-Identifier: MIT
"""Which checkpoints to keep, and why: (checkpoints, policy, now) → decisions.

Pure: no disk, no clock. Rules keep, and what no rule keeps goes; a checkpoint that several
keep has all their reasons. Floors come on top, which nothing crosses. Caps are a second pass
over what is left, and never take what is a floor or was saved by hand; the one on the number
takes nothing that is younger than a day. Adding a rule can only keep more, and deciding twice
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ckpt.models import BY_HAND, Checkpoint, Kind
from ckpt.settings.policy import Policy, Rules, size, span

if TYPE_CHECKING:
    Group = Sequence[Checkpoint]

    class Left(Protocol):
        """What checkpoints hold, while one after the other is let go; see `space`."""

        @property
        def total(self) -> int: ...
        def drop(self, name: str, /) -> int: ...
        def size(self, name: str, /) -> int: ...


_A_DAY = timedelta(days=1)
# As much as a clock may be ahead of another before its checkpoints count as from the future.
_AHEAD = timedelta(minutes=1)


class Decision(NamedTuple):
    checkpoint: Checkpoint
    keep: bool
    reasons: tuple[str, ...]


def decide(
    checkpoints: Iterable[Checkpoint],
    policy: Policy,
    now: datetime,
    needed: Mapping[str, str] | None = None,
    left: Left | None = None,
    foreign: Collection[str] = (),
) -> list[Decision]:
    """What becomes of each, newest first.

    `needed` are ids that must stay, each with the reason. `left` knows what the checkpoints hold,
    and loses what is let go; without it there is no cap on bytes. Those whose ids are `foreign`,
    because they came from elsewhere, are counted apart: they cannot push out our own.
    """
    policy.check()
    ordered = sorted(checkpoints, key=lambda checkpoint: checkpoint.id, reverse=True)
    kept: dict[str, list[str]] = {checkpoint.id: [] for checkpoint in ordered}
    fixed: set[str] = set()
    over: dict[str, str] = {}
    for party in _grouped(ordered, lambda checkpoint: checkpoint.id in foreign):
        for group in _grouped(_up_to(now, party), _group):
            for checkpoint, reason in _kept(group, policy.rules(group[0].kind), now):
                kept[checkpoint.id].append(reason)
        for checkpoint, reason in _floors(party, now, needed or {}):
            kept[checkpoint.id].append(reason)
            fixed.add(checkpoint.id)
        over |= _over_the_number([c for c in party if kept[c.id]], fixed, policy, now)
    if policy.max_bytes is not None and left is not None:
        stay = [c for c in ordered if kept[c.id] and c.id not in over]
        gone = {c.id for c in ordered} - {c.id for c in stay}
        over |= _over_the_size(stay, gone, fixed, policy.max_bytes, now, left, foreign)
    return [_decided(c, kept[c.id], over.get(c.id), policy) for c in ordered]


def _decided(
    checkpoint: Checkpoint, reasons: list[str], over: str | None, policy: Policy
) -> Decision:
    if over is not None:
        return Decision(checkpoint, False, (over,))
    if reasons:
        return Decision(checkpoint, True, tuple(dict.fromkeys(reasons)))
    rules = policy.rules(checkpoint.kind)
    return Decision(checkpoint, False, (f"no longer in: {rules.words()}",))


def _up_to(now: datetime, ordered: Group) -> list[Checkpoint]:
    """Without what is dated in the future: that stays, and must not pass for the newest."""
    return [checkpoint for checkpoint in ordered if checkpoint.timestamp <= now + _AHEAD]


def _group(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Those that the same rules count together. Those of state alone do not push out files."""
    session = checkpoint.session or "" if checkpoint.kind is Kind.AUTO else ""
    return checkpoint.worktree, checkpoint.scope.value, checkpoint.kind.value, session


def _grouped(ordered: Group, key: Callable[[Checkpoint], object]) -> Iterator[list[Checkpoint]]:
    """The groups, each newest first."""
    groups: dict[object, list[Checkpoint]] = {}
    for checkpoint in ordered:
        groups.setdefault(key(checkpoint), []).append(checkpoint)
    yield from groups.values()


# Rules: each yields what it keeps of a group that is newest first.


def _forever(group: Group, rules: Rules, _: datetime) -> Iterator[tuple[Checkpoint, str]]:
    if rules.forever:
        yield from (
            (checkpoint, f"{checkpoint.kind}: until dropped by hand") for checkpoint in group
        )


def _last(group: Group, rules: Rules, _: datetime) -> Iterator[tuple[Checkpoint, str]]:
    yield from ((checkpoint, f"last {rules.last}") for checkpoint in group[: rules.last])


def _first(group: Group, rules: Rules, _: datetime) -> Iterator[tuple[Checkpoint, str]]:
    oldest = group[-rules.first :] if rules.first else ()
    yield from ((checkpoint, f"first {rules.first}") for checkpoint in oldest)


def _within(group: Group, rules: Rules, now: datetime) -> Iterator[tuple[Checkpoint, str]]:
    for checkpoint in group:
        if rules.within and (now - checkpoint.timestamp).total_seconds() <= rules.within:
            yield checkpoint, f"within {span(rules.within)}"


def _bucketed(group: Group, rules: Rules, _: datetime) -> Iterator[tuple[Checkpoint, str]]:
    for name, form, what in _BUCKETS:
        count: int = getattr(rules, name)
        newest = _newest_of_each(group, form)[:count] if count else ()
        yield from ((checkpoint, f"newest of its {what}") for checkpoint in newest)


def _newest_of_each(group: Group, form: str) -> list[Checkpoint]:
    """Of checkpoints whose times look the same in a form, the newest."""
    newest: dict[str, Checkpoint] = {}
    for checkpoint in group:
        newest.setdefault(_moment(checkpoint).strftime(form), checkpoint)
    return [*newest.values()]


_BUCKETS = (
    ("hourly", "%Y%m%d%H", "hour"),
    ("daily", "%Y%m%d", "day"),
    ("weekly", "%G%V", "week"),
    ("monthly", "%Y%m", "month"),
)
_RULES = (_forever, _last, _within, _bucketed, _first)


def _kept(group: Group, rules: Rules, now: datetime) -> Iterator[tuple[Checkpoint, str]]:
    held = [found for rule in _RULES for found in rule(group, rules, now)]
    yield from held
    if rules.latest_per_name:
        yield from _latest_per_name(group, {checkpoint.id for checkpoint, _ in held})


def _latest_per_name(group: Group, held: Collection[str]) -> Iterator[tuple[Checkpoint, str]]:
    """Of those that no other rule keeps, so that a name is not lost among the last ten of it."""
    names = {checkpoint.name for checkpoint in group if checkpoint.id in held}
    seen: set[str | None] = {None}
    for checkpoint in group:
        if checkpoint.id not in held and checkpoint.name not in seen:
            seen.add(checkpoint.name)
            which = "of the others " if checkpoint.name in names else ""
            yield checkpoint, f"newest {which}named '{checkpoint.name}'"


def _moment(checkpoint: Checkpoint) -> datetime:
    return checkpoint.timestamp.astimezone(timezone.utc)


# Floors


def _floors(
    ordered: Group, now: datetime, needed: Mapping[str, str]
) -> Iterator[tuple[Checkpoint, str]]:
    present = _up_to(now, ordered)
    for group in _grouped(present, lambda c: (c.worktree, c.scope, c.kind)):
        yield group[0], f"newest of kind {group[0].kind}"
    for group in _grouped(present, lambda c: (c.worktree, c.session)):
        session, last = group[0].session, max(group, key=lambda c: c.timestamp)
        if session is not None and now - last.timestamp <= _A_DAY:
            # Two, if a clock went back; without the other the session would pass for an old one.
            for checkpoint in dict.fromkeys((group[0], last)):
                yield checkpoint, f"newest of session '{session}', active in the last day"
    for checkpoint in ordered:
        if checkpoint.pinned:
            yield checkpoint, "pinned"
        if checkpoint.kind is Kind.FEATURE:
            yield checkpoint, "feature"
        if checkpoint.timestamp > now + _AHEAD:
            yield checkpoint, "dated in the future"
        if checkpoint.id in needed:
            yield checkpoint, needed[checkpoint.id]


# Caps


def _over_the_number(
    kept: Group, fixed: Collection[str], policy: Policy, now: datetime
) -> dict[str, str]:
    """What goes although rules keep it, by id."""
    over: dict[str, str] = {}
    most = policy.max_checkpoints
    for group in _grouped(kept, lambda c: c.worktree) if most is not None else ():
        counted = [c for c in group if c.kind not in BY_HAND and not c.pinned]
        free = [c for c in counted if c.id not in fixed and now - c.timestamp > _A_DAY]
        excess = len(counted) - (most or 0)
        for checkpoint in [*_bursts(free), *reversed(free)]:
            if excess > 0 and checkpoint.id not in over:
                over[checkpoint.id] = f"more than {most} checkpoints"
                excess -= 1
    return over


def _bursts(free: Group) -> Iterator[Checkpoint]:
    """All but the newest of each hour and kind, oldest first."""
    rest = []
    for group in _grouped(free, lambda c: (c.kind, _moment(c).strftime("%Y%m%d%H"))):
        rest += group[1:]
    yield from sorted(rest, key=lambda checkpoint: checkpoint.id)


def _over_the_size(
    kept: Group,
    gone: Collection[str],
    fixed: Collection[str],
    most: int,
    now: datetime,
    left: Left,
    foreign: Collection[str],
) -> dict[str, str]:
    """What goes because all together hold too much: of others first, and what stays of those is
    not counted beside our own."""
    for checkpoint_id in gone:
        left.drop(checkpoint_id)
    free = [c for c in kept if c.id not in fixed and c.kind not in BY_HAND]
    over = _until_within(most, [c for c in free if c.id in foreign], now, left)
    for checkpoint_id in {c.id for c in kept if c.id in foreign} - over.keys():
        left.drop(checkpoint_id)
    return over | _until_within(most, [c for c in free if c.id not in foreign], now, left)


def _until_within(most: int, free: Group, now: datetime, left: Left) -> dict[str, str]:
    """First what alone holds most for its age, then the oldest, as what several hold goes with
    the last of them."""
    worth = {c.id: left.size(c.id) * (now - c.timestamp).total_seconds() for c in free}
    over: dict[str, str] = {}
    for checkpoint in sorted(free, key=lambda c: (-worth[c.id], c.id)):
        if left.total <= most:
            break
        left.drop(checkpoint.id)
        over[checkpoint.id] = f"more than {size(most)}"
    return over
