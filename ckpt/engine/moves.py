# SPDX-License-Identifier: MIT
"""What was moved while a worktree was looked at, and met at neither of its places.

Each folder is listed at a moment of its own. What goes from one that is yet to be listed, or read,
into one that was listed already is seen in neither. But then both have changed since, which
their times tell: whoever looks once more at the folders knows whether to look at all again.

Every name that is there now and was not taken is one that was missed. What vanished and is
nowhere else was removed, which is nobody's loss.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ckpt.engine.gather import Clock
from ckpt.paths import folders_of
from ckpt.worktree import reach
from ckpt.worktree.git_names import is_like_dot_git
from ckpt.worktree.ignore import IgnoreTree
from ckpt.worktree.listing import Listing, Stat, stat_of
from ckpt.worktree.listings import Listings
from ckpt.worktree.reach import read_plain_file
from ckpt.worktree.scan import ScanRules
from ckpt.worktree.unfinished import is_unfinished


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
