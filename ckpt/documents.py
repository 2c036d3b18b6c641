# SPDX-License-Identifier: MIT
"""Convert results to the JSON documents that commands print with --json.

Every document has `"schema": 1`. Absent values are null, never missing. A path that is not
UTF-8 also has its exact bytes in `path_b64`; other text escapes such bytes. In agent state,
dates and times become ISO 8601 strings, bytes base64, sets and tuples lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, time, timezone
from enum import Enum
from typing import Any

from ckpt.codec import base64
from ckpt.errors import CkptError
from ckpt.models import Checkpoint, FeatureState, RollbackResult, Source
from ckpt.paths import to_json

Document = dict[str, Any]

SCHEMA = 1

_PATHS = {"written", "removed", "cleared", "dirty_files", "state_files"}

# The fields to convert, as `attribute` or `attribute:key`, both possibly dotted; of other classes,
# all fields.
_SHOWN = {
    "Checkpoint": "id name description kind trigger scope timestamp ref commit worktree session"
    " pinned partial foreign during_rollback git_state.commit_hash:git_state.commit_hash"
    " git_state.branch:git_state.branch git_state.dirty_files:git_state.dirty_files"
    " operation:git_state.operation feature_state context data metadata stats skipped state_files"
    " nested",
    "Collected": "emptied cleared loose:objects.loose loose_bytes:objects.loose_bytes"
    " packed_refs:refs.packed",
    "Decision": "checkpoint.id:id action reasons",
    "DiffResult": "from_.id:from to.id:to files patch",
    "Dropped": "day:dropped_on checkpoint",
    "Failure": "at:timestamp times:count message",
    "Finding": "trigger:name state detail mend",
    "GitState": "commit_hash branch",
    "RollbackResult": "target safety written removed kept skipped folders_changed"
    " index_changed state head undo_command:undo dry_run foreign nested",
    "RunResult": "command exit_code signal timed_out checkpoint.session:session checkpoint"
    " changed.files:files head rollback rollback_command problems",
    "SaveResult": "outcome checkpoint reason",
    "Status": "worktree:worktree.path worktree_id:worktree.id git_dir:git_dir.path"
    " head.commit_hash:git_state.commit_hash head.branch:git_state.branch"
    " operation:git_state.operation rollback_interrupted rollback_running"
    " here:checkpoints.here kinds:checkpoints.kinds newest.id:checkpoints.newest"
    " elsewhere:checkpoints.elsewhere unreadable:checkpoints.unreadable trash:checkpoints.trash"
    " refs:checkpoints.refs foreign_refs:checkpoints.foreign_refs held.total:space.total"
    " held.trash:space.trash notes:settings.notes triggers"
    " others:installed",
    "Success": "at:timestamp id seconds outcome",
    "TriggerStatus": "name off notes.is_failing:failing finding:installed"
    " notes.success:last_success notes.failure:last_failure",
    "Verified": "target.id:id checkpoint.name:name target.ref:ref target.is_dropped:dropped"
    " is_whole:whole problems",
}


def as_json(value: Any) -> Any:
    """Convert a result or agent state to plain JSON values."""
    if isinstance(value, Checkpoint):
        return _listed(value)
    if isinstance(value, CkptError):
        return _pick(value, "code message hint") | {"details": as_json(value.details) or None}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bytes):
        return base64(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        pairs = [(as_json(key), as_json(item)) for key, item in value.items()]
        return {k if isinstance(k, str) else json.dumps(k): item for k, item in pairs}
    if isinstance(value, set | frozenset):
        return sorted(map(as_json, value), key=json.dumps)
    if hasattr(value, "_fields"):
        return _pick(value, _SHOWN.get(type(value).__name__) or " ".join(value._fields))
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value if value is None or isinstance(value, int | float) else str(value)


def _pick(value: object, shown: str) -> Document:
    found: Document = {}
    for part in shown.split():
        name, _, key = part.partition(":")
        item: Any = value
        for attribute in name.split("."):
            item = None if item is None else getattr(item, attribute)
        *above, key = (key or name).split(".")
        target = found
        for word in above:
            target = target.setdefault(word, {})
        if key == "path":
            target |= to_json(item)
        elif item is None or (name, item) == ("id", ""):
            target[key] = None
        elif name == "patch":
            target[key] = item.decode("utf-8", "replace")
        elif key == "timestamp":
            is_number = isinstance(item, int | float)
            moment = datetime.fromtimestamp(item, timezone.utc) if is_number else item
            target[key] = moment.isoformat(timespec="microseconds")
        elif key in _PATHS:
            target[key] = [to_json(path) for path in item]
        elif name == "nested" and isinstance(value, RollbackResult):
            target[key] = [to_json(each.path) | as_json(each.result) for each in item]
        else:
            target[key] = as_json(item)
    return found


def checkpoint(value: Checkpoint) -> Document:
    """Convert a checkpoint; raise CkptError if it is corrupt."""
    feature_state = as_json(value.feature_state or FeatureState())
    shown = _pick(value, _SHOWN["Checkpoint"])
    return shown | {"feature_state": feature_state, "problem": None}


def _listed(value: Checkpoint) -> Document:
    """Convert one of several checkpoints; `problem` describes a corrupt one."""
    try:
        return checkpoint(value)
    except CkptError as error:
        known = value._replace(source=Source())
        unknown = dict.fromkeys(("skipped", "state_files", "nested"))
        return {**checkpoint(known), **unknown, "problem": error.message}


def document(**fields: Any) -> Document:
    return {"schema": SCHEMA, **as_json(fields)}


def of(result: Any) -> Document:
    """Return the document of a checkpoint, a list of checkpoints, or another result."""
    if isinstance(result, Checkpoint):
        return document(checkpoint=checkpoint(result))
    if isinstance(result, list):
        return document(checkpoints=result)
    return {"schema": SCHEMA, **as_json(result)}


def text(text: str) -> str:
    """Escape the bytes of a path that are not UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # a surrogate that is not an escaped byte
        return text
