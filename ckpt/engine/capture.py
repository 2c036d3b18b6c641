# SPDX-License-Identifier: MIT
"""The present: what is on disk, in the index and at HEAD, at one moment.

Takes tracked and untracked files with their exact bytes, links, permission bits, empty
folders, the index, HEAD and whether an operation is under way. Ignored files, secrets,
dependency folders, untracked files that are too large or too many, nested repositories
and special files are left out, all but the first by name. Contents come from git's index
where its stat data prove them, or any other `KnownContents`; everything else is read.

Blobs go to the object store that is passed in. Nothing else is written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ckpt.engine.attribute_files import attribute_tree
from ckpt.engine.budget import keep_within
from ckpt.engine.contents import VanishedFile, add_stable
from ckpt.engine.git_modes import GitModes, git_modes
from ckpt.engine.nested import nested_states
from ckpt.engine.rules import scan_rules
from ckpt.models import NestedState, SkipReason
from ckpt.paths import folders_above, folders_of, to_str
from ckpt.settings import Settings
from ckpt.store.index import IndexEntry, matches
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.operation_record import OperationState, read_now
from ckpt.store.refs import Head
from ckpt.store.repository import Repository, nested_head
from ckpt.store.staging import Staged, index_mtime, read_staged
from ckpt.store.streams import UnreadableFile
from ckpt.store.trees import EXECUTABLE, GITLINK, SYMLINK, TreeEntry
from ckpt.worktree import modes
from ckpt.worktree.convert import is_on
from ckpt.worktree.scan import Scan, scan

if TYPE_CHECKING:
    from ckpt.engine.cleaning import Cleaner
    from ckpt.engine.origins import Converted
    from ckpt.engine.remembered import Memory
    from ckpt.worktree.convert import Conversion

_READ_ATTEMPTS = 4


class KnownContents(Protocol):
    """Something that knows a file's blob from its stat data: git's index, or a cache."""

    def entry(self, path: bytes, status: os.stat_result) -> TreeEntry | None: ...


@dataclass(slots=True)
class Present:
    """The working state as captured; blobs of `entries` are in the object store.

    `folders` are the permission bits of the folders that were walked. `absent` are entries
    that a sparse checkout leaves out: unchanged, but not on disk. `converted` are files whose
    bytes are not those of their blob.
    """

    entries: dict[bytes, TreeEntry]
    stats: dict[bytes, os.stat_result]
    folders: dict[bytes, int]
    empty_folders: tuple[bytes, ...]
    skipped: dict[bytes, SkipReason]
    excludes: dict[str, bytes]
    include: tuple[str, ...]
    staged: Staged
    head: Head
    operation: OperationState
    absent: set[bytes]
    converted: dict[bytes, Converted] = field(default_factory=dict)
    memory: Memory | None = None
    nested: tuple[NestedState, ...] = ()

    def put(self, path: bytes, entry: TreeEntry, status: os.stat_result) -> None:
        """Correct one path: a file that was read later than the others."""
        gone = [path]
        if path not in self.entries:  # a tree cannot hold a file and a folder of one name
            gone += [folder for folder in folders_above(path) if folder in self.entries]
            gone += [other for other in self.entries if other.startswith(path + b"/")]
        for other in gone:
            self.entries.pop(other, None)
            self.stats.pop(other, None)
            self.converted.pop(other, None)
            self.absent.discard(other)
        self.entries[path], self.stats[path] = entry, status

    @property
    def unskipped(self) -> tuple[bytes, ...]:
        """Paths that are marked skip-worktree and on disk all the same."""
        marked = {entry.path for entry in self.staged.index.entries if entry.skip_worktree}
        return tuple(sorted(marked - self.absent))

    @property
    def is_partial(self) -> bool:
        unsaved = any(state.problem is not None for state in self.nested)
        return unsaved or SkipReason.UNREADABLE in self.skipped.values()

    @property
    def modes(self) -> modes.Modes:
        bits = {
            path: stat.S_IMODE(status.st_mode) & 0o777
            for path, status in self.stats.items()
            if stat.S_ISREG(status.st_mode)
        }
        executables = {path for path, entry in self.entries.items() if entry.mode == EXECUTABLE}
        links = {path for path, entry in self.entries.items() if entry.mode == SYMLINK}
        return modes.collect(bits, executables, self.folders, listed=links)


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
        if found is None or self._staged.is_racy(found) or not self._proves(found, status):
            return None
        entry = TreeEntry(found.mode, ObjectID(found.id))
        return entry if self._objects.size(entry.id) == status.st_size else None

    def _proves(self, entry: IndexEntry, status: os.stat_result) -> bool:
        return matches(entry, status, file_mode=self._file_mode)


def capture(
    repo: Repository,
    settings: Settings,
    objects: ObjectStore,
    *,
    force: tuple[bytes, ...] = (),
    progress: Callable[[int], None] | None = None,
) -> Present:
    """Capture the worktree of `repo`, and the paths of `force` whatever the rules say.

    If git moves HEAD, the index or an operation on meanwhile, files of two states would mix: the
    capture is taken again, a few times at most.
    """
    for _ in range(_READ_ATTEMPTS):
        present = _capture(repo, settings, objects, force, progress)
        if _is_still(repo, present):
            break
    return present


def _is_still(repo: Repository, present: Present) -> bool:
    """False if git has been at work since the capture began."""
    return (
        present.head == repo.refs.head()
        and present.staged.mtime_ns == index_mtime(repo)
        and present.operation == read_now(repo.refs)
    )


def _capture(
    repo: Repository,
    settings: Settings,
    objects: ObjectStore,
    force: tuple[bytes, ...],
    progress: Callable[[int], None] | None,
) -> Present:
    staged = read_staged(repo)
    head = repo.refs.head()
    operation = read_now(repo.refs)
    rules, excludes = scan_rules(repo, settings, staged, force)
    top = os.fsencode(repo.worktree)
    found = scan(top, rules, progress)
    keep_within(found, settings, objects, top)
    cleaner = _open_cleaner(repo, staged, objects, head, found)
    known = _known_contents(repo, staged)
    reader = _Reader(top, objects, known, cleaner, git_modes(repo, staged))
    try:
        reader.take(found)
    finally:
        if cleaner is not None:
            cleaner.close()
    reader.take_gitlinks(found, staged)
    absent = _add_sparse(reader.entries, staged, found)
    # A .gitignore may ignore itself; what it said decides what a later rollback keeps.
    hidden = found.ignore_files.keys() - reader.entries.keys()
    excludes |= {to_str(path): found.ignore_files[path] for path in sorted(hidden)}
    return Present(
        entries=reader.entries,
        stats=reader.stats,
        folders=found.folders,
        empty_folders=tuple(sorted(found.empty_folders)),
        skipped=dict(sorted(found.skipped.items())),
        excludes=excludes,
        include=settings.include,
        staged=staged,
        head=head,
        operation=operation,
        absent=absent,
        converted={} if cleaner is None else cleaner.converted,
        memory=None if cleaner is None else cleaner.memory,
        nested=nested_states(repo, found, staged),
    )


def _known_contents(repo: Repository, staged: Staged) -> KnownContents:
    file_mode = repo.config.get_bool("core.filemode", True)
    return IndexContents(staged, repo.objects, file_mode=file_mode)


def _open_cleaner(
    repo: Repository, staged: Staged, objects: ObjectStore, head: Head, found: Scan
) -> Cleaner | None:
    """None in a worktree in which git converts nothing."""
    attributes = attribute_tree(repo, staged, found.files)
    if attributes is None:
        return None
    from ckpt.engine.cleaning import Cleaner
    from ckpt.engine.head_blobs import HeadBlobs

    head_blob = HeadBlobs(repo.objects, head.commit)
    autocrlf = is_on(repo.config.get("core.autocrlf"))
    return Cleaner(repo, objects, attributes, staged.index, head_blob, autocrlf=autocrlf)


def _add_sparse(entries: dict[bytes, TreeEntry], staged: Staged, found: Scan) -> set[bytes]:
    """A path that is absent because of skip-worktree is not a deletion; returns those paths."""
    marked = [entry for entry in staged.index.entries if entry.skip_worktree]
    taken = {*entries, *folders_of(entries), *found.skipped} if marked else set()
    absent = set()
    for entry in marked:
        # A file may stand where a folder was left out, or the reverse: a tree holds one.
        if entry.path in taken or any(folder in entries for folder in folders_above(entry.path)):
            continue
        entries[entry.path] = TreeEntry(entry.mode, ObjectID(entry.id))
        absent.add(entry.path)
    return absent


class _Reader:
    """Turns what the scan found into entries, reading what nothing else proves."""

    def __init__(
        self,
        top: bytes,
        objects: ObjectStore,
        known: KnownContents,
        cleaner: Cleaner | None,
        modes_by_git: GitModes,
    ) -> None:
        self._top = top
        self._objects = objects
        self._known = known
        self._cleaner = cleaner
        self._modes_by_git = modes_by_git
        self.entries: dict[bytes, TreeEntry] = {}
        self.stats: dict[bytes, os.stat_result] = {}

    def take(self, found: Scan) -> None:
        for path, status in found.files.items():
            asked = self._asked(path, status)
            entry = self._entry(path, status, asked)
            if entry is None:
                try:
                    blob, status = self._add(path, asked)
                except VanishedFile:
                    continue
                except UnreadableFile:
                    found.skipped[path] = SkipReason.UNREADABLE
                    continue
                entry = TreeEntry(self._modes_by_git.of(path, status), blob)
            self.entries[path] = entry
            self.stats[path] = status

    def _asked(self, path: bytes, status: os.stat_result) -> Conversion | None:
        """What git converts in a file; a link is left alone, also one that is a plain file."""
        if self._cleaner is None or self._modes_by_git.of(path, status) == SYMLINK:
            return None
        return self._cleaner.asked(path)

    def _entry(
        self, path: bytes, status: os.stat_result, asked: Conversion | None
    ) -> TreeEntry | None:
        if self._cleaner is None or asked is None:
            return self._known.entry(path, status)
        blob = self._cleaner.known(path, status, asked)
        return None if blob is None else TreeEntry(self._modes_by_git.of(path, status), blob)

    def _add(self, path: bytes, asked: Conversion | None) -> tuple[ObjectID, os.stat_result]:
        place = os.path.join(self._top, path)
        if self._cleaner is None or asked is None:
            return add_stable(self._objects, place)
        return self._cleaner.add(path, place, asked)

    def take_gitlinks(self, found: Scan, staged: Staged) -> None:
        recorded = {e.path: e.id for e in staged.index.entries if e.mode == GITLINK}
        for path in found.gitlinks:
            length = self._objects.object_format.hex_length
            commit = nested_head(os.path.join(self._top, path), length) or recorded.get(path)
            if commit is not None:
                self.entries[path] = TreeEntry(GITLINK, ObjectID(commit))
