# SPDX-License-Identifier: MIT
"""Two halves of one piece of work at the same time, where that is safe and pays.

To look at files is mostly waiting for the kernel, which two processes can do at once and
two threads of Python cannot. The second half is done by a fork of this process, which reads,
answers through a pipe and ends; it never writes to a disk. A process with several threads is
not forked, since a copy of it might wait for ever for a lock that another thread held.
Whatever goes wrong with the fork, its half is done here after all.
"""

from __future__ import annotations

import marshal
import os
import stat
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ckpt import paths
from ckpt import paths as reach
from ckpt.git.rules import IgnoreTree
from ckpt.interrupts import Held, stop_in_fork
from ckpt.paths import read_plain_file
from ckpt.worktree.modes import IS_EXECUTABLE, IS_LISTED
from ckpt.worktree.scan import Deadline, Scan, ScanRules

if TYPE_CHECKING:
    Record = tuple[Any, ...]
    T = TypeVar("T")

Stat = tuple[int, int, int, int, int]
Owner = tuple[int, int, int]
Note = tuple[str, bytes, bytes]

UNSURE: Stat = (0, 0, 0, 0, 0)  # which no path has: it is looked at again


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
        # The checker cannot know that this has all that is asked of one.
        return FileStat(*self.stats[number], *self.owners[number])  # type: ignore[return-value]

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


# -- The folders of a worktree, in a form that is quick to compare with the disk, and to store

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


# -- Find out what has changed in a worktree since its folders were listed

_IGNORE = b".gitignore"


class Overtaken(Exception):
    """The rules have changed again since the listings were compared."""


@dataclass(slots=True)
class Changes:
    """What is to be looked at: the folders of `found` were listed anew, and what was known of
    them stands in `before`; in the other folders only the files of `files` are different."""

    found: Scan = field(default_factory=Scan)
    before: dict[bytes, Listing] = field(default_factory=dict)
    files: dict[bytes, os.stat_result] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.before or self.files or self.found.walked)


def rescan(
    top: bytes,
    listings: Listings,
    rules: Callable[[], ScanRules],
    doubtful: Iterable[bytes] = (),
    deadline: Deadline | None = None,
) -> Changes:
    """Compare listings with the disk, and take from them what is no longer true.

    Folders of `doubtful` are listed anew whatever their stat data say. After the deadline,
    of what is new only folders with tracked files are walked. Overtaken if the listings
    cannot be brought up to date.
    """
    return _Rescan(top, listings, rules, deadline).run(doubtful)


def rescan_only(
    top: bytes,
    listings: Listings,
    rules: Callable[[], ScanRules],
    folders: Iterable[bytes],
    files: Iterable[bytes],
    deadline: Deadline | None = None,
) -> Changes:
    """The same where it is known already what differs: some folders, and files in others."""
    return _Rescan(top, listings, rules, deadline).run_only(folders, files)


