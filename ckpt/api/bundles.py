# SPDX-License-Identifier: MIT
"""Whole checkpoints as a git bundle, and from one.

A bundle holds what the commits at HEAD do not hold already, and needs these commits where it
is read: it goes to another clone, not to another project. What comes in is checked before the
first ref is made; each checkpoint becomes one of this worktree, under its id if that is free.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone

from ckpt import disk, ids
from ckpt.engine import foreign
from ckpt.engine.catalog import Catalog, load
from ckpt.errors import CkptError, Refused
from ckpt.models import REF_PREFIX, Checkpoint
from ckpt.store import bundle, record
from ckpt.store.lock import clear_unfinished
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.repository import Repository
from ckpt.store.trees import FOLDER, GITLINK, read_tree
from ckpt.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable

_UNFINISHED = ".ckpt-bundle-"


def store(repo: Repository, checkpoints: Iterable[Checkpoint], path: str) -> None:
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


def read(repo: Repository, fd: int, session: str | None) -> list[Checkpoint]:
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
        return [_publish(repo, draft) for draft in drafts if _identity(draft) not in known]
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


def _identity(checkpoint: Checkpoint) -> tuple[object, ...]:
    """What two checkpoints are the same by, whatever their ids."""
    return checkpoint.timestamp, checkpoint.tree, checkpoint.state_commit, checkpoint.session


def _publish(repo: Repository, draft: Checkpoint) -> Checkpoint:
    """Give it its ref; another id if its own is taken, or yet to come."""
    now = datetime.now(timezone.utc)
    if draft.id[:19] > ids.stamp(now):
        draft = replace(draft, id=ids.new_id(now, None))
    data = record.read_commit(repo.objects, ObjectID(draft.commit.encode()))
    while True:
        message = record.compose_message(draft)
        commit = record.write_commit(
            repo.objects, data.tree, data.parents, message, draft.timestamp
        )
        repo.objects.flush()
        if repo.refs.create(draft.ref.encode(), commit):
            return load(repo, draft.id, commit)
        draft = replace(draft, id=draft.id[:20] + ids.new_id(now, None)[20:])
