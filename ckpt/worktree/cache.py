# SPDX-License-Identifier: MIT
"""What is known of a worktree's folders, and what on disk differs from it.

Each folder is a `Listing`; neighbours are packed into chunks of some 32 paths, so that comparing
with the disk is one loop of lstat over packed stat data, and only chunks with changes are taken
apart. Half of that loop is done by a forked process where it pays. Left out: what a checkpoint
makes of it, and the file that the chunks are kept in (engine/scan_cache).
"""

from __future__ import annotations

import marshal
import os
import stat
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from struct import Struct
from typing import Any, NamedTuple, TypeVar

from ckpt import paths
from ckpt.git.rules import IgnoreTree
from ckpt.interrupts import Held, stop_in_fork
from ckpt.paths import read_plain_file
from ckpt.worktree.modes import IS_EXECUTABLE, IS_LISTED
from ckpt.worktree.scan import Deadline, Scan, ScanRules, Walk

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

_STAT = Struct("<qqQqI")
_PATHS = 32  # in a chunk; one that has grown to more than twice as many is divided
_FORK_PAYS = 100  # chunks for each half; to look at one takes a tenth of a millisecond
_IGNORE = b".gitignore"


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


@dataclass(slots=True)
class Listing:
    """One folder: the files taken (`names`, with `codes` and `ids`), then those only watched,
    which decide on something. `stats` and `owners` are of both, one after the other; what
    is in `unsure`, by its place among them, is looked at again next time.

    `trees` are the folders inside, with their trees' ids, empty where no tree would be.
    `bits` are the folder's permissions; None if they are not recorded. A folder that was
    not walked holds only files that someone named. `notes` tell all else: what, where, how.
    """

    folder: bytes
    status: Stat = UNSURE
    bits: int | None = None
    is_walked: bool = False
    names: list[bytes] = field(default_factory=list)
    watched: list[bytes] = field(default_factory=list)
    stats: list[Stat] = field(default_factory=list)
    owners: list[Owner] = field(default_factory=list)
    unsure: set[int] = field(default_factory=set)
    codes: bytearray = field(default_factory=bytearray)
    ids: list[bytes] = field(default_factory=list)
    trees: dict[bytes, bytes] = field(default_factory=dict)
    tree: bytes = b""
    notes: list[Note] = field(default_factory=list)

    @property
    def prefix(self) -> bytes:
        return self.folder + b"/" if self.folder else b""

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


# -- Chunks of neighbouring folders


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


def packed(ordered: Iterable[Listing]) -> Iterator[Chunk]:
    """Chunks of listings, which come in the order of their folders."""
    group: list[Listing] = []
    size = 0
    for listing in ordered:
        group.append(listing)
        size += 1 + len(listing.stats)
        if size >= _PATHS:
            yield _chunk(group)
            group, size = [], 0
    if group:
        yield _chunk(group)


def _chunk(group: list[Listing]) -> Chunk:
    places: list[bytes] = []
    stats: list[Stat] = []
    records = []
    for listing in group:
        prefix, owners, first = listing.prefix, listing.owners, len(stats) + 1
        places.append(listing.folder)
        places += map(prefix.__add__, listing.names)
        places += map(prefix.__add__, listing.watched)
        stats += (listing.status, *listing.stats)
        unsure = {number: listing.stats[number] for number in listing.unsure}
        for number in unsure:
            stats[first + number] = UNSURE
        if len(set(owners)) == 1:
            owners = owners[:1]
        records.append(
            (
                *(listing.folder, listing.bits, listing.is_walked, listing.names, listing.watched),
                *(owners, bytes(listing.codes), b"".join(listing.ids), listing.trees),
                *(listing.tree, listing.notes, unsure),
            )
        )
    return Chunk(
        group[0].folder,
        b"\0".join(places),
        b"".join([_STAT.pack(*status) for status in stats]),
        _summary(group),
        marshal.dumps(records),
    )


