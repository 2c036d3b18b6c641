# SPDX-License-Identifier: MIT
"""The last step of every save: an id, a commit, and the ref that makes it a checkpoint.

Whatever the objects are, they are flushed before the ref is made, and looked for once more
after it: a garbage collection that ran meanwhile may have taken one that was there already, or put
it into a pack that another, which knows nothing of the ref, is about to take away.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone

from ckpt import ids
from ckpt.engine.catalog import Catalog, load
from ckpt.models import Checkpoint, Details, Scope, Stats
from ckpt.store import made_here, record
from ckpt.store.objects import ObjectID, ObjectsPruned
from ckpt.store.pruning import wait_for_pruning
from ckpt.store.repository import Repository
from ckpt.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from ckpt.engine.snapshot import SaveRequest

LONGEST_WAIT = 10.0
# Of a state commit, so that checkpoints whose states are equal share it.
NO_TIME = datetime.fromtimestamp(0, timezone.utc)


def draft_of(
    repo: Repository, request: SaveRequest, scope: Scope, tree: ObjectID, state: ObjectID
) -> Checkpoint:
    """The checkpoint that will be; what it lacks is an id and a time."""
    return Checkpoint(
        id="",
        name=request.name,
        description=request.description,
        kind=request.kind,
        trigger=request.trigger,
        scope=scope,
        timestamp=NO_TIME,
        commit="",
        tree=tree.decode(),
        state_commit=state.decode(),
        worktree=repo.worktree_id,
        session=request.session,
        pinned=request.pinned,
        partial=False,
        during_rollback=False,
        head_commit=None,
        branch=None,
        stats=Stats(),
        _details=Details,
        _dirty_files=tuple,
    )


def publish(
    repo: Repository,
    catalog: Catalog,
    draft: Checkpoint,
    tree: ObjectID,
    parents: tuple[ObjectID, ...],
    is_whole: Callable[[ObjectID, AbstractSet[ObjectID]], bool],
    *,
    is_ours: bool = True,
) -> Checkpoint:
    """Give a checkpoint its id and ref; a taken name is tried again with another. It counts as
    made here unless what is in it came from elsewhere."""
    relied_on = {tree, *parents}
    while True:
        now = datetime.now(timezone.utc)
        draft = replace(draft, timestamp=now, id=ids.new_id(now, None))
        newest = catalog.newest_here(draft.id[:19])
        if newest is not None:
            draft = replace(draft, id=ids.new_id(now, newest))
        message = record.compose_message(draft)
        commit = record.write_commit(repo.objects, tree, parents, message, now)
        noted = made_here.note(repo.common_dir, draft.id, commit.decode()) if is_ours else ()
        relied_on |= repo.objects.flush(noted)
        if repo.refs.create(draft.ref.encode(), commit):
            if not _stays(repo) or not is_whole(commit, relied_on):
                repo.refs.remove(draft.ref.encode(), commit)
                raise ObjectsPruned
            return load(repo, draft.id, commit)
        time.sleep(0.001)
        catalog = Catalog(repo)


def _stays(repo: Repository) -> bool:
    """Have what a ref names by now where no gc or repack takes it that had counted before; False
    if it is gone, or such a gc does not end."""
    if not wait_for_pruning(repo.common_dir, repo.config, LONGEST_WAIT):
        return False
    try:
        repo.objects.stay_loose()
    except ObjectsPruned:
        return False
    return True
