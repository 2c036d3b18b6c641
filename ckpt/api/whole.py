# SPDX-License-Identifier: MIT
"""What is asked of all checkpoints of a manager at once: a summary, or that they go."""

from __future__ import annotations

from ckpt.engine import trash
from ckpt.errors import NotFound, Refused
from ckpt.models import Checkpoint, Kind, Summary
from ckpt.store.repository import Repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def summarise(newest_first: Sequence[Checkpoint]) -> Summary:
    return Summary(
        count=len(newest_first),
        kinds=_counted(checkpoint.kind.value for checkpoint in newest_first),
        names=_counted(c.name for c in newest_first if c.name is not None),
        first=newest_first[-1] if newest_first else None,
        last=newest_first[0] if newest_first else None,
    )


def _counted(words: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return dict(sorted(counts.items()))


def clear(repo: Repository, checkpoints: Iterable[Checkpoint]) -> int:
    """Move them to the trash, but for those that are kept for good or needed; tells how many."""
    count = 0
    for checkpoint in checkpoints:
        if checkpoint.pinned or checkpoint.kind is Kind.FEATURE:
            continue
        try:
            trash.drop(repo, checkpoint)
            count += 1
        except (NotFound, Refused):  # somebody else was quicker, or a journal names it
            continue
    return count
