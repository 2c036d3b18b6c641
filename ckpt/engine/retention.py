# SPDX-License-Identifier: MIT
"""Which checkpoints to keep, and why: (checkpoints, policy, now) → decisions.

Pure: no disk, no clock. Rules keep, and what no rule keeps goes; a checkpoint that several
keep has all their reasons. Floors come on top, which nothing crosses. A cap is a second pass
over what is left, and never takes what is a floor or younger than a day. Adding a rule can
only keep more, and deciding twice changes nothing.
"""

from __future__ import annotations

from datetime import timedelta, timezone
from itertools import groupby

from ckpt.errors import UsageError
from ckpt.models import Kind
from ckpt.values import field, value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ckpt.models import Checkpoint

    Group = Sequence[Checkpoint]

_A_DAY = timedelta(days=1)
# As much as a clock may be ahead of another before its checkpoints count as from the future.
_AHEAD = timedelta(minutes=1)


@value_class
class Rules:
    """What to keep of a group. `within` is in seconds; of hours, days, weeks and months that
    have a checkpoint, the newest of each of the last so many."""

    forever: bool = False
    last: int = 0
    within: float = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    first: int = 0
    per_name: bool = False

    @property
    def are_empty(self) -> bool:
        return self == Rules()

    def words(self) -> str:
        """What they keep, for whoever asks why something was not."""
        counted = [f"{name} {getattr(self, name)}" for name in _COUNTED if getattr(self, name)]
        told = [f"within {_span(self.within)}"] if self.within else []
        return ", ".join(counted + told + (["newest of each name"] if self.per_name else []))


_COUNTED = ("last", "hourly", "daily", "weekly", "monthly", "first")
_WEEK = 7 * 86400
DEFAULTS: Mapping[Kind, Rules] = {
    Kind.MANUAL: Rules(forever=True),
    Kind.FEATURE: Rules(forever=True),
    Kind.AUTO: Rules(last=5),
    Kind.SESSION: Rules(last=3),
    Kind.HOOK: Rules(last=50, within=_WEEK),
    Kind.SAFETY: Rules(last=20, within=_WEEK),
}
# Not counted by the cap.
_BY_HAND = (Kind.MANUAL, Kind.FEATURE)


@value_class
class Policy:
    """Rules for each kind, and how many checkpoints a worktree may have (None: any number)."""

    kinds: Mapping[Kind, Rules] = field(default_factory=lambda: DEFAULTS)
    max_checkpoints: int | None = 500

    def check(self) -> None:
        """Refuse what would drop everything, most likely by mistake."""
        for kind, rules in self.kinds.items():
            if rules.are_empty:
                raise UsageError(
                    f"the policy for kind '{kind}' keeps nothing",
                    hint="name at least one rule, such as --keep-last 5",
                )
        if self.max_checkpoints is not None and self.max_checkpoints < 1:
            raise UsageError("max_checkpoints must be at least 1", hint="leave it out for no limit")


@value_class
class Decision:
    checkpoint: Checkpoint
    keep: bool
    reasons: tuple[str, ...]


def decide(
    checkpoints: Iterable[Checkpoint],
    policy: Policy,
    now: datetime,
    needed: Collection[str] = (),
) -> list[Decision]:
    """What becomes of each, newest first. `needed` are ids that rollbacks rely on."""
    policy.check()
    ordered = sorted(checkpoints, key=lambda checkpoint: checkpoint.id, reverse=True)
    kept: dict[str, list[str]] = {checkpoint.id: [] for checkpoint in ordered}
    for group in _grouped(ordered, _group):
        rules = policy.kinds.get(group[0].kind, DEFAULTS[group[0].kind])
        for checkpoint, reason in _kept(group, rules, now):
            kept[checkpoint.id].append(reason)
    floors = list(_floors(ordered, now, needed))
    for checkpoint, reason in floors:
        kept[checkpoint.id].append(reason)
    fixed = {checkpoint.id for checkpoint, _ in floors}
    over = _over_the_cap([c for c in ordered if kept[c.id]], fixed, policy, now)
    return [_decided(c, kept[c.id], over.get(c.id), policy) for c in ordered]


