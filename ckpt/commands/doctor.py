# SPDX-License-Identifier: MIT
"""`git ckpt doctor`: try the triggers out, say what is wrong and how to fix it; or fix it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ckpt import documents
from ckpt.cli import Context
from ckpt.engine import status
from ckpt.engine.health import Flaw, find_flaws, find_unasked
from ckpt.engine.status import Status, TriggerStatus
from ckpt.errors import CkptError, DiskError
from ckpt.install import parts, trial
from ckpt.install.record import Target
from ckpt.install.trial import Trial
from ckpt.models import INSTALLED, REPLACED, Finding
from ckpt.render import Paint, columns, counted, printable
from ckpt.settings.settings import Settings

WELL, FIXED, DOUBTFUL, WRONG = "ok", "fixed", "warning", "problem"
FIX = "git ckpt doctor --fix"
_STYLES = {WRONG: "red", DOUBTFUL: "id", FIXED: "green", WELL: "green"}
_MARK = 9
_LABEL = "fix: "


class Diagnosis(NamedTuple):
    """`mend` is what to type or to do; None where nothing is wrong, or nothing helps. `done` is
    what `--fix` did about it, or why it could not."""

    subject: str
    state: str
    detail: str
    mend: str | None = None
    done: str | None = None


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fix",
        action="store_true",
        help="remove stale locks, unfinished files, broken refs of ours and a damaged cache",
    )


def run(context: Context, fix: bool) -> int:
    with context.quiet_manager() as manager:
        repo = manager.repository
        target = Target(repo, context.env, sys.executable)
        found = [*find_flaws(repo), *_left_over(target), *find_unasked(repo)]
        flaws = [_mended(each) if fix else flaw(each) for each in found]
        findings, unknown = _installed(target)
        stands = status.look(repo, findings)
        if any(each.subject == "journal" for each in found):  # which no rollback can go on with
            stands = stands._replace(rollback_interrupted=False)
        tried = trial.try_out(target, findings)
        has_triggers = context.store == "repo"  # in any other folder there is no git to call them
        by_name = {each.trigger: each for each in tried}
        settings = manager.forgiving_settings
        others = [
            *_repository(stands),
            *(one for each in stands.triggers for one in _trigger(each, by_name, settings)),
            *(_altogether(stands) if has_triggers and not unknown else ()),
        ]
        flawed = {each.subject for each in flaws if each.state != FIXED}
        flaws += map(flaw, unknown)
        diagnoses = [*flaws, *(o for o in others if o.state != WELL or o.subject not in flawed)]
        context.output.tell(diagnoses, documents.doctor, doctor)
    return 1 if any(one.state == WRONG for one in diagnoses) else 0


def _left_over(target: Target) -> list[Flaw]:
    """What an install that was killed has left, also where it stops git in every repository."""
    try:
        left = parts.left_over(target)
    except (CkptError, OSError):  # of which is told below
        left = []
    if not left:
        return []
    count = counted(len(left), "file")
    told = f"{count} of an 'install' or 'uninstall' that was killed: '{left[0]}'"

    def clear() -> str:
        parts.clear_left_over(target)
        return "removed"

    return [Flaw("leftovers", False, told, clear)]


def _installed(target: Target) -> tuple[list[Finding], list[Flaw]]:
    """What is installed, or why that cannot be told."""
    try:
        return parts.inspect(target), []
    except (CkptError, OSError) as error:
        found = error if isinstance(error, CkptError) else DiskError(error)
        told = f"cannot tell which are installed: {found.message}"
        return [], [Flaw("triggers", True, told, by_hand=found.hint)]


def _mended(found: Flaw) -> Diagnosis:
    """What became of a flaw; one that cannot be fixed does not stop the others."""
    try:
        if found.mend is not None:
            return Diagnosis(found.subject, FIXED, found.detail, done=found.mend())
    except (CkptError, OSError) as error:
        why = error if isinstance(error, CkptError) else DiskError(error)
        return flaw(found)._replace(mend=why.hint, done=f"could not be fixed: {why.message}")
    return flaw(found)


def doctor(diagnoses: Sequence[Diagnosis], paint: Paint, width: int) -> Iterator[str]:
    """A line each, and below it the command that fixes it; at last how many there are."""
    name = max((columns(one.subject) for one in diagnoses), default=0) + 2
    indent = " " * (_MARK + name)
    for state in (WRONG, DOUBTFUL, FIXED, WELL):
        for one in diagnoses:
            if one.state != state:
                continue
            mark = paint(_STYLES[state], state) + " " * (_MARK - len(state))
            yield (mark + one.subject.ljust(name) + printable(one.detail)).rstrip()
            if one.done is not None:
                yield indent + printable(one.done)
            for step in () if one.mend is None else printable(one.mend).split("; "):
                yield f"{indent}{_LABEL}{step}"
    yield ""
    yield _sum(diagnoses)


def _sum(diagnoses: Sequence[Diagnosis]) -> str:
    wrong, doubtful, fixed = (
        sum(one.state == state for one in diagnoses) for state in (WRONG, DOUBTFUL, FIXED)
    )
    mended = f", {fixed} fixed" if fixed else ""
    if not wrong and not doubtful:
        return "Nothing is wrong" + (f" any more{mended}." if fixed else ".")
    both = [(wrong, "problem"), (doubtful, "warning")]
    words = [counted(count, word) for count, word in both if count]
    return " and ".join(words) + mended


# -- what is wrong, and the command for it ---------------------------------------------


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
        by_env = trigger.off == "CKPT_DISABLE"
        turn_on = "unset CKPT_DISABLE" if by_env else f"git config --unset-all {trigger.off}"
        yield Diagnosis(name, DOUBTFUL, f"turned off by {trigger.off}", turn_on)
    if finding.mend is not None:
        yield Diagnosis(name, DOUBTFUL, finding.detail, finding.mend)
    if notes.is_failing and notes.failure is not None:
        yield Diagnosis(name, WRONG, f"failed when it last ran: {notes.failure.message}", None)
    budget, key, again = settings.hook_budget, "ckpt.hookBudget", f"--hooks {name}"
    if name in ("guard", "wrapper"):
        budget, key, again = settings.guard_budget, "ckpt.guardBudget", f"--{name}"
    if notes.success is not None and notes.success.seconds > budget:
        took = f"took {notes.success.seconds:.1f} s when it last ran, more than its {budget:g} s"
        yield Diagnosis(name, DOUBTFUL, took, f"git config {key} {4 * budget:g}s")
    trial = tried.get(name)
    if trial is not None:
        mend = None if trial.worked or not trial.is_renewable else f"git ckpt install {again}"
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
