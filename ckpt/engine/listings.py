# SPDX-License-Identifier: MIT
"""Listings as git sees them: made from what a scan found, and written as trees.

A listing is one folder as the scan cache keeps it (`ckpt.worktree.cache`). The trees of folders
in which nothing changed are known and not written again.
"""

from __future__ import annotations

import os
from binascii import unhexlify
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ckpt.git.formats import ObjectID
from ckpt.git.objects import ObjectStore
from ckpt.git.trees import (
    EXECUTABLE,
    FOLDER,
    GITLINK,
    REGULAR,
    SYMLINK,
    TreeEntry,
    read_tree,
    serialise,
)
from ckpt.models import SkipReason
from ckpt.worktree import cache
from ckpt.worktree.cache import UNSURE, Listing, Listings, owner_of, stat_of
from ckpt.worktree.scan import Scan

if TYPE_CHECKING:
    from ckpt.engine.reading import Clock, Reader


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
    """Return what a tree holds of a file of a folder."""
    return TreeEntry(MODES[listing.codes[number]], ObjectID(listing.ids[number].hex().encode()))


def entries_of(listing: Listing) -> dict[bytes, TreeEntry]:
    """Return what trees hold of the files of a folder, by path."""
    paths = map(listing.prefix.__add__, listing.names)
    return {path: entry_of(listing, number) for number, path in enumerate(paths)}


# -- from what a scan found, and the blobs of it, to listings


class Gatherer:
    """Makes listings of the folders of a scan, and puts them among others that were known."""

    def __init__(self, known: Listings, found: Scan, taken: Reader, clock: Clock) -> None:
        self._known = known
        self._found = found
        self._taken = taken
        self._clock = clock
        self._listings: dict[bytes, Listing] = {}

    def put(self) -> set[bytes]:
        """Put all folders of the scan in their place, without trees; return their paths."""
        for folder, (status, inside) in self._found.walked.items():
            self._add_walked(folder, status, inside)
        for folder, bits in self._found.folders.items():
            self._listing(folder).bits = bits
        for path, entry in self._taken.entries.items():
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
        status = self._taken.stats.get(path)
        if status is None or path in self._taken.unsure or not self._clock.is_settled(status):
            listing.unsure.add(len(listing.names))
        code = CODES[entry.mode]
        listing.codes.append(code - cache.NEW if path in self._found.untracked else code)
        listing.names.append(name)
        listing.ids.append(unhexlify(entry.id))
        listing.stats.append(UNSURE if status is None else stat_of(status))
        listing.owners.append((0, 0, 0) if status is None else owner_of(status))

    def _add_watched(self, path: bytes, status: os.stat_result) -> None:
        """Add a file that decided on something, if it was not taken as well."""
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
            if path not in self._taken.entries:
                self._note(path, "ignore", text)
        for path in found.gitlinks:
            self._note(path, "gitlink", b"")
        for path in found.attribute_files:
            self._note(path, "attributes", b"")

    def _note(self, path: bytes, what: str, value: bytes) -> None:
        self._listing(path.rpartition(b"/")[0]).notes.append((what, path, value))


# -- from listings to trees


def write_trees(objects: ObjectStore, listings: Listings, changed: set[bytes]) -> ObjectID:
    """Write the trees of changed folders and of all above them; return the top one's id."""
    by_length: dict[int, set[bytes]] = {}
    for folder in changed:
        by_length.setdefault(len(folder), set()).add(folder)
    # A folder's path is longer than its parent's: children come first.
    for length in range(max(by_length, default=-1), -1, -1):
        for folder in by_length.get(length, ()):
            parent = _write_one(objects, listings, folder)
            if parent is not None:
                by_length.setdefault(len(parent), set()).add(parent)
    top = listings.get(b"")
    if top is None or not top.tree:
        return objects.add(b"tree", b"")
    return ObjectID(top.tree.hex().encode())


def _write_one(objects: ObjectStore, listings: Listings, folder: bytes) -> bytes | None:
    """Write a folder's tree; return the folder around it if that has to be written too."""
    listing = listings.get(folder)
    tree = b"" if listing is None else _write_listing(objects, listing)
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


def _write_listing(objects: ObjectStore, listing: Listing) -> bytes:
    """Write the tree of one folder whose inner folders are written; empty for nothing."""
    children = [
        (name, MODES[code], ObjectID(id.hex().encode()))
        for name, code, id in zip(listing.names, listing.codes, listing.ids, strict=True)
    ]
    children += [
        (name, FOLDER, ObjectID(id.hex().encode())) for name, id in listing.trees.items() if id
    ]
    return unhexlify(objects.add(b"tree", serialise(children))) if children else b""


def edit_tree(
    objects: ObjectStore, tree: ObjectID, changes: Mapping[bytes, TreeEntry | None]
) -> ObjectID:
    """Write a tree in which some paths hold something else, or nothing."""
    return _edited(objects, tree, changes) or objects.add(b"tree", b"")


def _edited(
    objects: ObjectStore, tree: ObjectID | None, changes: Mapping[bytes, TreeEntry | None]
) -> ObjectID | None:
    """Return None for a folder in which nothing is left."""
    entries = () if tree is None else read_tree(objects, tree)
    children = {name: TreeEntry(mode, id) for name, mode, id in entries}
    inside: dict[bytes, dict[bytes, TreeEntry | None]] = {}
    for path, entry in changes.items():
        name, slash, rest = path.partition(b"/")
        if slash:
            inside.setdefault(name, {})[rest] = entry
        elif entry is not None:
            children[name] = entry
        elif name in children and children[name].mode != FOLDER:
            del children[name]
    for name, below in inside.items():
        known = children.get(name)
        folder = known.id if known is not None and known.mode == FOLDER else None
        written = _edited(objects, folder, below)
        if written is not None:
            children[name] = TreeEntry(FOLDER, written)
        elif folder is not None:
            del children[name]
    rows = [(name, *entry) for name, entry in children.items()]
    return objects.add(b"tree", serialise(rows)) if rows else None
