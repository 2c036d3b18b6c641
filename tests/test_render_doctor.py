# SPDX-License-Identifier: MIT
"""How `git ckpt doctor` says what it found."""

from __future__ import annotations

from ckpt.commands.doctor import doctor
from ckpt.engine.health import DOUBTFUL, FIXED, WELL, WRONG, Diagnosis


def told(*diagnoses: Diagnosis) -> list[str]:
    return [*doctor(diagnoses, lambda _, text: text, 80)]


def test_what_is_wrong_comes_first_and_what_mends_it_below() -> None:
    well = Diagnosis("refs", WELL, "all can be read")
    wrong = Diagnosis("guard", WRONG, "it was taken out", "git ckpt install --guard")

    assert told(well, wrong) == [
        "problem  guard  it was taken out",
        "                fix: git ckpt install --guard",
        "ok       refs   all can be read",
        "",
        "1 problem",
    ]


def test_what_was_fixed_is_counted_apart() -> None:
    fixed = Diagnosis("locks", FIXED, "2 locks", done="taken away")
    left = Diagnosis("push", DOUBTFUL, "a mirror", "git config x y")

    assert told(fixed)[-1] == "1 fixed"
    assert told(fixed, left)[-1] == "1 warning, 1 fixed"
    assert told()[-1] == "Nothing is wrong."
