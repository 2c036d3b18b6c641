# SPDX-License-Identifier: MIT
"""What the index or HEAD names and the object store has not, as after a power cut: git does not
flush all that it writes.

Nothing brings it back. But it is no reason to save nothing of all else, which may be about to be
overwritten by the very command that makes git work again: a checkpoint is made without it, and is
partial. A rollback replaces the index and leaves HEAD's commit, so it waits until they are mended.
"""

from __future__ import annotations

from ckpt.engine.restage import without
from ckpt.errors import Refused
from ckpt.paths import to_str
from ckpt.store import staging
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.record import read_commit
from ckpt.store.refs import Head
from ckpt.store.staging import Staged
from ckpt.store.trees import GITLINK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ckpt.engine.present import Present
    from ckpt.store.index import Index
    from ckpt.store.objects import ObjectStore
    from ckpt.store.repository import Repository

_MOST_TOLD = 10


def gone_of_index(objects: ObjectStore, index: Index) -> list[bytes]:
    """Paths of which something is staged that is not there; in a partial clone nobody can tell."""
    if objects.is_partial:
        return []
    entries = [e for e in index.entries if e.mode != GITLINK and not e.intent_to_add]
    whole = objects.whole({ObjectID(entry.id) for entry in entries})
    return sorted({entry.path for entry in entries if entry.id not in whole})


def is_head_gone(objects: ObjectStore, head: Head) -> bool:
    if head.commit is None or objects.is_partial:
        return False
    try:
        read_commit(objects, head.commit)
    except MissingObject:
        return True
    return False


def is_any(repo: Repository) -> bool:
    index = staging.read_staged(repo).index
    return is_head_gone(repo.objects, repo.refs.head()) or bool(gone_of_index(repo.objects, index))


def leave_out(objects: ObjectStore, present: Present) -> None:
    """Have the present hold neither, and tell so. Where HEAD was is not known then: without its
    commit, its branch would be one that has none yet."""
    index = present.staged.index
    paths = gone_of_index(objects, index)
    has_head = not is_head_gone(objects, present.head)
    present.gone = (*_told(paths), *([] if has_head else ["the commit at HEAD is gone"]))
    if paths or not has_head:  # also of the latter, the scan cache shall not know
        present.restage(Staged(without(index, frozenset(paths)), present.staged.mtime_ns))
    if not has_head:
        present.head = Head(None, None)


def _told(paths: list[bytes]) -> Iterator[str]:
    yield from (f"what was staged of '{to_str(path)}' is gone" for path in paths[:_MOST_TOLD])
    if len(paths) > _MOST_TOLD:
        yield f"what was staged of {len(paths) - _MOST_TOLD} more files is gone"


def refusal(repo: Repository) -> Refused | None:
    """Why no rollback can begin, if that is because of the index or HEAD."""
    from shlex import quote  # for a hint that few see

    if is_head_gone(repo.objects, repo.refs.head()):
        return Refused(
            "the commit at HEAD is gone, and no checkpoint could hold it",
            hint="'git update-ref HEAD @{1}' goes back to where its branch was before, "
            "and leaves all files; then try again",
        )
    paths = gone_of_index(repo.objects, staging.read_staged(repo).index)
    if not paths:
        return None
    name = to_str(paths[0])
    return Refused(
        f"what was staged of '{name}' is gone, and no checkpoint could hold it",
        hint=f"'git add -- {quote(name)}' stages the file as it is now, "
        f"'git reset -- {quote(name)}' what HEAD has; then try again",
        details={"gone": [to_str(path) for path in paths]},
    )
