# SPDX-License-Identifier: MIT
"""Capture the present: what is on disk, in the index and at HEAD, at one moment.

Takes tracked and untracked files with their exact bytes, links, permission bits, empty
folders, the index, HEAD and the operation in progress. Left out, and listed: secrets,
dependency folders, untracked files that are too large or too many, nested repositories and
special files. Contents come from the scan cache or git's index where stat data prove them.
Blobs and trees go to the object store that is passed in; nothing else is written.
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
from ckpt.engine.nested import nested_states
from ckpt.engine.reading import (
    NEVER,
    Cleaning,
    Clock,
    Gatherer,
    IndexContents,
    ListedContents,
    Reader,
    edit_tree,
    entries_of,
    entry_of,
    git_modes,
    write_trees,
)
from ckpt.engine.rules import attribute_tree, fingerprint, read_excludes, scan_rules
from ckpt.engine.scan_cache import (
    IndexFacts,
    ScanCache,
    doubtful_folders,
    facts_of,
    index_identity,
)
from ckpt.errors import CkptError
from ckpt.git import index as staging
from ckpt.git.formats import ObjectID
from ckpt.git.index import IndexEntry, Staged, index_mtime, read_staged
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.operation import OperationState, read_now
from ckpt.git.refs import Head
from ckpt.git.repository import Repository
from ckpt.git.rules import AttributeTree
from ckpt.git.streams import UnreadableFile
from ckpt.git.trees import EXECUTABLE, GITLINK, SYMLINK, TreeEntry, write_tree
from ckpt.models import NestedState, SkipReason
from ckpt.paths import folders_above, folders_of, is_within, to_str
from ckpt.settings.settings import Settings
from ckpt.worktree.cache import Changes, Listing, Listings, Overtaken, Summary, rescan
from ckpt.worktree.modes import Modes, usual
from ckpt.worktree.scan import Deadline, Scan, ScanRules

Correction = tuple[TreeEntry, os.stat_result] | None


@dataclass(frozen=True)
class Present:
    """The working state at one moment; its tree and blobs are in the object store.

    `absent` are entries that a sparse checkout leaves out: unchanged, but not on disk.
    `converted` are the files whose bytes are not those of their blob. The object store lacks
    what is staged of the paths of `lost`, and of HEAD what `lost_head` says. It `is_cut` if
    the time was up before all untracked files were read, and `lacks_edits` if some were taken
    off the disk and not found. `source` is the scan cache that the capture started from,
    `cache` what the next one may start from.
    """

    tree: ObjectID
    index: IndexFacts
    head: Head
    operation: OperationState
    listings: Listings
    excludes: Mapping[str, bytes] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    skipped: Mapping[bytes, SkipReason] = field(default_factory=dict)
    empty_folders: tuple[bytes, ...] = ()
    attribute_files: tuple[bytes, ...] = ()
    nested: tuple[NestedState, ...] = ()
    absent: Mapping[bytes, TreeEntry] = field(default_factory=dict)
    converted: Mapping[bytes, Converted] = field(default_factory=dict)
    memory: ConversionCache | None = None
    lost: tuple[bytes, ...] = ()
    lost_head: str | None = None
    is_cut: bool = False
    lacks_edits: bool = False
    source: ScanCache | None = None
    cache: ScanCache | None = None
    staged_now: Staged | None = None
    corrections: Mapping[bytes, Correction] = field(default_factory=dict)
    folder_bits: Mapping[bytes, int] | None = None

    # -- what is there -------------------------------------------------------------

    @property
    def staged(self) -> Staged:
        assert self.staged_now is not None, "the index was not read"
        return self.staged_now

    def staged_at(self, paths: Collection[bytes]) -> Iterable[IndexEntry]:
        """Return the entries of the index at these paths."""
        return (e for e in (self.staged.index.entries if paths else ()) if e.path in paths)

    @property
    def knows_index(self) -> bool:
        """Tell whether the index is the same as at the last save."""
        return self.source is not None and self.index is self.source.index

    @cached_property
    def index_entries(self) -> dict[bytes, TreeEntry]:
        """What stands for the index in a state tree."""
        return self.index.state_entries()

    @cached_property
    def entries(self) -> Mapping[bytes, TreeEntry]:
        """Every file, link and submodule by path."""
        found: dict[bytes, TreeEntry] = {}
        for listing in self.listings:
            found.update(entries_of(listing))
        found.update(self.absent)
        for path, correction in self.corrections.items():
            if correction is None:
                found.pop(path, None)
            else:
                found[path] = correction[0]
        return found

    @cached_property
    def stats(self) -> Mapping[bytes, os.stat_result]:
        """The stat data under which the contents are known."""
        found: dict[bytes, os.stat_result] = {}
        for listing in self.listings:
            for number, name in enumerate(listing.names):
                if listing.stats[number][4]:
                    found[listing.prefix + name] = listing.file_stat(number)
        for path, correction in self.corrections.items():
            found.pop(path, None)
            if correction is not None:
                found[path] = correction[1]
        return found

    @cached_property
    def folders(self) -> Mapping[bytes, int]:
        """The permission bits of the folders that were walked, or hold what was taken."""
        if self.folder_bits is not None:
            return self.folder_bits
        return {x.folder: x.bits for x in self.listings if x.bits is not None}

    def entry(self, path: bytes) -> TreeEntry | None:
        """Return what `entries` has at a path, without making all of them."""
        if path in self.corrections:
            correction = self.corrections[path]
            return None if correction is None else correction[0]
        if path in self.absent:
            return self.absent[path]
        listing, number = self._find(path)
        return None if listing is None else entry_of(listing, number)

    def status(self, path: bytes) -> os.stat_result | None:
        """Return what `stats` has of a path."""
        if path in self.corrections:
            correction = self.corrections[path]
            return None if correction is None else correction[1]
        listing, number = self._find(path)
        return listing.file_stat(number) if listing and listing.stats[number][4] else None

    def bits(self, folder: bytes) -> int | None:
        """Return what `folders` has of a folder."""
        if self.folder_bits is not None:
            return self.folder_bits.get(folder)
        listing = self.listings.get(folder)
        return None if listing is None else listing.bits

    def _find(self, path: bytes) -> tuple[Listing | None, int]:
        """Return the folder that a file was found in, and its place there."""
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

    # -- as a whole ----------------------------------------------------------------

    @property
    def least_files(self) -> int:
        """So many files there are at least; links and submodules are not counted."""
        return sum(sum(summary.bits.values()) for summary in self.listings.summaries())

    @property
    def unskipped(self) -> tuple[bytes, ...]:
        """Paths that are marked skip-worktree and on disk all the same."""
        if not self.index.is_sparse:
            return ()
        marked = {entry.path for entry in self.staged.index.entries if entry.skip_worktree}
        return tuple(sorted(marked - self.absent.keys()))

    @property
    def gone(self) -> tuple[str, ...]:
        """What the index or HEAD refers to and the object store does not have."""
        found = [f"what was staged of '{to_str(p)}' is gone" for p in self.lost[:_MOST_NAMED]]
        if self.lost[_MOST_NAMED:]:
            more = len(self.lost) - _MOST_NAMED
            found.append(f"what was staged of {more} more files is gone")
        return (*found, *([f"{self.lost_head} is gone"] if self.lost_head else []))

    @property
    def is_partial(self) -> bool:
        unsaved = any(state.problem is not None for state in self.nested)
        is_short = self.is_cut or self.lacks_edits or bool(self.gone)
        return unsaved or is_short or SkipReason.UNREADABLE in self.skipped.values()

    @cached_property
    def modes(self) -> Modes:
        """The bits of files, and of the folders that this holds something of."""
        found = self._with_corrected_bits(_summed_modes(self.listings))
        unsure = {folder for folder in found.folders if folder and not self._has_files(folder)}
        if unsure:  # it may have nothing but ignored files
            aside = (*self.empty_folders, *self.skipped)
            unsure -= {*aside, *folders_of((*aside, *self.entries))}
        held = {folder: bits for folder, bits in found.folders.items() if folder not in unsure}
        return replace(found, folders=held)

    def _with_corrected_bits(self, found: Modes) -> Modes:
        others = {p: bits for p, bits in found.others.items() if p not in self.corrections}
        for path, correction in self.corrections.items():
            if correction is not None and stat.S_ISREG(correction[1].st_mode):
                bits = stat.S_IMODE(correction[1].st_mode) & 0o777
                mode = correction[0].mode
                if mode == SYMLINK or bits != found.of(b"", mode == EXECUTABLE):
                    others[path] = bits
        if self.folder_bits is not None:
            folders = {f: bits for f, bits in self.folder_bits.items() if bits != found.folder}
            found = replace(found, folders=folders)
        return replace(found, others=dict(sorted(others.items())))

    def _has_files(self, folder: bytes) -> bool:
        """Tell by one look whether a folder has files; False if that is not enough."""
        listing = None if self.corrections else self.listings.get(folder)
        return listing is not None and (bool(listing.names) or any(listing.trees.values()))

    # -- other states, made of this one ------------------------------------------------

    def with_files(self, objects: ObjectStore, files: Mapping[bytes, Correction]) -> Present:
        """Return the state in which these paths hold something else, or nothing."""
        changes: dict[bytes, Correction] = {}
        for path, correction in files.items():
            if correction is not None:  # a tree cannot hold a file and a folder of one name
                above = (f for f in folders_above(path) if self.entry(f) is not None)
                changes.update(dict.fromkeys(above))
                inside = (entries_of(x) for x in self.listings.below(path))
                changes.update(dict.fromkeys(p for entries in inside for p in entries))
                changes.update((p, None) for p in self.corrections if is_within(p, (path,)))
        changes.update(files)
        tree = edit_tree(objects, self.tree, {p: c and c[0] for p, c in changes.items()})
        return replace(
            self,
            tree=tree,
            corrections={**self.corrections, **changes},
            converted={p: c for p, c in self.converted.items() if p not in changes},
            absent={p: entry for p, entry in self.absent.items() if p not in changes},
            cache=None,
        )

    def with_index(self, objects: ObjectStore, staged: Staged) -> Present:
        """Return the state with another index, which was read later than the files."""
        facts, lost = _with_state(objects, facts_of(staged, None), staged)
        return replace(self, index=facts, staged_now=staged, lost=lost, cache=None)

    def without_staged(self, objects: ObjectStore, broken: Collection[ObjectID]) -> Present:
        """Return the state but for what is staged of objects that cannot be read."""
        facts, lost = _with_state(objects, self.index, self.staged, broken=broken)
        return replace(self, index=facts, lost=lost, cache=None)

    def with_folders(self, empty: Iterable[bytes], bits: Mapping[bytes, int]) -> Present:
        """Return the state with other empty folders, and other bits of folders."""
        return replace(self, empty_folders=tuple(sorted(empty)), folder_bits=bits, cache=None)

    def without_absent(self, objects: ObjectStore) -> Present:
        """Return the state in which the sparse checkout is that of the index as it is now."""
        if not (self.absent or self.index.is_sparse):
            return self
        on_disk = {p: e for p, e in self.entries.items() if p not in self.absent}
        absent = sparse_entries(on_disk, self.staged, self.skipped)
        tree = write_tree(objects, {**on_disk, **absent})
        return replace(self, tree=tree, absent=absent, cache=None)


def status_off_disk(mode: int, size: int) -> os.stat_result:
    """Return stat data for a file that is not on disk: no file there can have the same times."""
    times = {"st_atime_ns": 0, "st_mtime_ns": 0, "st_ctime_ns": 0}
    return os.stat_result((mode, 0, 0, 1, os.geteuid(), os.getegid(), size, 0, 0, 0), times)


def _summed_modes(listings: Listings) -> Modes:
    """Return the usual bits and who has others, from sums: few files have unusual bits."""
    summaries = listings.summaries()
    most = usual(_added(s.bits for s in summaries), _added(s.folders for s in summaries))

    def is_unusual(summary: Summary) -> bool:
        return any(map(most.is_unusual_file, summary.bits)) or any(
            bits != most.folder for bits in summary.folders
        )

    files: dict[bytes, int] = {}
    folders: dict[bytes, int] = {}
    for listing in listings.where(is_unusual):
        if listing.bits is not None and listing.bits != most.folder:
            folders[listing.folder] = listing.bits
        for number, name in enumerate(listing.names):
            bits = listing.permissions(number)
            if bits is not None and most.is_unusual_file(bits):
                files[listing.prefix + name] = bits & 0o777
    return Modes(most.plain, most.executable, files, most.folder, folders)


def _added(counts: Iterable[dict[int, int]]) -> dict[int, int]:
    total: dict[int, int] = {}
    for count in counts:
        for key, number in count.items():
            total[key] = total.get(key, 0) + number
    return total


# -- the index of a checkpoint

_MOST_NAMED = 10


def _with_state(
    objects: ObjectStore,
    facts: IndexFacts,
    staged: Staged,
    *,
    is_first: bool = False,
    broken: Collection[ObjectID] = (),
) -> tuple[IndexFacts, tuple[bytes, ...]]:
    """Write what stands for the index; return the paths that are staged and missing too, as
    after a power cut: git does not flush what it stages. On the first look the trees that the
    index remembers are looked over."""
    index = staged.index
    try:
        trees = staging.whole_trees(objects, index) if is_first else None
        stages = staging.write_stages(objects, index, trees)
        if not broken:
            return facts.with_state(staging.write_state(objects, index, stages)), ()
    except MissingObject:
        if objects.is_partial:
            raise
    entries, lost = [], set()
    for entry in index.entries:
        is_blob = entry.mode != GITLINK and not entry.intent_to_add
        if is_blob and (entry.id in broken or not objects.has(ObjectID(entry.id))):
            lost.add(entry.path)
        else:
            entries.append(entry)
    index = staging.Index(index.version, entries, hash_len=index.hash_len)
    return facts.with_state(staging.write_state(objects, index)), tuple(sorted(lost))


def sparse_entries(
    entries: Mapping[bytes, TreeEntry], staged: Staged, skipped: Iterable[bytes]
) -> dict[bytes, TreeEntry]:
    """Return the paths that are absent because of skip-worktree, which is no deletion."""
    marked = [entry for entry in staged.index.entries if entry.skip_worktree]
    taken = {*entries, *folders_of(entries), *skipped} if marked else set()
    # A file may stand where a folder was left out, or the reverse: a tree holds one.
    return {
        entry.path: TreeEntry(entry.mode, ObjectID(entry.id))
        for entry in marked
        if entry.path not in taken
        and not any(folder in entries for folder in folders_above(entry.path))
    }


# -- how much that is untracked one checkpoint takes

# From so many paths on, a folder of which nothing was taken stands for all that is in it.
_MANY = 1000


def _has_room(settings: Settings, files: int, size: int) -> bool:
    return files <= settings.max_new_files and size <= settings.max_new_bytes


def _keep_within(
    found: Scan, settings: Settings, objects: ObjectStore, top: bytes, deadline: Deadline | None
) -> bool:
    """Leave out of a scan what one checkpoint has no room for, the largest first; return whether
    all has room. What the repository has already costs nothing."""
    sizes = {path: found.files[path].st_size for path in found.untracked}
    files, room = settings.max_new_files, settings.max_new_bytes
    if _has_room(settings, len(sizes), sum(sizes.values())):
        return True
    for path in sorted(sizes, key=lambda path: (sizes[path], path)):
        if deadline is not None and deadline.is_over:
            del found.files[path]
            found.leave_for_later(path)
        elif _is_held(objects, os.path.join(top, path)):
            continue
        elif files > 0 and sizes[path] <= room:
            files, room = files - 1, room - sizes[path]
        else:
            del found.files[path]
            found.skipped[path] = SkipReason.BUDGET
    return False


def _is_held(objects: ObjectStore, place: bytes) -> bool:
    """Tell whether the repository has a content; True also if it cannot be read."""
    try:
        if stat.S_ISLNK(paths.lstat(place).st_mode):
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


def summarised(present: Present) -> Mapping[bytes, SkipReason]:
    """Return what was left out, for the manifest: thousands of paths shortened to folders."""
    over = [path for path, why in present.skipped.items() if why is SkipReason.BUDGET]
    if len(over) <= _MANY:
        return present.skipped
    held = folders_of(present.entries)
    found = dict.fromkeys((_outermost(path, held) for path in over), SkipReason.BUDGET)
    found.update((p, why) for p, why in present.skipped.items() if why is not SkipReason.BUDGET)
    return dict(sorted(found.items()))


def _outermost(path: bytes, held: set[bytes]) -> bytes:
    """Return the path, or the highest folder above it that holds nothing of the checkpoint."""
    for folder in folders_above(path):
        if folder in held:
            break
        path = folder
    return path


# -- capturing

_ATTEMPTS = 4
_ALL = 1 << 62


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
    If git moves HEAD, the index or an operation on meanwhile, files of two states would mix, so
    all is captured again, a few times at most. What vanishes meanwhile is reason to look once
    more; what does so again and is there in the end is listed as unreadable. Without
    `reads_index`, the index is read only if it has changed.
    """
    for attempt in range(_ATTEMPTS):
        look = _Look(repo, settings, objects, force, progress, clock, deadline, reads_index)
        with without_collector():
            present = look.run(cache)
        is_over = deadline is not None and deadline.is_over
        if _is_still(repo, present) and (attempt or is_over or not look.vanished):
            break
    top = os.fsencode(repo.worktree)
    missed = [path for path in look.vanished if os.path.lexists(os.path.join(top, path))]
    if missed:
        skipped = {**present.skipped, **dict.fromkeys(missed, SkipReason.UNREADABLE)}
        present = replace(present, skipped=dict(sorted(skipped.items())), cache=None)
    return present


