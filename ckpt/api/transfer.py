# SPDX-License-Identifier: MIT
"""Checkpoints to a file and back: JSON for state alone, a git bundle for whole ones."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from ckpt import disk, ids, state
from ckpt.api.arguments import as_features, check_mappings
from ckpt.engine import foreign
from ckpt.engine.catalog import Catalog, load
from ckpt.engine.snapshot import SaveRequest, checked
from ckpt.engine.state import draft_of
from ckpt.errors import CkptError, Refused, UsageError
from ckpt.git import bundle, record
from ckpt.git.formats import ObjectID
from ckpt.git.objects import ObjectStore
from ckpt.git.repository import Repository
from ckpt.git.trees import FOLDER, GITLINK, read_tree
from ckpt.jsontext import text_or_none
from ckpt.locks import clear_unfinished
from ckpt.models import REF_PREFIX, Checkpoint, Kind, Scope

_LARGEST = 1 << 28  # bytes of a JSON document
_UNFINISHED = ".ckpt-bundle-"
SCHEMA = 1
FORMAT = "ckpt state checkpoints"
_FEATURES, _MAPPINGS = "features.json", ("metadata.json", "context.json")
_PARTS = ("data.json", *_MAPPINGS, _FEATURES)
_TRACKED = "tracked/"
_WRONG = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    CkptError,
)


def export(repo: Repository, scope: Scope, oldest_first: Sequence[Checkpoint], path: str) -> int:
    """Put checkpoints into a file that only its owner can read; returns how many."""
    if not oldest_first and scope is Scope.FULL:
        raise UsageError("there is no checkpoint to export", hint="git ckpt save")
    if os.path.islink(path):  # it stays one, and leads to the new file
        path = os.path.realpath(path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise UsageError(f"'{folder}' is no folder", hint="name a file in one that is there")
    if os.path.lexists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise UsageError(f"'{path}' is no file", hint="name one that is, or is not there yet")
    with _reporting("write", path):
        if scope is Scope.STATE:
            disk.replace(path, _dump(oldest_first))
        else:
            _write_bundle(repo, oldest_first, path)
    return len(oldest_first)


def import_(repo: Repository, scope: Scope, path: str, session: str | None) -> list[Checkpoint]:
    """Read the checkpoints of a file; returns those that are new here."""
    checked(SaveRequest(session=session))
    with _reporting("read", path), open(path, "rb") as file:
        if scope is Scope.FULL and file.peek(1)[:1] == b"#":
            return _read_bundle(repo, file.fileno(), session)
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise UsageError(f"'{path}' is too large", hint="export fewer checkpoints")
    return _store(repo, data, session)


@contextmanager
def _reporting(verb: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CkptError(
            f"cannot {verb} '{path}': {(error.strerror or str(error)).lower()}",
            hint="name a file that can be read and written",
        ) from None


# -- JSON, for state alone


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
    )
    for name, value in found.tracked.items():
        texts |= record.tracked_text(name, value)
    facts = ("id", "name", "description", "trigger", "session", "pinned")
    return {
        **{name: getattr(found, name) for name in facts},
        "kind": found.kind.value,
        "timestamp": found.timestamp.isoformat(timespec="microseconds"),
        "state": {path.decode(): json.loads(text) for path, text in texts.items()},
    }


def _store(repo: Repository, data: bytes, session: str | None) -> list[Checkpoint]:
    """Write the checkpoints of a document, of `session` if one is given; returns the new ones."""
    drafts = [_draft(item, session) for item in _items(data)]
    known = {_identity(checkpoint) for checkpoint in Catalog(repo).here()}
    made = []
    try:
        for wanted, moment, request in drafts:
            draft = replace(draft_of(repo, request), timestamp=moment, id=wanted)
            if _identity(draft) not in known:
                tree, state = (ObjectID(name.encode()) for name in (draft.tree, draft.state_commit))
                made.append(_publish(repo, draft, tree, (state,)))
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
            "not a file of state checkpoints", hint="pass what export() of one has written"
        ) from None


def _draft(item: Any, session: str | None) -> tuple[str, datetime, SaveRequest]:
    try:
        moment = record.as_timestamp(item["timestamp"])
        if not ids.is_id(item["id"]):
            raise ValueError("not an id")
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
            f"invalid checkpoint in export file: {reason}",
            hint="nothing was imported",
        ) from None


def _path(path: str) -> bytes:
    name = path.removeprefix(_TRACKED).removesuffix(".json")
    is_tracked = path == f"{_TRACKED}{name}.json" and record.is_quoted(name)
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
    contents = checkpoint.tree, checkpoint.state_commit
    return checkpoint.timestamp, contents, checkpoint.name, checkpoint.session


def _publish(
    repo: Repository, draft: Checkpoint, tree: ObjectID, parents: Sequence[ObjectID]
) -> Checkpoint:
    """Give it its ref; another id of the same time if its own is taken, or of the present if that
    is yet to come."""
    now = datetime.now(timezone.utc)
    if draft.id[:19] > ids.stamp(now):
        draft = replace(draft, id=ids.new_id(now, None))
    while True:
        message = record.compose_message(draft)
        commit = record.write_commit(repo.objects, tree, parents, message, draft.timestamp)
        repo.objects.flush()
        if repo.refs.create(draft.ref.encode(), commit):
            return load(repo, draft.id, commit)
        draft = replace(draft, id=draft.id[:20] + ids.new_id(now, None)[20:])


# -- Whole checkpoints as a git bundle, and from one


def _write_bundle(repo: Repository, checkpoints: Iterable[Checkpoint], path: str) -> None:
    """Write a bundle, in one step, that only its owner can read."""
    objects = repo.objects
    header, contents = _gather(objects, checkpoints)
    folder = os.path.dirname(path)
    clear_unfinished(folder, _UNFINISHED)
    temporary = os.path.join(folder, disk.temporary_name(_UNFINISHED))
    with disk.replacing(path, temporary) as fd:
        bundle.write(objects, fd, header, contents)
    disk.fsync_dir(folder)


def _gather(
    objects: ObjectStore, checkpoints: Iterable[Checkpoint]
) -> tuple[bundle.Header, list[ObjectID]]:
    refs: dict[bytes, ObjectID] = {}
    needed: dict[ObjectID, None] = {}
    commits: dict[ObjectID, ObjectID] = {}
    for checkpoint in checkpoints:
        commit, state = (
            ObjectID(name.encode()) for name in (checkpoint.commit, checkpoint.state_commit)
        )
        refs[checkpoint.ref.encode()] = commit
        for part in (state, commit):
            found = record.read_commit(objects, part)
            commits[part] = found.tree
            needed |= dict.fromkeys(parent for parent in found.parents if parent != state)
    known: dict[ObjectID, None] = {}
    for parent in needed:
        _walk(objects, record.read_commit(objects, parent).tree, known, ())
    contents: dict[ObjectID, None] = dict.fromkeys(commits)
    for tree in commits.values():
        _walk(objects, tree, contents, known)
    return bundle.Header(tuple(needed), refs), [*contents]


def _walk(
    objects: ObjectStore,
    top: ObjectID,
    found: dict[ObjectID, None],
    known: Container[ObjectID],
) -> None:
    """Add a tree and all below it, but for what is known."""
    todo = [top]
    while todo:
        tree = todo.pop()
        if tree in found or tree in known:
            continue
        found[tree] = None
        for _, mode, child in read_tree(objects, tree):
            if mode == FOLDER:
                todo.append(child)
            elif mode != GITLINK and child not in known:
                found[child] = None


def _read_bundle(repo: Repository, fd: int, session: str | None) -> list[Checkpoint]:
    """Read the checkpoints of a bundle; returns those that are new here."""
    objects = repo.objects
    header = bundle.read_header(fd, objects)
    for commit in header.needed:
        if objects.kind(commit) != b"commit":
            raise Refused(
                f"the bundle needs commit '{commit.decode()}', which is not here",
                hint="fetch it from where the bundle was made",
            )
    try:
        bundle.read_pack(fd, header.size, objects)
        drafts = [
            _checked(repo, ref, commit, session) for ref, commit in sorted(header.refs.items())
        ]
        known = {_identity(checkpoint) for checkpoint in Catalog(repo).here()}
        made = []
        for draft in drafts:
            if _identity(draft) not in known:
                data = record.read_commit(objects, ObjectID(draft.commit.encode()))
                made.append(_publish(repo, draft, data.tree, data.parents))
        return made
    finally:
        objects.discard()


def _checked(repo: Repository, ref: bytes, commit: ObjectID, session: str | None) -> Checkpoint:
    name = ref.decode("utf-8", "backslashreplace")
    checkpoint_id = name.removeprefix(REF_PREFIX)
    if not name.startswith(REF_PREFIX) or not ids.is_id(checkpoint_id):
        raise Refused(f"'{name}' is no checkpoint", hint="nothing was imported")
    try:
        found = load(repo, checkpoint_id, commit)
    except CkptError as error:
        raise Refused(
            f"'{name}' is no checkpoint: {error.message}", hint="nothing was imported"
        ) from None
    foreign.check(repo, found)
    return replace(
        found, worktree=repo.worktree_id, session=found.session if session is None else session
    )
