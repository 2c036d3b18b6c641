# SPDX-License-Identifier: MIT
"""The folders of a worktree, in a form that is quick to compare with the disk, and to store.

They are kept in chunks of some dozen paths. All paths of a chunk are compared with the disk
in a few calls, and only a chunk that differs is taken apart, only a folder that is asked for
made a `Listing`, and only one that was changed packed again; so a worktree in which little
has changed costs little more than one `lstat` for each file and folder.
"""

from __future__ import annotations

import marshal
import os
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from struct import Struct

from ckpt.values import NamedTuple
from ckpt.worktree import reach
from ckpt.worktree.listing import UNSURE, Listing, Note, Stat, stat_of
from ckpt.worktree.parallel import both

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = tuple[Any, ...]

_STAT = Struct("<qqQqI")
_PATHS = 32  # in a chunk; one that has grown to more than twice as many is divided
_FORK_PAYS = 100  # chunks for each half; to look at one takes a tenth of a millisecond


class Summary(NamedTuple):
    """What a checkpoint says of all its folders together, for those of one chunk.

    `bits` counts files by their permissions, `folders` folders. `new_files` and `new_bytes`
    are those that git does not track.
    """

    bits: dict[int, int]
    folders: dict[int, int]
    new_files: int
    new_bytes: int
    notes: list[Note]
    has_unwalked: bool


class Chunk(NamedTuple):
    """Neighbouring folders, packed: all their paths, the stat data of these, and the rest."""

    first: bytes
    paths: bytes
    stats: bytes
    summary: Summary
    rest: bytes

    def plain(self) -> tuple[Any, ...]:
        """The same as data that `marshal` takes."""
        return self.first, self.paths, self.stats, tuple(self.summary), self.rest

    def sizes(self) -> dict[bytes, int]:
        """The sizes that files and folders had; 0 for what is looked at again."""
        paths = self.paths.split(b"\0")
        return {
            path: fields[3]
            for path, fields in zip(paths, _STAT.iter_unpack(self.stats), strict=True)
        }

    @classmethod
    def of(cls, plain: tuple[Any, ...]) -> Chunk:
        first, paths, stats, summary, rest = plain
        return cls(first, paths, stats, Summary(*summary), rest)


def _differences(base: bytes, chunk: Chunk) -> list[int]:
    """The places of the paths that have other stat data than they had; `base` ends in a slash."""
    places = [*map(base.__add__, chunk.paths.split(b"\0"))]
    found: list[Stat | None]
    try:
        found = [*map(stat_of, map(os.lstat, places))]
    except OSError:
        found = [*map(_stat_or_none, places)]
    known = [*_STAT.iter_unpack(chunk.stats)]
    if found == known:
        return []
    return [at for at, status in enumerate(found) if status != known[at]]


def _stat_or_none(place: bytes) -> Stat | None:
    try:
        return stat_of(reach.lstat(place))
    except OSError:
        return None


def _changed(base: bytes, chunks: list[Chunk]) -> list[tuple[int, list[int]]]:
    """Chunks by their numbers, with the places of what differs in them."""
    each = ((number, _differences(base, chunk)) for number, chunk in enumerate(chunks))
    return [(number, places) for number, places in each if places]


