# SPDX-License-Identifier: MIT
"""`git ckpt status`: what there is, what the triggers did last, and what is wrong.

Whatever it finds, it has done what was asked: the exit code is 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from datetime import datetime, timezone

from ckpt import documents
from ckpt.cli import Context
from ckpt.engine import status
from ckpt.engine.status import Status, TriggerStatus
from ckpt.errors import CkptError
from ckpt.git.repository import Repository
from ckpt.ids import is_id
from ckpt.install import parts
from ckpt.install.record import Target
from ckpt.models import Finding
from ckpt.render import Paint, age, columns, counted, printable, quoted, size

Row = tuple[str, str, str]  # label, style, text

_LABEL = 13


def arguments(parser: argparse.ArgumentParser) -> None:
    """Takes none of its own."""


def run(context: Context) -> int:
    with context.quiet_manager() as manager:
        repo = manager.repository
        found = status.look(repo, _installed(context, repo))
        context.output.tell(found, documents.status, rows)
    return 0


def _installed(context: Context, repo: Repository) -> list[Finding]:
    """What is installed; a part that cannot tell does not stop the others."""
    try:
        return parts.inspect(Target(repo, context.env, sys.executable))
    except (CkptError, OSError) as error:
        context.output.warning(f"cannot tell what is installed: {error}")
        return []


def rows(found: Status, paint: Paint, width: int, now: datetime | None = None) -> Iterator[str]:
    """One screen, what is wrong in red; ages count from `now`."""

    def painted(style: str, line: str) -> str:
        if style:
            return paint(style, line)
        return " ".join(paint("id", word) if is_id(word) else word for word in line.split(" "))

    for block in ([*_state(found, now)], [*_triggers(found, now)]):
        indent = max(_LABEL, *(columns(label) + 2 for label, _, _ in block))
        for label, style, text in block:
            yield (label.ljust(indent) + painted(style, printable(text))).rstrip()
    yield ""
    advice = [*_advice(found)]
    most = max(len(what) for what, _ in advice)
    yield from (f"{what + ':':<{most + 1}}   {command}" for what, command in advice)


def _state(found: Status, now: datetime | None) -> Iterator[Row]:
    linked = "" if found.worktree_id == "main" else f" ({found.worktree_id})"
    yield "Worktree", "", quoted(found.worktree) + linked
    commit = (found.head.commit_hash or "unborn")[:12]
    yield "HEAD", "", f"{commit}, {'on ' + found.head.branch if found.head.branch else 'detached'}"
    if found.operation is not None:
        yield "", "", f"a {found.operation} is in progress"
    if found.rollback_interrupted:
        yield "Rollback", "red", "interrupted"
    if found.rollback_running is not None:
        yield "Rollback", "", f"one is at work here ({found.rollback_running})"
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.kinds.items() if count)
    yield "Checkpoints", "", f"{found.here} here ({kinds})" if found.here else "none here"
    if found.newest is not None and found.oldest is not None:
        yield "", "", f"newest {age(found.newest.timestamp, now)}: {found.newest.id}"
        if found.oldest.id != found.newest.id:
            yield "", "", f"oldest {age(found.oldest.timestamp, now)}: {found.oldest.id}"
    more = [(found.elsewhere, "in other worktrees"), (found.trash, "in the trash")]
    if any(count for count, _ in more):
        yield "", "", ", ".join(f"{count} {where}" for count, where in more if count)
    if found.unreadable:
        yield "", "red", f"{found.unreadable} cannot be read"
    if found.foreign_refs:
        yield "", "", f"{counted(found.foreign_refs, 'ref')} of other tools below refs/checkpoints/"
    if found.refs:
        yield "Space", "", _space(found)
    refs = counted(found.refs, "ref")
    private = size(found.footprint.size)
    yield "On disk", "", f"{refs} and {private} of private files, besides git's objects"
    for note in found.notes:
        yield "Settings", "red", note


def _space(found: Status) -> str:
    held = found.held
    if held is None:
        return "not measured: it takes too long here"
    trash = f", and {size(held.trash)} wait in the trash" if held.trash else ""
    return f"{size(held.total)} that only checkpoints hold{trash}"


def _triggers(found: Status, now: datetime | None) -> Iterator[Row]:
    known = [trigger for trigger in found.triggers if trigger.is_known]
    off = {trigger.off for trigger in found.triggers}
    all_off = off.pop() if len(off) == 1 else None
    if all_off is not None:
        yield "Triggers", "red", f"all are off ({all_off})"
    else:
        yield "Triggers", "", "" if known else "none is installed"
    for trigger in known:
        yield from _trigger(trigger, now, says_off=all_off is None)
    missing = [t.name for t in found.triggers if t.finding is not None and not t.is_known]
    if known and missing:
        yield "  others", "dim", "not installed: " + ", ".join(missing)
    for finding in found.others:
        if finding.state != "installed":
            yield f"  {finding.trigger}", "red", finding.detail


def _trigger(trigger: TriggerStatus, now: datetime | None, *, says_off: bool) -> Iterator[Row]:
    finding = trigger.finding
    # One that ran though it is not installed is the user's own.
    facts = []
    if finding is not None and finding.state != "missing":
        before = {"installed": "installed", "foreign": f"not installed: {finding.detail}"}
        facts.append(before.get(finding.state, finding.detail))
    if trigger.off is not None and says_off:
        facts.append(f"off ({trigger.off})")
    success, failure = trigger.notes.success, trigger.notes.failure
    if success is not None:
        what = f"{success.outcome} {success.id}".strip()
        facts.append(f"last ran {_ago(success.at, now)}, {success.seconds:.2f} s: {what}")
    label = f"  {trigger.name}"
    if facts:
        is_gone = finding is not None and finding.state == "replaced"
        yield label, "red" if is_gone else "", "; ".join(facts)
        label = ""
    if failure is not None:
        times = "" if failure.count == 1 else f" {failure.count} times in a row"
        failed = f"failed{times}, last {_ago(failure.at, now)}: {failure.message}"
        style = "red" if trigger.notes.is_failing else "dim"
        yield label, style, failed if trigger.notes.is_failing else f"before that, {failed}"


def _ago(moment: float, now: datetime | None) -> str:
    return age(datetime.fromtimestamp(moment, timezone.utc), now)


def _advice(found: Status) -> Iterator[tuple[str, str]]:
    if found.rollback_interrupted:
        ways = ", or ".join(found.ways_out) or "git ckpt doctor"
        yield "end the rollback", ways.replace(", or git ckpt rollback", ", or")
    if found.here:
        yield "look at them", "git ckpt list"
    yield "take one", "git ckpt save [NAME]"
    if found.piled_up and found.refs:
        yield "take less room", "git ckpt gc"
    states = {t.name: t.finding.state for t in found.triggers if t.finding is not None}
    # Where `git ckpt` cannot be typed, installing is what makes that possible.
    mends = [other.mend for other in found.others if other.mend]
    if mends:
        yield "install triggers", mends[0]
    elif "replaced" in states.values() or "installed" not in states.values():
        is_foreign = "foreign" in states.values()
        yield "install triggers", "git ckpt install" + " --edit-tracked" * is_foreign
    elif "installed" not in (states.get("guard", "installed"), states.get("wrapper")):
        yield "before checkouts too", "git ckpt install --guard"
    if found.failing or "replaced" in states.values():
        yield "what is wrong", "git ckpt doctor"
