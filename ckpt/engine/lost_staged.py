# SPDX-License-Identifier: MIT
"""What was staged and is gone from the object store, as after a power cut: git does not flush it.

Nothing brings it back. But it is no reason to save nothing of all else, which may be about to be
overwritten by the very command that mends the index: a checkpoint is made without it, and is
partial. A rollback replaces the index, so it waits until the index is mended.
"""

from __future__ import annotations

from ckpt.engine.restage import without
from ckpt.errors import Refused
from ckpt.paths import to_str
from ckpt.store import staging
from ckpt.store.objects import ObjectID
from ckpt.store.staging import Staged
from ckpt.store.trees import GITLINK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.engine.present import Present
    from ckpt.store.index import Index
    from ckpt.store.objects import ObjectStore
    from ckpt.store.repository import Repository

_MOST_TOLD = 10


def lost(objects: ObjectStore, index: Index) -> list[bytes]:
    """Paths of which something is staged that is not there; in a partial clone nobody can tell."""
    if objects.is_partial:
        return []
    entries = [e for e in index.entries if e.mode != GITLINK and not e.intent_to_add]
    gone = objects.missing({ObjectID(entry.id) for entry in entries})
    return sorted({entry.path for entry in entries if entry.id in gone})


def is_any(repo: Repository) -> bool:
    return bool(lost(repo.objects, staging.read_staged(repo).index))


def leave_out(objects: ObjectStore, present: Present) -> None:
    """Have the present hold the index but for what is gone of it."""
    index = present.staged.index
    paths = lost(objects, index)
    if paths:
        held = without(index, frozenset(paths))
        present.restage(Staged(held, present.staged.mtime_ns))
        present.lost = tuple(paths)


def warnings(present: Present) -> tuple[str, ...]:
    told = [f"what was staged of '{to_str(p)}' is gone" for p in present.lost[:_MOST_TOLD]]
    more = len(present.lost) - len(told)
    return (*told, f"what was staged of {more} more is gone") if more else tuple(told)


def refusal(repo: Repository) -> Refused | None:
    """Why no rollback can begin, if that is why."""
    paths = lost(repo.objects, staging.read_staged(repo).index)
    if not paths:
        return None
    from shlex import quote  # for a hint that few see

    name = to_str(paths[0])
    return Refused(
        f"what was staged of '{name}' is gone, and no checkpoint could hold it",
        hint=f"'git add -- {quote(name)}' stages the file as it is now, "
        f"'git reset -- {quote(name)}' what HEAD has; then try again",
        details={"lost": [to_str(path) for path in paths]},
    )