class _Rescan:
    def __init__(
        self,
        top: bytes,
        listings: Listings,
        rules: Callable[[], ScanRules],
        deadline: Deadline | None,
    ) -> None:
        self._base = os.path.join(top, b"")
        self._top = top
        self._listings = listings
        self._rules = rules
        self._deadline = deadline
        self._changes = Changes()
        self._relist: set[bytes] = set()

    def run(self, doubtful: Iterable[bytes]) -> Changes:
        for listing in self._listings.unwalked():
            self._forget(listing)
        self._check_top()
        for listing, places in self._listings.changed(self._base):
            self._compare(listing, places)
        self._relist.update(folder for folder in doubtful if self._listings.get(folder))
        if self._relist:
            self._list_anew()
        return self._changes

    def run_only(self, folders: Iterable[bytes], files: Iterable[bytes]) -> Changes:
        self._check_top()
        self._relist = {folder for folder in folders if self._listings.get(folder)}
        for path in files:
            status = self._lstat(path)
            folder = path.rpartition(b"/")[0]
            if status is None:
                self._relist.add(folder)
            elif folder not in self._relist:
                self._changes.files[path] = status
        if self._relist:
            self._list_anew()
        return self._changes

    def _check_top(self) -> None:
        """Of a folder that nobody could list, the one above tells; the top has none."""
        if self._listings.get(b"") is None:
            raise Overtaken

    def _compare(self, listing: Listing, places: list[int]) -> None:
        """Decide what to look at in a folder; `places` are those of the paths that differ."""
        if self._lstat(listing.folder) is None:
            self._relist.add(listing.folder.rpartition(b"/")[0])
        elif 0 in places or not all(self._compare_file(listing, at - 1) for at in places):
            self._relist.add(listing.folder)

    def _compare_file(self, listing: Listing, number: int) -> bool:
        """False if a change may ask for another decision on what to take."""
        if number >= len(listing.names):
            return False
        name = listing.names[number]
        status = self._lstat(listing.prefix + name)
        if status is None or name == _IGNORE or _is_delicate(listing.codes[number]):
            return False
        if stat.S_IFMT(status.st_mode) != stat.S_IFMT(listing.stats[number][4]):
            return False
        self._changes.files[listing.prefix + name] = status
        return True

    def _lstat(self, path: bytes) -> os.stat_result | None:
        try:
            return paths.lstat(self._base + path)
        except OSError:
            return None

    def _list_anew(self) -> None:
        from ckpt.git.rules import IgnoreTree
        from ckpt.worktree.scan import Walk

        rules = self._rules()
        walk = Walk(self._top, rules, None, self._deadline)
        self._changes.found = walk.found
        outside = IgnoreTree(rules.ignore, self._read_ignore_file, ignore_case=rules.ignore_case)
        for folder in sorted({_outside_ignored(folder, outside) for folder in self._relist}):
            listing = self._listings.get(folder)
            if listing is None:  # it went, or was walked, with a folder above it
                continue
            stack = rules.ignore if not folder else outside.stack(folder.rpartition(b"/")[0])
            if stack is None:
                raise Overtaken
            self._forget(listing)
            inside = [*walk.folder(folder, stack)]
            keeps = not self._is_ignore_file_new(listing)
            names = {path[len(listing.prefix) :] for path, _, _ in inside}
            for name in listing.trees:
                if name not in names or not keeps:
                    self._forget_below(listing.prefix + name)
            for path, inner, status in inside:
                if self._listings.get(path) is None:
                    self._forget_below(path)  # of a folder that nobody could list
                    walk.below(path, inner, status)

    def _is_ignore_file_new(self, listing: Listing) -> bool:
        """Whether a folder's own rules may be others than when it was listed."""
        now = self._changes.found.watched.get(listing.prefix + _IGNORE)
        names = [*listing.names, *listing.watched]
        if _IGNORE not in names:
            return now is not None
        number = names.index(_IGNORE)
        return now is None or number in listing.unsure or stat_of(now) != listing.stats[number]

    def _forget_below(self, folder: bytes) -> None:
        for listing in self._listings.below(folder):
            self._forget(listing)

    def _forget(self, listing: Listing) -> None:
        self._changes.before[listing.folder] = listing
        self._listings.remove(listing.folder)
        for name in listing.names:
            self._changes.files.pop(listing.prefix + name, None)

    def _read_ignore_file(self, folder: bytes) -> bytes | None:
        path = folder + b"/" + _IGNORE if folder else _IGNORE
        return read_plain_file(os.path.join(self._top, path))


def _outside_ignored(folder: bytes, ignore: IgnoreTree) -> bytes:
    """The folder, or the one from where an ignored folder that it is in is looked at."""
    while folder and ignore.ignored(folder, True):
        folder = folder.rpartition(b"/")[0]
    return folder


def _is_delicate(code: int) -> bool:
    """Of what is not tracked, the size decides too; of a submodule, all that is in it."""
    return not code & NEW or code == GITLINK


# -- Two halves of one piece of work at the same time, where that is safe and pays


def both(first: Callable[[], T], second: Callable[[], T], *, pays: bool) -> tuple[T, T]:
    """The results of two functions; that of the second has to be data that `marshal` takes."""
    if not pays or not _can_fork():
        return first(), second()
    answer = _start(second)
    if answer is None:
        return first(), second()
    pid, pipe = answer
    try:
        one = first()
    except BaseException:
        _end(pid, pipe)
        raise
    found = _finish(pid, pipe)
    return one, second() if found is None else found[0]


def _can_fork() -> bool:
    if not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2:
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1  # also those that Python knows nothing of
    except OSError:
        return False


def _start(work: Callable[[], object]) -> tuple[int, int] | None:
    """Begin in a fork; returns its id and where its answer comes from."""
    try:
        reading, writing = os.pipe()
    except OSError:
        return None
    try:
        with Held():  # or an interrupt in the fork would run what clears up here
            pid = os.fork()
            if pid == 0:
                stop_in_fork()
                _work_and_exit(work, reading, writing)
    except OSError:
        os.close(reading)
        os.close(writing)
        return None
    os.close(writing)
    return pid, reading


def _work_and_exit(work: Callable[[], object], reading: int, writing: int) -> None:
    status = 1
    try:
        os.close(reading)
        result: Any = [work()]
        with open(writing, "wb") as pipe:
            pipe.write(marshal.dumps(result))
        status = 0
    finally:  # whatever happened, nothing of the other process may run here
        os._exit(status)


def _finish(pid: int, pipe: int) -> list[Any] | None:
    """The answer, in a list; None if the fork failed."""
    try:
        with open(pipe, "rb", closefd=False) as file:
            data = file.read()
    except BaseException:
        _end(pid, pipe)
        raise
    os.close(pipe)
    try:
        is_done = os.waitpid(pid, 0)[1] == 0
    except ChildProcessError:  # someone else waited for it
        is_done = False
    return marshal.loads(data) if is_done else None


def _end(pid: int, pipe: int) -> None:
    """Its pipe broken, the fork ends too; nobody waits for the answer."""
    os.close(pipe)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass
