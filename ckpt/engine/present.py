# SPDX-License-Identifier: MIT
"""The present: what is on disk, in the index and at HEAD, at one moment.

Kept folder by folder (`listings`), as the scan found it, so that a save in which little has
changed looks at little. Whoever compares it with another state asks by path: `entries`,
`stats` and `folders` are made of the listings when they are first asked for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable
from functools import cached_property

from ckpt.engine.gather import CODES, entries_of, entry_of, write_trees
from ckpt.models import NestedState, SkipReason
from ckpt.paths import folders_above, folders_of
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.operation_record import OperationState
from ckpt.store.refs import Head
from ckpt.store.staging import Staged
from ckpt.store.trees import EXECUTABLE, SYMLINK, Entries, TreeEntry, write_tree
from ckpt.values import field, replace, value_class
from ckpt.worktree import modes
from ckpt.worktree.listing import Listing, Note, owner_of, stat_of
from ckpt.worktree.listings import Listings, Summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.engine.conversions import ConversionCache, Converted
    from ckpt.engine.index_facts import IndexFacts
    from ckpt.engine.index_state import IndexState
    from ckpt.engine.scan_cache import ScanCache
    from ckpt.store.index import IndexEntry
    from ckpt.store.index_glance import IndexGlance


@value_class(frozen=False, slots=False)
class Present:
    """The working state as captured; blobs of `entries` are in the object store.

    `changed` are the folders whose trees are not written yet. `absent` are entries that a
    sparse checkout leaves out: unchanged, but not on disk. `converts` if git converts some files;
    `converted` are those whose bytes are not those of their blob. `fresh` are files that were
    read now; of all others is known what was known to `source`, the cache that the capture
    started from, and to the checkpoint that holds it, and if it `knows_index`, this is the same
    too. If the capture `is_from_index`, all others are as in the index. `cache` is what the next
    capture may start from. `trees` are some that were read. `delta` is what differs from the
    entries that the source knew, before and now; None if that is unknown. `is_cut` if the time
    was up before all untracked files were read, and it `lacks_edits` if somebody has taken some
    off the disk that could not be found. `gone` tells what of the index or HEAD was not to be
    found.
    """

    listings: Listings
    changed: set[bytes]
    excludes: dict[str, bytes]
    include: tuple[str, ...]
    index: IndexFacts
    read_staged: Callable[[], Staged]
    head: Head
    operation: OperationState
    absent: dict[bytes, TreeEntry] = field(default_factory=dict)
    converted: dict[bytes, Converted] = field(default_factory=dict)
    fresh: dict[bytes, os.stat_result] = field(default_factory=dict)
    converts: bool = False
    memory: ConversionCache | None = None
    nested: tuple[NestedState, ...] = ()
    cache: ScanCache | None = None
    delta: dict[bytes, tuple[TreeEntry | None, TreeEntry | None]] | None = None
    source: ScanCache | None = None
    knows_index: bool = False
    is_from_index: bool = False
    is_edited: bool = False
    is_cut: bool = False
    lacks_edits: bool = False
    gone: tuple[str, ...] = ()
    glance: IndexGlance | None = None
    index_state: IndexState | None = None
    trees: dict[ObjectID, Entries] = field(default_factory=dict)
    _written: tuple[ObjectStore, ObjectID] | None = None

    @cached_property
    def staged(self) -> Staged:
        return self.read_staged()

    def let_go_of_index(self) -> None:
        """Give back the memory that the entries of the index take; nobody will ask for them."""
        self.__dict__.pop("staged", None)
        self.read_staged = _gone

    def staged_at(self, paths: Collection[bytes]) -> Iterable[IndexEntry]:
        """The entries of the index at these paths."""
        if self.glance is not None:
            return self.glance.at(paths)
        return (
            entry for entry in (self.staged.index.entries if paths else ()) if entry.path in paths
        )

    def staged_sizes(self) -> Iterable[tuple[bytes, int]]:
        """The size that the index has of each file."""
        if self.glance is not None:
            return self.glance.sizes()
        return ((entry.path, entry.size) for entry in self.staged.index.entries)

    # -- by path -------------------------------------------------------------------

    @cached_property
    def entries(self) -> dict[bytes, TreeEntry]:
        """Every file, link and submodule."""
        found: dict[bytes, TreeEntry] = {}
        for listing in self.listings:
            found.update(entries_of(listing))
        return found | self.absent

    @cached_property
    def stats(self) -> dict[bytes, os.stat_result]:
        """The stat data under which the contents are known."""
        found = {}
        for listing in self.listings:
            for number, name in enumerate(listing.names):
                if listing.stats[number][4]:
                    found[listing.prefix + name] = listing.file_stat(number)
        return found

    @cached_property
    def folders(self) -> dict[bytes, int]:
        """The permission bits of the folders that were walked, or hold what was taken."""
        return {x.folder: x.bits for x in self.listings if x.bits is not None}

    def entry(self, path: bytes) -> TreeEntry | None:
        """What `entries` has at a path, without making all of them."""
        if "entries" in vars(self):
            return self.entries.get(path)
        if path in self.absent:
            return self.absent[path]
        listing, number = self._find(path)
        return None if listing is None else entry_of(listing, number)

    def status(self, path: bytes) -> os.stat_result | None:
        """What `stats` has of a path, likewise."""
        if "stats" in vars(self):
            return self.stats.get(path)
        listing, number = self._find(path)
        return listing.file_stat(number) if listing and listing.stats[number][4] else None

    def sizes(self) -> dict[bytes, int]:
        """The sizes of all files; 0 where it takes more than a glance to tell."""
        if "stats" in vars(self):
            return {path: status.st_size for path, status in self.stats.items()}
        found: dict[bytes, int] = {}
        for chunk in self.listings.pack():
            found.update(chunk.sizes())
        return found

    def bits(self, folder: bytes) -> int | None:
        """What `folders` has of a folder, likewise."""
        listing = self.listings.get(folder)
        return None if listing is None else listing.bits

    def _find(self, path: bytes) -> tuple[Listing | None, int]:
        """The folder that a file was found in, and its place there."""
        folder, _, name = path.rpartition(b"/")
        listing = self.listings.get(folder)
        if listing is None:
            return None, 0
        if folder not in self._places:
            self._places[folder] = {name: n for n, name in enumerate(listing.names)}
        number = self._places[folder].get(name)
        return (None, 0) if number is None else (listing, number)

    @cached_property
    def _places(self) -> dict[bytes, dict[bytes, int]]:
        return {}

    def put(self, path: bytes, entry: TreeEntry, status: os.stat_result | None = None) -> None:
        """Correct one path: a file that was read later than the others."""
        gone = [path]
        if path not in self.entries:  # a tree cannot hold a file and a folder of one name
            gone += [folder for folder in folders_above(path) if folder in self.entries]
            gone += [other for other in self.entries if other.startswith(path + b"/")]
        for other in gone:
            self.entries.pop(other, None)
            self.stats.pop(other, None)
            self.converted.pop(other, None)
            self.absent.pop(other, None)
        self.entries[path] = entry
        if status is not None:
            self.stats[path] = status
        self.mark_edited()

    def drop(self, path: bytes) -> None:
        """Correct one path: no file is there."""
        for known in (self.entries, self.stats, self.converted, self.absent, self.fresh):
            known.pop(path, None)
        self.mark_edited()

    def mark_edited(self) -> None:
        """What is asked by path was corrected; the listings are not what counts any more."""
        self.is_edited = True
        self.cache = self.delta = None
        self.index_state = None

    def correct(self, path: bytes, entry: TreeEntry | None, status: os.stat_result) -> None:
        """Put or drop one path of many, which are not made a map for that if it can be helped."""
        is_listed = not self.absent and not vars(self).keys() & {"entries", "stats", "folders"}
        listing, at = self._find(path) if is_listed else (None, 0)
        self.fresh.pop(path, None)
        if listing is None:
            self.drop(path) if entry is None else self.put(path, entry, status)
            return
        self.converted.pop(path, None)
        if entry is None:
            listing.drop(at)
            listing.bits = listing.bits if listing.names or listing.trees else None
            del self._places[listing.folder]
        else:
            listing.codes[at], listing.ids[at] = CODES[entry.mode], bytes.fromhex(entry.id.decode())
            listing.stats[at], listing.owners[at] = stat_of(status), owner_of(status)
        self.listings.touch(listing.folder)
        self.changed.add(listing.folder)
        vars(self).pop("_summed_modes", None)
        self.cache = self.delta = self.index_state = self._written = None

    def leave_out(self, paths: Iterable[bytes]) -> None:
        """List what is there and was missed."""
        found = self.skipped | dict.fromkeys(paths, SkipReason.UNREADABLE)
        self.skipped = dict(sorted(found.items()))

    def restage(self, staged: Staged) -> None:
        """Correct the index: it was read later than the files."""
        self.staged = staged
        self.index = replace(self.index, identity=None, mtime_ns=staged.mtime_ns, state=None)
        self.glance = None
        self.knows_index = False
        self.cache = None
        self.index_state = None

    # -- as a whole ----------------------------------------------------------------

    def tree(self, objects: ObjectStore) -> ObjectID:
        """Write the tree of all this; returns its id."""
        if self.is_edited or self.absent:
            return write_tree(objects, self.entries)
        if self._written is None or self._written[0] is not objects:
            self._written = objects, write_trees(objects, self.listings, self.changed)
        return self._written[1]

    @cached_property
    def _notes(self) -> dict[str, list[Note]]:
        found: dict[str, list[Note]] = {}
        for summary in self.listings.summaries():
            for note in summary.notes:
                found.setdefault(note[0], []).append(note)
        return found

    def notes(self, what: str) -> list[tuple[bytes, bytes]]:
        """What the scan noted besides, by path."""
        return sorted((path, value) for _, path, value in self._notes.get(what, ()))

    @property
    def least_files(self) -> int:
        """So many files there are at least; links and submodules are not counted."""
        return sum(sum(summary.bits.values()) for summary in self.listings.summaries())

    @cached_property
    def empty_folders(self) -> tuple[bytes, ...]:
        return tuple(path for path, _ in self.notes("empty"))

    @cached_property
    def skipped(self) -> dict[bytes, SkipReason]:
        """What was left out, and why."""
        return {path: SkipReason(reason.decode()) for path, reason in self.notes("skipped")}

    @property
    def unskipped(self) -> tuple[bytes, ...]:
        """Paths that are marked skip-worktree and on disk all the same."""
        if not self.index.is_sparse:
            return ()
        marked = {entry.path for entry in self.staged.index.entries if entry.skip_worktree}
        return tuple(sorted(marked - self.absent.keys()))

    @property
    def is_partial(self) -> bool:
        unsaved = any(state.problem is not None for state in self.nested)
        is_short = self.is_cut or self.lacks_edits or bool(self.gone)
        return unsaved or is_short or SkipReason.UNREADABLE in self.skipped.values()

    @cached_property
    def _summed_modes(self) -> modes.Modes:
        return _summed_modes(self.listings)

    @property
    def _all_modes(self) -> modes.Modes:
        if not self.is_edited:
            return self._summed_modes
        bits = {
            path: stat.S_IMODE(status.st_mode) & 0o777
            for path, status in self.stats.items()
            if stat.S_ISREG(status.st_mode)
        }
        executables = {path for path, entry in self.entries.items() if entry.mode == EXECUTABLE}
        links = {path for path, entry in self.entries.items() if entry.mode == SYMLINK}
        return modes.collect(bits, executables, self.folders, listed=links)

    @property
    def modes(self) -> modes.Modes:
        """The bits of files, and of the folders that this holds something of."""
        found = self._all_modes
        unsure = {folder for folder in found.folders if folder and not self._has_files(folder)}
        if unsure:  # it may have nothing but ignored files
            aside = (*self.empty_folders, *self.skipped)
            unsure -= {*aside, *folders_of((*aside, *self.entries))}
        if not unsure:
            return found
        held = {folder: bits for folder, bits in found.folders.items() if folder not in unsure}
        return replace(found, folders=held)

    def _has_files(self, folder: bytes) -> bool:
        """True if that can be told by one look."""
        listing = None if self.is_edited else self.listings.get(folder)
        return listing is not None and (bool(listing.names) or any(listing.trees.values()))


def status_off_disk(mode: int, size: int) -> os.stat_result:
    """Stat data for a file that is not on disk: no file there can have the same times."""
    times = {"st_atime_ns": 0, "st_mtime_ns": 0, "st_ctime_ns": 0}
    return os.stat_result((mode, 0, 0, 1, os.geteuid(), os.getegid(), size, 0, 0, 0), times)


def _summed_modes(listings: Listings) -> modes.Modes:
    """What `modes.collect` would say, from sums: few files have unusual bits."""
    summaries = listings.summaries()
    usual = modes.usual(_added(s.bits for s in summaries), _added(s.folders for s in summaries))

    def is_unusual(summary: Summary) -> bool:
        return any(map(usual.is_unusual_file, summary.bits)) or any(
            bits != usual.folder for bits in summary.folders
        )

    files: dict[bytes, int] = {}
    folders: dict[bytes, int] = {}
    for listing in listings.where(is_unusual):
        if listing.bits is not None and listing.bits != usual.folder:
            folders[listing.folder] = listing.bits
        for number, name in enumerate(listing.names):
            bits = listing.permissions(number)
            if bits is not None and usual.is_unusual_file(bits):
                files[listing.prefix + name] = bits & 0o777
    return modes.Modes(usual.plain, usual.executable, files, usual.folder, folders)


def _added(counts: Iterable[dict[int, int]]) -> dict[int, int]:
    total: dict[int, int] = {}
    for count in counts:
        for key, number in count.items():
            total[key] = total.get(key, 0) + number
    return total


def _gone() -> Staged:
    raise AssertionError("the index was let go of")
