# SPDX-License-Identifier: MIT
"""Undo: the last rollback that finished is taken back by another, in the same scope."""

from __future__ import annotations

from ckpt.engine import journal
from ckpt.engine.catalog import Catalog
from ckpt.engine.head import WITHOUT_HEAD
from ckpt.engine.journal import LastRollback
from ckpt.engine.last_rollback import find_same, options_to_undo
from ckpt.engine.prepare import RollbackOptions
from ckpt.engine.rollback import UNDO, rollback
from ckpt.engine.worktree_place import check_place
from ckpt.errors import CkptError, NotFound
from ckpt.models import RollbackResult
from ckpt.paths import to_str
from ckpt.settings import Settings
from ckpt.store.repository import Repository


def undo(repo: Repository, settings: Settings, options: RollbackOptions) -> RollbackResult:
    """Take back the last rollback that finished in this worktree; again: redo it."""
    last = journal.last_rollback(repo.private_dir)
    if last is None:
        raise NotFound(
            "there is no rollback to undo in this worktree",
            hint="'git ckpt list --kind safety' shows the states before earlier rollbacks",
            details={"available": []},
        )
    check_place(repo, last.worktree, UNDO)
    catalog = Catalog(repo)
    safety = find_same(repo, catalog, last.safety, last.safety_commit, trust=options.trust)
    scope = options_to_undo(repo, catalog, last, options)
    try:
        return rollback(repo, settings, safety, scope, last)
    except CkptError as error:
        if error.hint == WITHOUT_HEAD:  # which is no option of undo
            error.hint = _with_less(error.hint, last)
        raise


def _with_less(hint: str, last: LastRollback) -> str:
    """The rollback to type that does all of an undo but for what cannot be."""
    from shlex import quote  # for a hint that few see

    words = ["git ckpt rollback", last.safety]
    words += [] if last.index else ["--no-index"]
    words += ["--", *(quote(to_str(path)) for path in last.paths)] if last.paths else []
    return f"{hint.partition(':')[0]}: {' '.join(words)}"
