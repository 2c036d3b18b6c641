# SPDX-License-Identifier: MIT
"""From what a scan found, and the blobs of it, to listings; and from listings to trees.

Stat data are only as good as the clock that made them: of a file or folder that changed in
the very moment it was looked at, another change may not show. So whatever is not safely
older than the scan is marked, and looked at again by the next one.

Trees are written for the folders in which something changed and those above them; of all
others the id is known.
"""

from __future__ import annotations

import os
from binascii import unhexlify
from collections.abc import Iterable

from ckpt.models import SkipReason
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.trees import EXECUTABLE, FOLDER, GITLINK, REGULAR, SYMLINK, TreeEntry, serialise
from ckpt.values import value_class
from ckpt.worktree import listing as kinds
from ckpt.worktree.found import Scan
from ckpt.worktree.listing import UNSURE, Listing, owner_of, stat_of
from ckpt.worktree.listings import Listings

_TICK = 100_000_000
_COARSE_TICK = 2_000_000_000
_SECOND = 1_000_000_000
_EARLIEST = -(1 << 63)  # nanoseconds that a listing can hold; of older files nothing is kept

CODES = {
    REGULAR: kinds.REGULAR,
    EXECUTABLE: kinds.EXECUTABLE,
    SYMLINK: kinds.LINK,
    GITLINK: kinds.GITLINK,
}
MODES = {code: mode for mode, code in CODES.items()} | {
    code - kinds.NEW: mode for mode, code in CODES.items()
}


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Taken(Protocol):
        """What was made of the files of a scan; `unsure` are those to be looked at again."""

        entries: dict[bytes, TreeEntry]
        stats: dict[bytes, os.stat_result]
        unsure: set[bytes]


def entry_of(listing: Listing, number: int) -> TreeEntry:
    """What a tree holds of a file of a folder."""
    return TreeEntry(MODES[listing.codes[number]], ObjectID(listing.ids[number].hex().encode()))


def entries_of(listing: Listing | None) -> dict[bytes, TreeEntry]:
    """What trees hold of the files of a folder, by path."""
    if listing is None:
        return {}
    paths = map(listing.prefix.__add__, listing.names)
    return {path: entry_of(listing, number) for number, path in enumerate(paths)}


@value_class
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
        listing.codes.append(code - kinds.NEW if path in self._found.untracked else code)
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
