# SPDX-License-Identifier: MIT
"""The part of a manager that looks at checkpoints and changes nothing.

With a session, lists and `latest` mean that session in this worktree; a name means one of the
session if it has one of that name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ckpt.api.opened import OpenedWorktree
from ckpt.arguments import Which, as_kind, as_moment, as_word, check_has_files, check_texts
from ckpt.engine import catalog
from ckpt.engine.catalog import Catalog
from ckpt.models import Checkpoint, Kind, Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime
    from typing import Any

    from ckpt.models import DiffResult, Summary
    from ckpt.settings import Settings

Checkpoints = list[Checkpoint]


class CheckpointReader(OpenedWorktree):
    """What `CheckpointManager` can tell of the checkpoints that there are."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        env: Mapping[str, str],
        store: str,
        settings: Settings | Mapping[str, Any] | None,
        session: str | None,
        scope: Scope,
    ) -> None:
        check_texts(session=session)
        super().__init__(path, env, store, settings)
        self._session = session
        self._scope = scope

    def list(
        self,
        *,
        kind: Kind | str | None = None,
        name: str | None = None,
        session: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        all_worktrees: bool = False,
    ) -> Checkpoints:
        """Checkpoints of this worktree (and session, if the manager has one), newest first."""
        check_texts(name=name, session=session)
        with self._reading():
            found = Catalog(self._repo)
            return catalog.select(
                found if all_worktrees else found.here(),
                kind=None if kind is None else as_kind(kind),
                name=name,
                session=session if session is not None else self._session,
                scope=Scope.STATE if self._scope is Scope.STATE else None,
                since=None if since is None else as_moment(since),
                until=None if until is None else as_moment(until),
            )

    def get(self, which: Which) -> Checkpoint:
        """The checkpoint of an id, a name, a unique prefix or `latest~N`; raises `NotFound`."""
        with self._reading():
            return self._find(which)

    def _find(self, which: Which) -> Checkpoint:
        return Catalog(self._repo).resolve(as_word(which), self._scope, self._session)

    def by_name(self, name: str) -> Checkpoints:
        """All checkpoints of that name, newest first."""
        return self.list(name=name)

    def latest(self, name: str | None = None, kind: Kind | str | None = None) -> Checkpoint | None:
        """The newest checkpoint; safety checkpoints count only if asked for by kind, foreign ones
        only if they are not of a time to come."""
        found = (c for c in self.list(name=name, kind=kind) if c.scope is self._scope)
        found = (c for c in found if catalog.is_timely(c))
        if kind is None:
            found = (c for c in found if catalog.counts_as_latest(c, self._scope))
        return next(found, None)

    def since(self, moment: datetime) -> Checkpoints:
        """Checkpoints later than a moment, newest first."""
        return self.list(since=as_moment(moment))

    def between(self, first: datetime, last: datetime) -> Checkpoints:
        """Checkpoints between two moments, both included, newest first."""
        first, last = as_moment(first), as_moment(last)
        return [c for c in self.list(until=last) if c.timestamp >= first]

    def __len__(self) -> int:
        return len(self.list())

    def __iter__(self) -> Iterator[Checkpoint]:
        """Oldest first."""
        return reversed(self.list())

    def __bool__(self) -> bool:
        return True

    def diff(
        self,
        which: Which,
        other: Which | None = None,
        *,
        paths: Iterable[str | os.PathLike[str]] = (),
        patch: bool = True,
    ) -> DiffResult:
        """What changed from a checkpoint to another one, or to the worktree now."""
        from ckpt.engine.diff import diff

        with self._looking():
            found = Catalog(self._repo)
            words = [as_word(which)] if other is None else [as_word(which), as_word(other)]
            chosen = [found.resolve(word, self._scope, self._session) for word in words]
            for checkpoint in chosen:
                check_has_files(checkpoint)
            return diff(
                self._repo,
                self.forgiving_settings,
                chosen[0],
                chosen[1] if len(chosen) > 1 else None,
                self._limits(paths),
                with_patch=patch,
            )

    def summary(self) -> Summary:
        """How many checkpoints there are of each kind and name, the first and the last."""
        from ckpt.api.whole import summarise

        return summarise(self.list())