def _summary(group: list[Listing]) -> Summary:
    bits = Counter(x.permissions(number) for x in group for number in range(len(x.names)))
    del bits[None]
    folders = Counter(x.bits for x in group if x.bits is not None)
    sizes = [size for x in group for size in x.new_sizes()]
    notes = [note for x in group for note in x.notes]
    is_walked = all(x.is_walked for x in group)
    plain = {key: count for key, count in bits.items() if key is not None}
    return Summary(plain, dict(folders), len(sizes), sum(sizes), notes, not is_walked)


def _unpacked(chunk: Chunk) -> dict[bytes, Listing]:
    stats = [*_STAT.iter_unpack(chunk.stats)]
    found = {}
    at = 0
    for record in marshal.loads(chunk.rest):
        folder, bits, is_walked, names, watched, owners, codes, ids, trees, tree, notes, unsure = (
            record
        )
        count, length = len(names) + len(watched), len(ids) // max(len(codes), 1) or 1
        found[folder] = listing = Listing(
            folder=folder,
            status=stats[at],
            bits=bits,
            is_walked=is_walked,
            names=names,
            watched=watched,
            stats=stats[at + 1 : at + 1 + count],
            owners=owners * count if len(owners) == 1 else owners,
            unsure=set(unsure),
            codes=bytearray(codes),
            ids=[ids[n : n + length] for n in range(0, len(ids), length)],
            trees=trees,
            tree=tree,
            notes=notes,
        )
        for number, status in unsure.items():
            listing.stats[number] = status
        at += 1 + count
    return found


