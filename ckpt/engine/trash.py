# SPDX-License-Identifier: MIT
"""Dropped checkpoints: moved aside under the day they were dropped, and brought back.

The trash ref is made before the checkpoint's own ref goes, so that at no moment is
the checkpoint held by nothing. A checkpoint that an interrupted rollback needs is
never dropped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import date, datetime, timezone

from ckpt.engine.catalog import load
from ckpt.engine.journal import hidden_worktrees, needed_by_rollbacks
from ckpt.errors import Busy, CkptError, NotFound, Refused, UsageError
from ckpt.git.formats import ObjectID
from ckpt.git.repository import Repository
from ckpt.ids import is_id, matches
from ckpt.locks import prune_lock
from ckpt.models import REF_PREFIX, TRASH_PREFIX, Checkpoint, Dropped

_PATIENCE = 60.0  # seconds, for another process that drops or brings back


def drop(repo: Repository, checkpoint: Checkpoint) -> None:
    """Move a checkpoint to the trash, if its ref is still what was read."""
    with prune_lock(repo.common_dir, timeout=_PATIENCE):
        repo.refs.clear_dead()
        _move_aside(repo, checkpoint)


def move_all_aside(repo: Repository, checkpoints: Sequence[Checkpoint]) -> set[str]:
    """The same for many, by who holds the lock; the ids of those that went. The others were
    changed, removed or locked by somebody, or are needed."""
    needed, hidden = needed_by_rollbacks(repo), hidden_worktrees(repo)
    moved = {
        checkpoint.ref.encode(): (ObjectID(checkpoint.commit.encode()), _aside(checkpoint))
        for checkpoint in checkpoints
        if checkpoint.id not in needed and checkpoint.worktree not in hidden
    }
    return {ref.decode().removeprefix(REF_PREFIX) for ref in repo.refs.move_all(moved)}


def _aside(checkpoint: Checkpoint) -> bytes:
    """The ref under which it is held from today on; if the clock is behind, from the day on that
    the checkpoint is of, or it would be a week old as soon as the clock is right again."""
    today, made = f"{datetime.now(timezone.utc):%Y%m%d}", checkpoint.id[:8]
    day = today if _day(made) is None else max(today, made)
    return f"{TRASH_PREFIX}{day}/{checkpoint.id}".encode()


def _move_aside(repo: Repository, checkpoint: Checkpoint) -> None:
    needed = needed_by_rollbacks(repo)
    if checkpoint.id in needed:
        from shlex import quote

        where = needed[checkpoint.id] or repo.worktree
        there = "" if os.path.realpath(where) == repo.worktree else f" -C {quote(where)}"
        raise Refused(
            f"a rollback that is not over needs checkpoint '{checkpoint.id}'",
            hint=f"if it was interrupted: git{there} ckpt rollback --continue, or --abort",
        )
    if checkpoint.worktree in hidden_worktrees(repo):
        raise Refused(
            f"checkpoint '{checkpoint.id}' is of a worktree of another user, "
            "where a rollback that is not over may need it",
            hint="drop it as that user",
        )
    commit = ObjectID(checkpoint.commit.encode())
    if not repo.refs.move_all({checkpoint.ref.encode(): (commit, _aside(checkpoint))}):
        raise NotFound(
            f"checkpoint '{checkpoint.id}' was changed or removed meanwhile", hint="git ckpt list"
        )


def dropped(repo: Repository) -> list[Dropped]:
    """What is in the trash, newest checkpoint first, each once; not what is still there as well,
    or again, because whoever dropped it or brought it back was killed."""
    there = repo.refs.listed_checkpoints()
    found: dict[tuple[str, str], Dropped] = {}
    for item in _all(repo):
        name = item.checkpoint.id
        is_there = name in there.names and there.commit_of(name) == item.checkpoint.commit.encode()
        if not is_there:
            found.setdefault((name, item.checkpoint.commit), item)
    return [*found.values()]


def _all(repo: Repository, before: date | None = None) -> list[Dropped]:
    """The same with all refs of each, the last day first; or those from before a day."""
    found = []
    for name, commit in repo.refs.trash().items():
        word, _, checkpoint_id = name.partition("/")
        day = _day(word)
        if day is None or not is_id(checkpoint_id) or (before is not None and day >= before):
            continue
        try:
            checkpoint = load(repo, checkpoint_id, commit)
        except CkptError:  # not put there by us
            continue
        found.append(Dropped(checkpoint, day, TRASH_PREFIX + name))
    return sorted(found, key=lambda item: (item.checkpoint.id, item.day), reverse=True)


def _day(word: str) -> date | None:
    """The day that eight digits name, if they do; `strptime` takes 5 ms to import."""
    if len(word) != 8 or not (word.isascii() and word.isdigit()):
        return None
    try:
        return date(int(word[:4]), int(word[4:6]), int(word[6:]))
    except ValueError:
        return None


def ids(repo: Repository, before: date | None) -> list[str]:
    """What was dropped before a day, or everything, each once."""
    return [*dict.fromkeys(item.checkpoint.id for item in _all(repo, before))]


def empty(
    repo: Repository, before: date | None, has_time: Callable[[], bool] = lambda: True
) -> list[str]:
    """Let go for good of what was dropped before a day, or of everything; returns the ids."""
    refs = {item.ref.encode(): item for item in _all(repo, before)}
    moved: dict[bytes, tuple[ObjectID, bytes | None]] = {
        ref: (ObjectID(item.checkpoint.commit.encode()), None) for ref, item in refs.items()
    }
    gone = repo.refs.move_all(moved) if moved and has_time() else set()
    return [*dict.fromkeys(refs[ref].checkpoint.id for ref in refs if ref in gone)]


def restore(repo: Repository, word: str, known: Checkpoint | None = None) -> Checkpoint:
    """Bring a dropped checkpoint back, by its id, its name or a unique prefix; or one that is
    known, and whose ref somebody took away, not by dropping it."""
    if not word or word.startswith("-"):
        raise UsageError(f"'{word}' is not a checkpoint", hint="git ckpt trash")
    with prune_lock(repo.common_dir, timeout=_PATIENCE):
        repo.refs.clear_dead()
        try:
            return _bring_back(repo, word)
        except NotFound:
            if known is None or not _is_held_again(repo, known):
                raise
            return known


def _is_held_again(repo: Repository, checkpoint: Checkpoint) -> bool:
    """Give a checkpoint its ref again; False if it cannot be read any more, as git collects what
    no ref holds."""
    commit = ObjectID(checkpoint.commit.encode())
    try:
        load(repo, checkpoint.id, commit)
    except CkptError:
        return False
    return repo.refs.create(checkpoint.ref.encode(), commit)


def _bring_back(repo: Repository, word: str) -> Checkpoint:
    items = [*{item.checkpoint.id: item for item in reversed(_all(repo))}.values()][::-1]
    found = [d for d in items if word in (d.checkpoint.id, d.checkpoint.name)][:1]
    found = found or [d for d in items if matches(d.checkpoint.id, word)]
    if len(found) != 1:
        problem = "is ambiguous" if found else "is not in the trash"
        kind = UsageError if found else NotFound
        hint = "git ckpt trash" if found else "git ckpt trash, or git ckpt rescue"
        raise kind(f"'{word}' {problem}", hint=hint)
    checkpoint = found[0].checkpoint
    commit = ObjectID(checkpoint.commit.encode())
    if not repo.refs.create(checkpoint.ref.encode(), commit):
        there = repo.refs.checkpoint(checkpoint.id)
        if there != commit:
            raise Refused(f"another checkpoint '{checkpoint.id}' is there", hint="git ckpt list")
    repo.refs.remove(found[0].ref.encode(), commit)
    return checkpoint


# -- Checkpoint refs into git's `packed-refs`, when they have become many

MANY_REFS = 100
_OURS = (REF_PREFIX, TRASH_PREFIX)


def pack_refs(repo: Repository, at_least: int = MANY_REFS) -> int:
    """Pack our refs if so many of them are loose; how many were."""
    try:
        return repo.refs.pack(_OURS, max(at_least, 1))
    except Busy:
        return 0
