# SPDX-License-Identifier: MIT
"""What is wrong with a worktree's checkpoints and triggers, and the command that mends it.

Pure: from how things stand (`engine.status`) and how the triggers did when they were tried
out (`install.trial`) to one line each. A trigger that nobody installed is not wrong; one
that was taken out by another tool is, also if nobody noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ckpt.engine.health import Flaw
from ckpt.engine.status import Status, TriggerStatus
from ckpt.install.trial import Trial
from ckpt.models import INSTALLED, REPLACED
from ckpt.settings.settings import Settings

WELL, FIXED, DOUBTFUL, WRONG = "ok", "fixed", "warning", "problem"
FIX = "git ckpt doctor --fix"
_WITH_GUARD_BUDGET = ("guard", "wrapper")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`mend` is what to type or to do; None where nothing is wrong, or nothing helps. `done` is
    what `--fix` did about it, or why it could not."""

    subject: str
    state: str
    detail: str
    mend: str | None = None
    done: str | None = None


def diagnose(
    found: Status, trials: Sequence[Trial], settings: Settings, *, knows_all: bool = True
) -> list[Diagnosis]:
    """Everything that was looked at, what is well too; `knows_all` if what is not among the
    triggers is not installed."""
    tried = {trial.trigger: trial for trial in trials}
    return [
        *_repository(found),
        *(one for trigger in found.triggers for one in _trigger(trigger, tried, settings)),
        *(_altogether(found) if knows_all else ()),
    ]


def flaw(found: Flaw) -> Diagnosis:
    """A flaw that is as it was found."""
    state = WRONG if found.is_wrong else DOUBTFUL
    return Diagnosis(found.subject, state, found.detail, FIX if found.mend else found.by_hand)


def _repository(found: Status) -> Iterator[Diagnosis]:
    if found.rollback_interrupted:
        told = "one was interrupted, and is neither finished nor taken back"
        yield Diagnosis(
            "rollback", WRONG, told, found.ways_out[0] if found.ways_out else "git ckpt doctor"
        )
    if found.rollback_running is not None:
        told = f"one is at work ({found.rollback_running})"
        yield Diagnosis("rollback", DOUBTFUL, told, "wait for it to end")
    if found.unreadable:
        count = f"{found.unreadable} of {found.refs} refs name no checkpoint that can be read"
        yield Diagnosis("checkpoints", WRONG, count, "git ckpt verify --all")
    else:
        told = f"{found.here} here, all can be read" if found.here else "there are none here yet"
        yield Diagnosis("checkpoints", WELL, told)
    for note in found.notes:
        yield Diagnosis("settings", DOUBTFUL, note, "correct the file, or the variable")
    for other in found.others:
        if other.state != INSTALLED:
            yield Diagnosis(other.trigger, DOUBTFUL, other.detail, other.mend)


def _trigger(
    trigger: TriggerStatus, tried: Mapping[str, Trial], settings: Settings
) -> Iterator[Diagnosis]:
    name, finding, notes = trigger.name, trigger.finding, trigger.notes
    if finding is not None and finding.state == REPLACED:
        yield Diagnosis(name, WRONG, finding.detail, finding.mend)
    if finding is None or finding.state != INSTALLED:
        return
    if trigger.off is not None:
        yield Diagnosis(name, DOUBTFUL, f"turned off by {trigger.off}", _turn_on(trigger.off))
    if finding.mend is not None:
        yield Diagnosis(name, DOUBTFUL, finding.detail, finding.mend)
    if notes.is_failing and notes.failure is not None:
        yield Diagnosis(name, WRONG, f"failed when it last ran: {notes.failure.message}", None)
    budget, key = settings.hook_budget, "ckpt.hookBudget"
    if name in _WITH_GUARD_BUDGET:
        budget, key = settings.guard_budget, "ckpt.guardBudget"
    if notes.success is not None and notes.success.seconds > budget:
        took = f"took {notes.success.seconds:.1f} s when it last ran, more than its {budget:g} s"
        yield Diagnosis(name, DOUBTFUL, took, f"git config {key} {4 * budget:g}s")
    trial = tried.get(name)
    if trial is not None:
        mend = None if trial.worked or not trial.is_renewable else _again(name)
        state = DOUBTFUL if trial.worked is None else WELL if trial.worked else WRONG
        yield Diagnosis(name, state, trial.detail, mend)
    elif finding.mend is None:
        yield Diagnosis(name, WELL, finding.detail)


def _altogether(found: Status) -> Iterator[Diagnosis]:
    states = {t.name: t.finding.state for t in found.triggers if t.finding is not None}
    there = {name for name, state in states.items() if state in (INSTALLED, REPLACED)}
    if not there:
        told = "none is installed: nothing is saved unless you do it"
        yield Diagnosis("triggers", DOUBTFUL, told, "git ckpt install --guard")
    elif not there & {"guard", "wrapper"}:
        told = "not installed: what a checkout or reset overwrites is not saved before"
        yield Diagnosis("guard", DOUBTFUL, told, "git ckpt install --guard")


def _turn_on(off: str) -> str:
    return "unset CKPT_DISABLE" if off == "CKPT_DISABLE" else f"git config --unset-all {off}"


def _again(trigger: str) -> str:
    if trigger in _WITH_GUARD_BUDGET:
        return f"git ckpt install --{trigger}"
    return f"git ckpt install --hooks {trigger}"
