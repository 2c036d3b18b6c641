# SPDX-License-Identifier: MIT
"""Capture the present: what is on disk, in the index and at HEAD, at one moment.

Takes tracked and untracked files with their exact bytes, links, permission bits, empty
folders, the index, HEAD and whether an operation is under way. Ignored files, secrets,
dependency folders, untracked files that are too large or too many, nested repositories
and special files are left out, all but the first by name. Contents come from the scan cache
or git's index where stat data prove them; everything else is read.

Blobs go to the object store that is passed in. Nothing else is written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ckpt import paths
from ckpt.engine.collector import without_collector
from ckpt.engine.conversions import Cleaner, ConversionCache, Converted
from ckpt.engine.index_facts import (
    IndexFacts,
    doubtful_folders,
    facts_of,
    index_identity,
    packed,
)
from ckpt.engine.nested import nested_states
from ckpt.engine.reading import (
    CODES,
    NEVER,
    Cleaning,
    Clock,
    Gatherer,
    IndexContents,
    ListedContents,
    Reader,
    entries_of,
    entry_of,
    git_modes,
    write_trees,
)
from ckpt.engine.rules import attribute_tree, fingerprint, read_excludes
from ckpt.engine.scan_cache import ScanCache
from ckpt.errors import CkptError
from ckpt.git import index as staging
from ckpt.git.formats import ObjectID
from ckpt.git.index import (
    IndexEntry,
    Staged,
    index_mtime,
    read_staged,
)
from ckpt.git.objects import ObjectStore
from ckpt.git.operation import OperationState, read_now
from ckpt.git.refs import Head
from ckpt.git.repository import Repository
from ckpt.git.rules import AttributeTree
from ckpt.git.streams import UnreadableFile
from ckpt.git.trees import EXECUTABLE, SYMLINK, Entries, TreeEntry, write_tree
from ckpt.models import NestedState, SkipReason
from ckpt.paths import folders_above, folders_of, to_str
from ckpt.settings.settings import Settings
from ckpt.worktree import modes
from ckpt.worktree.cache import (
    Changes,
    Listing,
    Listings,
    Note,
    Overtaken,
    Stat,
    Summary,
    owner_of,
    rescan,
    rescan_only,
    stat_of,
)
from ckpt.worktree.scan import Deadline, Scan, ScanRules

# From so many paths on, a folder of which nothing was taken stands for all that is in it.
MANY = 1000


def has_room(settings: Settings, files: int, size: int) -> bool:
    """Whether so much that is untracked is taken without a further look."""
    return files <= settings.max_new_files and size <= settings.max_new_bytes


def keep_within(
    found: Scan,
    settings: Settings,
    objects: ObjectStore,
    top: bytes,
    deadline: Deadline | None = None,
) -> None:
    """Leave out of a scan what one checkpoint has no room for, or no time to find out."""
    sizes = {path: found.files[path].st_size for path in found.untracked}
    files, room = settings.max_new_files, settings.max_new_bytes
    if has_room(settings, len(sizes), sum(sizes.values())):
        return
    for path in sorted(sizes, key=lambda path: (sizes[path], path)):
        if deadline is not None and deadline.is_over:
            del found.files[path]
            found.leave_for_later(path)
            continue
        if _is_held(objects, os.path.join(top, path), found.files[path]):
            continue
        if files > 0 and sizes[path] <= room:
            files, room = files - 1, room - sizes[path]
        else:
            del found.files[path]
            found.skipped[path] = SkipReason.BUDGET


def _is_held(objects: ObjectStore, place: bytes, status: os.stat_result) -> bool:
    """Whether the repository has a content; also if it cannot be read, as taking it will tell."""
    try:
        if stat.S_ISLNK(status.st_mode):
            return objects.has(objects.hash(b"blob", paths.readlink(place)))
        fd = paths.open_file(place)
        try:
            now = os.fstat(fd)
            is_file = stat.S_ISREG(now.st_mode)
            return not is_file or objects.has(objects.hash_file(fd, now.st_size))
        finally:
            os.close(fd)
    except (OSError, UnreadableFile):
        return True


def summarised(
    skipped: Mapping[bytes, SkipReason], entries: Callable[[], Iterable[bytes]]
) -> Mapping[bytes, SkipReason]:
    """What was left out, for the manifest: thousands of paths shortened to their folders."""
    over = [path for path, reason in skipped.items() if reason is SkipReason.BUDGET]
    if len(over) <= MANY:
        return skipped
    held = folders_of(entries())
    shorter = dict.fromkeys((_outermost(path, held) for path in over), SkipReason.BUDGET)
    others = {path: skipped[path] for path in skipped.keys() - set(over)}
    return dict(sorted({**shorter, **others}.items()))


def _outermost(path: bytes, held: set[bytes]) -> bytes:
    """The path, or the highest folder above it that holds nothing of the checkpoint."""
    for folder in folders_above(path):
        if folder in held:
            break
        path = folder
    return path


# -- The present: what is on disk, in the index and at HEAD, at one moment


@dataclass
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
    index_state: IndexState | None = None
    trees: dict[ObjectID, Entries] = field(default_factory=dict)
    _written: tuple[ObjectStore, ObjectID] | None = None

    @cached_property
    def staged(self) -> Staged:
        return self.read_staged()

    def staged_at(self, paths: Collection[bytes]) -> Iterable[IndexEntry]:
        """The entries of the index at these paths."""
        return (e for e in (self.staged.index.entries if paths else ()) if e.path in paths)

    def let_go_of_index(self) -> None:
        """Give back the memory that the entries of the index take; nobody will ask for them."""
        self.__dict__.pop("staged", None)
        self.read_staged = _gone

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


# -- One look at the present: files, index, HEAD and operation as they are met

ALL = 1 << 62


class Look:
    """What `capture` is asked for, and what was met; `read` is what an earlier look has read."""

    def __init__(
        self,
        repo: Repository,
        settings: Settings,
        objects: ObjectStore,
        force: tuple[bytes, ...],
        progress: Callable[[int, int], None] | None,
        clock: Clock,
        deadline: Deadline | None,
        read: Mapping[bytes, tuple[ObjectID, os.stat_result]],
    ) -> None:
        self._repo = repo
        self._settings = settings
        self._objects = objects
        self._force = force
        self._progress = progress
        self._clock = clock
        self._deadline = deadline
        self._read = read
        self._is_cut = False
        self._converted_by = b""
        self.reader: Reader
        self.vanished: set[bytes] = set()
        self.missed: dict[bytes, os.stat_result | None] = {}
        self._top = os.fsencode(repo.worktree)
        self._staged: Staged | None = None
        self._index: IndexFacts
        self._head: Head
        self._operation: OperationState
        self._excludes: dict[str, bytes]

    def run(self, cache: ScanCache | None) -> Present:
        self._look_at_index(cache)
        self._head = self._repo.refs.head()
        self._operation = read_now(self._repo.refs)
        self._excludes = read_excludes(self._repo)
        self._rules = fingerprint(self._repo, self._settings, self._excludes)
        self._converted_by = b"" if cache is None else cache.attributes
        if cache is not None and self._can_start_from(cache):
            try:
                return self._warm(cache)
            except Overtaken:
                pass
        return self._cold()

    def _look_at_index(self, cache: ScanCache | None) -> None:
        identity = index_identity(self._repo)
        if cache is not None and identity is not None and identity == cache.index.identity:
            self._index = cache.index
            return
        self._index = facts_of(self._read_staged(), identity)

    def _read_staged(self) -> Staged:
        if self._staged is None:
            self._staged = read_staged(self._repo)
        return self._staged

    @property
    def _is_ordinary(self) -> bool:
        """Whether listings tell all there is to tell, and follow from the rules alone."""
        config = self._repo.config
        named = self._force or self._settings.include
        by_disk = config.get_bool("core.filemode", True) and config.get_bool("core.symlinks", True)
        return by_disk and not named and not self._index.is_sparse

    def _can_start_from(self, cache: ScanCache) -> bool:
        return self._is_ordinary and cache.rules == self._rules

    # -- from nothing --------------------------------------------------------------

    def _cold(self) -> Present:
        staged = self._read_staged()
        if self._is_ordinary and not self._repo.config.get_bool("core.ignorecase", False):
            try:
                present = self._from_index(staged)
            except Overtaken:
                present = None
            if present is not None:
                return present
        from ckpt.worktree.scan import scan

        rules = self._scan_rules()
        found = scan(self._top, rules, self._progress, self._deadline)
        keep_within(found, self._settings, self._objects, self._top, self._deadline)
        listings = Listings()
        changed, reader, texts = self._take(listings, Changes(found), staged)
        present = self._present(listings, changed, reader)
        present.absent = sparse_entries(reader.entries, staged, found.skipped)
        is_within_budget = SkipReason.BUDGET not in found.skipped.values()
        if self._is_ordinary and is_within_budget:
            self._prepare_cache(present, texts, ALL)
        return present

    def _scan_rules(self) -> ScanRules:
        from ckpt.engine.rules import scan_rules

        staged = self._staged if self._index.is_sparse else None
        return scan_rules(
            self._repo, self._settings, self._excludes, self._index, staged, self._force
        )

    def _from_index(self, staged: Staged) -> Present | None:
        """The same, but only what differs from the index is scanned."""
        from ckpt.engine.scan_cache import seed

        rules = self._scan_rules()
        attributes = attribute_tree(self._repo, self._index.attributes, Scan())
        if not self._is_index_proof(attributes.fingerprint):
            return None
        cleaning = self._cleaning(attributes.tree)
        planted = seed(
            self._top,
            staged,
            self._repo.objects,
            self._clock,
            lambda folder: rules.deny.ignored(folder, True),
            None if cleaning is None else lambda path: cleaning.asked(path) is not None,
        )
        if planted is None:
            return None
        listings = planted.listings
        changes = rescan_only(
            self._top, listings, lambda: rules, planted.odd, planted.files, self._deadline
        )
        come = [changes.found.files[path].st_size for path in changes.found.untracked]
        if not has_room(self._settings, len(come), sum(come)):
            raise Overtaken
        changed, reader, texts = self._take(listings, changes, staged, listed=planted.listed)
        if texts != attributes.fingerprint:  # an untracked file adds to the attributes
            raise Overtaken
        present = self._present(listings, changed | planted.changed, reader)
        present.is_from_index = True
        self._prepare_cache(present, texts, ALL)
        return present

    # -- from what is known --------------------------------------------------------

    def _warm(self, cache: ScanCache) -> Present:
        listings = cache.listings()
        doubtful: Iterable[bytes] = ()
        if self._index is not cache.index:
            doubtful = doubtful_folders(cache.index, self._index)
            if doubtful and self._repo.config.get_bool("core.ignorecase", False):
                raise Overtaken  # they may be spelt otherwise on disk
        changes = rescan(self._top, listings, self._scan_rules, doubtful, self._deadline)
        if not has_room(self._settings, *_untracked(cache, changes)):
            raise Overtaken
        noted = [path for what, path, _ in cache.notes() if what == "attributes"]
        changed, reader, texts = self._take(listings, changes, self._staged, noted, cache)
        present = self._present(listings, changed, reader)
        present.source = cache
        present.delta = _delta(listings, changes, changed, reader)
        present.knows_index = self._index is cache.index
        looked_at = len(changes.files) + len(changes.found.files) + len(changes.before)
        unwritten = cache.unwritten + looked_at if present.knows_index else ALL
        self._prepare_cache(present, texts, unwritten)
        return present

    # -- both ------------------------------------------------------------------------

    def _take(
        self,
        listings: Listings,
        changes: Changes,
        staged: Staged | None,
        attribute_files: Iterable[bytes] = (),
        cache: ScanCache | None = None,
        listed: Mapping[bytes, Stat] | None = None,
    ) -> tuple[set[bytes], Reader, bytes]:
        """Read what changed into the listings: which folders those are, and by what rules."""
        found = changes.found
        found.attribute_files |= {*attribute_files}
        attributes = attribute_tree(self._repo, self._index.attributes, found)
        if cache is not None and attributes.fingerprint != cache.attributes:
            raise Overtaken
        file_mode = self._repo.config.get_bool("core.filemode", True)
        reader = Reader(
            self._top,
            self._objects,
            git_modes(self._repo, staged),
            self._cleaning(attributes.tree),
            index=IndexContents(staged, self._repo.objects, file_mode=file_mode)
            if staged is not None and self._is_index_proof(attributes.fingerprint)
            else None,
            before=ListedContents(changes.before),
            read=self._read,
            progress=self._progress,
        )
        self.reader = reader
        with reader:
            corrected: set[bytes] = set()
            if self._deadline is None:
                reader.take(found.files, found.skipped)
            else:
                corrected = self._take_in_time(reader, listings, changes, self._deadline)
            reader.take_gitlinks(found.gitlinks, self._index.gitlinks, found.folders)
            for path in reader.vanished:
                found.miss(path)
            changed = Gatherer(listings, found, reader, self._clock).put()
            if self._deadline is None:
                corrected = reader.take_changed(listings, changes.files, self._clock)
        self.vanished = found.vanished | reader.vanished
        self._look_back(listings, found, listed or {})
        return changed | corrected, reader, attributes.fingerprint

    def _is_index_proof(self, conversions: bytes) -> bool:
        """Whether stat data in the index speak for a content. Git converted some files when they
        were staged, and a filter's output may be as long as what it was made from. And where an
        object is replaced by another, git has written that."""
        return self._converted_by in (b"", conversions) and not self._are_any_replaced()

    def _are_any_replaced(self) -> bool:
        if self._repo.env.get("GIT_REPLACE_REF_BASE"):
            return True
        try:
            return bool(self._repo.refs.contents_below("refs/replace/"))
        except CkptError:  # refs that are damaged may be such
            return True

    def _look_back(self, listings: Listings, found: Scan, listed: Mapping[bytes, Stat]) -> None:
        """Find what moved before it was met. If nothing was listed and nothing is gone, all is
        where it was known to be."""
        self.missed = {}
        if not (found.walked or listed or self.vanished):
            return
        from ckpt.engine.reading import missed

        listed = {**listed, **{at: stat_of(status) for at, (status, _) in found.walked.items()}}
        self.missed = missed(
            self._top, self._scan_rules, listed, listings, self.vanished, self._clock
        )

    def _take_in_time(
        self, reader: Reader, listings: Listings, changes: Changes, deadline: Deadline
    ) -> set[bytes]:
        """Read all that is tracked first; returns the folders in which files were corrected."""
        found = changes.found
        tracked = {p: status for p, status in found.files.items() if p not in found.untracked}
        reader.take(tracked, found.skipped)
        corrected = reader.take_changed(listings, changes.files, self._clock)
        reader.take_in_time(found.files.keys() - tracked.keys(), found, deadline)
        self._is_cut = found.is_cut
        return corrected

    def _cleaning(self, attributes: AttributeTree | None) -> Cleaning | None:
        """None in a worktree in which git converts nothing."""
        if attributes is None:
            return None
        from ckpt.worktree.filters import converting

        autocrlf = self._repo.config.get("core.autocrlf")

        def open_cleaner() -> Cleaner:
            from ckpt.engine.conversions import Cleaner
            from ckpt.engine.reading import HeadBlobs

            head_blob = HeadBlobs(self._repo.objects, self._head.commit)
            return Cleaner(self._repo, self._objects, self._read_staged, head_blob, self._deadline)

        return Cleaning(converting(attributes, autocrlf), open_cleaner)

    def _present(self, listings: Listings, changed: set[bytes], reader: Reader) -> Present:
        present = Present(
            listings=listings,
            changed=changed,
            excludes=self._excludes,
            include=self._settings.include,
            index=self._index,
            read_staged=self._read_staged,
            head=self._head,
            operation=self._operation,
            converts=reader.cleaning is not None,
            converted={} if reader.cleaner is None else reader.cleaner.converted,
            memory=None if reader.cleaner is None else reader.cleaner.cache,
            fresh=reader.fresh,
            is_cut=self._is_cut,
        )
        # A .gitignore may ignore itself; what it said decides what a later rollback keeps.
        present.excludes |= {to_str(path): text for path, text in present.notes("ignore")}
        nested = [p for p, why in present.skipped.items() if why is SkipReason.NESTED]
        gitlinks = [path for path, _ in present.notes("gitlink")]
        present.nested = nested_states(
            self._repo, {*gitlinks, *nested}, self._index.gitlinks, self._deadline
        )
        return present

    def _prepare_cache(self, present: Present, texts: bytes, unwritten: int) -> None:
        if self._clock is not NEVER:
            present.cache = ScanCache(self._rules, texts, self._index, [], unwritten=unwritten)


def _delta(
    listings: Listings, changes: Changes, changed: set[bytes], reader: Reader
) -> dict[bytes, tuple[TreeEntry | None, TreeEntry | None]]:
    """The entries that have changed since the listings were made: what they were, and are."""
    found: dict[bytes, tuple[TreeEntry | None, TreeEntry | None]] = {**reader.corrected}
    corrected = {path.rpartition(b"/")[0] for path in reader.corrected}
    for folder in (changes.before.keys() | changed) - corrected:
        were, are = entries_of(changes.before.get(folder)), entries_of(listings.get(folder))
        for path in were.keys() | are.keys():
            if were.get(path) != are.get(path):
                found[path] = were.get(path), are.get(path)
    return found


def _untracked(cache: ScanCache, changes: Changes) -> tuple[int, int]:
    """How many files git does not track now, and how large they are together."""
    were = [chunk.summary for chunk in cache.chunks]
    gone = [size for listing in changes.before.values() for size in listing.new_sizes()]
    come = [changes.found.files[path].st_size for path in changes.found.untracked]
    files = sum(summary.new_files for summary in were) - len(gone) + len(come)
    return files, sum(summary.new_bytes for summary in were) - sum(gone) + sum(come)


def sparse_entries(
    entries: dict[bytes, TreeEntry], staged: Staged, skipped: Iterable[bytes]
) -> dict[bytes, TreeEntry]:
    """Paths that are absent because of skip-worktree, which is no deletion."""
    marked = [entry for entry in staged.index.entries if entry.skip_worktree]
    taken = {*entries, *folders_of(entries), *skipped} if marked else set()
    # A file may stand where a folder was left out, or the reverse: a tree holds one.
    return {
        entry.path: TreeEntry(entry.mode, ObjectID(entry.id))
        for entry in marked
        if entry.path not in taken
        and not any(folder in entries for folder in folders_above(entry.path))
    }


# -- What stands for git's index in a checkpoint: found once for each present


@dataclass(frozen=True, slots=True)
class IndexState:
    """The index's entries of a state tree."""

    entries: dict[bytes, TreeEntry]

    def is_in(self, objects: ObjectStore, state_tree: ObjectID) -> bool:
        """Whether a state tree holds the same index."""
        return staging.is_stored(objects, state_tree, self.entries)