def _decided(
    checkpoint: Checkpoint, reasons: list[str], over: str | None, policy: Policy
) -> Decision:
    if over is not None:
        return Decision(checkpoint, False, (over,))
    if reasons:
        return Decision(checkpoint, True, tuple(dict.fromkeys(reasons)))
    rules = policy.kinds.get(checkpoint.kind, DEFAULTS[checkpoint.kind])
    return Decision(checkpoint, False, (f"no longer in: {rules.words()}",))


def _group(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Those that the same rules count together."""
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
            yield checkpoint, f"within {_span(rules.within)}"


def _per_name(group: Group, rules: Rules, _: datetime) -> Iterator[tuple[Checkpoint, str]]:
    seen: set[str] = set()
    for checkpoint in group if rules.per_name else ():
        if checkpoint.name is not None and checkpoint.name not in seen:
            seen.add(checkpoint.name)
            yield checkpoint, f"newest named '{checkpoint.name}'"


def _bucketed(group: Group, rules: Rules, _: datetime) -> Iterator[tuple[Checkpoint, str]]:
    for name, form, what in _BUCKETS:
        newest = _newest_of_each(group, form)[: getattr(rules, name)]
        yield from ((checkpoint, f"newest of its {what}") for checkpoint in newest)


def _newest_of_each(group: Group, form: str) -> list[Checkpoint]:
    """Of checkpoints whose times look the same in a form, the newest."""
    buckets = groupby(group, lambda checkpoint: _moment(checkpoint).strftime(form))
    return [next(members) for _, members in buckets]


_BUCKETS = (
    ("hourly", "%Y%m%d%H", "hour"),
    ("daily", "%Y%m%d", "day"),
    ("weekly", "%G%V", "week"),
    ("monthly", "%Y%m", "month"),
)
_RULES = (_forever, _last, _within, _bucketed, _first, _per_name)


def _kept(group: Group, rules: Rules, now: datetime) -> Iterator[tuple[Checkpoint, str]]:
    for rule in _RULES:
        yield from rule(group, rules, now)


def _moment(checkpoint: Checkpoint) -> datetime:
    return checkpoint.timestamp.astimezone(timezone.utc)


# Floors


def _floors(
    ordered: Group, now: datetime, needed: Collection[str]
) -> Iterator[tuple[Checkpoint, str]]:
    for group in _grouped(ordered, lambda c: (c.worktree, c.scope, c.kind)):
        yield group[0], f"newest of kind {group[0].kind}"
    for group in _grouped(ordered, lambda c: (c.worktree, c.session)):
        session, newest = group[0].session, max(c.timestamp for c in group)
        if session is not None and now - newest <= _A_DAY:
            yield group[0], f"newest of session '{session}', active in the last day"
    for checkpoint in ordered:
        if checkpoint.pinned:
            yield checkpoint, "pinned"
        if checkpoint.kind is Kind.FEATURE:
            yield checkpoint, "feature"
        if checkpoint.timestamp > now + _AHEAD:
            yield checkpoint, "dated in the future"
        if checkpoint.id in needed:
            yield checkpoint, "needed by a rollback"


# The cap


def _over_the_cap(
    kept: Group, fixed: Collection[str], policy: Policy, now: datetime
) -> dict[str, str]:
    """What goes although rules keep it, by id."""
    over: dict[str, str] = {}
    most = policy.max_checkpoints
    for group in _grouped(kept, lambda c: c.worktree) if most is not None else ():
        counted = [c for c in group if c.kind not in _BY_HAND and not c.pinned]
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


def _span(seconds: float) -> str:
    for name, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g}{name}"
    return f"{seconds:g}s"
