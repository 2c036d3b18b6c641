# SPDX-License-Identifier: MIT
"""`git ckpt status`: show the checkpoints, the last runs of the triggers, and problems.

The exit code is 0 even if there are problems.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ckpt.cli import Context
from ckpt.engine.health import Status, TriggerStatus, look
from ckpt.errors import CkptError
from ckpt.install import parts
from ckpt.install.record import Target
from ckpt.models import FOREIGN, INSTALLED, MISSING, REPLACED
from ckpt.render import Paint, age, columns, counted, quoted, size

Row = tuple[str, str, str]  # label, style, text


def run(context: Context) -> None:
    context.output.tell(inspected(context), None, rows)


def inspected(context: Context) -> Status:
    repo, findings = context.manager.repository, []
    try:
        findings = parts.inspect(Target(repo, context.env, sys.executable))
    except (CkptError, OSError) as error:  # the rest can still be shown
        context.output.warning(f"cannot tell what is installed: {error}")
    return look(repo, findings)


def rows(found: Status, paint: Paint, width: int) -> Iterator[str]:
    """Format the status, with problems in red."""
    for block in ([*_state(found)], [*_triggers(found)]):
        indent = max(13, *(columns(label) + 2 for label, _, _ in block))
        for label, style, text in block:
            yield (label.ljust(indent) + (paint(style, text) if style else text)).rstrip()
    yield ""
    advice = [*_advice(found)]
    most = max(len(what) for what, _ in advice)
    yield from (f"{what + ':':<{most + 1}}   {command}" for what, command in advice)


def _state(found: Status) -> Iterator[Row]:
    linked = "" if found.worktree_id == "main" else f" ({found.worktree_id})"
    yield "Worktree", "", quoted(found.worktree) + linked
    commit = (found.head.commit_hash or "unborn")[:12]
    yield "HEAD", "", f"{commit}, {'on ' + found.head.branch if found.head.branch else 'detached'}"
    if found.operation is not None:
        yield "", "", f"a {found.operation} is in progress"
    if found.rollback_interrupted:
        yield "Rollback", "red", "interrupted"
    if found.rollback_running:
        yield "Rollback", "", "in progress"
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.kinds.items() if count)
    yield "Checkpoints", "", f"{found.here} here ({kinds})" if found.here else "none here"
    if found.newest is not None:
        yield "", "", f"newest {age(found.newest.timestamp.timestamp())}: {found.newest.id}"
    more = [(found.elsewhere, "in other worktrees"), (found.trash, "in the trash")]
    if found.elsewhere or found.trash:
        yield "", "", ", ".join(f"{count} {where}" for count, where in more if count)
    if found.unreadable:
        yield "", "red", f"{found.unreadable} cannot be read"
    if found.foreign_refs:
        yield "", "", f"{counted(found.foreign_refs, 'ref')} of other tools below refs/checkpoints/"
    if found.refs and found.held is None:
        yield "Space", "", "not measured: it takes too long here"
    elif found.refs and found.held is not None:
        trash = f", and {size(found.held.trash)} wait in the trash" if found.held.trash else ""
        yield "Space", "", f"{size(found.held.total)} that only checkpoints hold{trash}"
    yield "On disk", "", f"{counted(found.refs, 'ref')}, besides git's objects"
    for note in found.notes:
        yield "Settings", "red", note


def _triggers(found: Status) -> Iterator[Row]:
    known = [trigger for trigger in found.triggers if trigger.is_known]
    yield "Triggers", "", "" if known else "none is installed"
    for trigger in known:
        yield from _trigger(trigger)
    missing = [t.name for t in found.triggers if t.finding is not None and not t.is_known]
    if known and missing:
        yield "  others", "dim", "not installed: " + ", ".join(missing)
    for finding in found.others:
        if finding.state != INSTALLED:
            yield f"  {finding.trigger}", "red", finding.detail


def _trigger(trigger: TriggerStatus) -> Iterator[Row]:
    finding, success, failure = trigger.finding, trigger.notes.success, trigger.notes.failure
    facts, style = [], ""
    if finding is not None and finding.state != MISSING:  # otherwise the user may have added it
        facts.append("installed" if finding.state == INSTALLED else finding.detail)
        style = "red" if finding.state == REPLACED else ""
    if trigger.off is not None:
        facts.append(f"off ({trigger.off})")
    if success is not None:
        what = f"{success.outcome} {success.id}".strip()
        facts.append(f"last ran {age(success.at)}, {success.seconds:.2f} s: {what}")
    if facts:
        yield f"  {trigger.name}", style, "; ".join(facts)
    if failure is not None and trigger.notes.is_failing:
        times = "" if failure.times == 1 else f" {failure.times} times in a row"
        failed = f"failed{times}, last {age(failure.at)}: {failure.message}"
        yield "" if facts else f"  {trigger.name}", "red", failed


def _advice(found: Status) -> Iterator[tuple[str, str]]:
    if found.rollback_interrupted:
        yield "end the rollback", "git ckpt rollback --continue, or --abort"
    yield "take one", "git ckpt save [NAME]"
    states = {t.name: t.finding.state for t in found.triggers if t.finding is not None}
    yield from (("type git ckpt", other.mend) for other in found.others if other.mend)
    if REPLACED in states.values() or INSTALLED not in states.values():
        edit = " --edit-tracked" * (FOREIGN in states.values())
        yield "install triggers", f"git ckpt install{edit}"
    elif INSTALLED not in (states.get("guard", INSTALLED), states.get("wrapper")):
        yield "before checkouts too", "git ckpt install --guard"
    if REPLACED in states.values() or any(t.notes.is_failing for t in found.triggers):
        yield "what is wrong", "git ckpt doctor"