def index_state(objects: ObjectStore, present: Present) -> IndexState:
    """Write what stands for the index; as for the last checkpoint, if that can be."""
    if present.index_state is None:
        if present.knows_index and present.index.state is not None:
            present.index_state = IndexState(present.index.state_entries())
        else:
            present.index_state = _written(objects, present)
    return present.index_state


def _written(objects: ObjectStore, present: Present) -> IndexState:
    index = present.staged.index
    # What an earlier checkpoint relies on was found whole then, and flushed.
    whole = staging.whole_trees(objects, index) if present.source is None else None
    stages = staging.write_stages(objects, index, whole)
    state = IndexState(staging.write_state(objects, index, stages))
    present.index = replace(present.index, state=packed(state.entries))
    return state


# -- Capture the present: what is on disk, in the index and at HEAD, at one moment

_READ_ATTEMPTS = 4


def capture(
    repo: Repository,
    settings: Settings,
    objects: ObjectStore,
    *,
    force: tuple[bytes, ...] = (),
    progress: Callable[[int, int], None] | None = None,
    cache: ScanCache | None = None,
    clock: Clock = NEVER,
    reads_index: bool = True,
    deadline: Deadline | None = None,
) -> Present:
    """Capture the worktree of `repo`, and the paths of `force` whatever the rules say.

    After the deadline no untracked file is read and no folder of such walked; they are listed.
    If git moves HEAD, the index or an operation on meanwhile, files of two states would mix; if
    somebody moves a folder, its files may be met at neither place. Then the capture is taken
    again, a few times at most, and what was missed in the last is listed. What others only make
    or remove is reason for one more. Without `reads_index`, the index is read only if something
    in it is needed.
    """
    read: Mapping[bytes, tuple[ObjectID, os.stat_result]] = {}
    for attempt in range(_READ_ATTEMPTS):
        look = Look(repo, settings, objects, force, progress, clock, deadline, read)
        with without_collector():
            present = look.run(cache)
        if reads_index:
            present.staged  # noqa: B018  # it is read here, so that it is of the same moment
        missed = [p for p, status in look.missed.items() if not status or clock.is_earlier(status)]
        is_whole = not missed and (attempt > 0 or not (look.missed or look.vanished))
        is_over = is_whole or (deadline is not None and deadline.is_over)
        if _is_still(repo, present) and is_over:
            break
        read = look.reader.read(clock)
    if missed:
        present.leave_out(missed)
    return present


def _is_still(repo: Repository, present: Present) -> bool:
    """False if git has been at work since the capture began."""
    return (
        present.head == repo.refs.head()
        and present.index.mtime_ns == index_mtime(repo)
        and present.operation == read_now(repo.refs)
    )
