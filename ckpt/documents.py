# SPDX-License-Identifier: MIT
"""The JSON documents that every command prints with --json.

Every document has `"schema": 1`. Absent values are null, never missing. A path that is
not UTF-8 has its exact bytes beside it in `path_b64`. Agent state that is more than JSON is
as `state.plain` has it: dates and times are ISO text, bytes base 64, sets and tuples lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

from ckpt.errors import CkptError
from ckpt.models import (
    Checkpoint,
    Details,
    DiffResult,
    Dropped,
    FeatureState,
    Finding,
    GitState,
    HeadReport,
    RollbackResult,
    SaveResult,
    Skipped,
)
from ckpt.paths import to_json
from ckpt.state import plain

if TYPE_CHECKING:
    from ckpt.engine.gc import Collected
    from ckpt.engine.prune import PruneResult
    from ckpt.engine.rescue import Lost
    from ckpt.engine.status import Status, TriggerStatus
    from ckpt.engine.verify import Verified, VerifyResult
    from ckpt.git.trigger_log import Failure, Success
    from ckpt.triggers.run import Moved, RunResult

T = TypeVar("T")
Document = dict[str, Any]

SCHEMA = 1


def checkpoint(value: Checkpoint) -> Document:
    """`problem` is why a checkpoint in a list cannot be read in full."""
    features = value.feature_state or FeatureState()
    facts = ("id", "name", "description", "trigger", "ref", "commit", "worktree", "session")
    flags = ("pinned", "partial", "foreign", "during_rollback")
    return {
        **_pick(value, *facts, *flags),
        "kind": value.kind.value,
        "scope": value.scope.value,
        "timestamp": value.timestamp.isoformat(timespec="microseconds"),
        "git_state": {
            **git_state(value.git_state),
            "dirty_files": [to_json(path) for path in value.git_state.dirty_files],
            "operation": value.operation,
        },
        "feature_state": {
            **_pick(features, "current", "snapshot_path"),
            "completed": list(features.completed),
        },
        "context": plain(value.context),
        "data": plain(value.data),
        "metadata": plain(value.metadata),
        "stats": _pick(value.stats, "files_changed", "insertions", "deletions"),
        "skipped": _skipped(value.skipped),
        "state_files": [to_json(path) for path in value.state_files],
        "nested": [
            to_json(state.path)
            | _pick(state, "commit_hash", "branch", "dirty", "checkpoint", "problem")
            for state in value.nested
        ],
        "problem": None,
    }


def _listed(value: Checkpoint) -> Document:
    """One of several: a damaged one must not hide the others."""
    try:
        return checkpoint(value)
    except CkptError as error:
        known = replace(value, _details=Details, _dirty_files=tuple)
        unknown = dict.fromkeys(("skipped", "state_files", "nested"))
        return {**checkpoint(known), **unknown, "problem": error.message}


def save(result: SaveResult) -> Document:
    return document(
        outcome=result.outcome.value,
        checkpoint=_maybe(checkpoint, result.checkpoint),
        reason=result.reason,
    )


def listing(found: Iterable[Checkpoint]) -> Document:
    return document(checkpoints=[_listed(value) for value in found])


def dropped(found: Iterable[Checkpoint]) -> Document:
    return document(dropped=[value.id for value in found])


def trash(found: Iterable[Dropped]) -> Document:
    return document(
        trash=[
            {"dropped_on": each.day.isoformat(), "checkpoint": _listed(each.checkpoint)}
            for each in found
        ]
    )


def single(value: Checkpoint) -> Document:
    return document(checkpoint=checkpoint(value))


def prune(result: PruneResult) -> Document:
    return document(
        decisions=[
            {
                "id": one.checkpoint.id,
                "action": "keep" if one.keep else "drop",
                "reasons": list(one.reasons),
            }
            for one in result.decisions
        ],
        emptied=list(result.emptied),
        dry_run=result.dry_run,
    )


def diff(result: DiffResult) -> Document:
    return document(
        **{"from": result.from_.id, "to": None if result.to is None else result.to.id},
        files=_files(result),
        patch=result.patch.decode("utf-8", "replace"),
    )


def _files(result: DiffResult) -> list[Document]:
    facts = ("status", "insertions", "deletions", "binary")
    return [to_json(file.path) | _pick(file, *facts) for file in result.files]


def run(result: RunResult) -> Document:
    after = None if result.after is None else result.after.checkpoint
    return document(
        command=list(result.command),
        exit_code=result.ended.exit_code,
        signal=result.ended.signal,
        timed_out=result.ended.timed_out,
        session=result.checkpoint.session,
        checkpoint=checkpoint(result.checkpoint),
        after=_maybe(checkpoint, after),
        files=_maybe(_files, result.changed),
        head=_maybe(lambda head: _moved(head) | _pick(head, "commits"), result.head),
        rollback=_maybe(_rollback, result.rollback),
        rollback_command=result.rollback_command,
        problems=[_problem(problem) for problem in result.problems],
    )


def _moved(head: Moved | HeadReport) -> Document:
    return {"before": git_state(head.before), "after": git_state(head.after)}


def rollback(result: RollbackResult) -> Document:
    return document(**_rollback(result))


def _rollback(result: RollbackResult) -> Document:
    return {
        "target": checkpoint(result.target),
        "safety": _maybe(checkpoint, result.safety),
        "began_from": _maybe(checkpoint, result.began_from),
        "written": [to_json(path) for path in result.written],
        "removed": [to_json(path) for path in result.removed],
        "kept": _skipped(result.kept),
        "skipped": _skipped(result.skipped),
        **_pick(result, "folders_changed", "index_changed"),
        "state": plain(result.state),
        "head": _maybe(_head, result.head),
        "undo": result.undo_command,
        **_pick(result, "dry_run", "foreign"),
        "nested": [to_json(inside.path) | _rollback(inside.result) for inside in result.nested],
    }


def error(problem: CkptError) -> Document:
    return document(error=_problem(problem))


def _problem(problem: CkptError) -> Document:
    return _pick(problem, "code", "message", "hint") | {"details": problem.details or None}


def interrupted() -> Document:
    return document(
        error={"code": "interrupted", "message": "interrupted", "hint": None, "details": None}
    )


def document(**fields: Any) -> Document:
    return {"schema": SCHEMA, **fields}


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="microseconds")


def text(text: str) -> str:
    """Of a text with a path in it that is not UTF-8, the stray bytes as escapes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def git_state(state: GitState) -> Document:
    return _pick(state, "commit_hash", "branch")


