# SPDX-License-Identifier: MIT
"""From the files that a scan found to blobs: those that stat data prove, and those to be read.

What a file's stat data prove is asked of git's index and of what an earlier scan knew; all
else is read, and converted where git would. A file that vanishes meanwhile is left out and
noted, one that cannot be read is listed.
"""

from __future__ import annotations

import os
import stat
import time
from binascii import unhexlify
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ckpt import paths
from ckpt import paths as reach
from ckpt.git.formats import ObjectID
from ckpt.git.index import Staged, matches
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.record import read_commit
from ckpt.git.repository import Repository, nested_head
from ckpt.git.rules import IgnoreTree, is_like_dot_git
from ckpt.git.streams import LARGE, UnreadableFile
from ckpt.git.trees import (
    EXECUTABLE,
    FOLDER,
    GITLINK,
    REGULAR,
    SYMLINK,
    TreeEntry,
    lookup,
    read_tree,
    serialise,
)
from ckpt.models import SkipReason
from ckpt.paths import folders_of, identity, read_plain_file
from ckpt.worktree import cache
from ckpt.worktree.cache import UNSURE, Listing, Listings, Stat, owner_of, stat_of
from ckpt.worktree.filters import Conversion
from ckpt.worktree.modes import is_executable
from ckpt.worktree.scan import Deadline, Scan, ScanRules
from ckpt.worktree.write import is_unfinished

if TYPE_CHECKING:
    from ckpt.engine.conversions import Cleaner

    class KnownContents(Protocol):
        """Something that knows a file's blob from its stat data."""

        def entry(self, path: bytes, status: os.stat_result) -> TreeEntry | None: ...

    class Taken(Protocol):
        """What was made of the files of a scan; `unsure` are those to be looked at again."""

        entries: dict[bytes, TreeEntry]
        stats: dict[bytes, os.stat_result]
        unsure: set[bytes]


@dataclass(frozen=True, slots=True)
class GitModes:
    """`staged` are the modes in the index, which count only where a setting is off."""

    staged: Mapping[bytes, int]
    file_mode: bool
    symlinks: bool

    def of(self, path: bytes, status: os.stat_result) -> int:
        """The mode of a tree entry for a file or link with these stat data."""
        if stat.S_ISLNK(status.st_mode):
            return SYMLINK
        staged = self.staged.get(path, REGULAR)
        if staged == SYMLINK and not self.symlinks:
            return SYMLINK
        if not self.file_mode:
            return EXECUTABLE if staged == EXECUTABLE else REGULAR
        return EXECUTABLE if is_executable(status.st_mode) else REGULAR


def git_modes(repo: Repository, staged: Staged | None) -> GitModes:
    """Without the index, only where the file system says all."""
    file_mode = repo.config.get_bool("core.filemode", True)
    symlinks = repo.config.get_bool("core.symlinks", True)
    entries = () if staged is None or (file_mode and symlinks) else staged.index.entries
    return GitModes({e.path: e.mode for e in entries if e.stage == 0}, file_mode, symlinks)


# -- What a commit has at a path, for many paths of few folders


class HeadBlobs:
    """The ids of a commit's files; without a commit there are none."""

    def __init__(self, objects: ObjectStore, commit: ObjectID | None) -> None:
        self._objects = objects
        self._commit = commit
        self._folders: dict[bytes, dict[bytes, ObjectID]] = {}

    def __call__(self, path: bytes) -> ObjectID | None:
        folder, _, name = path.rpartition(b"/")
        if folder not in self._folders:
            self._folders[folder] = self._read(folder)
        return self._folders[folder].get(name)

    def _read(self, folder: bytes) -> dict[bytes, ObjectID]:
        if self._commit is None:
            return {}
        objects = self._objects
        try:
            entry = lookup(objects, read_commit(objects, self._commit).tree, folder)
            if entry is None or entry.mode != FOLDER:
                return {}
            return {name: found for name, _, found in read_tree(objects, entry.id)}
        except MissingObject:
            return {}


# -- From a file that others may be writing to a blob that some moment really had

_ATTEMPTS = 4


class VanishedFile(Exception):
    """Nothing is left at a path where there was a file."""


def add_stable(objects: ObjectStore, path: bytes) -> tuple[ObjectID, os.stat_result]:
    """Add the content of a file or link; with the stat data that it had before and after.

    VanishedFile or UnreadableFile if that is not possible.
    """
    for _ in range(_ATTEMPTS):
        try:
            data, status = _read(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise VanishedFile(path) from error
        except OSError as error:
            raise UnreadableFile(error.errno, error.strerror) from error
        if status is not None:
            return objects.add(b"blob", data), status
        added = _add_large(objects, path)
        if added is not None:
            return added
    raise UnreadableFile.changing()


def _read(path: bytes) -> tuple[bytes, os.stat_result | None]:
    """The content of a link or a small file; without stat data if it has to be read again."""
    before = paths.lstat(path)
    if stat.S_ISLNK(before.st_mode):
        data, after = paths.readlink(path), paths.lstat(path)
    elif before.st_size > LARGE:
        return b"", None
    else:
        began = time.time_ns()
        data, before, after = _read_file(path)
        if is_fresh(before, began):
            again, _, after = _read_file(path)
            if again != data:
                return b"", None
    is_stable = identity(before) == identity(after) and len(data) == after.st_size
    return data, after if is_stable else None


def _read_file(path: bytes) -> tuple[bytes, os.stat_result, os.stat_result]:
    fd = paths.open_file(path)
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise UnreadableFile.changing()
        with open(fd, "rb", closefd=False) as file:
            return file.read(before.st_size + 1), before, os.fstat(fd)
    finally:
        os.close(fd)


def _add_large(objects: ObjectStore, path: bytes) -> tuple[ObjectID, os.stat_result] | None:
    """Add a file that is not to be held in memory; None if it is not large, or is changing."""
    try:
        fd = paths.open_file(path)
    except OSError:
        return None
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode) or before.st_size <= LARGE:
            return None
        blob = objects.add_file(fd, before.st_size)  # which reads it twice in any case
        after = os.fstat(fd)
        return (blob, after) if identity(before) == identity(after) else None
    except UnreadableFile:
        return None
    finally:
        os.close(fd)


def is_fresh(status: os.stat_result, now: int) -> bool:
    """Whether a file could have changed once more by then with the same stat data."""
    return not Clock(now).is_settled(status)


# -- What was moved while a worktree was looked at, and met at neither of its places


def missed(
    top: bytes,
    rules: Callable[[], ScanRules],
    listed: Mapping[bytes, Stat],
    listings: Listings,
    vanished: Collection[bytes],
    clock: Clock,
) -> dict[bytes, os.stat_result | None]:
    """What is there now and was not taken: in folders that changed, and what had vanished.

    Folders of `listed` were listed, with stat data from before. Of a folder that is gone again
    already, and so on its way still, there are no stat data.
    """
    base = os.path.join(top, b"")
    found = _there(base, vanished)
    changed = _changed(base, listed, listings, clock, has_lost=bool(vanished))
    if vanished:  # a folder further up may have been away for a moment
        changed |= {b"", *folders_of(vanished)}
    if changed:
        found |= _come_into(base, changed, rules(), listings, vanished)
        found |= _there(base, vanished)  # it may have been in one of these, and be back
    return found


def _there(base: bytes, paths: Iterable[bytes]) -> dict[bytes, os.stat_result | None]:
    stats = ((path, _lstat(base + path)) for path in paths)
    return {path: status for path, status in stats if status is not None}


def _changed(
    base: bytes, listed: Mapping[bytes, Stat], known: Listings, clock: Clock, *, has_lost: bool
) -> set[bytes]:
    """The folders into which something may have been moved that nobody met.

    Those that were not listed are looked at only if something may have left a folder since the
    scan began, which it has if something is known to be gone.
    """
    changed, recent = set(), set()
    for folder, then in listed.items():
        now = _lstat(base + folder)
        if now is None or stat_of(now) != then:
            changed.add(folder)
        elif not clock.is_settled_folder(now):
            recent.add(folder)
    if not (changed or recent or has_lost):
        return set()
    for folder, then in known.folders_as_compared():
        if folder not in listed:
            now = _lstat(base + folder)
            if now is None or stat_of(now) != then:
                changed.add(folder)
    # What comes and goes in one folder only was in it when that was listed, or is new.
    is_in_one = len(changed | recent) == 1 and not has_lost
    return set() if is_in_one else changed


def _come_into(
    base: bytes,
    changed: Iterable[bytes],
    rules: ScanRules,
    listings: Listings,
    vanished: Collection[bytes],
) -> dict[bytes, os.stat_result | None]:
    """What is in folders by now that a scan would take."""

    def read_ignore_file(folder: bytes) -> bytes | None:
        return read_plain_file(os.path.join(base + folder, b".gitignore"))

    ignore = IgnoreTree(rules.ignore, read_ignore_file, ignore_case=rules.ignore_case)
    found: dict[bytes, os.stat_result | None] = {}
    gone = {*vanished}
    # The inner ones first: one that is gone must not be in the folder around it after that.
    for listing in filter(None, map(listings.get, sorted(changed, key=len, reverse=True))):
        children = _children(base + listing.folder)
        if children is None:
            gone.add(listing.folder)
            continue
        for path, is_folder in _come(children, listing, gone):
            if _is_taken(path, is_folder, rules, ignore):
                status = _lstat(base + path)
                if is_folder or status is not None:
                    found[path] = status
    return found


def _come(
    children: Iterable[reach.Child], listing: Listing, gone: Collection[bytes]
) -> Iterator[tuple[bytes, bool]]:
    """What a folder holds that it did not hold when it was listed, or some time since, and
    whether that is a folder."""
    prefix = listing.prefix
    known = {*map(prefix.__add__, (*listing.names, *listing.watched, *listing.trees))}
    known.update(path for _, path, _ in listing.notes)
    known.difference_update(gone)
    for child in children:
        if prefix + child.name not in known:
            yield prefix + child.name, child.is_dir(follow_symlinks=False)


def _is_taken(path: bytes, is_folder: bool, rules: ScanRules, ignore: IgnoreTree) -> bool:
    """Whether a scan would take it, or look into it."""
    name = path.rpartition(b"/")[2]
    if is_like_dot_git(name) or path in rules.git_dirs:
        return False
    if is_unfinished(name, rules.unfinished) and not is_folder:
        return False
    return not (ignore.ignored(path, is_folder) or rules.deny.ignored(path, is_folder))


def _children(place: bytes) -> Sequence[reach.Child] | None:
    try:
        return reach.children(place)
    except OSError:
        return None


def _lstat(place: bytes) -> os.stat_result | None:
    try:
        return reach.lstat(place)
    except OSError:
        return None


# -- From the files that a scan found to blobs: those that stat data prove, and those to be read


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
        if found is None or self._staged.is_racy(found):
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


@dataclass(frozen=True, slots=True)
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
        for folder, names in by_folder.items():
            listing = listings.get(folder)
            assert listing is not None, "a file that changed is in a folder that did not"
            self._correct(listing, names, files, clock)
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


# -- From what a scan found, and the blobs of it, to listings; and from listings to trees

_TICK = 100_000_000
_COARSE_TICK = 2_000_000_000
_SECOND = 1_000_000_000
_EARLIEST = -(1 << 63)  # nanoseconds that a listing can hold; of older files nothing is kept

CODES = {
    REGULAR: cache.REGULAR,
    EXECUTABLE: cache.EXECUTABLE,
    SYMLINK: cache.LINK,
    GITLINK: cache.GITLINK,
}
MODES = {code: mode for mode, code in CODES.items()} | {
    code - cache.NEW: mode for mode, code in CODES.items()
}


