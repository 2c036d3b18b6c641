# SPDX-License-Identifier: MIT
"""The part of a manager that decides which checkpoints there are: what stays, goes, comes in.

No file of the worktree is touched by any of it.
"""

from __future__ import annotations

import os

from ckpt.api.reader import CheckpointReader, Checkpoints
from ckpt.arguments import Which, as_path, as_word
from ckpt.engine import catalog
from ckpt.errors import UsageError
from ckpt.models import Checkpoint, Dropped, SaveResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ckpt.engine.prune import PruneResult
    from ckpt.policy import Policy

DroppedOnes = list[Dropped]


def _by_id(checkpoint: Checkpoint) -> str:
    return checkpoint.id


class CheckpointKeeper(CheckpointReader):
    """What `CheckpointManager` can do with the checkpoints that there are."""

    def delete(self, which: Which) -> Checkpoint:
        """Drop one checkpoint; it stays in the trash."""
        from ckpt.engine import trash

        with self._writing():
            checkpoint = self._find(which)
            trash.drop(self._repo, checkpoint)
            return checkpoint

    def clear(self, *, everything: bool = False) -> int:
        """Drop all checkpoints of this session, or of this worktree if `everything` may go.

        They stay in the trash. What is pinned and features are kept. Returns how many went.
        """
        if self._session is None and not everything:
            raise UsageError(
                "without a session, clear() would drop the checkpoints of all of them",
                hint="clear(everything=True), or CheckpointManager(…, session=…)",
            )
        from ckpt.api.whole import clear

        with self._writing():
            return clear(self._repo, self.list())

    def export(self, file: str | os.PathLike[str], which: Iterable[Which] | None = None) -> int:
        """Write some checkpoints, or all of `list`, to a file; returns how many.

        State-only managers write JSON, others a git bundle, which needs the commits that HEAD
        was at, but not the project's history.
        """
        from ckpt.api.transfer import export

        path = os.path.join(self._start, as_path(file))
        if isinstance(which, str):
            raise UsageError("which must be a list of checkpoints, not one string", hint="[which]")
        with self._reading():
            chosen = [*self] if which is None else sorted(map(self._find, which), key=_by_id)
            return export(self._repo, self._scope, chosen, path)

    def import_(self, file: str | os.PathLike[str]) -> Checkpoints:
        """Read checkpoints that `export` wrote, into this session if there is one.

        Returns those that are new here. Ids that are taken are given anew; all is checked first.
        """
        from ckpt.api.transfer import import_

        with self._writing():
            path = os.path.join(self._start, as_path(file))
            return import_(self._repo, self._scope, path, self._session)

    def prune(self, policy: Policy | None = None, *, dry_run: bool = False) -> PruneResult:
        """Drop what no rule keeps, into the trash; each decision comes with its reasons.

        Without a policy, that of the settings counts.
        """
        from ckpt.arguments import check_type
        from ckpt.engine.prune import prune
        from ckpt.policy import Policy

        check_type("policy", policy, (Policy, type(None)), "a Policy")
        with self._writing():
            return prune(self._repo, policy or self.settings.policy, dry_run=dry_run)

    def trash(self) -> DroppedOnes:
        """Dropped checkpoints that can be brought back, newest first."""
        from ckpt.engine import trash

        with self._reading():
            return trash.dropped(self._repo)

    def restore_dropped(self, which: Which) -> Checkpoint:
        """Bring a dropped checkpoint back; or the very one that is given, if its ref was taken
        away by other means and git has not collected it yet."""
        from ckpt.engine import trash

        given = which.checkpoint if isinstance(which, SaveResult) else which
        known = given if isinstance(given, Checkpoint) else None
        with self._writing():
            return trash.restore(self._repo, as_word(which), known)

    def pin(self, which: Which, pinned: bool = True) -> Checkpoint:
        """Protect a checkpoint from retention, or (`pinned=False`) no longer."""
        with self._writing():
            checkpoint = self._find(which)
            return catalog.set_pinned(self._repo, checkpoint, pinned)

    def unpin(self, which: Which) -> Checkpoint:
        return self.pin(which, pinned=False)
