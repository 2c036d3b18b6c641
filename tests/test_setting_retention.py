# SPDX-License-Identifier: MIT
"""Retention as it is set: in whatever place, by the same words; the repository's file only adds."""

from __future__ import annotations

import re

import pytest
from setting_texts import error_of, of_env, of_file, of_git

from ckpt.models import Kind
from ckpt.settings.settings import (
    DEFAULTS,
    Policy,
    Rules,
    Settings,
    from_ckpt_toml,
    from_pyproject,
    load,
)
from ckpt.settings.sources import (
    RETENTION_ROWS,
    RULES,
    Said,
    from_environ,
    from_flags,
    from_git_config,
)

DAY = 86400


@pytest.mark.parametrize("row", RETENTION_ROWS, ids=lambda row: row.key)
def test_the_three_spellings_of_a_key_are_the_same_word(row) -> None:
    assert re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), row.git) == "ckpt." + row.key
    assert row.env == "CKPT_" + row.key.upper().replace(".", "_")


def test_there_is_a_key_for_every_rule_and_cap() -> None:
    caps = {*Policy._fields} - {"kinds"}

    assert list(RULES) == list(Rules._fields)
    assert {f"retention.{cap}" for cap in caps} <= {row.key for row in RETENTION_ROWS}


def test_nothing_said_is_the_usual_policy() -> None:
    assert Settings().policy == Policy()
    assert Settings().prunes_by_itself
    assert of_file("[retention]\n").policy == Policy()


SAID = {
    "git config": lambda: of_git(
        ("retention.hook.last", "5"),
        ("retention.hook.within", "36h"),
        ("retention.auto.latestpername", "true"),
        ("retention.automatic", "no"),
        ("retention.maxcheckpoints", "100"),
        ("retention.maxbytes", "2GiB"),
    ),
    "environment": lambda: of_env(
        CKPT_RETENTION_HOOK_LAST="5",
        CKPT_RETENTION_HOOK_WITHIN="36h",
        CKPT_RETENTION_AUTO_LATEST_PER_NAME="1",
        CKPT_RETENTION_AUTOMATIC="no",
        CKPT_RETENTION_MAX_CHECKPOINTS="100",
        CKPT_RETENTION_MAX_BYTES="2GiB",
    ),
    "flag": lambda: load(
        [
            from_flags(
                {
                    "retention.hook.last": 5,
                    "retention.hook.within": "36h",
                    "retention.auto.latest_per_name": True,
                    "retention.automatic": False,
                    "retention.max_checkpoints": 100,
                    "retention.max_bytes": "2GiB",
                },
            )
        ]
    ),
}


@pytest.mark.parametrize("place", SAID)
def test_what_the_user_says_of_a_kind_replaces_its_rules_and_no_others(place: str) -> None:
    settings = SAID[place]()
    policy = settings.policy

    assert policy.rules(Kind.HOOK) == Rules(last=5, within=1.5 * DAY)
    assert policy.rules(Kind.AUTO) == Rules(latest_per_name=True)
    assert policy.rules(Kind.SAFETY) == DEFAULTS[Kind.SAFETY]
    assert (policy.max_checkpoints, policy.max_bytes) == (100, 2 * 2**30)
    assert not settings.prunes_by_itself
    assert settings.notes == ()


@pytest.mark.parametrize(
    "text",
    [
        "[retention.auto]\nlast = 9\ndaily = 7\n",
        "[retention]\nauto = {last = 9, daily = 7}\n",
        "retention.auto.last = 9\nretention.auto.daily = 7\n",
    ],
)
def test_the_file_may_be_written_in_any_way_of_toml(text: str) -> None:
    assert of_file(text).policy.rules(Kind.AUTO) == Rules(last=9, daily=7)
    in_project = text.replace("[retention", "[tool.ckpt.retention")
    if in_project != text:
        assert load([from_pyproject(in_project.encode())]) == of_file(text)


def test_what_the_file_says_is_added_to_the_usual_rules() -> None:
    policy = of_file('[retention]\nhook = {daily = 7}\nsession = {within = "6mo"}\n').policy

    assert policy.rules(Kind.HOOK) == Rules(last=50, within=7 * DAY, daily=7)
    assert policy.rules(Kind.SESSION) == Rules(last=3, within=180 * DAY)


