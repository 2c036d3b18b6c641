# SPDX-License-Identifier: MIT
"""Dropped checkpoints: moved aside under the day they were dropped, and brought back.

The trash ref is made before the checkpoint's own ref goes, so that at no moment is
the checkpoint held by nothing. A checkpoint that an interrupted rollback needs is
never dropped.
"""

from __future__ import annotations

import os
from datetime import date, datetime, timezone

from ckpt.engine.catalog import load
from ckpt.engine.pending import journal_exists
from ckpt.errors import CkptError, NotFound, Refused, UsageError
from ckpt.ids import is_id
from ckpt.models import TRASH_PREFIX, Checkpoint, Dropped
from ckpt.store.objects import ObjectID
from ckpt.store.repository import Repository


def drop(repo: Repository, checkpoint: Checkpoint) -> None:
    """Move a checkpoint to the trash, if its ref is still what was read."""
    if checkpoint.id in needed_by_rollbacks(repo):
        raise Refused(
            f"an interrupted rollback needs checkpoint '{checkpoint.id}'",
            hint="git ckpt rollback --continue, or --abort",
        )
    commit = ObjectID(checkpoint.commit.encode())
    today = datetime.now(timezone.utc).strftime("%Y%m%d")
    aside = f"{TRASH_PREFIX}{today}/{checkpoint.id}".encode()
    repo.refs.create(aside, commit)
    if not repo.refs.remove(checkpoint.ref.encode(), commit):
        repo.refs.remove(aside, commit)
        raise NotFound(
            f"checkpoint '{checkpoint.id}' was changed or removed meanwhile", hint="git ckpt list"
        )


def dropped(repo: Repository) -> list[Dropped]:
    """What is in the trash, newest checkpoint first."""
    found = []
    for name, commit in repo.refs.trash().items():
        day, _, checkpoint_id = name.partition("/")
        if not is_id(checkpoint_id):
            continue
        try:
            when = datetime.strptime(day, "%Y%m%d").date()
            checkpoint = load(repo, checkpoint_id, commit)
        except (ValueError, CkptError):  # not put there by us
            continue
        found.append(Dropped(checkpoint, when, TRASH_PREFIX + name))
    return sorted(found, key=lambda item: item.checkpoint.id, reverse=True)


def empty(repo: Repository, before: date | None) -> list[str]:
    """Let go for good of what was dropped before a day, or of everything; returns the ids."""
    gone = []
    for found in dropped(repo):
        commit = ObjectID(found.checkpoint.commit.encode())
        is_due = before is None or found.day < before
        if is_due and repo.refs.remove(found.ref.encode(), commit):
            gone.append(found.checkpoint.id)
    return gone


def restore(repo: Repository, word: str) -> Checkpoint:
    """Bring a dropped checkpoint back, by its id, its name or a unique prefix."""
    if not word or word.startswith("-"):
        raise UsageError(f"'{word}' is not a checkpoint", hint="git ckpt trash")
    items = dropped(repo)
    found = [d for d in items if word in (d.checkpoint.id, d.checkpoint.name)][:1]
    found = found or [d for d in items if _matches(d.checkpoint.id, word)]
    if len(found) != 1:
        problem = "is ambiguous" if found else "is not in the trash"
        kind = UsageError if found else NotFound
        raise kind(f"'{word}' {problem}", hint="git ckpt trash")
    checkpoint = found[0].checkpoint
    commit = ObjectID(checkpoint.commit.encode())
    repo.refs.create(checkpoint.ref.encode(), commit)
    repo.refs.remove(found[0].ref.encode(), commit)
    return checkpoint


def _matches(checkpoint_id: str, word: str) -> bool:
    return checkpoint_id.startswith(word) or checkpoint_id.rsplit("-", 1)[1].startswith(word)


def needed_by_rollbacks(repo: Repository) -> set[str]:
    """Checkpoints that interrupted rollbacks of any worktree name."""
    linked = os.path.join(repo.common_dir, "worktrees")
    git_dirs = [repo.common_dir]
    if os.path.isdir(linked):
        git_dirs += [os.path.join(linked, name) for name in os.listdir(linked)]
    needed: set[str] = set()
    for git_dir in git_dirs:
        private = os.path.join(git_dir, "ckpt")
        if journal_exists(private):
            from ckpt.engine import journal

            record = journal.read(private)
            needed |= {record.target, record.safety}
    return needed