class Listings:
    """The folders of a worktree, in chunks that are unpacked and packed again as needed."""

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self._renew(list(chunks))

    def _renew(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks
        self._firsts = [chunk.first for chunk in chunks]
        self._open: dict[int, dict[bytes, Listing]] = {}
        self._touched: set[int] = set()

    def _number(self, folder: bytes) -> int:
        """The chunk that a folder is in, if it is in any."""
        return max(bisect_right(self._firsts, folder) - 1, 0)

    def _opened(self, number: int) -> dict[bytes, Listing]:
        if number not in self._open:
            self._open[number] = _unpacked(self._chunks[number]) if self._chunks else {}
        return self._open[number]

    def _all(self, number: int) -> Iterator[Listing]:
        """All folders of a chunk, which is not kept open for this."""
        found = self._open.get(number)
        if found is None:
            found = _unpacked(self._chunks[number])
        return (found[folder] for folder in sorted(found))

    # -- looking -------------------------------------------------------------------

    def changed(self, base: bytes) -> Iterator[tuple[Listing, list[int]]]:
        """The folders in which something differs from the disk, and the places of what does: 0
        is the folder, then come its files; `base` ends in a slash."""
        half = len(self._chunks) // 2
        one, other = both(
            lambda: _changed(base, self._chunks[:half], 0),
            lambda: _changed(base, self._chunks[half:], half),
            pays=half > _FORK_PAYS,
        )
        for number, places in (*one, *other):
            start, opened = 0, self._opened(number)
            for folder, known in _unpacked(self._chunks[number]).items():
                end = start + 1 + len(known.stats)
                own = [place - start for place in places if start <= place < end]
                if own and folder in opened:
                    yield opened[folder], own
                start = end

    def get(self, folder: bytes) -> Listing | None:
        return self._opened(self._number(folder)).get(folder)

    def below(self, folder: bytes) -> list[Listing]:
        """A folder and all that are inside it."""
        if not folder:
            return [*self]
        found = [] if (top := self.get(folder)) is None else [top]
        first, last = folder + b"/", folder + b"0"
        for number in range(self._number(first), bisect_left(self._firsts, last)):
            found += [x for path, x in self._opened(number).items() if first <= path < last]
        return found

    def unwalked(self) -> list[Listing]:
        """Folders that hold only what someone named."""
        numbers = [n for n, chunk in enumerate(self._chunks) if chunk.summary.has_unwalked]
        return [x for number in numbers for x in self._all(number) if not x.is_walked]

    def __iter__(self) -> Iterator[Listing]:
        for number in range(len(self._chunks) or len(self._open)):
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
        self._touched.add(self._number(folder))

    def put(self, listing: Listing) -> None:
        """Add a folder, or put it in another's place."""
        self._opened(self._number(listing.folder))[listing.folder] = listing
        self.touch(listing.folder)

    def remove(self, folder: bytes) -> None:
        if self._opened(self._number(folder)).pop(folder, None) is not None:
            self.touch(folder)

    def pack(self) -> list[Chunk]:
        """The chunks, those anew that were changed."""
        if self._touched:
            chunks: list[Chunk] = []
            for number in range(max(len(self._chunks), 1)):
                if number not in self._touched:
                    chunks.append(self._chunks[number])
                    continue
                group = [*self._all(number)]
                size = sum(1 + len(listing.stats) for listing in group)
                if 0 < size <= 2 * _PATHS:
                    chunks.append(_chunk(group))
                else:
                    chunks += packed(group)
            self._renew(chunks)
        return self._chunks


def _changed(base: bytes, chunks: list[Chunk], first: int) -> list[tuple[int, list[int]]]:
    """Chunks by their numbers, with the places of what differs from the disk."""
    changed = []
    for number, chunk in enumerate(chunks, first):
        places = [*map(base.__add__, chunk.paths.split(b"\0"))]
        found: list[Stat | None]
        try:
            found = [*map(stat_of, map(os.lstat, places))]
        except OSError:
            found = [*map(_stat_or_none, places)]
        known = [*_STAT.iter_unpack(chunk.stats)]
        if found != known:
            changed.append((number, [n for n, now in enumerate(found) if now != known[n]]))
    return changed


def _stat_or_none(place: bytes) -> Stat | None:
    try:
        return stat_of(paths.lstat(place))
    except OSError:
        return None


# -- What has changed since the folders were listed


class Overtaken(Exception):
    """The rules have changed again since the listings were compared."""


class Changes:
    """What is to be looked at: the folders of `found` were listed anew, and what was known of
    them stands in `before`; in the other folders only the files of `files` are different."""

    def __init__(self, found: Scan | None = None) -> None:
        self.found = found or Scan()
        self.before: dict[bytes, Listing] = {}
        self.files: dict[bytes, os.stat_result] = {}


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
    work = _Rescan(top, listings)
    for listing in listings.unwalked():
        work.forget(listing)
    work.check_top()
    relist = {folder for folder in doubtful if listings.get(folder)}
    for listing, places in listings.changed(work.base):
        if work.lstat(listing.folder) is None:
            relist.add(listing.folder.rpartition(b"/")[0])
        elif 0 in places or not all(work.is_only_edited(listing, at - 1) for at in places):
            relist.add(listing.folder)
    return work.list_anew(relist, rules, deadline)


class _Rescan:
    def __init__(self, top: bytes, listings: Listings) -> None:
        self.base = os.path.join(top, b"")
        self._top = top
        self._listings = listings
        self.changes = Changes()

    def check_top(self) -> None:
        """A folder that could not be listed is in the listing of its parent; the top has none."""
        if self._listings.get(b"") is None:
            raise Overtaken

    def lstat(self, path: bytes) -> os.stat_result | None:
        try:
            return paths.lstat(self.base + path)
        except OSError:
            return None

    def is_only_edited(self, listing: Listing, number: int) -> bool:
        """False if a change may ask for another decision on what to take: of what is not tracked
        the size decides too, of a submodule all that is in it."""
        if number >= len(listing.names):
            return False
        name, code = listing.names[number], listing.codes[number]
        status = self.lstat(listing.prefix + name)
        if status is None or name == _IGNORE or not code & NEW or code == GITLINK:
            return False
        if stat.S_IFMT(status.st_mode) != stat.S_IFMT(listing.stats[number][4]):
            return False
        self.changes.files[listing.prefix + name] = status
        return True

    def list_anew(
        self, relist: set[bytes], get_rules: Callable[[], ScanRules], deadline: Deadline | None
    ) -> Changes:
        """List some folders again, and walk those that are new in them."""
        if not relist:
            return self.changes
        rules, listings = get_rules(), self._listings
        walk = Walk(self._top, rules, None, deadline)
        self.changes.found = walk.found
        outside = IgnoreTree(rules.ignore, self._read_ignore_file, ignore_case=rules.ignore_case)
        for folder in sorted({_outside_ignored(folder, outside) for folder in relist}):
            listing = listings.get(folder)
            if listing is None:  # it went, or was walked, with a folder above it
                continue
            stack = rules.ignore if not folder else outside.stack(folder.rpartition(b"/")[0])
            if stack is None:
                raise Overtaken
            self.forget(listing)
            inside = [*walk.folder(folder, stack)]
            keeps = not self._is_ignore_file_new(listing)
            names = {path[len(listing.prefix) :] for path, _, _ in inside}
            for name in listing.trees:
                if name not in names or not keeps:
                    self._forget_below(listing.prefix + name)
            for path, inner, status in inside:
                if listings.get(path) is None:
                    self._forget_below(path)  # of a folder that could not be listed
                    walk.below(path, inner, status)
        return self.changes

    def _is_ignore_file_new(self, listing: Listing) -> bool:
        """Whether a folder's own rules may be others than when it was listed."""
        now = self.changes.found.watched.get(listing.prefix + _IGNORE)
        names = [*listing.names, *listing.watched]
        if _IGNORE not in names:
            return now is not None
        number = names.index(_IGNORE)
        return now is None or number in listing.unsure or stat_of(now) != listing.stats[number]

    def _forget_below(self, folder: bytes) -> None:
        for listing in self._listings.below(folder):
            self.forget(listing)

    def forget(self, listing: Listing) -> None:
        self.changes.before[listing.folder] = listing
        self._listings.remove(listing.folder)
        for name in listing.names:
            self.changes.files.pop(listing.prefix + name, None)

    def _read_ignore_file(self, folder: bytes) -> bytes | None:
        return read_plain_file(os.path.join(self._top, folder, _IGNORE))


def _outside_ignored(folder: bytes, ignore: IgnoreTree) -> bytes:
    """The folder, or the one from where an ignored folder that it is in is looked at."""
    while folder and ignore.ignored(folder, True):
        folder = folder.rpartition(b"/")[0]
    return folder


# -- Two halves of one piece of work at the same time


def both(first: Callable[[], T], second: Callable[[], T], *, pays: bool) -> tuple[T, T]:
    """The results of two functions; that of the second has to be data that `marshal` takes.

    The second is done by a fork, which only reads and answers through a pipe: lstat is waiting
    for the kernel, which two processes do at once. Where the fork fails it is done here.
    """
    if not pays or not _can_fork():
        return first(), second()
    try:
        reading, writing = os.pipe()
    except OSError:
        return first(), second()
    with open(reading, "rb") as pipe:
        with open(writing, "wb") as answer:
            try:
                with Held():  # an interrupt in the fork must not run what clears up here
                    pid = os.fork()
                    if not pid:
                        pipe.close()
                        _answer(second, answer)
            except OSError:
                pid = 0
        if not pid:
            return first(), second()
        try:
            one, data = first(), pipe.read()
        finally:
            pipe.close()  # with which the fork ends, if it has not
            status = 1
            with suppress(ChildProcessError):  # someone else waited for it
                status = os.waitpid(pid, 0)[1]
    return one, second() if status else marshal.loads(data)


def _can_fork() -> bool:
    """A fork of several threads might wait for ever for a lock that another thread held."""
    if not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2:
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1  # also those that Python knows nothing of
    except OSError:
        return False


def _answer(work: Callable[[], object], answer: Any) -> None:
    status = 1
    try:
        stop_in_fork()
        result: Any = work()
        answer.write(marshal.dumps(result))
        answer.flush()
        status = 0
    finally:  # whatever happened, nothing of the other process may run here
        os._exit(status)
