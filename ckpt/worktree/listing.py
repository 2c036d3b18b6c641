# SPDX-License-Identifier: MIT
"""What the folders of a worktree hold, in a form that is quick to compare with the disk.

A `Listing` is one folder: its files with the stat data under which their blobs are known,
and the trees of the folders inside. Listings are kept in chunks of some dozen paths.
All paths of a chunk are compared with the disk in a few calls, and only a chunk that
differs is taken apart; so a worktree in which little has changed costs little more than
one `lstat` for each file and folder.

Knows nothing of objects but their ids, and nothing of rules: what a folder shall hold is
for a scan to say.
"""

from __future__ import annotations

import marshal
import os
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from struct import Struct

from ckpt.values import NamedTuple
from ckpt.worktree import reach
from ckpt.worktree.modes import IS_EXECUTABLE, IS_LISTED
from ckpt.worktree.parallel import both

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Stat = tuple[int, int, int, int, int]
Owner = tuple[int, int, int]
Note = tuple[str, bytes, bytes]

UNSURE: Stat = (0, 0, 0, 0, 0)  # which no path has: it is looked at again

_STAT = Struct("<qqQqI")
_PATHS = 32  # in a chunk; one that has grown to more than twice as many is divided

_FORK_PAYS = 100  # chunks for each half; to look at one takes a tenth of a millisecond

stat_of: Callable[[os.stat_result], Stat] = attrgetter(
    "st_mtime_ns", "st_ctime_ns", "st_ino", "st_size", "st_mode"
)
owner_of: Callable[[os.stat_result], Owner] = attrgetter("st_uid", "st_gid", "st_dev")

# What a path is to git; in upper case if it is not tracked.
REGULAR, EXECUTABLE, LINK, GITLINK = b"rxlm"
NEW = ord("a") - ord("A")


class FileStat(NamedTuple):
    """Stat data as `os.lstat` gives them, of a file that was looked at."""

    st_mtime_ns: int
    st_ctime_ns: int
    st_ino: int
    st_size: int
    st_mode: int
    st_uid: int
    st_gid: int
    st_dev: int