def entry_of(listing: Listing, number: int) -> TreeEntry:
    """What a tree holds of a file of a folder."""
    return TreeEntry(MODES[listing.codes[number]], ObjectID(listing.ids[number].hex().encode()))


def entries_of(listing: Listing | None) -> dict[bytes, TreeEntry]:
    """What trees hold of the files of a folder, by path."""
    if listing is None:
        return {}
    paths = map(listing.prefix.__add__, listing.names)
    return {path: entry_of(listing, number) for number, path in enumerate(paths)}


@dataclass(frozen=True, slots=True)
class Clock:
    """Says which stat data can be relied on; `began` is when the scan began, by the clock of
    the file system. Where times are whole seconds, they may be those of two seconds. Only on
    `device` do the times of folders tell of changes to the names in them."""

    began: int
    device: int | None = None

    def is_settled_folder(self, status: os.stat_result) -> bool:
        """The same for a folder, in which names may change."""
        return status.st_dev == self.device and self.is_settled(status)

    def is_settled(self, status: os.stat_result) -> bool:
        """True if a change made since the scan began will show in the stat data."""
        return self.is_safe(status.st_mtime_ns, status.st_ctime_ns)

    def is_safe(self, mtime: int, ctime: int) -> bool:
        """The same, from the two times."""
        tick = _TICK if ctime % _SECOND else _COARSE_TICK
        return _EARLIEST < mtime < self.began - tick and ctime < self.began - tick

    def is_earlier(self, status: os.stat_result) -> bool:
        """False for what was made since the scan began, if that is known."""
        return self is NEVER or status.st_mtime_ns <= self.began


# By which nothing is ever settled: nobody wants to know next time.
NEVER = Clock(0)


class Gatherer:
    """Makes listings of the folders of a scan, and puts them among others that were known."""

    def __init__(
        self,
        known: Listings,
        found: Scan,
        taken: Taken,
        clock: Clock,
    ) -> None:
        self._known = known
        self._found = found
        self._entries = taken.entries
        self._stats = taken.stats
        self._clock = clock
        self._unsure = taken.unsure
        self._listings: dict[bytes, Listing] = {}

    def put(self) -> set[bytes]:
        """Put all folders of the scan in their place, without trees; returns their paths."""
        for folder, (status, inside) in self._found.walked.items():
            self._add_walked(folder, status, inside)
        for folder, bits in self._found.folders.items():
            self._listing(folder).bits = bits
        for path, entry in self._entries.items():
            self._add_file(path, entry)
        for path, status in self._found.watched.items():
            self._add_watched(path, status)
        self._add_notes()
        for folder in self._found.unsure:
            self._listing(folder).status = UNSURE
        for listing in self._listings.values():
            self._known.put(listing)
        return set(self._listings)

    def _listing(self, folder: bytes) -> Listing:
        listing = self._listings.get(folder)
        if listing is not None:
            return listing
        listing = self._known.get(folder)
        if listing is not None:  # one that was not listed anew
            self._known.touch(folder)
            return listing
        self._listings[folder] = listing = Listing(folder)
        if folder:  # a folder above holds it, even if no walk came here
            parent, _, name = folder.rpartition(b"/")
            self._listing(parent).trees.setdefault(name, b"")
        return listing

    def _add_walked(self, folder: bytes, status: os.stat_result, inside: Iterable[bytes]) -> None:
        listing = self._listing(folder)
        listing.is_walked = True
        for name in inside:
            kept = self._known.get(listing.prefix + name)
            listing.trees[name] = b"" if kept is None else kept.tree
        if self._clock.is_settled_folder(status):
            listing.status = stat_of(status)

    def _add_file(self, path: bytes, entry: TreeEntry) -> None:
        folder, _, name = path.rpartition(b"/")
        listing = self._listings.get(folder) or self._listing(folder)
        status = self._stats.get(path)
        if status is None or path in self._unsure or not self._clock.is_settled(status):
            listing.unsure.add(len(listing.names))
        code = CODES[entry.mode]
        listing.codes.append(code - cache.NEW if path in self._found.untracked else code)
        listing.names.append(name)
        listing.ids.append(unhexlify(entry.id))
        listing.stats.append(UNSURE if status is None else stat_of(status))
        listing.owners.append((0, 0, 0) if status is None else owner_of(status))

    def _add_watched(self, path: bytes, status: os.stat_result) -> None:
        """A file that decided on something, or the same that was taken as well."""
        folder, _, name = path.rpartition(b"/")
        listing = self._listing(folder)
        if name in listing.names:
            number = listing.names.index(name)
            if listing.stats[number] != stat_of(status):  # it decided before it was changed
                listing.unsure.add(number)
            return
        if not self._clock.is_settled(status):
            listing.unsure.add(len(listing.stats))
        listing.watched.append(name)
        listing.stats.append(stat_of(status))
        listing.owners.append(owner_of(status))

    def _add_notes(self) -> None:
        found = self._found
        for path, reason in found.skipped.items():
            own = path in found.walked
            holder = self._listing(path if own else path.rpartition(b"/")[0])
            holder.notes.append(("skipped", path, str(reason).encode()))
            if reason is SkipReason.UNREADABLE:
                holder.status = UNSURE
        for folder in found.empty_folders:
            self._listing(folder).notes.append(("empty", folder, b""))
        for path, text in found.ignore_files.items():
            if path not in self._entries:
                self._note(path, "ignore", text)
        for path in found.gitlinks:
            self._note(path, "gitlink", b"")
        for path in found.attribute_files:
            self._note(path, "attributes", b"")

    def _note(self, path: bytes, what: str, value: bytes) -> None:
        self._listing(path.rpartition(b"/")[0]).notes.append((what, path, value))


