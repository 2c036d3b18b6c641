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
import stat
import time
import zlib
from binascii import unhexlify
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha1
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from ckpt import disk
from ckpt.disk import LARGE
from ckpt.engine.catalog import still_holds
from ckpt.engine.index_facts import IndexFacts
from ckpt.engine.reading import CODES, NEVER, Clock
from ckpt.engine.summary import Compared
from ckpt.git.formats import ObjectID
from ckpt.git.index import INTENT_TO_ADD, STAGE, IndexEntry, Staged, whole_trees
from ckpt.git.objects import ObjectStore
from ckpt.git.repository import Repository
from ckpt.git.trees import EXECUTABLE, REGULAR, SYMLINK
from ckpt.locks import remove_dead
from ckpt.models import Checkpoint
from ckpt.worktree.cache import (
    Chunk,
    Listing,
    Listings,
    Note,
    Stat,
    both,
    owner_of,
    packed,
    stat_of,
)
from ckpt.worktree.scan import dates_folders

if TYPE_CHECKING:
    from ckpt.engine.capture import Present

    Part = tuple[list[tuple[Any, ...]], list[bytes], list[bytes], dict[bytes, Stat]]

_NAME = "scan"
_ANY_FORMAT = b"ckpt scan "
_MAGIC = _ANY_FORMAT + b"6\n"
_START = len(_MAGIC) + 32  # bytes: whose it is, its length and its checksum
_MARSHAL = 4
_ONE_IN = 400  # paths that must have changed for the file to be written again


@dataclass(frozen=True, slots=True)
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
        data = disk.read_private(path_of(repo), most=LARGE)
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
    if cache.unwritten > paths // _ONE_IN or disk.is_left_over(path):
        with suppress(OSError):
            disk.replace_cache(path, _dump(repo, cache))
            cache = replace(cache, unwritten=0)
    repo.kept[_NAME] = cache


def clear_left_over(repo: Repository) -> None:
    """Take away what a killed process has not finished; `store` writes over it."""
    path = path_of(repo)
    if disk.is_left_over(path):
        with suppress(OSError):
            remove_dead(disk.unfinished(path))


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
        with open(disk.opened_private(path_of(repo), disk.OPEN, LARGE), "rb") as file:
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


# -- The first scan of a worktree, when nothing is known of it but what git's index says

_STAT = Struct(">10L")
_SECOND = 1_000_000_000
_WORD = 0xFFFFFFFF
_BATCH = 4000  # files, whose blobs are looked up together
_FORK_PAYS = 2000  # files
# How files look that git calls so: their kind, and whether the owner may run them.
_ON_DISK = {REGULAR: 0o100000, EXECUTABLE: 0o100100, SYMLINK: 0o120100}
_REPOSITORY = frozenset({b"HEAD", b"objects", b"refs"})
_UNUSUAL = INTENT_TO_ADD | STAGE


class Seed(NamedTuple):
    """Listings as the index would have them. Folders of `odd` hold something else, and the
    `files` are to be read; the trees of `changed` are not known. `listed` are the stat data that
    folders had before they were listed."""

    listings: Listings
    odd: set[bytes]
    files: set[bytes]
    changed: set[bytes]
    listed: dict[bytes, Stat]


def seed(
    top: bytes,
    staged: Staged,
    objects: ObjectStore,
    clock: Clock,
    is_denied: Callable[[bytes], bool],
    is_converted: Callable[[bytes], bool] | None,
) -> Seed | None:
    """Listings from the index; None where it does not tell enough."""
    entries = staged.index.entries
    if not entries or any(entry.flags & _UNUSUAL for entry in entries):
        return None
    planter = _Planter(top, staged, objects, clock, is_denied, is_converted)
    folders = sorted(planter.inside)
    half = len(folders) // 2
    parts = both(
        lambda: planter.plant(folders[:half]),
        lambda: planter.plant(folders[half:]),
        pays=len(entries) > _FORK_PAYS,
    )
    chunks = [chunk for part in parts for chunk in part[0]]
    return Seed(
        Listings(map(Chunk.of, chunks)),
        {folder for part in parts for folder in part[1]},
        {path for part in parts for path in part[2]},
        planter.unknown,
        parts[0][3] | parts[1][3],
    )