class Listing:
    """One folder: the files taken (`names`, with `codes` and `ids`), then those only watched,
    which decide on something. `stats` and `owners` are of both, one after the other; what
    is in `unsure`, by its place among them, is looked at again next time.

    `trees` are the folders inside, with their trees' ids, empty where no tree would be.
    `bits` are the folder's permissions; None if they are nobody's business. A folder that was
    not walked holds only files that someone named. `notes` tell all else: what, where, how.
    """

    __slots__ = (
        "bits",
        "codes",
        "folder",
        "ids",
        "is_walked",
        "names",
        "notes",
        "owners",
        "stats",
        "status",
        "tree",
        "trees",
        "unsure",
        "watched",
    )

    def __init__(self, folder: bytes) -> None:
        self.folder = folder
        self.status = UNSURE
        self.bits: int | None = None
        self.is_walked = False
        self.names: list[bytes] = []
        self.watched: list[bytes] = []
        self.stats: list[Stat] = []
        self.owners: list[Owner] = []
        self.unsure: set[int] = set()
        self.codes = bytearray()
        self.ids: list[bytes] = []
        self.trees: dict[bytes, bytes] = {}
        self.tree = b""
        self.notes: list[Note] = []

    @property
    def prefix(self) -> bytes:
        return self.folder + b"/" if self.folder else b""

    def paths(self) -> list[bytes]:
        """The folder, then all files of which there are stat data."""
        prefix = self.prefix
        return [self.folder, *map(prefix.__add__, self.names), *map(prefix.__add__, self.watched)]

    def file_stat(self, number: int) -> os.stat_result:
        """Stat data as `os.lstat` gave them, as far as anybody looks at them."""
        return FileStat(*self.stats[number], *self.owners[number])  # type: ignore[return-value]  # it has all that is asked of one

    def drop(self, number: int) -> None:
        """Take a file out of the folder, which has to be listed again next time."""
        for column in (self.names, self.codes, self.ids, self.stats, self.owners):
            del column[number]
        self.unsure = {other - (other > number) for other in self.unsure - {number}}
        self.status = UNSURE

    def new_sizes(self) -> list[int]:
        """The sizes of the files that git does not track."""
        return [self.stats[n][3] for n, code in enumerate(self.codes) if not code & NEW]

    def permissions(self, number: int) -> int | None:
        """The bits of a file, with what git makes of it; None for what has none."""
        mode, code = self.stats[number][4], self.codes[number] | NEW
        if not stat.S_ISREG(mode) or code == GITLINK:
            return None
        marks = IS_EXECUTABLE * (code == EXECUTABLE) | IS_LISTED * (code == LINK)
        return stat.S_IMODE(mode) & 0o777 | marks


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
        self._open: dict[int, dict[bytes, Listing]] = {}
        self._changed: set[int] = set()

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
            yield from _by_listing(_unpack(self._chunks[number]), self._unpacked(number), places)

    def get(self, folder: bytes) -> Listing | None:
        return self._unpacked(self._number(folder)).get(folder)

    def below(self, folder: bytes) -> list[Listing]:
        """A folder and all that are inside it."""
        if not folder:
            return [*self]
        found = [] if (top := self.get(folder)) is None else [top]
        first, last = folder + b"/", folder + b"0"
        for number in range(self._number(first), bisect_left(self._firsts, last)):
            found += [x for path, x in self._unpacked(number).items() if first <= path < last]
        return found

    def unwalked(self) -> list[Listing]:
        """Folders that hold only what someone named."""
        numbers = [n for n, chunk in enumerate(self._chunks) if chunk.summary.has_unwalked]
        return [x for n in numbers for x in self._unpacked(n).values() if not x.is_walked]

    def __iter__(self) -> Iterator[Listing]:
        for number, chunk in enumerate(self._chunks):
            yield from (self._open.get(number) or _unpack(chunk)).values()

    def __len__(self) -> int:
        """How many paths there are stat data of."""
        self.pack()
        return sum(len(chunk.stats) for chunk in self._chunks) // _STAT.size

    def summaries(self) -> list[Summary]:
        return [chunk.summary for chunk in self.pack()]

    def where(self, unusual: Callable[[Summary], bool]) -> Iterator[Listing]:
        """The folders of the chunks whose summary is found unusual."""
        for number, chunk in enumerate(self.pack()):
            if unusual(chunk.summary):
                yield from (self._open.get(number) or _unpack(chunk)).values()

    # -- changing ------------------------------------------------------------------

    def touch(self, folder: bytes) -> None:
        """Say that a folder got from here was changed."""
        self._changed.add(self._number(folder))

    def put(self, listing: Listing) -> None:
        """Add a folder, or put it in another's place."""
        number = self._number(listing.folder)
        self._unpacked(number)[listing.folder] = listing
        self._changed.add(number)

    def remove(self, folder: bytes) -> None:
        number = self._number(folder)
        if self._unpacked(number).pop(folder, None) is not None:
            self._changed.add(number)

    def pack(self) -> list[Chunk]:
        """The chunks, those anew that were changed."""
        if self._changed:
            chunks: list[Chunk] = []
            for number, chunk in enumerate(self._chunks or (None,)):
                if number not in self._changed:
                    assert chunk is not None
                    chunks.append(chunk)
                    continue
                ordered = sorted(self._open[number].values(), key=lambda x: x.folder)
                is_large = sum(1 + len(x.stats) for x in ordered) > 2 * _PATHS
                chunks += map(_pack, _divide(ordered) if is_large else filter(None, [ordered]))
            self._renew(chunks)
        return self._chunks

    def _number(self, folder: bytes) -> int:
        """The chunk that a folder is in, if it is in any."""
        return max(bisect_right(self._firsts, folder) - 1, 0)

    def _unpacked(self, number: int) -> dict[bytes, Listing]:
        if number not in self._open:
            self._open[number] = _unpack(self._chunks[number]) if self._chunks else {}
        return self._open[number]


