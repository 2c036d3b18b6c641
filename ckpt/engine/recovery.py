# SPDX-License-Identifier: MIT
"""Continue or abort an interrupted rollback.

Both roll back the paths in the journal, from the present to one of its two checkpoints.
If anything differs from both, the present is saved in a new safety checkpoint first. Only the
checkpoint to return to is required; without the other one, the present is always saved.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from ckpt.engine import journal
from ckpt.engine.apply import limited
from ckpt.engine.catalog import Catalog
from ckpt.engine.checkpoint import Recorded
from ckpt.engine.journal import ABORT, CONTINUE, FolderChange, Journal
from ckpt.engine.plan import Plan
from ckpt.engine.prepare import RollbackOptions
from ckpt.engine.rollback import run
from ckpt.engine.working_state import Present
from ckpt.errors import CkptError, NotFound, Refused
from ckpt.git import index as staging
from ckpt.git.operation import ORIG_HEAD
from ckpt.git.repository import Repository
from ckpt.models import Checkpoint, RollbackResult
from ckpt.settings.settings import Settings
from ckpt.worktree.write import Worktree


def recover(repo: Repository, settings: Settings, *, forwards: bool) -> RollbackResult:
    """Continue to the target if `forwards`, else abort, which returns to the safety checkpoint."""
    return run(repo, settings, lambda: _choose(repo, forwards=forwards))


def _choose(repo: Repository, *, forwards: bool) -> tuple[Checkpoint, RollbackOptions]:
    record = journal.read(repo.private_dir)
    goal, other = _find(repo, record, forwards), None
    if goal is None:
        name = record.target if forwards else record.safety
        way = f"try '{ABORT if forwards else CONTINUE}'; 'git ckpt doctor' tells how to give it up"
        raise Refused(
            f"the interrupted rollback needs checkpoint '{name}', which is gone",
            hint=f"'git ckpt rescue' may find it; or {way}",
        )
    with suppress(CkptError):  # optional, so its errors are ignored
        begin = _find(repo, record, not forwards)
        if begin is not None:
            found = Recorded(repo, begin)
            _ = found.manifest, found.index, found.operation
            other = found
    options = RollbackOptions(
        paths=record.paths,
        head=record.asked_head,
        index=record.asked_index,
        yes=True,
        earlier=record,
        resumes=Resumed(record, forwards, other),
    )
    return goal, options


def _find(repo: Repository, record: Journal, forwards: bool) -> Checkpoint | None:
    """Return the checkpoint to continue or abort to; None if it is gone."""
    with suppress(NotFound, Refused):
        return Catalog(repo).get(record.target if forwards else record.safety)
    return None


@dataclass(frozen=True)
class Resumed:
    """An interrupted rollback that is continued (`forwards`) or aborted; `other` is the checkpoint
    not returned to, None if that is gone."""

    record: Journal
    forwards: bool
    other: Recorded | None

    def safety(self, target: Recorded) -> Checkpoint | None:
        """Return the checkpoint of the state before the rollback."""
        state = self.other if self.forwards else target
        return None if state is None else state.checkpoint

    # -- limits of the recovery

    def clear_unfinished(self, worktree: Worktree) -> None:
        """Remove the temporary files of the interrupted rollback."""
        for folder in {path.rpartition(b"/")[0] for path in self.record.files}:
            with suppress(PermissionError):  # never saved, and files there are listed as blocked
                worktree.clear_unfinished(folder)

    def only_files(self, plan: Plan) -> Plan:
        files = {*self.record.files}
        return plan._replace(actions=tuple(a for a in plan.actions if a.path in files))

    def folders(self, present: Present) -> tuple[FolderChange, ...]:
        """Return the journal's directory changes, without directories removed since."""
        changes = self.record.folders
        if not self.forwards:
            changes = tuple(FolderChange(c.path, c.after, c.before) for c in changes)
        now = present.folders
        return tuple(c._replace(before=c.before and now.get(c.path, c.before)) for c in changes)

    # -- concurrent changes

    def has_edits(self, target: Recorded, present: Present, plan: Plan, record: Journal) -> bool:
        """Return whether anything to be changed differs from both checkpoints."""
        if self.other is None:
            return True
        states, now, move = (target, self.other), present.staged, self.record.head
        if record.head is not None:
            if move is None or present.head not in (move.before, move.after):
                return True
            commits = {None, move.before.commit, move.after.commit}
            commits.update(end for each in move.branches for end in (each.before, each.after))
            if not commits.issuperset(each.before for each in record.head.branches):
                return True
        if record.asked_index:
            indexes = (limited(state.index, now, self.record.paths) for state in states)
            if not any(staging.same(now, index) for index in indexes):
                return True
        files = ((a.path, a.before) for a in plan.actions if a.before is not None)
        if any(now not in [state.file_at(path) for state in states] for path, now in files):
            return True
        known = [state.operation.contents for state in states]
        found = present.operation.contents.items() if record.operation else ()
        return any(
            name != ORIG_HEAD and all(state.get(name) != data for state in known)
            for name, data in found
        )
