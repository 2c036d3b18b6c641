# SPDX-License-Identifier: MIT
"""When a rollback does not begin, and what it says when it stops half way."""

from __future__ import annotations

import os

from ckpt.engine import journal
from ckpt.errors import Busy, CkptError, Refused, RollbackError
from ckpt.store.lock import clear_own_locks
from ckpt.store.repository import Repository

_RECOVERY = (
    "'git ckpt rollback --continue' finishes it, "
    "'git ckpt rollback --abort' returns to the state before it"
)


def check_ready(repo: Repository) -> None:
    """Refuse to begin while something else is at work, or was and did not finish."""
    if journal.exists(repo.private_dir):
        raise Refused("a rollback was interrupted in this worktree", hint=_RECOVERY)
    journal.check_memory(repo.private_dir)
    clear_own_locks(repo.private_dir, [repo.index_path, *repo.refs.lock_candidates()])
    check_index_free(repo)


def check_index_free(repo: Repository) -> None:
    if not repo.owns_index:
        raise Refused(
            f"GIT_INDEX_FILE names another index: '{repo.env.get('GIT_INDEX_FILE')}'",
            hint="a rollback inside a git hook would change the index git is using",
        )
    if os.path.lexists(repo.index_path + ".lock"):
        raise Busy(
            f"'{repo.index_path}.lock' exists: another git process is using the index",
            hint="wait for it to end; if none runs, remove that file",
        )


def interrupted(error: OSError | Busy) -> CkptError:
    """Why a rollback stopped half way, and how to go on."""
    kind, cause = _cause(error)
    return kind(f"the rollback stopped half way: {cause}", hint=_RECOVERY)


def not_begun(error: OSError | Busy) -> CkptError:
    """Why a rollback could not even write its journal."""
    kind, cause = _cause(error)
    return kind(
        f"the rollback did not begin: {cause}",
        hint="nothing was touched; check free space and permissions, then try again",
    )


def _cause(error: OSError | Busy) -> tuple[type[Busy] | type[RollbackError], str]:
    if isinstance(error, Busy):
        return Busy, error.message
    return RollbackError, error.strerror or str(error)
