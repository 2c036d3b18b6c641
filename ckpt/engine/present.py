# SPDX-License-Identifier: MIT
"""The present: what was on disk, in the index and at HEAD at one moment, as one frozen value.

Made by `capture`; nothing mutates it. A correction gives another value, with another tree. The
listings that it is made of are packed, so what is asked by path is looked up without taking all
of them apart.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ckpt.engine.listings import edit_tree, entries_of, entry_of
from ckpt.engine.scan_cache import IndexFacts, ScanCache, facts_of
from ckpt.git import index as staging
from ckpt.git.formats import ObjectID
from ckpt.git.index import IndexEntry, Staged
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.operation import OperationState
from ckpt.git.refs import Head
from ckpt.git.trees import EXECUTABLE, GITLINK, SYMLINK, TreeEntry
from ckpt.models import NestedState, SkipReason
from ckpt.paths import folders_above, folders_of, is_within, to_str
from ckpt.worktree.cache import Listing, Listings, Summary
from ckpt.worktree.modes import Modes, usual

if TYPE_CHECKING:
    from ckpt.engine.conversions import ConversionCache, Converted

Correction = tuple[TreeEntry, os.stat_result] | None


@dataclass(frozen=True, eq=False, repr=False)
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

    # -- what is there -------------------------------------------------------------

    @property
    def staged(self) -> Staged:
        assert self.staged_now is not None, "the index was not read"
        return self.staged_now

    def staged_at(self, paths: Collection[bytes]) -> Iterable[IndexEntry]:
        """Return the entries of the index at these paths."""
        return (e for e in (self.staged.index.entries if paths else ()) if e.path in paths)

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
    def folders(self) -> Mapping[bytes, int]:
        """The permission bits of the folders that were walked, or hold what was taken."""
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
        """Return the stat data under which the content of a path is known."""
        if path in self.corrections:
            correction = self.corrections[path]
            return None if correction is None else correction[1]
        listing, number = self._find(path)
        return listing.file_stat(number) if listing and listing.stats[number][4] else None

    def bits(self, folder: bytes) -> int | None:
        """Return what `folders` has of a folder."""
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
        return found._replace(folders=held)

    def _with_corrected_bits(self, found: Modes) -> Modes:
        others = {p: bits for p, bits in found.others.items() if p not in self.corrections}
        for path, correction in self.corrections.items():
            if correction is not None and stat.S_ISREG(correction[1].st_mode):
                bits = stat.S_IMODE(correction[1].st_mode) & 0o777
                mode = correction[0].mode
                if mode == SYMLINK or bits != found.of(b"", mode == EXECUTABLE):
                    others[path] = bits
        return found._replace(others=dict(sorted(others.items())))

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
        facts, lost = with_state(objects, facts_of(staged, None), staged)
        return replace(self, index=facts, staged_now=staged, lost=lost, cache=None)

    def without_staged(self, objects: ObjectStore, broken: Collection[ObjectID]) -> Present:
        """Return the state but for what is staged of objects that cannot be read."""
        facts, lost = with_state(objects, self.index, self.staged, broken=broken)
        return replace(self, index=facts, lost=lost, cache=None)


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


def with_state(
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
    index = staging.Index(entries, hash_len=index.hash_len)
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


# -- what was left out

# From so many paths on, a folder of which nothing was taken stands for all that is in it.
_MANY = 1000


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
