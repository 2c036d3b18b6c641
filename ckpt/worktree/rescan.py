# SPDX-License-Identifier: MIT
"""Find out what has changed in a worktree since its folders were listed.

A folder whose stat data are the same has the same names in it, so it is not listed again;
its files are looked at one by one. A folder that did change is listed by the same walk that
a scan makes, and what is new below it is walked to the end. A `.gitignore` decides on all
below it: if one changed, all of that is walked anew. Nothing is decided here that a scan
would decide otherwise.

Left to the caller: the rules, and to know that they are those of the listings.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable

from ckpt.values import field, value_class
from ckpt.worktree import reach
from ckpt.worktree.found import Scan
from ckpt.worktree.listing import GITLINK, NEW, Listing, stat_of
from ckpt.worktree.listings import Listings
from ckpt.worktree.reach import read_plain_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.worktree.deadline import Deadline
    from ckpt.worktree.ignore import IgnoreTree
    from ckpt.worktree.scan import ScanRules

_IGNORE = b".gitignore"


class Overtaken(Exception):
    """The rules have changed again since the listings were compared."""


@value_class(frozen=False)
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
            return reach.lstat(self._base + path)
        except OSError:
            return None

    def _list_anew(self) -> None:
        from functools import cache

        from ckpt.worktree.ignore import IgnoreTree, parser
        from ckpt.worktree.scan import Walk

        rules = self._rules()
        # A folder's rules count outside it and in it, and a file may have 100,000 of them.
        parse_file = cache(parser(rules.ignore_case))
        walk = Walk(self._top, rules, None, self._deadline, parse_file)
        self._changes.found = walk.found
        outside = IgnoreTree(rules.ignore, self._read_ignore_file, parse_file=parse_file)
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
