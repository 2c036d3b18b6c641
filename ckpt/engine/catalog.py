# SPDX-License-Identifier: MIT
"""The checkpoints of a repository: list them, and find the one that is meant.

Reads refs and commits only; trees are opened by whoever needs them. A ref that is not
a checkpoint of a format we know is passed over in lists and explained when named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from ckpt import ids
from ckpt.errors import Busy, CkptError, NotFound, UsageError
from ckpt.models import Checkpoint, Details, Kind, Scope
from ckpt.store import record
from ckpt.store.objects import ObjectID
from ckpt.store.repository import Repository

_LATEST = re.compile(r"latest(?:~(\d{1,9}))?")
_SHOWN_IDS = 5


class Catalog:
    """Checkpoints as the refs are now; each commit is read at most once."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._refs = repo.refs.checkpoints()
        self._read: dict[str, Checkpoint | CkptError] = {}

    def ids(self) -> list[str]:
        """Newest first."""
        return ids.possible_ids(self._refs)

    def __iter__(self) -> Iterator[Checkpoint]:
        """All that can be read, newest first."""
        for checkpoint_id in self.ids():
            found = self._load(checkpoint_id)
            if isinstance(found, Checkpoint):
                yield found

    def here(self) -> Iterator[Checkpoint]:
        """Those of this worktree, newest first."""
        return (c for c in self if c.worktree == self._repo.worktree_id)

    def get(self, checkpoint_id: str) -> Checkpoint:
        found = self._load(checkpoint_id)
        if isinstance(found, CkptError):
            raise found
        return found

    def resolve(self, word: str) -> Checkpoint:
        """The checkpoint a person means: `latest~N`, an id, a name, or a unique prefix."""
        _check_word(word)
        latest = _LATEST.fullmatch(word)
        if latest is not None:
            return self._latest(int(latest[1] or 0))
        if ids.is_id(word):
            return self.get(word)
        for checkpoint in self.here():
            if checkpoint.name == word:
                return checkpoint
        for checkpoint in self:
            if checkpoint.name == word:
                return checkpoint
        return self._by_prefix(word)

    def newest_here(self, not_before: str) -> str | None:
        """The newest id of this worktree that is not older than an id's time."""
        for checkpoint_id in self.ids():
            if checkpoint_id < not_before:
                return None
            found = self._load(checkpoint_id)
            if isinstance(found, Checkpoint) and found.worktree == self._repo.worktree_id:
                return checkpoint_id
        return None

    def commit_of(self, checkpoint_id: str) -> ObjectID | None:
        return self._refs.get(checkpoint_id)

    def _latest(self, back: int) -> Checkpoint:
        candidates = [c for c in self.here() if counts_as_latest(c)]
        if back < len(candidates):
            return candidates[back]
        if not candidates:
            raise NotFound(
                "there is no checkpoint in this worktree yet",
                hint="git ckpt save",
                details={"available": []},
            )
        raise NotFound(
            f"'latest~{back}' is too far back: this worktree has {_count(len(candidates))}",
            hint="git ckpt list",
            details={"available": [c.id for c in candidates]},
        )

    def _by_prefix(self, word: str) -> Checkpoint:
        known = self.ids()
        found = [i for i in known if i.startswith(word) or i.rsplit("-", 1)[1].startswith(word)]
        if not found:
            raise NotFound(
                f"no checkpoint '{word}'",
                hint="git ckpt list --all-worktrees",
                details={"available": known},
            )
        if len(found) > 1:
            shown = ", ".join(found[:_SHOWN_IDS]) + (", …" if len(found) > _SHOWN_IDS else "")
            raise UsageError(
                f"'{word}' is ambiguous: {shown}",
                hint=f"git ckpt show {found[0]}",
                details={"available": found},
            )
        return self.get(found[0])

    def _load(self, checkpoint_id: str) -> Checkpoint | CkptError:
        if checkpoint_id not in self._read:
            try:
                self._read[checkpoint_id] = self._read_commit(checkpoint_id)
            except CkptError as error:
                self._read[checkpoint_id] = error
        return self._read[checkpoint_id]

    def _read_commit(self, checkpoint_id: str) -> Checkpoint:
        commit = self._refs.get(checkpoint_id)
        if commit is None:
            raise NotFound(
                f"no checkpoint '{checkpoint_id}'",
                hint="git ckpt list --all-worktrees",
                details={"available": self.ids()},
            )
        return load(self._repo, checkpoint_id, commit)


def load(repo: Repository, checkpoint_id: str, commit: ObjectID) -> Checkpoint:
    """Read one checkpoint by its commit; its details follow when asked for."""

    def details() -> Details:
        return record.read_details(repo.objects, checkpoint)

    checkpoint = record.read_checkpoint(repo.objects, checkpoint_id, commit, details)
    return checkpoint


def counts_as_latest(checkpoint: Checkpoint) -> bool:
    """A safety checkpoint, or one taken amid a rollback, is no state to go back to unasked."""
    return (
        checkpoint.kind is not Kind.SAFETY
        and checkpoint.scope is Scope.FULL
        and not checkpoint.during_rollback
    )


def select(
    checkpoints: Iterable[Checkpoint],
    *,
    kind: Kind | None = None,
    name: str | None = None,
    session: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[Checkpoint]:
    """Those that match everything asked for; `since` is exclusive, `until` inclusive."""
    return [
        c
        for c in checkpoints
        if (kind is None or c.kind is kind)
        and (name is None or c.name == name)
        and (session is None or c.session == session)
        and (since is None or c.timestamp > since)
        and (until is None or c.timestamp <= until)
    ]


def set_pinned(repo: Repository, checkpoint: Checkpoint, pinned: bool) -> Checkpoint:
    """Pin or unpin: a new commit with the same trees under the same id.

    The ref moves only from the commit that was read, so that a prune which decided
    before the pin finds the ref changed and leaves it.
    """
    if checkpoint.pinned == pinned:
        return checkpoint
    old = ObjectID(checkpoint.commit.encode())
    data = record.read_commit(repo.objects, old)
    changed = replace(checkpoint, pinned=pinned)
    message = record.compose_message(changed)
    commit = record.write_commit(
        repo.objects, data.tree, data.parents, message, checkpoint.timestamp
    )
    repo.objects.flush()
    _require(repo.refs.replace(checkpoint.ref.encode(), old, commit), checkpoint)
    if not repo.objects.has(commit):  # a prune without grace came in between
        repo.refs.replace(checkpoint.ref.encode(), commit, old)
        raise Busy("git pruned the new commit", hint="wait for 'git gc' to end, then try again")
    return load(repo, checkpoint.id, commit)


def _require(done: bool, checkpoint: Checkpoint) -> None:
    if not done:
        raise NotFound(
            f"checkpoint '{checkpoint.id}' was changed or removed meanwhile",
            hint="git ckpt list",
        )


def _check_word(word: str) -> None:
    if not word:
        raise UsageError("empty string is not a checkpoint", hint="git ckpt list")
    if word.startswith("-"):
        raise UsageError(
            f"'{word}' looks like an option, not like a checkpoint", hint="git ckpt list"
        )


def _count(number: int) -> str:
    return f"{number} checkpoint{'' if number == 1 else 's'}"