def _is_still(repo: Repository, present: Present) -> bool:
    """Tell whether git has left HEAD, index and operation alone since the capture began."""
    return (
        present.head == repo.refs.head()
        and present.index.mtime_ns == index_mtime(repo)
        and present.operation == read_now(repo.refs)
    )


class _Look:
    """One look at the present."""

    def __init__(
        self,
        repo: Repository,
        settings: Settings,
        objects: ObjectStore,
        force: tuple[bytes, ...],
        progress: Callable[[int, int], None] | None,
        clock: Clock,
        deadline: Deadline | None,
        reads_index: bool,
    ) -> None:
        self._repo = repo
        self._settings = settings
        self._objects = objects
        self._force = force
        self._progress = progress
        self._clock = clock
        self._deadline = deadline
        self._reads_index = reads_index
        self._top = os.fsencode(repo.worktree)
        self._staged: Staged | None = None
        self.vanished: set[bytes] = set()

    def run(self, cache: ScanCache | None) -> Present:
        identity = index_identity(self._repo)
        if cache is not None and identity is not None and identity == cache.index.identity:
            self._index = cache.index
            if self._reads_index:
                self._read_staged()
        else:
            self._index = facts_of(self._read_staged(), identity)
        self._head = self._repo.refs.head()
        self._operation = read_now(self._repo.refs)
        self._excludes = read_excludes(self._repo)
        self._rules = fingerprint(self._repo, self._settings, self._excludes)
        if cache is not None and self._is_ordinary and cache.rules == self._rules:
            try:
                return self._warm(cache)
            except Overtaken:
                pass
        return self._cold(cache)

    def _read_staged(self) -> Staged:
        if self._staged is None:
            self._staged = read_staged(self._repo)
        return self._staged

    @property
    def _is_ordinary(self) -> bool:
        """Tell whether listings say all that there is, and follow from the rules alone."""
        config = self._repo.config
        named = self._force or self._settings.include
        by_disk = config.get_bool("core.filemode", True) and config.get_bool("core.symlinks", True)
        return by_disk and not named and not self._index.is_sparse

    def _scan_rules(self) -> ScanRules:
        staged = self._staged if self._index.is_sparse else None
        return scan_rules(
            self._repo, self._settings, self._excludes, self._index, staged, self._force
        )

    def _cold(self, cache: ScanCache | None) -> Present:
        """Look at everything."""
        from ckpt.worktree.scan import scan

        staged = self._read_staged()
        found = scan(self._top, self._scan_rules(), self._progress, self._deadline)
        has_room = _keep_within(found, self._settings, self._objects, self._top, self._deadline)
        rules = b"" if cache is None else cache.attributes
        unwritten = _ALL if has_room and self._is_ordinary else None
        present = self._present(Listings(), Changes(found), rules, unwritten)
        if not self._index.is_sparse:
            return present
        absent = sparse_entries(present.entries, staged, found.skipped)
        tree = write_tree(self._objects, {**present.entries, **absent})
        return replace(present, tree=tree, absent=absent)

    def _warm(self, cache: ScanCache) -> Present:
        """Look at what differs from what is known."""
        listings = cache.listings()
        doubtful: Iterable[bytes] = ()
        if self._index is not cache.index:
            doubtful = doubtful_folders(cache.index, self._index)
            if doubtful and self._repo.config.get_bool("core.ignorecase", False):
                raise Overtaken  # they may be spelt otherwise on disk
        changes = rescan(self._top, listings, self._scan_rules, doubtful, self._deadline)
        if not _has_room(self._settings, *_untracked(cache, changes)):
            raise Overtaken
        changes.found.attribute_files |= {p for what, p, _ in cache.notes() if what == "attributes"}
        looked_at = len(changes.files) + len(changes.found.files) + len(changes.before)
        is_index_known = self._index is cache.index
        unwritten = cache.unwritten + looked_at if is_index_known else _ALL
        present = self._present(listings, changes, cache.attributes, unwritten, known=True)
        return replace(present, source=cache)

    def _present(
        self,
        listings: Listings,
        changes: Changes,
        rules_then: bytes,
        unwritten: int | None,
        *,
        known: bool = False,
    ) -> Present:
        """Read what changed into the listings, and make the present of them."""
        found = changes.found
        attributes = attribute_tree(self._repo, self._index.attributes, found)
        if known and attributes.fingerprint != rules_then:
            raise Overtaken
        staged, index = self._staged, None
        if staged is not None and self._is_index_proof(rules_then, attributes.fingerprint):
            file_mode = self._repo.config.get_bool("core.filemode", True)
            index = IndexContents(staged, self._repo.objects, file_mode=file_mode)
        reader = Reader(
            self._top,
            self._objects,
            git_modes(self._repo, staged),
            self._clock,
            self._cleaning(attributes.tree),
            index=index,
            before=ListedContents(changes.before),
            progress=self._progress,
        )
        try:
            changed = reader.correct(listings, changes.files)
            reader.take(found, self._deadline)
        finally:
            reader.close()
        reader.take_gitlinks(found.gitlinks, self._index.gitlinks, found.folders)
        changed |= Gatherer(listings, found, reader, self._clock).put()
        self.vanished = found.vanished | reader.vanished
        tree = write_trees(self._objects, listings, changed)
        lost: tuple[bytes, ...] = ()
        facts = self._index
        if facts.state is None:
            staged = self._read_staged()
            facts, lost = _with_state(self._objects, facts, staged, is_first=not known)
        notes = _notes(listings)
        skipped = {path: SkipReason(why.decode()) for path, why in notes.get("skipped", ())}
        # A .gitignore may ignore itself; what it said decides what a later rollback keeps.
        ignored = {to_str(path): text for path, text in notes.get("ignore", ())}
        gitlinks = [path for path, _ in notes.get("gitlink", ())]
        inside = [path for path, why in skipped.items() if why is SkipReason.NESTED]
        cache = None
        if self._clock is not NEVER and unwritten is not None and not lost:
            chunks = listings.pack()
            cache = ScanCache(self._rules, attributes.fingerprint, facts, chunks)
            cache = replace(cache, unwritten=unwritten)
        return Present(
            tree,
            facts,
            self._head,
            self._operation,
            listings,
            excludes={**self._excludes, **ignored},
            include=self._settings.include,
            skipped=skipped,
            empty_folders=tuple(path for path, _ in notes.get("empty", ())),
            attribute_files=tuple(path for path, _ in notes.get("attributes", ())),
            nested=nested_states(
                self._repo, {*gitlinks, *inside}, self._index.gitlinks, self._deadline
            ),
            converted={} if reader.cleaner is None else reader.cleaner.converted,
            memory=None if reader.cleaner is None else reader.cleaner.cache,
            lost=lost,
            is_cut=found.is_cut,
            cache=cache,
            staged_now=self._staged,
        )

    def _is_index_proof(self, then: bytes, now: bytes) -> bool:
        """Tell whether stat data in the index prove a content. Git converted some files by the
        rules of then, and where an object is replaced by another, git has written that."""
        if then not in (b"", now) or self._repo.env.get("GIT_REPLACE_REF_BASE"):
            return False
        try:
            return not self._repo.refs.contents_below("refs/replace/")
        except CkptError:  # refs that are damaged may be such
            return False

    def _cleaning(self, attributes: AttributeTree | None) -> Cleaning | None:
        """Return None in a worktree in which git converts nothing."""
        if attributes is None:
            return None
        from ckpt.worktree.filters import converting

        def open_cleaner() -> Cleaner:
            from ckpt.engine.conversions import Cleaner

            head = self._head.commit
            return Cleaner(self._repo, self._objects, self._read_staged, head, self._deadline)

        autocrlf = self._repo.config.get("core.autocrlf")
        return Cleaning(converting(attributes, autocrlf), open_cleaner)


def _notes(listings: Listings) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return what the scan noted besides, sorted by path."""
    found: dict[str, list[tuple[bytes, bytes]]] = {}
    for summary in listings.summaries():
        for what, path, value in summary.notes:
            found.setdefault(what, []).append((path, value))
    return {what: sorted(notes) for what, notes in found.items()}


def _untracked(cache: ScanCache, changes: Changes) -> tuple[int, int]:
    """Return how many files git does not track now, and how large they are together."""
    were = [chunk.summary for chunk in cache.chunks]
    gone = [size for listing in changes.before.values() for size in listing.new_sizes()]
    come = [changes.found.files[path].st_size for path in changes.found.untracked]
    files = sum(summary.new_files for summary in were) - len(gone) + len(come)
    return files, sum(summary.new_bytes for summary in were) - sum(gone) + sum(come)