def write_trees(objects: ObjectStore, listings: Listings, changed: set[bytes]) -> ObjectID:
    """Write the trees of changed folders and of all above them; returns the top one's id.

    Those above are added to `changed`: another object store needs them as well.
    """
    by_length: dict[int, set[bytes]] = {}
    for folder in changed:
        by_length.setdefault(len(folder), set()).add(folder)
    # A folder's path is longer than its parent's: children come first.
    for length in range(max(by_length, default=-1), -1, -1):
        for folder in by_length.get(length, ()):
            parent = _write_one(objects, listings, folder)
            if parent is not None:
                by_length.setdefault(len(parent), set()).add(parent)
                changed.add(parent)
    top = listings.get(b"")
    if top is None or not top.tree:
        return objects.add(b"tree", b"")
    return ObjectID(top.tree.hex().encode())


def _write_one(objects: ObjectStore, listings: Listings, folder: bytes) -> bytes | None:
    """Write a folder's tree; returns the folder around it if that has to be written too."""
    listing = listings.get(folder)
    tree = b"" if listing is None else write_listing(objects, listing)
    if listing is not None and tree != listing.tree:
        listing.tree = tree
        listings.touch(folder)
    if not folder:
        return None
    above, _, name = folder.rpartition(b"/")
    parent = listings.get(above)
    if parent is None or (parent.trees.get(name) == tree and name in parent.trees):
        return None
    if listing is None:
        parent.trees.pop(name, None)
    else:
        parent.trees[name] = tree
    listings.touch(above)
    return above


def write_listing(objects: ObjectStore, listing: Listing) -> bytes:
    """Write the tree of one folder whose inner folders are written; empty for nothing."""
    children = [
        (name, MODES[code], ObjectID(id.hex().encode()))
        for name, code, id in zip(listing.names, listing.codes, listing.ids, strict=True)
    ]
    children += [
        (name, FOLDER, ObjectID(id.hex().encode())) for name, id in listing.trees.items() if id
    ]
    return unhexlify(objects.add(b"tree", serialise(children))) if children else b""
