# SPDX-License-Identifier: MIT
"""Which checkpoints stay, and why: every rule, every floor, the cap, and what always holds."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from byhand import draft
from engine.retention_tables import Holding
from hypothesis import given
from hypothesis import strategies as st

from ckpt import ids
from ckpt.engine.retention import Decision, decide
from ckpt.errors import UsageError
from ckpt.models import BY_HAND, Checkpoint, Kind, Scope
from ckpt.settings.settings import DEFAULTS, Policy, Rules

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=timezone.utc)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def at(age: timedelta, kind: Kind = Kind.HOOK, **more: Any) -> Checkpoint:
    """One that was taken so long ago."""
    moment = NOW - age
    return draft(id=ids.new_id(moment, None), timestamp=moment, kind=kind, **more)


def elsewhere(found: Checkpoint) -> Checkpoint:
    """One that was fetched."""
    return found._replace(id=found.id[:-4] + "zzzz", foreign=True)


def series(
    count: int, step: timedelta, start: timedelta = 30 * DAY, **more: Any
) -> list[Checkpoint]:
    """Newest first, the newest of them so old."""
    return [at(start + number * step, **more) for number in range(count)]


def only(kind: Kind = Kind.HOOK, **rules: Any) -> Policy:
    return Policy({**DEFAULTS, kind: Rules(**rules)}, max_checkpoints=None)


def kept(decisions: list[Decision]) -> list[str]:
    return [one.checkpoint.id for one in decisions if one.keep]


def positions(checkpoints: list[Checkpoint], policy: Policy) -> list[int]:
    """Which of a series stay, counted from the newest."""
    stay = set(kept(decide(checkpoints, policy, NOW)))
    return [number for number, found in enumerate(checkpoints) if found.id in stay]


@pytest.mark.parametrize(
    ("rules", "step", "stay"),
    [
        ({"last": 3}, HOUR, [0, 1, 2]),
        ({"first": 2}, HOUR, [0, 8, 9]),
        ({"within": (30 * DAY + 2 * HOUR).total_seconds()}, HOUR, [0, 1, 2]),
        ({"hourly": 4}, timedelta(minutes=30), [0, 1, 3, 5]),
        ({"daily": 3}, 12 * HOUR, [0, 2, 4]),
        ({"weekly": 2}, 4 * DAY, [0, 2]),
        ({"monthly": 2}, 10 * DAY, [0, 2]),
        ({"last": 1, "first": 1}, HOUR, [0, 9]),
        ({"last": 2, "daily": 2}, DAY, [0, 1]),
    ],
)
def test_each_rule_keeps_what_it_says(
    rules: dict[str, Any], step: timedelta, stay: list[int]
) -> None:
    """The newest stays in any case."""
    assert positions(series(10, step), only(**rules)) == stay


def test_the_newest_of_each_name_stays_if_that_is_a_rule() -> None:
    found = [at((30 + n) * DAY, name=name) for n, name in enumerate(["a", "b", "a", None, "b"])]

    assert positions(found, only(latest_per_name=True)) == [0, 1]


def test_all_reasons_are_told_and_what_goes_says_which_rules_there_were() -> None:
    found = series(4, HOUR)
    told = decide(found, only(last=2, daily=1), NOW)

    assert told[0].reasons == ("last 2", "newest of its day", "newest of kind hook")
    assert told[1].reasons == ("last 2",)
    assert (told[2].keep, told[2].reasons) == (False, ("not kept by: last 2, daily 1",))


@pytest.mark.parametrize(
    ("kind", "count"), [(Kind.AUTO, 5), (Kind.SESSION, 3), (Kind.HOOK, 50), (Kind.SAFETY, 20)]
)
def test_the_usual_rules_keep_so_many_of_each_kind(kind: Kind, count: int) -> None:
    found = series(count + 5, HOUR, kind=kind)

    assert positions(found, Policy()) == list(range(count))


@pytest.mark.parametrize("kind", [Kind.MANUAL, Kind.FEATURE])
def test_what_a_person_asked_for_stays_for_ever(kind: Kind) -> None:
    found = series(600, DAY, kind=kind)

    assert len(kept(decide(found, Policy(), NOW))) == 600


@pytest.mark.parametrize("kind", [Kind.HOOK, Kind.SAFETY])
def test_everything_of_the_last_week_stays(kind: Kind) -> None:
    found = series(100, HOUR, start=HOUR, kind=kind)

    assert len(kept(decide(found, Policy(), NOW))) == 100


def test_automatic_ones_are_counted_by_session_and_worktree() -> None:
    found = [
        checkpoint
        for session in ("one", "two")
        for worktree in ("main", "worktrees/w")
        for checkpoint in series(7, HOUR, kind=Kind.AUTO, session=session, worktree=worktree)
    ]

    assert len(kept(decide(found, Policy(), NOW))) == 4 * 5


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"pinned": True}, "pinned"),
        ({"kind": Kind.FEATURE}, "feature"),
    ],
)
def test_no_rule_crosses_what_is_fixed(more: dict[str, Any], reason: str) -> None:
    found = [*series(3, HOUR), at(300 * DAY)._replace(**more)]

    assert reason in decide(found, only(last=1), NOW)[-1].reasons


def test_what_a_rollback_needs_and_what_is_from_the_future_stays() -> None:
    old, ahead = at(300 * DAY), at(-DAY)
    told = decide(
        [*series(3, HOUR), old, ahead], only(last=1), NOW, needed={old.id: "needed by a rollback"}
    )

    assert told[-1].reasons == ("needed by a rollback",)
    assert told[0].reasons == ("dated in the future",)
    assert "newest of kind hook" in told[1].reasons  # a wrong clock does not make it the newest


def test_the_newest_of_a_session_of_today_stays() -> None:
    mine = [at(HOUR, Kind.AUTO, session="mine"), at(2 * HOUR, Kind.AUTO, session="mine")]
    newer = series(3, timedelta(minutes=1), start=timedelta(minutes=1), kind=Kind.AUTO)
    told = {one.checkpoint.id: one for one in decide(mine + newer, only(Kind.AUTO, first=1), NOW)}

    assert "newest of session 'mine', active in the last day" in told[mine[0].id].reasons


def test_the_cap_thins_bursts_before_it_touches_what_is_old() -> None:
    burst = series(10, timedelta(minutes=1), start=10 * DAY + timedelta(minutes=5))
    old = series(5, 10 * DAY, start=100 * DAY)
    policy = only(last=50)._replace(max_checkpoints=7)

    stay = kept(decide(burst + old, policy, NOW))
    assert stay[0] == burst[0].id
    assert [found.id for found in old] == stay[-5:]
    assert len(stay) == 7


def test_the_cap_never_takes_what_is_younger_than_a_day() -> None:
    found = series(20, timedelta(minutes=10), start=HOUR)
    policy = only(last=50)._replace(max_checkpoints=5)

    assert len(kept(decide(found, policy, NOW))) == 20


def test_a_policy_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="keep nothing"):
        decide([], Policy({Kind.HOOK: Rules()}), NOW)
    with pytest.raises(UsageError, match="at least 1"):
        decide([], Policy(max_checkpoints=0), NOW)


rules = st.builds(
    Rules,
    last=st.integers(0, 5),
    within=st.sampled_from([0, 3600, 86400, 30 * 86400]),
    hourly=st.integers(0, 3),
    daily=st.integers(0, 3),
    weekly=st.integers(0, 2),
    monthly=st.integers(0, 2),
    first=st.integers(0, 2),
    latest_per_name=st.booleans(),
)
some_rules = rules.filter(lambda found: found != Rules())


@st.composite
def checkpoints(draw: st.DrawFn) -> list[Checkpoint]:
    """Some of everything, in the order of their ids; the clock may have gone back in between."""
    hours = draw(st.lists(st.integers(-5, 2000), max_size=25))
    if draw(st.booleans()):
        hours.sort(reverse=True)
    found = []
    for number, age in enumerate(hours):
        moment = NOW - timedelta(hours=age, minutes=number)
        found.append(
            draft(
                id=f"{NOW:%Y%m%d}-{number:06d}-000-0000",
                timestamp=moment,
                kind=draw(st.sampled_from(Kind)),
                session=draw(st.sampled_from([None, "s", "t"])),
                name=draw(st.sampled_from([None, "a", "b"])),
                pinned=draw(st.sampled_from([False, False, True])),
                worktree=draw(st.sampled_from(["main", "main", "worktrees/w"])),
                scope=draw(st.sampled_from([Scope.FULL, Scope.FULL, Scope.STATE])),
            )
        )
    return found


caps = st.tuples(st.sampled_from([None, 1, 5, 20]), st.sampled_from([None, 1, 10**6, 5 * 10**6]))


@given(checkpoints(), some_rules, caps, st.data())
def test_what_always_holds(
    found: list[Checkpoint], some: Rules, cap: tuple[int | None, int | None], data: st.DataObject
) -> None:
    policy = Policy(dict.fromkeys(Kind, some), *cap)
    needed = {c.id: "needed" for c in found if data.draw(st.integers(0, 9)) == 0}
    told = decide(found, policy, NOW, needed, Holding(found).add)
    stay = set(kept(told))

    assert [one.checkpoint.id for one in told] == sorted((c.id for c in found), reverse=True)
    assert all(one.reasons for one in told)
    left = [c for c in found if c.id in stay]
    again = decide(left, policy, NOW, needed, Holding(found).add)
    assert set(kept(again)) == stay
    assert floors(found) | set(needed) <= stay


def floors(found: list[Checkpoint]) -> set[str]:
    """What neither a rule nor a cap may take."""
    fixed = {c.id for c in found if c.pinned or c.kind is Kind.FEATURE or c.timestamp > NOW + HOUR}
    present = [c for c in found if c.timestamp <= NOW]
    groups = {(c.worktree, c.kind, c.scope) for c in present}
    for group in groups:
        fixed.add(max(c.id for c in present if (c.worktree, c.kind, c.scope) == group))
    for session in {(c.worktree, c.session) for c in present if c.session is not None}:
        of_it = [c for c in present if (c.worktree, c.session) == session]
        newest = max(of_it, key=lambda c: c.id)
        fixed |= {newest.id} if NOW - newest.timestamp <= DAY else set()
    return fixed


@given(checkpoints(), st.sampled_from([1, 5, 20]))
def test_the_number_is_kept_to_as_far_as_floors_and_the_last_day_allow(
    found: list[Checkpoint], most: int
) -> None:
    policy = Policy(dict.fromkeys(Kind, Rules(last=1000)), most)
    stay = [c for c in found if c.id in set(kept(decide(found, policy, NOW)))]

    for worktree in {c.worktree for c in stay}:
        here = [c for c in stay if c.worktree == worktree]
        counted = [c for c in here if c.kind not in BY_HAND and not c.pinned]
        free = [c for c in counted if c.id not in floors(found) and NOW - c.timestamp > DAY]
        assert len(counted) <= most or not free
    assert {c.id for c in found if NOW - c.timestamp <= DAY} <= {c.id for c in stay}


@given(checkpoints(), some_rules, rules)
def test_another_rule_never_drops_more(found: list[Checkpoint], some: Rules, more: Rules) -> None:
    fields = Rules._fields
    both = Rules(**{name: max(getattr(some, name), getattr(more, name)) for name in fields})
    less, all_of_it = (
        set(kept(decide(found, Policy(dict.fromkeys(Kind, one), None), NOW)))
        for one in (some, both)
    )

    assert less <= all_of_it


@given(checkpoints(), checkpoints(), some_rules, st.sampled_from([None, 1, 5]))
def test_what_comes_from_elsewhere_pushes_nothing_out(
    own: list[Checkpoint], others: list[Checkpoint], some: Rules, cap: int | None
) -> None:
    """And is itself kept by the same rules."""
    policy = Policy(dict.fromkeys(Kind, some), cap)
    fetched = [elsewhere(c) for c in others]
    alone = [kept(decide(party, policy, NOW)) for party in (own, fetched)]

    together = kept(decide([*own, *fetched], policy, NOW))
    assert sorted(together) == sorted(alone[0] + alone[1])


@given(checkpoints(), checkpoints(), some_rules, st.sampled_from([1, 1_000_000, 4_000_000]))
def test_nor_does_it_by_its_size(
    own: list[Checkpoint], others: list[Checkpoint], some: Rules, most: int
) -> None:
    policy = Policy(dict.fromkeys(Kind, some), max_bytes=most)
    fetched = [elsewhere(c) for c in others]
    alone = kept(decide(own, policy, NOW, fits=Holding(own).add))

    everyone = [*own, *fetched]
    together = kept(decide(everyone, policy, NOW, fits=Holding(everyone).add))
    assert [one for one in together if not one.endswith("zzzz")] == alone


def test_nor_does_it_where_all_of_it_stays() -> None:
    own = series(6, HOUR, kind=Kind.HOOK)
    fetched = [elsewhere(c)._replace(kind=Kind.MANUAL) for c in own]
    everyone, policy = [*own, *fetched], Policy(max_bytes=len(own) * 1_600_000)

    decided = decide(everyone, policy, NOW, fits=Holding(everyone).add)
    assert [one.checkpoint.id for one in decided if not one.keep] == []


# What the systems before us keep


def test_a_the_last_five_automatic_ones_the_last_three_sessions_the_rest_until_deleted() -> None:
    found = [
        checkpoint
        for kind in (Kind.AUTO, Kind.MANUAL, Kind.FEATURE, Kind.SESSION)
        for checkpoint in series(9, DAY, kind=kind)
    ]
    stay = [one.checkpoint.kind for one in decide(found, Policy(), NOW) if one.keep]

    assert {kind: stay.count(kind) for kind in stay} == {
        Kind.AUTO: 5,
        Kind.MANUAL: 9,
        Kind.FEATURE: 9,
        Kind.SESSION: 3,
    }


def test_b_the_first_the_last_twenty_and_the_newest_of_each_name_between() -> None:
    rules = Rules(first=1, last=20, latest_per_name=True)
    policy = Policy({Kind.AUTO: rules}, max_checkpoints=100)
    found = [
        at((51 - number) * DAY, Kind.AUTO, session="one", name=f"n{number % 4}")
        for number in range(51)
    ]

    stay = set(kept(decide(found, policy, NOW)))
    numbers = [number for number, one in enumerate(found) if one.id in stay]
    assert numbers == [0, 27, 28, 29, 30, *range(31, 51)]
