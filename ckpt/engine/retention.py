# SPDX-License-Identifier: MIT
"""Decide which checkpoints to keep, and why: (checkpoints, policy, now) → decisions.

Pure: no disk, no clock. A checkpoint is dropped unless a rule or a floor keeps it; its decision
lists all reasons. Caps then drop some kept by rules alone, but none saved by hand; the cap on the
number drops none younger than a day. Adding a rule never drops more, and deciding twice changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import NamedTuple

from ckpt.models import BY_HAND, Checkpoint, Kind
from ckpt.settings.settings import Policy, Rules, span

Group = Sequence[Checkpoint]
Kept = tuple[Checkpoint, str]
# Adds a checkpoint to the total, unless that would exceed the limit in bytes.
Fits = Callable[[Checkpoint, int | None], bool]

_A_DAY = timedelta(days=1)
# The clock skew that is allowed before a checkpoint counts as dated in the future.
_AHEAD = timedelta(minutes=1)


class Decision(NamedTuple):
    checkpoint: Checkpoint
    keep: bool
    reasons: tuple[str, ...]

    @property
    def action(self) -> str:
        return "keep" if self.keep else "drop"


def decide(
    checkpoints: Iterable[Checkpoint],
    policy: Policy,
    now: datetime,
    needed: Mapping[str, str] | None = None,
    fits: Fits | None = None,
) -> list[Decision]:
    """Return a decision for each checkpoint, newest first.

    `needed` are ids to keep, each with the reason. Without `fits` there is no cap on bytes.
    Foreign checkpoints are counted apart, and their bytes not at all, so that they do not displace
    local ones.
    """
    policy.check()
    ordered = sorted(checkpoints, key=lambda checkpoint: checkpoint.id, reverse=True)
    kept: dict[str, list[str]] = {checkpoint.id: [] for checkpoint in ordered}
    for group in _grouped(_up_to(now, ordered), _group):
        for checkpoint, reason in _kept(group, policy.rules(group[0].kind), now):
            kept[checkpoint.id].append(reason)
    fixed: set[str] = set()
    for checkpoint, reason in _floors(ordered, now, needed or {}):
        kept[checkpoint.id].append(reason)
        fixed.add(checkpoint.id)
    over = _over_the_number([c for c in ordered if kept[c.id]], fixed, policy, now)
    if policy.max_bytes is not None and fits is not None:
        stay = [c for c in ordered if kept[c.id] and c.id not in over and not c.foreign]
        over |= _over_the_size(stay, fixed, policy.max_bytes, fits)
    decided = []
    for c in ordered:
        reasons = kept[c.id] or [f"not kept by: {policy.rules(c.kind).words()}"]
        reasons = [over[c.id]] if c.id in over else reasons
        stays = bool(kept[c.id]) and c.id not in over
        decided.append(Decision(c, stays, tuple(dict.fromkeys(reasons))))
    return decided


def _up_to(now: datetime, ordered: Group) -> list[Checkpoint]:
    """Return the checkpoints not dated in the future, as those must not count as the newest."""
    return [checkpoint for checkpoint in ordered if checkpoint.timestamp <= now + _AHEAD]


def _group(checkpoint: Checkpoint) -> tuple[object, ...]:
    """Return the key of checkpoints counted together; state does not displace files."""
    session = checkpoint.session or "" if checkpoint.kind is Kind.AUTO else ""
    return checkpoint.worktree, checkpoint.foreign, checkpoint.scope, checkpoint.kind, session


def _grouped(ordered: Group, key: Callable[[Checkpoint], object]) -> Iterator[list[Checkpoint]]:
    """Yield the groups, each newest first."""
    groups: dict[object, list[Checkpoint]] = {}
    for checkpoint in ordered:
        groups.setdefault(key(checkpoint), []).append(checkpoint)
    yield from groups.values()


# Rules

_BUCKETS = (
    ("hourly", "%Y%m%d%H", "hour"),
    ("daily", "%Y%m%d", "day"),
    ("weekly", "%G%V", "week"),
    ("monthly", "%Y%m", "month"),
)


def _kept(group: Group, rules: Rules, now: datetime) -> list[Kept]:
    """Return the checkpoints that rules keep in a group, each with the reason."""
    kept = [(c, f"{c.kind}: until dropped by hand") for c in group if rules.forever]
    kept += [(c, f"last {rules.last}") for c in group[: rules.last]]
    for checkpoint in group:
        if rules.within and (now - checkpoint.timestamp).total_seconds() <= rules.within:
            kept.append((checkpoint, f"within {span(rules.within)}"))
    for rule, form, what in _BUCKETS:
        newest: dict[str, Checkpoint] = {}
        for checkpoint in group if getattr(rules, rule) else ():
            newest.setdefault(_moment(checkpoint).strftime(form), checkpoint)
        most = islice(newest.values(), getattr(rules, rule))
        kept += [(c, f"newest of its {what}") for c in most]
    if rules.first:
        kept += [(c, f"first {rules.first}") for c in group[-rules.first :]]
    if rules.latest_per_name:
        kept += _latest_per_name(group, {checkpoint.id for checkpoint, _ in kept})
    return kept


def _latest_per_name(group: Group, held: Collection[str]) -> Iterator[Kept]:
    """Yield the newest of each name among those that no other rule keeps."""
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


def _floors(ordered: Group, now: datetime, needed: Mapping[str, str]) -> Iterator[Kept]:
    present = _up_to(now, ordered)
    for group in _grouped(present, lambda c: (c.worktree, c.foreign, c.scope, c.kind)):
        yield group[0], f"newest of kind {group[0].kind}"
    for group in _grouped(present, lambda c: (c.worktree, c.foreign, c.session)):
        session, is_active = group[0].session, now - group[0].timestamp <= _A_DAY
        if session is not None and is_active:
            yield group[0], f"newest of session '{session}', active in the last day"
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
    """Return the checkpoints over the cap on the number, by id with the reason."""
    over: dict[str, str] = {}
    most = policy.max_checkpoints
    if most is None:
        return over
    for group in _grouped(kept, lambda c: (c.worktree, c.foreign)):
        counted = [c for c in group if c.kind not in BY_HAND and not c.pinned]
        free = [c for c in counted if c.id not in fixed and now - c.timestamp > _A_DAY]
        excess = len(counted) - most
        for checkpoint in [*_bursts(free), *reversed(free)]:
            if excess > 0 and checkpoint.id not in over:
                over[checkpoint.id] = f"more than {most} checkpoints"
                excess -= 1
    return over


def _bursts(free: Group) -> Iterator[Checkpoint]:
    """Yield all but the newest of each hour and kind, oldest first."""
    rest = []
    for group in _grouped(free, lambda c: (c.kind, _moment(c).strftime("%Y%m%d%H"))):
        rest += group[1:]
    yield from sorted(rest, key=lambda checkpoint: checkpoint.id)


def _over_the_size(kept: Group, fixed: Collection[str], most: int, fits: Fits) -> dict[str, str]:
    """Return the checkpoints that do not fit under the cap on bytes, tried from the newest."""
    free = [c for c in kept if c.id not in fixed and c.kind not in BY_HAND]
    for checkpoint in kept:
        if checkpoint not in free:
            fits(checkpoint, None)
    return {c.id: f"more than {most:,} bytes" for c in free if not fits(c, most)}