def _by_listing(
    packed: dict[bytes, Listing], now: dict[bytes, Listing], places: list[int]
) -> Iterator[tuple[Listing, list[int]]]:
    """Share out places in a chunk among its folders, but for those that were taken out."""
    start = 0
    for folder, listing in packed.items():
        end = start + 1 + len(listing.stats)
        own = [place - start for place in places if start <= place < end]
        if own and folder in now:
            yield now[folder], own
        start = end


def packed(ordered: list[Listing]) -> Iterator[Chunk]:
    """Chunks of listings, which come in the order of their folders."""
    return map(_pack, _divide(ordered))


def _divide(ordered: list[Listing]) -> Iterator[list[Listing]]:
    group: list[Listing] = []
    size = 0
    for listing in ordered:
        group.append(listing)
        size += 1 + len(listing.stats)
        if size >= _PATHS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _pack(listings: list[Listing]) -> Chunk:
    paths: list[bytes] = []
    stats: list[Stat] = []
    for listing in listings:
        paths += listing.paths()
        stats.append(listing.status)
        if listing.unsure:
            stats += [UNSURE if n in listing.unsure else s for n, s in enumerate(listing.stats)]
        else:
            stats += listing.stats
    return Chunk(
        listings[0].folder,
        b"\0".join(paths),
        b"".join([_STAT.pack(*status) for status in stats]),
        _summary(listings),
        marshal.dumps([_packed(listing) for listing in listings]),
    )


def _packed(listing: Listing) -> tuple[object, ...]:
    owners = listing.owners
    if len(owners) > 1 and len(set(owners)) == 1:
        owners = owners[:1]
    return (
        listing.folder,
        listing.bits,
        listing.is_walked,
        listing.names,
        listing.watched,
        owners,
        bytes(listing.codes),
        b"".join(listing.ids),
        listing.trees,
        listing.tree,
        listing.notes,
        {number: listing.stats[number] for number in listing.unsure},
    )


def _unpack(chunk: Chunk) -> dict[bytes, Listing]:
    stats = [*_STAT.iter_unpack(chunk.stats)]
    found: dict[bytes, Listing] = {}
    at = 0
    for packed in marshal.loads(chunk.rest):
        listing = Listing(packed[0])
        _, listing.bits, listing.is_walked, listing.names, listing.watched = packed[:5]
        owners, codes, ids, listing.trees, listing.tree, listing.notes, unsure = packed[5:]
        total = len(listing.names) + len(listing.watched)
        listing.status = stats[at]
        listing.stats = stats[at + 1 : at + 1 + total]
        at += 1 + total
        for number, status in unsure.items():
            listing.stats[number] = status
        listing.unsure = set(unsure)
        listing.owners = owners * total if len(owners) == 1 else owners
        listing.codes = bytearray(codes)
        length = len(ids) // max(len(codes), 1) or 1
        listing.ids = [ids[n : n + length] for n in range(0, len(ids), length)]
        found[listing.folder] = listing
    return found


def _summary(listings: list[Listing]) -> Summary:
    bits: dict[int, int] = {}
    folders: dict[int, int] = {}
    new_sizes: list[int] = []
    notes: list[Note] = []
    for listing in listings:
        notes += listing.notes
        if listing.bits is not None:
            folders[listing.bits] = folders.get(listing.bits, 0) + 1
        new_sizes += listing.new_sizes()
        for number in range(len(listing.names)):
            permissions = listing.permissions(number)
            if permissions is not None:
                bits[permissions] = bits.get(permissions, 0) + 1
    unwalked = not all(listing.is_walked for listing in listings)
    return Summary(bits, folders, len(new_sizes), sum(new_sizes), notes, unwalked)
