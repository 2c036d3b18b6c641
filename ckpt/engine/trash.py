# SPDX-License-Identifier: MIT
"""The trash: drop checkpoints, restore them, and prune by policy.

A checkpoint in the trash has a ref under the day it was dropped, and is deleted after a week; git
gc prunes its objects. `retention` decides what to prune. One process at a time drops checkpoints,
and never one that an interrupted rollback needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import date, datetime, timedelta, timezone
from math import inf
from time import monotonic, time
from typing import NamedTuple

from ckpt.disk import prune_lock
from ckpt.engine import snapshot
from ckpt.engine.catalog import Catalog, changed_meanwhile, load
from ckpt.engine.journal import needed_by_rollbacks
from ckpt.engine.retention import Decision, decide
from ckpt.engine.space import Space, TooMany
from ckpt.engine.trigger_log import Success, TriggerLog
from ckpt.errors import Busy, CkptError, NotFound, Refused, UsageError, as_ckpt_error
from ckpt.git.objects import ObjectID
from ckpt.git.record import made_here
from ckpt.git.refs import Change
from ckpt.git.repository import Repository
from ckpt.ids import matches
from ckpt.models import REF_PREFIX, TRASH_PREFIX, Checkpoint, Dropped
from ckpt.settings.settings import Policy, Settings

_PATIENCE = 60.0  # seconds to wait for another process that drops or restores


def drop(repo: Repository, checkpoint: Checkpoint) -> None:
    """Move a checkpoint to the trash if its ref is unchanged."""
    with prune_lock(repo.common_dir, timeout=_PATIENCE):
        repo.refs.clear_dead()
        if move_all_aside(repo, [checkpoint]):
            return
        needed = needed_by_rollbacks(repo)
        if checkpoint.id not in needed:
            raise changed_meanwhile(checkpoint)
        place = needed[checkpoint.id] or repo.worktree
        raise Refused(
            f"a rollback that is not over needs checkpoint '{checkpoint.id}'",
            hint=f"if it was interrupted: git ckpt rollback --continue, or --abort, in '{place}'",
        )


def move_all_aside(repo: Repository, checkpoints: Sequence[Checkpoint]) -> set[str]:
    """Move checkpoints to the trash and return their ids, without those changed, removed or locked
    meanwhile, or needed by a rollback. The caller holds the lock."""
    needed = needed_by_rollbacks(repo)
    today = f"{datetime.now(timezone.utc):%Y%m%d}"
    changes: dict[bytes, tuple[ObjectID, Change]] = {}
    for found in checkpoints:
        if found.id not in needed:
            # If the clock is behind, the checkpoint must not expire once it is set right.
            day, commit = max(today, found.id[:8]), ObjectID(found.commit.encode())
            place = f"{TRASH_PREFIX}{day}/{found.id}".encode()
            changes[found.ref.encode()] = commit, (place, commit)
    done = repo.refs.change(changes)
    return {ref.decode().removeprefix(REF_PREFIX) for ref in done}


def dropped(repo: Repository) -> list[Dropped]:
    """Return the trash, newest checkpoint first, without those that still have their own ref after
    an interrupted drop or restore."""
    there = repo.refs.checkpoints()
    items = {item.checkpoint.id: item for item in _all(repo)}
    return [i for name, i in items.items() if there.get(name) != i.checkpoint.commit.encode()]


def _all(repo: Repository, before: date | None = None) -> list[Dropped]:
    """Return the trash, or what was dropped before a day; of two with one id, the one dropped last
    comes second."""
    found, refs = [], sorted(repo.refs.trash().items())
    known = made_here(repo.common_dir)
    for name, commit in refs:
        word, _, checkpoint_id = name.partition("/")
        try:  # `strptime` takes 5 ms to import
            day = date(int(word[:4]), int(word[4:6]), int(word[6:]))
            if before is None or day < before:
                checkpoint = load(repo, checkpoint_id, commit, known)
                found.append(Dropped(checkpoint, day, TRASH_PREFIX + name))
        except (ValueError, CkptError):  # not created by ckpt
            continue
    return sorted(found, key=lambda item: item.checkpoint.id, reverse=True)


def empty(repo: Repository, before: date | None) -> list[str]:
    """Delete what was dropped before a day, or the whole trash; return the ids."""
    items = {item.ref.encode(): item.checkpoint for item in _all(repo, before)}
    changes = {ref: (found.commit.encode(), None) for ref, found in items.items()}
    gone = repo.refs.change(changes)
    return [*dict.fromkeys(found.id for ref, found in items.items() if ref in gone)]


def restore(repo: Repository, word: str) -> Checkpoint:
    """Restore a dropped checkpoint by its id, its name or a unique prefix."""
    if not word or word.startswith("-"):
        raise UsageError(f"'{word}' is not a checkpoint", hint="git ckpt trash")
    with prune_lock(repo.common_dir, timeout=_PATIENCE):
        repo.refs.clear_dead()
        items = [*{item.checkpoint.id: item for item in _all(repo)}.values()]
        found = [d for d in items if word in (d.checkpoint.id, d.checkpoint.name)][:1]
        found = found or [d for d in items if matches(d.checkpoint.id, word)]
        if not found:
            hint = "git ckpt trash, or git ckpt rescue"
            raise NotFound(f"'{word}' is not in the trash", hint=hint)
        if len(found) > 1:
            raise UsageError(f"'{word}' is ambiguous", hint="git ckpt trash")
        checkpoint = found[0].checkpoint
        commit = ObjectID(checkpoint.commit.encode())
        is_new = repo.refs.create(checkpoint.ref.encode(), commit)
        if not is_new and repo.refs.checkpoint(checkpoint.id) != commit:
            raise Refused(f"another checkpoint '{checkpoint.id}' is there", hint="git ckpt list")
        repo.refs.remove(found[0].ref.encode(), commit)
        return checkpoint


# -- prune: drop by policy and empty the trash

IN_TRASH = timedelta(days=7)
_TRIGGER = "ckpt-prune"
_MANY_REFS = 100
_LEAST = 0.2  # seconds needed to begin
_MOST_READS = 20_000  # trees, to measure checkpoints


class PruneResult(NamedTuple):
    """`emptied` are the ids deleted from the trash or, with `dry_run`, to be deleted."""

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
    patience: float = _PATIENCE,
    made: str | None = None,
) -> PruneResult:
    """Drop the checkpoints that the policy does not keep; delete from the trash what is older than
    a week, or all. `made` is the checkpoint just taken, if any: it stays, and the time to measure
    checkpoints is limited."""
    before = None if empties_trash else _due()
    with nullcontext() if dry_run else prune_lock(repo.common_dir, timeout=patience):
        found = _decisions(repo, policy, made)
        going = [one.checkpoint for one in found if not one.keep]
        if dry_run:
            old = [item.checkpoint for item in _all(repo, before)]
            emptied = [one.id for one in (going + old if empties_trash else old)]
            return PruneResult(tuple(found), tuple(dict.fromkeys(emptied)), True)
        repo.refs.clear_dead()
        moved = move_all_aside(repo, going)
        # Nothing is said of those changed or needed meanwhile.
        found = [one for one in found if one.keep or one.checkpoint.id in moved]
        emptied = empty(repo, before)
        with suppress(Busy):
            repo.refs.pack(_MANY_REFS)
        return PruneResult(tuple(found), tuple(emptied), False)


def prune_by_itself(repo: Repository, settings: Settings, made: str, seconds: float) -> None:
    """Prune after a save, if enough `seconds` are left; `made` is the checkpoint just taken.
    Another process that is pruning does so for all worktrees."""
    if seconds < _LEAST:
        return
    started = monotonic()
    log = TriggerLog(repo.private_dir)
    try:
        if settings.prunes_by_itself and settings.allows(_TRIGGER):
            done = prune(repo, settings.policy, patience=0, made=made)
            outcome = f"dropped {len(done.dropped)}" if done.dropped else "nothing to drop"
            log.note_success(_TRIGGER, Success(time(), monotonic() - started, outcome, ""))
    except Busy:
        pass
    except Exception as error:  # whatever fails here, the save has succeeded
        log.note_failure(_TRIGGER, time(), as_ckpt_error(error).message)
    snapshot.start_again(repo.private_dir)


def _due() -> date:
    """Return the day before which dropped checkpoints expire."""
    return (datetime.now(timezone.utc) - IN_TRASH).date()


def _decisions(repo: Repository, policy: Policy, made: str | None) -> list[Decision]:
    checkpoints = list(Catalog(repo))
    needed = dict.fromkeys(needed_by_rollbacks(repo), "needed by a rollback")
    most_reads = inf
    if made is not None:
        needed[made], most_reads = "just taken", _MOST_READS
    now = datetime.now(timezone.utc)
    try:
        fits = None if policy.max_bytes is None else Space(repo, most_reads).add
        return decide(checkpoints, policy, now, needed, fits)
    except TooMany:
        return decide(checkpoints, policy, now, needed)


# -- gc, without objects: git packs and prunes those


class Collected(NamedTuple):
    """`emptied` are the ids deleted from the trash, `cleared` the paths of removed leftover files;
    `loose` and `loose_bytes` are left to git gc."""

    emptied: tuple[str, ...]
    cleared: tuple[str, ...]
    packed_refs: int
    loose: int
    loose_bytes: int


def collect(repo: Repository) -> Collected:
    """Delete expired checkpoints from the trash, remove leftover files and pack refs."""
    with prune_lock(repo.common_dir, timeout=_PATIENCE):
        emptied = empty(repo, _due())
    cleared, packed = repo.refs.clear_dead(), 0
    with suppress(Busy):
        packed = repo.refs.pack(1)
    sizes = [status.st_size for _, status in repo.objects.loose_files()]
    return Collected(tuple(emptied), tuple(cleared), packed, len(sizes), sum(sizes))