class _Planter:
    def __init__(
        self,
        top: bytes,
        staged: Staged,
        objects: ObjectStore,
        clock: Clock,
        is_denied: Callable[[bytes], bool],
        is_converted: Callable[[bytes], bool] | None,
    ) -> None:
        self._base = os.path.join(top, b"")
        self._staged = staged
        self._objects = objects
        self._clock = clock
        self._is_denied = is_denied
        self._is_converted = is_converted
        self._files: dict[bytes, list[IndexEntry]] = {}
        self.inside: dict[bytes, list[bytes]] = {b"": []}
        self._group(staged.index.entries)
        self._trees = self._known_trees()
        self.unknown = {folder for folder in self.inside if folder not in self._trees}
        self._index_mtime = staged.mtime_ns or 0
        self._sizes: dict[ObjectID, int] = {}
        self._odd: list[bytes] = []
        self._unread: list[bytes] = []
        self._listed: dict[bytes, Stat] = {}

    def _group(self, entries: Iterable[IndexEntry]) -> None:
        """Sort files and folders into the folder that they are in."""
        files, inside = self._files, self.inside
        for entry in entries:
            folder = entry.path.rpartition(b"/")[0]
            if folder in files:
                files[folder].append(entry)
                continue
            files[folder] = [entry]
            new = []
            while folder not in inside:
                new.append(folder)
                folder = folder.rpartition(b"/")[0]
            for folder in reversed(new):
                above, _, name = folder.rpartition(b"/")
                inside[above].append(name)
                inside[folder] = []

    def _known_trees(self) -> dict[bytes, bytes]:
        """The trees of folders that git remembers, if they are whole: else they are written."""
        trees = whole_trees(self._objects, self._staged.index)
        return {folder: unhexlify(tree) for folder, tree in trees.items()}

    def plant(self, folders: list[bytes]) -> Part:
        """Listings of some folders, packed; which of them are odd, and the files to be read."""
        self._odd, self._unread, self._listed = [], [], {}
        blobs = {entry.id for folder in folders for entry in self._files.get(folder, ())}
        self._sizes = self._objects.sizes(map(ObjectID, blobs))
        chunks: list[tuple[Any, ...]] = []
        for batch in self._batches(folders):
            chunks += [chunk.plain() for chunk in packed(batch)]
        self._sizes = {}
        return chunks, self._odd, self._unread, self._listed

    def _batches(self, folders: list[bytes]) -> Iterator[list[Listing]]:
        batch: list[Listing] = []
        files = 0
        for folder in folders:
            listing = self._listing(folder)
            if listing is not None:
                batch.append(listing)
                files += len(listing.names)
            if files > _BATCH:
                yield batch
                batch, files = [], 0
        yield batch

    def _listing(self, folder: bytes) -> Listing | None:
        """A folder as the index has it, with stat data from the disk; None if there is none."""
        place = self._base + folder
        try:
            status = os.lstat(place)
            if not stat.S_ISDIR(status.st_mode):  # a link may lead to such a folder
                raise NotADirectoryError
            names = os.listdir(place)
        except OSError:
            self._odd.append(folder.rpartition(b"/")[0])
            return None
        self._listed[folder] = stat_of(status)
        listing = Listing(folder)
        entries, inside = self._files.get(folder, []), self.inside[folder]
        self._add_files(listing, entries)
        prefix = listing.prefix
        listing.trees = {name: self._trees.get(prefix + name, b"") for name in inside}
        listing.tree = self._trees.get(folder, b"")
        listing.is_walked = True
        if b".gitattributes" in listing.names:
            listing.notes.append(("attributes", listing.prefix + b".gitattributes", b""))
        if folder:
            listing.bits = status.st_mode & 0o777
        if self._is_ordinary(listing, names):
            if self._clock.is_settled_folder(status):
                listing.status = stat_of(status)
        else:
            self._odd.append(folder)
        if folder and self._is_denied(folder):
            self._odd.append(folder.rpartition(b"/")[0])
        return listing

    def _is_ordinary(self, listing: Listing, names: list[bytes]) -> bool:
        """Whether a folder holds the names that the index has there, and no others."""
        there = set(names)
        if not listing.folder:
            there.discard(b".git")
        count = len(listing.names) + len(listing.trees)
        return (
            len(there) == count
            and there.issuperset(listing.names)
            and there.issuperset(listing.trees)
            and not there >= _REPOSITORY
        )

    def _add_files(self, listing: Listing, entries: list[IndexEntry]) -> None:
        fields = _STAT.iter_unpack(b"".join([entry.stat for entry in entries]))
        rows = [
            (entry, field, status)
            for entry, field, status in zip(entries, fields, self._look_at(entries), strict=True)
            if status is not None and field[6] in _ON_DISK
        ]
        if len(rows) < len(entries):  # something is gone, or a submodule
            self._odd.append(listing.folder)
        start = len(listing.prefix)
        listing.names = [entry.path[start:] for entry, _, _ in rows]
        listing.codes = bytearray([CODES[field[6]] for _, field, _ in rows])
        listing.ids = [unhexlify(entry.id) for entry, _, _ in rows]
        listing.stats = [stat_of(status) for _, _, status in rows]
        listing.owners = [owner_of(status) for _, _, status in rows]
        for number, (entry, field, status) in enumerate(rows):
            if not self._is_proof(entry, field, listing.stats[number]):
                self._doubt(listing, number, status, field[6])

    def _doubt(self, listing: Listing, number: int, status: os.stat_result, mode: int) -> None:
        """A file that has to be read, if it is still one."""
        if stat.S_IFMT(status.st_mode) != stat.S_IFMT(mode):
            self._odd.append(listing.folder)
        listing.unsure.add(number)
        self._unread.append(listing.prefix + listing.names[number])

    def _look_at(self, entries: list[IndexEntry]) -> list[os.stat_result | None]:
        places = [self._base + entry.path for entry in entries]
        try:
            return [*map(os.lstat, places)]
        except OSError:
            return [*map(_lstat, places)]

    def _is_proof(self, entry: IndexEntry, fields: tuple[int, ...], status: Stat) -> bool:
        """Whether a file has the stat data of its entry, these can be relied on, and its blob
        has its size; else it was converted by rules that may be gone."""
        ctime_s, ctime_ns, mtime_s, mtime_ns, _, ino, staged, _, _, size = fields
        mtime, ctime, inode, length, mode = status
        return (
            mtime == mtime_s * _SECOND + mtime_ns
            and ctime == ctime_s * _SECOND + ctime_ns
            and inode & _WORD == ino
            and length == size == self._sizes.get(ObjectID(entry.id))
            and mode & 0o170100 == _ON_DISK[staged]
            and mtime < self._index_mtime
            and self._clock.is_safe(mtime, ctime)
            and (self._is_converted is None or not self._is_converted(entry.path))
        )


def _lstat(place: bytes) -> os.stat_result | None:
    try:
        return os.lstat(place)
    except OSError:
        return None
