# SPDX-License-Identifier: MIT
"""A command between two looks at the worktree: what `git ckpt run` does.

A checkpoint before, without which the command does not run; then the command; then what it
changed, and a checkpoint more or the way back, as was asked. Everything that happened since
the first checkpoint counts as the command's: going back is whole, HEAD and all, and takes away
what was created since without asking. Whatever fails after the command has ended is told, and
does not change how the run ends: that is for the command to say.
"""

from __future__ import annotations

from datetime import datetime, timezone

from ckpt import ids
from ckpt.errors import CkptError, NotFound, Refused
from ckpt.models import GitState, Kind
from ckpt.values import replace, value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.manager import CheckpointManager
    from ckpt.models import Checkpoint, DiffResult, RollbackResult, SaveResult
    from ckpt.process.child import Ended

TRIGGER = "run"


@value_class
class Moved:
    """HEAD before and after; `commits` are those that it has gained, None if nobody can tell."""

    before: GitState
    after: GitState
    commits: int | None


@value_class
class RunResult:
    """`changed` is None if that was not asked, or cannot be told; so is `head`, or it stayed.

    `problems` came up after the command had ended, each with its hint.
    """

    command: tuple[str, ...]
    checkpoint: Checkpoint
    ended: Ended
    changed: DiffResult | None = None
    head: Moved | None = None
    after: SaveResult | None = None
    rollback: RollbackResult | None = None
    problems: tuple[CkptError, ...] = ()

    @property
    def rollback_command(self) -> str:
        return f"git ckpt rollback --head {self.checkpoint.id}"


def begin(manager: CheckpointManager, name: str | None, session: str | None) -> Checkpoint:
    """Take the checkpoint before; raises if there is none to go back to."""
    if manager.rollback_interrupted:
        raise Refused(
            "a rollback was interrupted in this worktree",
            hint="git ckpt rollback --continue, or git ckpt rollback --abort",
        )
    if session is None:
        session = "run-" + ids.new_id(datetime.now(timezone.utc), None)
    saved = manager.create(name, kind=Kind.SESSION, session=session, trigger=TRIGGER)
    if saved.checkpoint is None:
        raise CkptError(f"no checkpoint was taken: {saved.reason}", hint="git ckpt status")
    return saved.checkpoint


def look(manager: CheckpointManager, result: RunResult) -> RunResult:
    """What has changed since the checkpoint before, and where HEAD has gone."""
    try:
        _find_again(manager, result.checkpoint)
        return replace(
            result,
            changed=manager.diff(result.checkpoint, patch=False),
            head=_moved(manager, result.checkpoint),
        )
    except Exception as error:  # whatever it is, the way back comes after it
        return _with_problem(result, "cannot tell what changed", error)


def save_after(manager: CheckpointManager, result: RunResult) -> RunResult:
    before = result.checkpoint
    name = None if before.name is None else f"{before.name}-after"
    try:
        saved = manager.create(name, kind=Kind.AUTO, session=before.session, trigger=TRIGGER)
    except (CkptError, OSError) as error:
        return _with_problem(result, "no checkpoint was taken after it", error)
    return replace(result, after=saved)


def roll_back(manager: CheckpointManager, result: RunResult) -> RunResult:
    """Return to the checkpoint before. What the command did is in the safety checkpoint."""
    from ckpt.engine.head import WITHOUT_HEAD

    try:
        _find_again(manager, result.checkpoint)
        done = manager.rollback(result.checkpoint, head=True, yes=True)
    except (CkptError, OSError) as error:
        if isinstance(error, CkptError) and error.hint == WITHOUT_HEAD:
            error.hint = f"leave HEAD where it is: git ckpt rollback {result.checkpoint.id}"
        return _with_problem(result, "not rolled back", error)
    return replace(result, rollback=done)


def _find_again(manager: CheckpointManager, checkpoint: Checkpoint) -> None:
    """Many checkpoints may have been taken since, so that retention has dropped it."""
    try:
        manager.get(checkpoint)
    except NotFound:
        manager.restore_dropped(checkpoint)


def _moved(manager: CheckpointManager, before: Checkpoint) -> Moved | None:
    from ckpt.store.history import ahead_behind
    from ckpt.store.objects import ObjectID
    from ckpt.store.refs import branch_name

    repo = manager.repository
    head = repo.refs.head()
    then = GitState(before.head_commit, before.branch)
    now = GitState(None if head.commit is None else head.commit.decode(), branch_name(head))
    if then == now:
        return None
    counts = None
    if head.commit is not None and then.commit_hash is not None:
        counts = ahead_behind(repo.objects, head.commit, ObjectID(then.commit_hash.encode()))
    return Moved(then, now, None if counts is None else counts[0])


def _with_problem(result: RunResult, what: str, error: Exception) -> RunResult:
    told = error.strerror if isinstance(error, OSError) else None
    problem = error if isinstance(error, CkptError) else CkptError(told or str(error))
    problem.message = f"{what}: {problem.message}"
    return replace(result, problems=(*result.problems, problem))
