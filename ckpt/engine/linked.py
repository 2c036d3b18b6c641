# SPDX-License-Identifier: MIT
"""Checkpoints of this repository that those of a repository around it name.

A save with `--recurse` takes one of every repository inside, and names it in the manifest of the
outermost. To go back to that one takes all of them, so while it is there, in the trash too, none
of them may go by rule. Found by looking into the repository around, which alone knows.
"""

from __future__ import annotations

from ckpt.engine import trash
from ckpt.engine.catalog import Catalog
from ckpt.engine.nested import repository_around
from ckpt.errors import CkptError
from ckpt.store import record
from ckpt.store.details import read_nested
from ckpt.store.repository import Repository
from ckpt.store.roots import present_worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_REASON = "belongs to a checkpoint of the repository around it"


def linked_from_around(repo: Repository) -> dict[str, str]:
    """Ids of this repository that must stay, each with the reason."""
    found: set[str] = set()
    for worktree in present_worktrees(repo):
        around = repository_around(repo, worktree)
        if around is not None:
            with around:
                found.update(_links(around))
    return dict.fromkeys(found, _REASON)


def _links(around: Repository) -> Iterator[str]:
    dropped = [item.checkpoint for item in trash.dropped(around)]
    seen: set[str] = set()  # checkpoints of equal state share it
    for checkpoint in [*Catalog(around), *dropped]:
        if checkpoint.state_commit in seen:
            continue
        seen.add(checkpoint.state_commit)
        try:
            manifest = record.read_json(around.objects, checkpoint, record.MANIFEST)
            states = read_nested(manifest.get("nested", ()))
        except (CkptError, TypeError, KeyError, AttributeError, ValueError):  # it is damaged
            continue
        yield from (state.checkpoint for state in states if state.checkpoint is not None)