def test_the_file_may_keep_everything_of_a_kind_and_lift_the_caps() -> None:
    settings = of_file(
        '[retention]\nauto = {forever = true}\nmax_checkpoints = "none"\nautomatic = false\n'
    )

    assert settings.policy.rules(Kind.AUTO).forever
    assert settings.policy.max_checkpoints is None
    assert not settings.prunes_by_itself


@pytest.mark.parametrize(
    "text",
    [
        "auto = {last = 4}",
        'hook = {within = "1d"}',
        "safety = {last = 0}",
        "manual = {forever = false}",
        "max_checkpoints = 499",
        'max_bytes = "1TiB"',
    ],
)
def test_the_file_cannot_shorten_anything(text: str) -> None:
    settings = of_file(f"[retention]\n{text}\n")

    assert [settings.policy.rules(kind) for kind in Kind] == [DEFAULTS[kind] for kind in Kind]
    assert (settings.policy.max_checkpoints, settings.policy.max_bytes) == (500, None)
    (told,) = settings.notes
    assert told.startswith("ckpt.toml: retention.")
    assert "only git config (ckpt.retention." in told


def test_what_the_user_says_wins_over_the_file() -> None:
    sources = [
        from_ckpt_toml(b"[retention]\nauto = {last = 400}\nmax_checkpoints = 1000\n"),
        from_git_config(
            [("retention.auto.last", "2", "/x"), ("retention.maxcheckpoints", "9", "")]
        ),
    ]

    assert load(sources).policy == Policy({**DEFAULTS, Kind.AUTO: Rules(last=2)}, 9)
    # Nor does a file that keeps more than the user's cap allows spoil his settings.
    assert load([sources[0], from_git_config([("retention.maxcheckpoints", "9", "")])]).policy == (
        Policy({**DEFAULTS, Kind.AUTO: Rules(last=400)}, 9)
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            from_git_config([("retention.hook.last", "0", "/x")]),
            "/x: ckpt.retention.hook.last: the rules for kind 'hook' keep nothing",
        ),
        (
            from_environ({"CKPT_RETENTION_MANUAL_FOREVER": "no"}),
            "CKPT_RETENTION_MANUAL_FOREVER: the rules for kind 'manual' keep nothing",
        ),
        (
            from_ckpt_toml(b"[retention]\nhook = 5\n"),
            "ckpt.toml: retention.hook: expected a table, got 5",
        ),
        (from_ckpt_toml(b"retention = 5\n"), "ckpt.toml: retention: expected a table, got 5"),
        (
            from_ckpt_toml(b"[retention.feature]\nlast = 3\n"),
            "ckpt.toml: retention.feature.last: checkpoints of kind 'feature' are kept until they"
            " are dropped by hand",
        ),
        (
            from_ckpt_toml(b'[retention.hook]\nlast = "five"\n'),
            'ckpt.toml: retention.hook.last: expected a number such as 5, got "five"',
        ),
        (
            from_git_config([("retention.hook.within", "soon", "/x")]),
            '/x: ckpt.retention.hook.within: expected a time such as "2s", "500ms" or "7d",'
            ' got "soon"',
        ),
        (
            from_git_config([("retention.hook.latestpername", "maybe", "/x")]),
            '/x: ckpt.retention.hook.latestPerName: expected true or false, got "maybe"',
        ),
        (
            from_ckpt_toml(b"[retention.hook.last]\nx = 1\n"),
            'ckpt.toml: retention.hook.last: expected a number such as 5, got {"x": 1}',
        ),
        (
            from_environ({"CKPT_RETENTION_HOOK_LAST": "five"}),
            'CKPT_RETENTION_HOOK_LAST: expected a number such as 5, got "five"',
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(source: list[Said], message: str) -> None:
    assert error_of(source).message == message


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("90s", 90), ("15m", 900), ("36h", 1.5 * DAY), ("7d", 7 * DAY), ("4w", 28 * DAY)],
        *[("6mo", 180 * DAY), ("1y", 365 * DAY)],
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert of_git(("retention.auto.within", text)).policy.rules(Kind.AUTO).within == seconds
