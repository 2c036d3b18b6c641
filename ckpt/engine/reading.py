# SPDX-License-Identifier: MIT
"""From the files that a scan found to blobs: those that stat data prove, and those to be read.

What a file's stat data prove is asked of git's index and of what an earlier scan knew; all
else is read, and converted where git would. A file that vanishes meanwhile is left out and
noted, one that cannot be read is listed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Mapping

from ckpt.engine.contents import VanishedFile, add_stable
from ckpt.engine.gather import CODES, Clock, entry_of
from ckpt.engine.git_modes import GitModes
from ckpt.models import SkipReason
from ckpt.store.index import matches
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.repository import nested_head
from ckpt.store.staging import Staged
from ckpt.store.streams import UnreadableFile
from ckpt.store.trees import GITLINK, SYMLINK, TreeEntry
from ckpt.values import value_class
from ckpt.worktree.identity import identity
from ckpt.worktree.listing import Listing, owner_of, stat_of
from ckpt.worktree.listings import Listings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from ckpt.engine.conversions import Cleaner
    from ckpt.worktree.convert import Conversion
    from ckpt.worktree.deadline import Deadline
    from ckpt.worktree.found import Scan

    class KnownContents(Protocol):
        """Something that knows a file's blob from its stat data."""

        def entry(self, path: bytes, status: os.stat_result) -> TreeEntry | None: ...


class IndexContents:
    """What git's index proves about files that git does not convert.

    Even these may have been converted by rules that are gone, or their blob be missing: so
    a file's size must be its blob's. And its ctime must be that of the entry, whatever
    core.trustCtime lets git overlook: else a file is only read in vain.
    """

    def __init__(self, staged: Staged, objects: ObjectStore, *, file_mode: bool) -> None:
        self._staged = staged
        self._objects = objects
        self._entries = {e.path: e for e in staged.index.entries if e.stage == 0}
        self._file_mode = file_mode

    def entry(self, path: bytes, status: os.stat_result) -> TreeEntry | None:
        found = self._entries.get(path)
        if found is None or not self._staged.is_proof(found):
            return None
        if not matches(found, status, file_mode=self._file_mode):
            return None
        entry = TreeEntry(found.mode, ObjectID(found.id))
        return entry if self._objects.size(entry.id) == status.st_size else None


class ListedContents:
    """What was known of folders before they were listed anew."""

    def __init__(self, before: Mapping[bytes, Listing]) -> None:
        self._before = before
        self._places: dict[bytes, dict[bytes, int]] = {}

    def entry(self, path: bytes, status: os.stat_result) -> TreeEntry | None:
        folder, _, name = path.rpartition(b"/")
        listing = self._before.get(folder)
        if listing is None:
            return None
        if folder not in self._places:
            self._places[folder] = {name: at for at, name in enumerate(listing.names)}
        at = self._places[folder].get(name)
        if at is None or at in listing.unsure or listing.stats[at] != stat_of(status):
            return None
        return entry_of(listing, at)


@value_class
class Cleaning:
    """What git converts in a worktree; the cleaner is opened for the first file that needs it."""

    asked: Callable[[bytes], Conversion | None]
    open: Callable[[], Cleaner]


