# SPDX-License-Identifier: MIT
"""Export checkpoints to a file and import them: agent state as JSON, others as a git bundle."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

from ckpt import disk, ids
from ckpt.codec import text_or_none
from ckpt.engine import foreign
from ckpt.engine.catalog import Catalog, load
from ckpt.engine.checkpoint import Recorded
from ckpt.engine.snapshot import SaveRequest, checked, state_draft_of
from ckpt.engine.verify import fault_behind
from ckpt.errors import Refused, UsageError
from ckpt.git import record
from ckpt.git.objects import ObjectID, ObjectStore
from ckpt.git.packs import unpack_bundle, write_bundle
from ckpt.git.repository import Repository
from ckpt.git.trees import reach
from ckpt.models import REF_PREFIX, Checkpoint, Kind, Scope

_LARGEST = 1 << 28  # bytes of a JSON document
SCHEMA = 1
FORMAT = "ckpt state checkpoints"


def export(repo: Repository, scope: Scope, oldest_first: Sequence[Checkpoint], path: str) -> int:
    """Write checkpoints to a file readable by its owner only; return how many."""
    if not oldest_first and scope is Scope.FULL:
        raise UsageError("there is no checkpoint to export", hint="git ckpt save")
    path = os.path.realpath(path)
    is_taken = os.path.lexists(path) and not os.path.isfile(path)
    if is_taken or not os.path.isdir(os.path.dirname(path)):
        hint = "name a file in a directory that exists"
        raise UsageError(f"cannot write '{path}': not a file", hint=hint)
    if scope is Scope.STATE:
        disk.replace(path, _dump(oldest_first))
    else:
        _write_bundle(repo.objects, oldest_first, path)
    return len(oldest_first)


def import_(repo: Repository, scope: Scope, path: str, session: str | None) -> list[Checkpoint]:
    """Import the checkpoints of a file, into a session if given; return the new ones."""
    checked(SaveRequest(session=session))
    objects = repo.objects
    try:
        with open(path, "rb") as file:
            if scope is Scope.FULL and file.peek(1)[:1] == b"#":
                named = unpack_bundle(objects, file)
                fault = fault_behind(repo, *(commit for _, commit in named))
                if fault is not None:  # a ref to it would make every gc fail
                    raise Refused(f"'{path}' is not whole: {fault}", hint="nothing was imported")
                drafts = [_checked(repo, ref, commit) for ref, commit in named]
            else:
                drafts = _drafts(repo, file.read(_LARGEST))
        known = {_identity(checkpoint) for checkpoint in Catalog(repo).here()}
        made = []
        for draft in drafts:
            if session is not None:
                draft = draft._replace(session=session)
            if _identity(draft) not in known:
                made.append(_publish(repo, draft))
        return made
    finally:
        objects.discard()


# -- Agent state as JSON


def _dump(oldest_first: Iterable[Checkpoint]) -> bytes:
    document = {
        "schema": SCHEMA,
        "format": FORMAT,
        "checkpoints": [_item(checkpoint) for checkpoint in oldest_first],
    }
    return json.dumps(document, indent=1, ensure_ascii=False).encode("utf-8") + b"\n"


def _item(found: Checkpoint) -> dict[str, Any]:
    texts = record.texts_of(
        data=found.data,
        metadata=found.metadata,
        context=found.context,
        features=found.feature_state,
        tracked=found.tracked,
    )
    facts = ("id", "name", "description", "trigger", "session", "pinned")
    return {
        **{name: getattr(found, name) for name in facts},
        "kind": found.kind.value,
        "timestamp": found.timestamp.isoformat(timespec="microseconds"),
        "state": {name: json.loads(text) for name, text in texts.items()},
    }


def _drafts(repo: Repository, data: bytes) -> list[Checkpoint]:
    """Parse the checkpoints of a document, and add their objects to the store."""
    try:
        document = json.loads(data)
        if (document["format"], document["schema"]) != (FORMAT, SCHEMA):
            raise ValueError("another format")
        return [_draft(repo, item) for item in document["checkpoints"]]
    except Exception as error:  # the document may have any shape
        raise UsageError(
            f"not a file of state checkpoints ({error!r:.200})",
            hint="nothing was imported; pass what export() has written",
        ) from None


def _draft(repo: Repository, item: Any) -> Checkpoint:
    if not ids.is_id(item["id"]) or item["state"].keys() - {*record.PART_FILES}:
        raise ValueError("not an id, or not a part of a state")
    request = SaveRequest(
        name=text_or_none(item["name"]),
        description=text_or_none(item["description"]),
        kind=Kind(item["kind"]),
        trigger=text_or_none(item["trigger"]),
        session=text_or_none(item["session"]),
        pinned=item["pinned"] is True,
        state={
            name: json.dumps(value, ensure_ascii=False).encode("utf-8") + b"\n"
            for name, value in item["state"].items()
        },
    )
    draft = state_draft_of(repo, checked(request))
    record.read_details(repo.objects, draft)
    return draft._replace(id=item["id"], timestamp=record.as_timestamp(item["timestamp"]))


def _identity(checkpoint: Checkpoint) -> tuple[object, ...]:
    """Return the key by which checkpoints are compared, regardless of their ids."""
    contents = checkpoint.tree, checkpoint.state_commit
    return checkpoint.timestamp, contents, checkpoint.name, checkpoint.session


def _publish(repo: Repository, draft: Checkpoint) -> Checkpoint:
    """Create the ref of a checkpoint, with a new id if its own is taken or in the future."""
    now = datetime.now(timezone.utc)
    if draft.id[:19] > ids.stamp(now):
        draft = draft._replace(id=ids.new_id(now, None))
    while True:
        commit = record.write_checkpoint(repo.objects, draft)
        repo.objects.flush()
        if repo.refs.create(draft.ref.encode(), commit):
            return load(repo, draft.id, commit)
        draft = draft._replace(id=draft.id[:20] + ids.new_id(now, None)[20:])


# -- Whole checkpoints as a git bundle


def _write_bundle(objects: ObjectStore, checkpoints: Iterable[Checkpoint], path: str) -> None:
    """Write a bundle atomically, readable by its owner only."""
    refs: dict[bytes, ObjectID] = {}
    needed: dict[ObjectID, None] = {}
    commits: dict[ObjectID, ObjectID] = {}
    for checkpoint in checkpoints:
        commit = ObjectID(checkpoint.commit.encode())
        state = ObjectID(checkpoint.state_commit.encode())
        refs[checkpoint.ref.encode()] = commit
        for part in (state, commit):
            found = record.read_commit(objects, part)
            commits[part] = found.tree
            needed |= dict.fromkeys(parent for parent in found.parents if parent != state)
    known: set[ObjectID] = set()
    for parent in needed:
        reach(objects, record.read_commit(objects, parent).tree, known)
    contents = {*commits}
    for tree in commits.values():
        reach(objects, tree, contents, known)
    with disk.replacing(path, os.path.dirname(path)) as fd:
        write_bundle(objects, fd, needed, refs, sorted(contents))


def _checked(repo: Repository, ref: bytes, commit: ObjectID) -> Checkpoint:
    name = ref.decode("utf-8", "backslashreplace")
    checkpoint_id = name.removeprefix(REF_PREFIX)
    if not name.startswith(REF_PREFIX) or not ids.is_id(checkpoint_id):
        raise Refused(f"'{name}' is no checkpoint", hint="nothing was imported")
    found = load(repo, checkpoint_id, commit)
    foreign.check(Recorded(repo, found))
    if found.operation is not None:
        told = f"in '{found.id}' a {found.operation} was under way, whose files may name commands"
        raise Refused(told, hint="nothing was imported")
    return found._replace(worktree=repo.worktree_id)
