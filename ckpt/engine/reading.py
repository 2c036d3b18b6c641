# SPDX-License-Identifier: MIT
"""From the files that a scan found to blobs.

What a file's stat data prove is asked of git's index and of what an earlier scan knew; all
else is read, and converted where git would. A file that vanishes meanwhile is noted, one that
cannot be read is listed.
"""

from __future__ import annotations

import os
import stat
import time
from binascii import unhexlify
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ckpt import paths
from ckpt.engine.listings import CODES, entry_of
from ckpt.git.formats import ObjectID
from ckpt.git.index import IndexEntry, Staged, matches
from ckpt.git.objects import ObjectStore
from ckpt.git.repository import Repository, nested_head
from ckpt.git.streams import LARGE, UnreadableFile
from ckpt.git.trees import (
    EXECUTABLE,
    GITLINK,
    REGULAR,
    SYMLINK,
    TreeEntry,
)
from ckpt.models import SkipReason
from ckpt.paths import identity
from ckpt.worktree.cache import Listing, Listings, owner_of, stat_of
from ckpt.worktree.modes import is_executable
from ckpt.worktree.scan import Deadline, Scan

if TYPE_CHECKING:
    from ckpt.engine.conversions import Cleaner
    from ckpt.worktree.filters import Conversion


class GitModes(NamedTuple):
    """`staged` are the modes in the index, which count only where a setting is off."""

    staged: Mapping[bytes, int]
    file_mode: bool
    symlinks: bool

    def of(self, path: bytes, status: os.stat_result) -> int:
        """Return the mode of a tree entry for a file or link with these stat data."""
        if stat.S_ISLNK(status.st_mode):
            return SYMLINK
        staged = self.staged.get(path, REGULAR)
        if staged == SYMLINK and not self.symlinks:
            return SYMLINK
        if not self.file_mode:
            return EXECUTABLE if staged == EXECUTABLE else REGULAR
        return EXECUTABLE if is_executable(status.st_mode) else REGULAR


def git_modes(repo: Repository, staged: Staged | None) -> GitModes:
    """Without the index, only where the file system tells all modes."""
    file_mode = repo.config.get_bool("core.filemode", True)
    symlinks = repo.config.get_bool("core.symlinks", True)
    entries = () if staged is None or (file_mode and symlinks) else staged.index.entries
    return GitModes({e.path: e.mode for e in entries if e.stage == 0}, file_mode, symlinks)


# -- when stat data can be relied on

_TICK = 100_000_000
_COARSE_TICK = 2_000_000_000
_SECOND = 1_000_000_000
_EARLIEST = -(1 << 63)  # nanoseconds that a listing can hold; of older files nothing is kept


class Clock(NamedTuple):
    """Says which stat data can be relied on; `began` is when the scan began, by the clock of
    the file system. Where times are whole seconds, two of them must have passed. Only on
    `device` do the times of folders tell of changes to the names in them."""

    began: int
    device: int | None = None

    def is_settled(self, status: os.stat_result) -> bool:
        """Tell whether a change made since the scan began will show in the stat data."""
        mtime, ctime = status.st_mtime_ns, status.st_ctime_ns
        tick = _TICK if ctime % _SECOND else _COARSE_TICK
        return _EARLIEST < mtime < self.began - tick and ctime < self.began - tick

    def is_settled_folder(self, status: os.stat_result) -> bool:
        """Tell the same of a folder, in which names may change."""
        return status.st_dev == self.device and self.is_settled(status)


# By which nothing is ever settled: nothing is kept for the next time.
NEVER = Clock(0)


def is_fresh(status: os.stat_result, now: int) -> bool:
    """Tell whether a file can change once more by then and keep the same stat data."""
    return not Clock(now).is_settled(status)


# -- a file that others may be writing, as it was at some moment

_ATTEMPTS = 4


class VanishedFile(Exception):
    """Nothing is left at a path where there was a file."""


def add_stable(objects: ObjectStore, path: bytes) -> tuple[ObjectID, os.stat_result]:
    """Add the content of a file or link; with the stat data that it had before and after.

    VanishedFile or UnreadableFile if that is not possible.
    """
    data, status = read_stable(path, LARGE)
    if data is not None:
        return objects.add(b"blob", data), status
    for _ in range(_ATTEMPTS):
        fd = opened(path)
        try:
            before = os.fstat(fd)
            blob = objects.add_file(fd, before.st_size)  # which reads it twice
            after = os.fstat(fd)
        except UnreadableFile:
            continue
        finally:
            os.close(fd)
        if identity(before) == identity(after):
            return blob, after
    raise UnreadableFile.changing()


def read_stable(path: bytes, most: int) -> tuple[bytes | None, os.stat_result]:
    """Read a file or link as it was at some moment; None for a file larger than `most`."""
    for _ in range(_ATTEMPTS):
        try:
            before = paths.lstat(path)
            if stat.S_ISLNK(before.st_mode):
                data, after, is_same = paths.readlink(path), paths.lstat(path), True
            else:
                fd = paths.open_file(path)
                try:
                    before, began = os.fstat(fd), time.time_ns()
                    if stat.S_ISREG(before.st_mode) and before.st_size > most:
                        return None, before
                    data = _read(fd, before.st_size)
                    is_same = stat.S_ISREG(before.st_mode) and (
                        not is_fresh(before, began) or _read(fd, before.st_size) == data
                    )
                    after = os.fstat(fd)
                finally:
                    os.close(fd)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise VanishedFile(path) from error
        except OSError as error:
            raise UnreadableFile(error.errno, error.strerror) from error
        if is_same and identity(before) == identity(after) and len(data) == after.st_size:
            return data, after
    raise UnreadableFile.changing()


