# SPDX-License-Identifier: MIT
"""The checkpoints of a repository: list them, and find the one that is meant.

Reads refs and commits only, and of these no more than the question needs: the newest of
a thousand costs one of each. Trees are opened by whoever needs them. A ref that is not a
checkpoint of a format we know is passed over in lists and explained when named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timezone

from ckpt import disk, ids
from ckpt.errors import CkptError, NotFound, UsageError
from ckpt.git import record
from ckpt.git.formats import ObjectID
from ckpt.git.refs import CheckpointRefs
from ckpt.git.repository import Repository
from ckpt.models import Checkpoint, Kind, Scope

_LATEST = "latest"
_SHOWN_IDS = 5


class Catalog:
    """Checkpoints as the refs are at the first look; each commit is read at most once."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._listing: CheckpointRefs | None = None
        self._read: dict[str, Checkpoint | CkptError | None] = {}
        self._made_here = record.Record(repo.common_dir)

    def ids(self) -> list[str]:
        """Newest first."""
        return self._that_exist(ids.possible_ids(self._refs.names))

    def __iter__(self) -> Iterator[Checkpoint]:
        """All that can be read, newest first."""
        for checkpoint_id in ids.possible_ids(self._refs.names):
            found = self._load(checkpoint_id)
            if isinstance(found, Checkpoint):
                yield found

    def unreadable(self) -> list[str]:
        """Ids of refs that lead to no checkpoint that can be read, newest first."""
        known = ids.possible_ids(self._refs.names)
        return [name for name in known if not isinstance(self._load(name), Checkpoint)]

    def here(self) -> Iterator[Checkpoint]:
        """Those of this worktree, newest first."""
        worktree = self._repo.worktree_id
        return (c for c in self if c.worktree == worktree)

    def get(self, checkpoint_id: str) -> Checkpoint:
        found = self._load(checkpoint_id)
        if found is None:
            raise self._not_found(checkpoint_id)
        if isinstance(found, CkptError):
            raise found
        return found

    def _not_found(self, word: str) -> NotFound:
        told, hint = f"no checkpoint '{word}'", "git ckpt list --all-worktrees"
        if any(name.endswith("/" + word) for name in self._repo.refs.trash()):
            from shlex import quote

            told, hint = f"{told}: it was dropped", f"git ckpt restore-dropped {quote(word)}"
        return NotFound(told, hint=hint, details={"available": self.ids()})

    def resolve(
        self, word: str, scope: Scope = Scope.FULL, session: str | None = None
    ) -> Checkpoint:
        """The checkpoint a person means: `latest~N`, an id, a name, or a unique prefix.

        `latest` is one of the given scope, and of the session if one is given; so is one of
        several of a name if possible.
        """
        _check_word(word)
        back = _steps_back(word)
        if back is not None:
            return self._latest(back, scope, session)
        if ids.is_id(word):
            return self.get(word)
        for checkpoints in (self._of(session), self.here(), self):
            found = _named(checkpoints, word, scope)
            if found is not None:
                return found
        return self._by_prefix(word)

    def _of(self, session: str | None) -> Iterator[Checkpoint]:
        """Those of this worktree, and of a session if one is given."""
        return (c for c in self.here() if session is None or c.session == session)

    def newest_here(self, not_before: str) -> str | None:
        """The newest id that was made in this worktree, if it is not older than an id's time; what
        others made may be of any time. Mostly there is none, and nothing is read."""
        recent = [name for name in self._refs.names if name >= not_before]
        for checkpoint_id in ids.possible_ids(recent):
            found = self._load(checkpoint_id)
            if not isinstance(found, Checkpoint) or found.worktree != self._repo.worktree_id:
                continue
            if not found.foreign:
                return checkpoint_id
        return None

    def commit_of(self, checkpoint_id: str) -> ObjectID | None:
        if self._listing is None:
            return self._repo.refs.checkpoint(checkpoint_id)
        return self._listing.commit_of(checkpoint_id)

    @property
    def _refs(self) -> CheckpointRefs:
        if self._listing is None:
            self._listing = self._repo.refs.listed_checkpoints()
        return self._listing

    def _that_exist(self, names: Iterable[str]) -> list[str]:
        """Those of `names` whose refs hold something."""
        return [name for name in names if self._refs.commit_of(name) is not None]

    def _latest(self, back: int, scope: Scope, session: str | None) -> Checkpoint:
        candidates: list[Checkpoint] = []
        for checkpoint in (c for c in self._of(session) if counts_as_latest(c, scope)):
            if not is_timely(checkpoint):
                continue
            if len(candidates) == back:
                return checkpoint
            candidates.append(checkpoint)
        place = "this worktree" if session is None else f"session '{session}'"
        if not candidates:
            raise NotFound(
                f"there is no checkpoint in {place} yet",
                hint="git ckpt save",
                details={"available": []},
            )
        raise NotFound(
            f"'latest~{back}' is too far back: {place} has {_count(len(candidates))}",
            hint="git ckpt list",
            details={"available": [c.id for c in candidates]},
        )

    def _by_prefix(self, word: str) -> Checkpoint:
        known = ids.possible_ids(self._refs.names)
        found = self._that_exist(i for i in known if ids.matches(i, word))
        if not found:
            raise self._not_found(word)
        if len(found) > 1:
            shown = ", ".join(found[:_SHOWN_IDS]) + (", …" if len(found) > _SHOWN_IDS else "")
            raise UsageError(
                f"'{word}' is ambiguous: {shown}",
                hint=f"git ckpt show {found[0]}",
                details={"available": found},
            )
        return self.get(found[0])

    def _load(self, checkpoint_id: str) -> Checkpoint | CkptError | None:
        if checkpoint_id not in self._read:
            self._read[checkpoint_id] = self._read_commit(checkpoint_id)
        return self._read[checkpoint_id]

    def _read_commit(self, checkpoint_id: str) -> Checkpoint | CkptError | None:
        commit = self.commit_of(checkpoint_id)
        if commit is None:
            return None
        try:
            return load(self._repo, checkpoint_id, commit, self._made_here)
        except CkptError as error:
            return error


