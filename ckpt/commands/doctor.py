# SPDX-License-Identifier: MIT
"""`git ckpt doctor`: report problems and the commands that fix them, or fix them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from ckpt import documents
from ckpt.cli import Context
from ckpt.commands.status import inspected
from ckpt.engine.health import (
    DOUBTFUL,
    FIXED,
    WELL,
    WRONG,
    Diagnosis,
    Status,
    TriggerStatus,
    find_flaws,
)
from ckpt.models import INSTALLED, REPLACED
from ckpt.render import Paint, counted

_STYLES = {WRONG: "red", DOUBTFUL: "id", FIXED: "green", WELL: "green"}
_MARK = 9


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fix",
        action="store_true",
        help="remove stale locks, unfinished files and broken refs of ours",
    )


def run(context: Context, fix: bool = False) -> int:
    diagnoses = find_flaws(context.manager.repository, fix=fix)
    found = inspected(context)
    diagnoses += _checkpoints(found)
    for trigger in found.triggers:
        diagnoses += _trigger(trigger)
    context.output.tell(diagnoses, lambda all: documents.document(diagnoses=all), doctor)
    return 1 if any(one.state == WRONG for one in diagnoses) else 0


def doctor(diagnoses: Sequence[Diagnosis], paint: Paint, width: int) -> Iterator[str]:
    """Print each diagnosis with the command that fixes it, then the totals."""
    name = max((len(one.subject) for one in diagnoses), default=0) + 2
    indent = " " * (_MARK + name)
    order = [*_STYLES]
    for one in sorted(diagnoses, key=lambda one: order.index(one.state)):
        mark = paint(_STYLES[one.state], one.state) + " " * (_MARK - len(one.state))
        yield (mark + one.subject.ljust(name) + one.detail).rstrip()
        if one.done is not None:
            yield indent + one.done
        for step in () if one.mend is None else one.mend.split("; "):
            yield f"{indent}fix: {step}"
    yield ""
    states = [one.state for one in diagnoses]
    counts = ((states.count(WRONG), "problem"), (states.count(DOUBTFUL), "warning"))
    told = [counted(count, word) for count, word in counts if count]
    told += [f"{states.count(FIXED)} fixed"] if FIXED in states else []
    yield ", ".join(told) or "Nothing is wrong."


def _checkpoints(found: Status) -> Iterator[Diagnosis]:
    if found.unreadable:
        told = f"{found.unreadable} of {found.refs} refs name no checkpoint that can be read"
        yield Diagnosis("checkpoints", WRONG, told, "git ckpt verify --all")
    else:
        yield Diagnosis("checkpoints", WELL, f"{found.here} here, all can be read")
    for note in found.notes:
        yield Diagnosis("settings", DOUBTFUL, note, "correct the file, or the variable")
    for other in found.others:
        if other.state != INSTALLED:
            yield Diagnosis(other.trigger, DOUBTFUL, other.detail, other.mend)


def _trigger(trigger: TriggerStatus) -> Iterator[Diagnosis]:
    name, finding, failure = trigger.name, trigger.finding, trigger.notes.failure
    if finding is not None and finding.state == REPLACED:
        yield Diagnosis(name, WRONG, finding.detail, finding.mend)
    elif finding is not None and finding.state == INSTALLED:
        if failure is not None and trigger.notes.is_failing:
            yield Diagnosis(name, WRONG, f"failed when it last ran: {failure.message}")
        yield Diagnosis(name, DOUBTFUL if finding.mend else WELL, finding.detail, finding.mend)
