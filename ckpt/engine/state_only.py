# SPDX-License-Identifier: MIT
"""Checkpoints of agent state alone: no file, index or HEAD is looked at, none comes back.

They lie among the others, under refs of their own, with an empty tree; what they hold is
in the state commit as it is with every checkpoint. To save one needs no lock: nothing that it
reads can change meanwhile.
"""

from __future__ import annotations

from ckpt.engine import publishing
from ckpt.engine.catalog import Catalog
from ckpt.engine.publishing import LONGEST_WAIT, NO_TIME, publish
from ckpt.engine.snapshot import LAST_ATTEMPT, SaveRequest, checked
from ckpt.models import Checkpoint, Outcome, SaveResult, Scope
from ckpt.store import agent_state, record
from ckpt.store.objects import ObjectID, ObjectsPruned
from ckpt.store.pruning import wait_for_pruning
from ckpt.store.repository import Repository
from ckpt.store.trees import write_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet


def save(repo: Repository, request: SaveRequest) -> SaveResult:
    """Keep the state of a request; a trigger is content with the newest if that is equal."""
    request = checked(request)
    for attempt in range(LAST_ATTEMPT + 1):
        try:
            return _save(repo, request)
        except ObjectsPruned:
            if attempt == LAST_ATTEMPT:
                raise
            wait_for_pruning(repo.common_dir, repo.config, LONGEST_WAIT)
        finally:  # of what was not written nothing is left
            repo.objects.discard()
    raise AssertionError("the last attempt returns or raises")


def _save(repo: Repository, request: SaveRequest) -> SaveResult:
    objects, catalog = repo.objects, Catalog(repo)
    draft = draft_of(repo, request)
    if not request.wants_own_ref:
        for found in _newest(catalog, request.session):
            if found.state_commit != draft.state_commit:
                break
            if request.is_met_by(found):
                return SaveResult(Outcome.UNCHANGED, found)

    def is_whole(commit: ObjectID, relied_on: AbstractSet[ObjectID]) -> bool:
        return not objects.missing({commit, *relied_on})

    tree, state = (ObjectID(name.encode()) for name in (draft.tree, draft.state_commit))
    made = publish(repo, catalog, draft, tree, (state,), is_whole)
    return SaveResult(Outcome.CREATED, made)


def draft_of(repo: Repository, request: SaveRequest) -> Checkpoint:
    """The checkpoint that will be, its objects added: what it lacks is an id and a time."""
    objects = repo.objects
    tree = write_tree(objects, {})
    state_tree = write_tree(objects, agent_state.write(objects, request.state, {}))
    state = record.write_commit(objects, state_tree, (), "ckpt: state of an agent\n", NO_TIME)
    return publishing.draft_of(repo, request, Scope.STATE, tree, state)


def _newest(catalog: Catalog, session: str | None) -> Iterator[Checkpoint]:
    """Those of a session, the newest first."""
    like = (c for c in catalog.here() if c.scope is Scope.STATE and c.session == session)
    return (c for c in like if not c.foreign)
