# SPDX-License-Identifier: MIT
"""The checkpoints of a repository: list them, resolve their names, pin them.

Reads refs and as few commits as a query needs, but no trees. Lists skip a ref that is not a
checkpoint of a known format; naming it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from functools import cached_property
from itertools import islice

from ckpt import disk, ids
from ckpt.errors import CkptError, NotFound, UsageError
from ckpt.git import record
from ckpt.git.objects import ObjectID
from ckpt.git.repository import Repository
from ckpt.models import REF_PREFIX, Checkpoint, Kind, Scope

_LATEST = re.compile(r"(?a)latest(?:~(\d{1,9}))?")
_SHOWN_IDS = 5


class Catalog:
    """The checkpoints by the refs at first use; each commit is read at most once."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._read: dict[str, Checkpoint] = {}

    @cached_property
    def _refs(self) -> dict[str, ObjectID | None]:
        """Return the checkpoint refs, newest first, including those that name no object."""
        refs = self._repo.refs
        said = refs.contents_below(REF_PREFIX)
        found = sorted(filter(ids.is_id, said), reverse=True)
        return {name: refs.named_by(said[name]) for name in found}

    @cached_property
    def _made_here(self) -> frozenset[bytes]:
        return record.made_here(self._repo.common_dir)

    def ids(self) -> list[str]:
        """Return the ids, newest first."""
        return [name for name, commit in self._refs.items() if commit is not None]

    def __iter__(self) -> Iterator[Checkpoint]:
        """Yield the readable checkpoints, newest first."""
        return self._readable(self.ids())

    def _readable(self, names: Iterable[str]) -> Iterator[Checkpoint]:
        for name in names:
            try:
                found = self.get(name)
            except CkptError:
                continue
            yield found

    def unreadable(self) -> list[str]:
        """Return the ids of refs without a readable checkpoint, newest first."""
        readable = {found.id for found in self}
        return [name for name in self._refs if name not in readable]

    def here(self, session: str | None = None) -> Iterator[Checkpoint]:
        """Yield the checkpoints of this worktree, or of one session in it, newest first."""
        mine = (c for c in self if c.worktree == self._repo.worktree_id)
        return (c for c in mine if session is None or c.session == session)

    def newest_here(self, not_before: str) -> str | None:
        """Return the newest id made in this worktree that is not less than `not_before`; usually
        none is, and no commit is read. Foreign ids do not count: they may have any date."""
        for found in self._readable(name for name in self.ids() if name >= not_before):
            if found.worktree == self._repo.worktree_id and not found.foreign:
                return found.id
        return None

    def get(self, checkpoint_id: str) -> Checkpoint:
        found = self._read.get(checkpoint_id)
        if found is None:
            commit = self._refs.get(checkpoint_id)
            if commit is None:
                raise self._not_found(checkpoint_id)
            found = load(self._repo, checkpoint_id, commit, self._made_here)
            self._read[checkpoint_id] = found
        return found

    def resolve(
        self, word: str, scope: Scope = Scope.FULL, session: str | None = None
    ) -> Checkpoint:
        """Return the checkpoint named by `latest~N`, an id, a name or a unique prefix. Among those
        of one name, prefer the given scope and session."""
        if not word or word.startswith("-"):
            raise UsageError(f"'{word}' is not a checkpoint", hint="git ckpt list")
        latest = _LATEST.fullmatch(word)
        if latest is not None:
            return self._latest(int(latest[1] or 0), scope, session)
        if ids.is_id(word):
            return self.get(word)
        for checkpoints in (self.here(session), self.here(), self):
            found = _named(checkpoints, word, scope)
            if found is not None:
                return found
        fitting = [name for name in self.ids() if ids.matches(name, word)]
        if len(fitting) > 1:
            shown = ", ".join(fitting[:_SHOWN_IDS]) + (", …" if len(fitting) > _SHOWN_IDS else "")
            raise UsageError(
                f"'{word}' is ambiguous: {shown}",
                hint=f"git ckpt show {fitting[0]}",
                details={"available": fitting},
            )
        if not fitting:
            raise self._not_found(word)
        return self.get(fitting[0])

    def _latest(self, back: int, scope: Scope, session: str | None) -> Checkpoint:
        counting = (c for c in self.here(session) if counts_as_latest(c, scope) and is_timely(c))
        found = [*islice(counting, back + 1)]
        if len(found) > back:
            return found[back]
        place = "this worktree" if session is None else f"session '{session}'"
        told, hint = f"there is no checkpoint in {place} yet", "git ckpt save"
        if found:
            count = f"{len(found)} checkpoint{'' if len(found) == 1 else 's'}"
            told, hint = f"'latest~{back}' is too far back: {place} has {count}", "git ckpt list"
        raise NotFound(told, hint=hint, details={"available": [c.id for c in found]})

    def _not_found(self, word: str) -> NotFound:
        told, hint = f"no checkpoint '{word}'", "git ckpt list --all-worktrees"
        if any(name.endswith("/" + word) for name in self._repo.refs.trash()):
            from shlex import quote

            told, hint = f"{told}: it was dropped", f"git ckpt restore-dropped {quote(word)}"
        return NotFound(told, hint=hint, details={"available": self.ids()})


