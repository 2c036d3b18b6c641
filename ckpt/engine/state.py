# SPDX-License-Identifier: MIT
"""Checkpoints of agent state alone: no file, index or HEAD is looked at, none comes back.

They lie among the others, under refs of their own, with an empty tree; what they hold is
in the state commit as it is with every checkpoint. To save one needs no lock: nothing that it
reads can change meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from ckpt.engine import snapshot
from ckpt.engine.apply import look
from ckpt.engine.catalog import Catalog
from ckpt.engine.plan import GIT_DIR
from ckpt.engine.rules import inside
from ckpt.engine.snapshot import NO_TIME, SaveRequest, again_if_pruned, checked, publish
from ckpt.errors import CkptError, UsageError
from ckpt.git import record
from ckpt.git.formats import ObjectID
from ckpt.git.objects import ObjectStore
from ckpt.git.record import StateFile
from ckpt.git.repository import Repository
from ckpt.git.trees import write_tree
from ckpt.models import Checkpoint, Outcome, SaveResult, Scope
from ckpt.paths import folders_above, is_repository, is_within, to_str
from ckpt.worktree.write import UnsafePath, Worktree


def check_places(repo: Repository, paths: Iterable[bytes]) -> None:
    """Refuse a path that is none of the worktree's own files."""
    for path in paths:
        if not path:
            raise UsageError("the worktree itself is no state file", hint="name a file in it")
        place = unfit_place(repo, path)
        if place is not None:
            raise UsageError(
                f"state file '{to_str(path)}' is {place}", hint="name a file of this worktree"
            )


def unfit_place(repo: Repository, path: bytes) -> str | None:
    """Why no state file can be at a path, if that is so."""
    if is_within(path, tuple(inside(repo.worktree, repo.git_dir, repo.common_dir))):
        return GIT_DIR
    top = os.fsencode(repo.worktree)
    if any(is_repository(os.path.join(top, folder)) for folder in folders_above(path)):
        return "inside another repository"
    return None


def read_files(
    repo: Repository, objects: ObjectStore, paths: Iterable[bytes]
) -> dict[bytes, StateFile]:
    """Add what these files hold now to the object store."""
    with Worktree(os.fsencode(repo.worktree), repo.git_dirs) as worktree:
        return {path: _read(objects, worktree, path) for path in sorted(paths)}


def _read(objects: ObjectStore, worktree: Worktree, path: bytes) -> StateFile:
    try:
        around = worktree.in_the_way(path)
        status = worktree.lstat(path)
        if around is not None:
            raise _unreadable(path, f"'{to_str(around)}' is no folder")
        if status is None:
            return StateFile(None, 0)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            raise _unreadable(path, "it is no file")
        state = look(objects, worktree, path, status, store=True)
        assert state is not None, "folders and special files were told apart"
        return StateFile(state.entry, state.permissions)
    except (OSError, UnsafePath) as error:
        reason = error.message if isinstance(error, UnsafePath) else (error.strerror or "").lower()
        raise _unreadable(path, reason or "it changes all the time") from None


def _unreadable(path: bytes, reason: str) -> CkptError:
    return CkptError(
        f"cannot read state file '{to_str(path)}': {reason}", hint="name a file that can be read"
    )


# -- Checkpoints of agent state alone: no file, index or HEAD is looked at, none comes back


def save(repo: Repository, request: SaveRequest) -> SaveResult:
    """Keep the state of a request; a trigger is content with the newest if that is equal."""
    request = checked(request)
    return again_if_pruned(repo, lambda: _save(repo, request))


def _save(repo: Repository, request: SaveRequest) -> SaveResult:
    catalog = Catalog(repo)
    draft = draft_of(repo, request)
    if not request.wants_own_ref:
        for found in _newest(catalog, request.session):
            if found.state_commit != draft.state_commit:
                break
            if request.is_met_by(found):
                return SaveResult(Outcome.UNCHANGED, found)
    tree, state = (ObjectID(name.encode()) for name in (draft.tree, draft.state_commit))
    made = publish(repo, catalog, draft, tree, (state,))
    return SaveResult(Outcome.CREATED, made)


def draft_of(repo: Repository, request: SaveRequest) -> Checkpoint:
    """The checkpoint that will be, its objects added: what it lacks is an id and a time."""
    objects = repo.objects
    tree = write_tree(objects, {})
    state_tree = write_tree(objects, record.write(objects, request.state, {}))
    state = record.write_commit(objects, state_tree, (), "ckpt: state of an agent\n", NO_TIME)
    return snapshot.draft_of(repo, request, Scope.STATE, tree, state)


def _newest(catalog: Catalog, session: str | None) -> Iterator[Checkpoint]:
    """Those of a session, the newest first."""
    like = (c for c in catalog.here() if c.scope is Scope.STATE and c.session == session)
    return (c for c in like if not c.foreign)
