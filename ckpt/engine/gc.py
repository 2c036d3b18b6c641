# SPDX-License-Identifier: MIT
"""Give space back: expire the trash, clear what killed processes left, pack objects and refs.

Each step stands for itself, and whatever kills it leaves nothing that the next time would not put
right. Nothing is taken that anything names: only loose copies of what a pack holds, verified.
What nothing names any more is git's to collect, in its own time.
"""

from __future__ import annotations

from datetime import datetime, timezone
from time import monotonic

from ckpt.engine import left_over, trash
from ckpt.engine.prune import IN_TRASH
from ckpt.engine.ref_packing import MANY_REFS, pack_refs
from ckpt.engine.repacking import GRACE, MANY_LOOSE, have_piled_up, repack_checkpoints
from ckpt.engine.space_record import measured
from ckpt.errors import Busy
from ckpt.store.kernel_lock import gc_lock, prune_lock
from ckpt.store.repack import Repacked
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.engine.space import Space
    from ckpt.store.repository import Repository

_PATIENCE = 10.0
_PATIENCE_WITH_PRUNE = 0.5
_MOST_SECONDS = 1.0
_LEAST = 0.8  # seconds, or too little would go into the pack
_MOST_BY_ITSELF = 400  # checkpoints


@value_class
class Collected:
    """`emptied` are the ids that left the trash, `cleared` the paths of what was left over."""

    emptied: tuple[str, ...]
    cleared: tuple[str, ...]
    repacked: Repacked
    packed_refs: int
    space: Space


def collect(
    repo: Repository, *, force: bool = False, grace: float = GRACE, now: datetime | None = None
) -> Collected:
    """Do all of it; with `force`, pack however few there are."""
    now = now or datetime.now(timezone.utc)
    repo.check_writable()
    with gc_lock(repo.common_dir, timeout=_PATIENCE):
        emptied = _expire_trash(repo, now)
        at_least = 1 if force else MANY_LOOSE
        repacked = repack_checkpoints(repo, at_least=at_least, grace=grace)
        cleared = left_over.clear(repo)  # after that, which goes by what a killed gc left
        refs = pack_refs(repo, 1 if force else MANY_REFS)
        return Collected(tuple(emptied), tuple(cleared), repacked, refs, measured(repo))


def collect_by_itself(repo: Repository, seconds: float) -> Repacked:
    """Pack the oldest objects that have piled up, in so many seconds, for nobody asked: rarely,
    as each time makes a pack, and not at all while somebody else is at it."""
    if seconds < _LEAST or not have_piled_up(repo):
        return Repacked()
    until = monotonic() + min(seconds, _MOST_SECONDS) / 2  # the rest goes to finish what was begun
    try:
        with gc_lock(repo.common_dir, timeout=0):
            return repack_checkpoints(
                repo, most=_MOST_BY_ITSELF, has_time=lambda: monotonic() < until
            )
    except Busy:
        return Repacked()


def _expire_trash(repo: Repository, now: datetime) -> list[str]:
    try:
        with prune_lock(repo.common_dir, timeout=_PATIENCE_WITH_PRUNE):
            return trash.empty(repo, (now - IN_TRASH).date())
    except Busy:  # whoever prunes does the same
        return []