def opened(path: bytes) -> int:
    try:
        return paths.open_file(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise VanishedFile(path) from error
    except OSError as error:
        raise UnreadableFile(error.errno, error.strerror) from error


def _read(fd: int, size: int) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    with open(fd, "rb", closefd=False) as file:
        return file.read(size + 1)


# -- contents that need not be read


class IndexContents:
    """What git's index proves about files that git does not convert.

    Even these may have been converted by rules that are gone, or their blob be missing: so
    a file's size must be its blob's. The ctime must be that of the entry, whatever
    core.trustCtime lets git overlook.
    """

    def __init__(self, staged: Staged, objects: ObjectStore, *, file_mode: bool) -> None:
        self._staged = staged
        self._objects = objects
        self._file_mode = file_mode

    @cached_property
    def _entries(self) -> dict[bytes, IndexEntry]:
        return {e.path: e for e in self._staged.index.entries if e.stage == 0}

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


class Cleaning(NamedTuple):
    """What git converts in a worktree; the cleaner is opened for the first file that needs it."""

    asked: Callable[[bytes], Conversion | None]
    open: Callable[[], Cleaner]


class Reader:
    """Makes `entries` of files, by what is known of them or by reading them.

    Entries of `unsure` follow from more than the file's bytes and the rules. What was found
    and is gone when its turn comes is in `vanished`.
    """

    def __init__(
        self,
        top: bytes,
        objects: ObjectStore,
        modes: GitModes,
        clock: Clock,
        cleaning: Cleaning | None,
        *,
        index: IndexContents | None,
        before: ListedContents,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._top = top
        self._objects = objects
        self._modes = modes
        self._clock = clock
        self._cleaning = cleaning
        self._index = index
        self._before = before
        self._progress = progress
        self._done = [0, 0]
        self.cleaner: Cleaner | None = None
        self.entries: dict[bytes, TreeEntry] = {}
        self.stats: dict[bytes, os.stat_result] = {}
        self.unsure: set[bytes] = set()
        self.vanished: set[bytes] = set()

    def close(self) -> None:
        if self.cleaner is not None:
            self.cleaner.close()

    def take(self, found: Scan, deadline: Deadline | None) -> None:
        """Take the files of a scan: tracked ones first, then others, the smallest first, until
        the time is up."""
        order = list(found.files)
        if deadline is not None:
            others = found.untracked
            order.sort(key=lambda p: (p in others, found.files[p].st_size * (p in others), p))
        for path in order:
            status = found.files[path]
            entry = self._before.entry(path, status)
            if entry is None:
                if deadline is not None and deadline.is_over and path in found.untracked:
                    found.leave_for_later(path)
                    continue
                try:
                    entry, status = self._take_one(path, status)
                except VanishedFile:
                    self.vanished.add(path)
                    found.miss(path)
                    continue
                except UnreadableFile:
                    found.skipped[path] = SkipReason.UNREADABLE
                    continue
            self.entries[path] = entry
            self.stats[path] = status

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

    def correct(self, listings: Listings, files: Mapping[bytes, os.stat_result]) -> set[bytes]:
        """Read files that changed in folders that did not; return the folders."""
        by_folder: dict[bytes, list[bytes]] = {}
        for path in files:
            by_folder.setdefault(path.rpartition(b"/")[0], []).append(path)
        for folder, names in by_folder.items():
            listing = listings.get(folder)
            assert listing is not None, "a file that changed is in a folder that did not"
            places = {name: at for at, name in enumerate(listing.names)}
            gone = [
                at
                for path in names
                if not self._correct(
                    listing, at := places[path[len(listing.prefix) :]], path, files[path]
                )
            ]
            for at in sorted(gone, reverse=True):
                listing.drop(at)
            listings.touch(folder)
        return set(by_folder)

    def _correct(self, listing: Listing, at: int, path: bytes, status: os.stat_result) -> bool:
        """Read one file into its listing; False if it is not to be had."""
        try:
            entry, status = self._take_one(path, status)
        except VanishedFile:
            self.vanished.add(path)
            return False
        except UnreadableFile:
            listing.notes.append(("skipped", path, str(SkipReason.UNREADABLE).encode()))
            return False
        listing.codes[at], listing.ids[at] = CODES[entry.mode], unhexlify(entry.id)
        listing.stats[at], listing.owners[at] = stat_of(status), owner_of(status)
        if path in self.unsure or not self._clock.is_settled(status):
            listing.unsure.add(at)
        else:
            listing.unsure.discard(at)
        return True

    def _take_one(self, path: bytes, status: os.stat_result) -> tuple[TreeEntry, os.stat_result]:
        place = os.path.join(self._top, path)
        asked = None
        if self._cleaning is not None and self._modes.of(path, status) != SYMLINK:
            asked = self._cleaning.asked(path)
        if self._cleaning is None or asked is None:
            entry = None if self._index is None else self._index.entry(path, status)
            if entry is not None:
                return entry, status
            blob, status = add_stable(self._objects, place)
            self._tell(status)
            return TreeEntry(self._modes.of(path, status), blob), status
        if self.cleaner is None:
            self.cleaner = self._cleaning.open()
        known = self.cleaner.known(path, status, asked)
        if known is None:
            known, status = self.cleaner.add(path, place, asked)
            self._tell(status)
        if path not in self.cleaner.fixed:
            self.unsure.add(path)
        return TreeEntry(self._modes.of(path, status), known), status

    def _tell(self, status: os.stat_result) -> None:
        """Report what was read so far, in files and bytes."""
        if self._progress is not None:
            self._done = [self._done[0] + 1, self._done[1] + status.st_size]
            self._progress(*self._done)
