# SPDX-License-Identifier: MIT
"""What a rollback has done, or would do, for whoever asked for it."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt.engine import operation
from ckpt.engine.apply import Applied
from ckpt.engine.head import head_report
from ckpt.engine.plan import Plan
from ckpt.engine.prepare import Prepared
from ckpt.engine.recorded import Recorded
from ckpt.models import Checkpoint, HeadReport, RollbackResult, Skipped
from ckpt.paths import to_str
from ckpt.store.repository import Repository
from ckpt.values import replace


def foreseen(plan: Plan) -> Applied:
    """What there would be to report if all went well."""
    return Applied(
        written=[action.path for action in plan.writes],
        removed=[action.path for action in plan.removals],
    )


def report(
    repo: Repository,
    target: Recorded,
    prepared: Prepared,
    done: Applied,
    safety: Checkpoint | None,
    undo: str,
    *,
    dry_run: bool,
) -> RollbackResult:
    plan = prepared.plan
    return RollbackResult(
        target=target.checkpoint,
        safety=safety,
        written=tuple(map(to_str, done.written)),
        removed=tuple(map(to_str, done.removed)),
        kept=listed(plan.kept),
        skipped=listed({**plan.blocked, **done.blocked}),
        folders_changed=plan.changes_folders,
        index_changed=prepared.changes_index,
        head=_head(repo, target, prepared),
        dry_run=dry_run,
        undo_command=None if safety is None else undo,
        foreign=target.is_foreign,
    )


def listed(paths: Mapping[bytes, str]) -> tuple[Skipped, ...]:
    """Paths with the reason why they stay as they are."""
    return tuple(Skipped(to_str(path), reason) for path, reason in sorted(paths.items()))


def _head(repo: Repository, target: Recorded, prepared: Prepared) -> HeadReport:
    present = prepared.present
    head = head_report(repo, present.head, target, prepared.move)
    if not prepared.changes_operation:
        return head
    was, then = present.operation.files, target.operation.files
    return replace(head, operation=operation.report(was, then))
