# SPDX-License-Identifier: MIT
"""What a save needs to know of git's index when that is the same as last time.

To read the index of a large worktree takes as long as to look at a third of its files. So
the little that a scan and a checkpoint take from it is kept: which paths are tracked, the
submodules, the attributes files, and the trees that stand for it in a checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ckpt import disk
from ckpt.git.formats import ObjectID
from ckpt.git.index import SKIP_WORKTREE, STAGE, IndexEntry, Staged
from ckpt.git.repository import Repository
from ckpt.git.trees import TreeEntry
from ckpt.paths import folders_above

_MODE = slice(24, 28)
_GITLINK = (0o160000).to_bytes(4, "big")
_ATTRIBUTES = b".gitattributes"

Identity = tuple[int, int, int, int, bytes]


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """`tracked` are the sorted paths, one after the other; `is_sparse` if some of them are outside
    a sparse checkout. `state` are the entries of a state tree, as they were written for this
    index; None if they depended on more than that."""

    identity: Identity | None
    mtime_ns: int | None
    tracked: bytes
    gitlinks: dict[bytes, bytes]
    attributes: dict[bytes, bytes]
    is_sparse: bool
    state: dict[bytes, tuple[int, bytes]] | None = None

    def dump(self) -> tuple[object, ...]:
        return (
            self.identity,
            self.mtime_ns,
            self.tracked,
            self.gitlinks,
            self.attributes,
            self.is_sparse,
            self.state,
        )

    @classmethod
    def load(cls, dumped: tuple[object, ...]) -> IndexFacts:
        return cls(*dumped)  # type: ignore[arg-type]  # they are as `dump` gave them

    def paths(self) -> tuple[bytes, ...]:
        return tuple(self.tracked.split(b"\0")) if self.tracked else ()

    def state_entries(self) -> dict[bytes, TreeEntry]:
        assert self.state is not None
        return {name: TreeEntry(mode, ObjectID(id)) for name, (mode, id) in self.state.items()}


def packed(state: Mapping[bytes, TreeEntry]) -> dict[bytes, tuple[int, bytes]]:
    return {name: (entry.mode, entry.id) for name, entry in state.items()}


def facts_of(staged: Staged, identity: Identity | None) -> IndexFacts:
    entries = staged.index.entries
    gitlinks = {e.path: e.id for e in entries if e.stat[_MODE] == _GITLINK}
    tracked = [e.path for e in entries]  # sorted as it is
    if gitlinks or any(e.flags & STAGE for e in entries):
        tracked = sorted({*tracked} - gitlinks.keys())
    return IndexFacts(
        identity=identity,
        mtime_ns=staged.mtime_ns,
        tracked=b"\0".join(tracked),
        gitlinks=gitlinks,
        attributes=_attributes(entries),
        is_sparse=any(entry.flags & SKIP_WORKTREE for entry in entries),
    )


def _attributes(entries: list[IndexEntry]) -> dict[bytes, bytes]:
    return {e.path: e.id for e in entries if e.path.endswith(_ATTRIBUTES) and not e.stage}


def index_identity(repo: Repository) -> Identity | None:
    """What changes whenever git writes the index; None if there is none.

    Git puts a new file in its place each time, which ends in a checksum of its own.
    """
    try:
        fd = disk.opened(repo.index_path)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        length = repo.object_format.oid_length
        end = os.pread(fd, length, max(status.st_size - length, 0))
        if not any(end) and status.st_size <= disk.LARGE:  # index.skipHash
            end = repo.object_format.new_hash(os.pread(fd, status.st_size, 0)).digest()
    finally:
        os.close(fd)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, end


def doubtful_folders(before: IndexFacts, now: IndexFacts) -> set[bytes]:
    """Folders in which other paths are tracked than before, and all above them."""
    if before.tracked == now.tracked and before.gitlinks == now.gitlinks:
        return set()
    paths = {*before.paths()} ^ {*now.paths()}
    paths |= before.gitlinks.keys() ^ now.gitlinks.keys()
    return {folder for path in paths for folder in (b"", *folders_above(path))}
