# SPDX-License-Identifier: MIT
"""One look at the present: files, index, HEAD and operation as they are met.

Starts from the scan cache if there is one to start from, else from what git's index knows,
else from nothing, and comes to the same by each way. What moved on meanwhile is told by
`missed` and `vanished`; whether to look again is for `capture` to say.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from ckpt.engine.attribute_files import attribute_tree
from ckpt.engine.budget import has_room, keep_within
from ckpt.engine.excludes import fingerprint, read_excludes
from ckpt.engine.gather import NEVER, Clock, Gatherer, entries_of
from ckpt.engine.git_modes import git_modes
from ckpt.engine.index_facts import (
    IndexFacts,
    doubtful_folders,
    facts_of,
    glance_at_index,
    index_identity,
)
from ckpt.engine.nested import nested_states
from ckpt.engine.present import Present
from ckpt.engine.reading import Cleaning, IndexContents, ListedContents, Reader
from ckpt.engine.scan_cache import ScanCache
from ckpt.errors import CkptError
from ckpt.models import SkipReason
from ckpt.paths import folders_above, folders_of, to_str
from ckpt.settings import Settings
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.operation_record import OperationState, read_now
from ckpt.store.refs import Head
from ckpt.store.repository import Repository
from ckpt.store.staging import Staged, parse_staged, read_staged
from ckpt.store.trees import TreeEntry
from ckpt.values import replace
from ckpt.worktree.found import Scan
from ckpt.worktree.listing import stat_of
from ckpt.worktree.listings import Listings
from ckpt.worktree.rescan import Changes, Overtaken, rescan, rescan_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.engine.conversions import Cleaner
    from ckpt.store.index_glance import IndexGlance
    from ckpt.worktree.attributes import AttributeTree
    from ckpt.worktree.deadline import Deadline
    from ckpt.worktree.listing import Stat
    from ckpt.worktree.scan import ScanRules

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
        self._glance: IndexGlance | None = None
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
        self._glance = None if cache is None else glance_at_index(self._repo, cache.index)
        if cache is not None and self._glance is not None:
            mtime = self._glance.mtime_ns
            self._index = replace(cache.index, identity=identity, mtime_ns=mtime)
            return
        self._index = facts_of(self._read_staged(), identity)

    def _read_staged(self) -> Staged:
        if self._staged is None and self._glance is not None:
            self._staged = parse_staged(self._repo, self._glance.data, self._glance.mtime_ns)
        elif self._staged is None:
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
        from ckpt.engine.seeding import seed

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
        from ckpt.engine.moves import missed

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
        from ckpt.worktree.convert import converting

        autocrlf = self._repo.config.get("core.autocrlf")

        def open_cleaner() -> Cleaner:
            from ckpt.engine.conversions import Cleaner
            from ckpt.engine.head_blobs import HeadBlobs

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
            glance=self._glance,
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
