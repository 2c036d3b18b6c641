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
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ckpt import paths
from ckpt.engine.listings import Gatherer, write_trees
from ckpt.engine.present import Present, sparse_entries, with_state
from ckpt.engine.reading import (
    NEVER,
    Cleaning,
    Clock,
    IndexContents,
    ListedContents,
    Reader,
    git_modes,
)
from ckpt.engine.rules import attribute_tree, fingerprint, read_excludes, scan_rules
from ckpt.engine.scan_cache import (
    ScanCache,
    doubtful_folders,
    facts_of,
    index_identity,
)
from ckpt.errors import CkptError
from ckpt.git.index import Staged, index_mtime, read_staged
from ckpt.git.objects import ObjectStore
from ckpt.git.operation import read_now
from ckpt.git.repository import Repository
from ckpt.git.rules import AttributeTree
from ckpt.git.streams import UnreadableFile
from ckpt.git.trees import write_tree
from ckpt.models import NestedState, SkipReason
from ckpt.paths import to_str
from ckpt.settings.settings import Settings
from ckpt.worktree.cache import Changes, Listings, Overtaken, rescan
from ckpt.worktree.scan import Deadline, Scan, ScanRules

if TYPE_CHECKING:
    from ckpt.engine.conversions import Cleaner

# -- how much that is untracked one checkpoint takes


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
            facts, lost = with_state(self._objects, facts, staged, is_first=not known)
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
        nested: tuple[NestedState, ...] = ()
        if gitlinks or inside:
            from ckpt.engine.nested import nested_states

            places = {*gitlinks, *inside}
            nested = nested_states(self._repo, places, self._index.gitlinks, self._deadline)
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
            nested=nested,
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
