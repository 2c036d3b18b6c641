# SPDX-License-Identifier: MIT
"""The JSON documents of the commands that look after the store: how it stands, what is wrong,
what was packed, what can be rescued. Their form is that of `documents`."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt import documents
from ckpt.paths import to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.diagnosis import Diagnosis
    from ckpt.documents import Document
    from ckpt.engine.gc import Collected
    from ckpt.engine.lost import Lost
    from ckpt.engine.space_record import Held
    from ckpt.engine.status import Status, TriggerStatus
    from ckpt.engine.verify import Verified, VerifyResult
    from ckpt.install.target import Finding
    from ckpt.models import Checkpoint


def status(found: Status) -> Document:
    return documents.document(
        worktree=to_json(found.worktree) | {"id": found.worktree_id},
        git_dir=to_json(found.git_dir),
        git_state=documents.git_state(found.head) | {"operation": found.operation},
        rollback_interrupted=found.rollback_interrupted,
        rollback_running=found.rollback_running is not None,
        checkpoints={
            "here": found.here,
            "kinds": {kind.value: count for kind, count in found.kinds.items()},
            "newest": None if found.newest is None else found.newest.id,
            "oldest": None if found.oldest is None else found.oldest.id,
            "elsewhere": found.elsewhere,
            "unreadable": found.unreadable,
            "trash": found.trash,
            "refs": found.refs,
            "foreign_refs": found.foreign_refs,
        },
        space=_held(found.held) | {"piled_up": found.piled_up},
        private={"files": found.footprint.files, "bytes": found.footprint.size},
        settings={"notes": [documents.text(note) for note in found.notes]},
        triggers=[_trigger(trigger) for trigger in found.triggers],
        installed=[_finding(finding) for finding in found.others],
    )


def _held(held: Held | None) -> Document:
    if held is None:
        return {"total": None, "trash": None, "measured_at": None}
    at = None if held.at is None else documents.moment(held.at)
    return {"total": held.total, "trash": held.trash, "measured_at": at}


def gc(done: Collected) -> Document:
    packed = done.repacked
    return documents.document(
        emptied=list(done.emptied),
        cleared=[to_json(path) for path in done.cleared],
        objects={
            "packed": packed.objects,
            "loose_bytes": packed.loose_bytes,
            "pack_bytes": packed.pack_bytes,
            "removed": packed.removed,
        },
        refs={"packed": done.packed_refs},
        space={"total": done.space.total, "trash": done.space.trash},
    )


def doctor(diagnoses: Sequence[Diagnosis]) -> Document:
    return documents.document(
        diagnoses=[
            {
                "subject": one.subject,
                "state": one.state,
                "detail": documents.text(one.detail),
                "mend": None if one.mend is None else documents.text(one.mend),
                "done": None if one.done is None else documents.text(one.done),
            }
            for one in diagnoses
        ]
    )


def verify(result: VerifyResult) -> Document:
    return documents.document(
        checkpoints=[_verified(found) for found in result.checkpoints],
        objects=result.objects,
        bytes=result.bytes,
        promised=result.promised,
    )


def _verified(found: Verified) -> Document:
    return {
        "id": found.target.id,
        "name": None if found.checkpoint is None else found.checkpoint.name,
        "ref": documents.text(found.target.ref),
        "dropped": found.target.is_dropped,
        "whole": found.is_whole,
        "problems": [
            {
                "problem": each.problem,
                "detail": documents.text(each.detail),
                "kind": each.kind,
                "object": each.object,
                "places": [{"within": at.within} | to_json(at.path) for at in each.places],
            }
            for each in found.problems
        ],
    }


def rescue(found: Sequence[Lost], total: int, saved: Checkpoint | None) -> Document:
    return documents.document(
        lost=[
            {
                "kind": each.kind,
                "id": each.id,
                "timestamp": documents.moment(each.time),
                "subject": documents.text(each.subject),
                "files": each.files,
                "bytes": each.size,
                "patch": None if each.path is None else to_json(each.path),
            }
            for each in found
        ],
        total=total,
        checkpoint=None if saved is None else documents.checkpoint(saved),
    )


def _trigger(trigger: TriggerStatus) -> Document:
    success, failure = trigger.notes.success, trigger.notes.failure
    return {
        "name": trigger.name,
        "off": trigger.off,
        "failing": trigger.notes.is_failing,
        "installed": None if trigger.finding is None else _finding(trigger.finding),
        "last_success": None
        if success is None
        else {
            "timestamp": documents.moment(success.at),
            "seconds": success.seconds,
            "outcome": success.outcome,
            "id": success.id or None,
        },
        "last_failure": None
        if failure is None
        else {
            "timestamp": documents.moment(failure.at),
            "count": failure.count,
            "message": failure.message,
        },
    }


def _finding(finding: Finding) -> Document:
    return {
        "name": finding.trigger,
        "state": finding.state,
        "detail": documents.text(finding.detail),
        "mend": None if finding.mend is None else documents.text(finding.mend),
    }
