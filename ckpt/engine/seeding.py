# SPDX-License-Identifier: MIT
"""The first scan of a worktree, when nothing is known of it but what git's index says.

The index names every tracked file with its blob and its stat data, and remembers the trees of
folders. So listings are made of it first, and then compared with the disk: a folder that holds
exactly the names that the index has there needs no rules to be looked up, and a file whose
stat data are those in the index need not be read. Whatever is otherwise is left to the rescan,
which lists and reads it as always.

Left out: sparse checkouts, conflicts and intended entries; those are scanned the long way.
"""

from __future__ import annotations

import os
import stat
from binascii import unhexlify
from collections.abc import Callable, Iterable, Iterator
from struct import Struct

from ckpt.engine.gather import CODES, Clock
from ckpt.store.index import INTENT_TO_ADD, STAGE, IndexEntry
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.staging import MISLEADING, Staged, whole_trees
from ckpt.store.trees import EXECUTABLE, REGULAR, SYMLINK
from ckpt.values import NamedTuple
from ckpt.worktree.listing import Listing, Stat, owner_of, stat_of
from ckpt.worktree.listings import Chunk, Listings, packed
from ckpt.worktree.parallel import both

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    # Chunks, odd folders, files to be read, folders that were listed: plain data, which can come
    # from another process.
    Part = tuple[list[tuple[Any, ...]], list[bytes], list[bytes], dict[bytes, Stat]]

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
        ctime_s, ctime_ns, mtime_s, mtime_ns, device, ino, staged, _, _, size = fields
        mtime, ctime, inode, length, mode = status
        return (
            mtime == mtime_s * _SECOND + mtime_ns
            and ctime == ctime_s * _SECOND + ctime_ns
            and inode & _WORD == ino
            and device != MISLEADING
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