def load(
    repo: Repository,
    checkpoint_id: str,
    commit: ObjectID,
    known: record.Record | None = None,
) -> Checkpoint:
    """Read one checkpoint by its commit; its details follow when asked for. So does whether it is
    foreign, by a record that `known` has for several."""
    lacks = (known or record.Record(repo.common_dir)).lacks
    return record.read_checkpoint(repo.objects, checkpoint_id, commit, lacks)


def _named(checkpoints: Iterable[Checkpoint], name: str, scope: Scope) -> Checkpoint | None:
    """The newest of a name, one of the wanted scope, and timely, if there is any."""
    newest = None
    for checkpoint in checkpoints:
        if checkpoint.name == name:
            if checkpoint.scope is scope and is_timely(checkpoint):
                return checkpoint
            newest = newest or checkpoint
    return newest


def is_timely(checkpoint: Checkpoint) -> bool:
    """False for one of another's that is of a time to come: it would be the latest until then,
    whatever is saved here meanwhile. One of ours may be, if the clock was set back."""
    now = ids.stamp(datetime.now(timezone.utc))
    return checkpoint.id[: len(now)] <= now or not checkpoint.foreign


def counts_as_latest(checkpoint: Checkpoint, scope: Scope = Scope.FULL) -> bool:
    """A safety checkpoint, or one taken amid a rollback, is no state to go back to unasked."""
    return (
        checkpoint.kind is not Kind.SAFETY
        and checkpoint.scope is scope
        and not checkpoint.during_rollback
    )


def select(
    checkpoints: Iterable[Checkpoint],
    *,
    kind: Kind | None = None,
    name: str | None = None,
    session: str | None = None,
    scope: Scope | None = None,
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
        and (scope is None or c.scope is scope)
        and (since is None or c.timestamp > since)
        and (until is None or c.timestamp <= until)
    ]


def still_holds(repo: Repository, checkpoint_id: str, tree: bytes, state: bytes) -> bool:
    """Whether a checkpoint is there with the trees that it had; pinning writes it anew."""
    try:
        commit = repo.refs.checkpoint(checkpoint_id)
        if commit is None:
            return False
        found = record.read_commit(repo.objects, commit)
    except CkptError:
        return False
    return found.tree == tree and found.parents[-1:] == (state,)


def set_pinned(repo: Repository, checkpoint: Checkpoint, pinned: bool) -> Checkpoint:
    """Pin or unpin: a new commit with the same trees under the same id.

    The ref moves only from the commit that was read, so that a prune which decided
    before the pin finds the ref changed and leaves it. A `git prune` that is at work does not
    know of the new commit, and would take it with all that the old one held safely.
    """
    if checkpoint.pinned == pinned:
        return checkpoint
    repo.refs.clear_dead()
    old = ObjectID(checkpoint.commit.encode())
    data = record.read_commit(repo.objects, old)
    changed = replace(checkpoint, pinned=pinned)
    message = record.compose_message(changed)
    text = record.commit_text(data.tree, data.parents, message, checkpoint.timestamp)
    try:
        commit = repo.objects.add(b"commit", text)
        repo.objects.flush()
        if record.holds(repo.common_dir, checkpoint.id, checkpoint.commit):
            disk.fsync_files(record.note(repo.common_dir, checkpoint.id, commit.decode()))
        _require(repo.refs.replace(checkpoint.ref.encode(), old, commit), checkpoint)
        if repo.objects.missing({commit}):  # a prune at work did not see the ref
            repo.objects.add(b"commit", text)
            repo.objects.flush()
    finally:
        repo.objects.discard()
    return load(repo, checkpoint.id, commit)


def _require(done: bool, checkpoint: Checkpoint) -> None:
    if not done:
        raise NotFound(
            f"checkpoint '{checkpoint.id}' was changed or removed meanwhile",
            hint="git ckpt list",
        )


def _steps_back(word: str) -> int | None:
    """N of `latest~N`; None if the word is another."""
    name, tilde, number = word.partition("~")
    if name != _LATEST:
        return None
    if not tilde:
        return 0
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else None


def _check_word(word: str) -> None:
    if not word:
        raise UsageError("empty string is not a checkpoint", hint="git ckpt list")
    if word.startswith("-"):
        raise UsageError(
            f"'{word}' looks like an option, not like a checkpoint", hint="git ckpt list"
        )


def _count(number: int) -> str:
    return f"{number} checkpoint{'' if number == 1 else 's'}"
