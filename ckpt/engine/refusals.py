# SPDX-License-Identifier: MIT
"""When a rollback does not begin, and what it says when it stops half way."""

from __future__ import annotations

import os
from contextlib import contextmanager

from ckpt.engine import journal
from ckpt.engine.changes import HeadMove
from ckpt.engine.pending import is_interrupted
from ckpt.errors import Busy, CkptError, Refused, RollbackError, disk_hint
from ckpt.paths import to_str
from ckpt.store.lock import check_free, clear_own_locks
from ckpt.store.objects import MissingObject
from ckpt.store.repository import Repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from typing import TypeAlias

    from ckpt.engine.prepare import Prepared

    Stopped: TypeAlias = OSError | Busy | MissingObject

MAX_UNTRACKED_REMOVALS = 1000
# An editor's `git status` may hold a lock for a moment.
_PATIENCE = 0.5
_RECOVERY = (
    "'git ckpt rollback --continue' finishes it, "
    "'git ckpt rollback --abort' returns to the state before it"
)


def check_ready(repo: Repository) -> None:
    """Refuse to begin while something else is at work, or was and did not finish."""
    if journal.exists(repo.private_dir):
        raise _unfinished()
    journal.check_memory(repo.private_dir)
    clear_locks(repo)
    check_locks(repo, None)


def check_ended(repo: Repository) -> None:
    """Refuse if a rollback died here; for who does not hold the worktree's lock."""
    if is_interrupted(repo.private_dir):
        raise _unfinished()


def _unfinished() -> Refused:
    return Refused("a rollback was interrupted in this worktree", hint=_RECOVERY)


def clear_locks(repo: Repository, *branches: bytes) -> None:
    """Take away what killed processes left locked of the index, HEAD, these branches and our own
    refs."""
    files = [repo.index_path, *repo.refs.lock_candidates(*branches)]
    for private_dir in {repo.private_dir, os.path.join(repo.common_dir, "ckpt")}:
        clear_own_locks(private_dir, files)


def check_locks(repo: Repository, move: HeadMove | None) -> None:
    """Refuse while git is at work with the index, or with a ref that is to move; one that it
    holds for a moment only is waited for."""
    if not repo.owns_index:
        raise Refused(
            f"GIT_INDEX_FILE names another index: '{repo.env.get('GIT_INDEX_FILE')}'",
            hint="a rollback inside a git hook would change the index git is using",
        )
    files = [repo.index_path]
    if move is not None:
        ends = [end for other in move.others for end in (other.before, other.after)]
        comes_or_goes = None in (move.branch_before, move.after.commit, *ends)
        files += repo.refs.files_of(branches_of(move), removes=comes_or_goes)
    check_free(files, repo.private_dir, patience=_PATIENCE)


@contextmanager
def telling_what_is_gone(repo: Repository) -> Iterator[None]:
    """Refuse with a way out where the index or HEAD names what the object store has not."""
    try:
        yield
    except MissingObject as error:
        from ckpt.engine.gone import refusal  # which few ever need

        raise refusal(repo) or error from None


def branches_of(move: HeadMove | None) -> list[bytes]:
    """The branches that a move of HEAD touches, or leaves."""
    if move is None:
        return []
    others = (other.branch for other in move.others)
    branches = (move.before.branch, move.after.branch, *others)
    return [branch for branch in branches if branch is not None]


def interrupted(error: Stopped) -> CkptError:
    """Why a rollback stopped half way, and how to go on."""
    kind, cause = _cause(error)
    return kind(f"the rollback stopped half way: {cause}", hint=_RECOVERY)


def not_begun(error: Stopped) -> CkptError:
    """Why a rollback could not even write its journal."""
    kind, cause = _cause(error)
    mend = disk_hint(error) if isinstance(error, OSError) else "wait for it to end"
    return kind(
        f"the rollback did not begin: {cause}",
        hint=f"nothing was touched; {mend}, then try again",
    )


def _cause(error: Stopped) -> tuple[type[Busy] | type[RollbackError], str]:
    if isinstance(error, Busy):
        return Busy, error.message
    if isinstance(error, CkptError):
        return RollbackError, error.message
    return RollbackError, error.strerror or str(error)


def check_removals(prepared: Prepared, consented: Container[bytes]) -> None:
    """Refuse to remove more than anyone is likely to mean."""
    plan, present = prepared.plan, prepared.present
    most = len(plan.removals)
    if 2 * most <= present.least_files and most <= MAX_UNTRACKED_REMOVALS:
        return
    removed = [a.path for a in plan.removals if a.path not in consented]
    tracked = {entry.path for entry in present.staged.index.entries}
    untracked = [path for path in removed if path not in tracked]
    total = len(present.entries)
    if 2 * len(removed) > total or len(untracked) > MAX_UNTRACKED_REMOVALS:
        raise Refused(
            f"this rollback would remove {len(removed)} of {total} files",
            hint="look with --dry-run, then repeat the command with --yes",
            details={"removed": [to_str(path) for path in removed]},
        )
