# SPDX-License-Identifier: MIT
"""Prune: let go of what no rule keeps, through the trash, and empty the trash in time.

What to let go is decided in `retention`; here it is done, each ref only if it is still what was
read. What was dropped more than a week ago goes for good: its objects are git's to collect.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from ckpt.engine import trash
from ckpt.engine.catalog import Catalog
from ckpt.engine.retention import Decision, Policy, decide
from ckpt.errors import CkptError
from ckpt.store.repository import Repository
from ckpt.values import replace, value_class

IN_TRASH = timedelta(days=7)


@value_class
class PruneResult:
    """`emptied` are the ids that went from the trash for good."""

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
) -> PruneResult:
    """Decide on all checkpoints of the repository, and drop what goes.

    The trash is emptied of what is older than a week, or altogether.
    """
    now = now or datetime.now(timezone.utc)
    needed = trash.needed_by_rollbacks(repo)
    decisions = decide(list(Catalog(repo)), policy, now, needed)
    if not dry_run:
        decisions = [_carried_out(repo, decision) for decision in decisions]
    limit = None if empties_trash else (now - IN_TRASH).date()
    emptied = [] if dry_run else trash.empty(repo, limit)
    return PruneResult(tuple(decisions), tuple(emptied), dry_run)


def _carried_out(repo: Repository, decision: Decision) -> Decision:
    if decision.keep:
        return decision
    try:
        trash.drop(repo, decision.checkpoint)
    except CkptError as error:  # somebody pinned, dropped or needs it since
        return replace(decision, keep=True, reasons=(error.message,))
    return decision
