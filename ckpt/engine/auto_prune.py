# SPDX-License-Identifier: MIT
"""Retention by itself, after a save: what no rule keeps goes to the trash, and the trash in time.

Nobody asked for it, so it is in nobody's way: it takes no more than what is left of the save's
time, leaves it to another process that is at it already, and whatever goes wrong is noted for
`status` and not raised. The checkpoint that was just taken never goes.
"""

from __future__ import annotations

from time import monotonic, time

from ckpt.engine import tally
from ckpt.errors import Busy, CkptError
from ckpt.setting_types import TRIGGERS
from ckpt.store.repository import Repository
from ckpt.store.trigger_log import Success, TriggerLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ckpt.engine.prune import PruneResult
    from ckpt.settings import Settings

TRIGGER = "ckpt-prune"
_LEAST = 0.2  # seconds, or it is not worth to begin
_MOST_READS = 200_000  # objects, to find out how much checkpoints hold


def prune_by_itself(
    repo: Repository, settings: Callable[[], Settings], made: str, seconds: float
) -> None:
    """Drop what no rule keeps, in so many seconds; `made` is the checkpoint that was just taken."""
    if seconds < _LEAST:
        return
    started = monotonic()
    try:
        chosen = settings()
        if chosen.prunes_by_itself and chosen.allows(TRIGGER):
            result = _prune(repo, chosen, made, lambda: monotonic() - started < seconds)
            if result is not None:
                success = Success(time(), monotonic() - started, _told(result), "")
                _log(repo).note_success(TRIGGER, success)
                _pack(repo, seconds - (monotonic() - started))
    except Exception as error:  # nobody asked for it: whatever it is, the save has succeeded
        _log(repo).note_failure(TRIGGER, time(), _message(error))
    if monotonic() - started < seconds:
        tally.start_again(repo.private_dir)


def _prune(
    repo: Repository, settings: Settings, made: str, has_time: Callable[[], bool]
) -> PruneResult | None:
    """None if another process prunes, for all worktrees."""
    from contextlib import ExitStack
    from datetime import datetime, timezone

    from ckpt.engine.prune import carry_out, look
    from ckpt.store.kernel_lock import prune_lock

    now = datetime.now(timezone.utc)
    with ExitStack() as held:
        try:
            held.enter_context(prune_lock(repo.common_dir, timeout=0))
        except Busy:
            return None
        needed = {made: "just taken"}
        decisions = look(repo, settings.policy, now, needed, most_reads=_MOST_READS)
        return carry_out(repo, decisions, now, has_time=has_time)


def _pack(repo: Repository, seconds: float) -> None:
    """Loose objects into a pack, once in hundreds of saves, if time is left."""
    from ckpt.engine.gc import collect_by_itself

    collect_by_itself(repo, seconds)


def _told(result: PruneResult) -> str:
    counts = [
        (len(result.dropped), "dropped {}"),
        (len(result.emptied), "removed {} from the trash"),
    ]
    return ", ".join(text.format(count) for count, text in counts if count) or "nothing to drop"


def _log(repo: Repository) -> TriggerLog:
    return TriggerLog(repo.private_dir, TRIGGERS)


def _message(error: Exception) -> str:
    if isinstance(error, CkptError):
        return error.message
    return f"{type(error).__name__}: {error}"
