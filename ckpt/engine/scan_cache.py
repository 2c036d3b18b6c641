# SPDX-License-Identifier: MIT
"""The scan cache: what the last save found, so that the next one looks only at what changed.

A private file of the worktree (`scan` in `<git dir>/ckpt`), written last and only after the
checkpoint that holds every object it names; a process that lives on keeps it in memory as
well. It counts only while that checkpoint is there: else an id in it might name an object
that git has pruned. Damaged, foreign, or of another format, it is thrown away and made anew.
`marshal` is no match for bytes that are made to harm it, as in a repository that came with an
archive: a cache is read only if it names this very folder, by what no archive can know of it.

It is not written after every small change: what it does not know is read again, which
takes less time than to write the whole.
"""

from __future__ import annotations

import marshal
import os
import time
import zlib
from contextlib import suppress

from ckpt import disk, private
from ckpt.engine.catalog import still_holds
from ckpt.engine.gather import NEVER, Clock
from ckpt.engine.index_facts import IndexFacts
from ckpt.engine.summary import Compared
from ckpt.hashing import sha1
from ckpt.models import Checkpoint
from ckpt.regular import LARGE
from ckpt.store.lock import remove_dead
from ckpt.store.objects import ObjectID
from ckpt.store.repository import Repository
from ckpt.values import replace, value_class
from ckpt.worktree.listing import Note
from ckpt.worktree.listings import Chunk, Listings
from ckpt.worktree.mounts import dates_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ckpt.engine.present import Present

_NAME = "scan"
_ANY_FORMAT = b"ckpt scan "
_MAGIC = _ANY_FORMAT + b"6\n"
_START = len(_MAGIC) + 32  # bytes: whose it is, its length and its checksum
_MARSHAL = 4
_ONE_IN = 400  # paths that must have changed for the file to be written again


@value_class
class ScanCache:
    """`rules` and `attributes` stand for all that the listings follow from besides the disk and
    the index; `tree` is that of the checkpoint `holder`, whose state commit is `state`.
    `compared` is for `summary`, and nobody else's business."""

    rules: bytes
    attributes: bytes
    index: IndexFacts
    chunks: list[Chunk]
    holder: str = ""
    tree: bytes = b""
    state: bytes = b""
    compared: Compared | None = None
    unwritten: int = 0

    def notes(self) -> list[Note]:
        return [note for chunk in self.chunks for note in chunk.summary.notes]

    def listings(self) -> Listings:
        return Listings(self.chunks)


def load(repo: Repository) -> ScanCache | None:
    """The cache of a worktree, if all it names is held by a checkpoint."""
    cache = repo.kept.get(_NAME)
    if not isinstance(cache, ScanCache):
        cache = _read(repo)
    if cache is None or not is_held(repo, cache):
        forget(repo)
        return None
    repo.kept[_NAME] = cache
    return cache


def forget(repo: Repository) -> None:
    """Let the next capture start from nothing."""
    repo.kept.pop(_NAME, None)
    with suppress(OSError):
        disk.unlink(path_of(repo))


def is_damaged(repo: Repository) -> bool:
    """Whether there is a cache that no version of ckpt has written so."""
    try:
        data = private.read(path_of(repo), most=LARGE)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    is_of_another_format = data.startswith(_ANY_FORMAT) and not data.startswith(_MAGIC)
    return not is_of_another_format and not _is_whole(data[:_START], memoryview(data)[_START:])


def is_held(repo: Repository, cache: ScanCache) -> bool:
    """Whether the checkpoint is still there that holds the objects."""
    return still_holds(repo, cache.holder, cache.tree, cache.state)


def held_by(cache: ScanCache, holder: Checkpoint) -> ScanCache:
    """The same, of which another checkpoint holds all objects by now."""
    return replace(
        cache,
        holder=holder.id,
        tree=ObjectID(holder.tree.encode()),
        state=ObjectID(holder.state_commit.encode()),
    )


def clock(repo: Repository) -> Clock:
    """The time by the clock of the file system, which may be another machine's."""
    try:
        path = os.path.join(repo.private_dir, "lock")
        disk.utime(path)
        began = min(os.stat(path).st_mtime_ns, time.time_ns())
        return Clock(began, os.stat(repo.worktree).st_dev if _dates_folders(repo) else None)
    except OSError:
        return NEVER


def _dates_folders(repo: Repository) -> bool:
    """Asked once by a process; a file system does not change its ways."""
    known = repo.kept.get("dates folders")
    if known is None:
        known = repo.kept["dates folders"] = dates_folders(repo.worktree)
    return bool(known)


def store(repo: Repository, present: Present, holder: Checkpoint) -> None:
    """Keep what a save found; that it cannot be written is no error, nobody depends on it."""
    assert present.cache is not None
    found = replace(present.cache, index=present.index, chunks=present.listings.pack())
    cache = held_by(found, holder)
    paths = sum(chunk.paths.count(b"\0") + 1 for chunk in cache.chunks)
    path = path_of(repo)
    if cache.unwritten > paths // _ONE_IN or private.is_left_over(path):
        with suppress(OSError):
            private.replace_cache(path, _dump(repo, cache))
            cache = replace(cache, unwritten=0)
    repo.kept[_NAME] = cache


def clear_left_over(repo: Repository) -> None:
    """Take away what a killed process has not finished; `store` writes over it."""
    path = path_of(repo)
    if private.is_left_over(path):
        with suppress(OSError):
            remove_dead(private.unfinished(path))


def path_of(repo: Repository) -> str:
    return os.path.join(repo.private_dir, _NAME)


def _identity(repo: Repository) -> bytes:
    """What makes a cache this worktree's own, and not one of a copy."""
    status = os.stat(repo.worktree)
    place = repo.worktree, repo.git_dir, status.st_dev, status.st_ino, repo.object_format.name
    return sha1(ascii(place).encode()).digest()


def _dump(repo: Repository, cache: ScanCache) -> list[bytes]:
    document: Any = (
        cache.rules,
        cache.attributes,
        cache.index.dump(),
        [chunk.plain() for chunk in cache.chunks],
        cache.holder,
        cache.tree,
        cache.state,
        None if cache.compared is None else cache.compared.plain(),
    )
    body = marshal.dumps(document, _MARSHAL)
    return [_MAGIC, _identity(repo), _checksum(body), body]


def _read(repo: Repository) -> ScanCache | None:
    try:
        # One that others can read is made anew, and so closed.
        with open(private.opened(path_of(repo), private.OPEN, LARGE), "rb") as file:
            head = file.read(_START)
            if not head.startswith(_MAGIC + _identity(repo)):
                return None
            body = file.read()
    except OSError:
        return None
    if not _is_whole(head, body):
        return None
    rules, attributes, index, chunks, holder, tree, state, compared = marshal.loads(body)
    return ScanCache(
        rules=rules,
        attributes=attributes,
        index=IndexFacts.load(index),
        chunks=[*map(Chunk.of, chunks)],
        holder=holder,
        tree=ObjectID(tree),
        state=ObjectID(state),
        compared=compared and Compared.of(compared),
    )


def _is_whole(head: bytes, body: bytes | memoryview) -> bool:
    """Whether a cache file has all its bytes: damaged ones must not get to `marshal` either."""
    return head.startswith(_MAGIC) and head.endswith(_checksum(body)) and len(head) == _START


def _checksum(body: bytes | memoryview) -> bytes:
    return len(body).to_bytes(8, "big") + zlib.crc32(body).to_bytes(4, "big")