class Reader:
    """Turns files into `entries`; those of `unsure` follow from more than their bytes and the
    rules, `fresh` are those that no earlier scan knew, and the `vanished` were gone. What a look
    a moment ago has read is in `read`."""

    def __init__(
        self,
        top: bytes,
        objects: ObjectStore,
        modes: GitModes,
        cleaning: Cleaning | None,
        *,
        index: KnownContents | None,
        before: KnownContents | None = None,
        read: Mapping[bytes, tuple[ObjectID, os.stat_result]] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._top = top
        self._objects = objects
        self._modes = modes
        self.cleaning = cleaning
        self.cleaner: Cleaner | None = None
        self._progress = progress
        self._done = [0, 0]
        self._index = index
        self._before = before
        self._read = read or {}
        self.entries: dict[bytes, TreeEntry] = {}
        self.stats: dict[bytes, os.stat_result] = {}
        self.fresh: dict[bytes, os.stat_result] = {}
        self.unsure: set[bytes] = set()
        self.vanished: set[bytes] = set()
        self.corrected: dict[bytes, tuple[TreeEntry, TreeEntry | None]] = {}

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if self.cleaner is not None:
            self.cleaner.close()

    def take(self, files: Mapping[bytes, os.stat_result], skipped: dict[bytes, SkipReason]) -> None:
        for path, status in files.items():
            entry = None if self._before is None else self._before.entry(path, status)
            if entry is None:
                try:
                    entry, status = self._take_one(path, status)
                except VanishedFile:
                    self.vanished.add(path)
                    continue
                except UnreadableFile:
                    skipped[path] = SkipReason.UNREADABLE
                    continue
                self.fresh[path] = status
            self.entries[path] = entry
            self.stats[path] = status

    def take_in_time(self, paths: Iterable[bytes], found: Scan, deadline: Deadline) -> None:
        """Take files until the time is up, the smallest first, so that these are as many as can
        be; of the rest, those that need not be read."""
        for path in sorted(paths, key=lambda path: (found.files[path].st_size, path)):
            status = found.files[path]
            if deadline.is_over and not self._is_known(path, status):
                found.leave_for_later(path)
            else:
                self.take({path: status}, found.skipped)

    def _is_known(self, path: bytes, status: os.stat_result) -> bool:
        return self._before is not None and self._before.entry(path, status) is not None

    def _take_one(self, path: bytes, status: os.stat_result) -> tuple[TreeEntry, os.stat_result]:
        asked = self._asked(path, status)
        if self.cleaning is None or asked is None:
            entry = None if self._index is None else self._index.entry(path, status)
            if entry is not None:
                return entry, status
            known_blob = self._read_before(path, status)
            if known_blob is not None:
                return TreeEntry(self._modes.of(path, status), known_blob), status
            blob, status = add_stable(self._objects, os.path.join(self._top, path))
            self._tell(status)
            return TreeEntry(self._modes.of(path, status), blob), status
        if self.cleaner is None:
            self.cleaner = self.cleaning.open()
        known = self.cleaner.known(path, status, asked)
        if known is None:
            place = os.path.join(self._top, path)
            known, status = self.cleaner.add(path, place, asked)
            self._tell(status)
        if path not in self.cleaner.fixed:
            self.unsure.add(path)
        return TreeEntry(self._modes.of(path, status), known), status

    def _read_before(self, path: bytes, status: os.stat_result) -> ObjectID | None:
        blob, then = self._read.get(path, (None, None))
        return blob if then is not None and identity(then) == identity(status) else None

    def read(self, clock: Clock) -> dict[bytes, tuple[ObjectID, os.stat_result]]:
        """What another look need not read again: bytes as they were, of files that have settled."""
        found = {}
        for path, status in self.fresh.items():
            entry = self.entries.get(path) or self.corrected.get(path, (None, None))[1]
            if entry and clock.is_settled(status) and self._asked(path, status) is None:
                found[path] = entry.id, status
        return found

    def _asked(self, path: bytes, status: os.stat_result) -> Conversion | None:
        """What git converts in a file; a link is left alone, also one that is a plain file."""
        if self.cleaning is None or self._modes.of(path, status) == SYMLINK:
            return None
        return self.cleaning.asked(path)

    def _tell(self, status: os.stat_result) -> None:
        """Report what was read so far, in files and bytes."""
        if self._progress is not None:
            self._done = [self._done[0] + 1, self._done[1] + status.st_size]
            self._progress(*self._done)

    def take_gitlinks(
        self, paths: Iterable[bytes], recorded: Mapping[bytes, bytes], folders: Container[bytes]
    ) -> None:
        """Take submodules, but for those of `folders` in which files were taken: a tree cannot
        hold both, and the index has the gitlink."""
        length = self._objects.object_format.hex_length
        for path in paths:
            if path in folders and any(file.startswith(path + b"/") for file in self.entries):
                continue
            commit = nested_head(os.path.join(self._top, path), length) or recorded.get(path)
            if commit is not None:
                self.entries[path] = TreeEntry(GITLINK, ObjectID(commit))

    def take_changed(
        self, listings: Listings, files: Mapping[bytes, os.stat_result], clock: Clock
    ) -> set[bytes]:
        """Correct files in listings; returns the folders that they are in."""
        by_folder: dict[bytes, list[bytes]] = {}
        for path in files:
            by_folder.setdefault(path.rpartition(b"/")[0], []).append(path)
        for folder, paths in by_folder.items():
            listing = listings.get(folder)
            assert listing is not None, "a file that changed is in a folder that did not"
            self._correct(listing, paths, files, clock)
            listings.touch(folder)
        return set(by_folder)

    def _correct(
        self,
        listing: Listing,
        paths: list[bytes],
        files: Mapping[bytes, os.stat_result],
        clock: Clock,
    ) -> None:
        start = len(listing.prefix)
        places = {name: at for at, name in enumerate(listing.names)}
        gone = []
        for path in paths:
            at = places[path[start:]]
            before = entry_of(listing, at)
            self.corrected[path] = before, None
            try:
                entry, status = self._take_one(path, files[path])
            except VanishedFile:
                self.vanished.add(path)
                gone.append(at)
                continue
            except UnreadableFile:
                gone.append(at)
                reason = str(SkipReason.UNREADABLE).encode()
                listing.notes.append(("skipped", path, reason))
                continue
            self.fresh[path] = status
            self.corrected[path] = before, entry
            listing.codes[at] = CODES[entry.mode]
            listing.ids[at] = bytes.fromhex(entry.id.decode())
            listing.stats[at], listing.owners[at] = stat_of(status), owner_of(status)
            if path in self.unsure or not clock.is_settled(status):
                listing.unsure.add(at)
            else:
                listing.unsure.discard(at)
        for at in sorted(gone, reverse=True):
            listing.drop(at)
