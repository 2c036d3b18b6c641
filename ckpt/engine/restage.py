# SPDX-License-Identifier: MIT
"""Put the index back: the wanted entries, written under git's own lock.

Limited to paths, everything outside them stays as it is staged now. Stat data come
from files whose content is certain; git looks at the others again by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ckpt.engine.changes import Action
from ckpt.errors import Busy
from ckpt.git import index as staging
from ckpt.git.formats import ObjectID
from ckpt.git.index import Index, IndexEntry, KnownFile, Staged, compose
from ckpt.git.repository import Repository
from ckpt.git.trees import GITLINK
from ckpt.locks import replace_locked
from ckpt.paths import folders_above, is_within

if TYPE_CHECKING:
    _Result = TypeVar("_Result")

# An editor's `git status` may hold the lock for a moment, for which nobody stops half way.
_INDEX_PATIENCE = 1.0

# An index that changes each time between its reading and its writing is left to who changes it.
_ATTEMPTS = 4


class IndexChanged(Busy):
    """Another process staged something at that very moment."""

    def __init__(self) -> None:
        super().__init__(
            "the index changed while the rollback ran",
            hint="'git ckpt rollback --continue' saves that change and finishes",
        )


def limited(target: Index, present: Index, limits: tuple[bytes, ...]) -> Index:
    """The target's entries inside the limits, the present ones outside, all of which stay."""
    if not limits:
        return target
    hindered = below_files(target, present, limits)
    inside = [e for e in target.entries if is_within(e.path, limits) and e.path not in hindered]
    stay = [e for e in present.entries if not is_within(e.path, limits)]
    return _of(present, inside + stay)


def below_files(target: Index, present: Index, limits: tuple[bytes, ...]) -> dict[bytes, bytes]:
    """Of the target's entries inside the limits, those below what is staged as a file outside
    them, each with that file: an index cannot hold both."""
    stay = {e.path for e in present.entries if not is_within(e.path, limits)}
    inside = (e.path for e in target.entries if is_within(e.path, limits))
    return {path: folder for path in inside for folder in folders_above(path) if folder in stay}


def without(index: Index, paths: Collection[bytes]) -> Index:
    """An index but for some paths, in none of whose stages anything is."""
    if not paths:
        return index
    entries = [entry for entry in index.entries if entry.path not in paths]
    return _of(index, entries)


def outside(index: Index, limits: tuple[bytes, ...]) -> Index:
    """The entries that a rollback with these limits leaves alone."""
    limits = limits or (b"",)  # without any, everything is inside
    entries = [e for e in index.entries if not is_within(e.path, limits)]
    return _of(index, entries)


def _of(index: Index, entries: list[IndexEntry]) -> Index:
    """The same index with other entries."""
    ordered = sorted(entries, key=lambda entry: (entry.path, entry.stage))
    return Index(index.version, ordered, hash_len=index.hash_len)


def needed_blobs(wanted: Index, present: Index) -> set[ObjectID]:
    """Blobs that the wanted index names and the present one does not."""
    held = {entry.id for entry in present.entries}
    return {
        ObjectID(entry.id)
        for entry in wanted.entries
        if entry.id not in held and entry.mode != GITLINK and not entry.intent_to_add
    }


def writes_converted(action: Action) -> bool:
    """Whether git would go by the size in the index, and take what was written for changed."""
    return any(s is not None and s.origin is not None for s in (action.before, action.after))


def restage(
    repo: Repository,
    wanted: Index,
    present: Staged,
    known: KnownFile,
) -> None:
    """Replace the index file; IndexChanged if another process did so since it was read."""
    if any(entry.intent_to_add for entry in wanted.entries):
        repo.objects.add(b"blob", b"")  # which such an entry names, and git reads
        repo.objects.flush()
    data = compose(wanted, present, known, repo.object_format.name)

    def unchanged() -> bool:
        return staging.same(staging.read_staged(repo).index, present.index)

    if not replace_locked(
        repo.index_path, data, repo.private_dir, unchanged, patience=_INDEX_PATIENCE
    ):
        raise IndexChanged


def until_settled(attempt: Callable[[], _Result]) -> _Result:
    """Read the index, save what is new in it and restage, again if somebody was quicker."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(IndexChanged):
            return attempt()
    return attempt()
