# SPDX-License-Identifier: MIT
"""The working state: worktree, index and HEAD at one moment, as one immutable value.

`capture` creates it; a correction returns another value, with another tree. The records of its
directories are packed: a lookup by path unpacks one directory.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ckpt.engine.scan_cache import IndexFacts, ScanCache, facts_of, with_state
from ckpt.git.index import Index
from ckpt.git.objects import ObjectID, ObjectStore
from ckpt.git.operation import OperationState
from ckpt.git.refs import Head
from ckpt.git.trees import TreeEntry
from ckpt.models import Modes, NestedState, SkipReason
from ckpt.paths import folders_above, folders_of
from ckpt.worktree.cache import (
    CODES,
    IS_EXECUTABLE,
    IS_FOLDER,
    MODES,
    File,
    Folder,
    Folders,
    Records,
    Stat,
    finder,
    path_in,
    total,
    usual,
)

if TYPE_CHECKING:
    from ckpt.engine.conversions import Converted

Correction = tuple[TreeEntry, Stat] | None


def _entry(file: File) -> TreeEntry:
    return TreeEntry(MODES[file.kind], ObjectID(file.id.hex().encode()))


class _Fields(NamedTuple):
    tree: ObjectID
    index: IndexFacts  # type: ignore[assignment]  # tuple.index is not needed
    head: Head
    operation: OperationState
    records: Records
    excludes: Mapping[str, bytes] = {}
    include: tuple[str, ...] = ()
    skipped: Mapping[bytes, SkipReason] = {}
    empty_folders: tuple[bytes, ...] = ()
    attribute_files: tuple[bytes, ...] = ()
    nested: tuple[NestedState, ...] = ()
    absent: Mapping[bytes, TreeEntry] = {}
    converted: Mapping[bytes, Converted] = {}
    is_cut: bool = False
    lacks_edits: bool = False
    source: ScanCache | None = None
    cache: ScanCache | None = None
    staged_now: Index | None = None


class Present(_Fields):
    """The working state at one moment; its tree and blobs are in the object store.

    `absent` are the entries that a sparse checkout leaves out, `converted` the files whose bytes on
    disk differ from their blob. `is_cut`: the deadline passed before all untracked files were read;
    `lacks_edits`: a tool has set edits aside, and not all could be included. `source` is the scan
    cache that the capture started from, `cache` the one for the next capture.
    """

    @property
    def staged(self) -> Index:
        assert self.staged_now is not None, "the index was not read"
        return self.staged_now

    @cached_property
    def index_entries(self) -> dict[bytes, TreeEntry]:
        """Return the entries that represent the index in a state tree."""
        return {
            name: TreeEntry(mode, ObjectID(id))
            for name, (mode, id) in (self.index.state or {}).items()
        }

    # -- by path

    @cached_property
    def entries(self) -> Mapping[bytes, TreeEntry]:
        """Return every file, link and submodule by path."""
        return {
            path_in(record.path, name): _entry(file)
            for record in self.records.values()
            for name, file in Folder.of(record).files.items()
        }

    @cached_property
    def folders(self) -> Mapping[bytes, int]:
        """Return the permission bits of the directories that were walked or hold saved files."""
        return {r.path: r.bits for r in self.records.values() if r.bits is not None}

    def entry(self, path: bytes) -> TreeEntry | None:
        """Return the entry at a path, without building `entries`."""
        file = self._file(path)
        return None if file is None else _entry(file)

    def status(self, path: bytes) -> Stat | None:
        """Return the stat data for which the content of a path is known."""
        file = self._file(path)
        return None if file is None or not file.stat[4] else file.stat

    @cached_property
    def _file(self) -> Callable[[bytes], File | None]:
        return finder(self.records)

    # -- as a whole

    @property
    def file_count(self) -> int:
        """Return the number of `entries`, without building them."""
        return sum(len(record.codes) for record in self.records.values())

    @property
    def unskipped(self) -> tuple[bytes, ...]:
        """Return the paths marked skip-worktree that are on disk."""
        if not self.index.is_sparse:
            return ()
        marked = {entry.path for entry in self.staged.entries if entry.skip_worktree}
        return tuple(sorted(marked - self.absent.keys()))

    @property
    def is_partial(self) -> bool:
        unsaved = any(state.problem is not None for state in self.nested)
        is_short = self.is_cut or self.lacks_edits
        return unsaved or is_short or SkipReason.UNREADABLE in self.skipped.values()

    @cached_property
    def modes(self) -> Modes:
        """Return the usual permission bits and the exceptions."""
        tally = total(self.records.values())
        most = usual(tally)
        common = {most.plain, IS_EXECUTABLE | most.executable, IS_FOLDER | (most.folder or 0)}
        unusual = {bits for bits in tally if bits >= 0} - common
        files: dict[bytes, int] = {}
        folders: dict[bytes, int] = {}
        for record in self.records.values() if unusual else ():
            if unusual.isdisjoint(bits for bits, _ in record.tally):
                continue
            path = record.path
            if record.bits not in (None, most.folder):
                folders[path] = record.bits or 0
            for name, file in Folder.of(record).files.items():
                if file.permissions in unusual:
                    files[path_in(path, name)] = (file.permissions or 0) & 0o777
        return most._replace(others=dict(sorted(files.items())), folders=folders)

    # -- derived states

    def with_files(self, objects: ObjectStore, files: Mapping[bytes, Correction]) -> Present:
        """Return the state with these paths replaced or removed."""
        folders = Folders(self.records)
        for path, correction in files.items():
            if correction is None:
                folders.put(path, None)
                continue
            (mode, blob), status = correction
            folders.remove_folder(path)
            folders.put(path, File(CODES[mode], unhexlify(blob), status))
        tree = folders.write(objects)
        changed = files.keys()
        return self._replace(
            tree=tree,
            records=folders.packed,
            converted={p: c for p, c in self.converted.items() if p not in changed},
            absent={p: entry for p, entry in self.absent.items() if p not in changed},
            skipped={p: reason for p, reason in self.skipped.items() if p not in changed},
            cache=None,
        )

    def with_index(self, objects: ObjectStore, staged: Index) -> Present:
        """Return the state with another index, read later than the files."""
        facts = with_state(objects, facts_of(staged, None), staged)
        return self._replace(index=facts, staged_now=staged, cache=None)


def sparse_entries(
    entries: Collection[bytes], staged: Index, skipped: Iterable[bytes]
) -> dict[bytes, TreeEntry]:
    """Return the entries that are absent because of skip-worktree, not deleted."""
    marked = [entry for entry in staged.entries if entry.skip_worktree]
    taken = {*entries, *folders_of(entries), *skipped} if marked else set()
    # A file on disk may replace a skipped directory, or the reverse.
    return {
        entry.path: TreeEntry(entry.mode, ObjectID(entry.id))
        for entry in marked
        if entry.path not in taken
        and not any(folder in entries for folder in folders_above(entry.path))
    }
