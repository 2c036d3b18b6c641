# SPDX-License-Identifier: MIT
"""State-only checkpoints as one JSON document, for another repository or another program.

What comes in is checked whole before the first checkpoint is written. Ids are kept where they
are free here: one that is taken by another checkpoint, or lies in the future, is given anew,
and one that is here already is not imported twice.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone

from ckpt import ids, state
from ckpt.arguments import as_features, check_mappings
from ckpt.engine.catalog import Catalog, load
from ckpt.engine.snapshot import SaveRequest, checked
from ckpt.engine.state_only import draft_of
from ckpt.errors import CkptError, UsageError
from ckpt.jsontext import text_or_none
from ckpt.models import Checkpoint, Kind
from ckpt.store import agent_state, record
from ckpt.store.objects import ObjectID
from ckpt.store.repository import Repository
from ckpt.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

SCHEMA = 1
FORMAT = "ckpt state checkpoints"
_FEATURES, _MAPPINGS = "features.json", ("metadata.json", "context.json")
_PARTS = ("data.json", *_MAPPINGS, _FEATURES)
_TRACKED = "tracked/"
_WRONG = (
    *(ArithmeticError, AttributeError, KeyError, TypeError, ValueError),
    RecursionError,
    CkptError,
)


def dump(oldest_first: Iterable[Checkpoint]) -> bytes:
    document = {
        "schema": SCHEMA,
        "format": FORMAT,
        "checkpoints": [_item(checkpoint) for checkpoint in oldest_first],
    }
    return json.dumps(document, indent=1, ensure_ascii=False).encode("utf-8") + b"\n"


def _item(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "id": checkpoint.id,
        "name": checkpoint.name,
        "description": checkpoint.description,
        "kind": checkpoint.kind.value,
        "trigger": checkpoint.trigger,
        "session": checkpoint.session,
        "timestamp": checkpoint.timestamp.isoformat(timespec="microseconds"),
        "pinned": checkpoint.pinned,
        "state": {path.decode(): json.loads(text) for path, text in _texts(checkpoint).items()},
    }


def _texts(checkpoint: Checkpoint) -> agent_state.Texts:
    texts = agent_state.texts_of(
        data=checkpoint.data,
        metadata=checkpoint.metadata,
        context=checkpoint.context,
        features=checkpoint.feature_state,
    )
    for name, value in checkpoint.tracked.items():
        texts |= agent_state.tracked_text(name, value)
    return texts


def store(repo: Repository, data: bytes, session: str | None) -> list[Checkpoint]:
    """Write the checkpoints of a document, of `session` if one is given; returns the new ones."""
    drafts = [_draft(item, session) for item in _items(data)]
    known = {_identity(checkpoint) for checkpoint in Catalog(repo).here()}
    made = []
    try:
        for wanted, moment, request in drafts:
            draft = replace(draft_of(repo, request), timestamp=moment)
            if _identity(draft) not in known:
                made.append(_store(repo, draft, wanted))
    finally:
        repo.objects.discard()
    return made


def _items(data: bytes) -> list[Any]:
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise ValueError("another format")
        if document["schema"] != SCHEMA:
            raise UsageError(
                f"the file has schema {document['schema']!r}, newer than this ckpt",
                hint="upgrade ckpt: pip install --upgrade git-ckpt",
            )
        return list(document["checkpoints"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise UsageError(
            "this is no file of state checkpoints", hint="pass what export() of one has written"
        ) from None


def _draft(item: Any, session: str | None) -> tuple[str, datetime, SaveRequest]:
    try:
        moment = record.as_timestamp(item["timestamp"])
        if not ids.is_id(item["id"]):
            raise ValueError("an id that is none")
        request = SaveRequest(
            name=text_or_none(item["name"]),
            description=text_or_none(item["description"]),
            kind=Kind(item["kind"]),
            trigger=text_or_none(item["trigger"]),
            session=text_or_none(item["session"]) if session is None else session,
            pinned=item["pinned"] is True,
            state={_path(path): _state(path, value) for path, value in item["state"].items()},
        )
        return item["id"], moment, checked(request)
    except _WRONG as error:
        reason = error.message if isinstance(error, CkptError) else str(error)
        raise UsageError(
            f"the file holds a checkpoint that is none: {reason}",
            hint="nothing was imported",
        ) from None


def _path(path: str) -> bytes:
    name = path.removeprefix(_TRACKED).removesuffix(".json")
    is_tracked = path == f"{_TRACKED}{name}.json" and agent_state.is_quoted(name)
    if path not in _PARTS and not is_tracked:
        raise ValueError(f"'{path}' is no part of a state")
    return path.encode("ascii")


def _state(path: str, value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False).encode("utf-8") + b"\n"
    found = state.load(text)
    if path == _FEATURES:
        as_features(found)
    elif path in _MAPPINGS:
        check_mappings(**{path: found})
    return text


def _identity(checkpoint: Checkpoint) -> tuple[object, ...]:
    """What two checkpoints are the same by, whatever their ids."""
    return checkpoint.timestamp, checkpoint.state_commit, checkpoint.name, checkpoint.session


def _store(repo: Repository, draft: Checkpoint, wanted: str) -> Checkpoint:
    """Give it the wanted id, or one of the same time, or of now if that is yet to come."""
    now = datetime.now(timezone.utc)
    if wanted[:19] > ids.stamp(now):
        wanted = ids.new_id(now, None)
    tree, state_commit = (ObjectID(name.encode()) for name in (draft.tree, draft.state_commit))
    while True:
        draft = replace(draft, id=wanted)
        message = record.compose_message(draft)
        commit = record.write_commit(repo.objects, tree, (state_commit,), message, draft.timestamp)
        repo.objects.flush()
        if repo.refs.create(draft.ref.encode(), commit):
            return load(repo, wanted, commit)
        wanted = wanted[:20] + ids.new_id(now, None)[20:]
