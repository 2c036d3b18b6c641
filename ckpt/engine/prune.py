# SPDX-License-Identifier: MIT
"""Prune: let go of what no rule keeps, through the trash, and empty the trash in time.

What to let go is decided in `retention`; here it is done, each ref only if it is still what was
read, and by one process at a time. What was dropped more than a week ago goes for good: its
objects are git's to collect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from time import monotonic, time
from typing import TYPE_CHECKING

from ckpt.engine import snapshot, trash
from ckpt.engine.catalog import Catalog
from ckpt.engine.journal import hidden_worktrees, needed_by_rollbacks
from ckpt.engine.nested import linked_from_around
from ckpt.engine.retention import Decision, decide
from ckpt.engine.trash import pack_refs
from ckpt.errors import Busy, CkptError
from ckpt.git import record
from ckpt.git.repository import Repository
from ckpt.git.trigger_log import Success, TriggerLog
from ckpt.locks import prune_lock
from ckpt.models import Checkpoint, Kind
from ckpt.settings.policy import Policy
from ckpt.settings.settings import Settings
from ckpt.settings.sources import TRIGGERS

if TYPE_CHECKING:
    from ckpt.engine.retention import Left


IN_TRASH = timedelta(days=7)
_PATIENCE = 60.0
_AT_ONCE = 500  # refs that are locked together
_LATE = "to be dropped, when there is time"
_CHANGED = "pinned, dropped, locked or needed by somebody meanwhile"


@dataclass(frozen=True)
class PruneResult:
    """`emptied` are the ids that went from the trash for good, or would."""

    decisions: tuple[Decision, ...]
    emptied: tuple[str, ...]
    dry_run: bool

    @property
    def dropped(self) -> tuple[Decision, ...]:
        return tuple(decision for decision in self.decisions if not decision.keep)


def prune(
    repo: Repository,
    policy: Policy,
    *,
    dry_run: bool = False,
    empties_trash: bool = False,
    now: datetime | None = None,
    kinds: Collection[Kind] | None = None,
    patience: float = _PATIENCE,
) -> PruneResult:
    """Decide on all checkpoints of the repository, or those of some kinds, and drop what goes.

    The trash is emptied of what is older than a week, or altogether. Another process that prunes
    is waited for.
    """
    now = now or datetime.now(timezone.utc)

    def decisions() -> list[Decision]:
        every = look(repo, policy, now)
        return [one for one in every if kinds is None or one.checkpoint.kind in kinds]

    if dry_run:
        found = decisions()
        dropped = [one.checkpoint.id for one in found if not one.keep and empties_trash]
        emptied = trash.ids(repo, _last_day(now, empties_trash))
        return PruneResult(tuple(found), (*dict.fromkeys([*dropped, *emptied]),), True)
    with prune_lock(repo.common_dir, timeout=patience):
        return carry_out(repo, decisions(), now, empties_trash=empties_trash)


def look(
    repo: Repository,
    policy: Policy,
    now: datetime,
    needed: Mapping[str, str] | None = None,
    *,
    most_reads: int | None = None,
) -> list[Decision]:
    """What becomes of each checkpoint; `needed` stay whatever the rules, each for its reason.

    If it takes more than so many reads to find out what they hold, there is no cap on that.
    """
    policy.check()
    checkpoints = list(Catalog(repo))
    left = None if policy.max_bytes is None else _measured(repo, most_reads)
    must_stay = {
        **linked_from_around(repo),
        **_of_others(repo, checkpoints),
        **dict.fromkeys(needed_by_rollbacks(repo), "needed by a rollback"),
        **(needed or {}),
    }
    foreign = {checkpoint.id for checkpoint in checkpoints if checkpoint.foreign}
    return decide(checkpoints, policy, now, must_stay, left, foreign)


def _of_others(repo: Repository, checkpoints: list[Checkpoint]) -> dict[str, str]:
    hidden = hidden_worktrees(repo)
    names = (one.id for one in checkpoints if hidden and one.worktree in hidden)
    return dict.fromkeys(names, "of another user's worktree")


def _measured(repo: Repository, most_reads: int | None) -> Left | None:
    from ckpt.engine.space import TooMuch, measure

    try:
        return measure(repo, most_reads)
    except TooMuch:
        return None


def carry_out(
    repo: Repository,
    decisions: list[Decision],
    now: datetime,
    *,
    empties_trash: bool = False,
    has_time: Callable[[], bool] = lambda: True,
) -> PruneResult:
    """Drop what goes, as long as there is time; what is not reached stays. The caller holds the
    lock."""
    repo.refs.clear_dead()
    going = [one.checkpoint for one in decisions if not one.keep]
    batches = [going[start : start + _AT_ONCE] for start in range(0, len(going), _AT_ONCE)]
    fate: dict[str, str | None] = {}  # by id: why it stays, if it does
    for batch in batches:
        gone = trash.move_all_aside(repo, batch) if has_time() else None
        for checkpoint in batch:
            fate[checkpoint.id] = _LATE if gone is None else _CHANGED
            if gone is not None and checkpoint.id in gone:
                fate[checkpoint.id] = None
    done = [_carried_out(decision, fate) for decision in decisions]
    emptied = trash.empty(repo, _last_day(now, empties_trash), has_time)
    record.tidy(repo.common_dir, lambda: _existing(repo))
    if has_time():
        pack_refs(repo)
    return PruneResult(tuple(done), tuple(emptied), False)


def _last_day(now: datetime, empties_trash: bool) -> date | None:
    """What was dropped before goes from the trash; None: everything."""
    return None if empties_trash else (now - IN_TRASH).date()


def _carried_out(decision: Decision, fate: Mapping[str, str | None]) -> Decision:
    reason = fate.get(decision.checkpoint.id)
    return decision if reason is None else decision._replace(keep=True, reasons=(reason,))


def _existing(repo: Repository) -> set[str]:
    """The ids of all checkpoints, those in the trash included."""
    refs = repo.refs
    return {*refs.checkpoints(), *(name.rpartition("/")[2] for name in refs.trash())}


# -- Retention by itself, after a save: what no rule keeps goes to the trash, and the trash in time

TRIGGER = "ckpt-prune"
_LEAST = 0.2  # seconds, or it is not worth to begin
_MOST_READS = 200_000  # objects, to find out how much checkpoints hold


def prune_by_itself(repo: Repository, settings: Settings, made: str, seconds: float) -> None:
    """Drop what no rule keeps, in so many seconds; `made` is the checkpoint that was just taken."""
    if seconds < _LEAST:
        return
    started = monotonic()
    try:
        if settings.prunes_by_itself and settings.allows(TRIGGER):
            result = _prune(repo, settings, made, lambda: monotonic() - started < seconds)
            if result is not None:
                success = Success(time(), monotonic() - started, _told(result), "")
                _log(repo).note_success(TRIGGER, success)
    except Exception as error:  # nobody asked for it: whatever it is, the save has succeeded
        _log(repo).note_failure(TRIGGER, time(), _message(error))
    if monotonic() - started < seconds:
        snapshot.start_again(repo.private_dir)


def _prune(
    repo: Repository, settings: Settings, made: str, has_time: Callable[[], bool]
) -> PruneResult | None:
    """None if another process prunes, for all worktrees."""
    from contextlib import ExitStack
    from datetime import datetime, timezone

    from ckpt.locks import prune_lock

    now = datetime.now(timezone.utc)
    with ExitStack() as held:
        try:
            held.enter_context(prune_lock(repo.common_dir, timeout=0))
        except Busy:
            return None
        needed = {made: "just taken"}
        decisions = look(repo, settings.policy, now, needed, most_reads=_MOST_READS)
        return carry_out(repo, decisions, now, has_time=has_time)


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
