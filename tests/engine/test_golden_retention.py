# SPDX-License-Identifier: MIT
"""Many policies on one series of checkpoints: what stays, what goes and why, as the tables say.

The tables were not simply believed: below, SPEC's sentences are followed once more, by counting
instead of by grouping and sorting, and the two must agree on every checkpoint.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from engine.retention_tables import (
    FOLDER,
    GONE,
    NEEDED,
    NOW,
    POLICIES,
    SERIES,
    SIDE,
    Holding,
    decided,
    path_of,
    table,
)

from ckpt.models import Checkpoint, Kind, Scope
from ckpt.settings.settings import Policy, Rules

each_policy = pytest.mark.parametrize("name", POLICIES)
A_DAY = timedelta(days=1)
PRESENT = [c for c in SERIES if c.timestamp <= NOW]  # the others stay, and count as nothing


@each_policy
def test_what_becomes_of_each_checkpoint_is_what_the_table_says(name: str) -> None:
    assert path_of(name).read_text(encoding="utf-8") == table(name)


def test_there_is_a_table_for_each_policy_and_no_other() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {path_of(name).name for name in POLICIES}
    assert len(POLICIES) >= 30


def test_the_series_has_something_of_everything() -> None:
    assert {c.kind for c in SERIES} == set(Kind)
    assert {c.worktree for c in SERIES} == {"main", SIDE, GONE}
    assert {c.scope for c in SERIES} == set(Scope)
    assert len({c.session for c in SERIES}) > 4
    assert sum(c.pinned for c in SERIES) == 2
    assert any(c.timestamp > NOW for c in SERIES)
    ages = sorted((NOW - c.timestamp) / A_DAY for c in SERIES if c.worktree == "main")
    assert not [age for age in ages if 2.5 < age < 5]  # but for what is not taken by a hook
    assert len({c.id for c in SERIES}) == len(SERIES)


# The same by counting


@each_policy
def test_counting_comes_to_the_same(name: str) -> None:
    stay = {one.checkpoint.id for one in decided(POLICIES[name]) if one.keep}

    assert sorted(stay) == sorted(by_counting(POLICIES[name]))


def by_counting(policy: Policy) -> set[str]:
    """The ids that stay."""
    stay = {c.id for c in SERIES if is_fixed(c) or is_kept(c, policy.rules(c.kind))}
    if policy.max_checkpoints is not None:
        for worktree in ("main", SIDE, GONE):
            cut_number(stay, worktree, policy.max_checkpoints)
    if policy.max_bytes is not None:
        cut_bytes(stay, policy.max_bytes)
    return stay


def peers(one: Checkpoint) -> list[Checkpoint]:
    """Those that are counted with it, itself included, in no order that matters."""
    return [
        c
        for c in PRESENT
        if (c.worktree, c.kind, c.scope) == (one.worktree, one.kind, one.scope)
        and (c.kind is not Kind.AUTO or c.session == one.session)
    ]


def is_kept(one: Checkpoint, rules: Rules) -> bool:
    if by_other_rules(one, rules):
        return True
    others = [c for c in peers(one) if c.name == one.name and not by_other_rules(c, rules)]
    return rules.latest_per_name and one.name is not None and newest(one, others)


def by_other_rules(one: Checkpoint, rules: Rules) -> bool:
    mine = peers(one)
    return (
        rules.forever
        or sum(c.id > one.id for c in mine) < rules.last
        or sum(c.id < one.id for c in mine) < rules.first
        or (rules.within > 0 and (NOW - one.timestamp) <= timedelta(seconds=rules.within))
        or any(
            newest(one, [c for c in mine if form(c) == form(one)])
            and len({form(c) for c in mine if c.id > one.id} - {form(one)}) < count
            for form, count in (
                (hour, rules.hourly),
                (day, rules.daily),
                (week, rules.weekly),
                (month, rules.monthly),
            )
        )
    )


def newest(one: Checkpoint, among: list[Checkpoint]) -> bool:
    return one.id == max(c.id for c in among)


def hour(one: Checkpoint) -> str:
    return one.timestamp.isoformat()[:13]


def day(one: Checkpoint) -> str:
    return one.timestamp.isoformat()[:10]


def week(one: Checkpoint) -> tuple[int, int]:
    return one.timestamp.isocalendar()[:2]


def month(one: Checkpoint) -> str:
    return one.timestamp.isoformat()[:7]


def is_fixed(one: Checkpoint) -> bool:
    """The floors."""
    if one.pinned or one.kind is Kind.FEATURE or one.id in NEEDED or one not in PRESENT:
        return True
    alike = [
        c for c in PRESENT if (c.worktree, c.kind, c.scope) == (one.worktree, one.kind, one.scope)
    ]
    session = [c for c in PRESENT if (c.worktree, c.session) == (one.worktree, one.session)]
    is_active = one.session is not None and any(NOW - c.timestamp <= A_DAY for c in session)
    return newest(one, alike) or (is_active and newest(one, session))


def cut_number(stay: set[str], worktree: str, most: int) -> None:
    """One after the other, until there are few enough or nothing that may go."""
    while True:
        counted = [
            c
            for c in SERIES
            if c.id in stay
            and c.worktree == worktree
            and c.kind not in (Kind.MANUAL, Kind.FEATURE)
            and not c.pinned
        ]
        free = [c for c in counted if not is_fixed(c) and NOW - c.timestamp > A_DAY]
        if len(counted) <= most or not free:
            return
        crowded = [
            c
            for c in free
            if not newest(c, [d for d in free if (d.kind, hour(d)) == (c.kind, hour(c))])
        ]
        stay.remove(min(c.id for c in crowded or free))


def cut_bytes(stay: set[str], most: int) -> None:
    """Newest first, what does not fit beside what must stay and what is newer."""
    holding = Holding(SERIES)
    found = [c for c in SERIES if c.id in stay]
    free = [c for c in found if not is_fixed(c) and c.kind not in (Kind.MANUAL, Kind.FEATURE)]
    for one in found:
        if one not in free:
            holding.add(one, None)
    stay -= {one.id for one in free if not holding.add(one, most)}