def load(
    repo: Repository,
    checkpoint_id: str,
    commit: ObjectID,
    known: frozenset[bytes] | None = None,
) -> Checkpoint:
    """Read a checkpoint by its commit, its details on demand. Pass `known` to share the record of
    local checkpoints among several."""
    known = record.made_here(repo.common_dir) if known is None else known
    return record.read_checkpoint(repo.objects, checkpoint_id, commit, known)


def _named(checkpoints: Iterable[Checkpoint], name: str, scope: Scope) -> Checkpoint | None:
    """Return the newest of a name, preferring a timely one of the scope."""
    newest = None
    for checkpoint in checkpoints:
        if checkpoint.name == name:
            if checkpoint.scope is scope and is_timely(checkpoint):
                return checkpoint
            newest = newest or checkpoint
    return newest


def is_timely(checkpoint: Checkpoint) -> bool:
    """Return False for a foreign checkpoint dated in the future: it would remain the latest until
    then. A local one may have such a date if the clock was set back."""
    now = ids.stamp(datetime.now(timezone.utc))
    return checkpoint.id[: len(now)] <= now or not checkpoint.foreign


def counts_as_latest(checkpoint: Checkpoint, scope: Scope = Scope.FULL) -> bool:
    """Return False for a safety checkpoint, one taken during a rollback, or of another scope."""
    return (
        checkpoint.kind is not Kind.SAFETY
        and checkpoint.scope is scope
        and not checkpoint.during_rollback
    )


def still_holds(repo: Repository, checkpoint_id: str, tree: bytes, state: bytes) -> bool:
    """Return whether a checkpoint exists with these trees; pinning replaces its commit."""
    try:
        commit = repo.refs.checkpoint(checkpoint_id)
        if commit is None:
            return False
        found = record.read_commit(repo.objects, commit)
    except CkptError:
        return False
    return found.tree == tree and found.parents[-1:] == (state,)


def changed_meanwhile(checkpoint: Checkpoint) -> NotFound:
    told = f"checkpoint '{checkpoint.id}' was changed or removed meanwhile"
    return NotFound(told, hint="git ckpt list")


def set_pinned(repo: Repository, checkpoint: Checkpoint, pinned: bool) -> Checkpoint:
    """Pin or unpin a checkpoint by a new commit with the same trees and id. As the ref moves only
    from the commit that was read, a prune that decided before the pin leaves it alone."""
    if checkpoint.pinned == pinned:
        return checkpoint
    repo.refs.clear_dead()
    old = ObjectID(checkpoint.commit.encode())
    data = record.read_commit(repo.objects, old)
    changed = checkpoint._replace(pinned=pinned)
    message = record.compose_message(changed)
    parts = data.tree, data.parents, message, checkpoint.timestamp
    try:
        commit = record.write_commit(repo.objects, *parts)
        repo.objects.flush()
        if not checkpoint.foreign:
            disk.fsync(record.note(repo.common_dir, checkpoint.id, commit.decode()))
        ref = checkpoint.ref.encode()
        if not repo.refs.change({ref: (old, (ref, commit))}):
            raise changed_meanwhile(checkpoint)
        if repo.objects.missing({commit}):  # a concurrent prune did not see the ref
            record.write_commit(repo.objects, *parts)
            repo.objects.flush()
    finally:
        repo.objects.discard()
    return load(repo, checkpoint.id, commit)