class Listings:
    """The folders of a worktree, in chunks that are unpacked and packed again as needed."""

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self._renew(list(chunks))

    def _renew(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks
        self._firsts = [chunk.first for chunk in chunks]
        self._open: dict[int, _OpenChunk] = {}

    # -- looking -------------------------------------------------------------------

    def changed(self, base: bytes) -> Iterator[tuple[Listing, list[int]]]:
        """The folders in which something differs from the disk, and which of their paths."""
        half = len(self._chunks) // 2
        one, other = both(
            lambda: _changed(base, self._chunks[:half]),
            lambda: _changed(base, self._chunks[half:]),
            pays=half > _FORK_PAYS,
        )
        for number, places in (*one, *((half + number, places) for number, places in other)):
            yield from self._opened(number).sharing(places)

    def folders_as_compared(self) -> Iterator[tuple[bytes, Stat]]:
        """The folders whose stat data were known when all were compared with the disk, and these;
        so long as nothing is packed, whatever was put in their place since."""
        for chunk in self._chunks:
            stats = _STAT.iter_unpack(chunk.stats)
            for path, status in zip(chunk.paths.split(b"\0"), stats, strict=True):
                if stat.S_ISDIR(status[4]):
                    yield path, status

    def get(self, folder: bytes) -> Listing | None:
        return self._opened(self._number(folder)).get(folder)

    def below(self, folder: bytes) -> list[Listing]:
        """A folder and all that are inside it."""
        if not folder:
            return [*self]
        found = [] if (top := self.get(folder)) is None else [top]
        first, last = folder + b"/", folder + b"0"
        for number in range(self._number(first), bisect_left(self._firsts, last)):
            chunk = self._opened(number)
            found += [chunk[path] for path in chunk.folders() if first <= path < last]
        return found

    def unwalked(self) -> list[Listing]:
        """Folders that hold only what someone named."""
        numbers = [n for n, chunk in enumerate(self._chunks) if chunk.summary.has_unwalked]
        return [x for number in numbers for x in self._all(number) if not x.is_walked]

    def __iter__(self) -> Iterator[Listing]:
        for number in range(len(self._chunks)):
            yield from self._all(number)

    def summaries(self) -> list[Summary]:
        return [chunk.summary for chunk in self.pack()]

    def where(self, unusual: Callable[[Summary], bool]) -> Iterator[Listing]:
        """The folders of the chunks whose summary is found unusual."""
        for number, chunk in enumerate(self.pack()):
            if unusual(chunk.summary):
                yield from self._all(number)

    # -- changing ------------------------------------------------------------------

    def touch(self, folder: bytes) -> None:
        """Say that a folder got from here was changed."""
        self._opened(self._number(folder)).touched.add(folder)

    def put(self, listing: Listing) -> None:
        """Add a folder, or put it in another's place."""
        self._opened(self._number(listing.folder)).put(listing)

    def remove(self, folder: bytes) -> None:
        self._opened(self._number(folder)).remove(folder)

    def pack(self) -> list[Chunk]:
        """The chunks, those anew that were changed."""
        if any(opened.is_changed for opened in self._open.values()):
            chunks: list[Chunk] = []
            for number in range(max(len(self._chunks), 1)):
                opened = self._open.get(number)
                if opened is None or not opened.is_changed:
                    chunks.append(self._chunks[number])
                else:
                    chunks += opened.packed()
            self._renew(chunks)
        return self._chunks

    def _number(self, folder: bytes) -> int:
        """The chunk that a folder is in, if it is in any."""
        return max(bisect_right(self._firsts, folder) - 1, 0)

    def _opened(self, number: int) -> _OpenChunk:
        if number not in self._open:
            self._open[number] = _OpenChunk(self._chunks[number] if self._chunks else None)
        return self._open[number]

    def _all(self, number: int) -> Iterator[Listing]:
        """All folders of a chunk, which is not kept open for this."""
        chunk = self._open.get(number) or _OpenChunk(self._chunks[number])
        return (chunk[folder] for folder in chunk.folders())


class _OpenChunk:
    """The folders of a chunk: records as they were packed, and listings made of some."""

    def __init__(self, chunk: Chunk | None) -> None:
        records = [] if chunk is None else marshal.loads(chunk.rest)
        self._chunk = chunk
        self._records: dict[bytes, Record] = {}
        self._starts: dict[bytes, int] = {}
        self._listings: dict[bytes, Listing] = {}
        self.touched: set[bytes] = set()
        self._is_changed = False
        start = 0
        for record in records:
            self._records[record[0]] = record
            self._starts[record[0]] = start
            start += record[1]

    @property
    def is_changed(self) -> bool:
        return self._is_changed or bool(self.touched)

    def folders(self) -> list[bytes]:
        return sorted(self._records.keys() | self._listings.keys())

    def get(self, folder: bytes) -> Listing | None:
        listing = self._listings.get(folder)
        if listing is None and folder in self._records:
            listing = self._listings[folder] = _unpack(self._records[folder], self._stats(folder))
        return listing

    def __getitem__(self, folder: bytes) -> Listing:
        found = self.get(folder)
        if found is None:
            raise KeyError(folder)
        return found

    def sharing(self, places: list[int]) -> Iterator[tuple[Listing, list[int]]]:
        """Folders with those of some places in the chunk that are theirs."""
        for folder, record in [*self._records.items()]:
            start, count = self._starts[folder], record[1]
            own = [place - start for place in places if start <= place < start + count]
            if own:
                yield self[folder], own

    def put(self, listing: Listing) -> None:
        self._records.pop(listing.folder, None)
        self._listings[listing.folder] = listing
        self.touched.add(listing.folder)

    def remove(self, folder: bytes) -> None:
        known = (self._records.pop(folder, None), self._listings.pop(folder, None))
        self.touched.discard(folder)
        self._is_changed |= known != (None, None)

    def packed(self) -> Iterator[Chunk]:
        """The chunk with its changes; several, if it has become too large, or none."""
        paths = [] if self._chunk is None else self._chunk.paths.split(b"\0")
        pieces = []
        for folder in self.folders():
            if folder in self.touched:
                pieces.append(_pack(self._listings[folder]))
                continue
            start, record = self._starts[folder], self._records[folder]
            names = b"\0".join(paths[start : start + record[1]])
            pieces.append((record, names, self._stats(folder)))
        return _chunks(pieces, 2 * _PATHS)

    def _stats(self, folder: bytes) -> bytes:
        assert self._chunk is not None
        start, count = self._starts[folder], self._records[folder][1]
        return self._chunk.stats[start * _STAT.size : (start + count) * _STAT.size]


def packed(ordered: Iterable[Listing]) -> Iterator[Chunk]:
    """Chunks of listings, which come in the order of their folders."""
    return _chunks([*map(_pack, ordered)], _PATHS)


def _chunks(pieces: list[tuple[Record, bytes, bytes]], most: int) -> Iterator[Chunk]:
    """Chunks of packed folders: one, or smaller ones if that were too large."""
    total = sum(record[1] for record, _, _ in pieces)
    enough = _PATHS if total > most else total
    group: list[tuple[Record, bytes, bytes]] = []
    size = 0
    for piece in pieces:
        group.append(piece)
        size += piece[0][1]
        if size >= enough:
            yield _chunk(group)
            group, size = [], 0
    if group:
        yield _chunk(group)


def _chunk(pieces: list[tuple[Record, bytes, bytes]]) -> Chunk:
    records = [record for record, _, _ in pieces]
    return Chunk(
        records[0][0],
        b"\0".join([paths for _, paths, _ in pieces]),
        b"".join([stats for _, _, stats in pieces]),
        _summary(records),
        marshal.dumps(records),
    )


def _pack(listing: Listing) -> tuple[Record, bytes, bytes]:
    stats = [listing.status, *listing.stats]
    for number in listing.unsure:
        stats[number + 1] = UNSURE
    return (
        _record(listing),
        b"\0".join(listing.paths()),
        b"".join([_STAT.pack(*status) for status in stats]),
    )


def _record(listing: Listing) -> Record:
    owners = listing.owners
    if len(owners) > 1 and len(set(owners)) == 1:
        owners = owners[:1]
    new_sizes = listing.new_sizes()
    return (
        listing.folder,
        1 + len(listing.stats),
        listing.bits,
        listing.is_walked,
        listing.notes,
        _permissions(listing),
        len(new_sizes),
        sum(new_sizes),
        listing.names,
        listing.watched,
        owners,
        bytes(listing.codes),
        b"".join(listing.ids),
        listing.trees,
        listing.tree,
        {number: listing.stats[number] for number in listing.unsure},
    )


def _permissions(listing: Listing) -> dict[int, int]:
    """How many files have which permissions."""
    counts: dict[int, int] = {}
    for number in range(len(listing.names)):
        bits = listing.permissions(number)
        if bits is not None:
            counts[bits] = counts.get(bits, 0) + 1
    return counts


def _unpack(record: Record, stats: bytes) -> Listing:
    listing = Listing(record[0])
    listing.bits, listing.is_walked, listing.notes = record[2:5]
    listing.names, listing.watched, owners, codes, ids = record[8:13]
    listing.trees, listing.tree, unsure = record[13:]
    listing.status, *listing.stats = _STAT.iter_unpack(stats)
    for number, status in unsure.items():
        listing.stats[number] = status
    listing.unsure = set(unsure)
    listing.owners = owners * len(listing.stats) if len(owners) == 1 else owners
    listing.codes = bytearray(codes)
    length = len(ids) // max(len(codes), 1) or 1
    listing.ids = [ids[n : n + length] for n in range(0, len(ids), length)]
    return listing


def _summary(records: list[Record]) -> Summary:
    bits: dict[int, int] = {}
    folders: dict[int, int] = {}
    notes: list[Note] = []
    for record in records:
        if record[2] is not None:
            folders[record[2]] = folders.get(record[2], 0) + 1
        notes += record[4]
        for permissions, count in record[5].items():
            bits[permissions] = bits.get(permissions, 0) + count
    return Summary(
        bits,
        folders,
        sum(record[6] for record in records),
        sum(record[7] for record in records),
        notes,
        not all(record[3] for record in records),
    )