def _maybe(make: Callable[[T], object], value: T | None) -> object:
    return None if value is None else make(value)


def _pick(value: object, *names: str) -> Document:
    return {name: getattr(value, name) for name in names}


def _head(report: HeadReport) -> Document:
    return {
        **_pick(report, "moved", "ahead", "behind"),
        **_moved(report),
        "operation": _maybe(lambda found: _pick(found, "before", "after"), report.operation),
        "branches": [_pick(branch, "name", "before", "after") for branch in report.branches],
    }


def _skipped(items: Iterable[Skipped]) -> list[Document]:
    return [to_json(item.path) | {"reason": item.reason} for item in items]


def status(found: Status) -> Document:
    return document(
        worktree=to_json(found.worktree) | {"id": found.worktree_id},
        git_dir=to_json(found.git_dir),
        git_state=git_state(found.head) | {"operation": found.operation},
        rollback_interrupted=found.rollback_interrupted,
        rollback_running=found.rollback_running is not None,
        checkpoints={
            "here": found.here,
            "kinds": {kind.value: count for kind, count in found.kinds.items()},
            "newest": None if found.newest is None else found.newest.id,
            "oldest": None if found.oldest is None else found.oldest.id,
            **_pick(found, "elsewhere", "unreadable", "trash", "refs", "foreign_refs"),
        },
        space={
            "total": None if found.held is None else found.held.total,
            "trash": None if found.held is None else found.held.trash,
            "piled_up": found.piled_up,
        },
        private={"files": found.footprint.files, "bytes": found.footprint.size},
        settings={"notes": [text(note) for note in found.notes]},
        triggers=[_trigger(trigger) for trigger in found.triggers],
        installed=[_finding(finding) for finding in found.others],
    )


def gc(done: Collected) -> Document:
    return document(
        emptied=list(done.emptied),
        cleared=[to_json(path) for path in done.cleared],
        objects={"loose": done.loose, "loose_bytes": done.loose_bytes},
        refs={"packed": done.packed_refs},
    )


def doctor(diagnoses: Sequence[object]) -> Document:
    return document(
        diagnoses=[
            _pick(one, "subject", "state") | _texts(one, "detail", "mend", "done")
            for one in diagnoses
        ]
    )


def _texts(value: object, *names: str) -> Document:
    """Texts that may hold paths, or None."""
    found = _pick(value, *names)
    return {name: None if value is None else text(value) for name, value in found.items()}


def verify(result: VerifyResult) -> Document:
    return document(
        checkpoints=[_verified(found) for found in result.checkpoints],
        **_pick(result, "objects", "bytes", "promised"),
    )


def _verified(found: Verified) -> Document:
    return {
        "id": found.target.id,
        "name": None if found.checkpoint is None else found.checkpoint.name,
        "ref": text(found.target.ref),
        "dropped": found.target.is_dropped,
        "whole": found.is_whole,
        "problems": [
            {
                **_pick(each, "problem", "kind", "object"),
                "detail": text(each.detail),
                "places": [{"within": at.within} | to_json(at.path) for at in each.places],
            }
            for each in found.problems
        ],
    }


def rescue(found: Sequence[Lost], total: int, saved: Checkpoint | None) -> Document:
    return document(
        lost=[
            {
                "kind": each.kind,
                "id": each.id,
                "timestamp": moment(each.time),
                "subject": text(each.subject),
                "files": each.files,
                "bytes": each.size,
                "patch": _maybe(to_json, each.path),
            }
            for each in found
        ],
        total=total,
        checkpoint=_maybe(checkpoint, saved),
    )


def _trigger(trigger: TriggerStatus) -> Document:
    notes = trigger.notes
    return {
        "name": trigger.name,
        "off": trigger.off,
        "failing": notes.is_failing,
        "installed": _maybe(_finding, trigger.finding),
        "last_success": _maybe(_success, notes.success),
        "last_failure": _maybe(_failure, notes.failure),
    }


def _success(noted: Success) -> Document:
    facts = _pick(noted, "seconds", "outcome")
    return {"timestamp": moment(noted.at), "id": noted.id or None, **facts}


def _failure(noted: Failure) -> Document:
    return {"timestamp": moment(noted.at), **_pick(noted, "count", "message")}


def _finding(finding: Finding) -> Document:
    return {
        "name": finding.trigger,
        "state": finding.state,
        **_texts(finding, "detail", "mend"),
    }
