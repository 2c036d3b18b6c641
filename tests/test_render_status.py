# SPDX-License-Identifier: MIT
"""The answer of `status` as text: aligned, whole on a narrow terminal, and nothing but text."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from byhand import ID, MOMENT, draft

from ckpt.commands.status import rows
from ckpt.engine.space import Held
from ckpt.engine.status import Footprint, Status, TriggerStatus
from ckpt.git.trigger_log import Failure, Success, TriggerNotes
from ckpt.models import Finding, GitState, Kind

NOW = MOMENT + timedelta(hours=2)
HOUR_AGO = NOW.timestamp() - 3600
DONE = Success(HOUR_AGO, 0.084, "created", ID)
FULL = Failure(HOUR_AGO + 60, 3, "'.git/objects': No space left on device")


def trigger(name: str, state: str | None = None, off: str | None = None, **notes: Any) -> Any:
    finding = None if state is None else Finding(name, state, "the detail", "git ckpt mend")
    return TriggerStatus(name, finding, off, TriggerNotes(**notes))


STATUS = Status(
    worktree="/home/ann/project",
    worktree_id="main",
    git_dir="/home/ann/project/.git",
    head=GitState("a" * 40, "main"),
    operation=None,
    rollback_interrupted=False,
    kinds=dict.fromkeys(Kind, 0) | {Kind.HOOK: 2},
    newest=draft(),
    oldest=draft(id="20261101-000000-000-0000", timestamp=MOMENT - timedelta(days=14)),
    elsewhere=0,
    unreadable=0,
    trash=0,
    refs=2,
    foreign_refs=0,
    footprint=Footprint(3, 1536),
    held=Held(3 << 20, 0),
    piled_up=False,
    notes=(),
    triggers=(
        trigger("pre-commit", "installed", success=DONE),
        trigger("post-checkout", "installed"),
        trigger("pre-push", "missing"),
        trigger("guard"),
    ),
    others=(),
)


def plain(style: str, text: str) -> str:
    return text


def marked(style: str, text: str) -> str:
    return f"<{style}:{text}>"


def shown(width: int = 200, paint: Any = plain, **changes: Any) -> list[str]:
    found = replace(STATUS, **changes)
    return [*rows(found, paint, width, NOW)]


def test_everything_stands_in_its_column() -> None:
    assert shown() == [
        "Worktree     /home/ann/project",
        "HEAD         aaaaaaaaaaaa, on main",
        "Checkpoints  2 here (2 hook)",
        f"             newest 2 hours ago: {ID}",
        "             oldest 2 weeks ago: 20261101-000000-000-0000",
        "Space        3.0 MiB that only checkpoints hold",
        "On disk      2 refs and 1.5 KiB of private files, besides git's objects",
        "Triggers",
        f"  pre-commit     installed; last ran 1 hour ago, 0.08 s: created {ID}",
        "  post-checkout  installed",
        "  others         not installed: pre-push",
        "",
        "look at them:   git ckpt list",
        "take one:       git ckpt save [NAME]",
    ]


def test_a_failing_trigger_is_red_and_one_that_works_again_is_not() -> None:
    works = Success(FULL.at + 60, 0.1, "unchanged", ID)
    (failing,) = (
        line
        for line in shown(paint=marked, triggers=(trigger("guard", success=DONE, failure=FULL),))
        if "failed" in line
    )
    (past,) = (
        line
        for line in shown(paint=marked, triggers=(trigger("guard", success=works, failure=FULL),))
        if "failed" in line
    )

    words = f"failed 3 times in a row, last 59 minutes ago: {FULL.message}"
    assert failing.strip() == f"<red:{words}>"
    assert past.strip() == f"<dim:before that, {words}>"


def test_a_trigger_that_install_knows_nothing_of_is_told_by_what_it_did() -> None:
    ran = trigger("pre-commit", "missing", success=DONE)
    failed = trigger("guard", failure=replace(FULL, count=1))

    assert shown(triggers=(ran, failed))[7:10] == [
        "Triggers",
        f"  pre-commit  last ran 1 hour ago, 0.08 s: created {ID}",
        f"  guard       failed, last 59 minutes ago: {FULL.message}",
    ]


def test_ids_are_painted_as_in_lists() -> None:
    assert f"             newest 2 hours ago: <id:{ID}>" in shown(paint=marked)


def test_what_is_off_says_what_turned_it_off() -> None:
    some = (trigger("guard", "installed", "ckpt.disable"), trigger("pre-push", "installed"))
    both = tuple(trigger(name, "installed", "CKPT_DISABLE") for name in ("guard", "pre-push"))

    assert "  guard      installed; off (ckpt.disable)" in shown(triggers=some)
    assert "Triggers     all are off (CKPT_DISABLE)" in shown(triggers=both)
    assert "  guard      installed" in shown(triggers=both)


def test_the_last_lines_are_what_to_type_next() -> None:
    def advice(**changes: Any) -> list[str]:
        lines = shown(**changes)
        return [line.partition(":")[2].strip() for line in lines[lines.index("") + 1 :]]

    nothing = {"kinds": {}, "newest": None, "oldest": None, "triggers": ()}
    missing = Finding("git ckpt", "missing", "not on PATH", "/bin/python3 -I -m ckpt install")
    well = {"triggers": (trigger("guard", "installed", success=DONE),)}
    ill = {"triggers": (trigger("guard", "installed", failure=FULL),)}
    assert advice(**nothing) == ["git ckpt save [NAME]", "git ckpt install"]
    assert advice(**well) == ["git ckpt list", "git ckpt save [NAME]"]
    assert advice(**ill)[-1] == "git ckpt doctor"
    assert advice(**well, rollback_interrupted=True)[0].startswith("git ckpt rollback --continue")
    assert advice(others=(missing,))[-1] == "/bin/python3 -I -m ckpt install"

    def last(**states: str) -> str:
        return advice(triggers=tuple(trigger(name, state) for name, state in states.items()))[-1]

    assert last(hook="missing", guard="missing") == "git ckpt install"
    assert last(hook="replaced", guard="installed") == "git ckpt doctor"
    assert last(hook="foreign", guard="missing") == "git ckpt install --edit-tracked"
    assert last(hook="installed", guard="missing") == "git ckpt install --guard"
    for settled in ({"guard": "installed"}, {"guard": "missing", "wrapper": "installed"}):
        assert last(hook="installed", **settled) == "git ckpt save [NAME]"


def test_nothing_is_printed_that_a_terminal_would_obey() -> None:
    evil = "\x1b[2J\x07\udce9"
    lines = shown(
        worktree=f"/tmp/{evil}",
        notes=(evil,),
        triggers=(trigger("guard", failure=Failure(HOUR_AGO, 1, evil)),),
    )

    assert all(line.isprintable() for line in lines)
    assert "Settings     \\x1b[2J\\x07\\xe9" in lines


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (5 * 2**20, "5.0 MiB"),
        (2**41, "2048.0 GiB"),
    ],
)
def test_sizes_are_told_in_a_fitting_unit(size: int, text: str) -> None:
    assert f" and {text} of private files" in "\n".join(shown(footprint=Footprint(1, size)))


def test_space_tells_what_waits_in_the_trash() -> None:
    held = "Space        1.0 KiB that only checkpoints hold, and 2.0 KiB wait in the trash"

    assert held in shown(held=Held(1024, 2048))
    assert "Space        not measured: it takes too long here" in shown(held=None)
    assert "take less room:   git ckpt gc" in shown(piled_up=True)
    assert not [line for line in shown(refs=0) if line.startswith("Space")]
