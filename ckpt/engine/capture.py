# SPDX-License-Identifier: MIT
"""Capture the working state: the worktree, the index and HEAD at one moment.

Takes tracked and untracked files with their exact bytes, symbolic links, permission bits, empty
directories, the index, HEAD and the operation in progress. Skips and lists secrets, dependency
directories, untracked files that are too large or too many, nested repositories and special files.
Reads only files that neither the scan cache nor git's index proves unchanged, and writes only
blobs and trees.
"""

from __future__ import annotations

import io
import os
import stat
import time
from binascii import unhexlify
from collections.abc import Callable, Container, Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from ckpt import paths
from ckpt.engine.scan_cache import (
    NEVER,
    Clock,
    ScanCache,
    doubtful_folders,
    facts_of,
    index_identity,
    with_state,
)
from ckpt.engine.scan_rules import (
    attribute_tree,
    fingerprint,
    read_excludes,
    scan_rules,
)
from ckpt.engine.working_state import Present, sparse_entries
from ckpt.git.index import Index, IndexEntry, read_staged
from ckpt.git.objects import LARGE, ObjectID, ObjectStore, UnreadableFile
from ckpt.git.operation import read_now
from ckpt.git.record import read_commit
from ckpt.git.repository import Repository
from ckpt.git.trees import EXECUTABLE, REGULAR, SYMLINK, TreeEntry
from ckpt.models import NestedState, SkipReason
from ckpt.paths import identity, to_bytes, to_str
from ckpt.settings.settings import Settings
from ckpt.worktree.cache import (
    CODES,
    FORK_PAYS,
    GITLINK,
    NEW,
    NEW_BYTES,
    NEW_FILES,
    UNSURE,
    File,
    Folder,
    Folders,
    Records,
    both,
    finder,
    is_executable,
    path_in,
    stat_of,
    total,
    unsettled,
)
from ckpt.worktree.scan import Deadline, Overtaken, Scan, scan

if TYPE_CHECKING:
    from ckpt.engine.conversions import Cleaner, Converted
    from ckpt.worktree.filters import Conversion

_ATTEMPTS = 4


def capture(
    repo: Repository,
    settings: Settings,
    objects: ObjectStore,
    *,
    progress: Callable[[int, int], None] | None = None,
    cache: ScanCache | None = None,
    clock: Clock = NEVER,
    reads_index: bool = True,
    deadline: Deadline | None = None,
) -> Present:
    """Capture the worktree of `repo`.

    After the deadline, untracked files are listed but not read. If git changes HEAD, the index or
    the operation meanwhile, or files vanish, the capture starts over, so as not to mix two states;
    a file that vanishes again but exists at the end is listed as unreadable. Without
    `reads_index`, the index is read only if it has changed.
    """
    for attempt in range(_ATTEMPTS):
        look = _Look(repo, settings, objects, progress, clock, deadline)
        present = look.run(cache, reads_index=reads_index)
        is_over = deadline is not None and deadline.is_over
        if _is_still(repo, present) and (attempt or is_over or not look.vanished):
            break
    top = os.fsencode(repo.worktree)
    missed = [path for path in look.vanished if os.path.lexists(os.path.join(top, path))]
    if missed:
        skipped = {**present.skipped, **dict.fromkeys(missed, SkipReason.UNREADABLE)}
        present = present._replace(skipped=dict(sorted(skipped.items())), cache=None)
    return present


def _is_still(repo: Repository, present: Present) -> bool:
    """Return whether HEAD, index and operation are unchanged since the capture began."""
    return (
        present.head == repo.refs.head()
        and present.index.identity == index_identity(repo)
        and present.operation == read_now(repo.refs)
    )


class _Look:
    """One attempt at a capture."""

    def __init__(
        self,
        repo: Repository,
        settings: Settings,
        objects: ObjectStore,
        progress: Callable[[int, int], None] | None,
        clock: Clock,
        deadline: Deadline | None,
    ) -> None:
        self._repo = repo
        self._settings = settings
        self._objects = objects
        self._progress = progress
        self._clock = clock
        self._deadline = deadline
        self._top = os.fsencode(repo.worktree)
        self._staged: Index | None = None
        self._sizes: dict[ObjectID, int] | None = None  # of the blobs in the index, if many
        self._executable: Set[bytes] | None = None  # by the index, without core.fileMode
        self._conversion: Callable[[bytes], Conversion | None] | None = None
        self._done = (0, 0)  # files and bytes read
        self.vanished: set[bytes] = set()

    def run(self, cache: ScanCache | None, *, reads_index: bool) -> Present:
        repo, now = self._repo, index_identity(self._repo)
        if cache is not None and now is not None and any(now[-1]) and now == cache.index.identity:
            self._index = cache.index
            if reads_index:
                self._read_staged()
        else:
            self._index = facts_of(self._read_staged(), now)
        self._head = repo.refs.head()
        self._operation = read_now(repo.refs)
        self._excludes = read_excludes(repo)
        self._rules = fingerprint(repo, self._settings, self._excludes)
        if not repo.config.get_bool("core.filemode", True):
            entries = self._read_staged().entries
            self._executable = {e.path for e in entries if e.mode == EXECUTABLE and not e.stage}
        if self._index.is_sparse or self._executable is not None:
            self._rules = b""  # records depend on more than the disk and the rules
        if cache is not None:
            cache = cache._replace(records=self._with_doubts(cache))
        if cache is not None and self._rules and cache.rules == self._rules:
            with suppress(Overtaken):
                return self._present(cache, cache.records)
        return self._present(cache, {})

    def _with_doubts(self, cache: ScanCache) -> Records:
        """Return the records, with a converted file marked to be read again if a change of HEAD or
        the index may give it another blob."""
        records = cache.records
        converted = [record for record in records.values() if record.cleaned]
        is_same = self._index is cache.index and (cache.compared or [b""])[0] == self._head.commit
        if is_same or not converted:
            return records
        staged = {e.path: e.id for e in self._read_staged().entries if e.stage in (0, 2)}
        records = {**records}
        for folder in map(Folder.of, converted):
            for name, file in folder.files.items():
                if file.cleaned is not None:
                    base, _, in_lfs, _ = file.cleaned
                    if in_lfs or base != staged.get(path_in(folder.path, name)):
                        folder.files[name] = file._replace(stat=unsettled(file.stat))
            records[folder.path] = folder.record()
        return records

    def _read_staged(self) -> Index:
        if self._staged is None:
            self._staged = read_staged(self._repo)
        return self._staged

    def _doubtful(self, cache: ScanCache) -> Iterable[bytes]:
        if self._index is cache.index:
            return ()
        doubtful = doubtful_folders(cache.index, self._index)
        if doubtful and self._repo.config.get_bool("core.ignorecase", False):
            raise Overtaken  # their case may differ on disk
        return doubtful

    def _keep_within(self, found: Scan) -> bool:
        """Skip the largest untracked files that exceed the limits; return whether all fit."""
        if not found.untracked:
            return True
        sizes = {path: found.files[path].st_size for path in found.untracked}
        known = total(found.folders.packed.values())
        files = self._settings.max_new_files - known.get(NEW_FILES, 0)
        room = self._settings.max_new_bytes - known.get(NEW_BYTES, 0)
        if len(sizes) <= files and sum(sizes.values()) <= room:
            return True
        if known:
            raise Overtaken
        for path in sorted(sizes, key=lambda path: (sizes[path], path)):
            files, room = files - 1, room - sizes[path]
            if files < 0 or room < 0:
                del found.files[path]
                found.skip(path, SkipReason.BUDGET)
        return False

    # -- from files to blobs

    def _read(self, found: Scan, before: Records) -> None:
        """Read the scanned files; with a deadline, tracked ones first, then the others by size."""
        order, others, deadline = list(found.files), found.untracked, self._deadline
        if deadline is not None:
            order.sort(key=lambda p: (p in others, found.files[p].st_size * (p in others), p))
        known = finder(before)
        for path in order:
            status, file = found.files[path], known(path)
            try:
                if file and file.stat == stat_of(status):
                    file = file._replace(code=CODES[self._mode(path, status)])
                elif deadline is not None and deadline.is_over and path in others:
                    found.leave_for_later(path)
                    continue
                else:
                    file = self._read_one(path, status)
            except VanishedFile:
                found.miss(path)
                continue
            except UnreadableFile:
                found.skip(path, SkipReason.UNREADABLE)
                continue
            if path in others:
                file = file._replace(code=file.code - NEW)
            found.folders.put(path, file)

    def _mode(self, path: bytes, status: os.stat_result) -> int:
        """Return the tree entry mode of a file or link with these stat data."""
        if stat.S_ISLNK(status.st_mode):
            return SYMLINK
        if self._executable is None:
            return EXECUTABLE if is_executable(status.st_mode) else REGULAR
        return EXECUTABLE if path in self._executable else REGULAR

    def _read_one(self, path: bytes, status: os.stat_result) -> File:
        is_certain, known, asked = True, None, None
        if self._conversion is not None and not stat.S_ISLNK(status.st_mode):
            asked = self._conversion(path)
        blob = self._staged_blob(path, status) if asked is None else None
        if blob is None:
            place = os.path.join(self._top, path)
            if asked is None:
                blob, status = add_stable(self._objects, place)
            else:
                blob, status, known = self._cleaner.add(path, place, asked)
                is_certain = path not in self._cleaner.failed
            self._done = self._done[0] + 1, self._done[1] + status.st_size
            if self._progress is not None:
                self._progress(*self._done)
        then = stat_of(status)
        if not (is_certain and self._clock.is_settled(status)):
            then = unsettled(then)
        return File(CODES[self._mode(path, status)], unhexlify(blob), then, known)

    @cached_property
    def _cleaner(self) -> Cleaner:
        from ckpt.engine.conversions import Cleaner

        staged, head = self._read_staged(), self._head.commit
        return Cleaner(self._repo, self._objects, staged, head, self._deadline)

    def _staged_blob(self, path: bytes, status: os.stat_result) -> ObjectID | None:
        """Return the blob of a file that git's index proves unmodified. The sizes must be equal:
        the blob may be missing, or come from a conversion that is no longer configured."""
        entry, by_mode = self._entries.get(path), self._executable is None
        if entry is None:
            return None
        if not self._read_staged().is_unmodified(entry, status, file_mode=by_mode):
            return None
        blob = ObjectID(entry.id)
        size = self._objects.size(blob) if self._sizes is None else self._sizes.get(blob)
        return blob if size == status.st_size else None

    @cached_property
    def _entries(self) -> dict[bytes, IndexEntry]:
        return {e.path: e for e in self._staged.entries if e.stage == 0} if self._staged else {}

    def _gitlink(self, path: bytes, head: str | None) -> File | None:
        """Return a submodule at its HEAD or, if that cannot be read, as in the index."""
        is_valid = head is not None and len(head) == self._objects.object_format.hex_length
        commit = head if is_valid else self._index.gitlinks.get(path)
        return None if commit is None else File(GITLINK, unhexlify(commit), UNSURE)

    def _trees_of_head(self) -> Container[ObjectID]:
        """Return the trees that git's index knows to be HEAD's."""
        trees, commit = self._read_staged().trees, self._head.commit
        if commit is None or trees.get(b"") != read_commit(self._objects, commit).tree:
            return ()
        return {*trees.values()}

    # -- from a scan to a `Present`

    def _present(self, cache: ScanCache | None, records: Records) -> Present:
        """Scan the worktree, or only what differs from `records`; raise Overtaken if a full scan is
        needed. If the attributes have changed, read every file."""
        repo, folders = self._repo, Folders(records)
        look = partial(
            scan,
            self._top,
            folders,
            lambda: scan_rules(repo, self._settings, self._excludes, self._index),
            self._clock.is_settled_folder,
            doubtful=self._doubtful(cache) if cache is not None and records else (),
            progress=self._progress,
            deadline=self._deadline,
        )
        if records or len(self._read_staged().entries) < FORK_PAYS:
            found = look()
        else:
            blobs = {ObjectID(entry.id) for entry in self._read_staged().entries}
            found, self._sizes = both(look, lambda: self._objects.sizes(blobs))
        is_whole = self._keep_within(found)
        named = folders.notes().get("attributes", {})
        tree, attributes = attribute_tree(repo, named)
        if cache is not None and cache.attributes != attributes:
            if records:
                raise Overtaken
            cache, self._entries = None, {}
        if tree is not None:
            from ckpt.worktree.filters import conversion

            autocrlf = repo.config.get("core.autocrlf")
            self._conversion = lambda path: conversion(tree.attributes(path), autocrlf)
        self._read(found, {} if cache is None else cache.records)
        self.vanished = found.vanished
        notes = folders.notes()
        skipped = {p: SkipReason(why.decode()) for p, why in notes.get("skipped", {}).items()}
        places = {path for path, why in skipped.items() if why is SkipReason.NESTED}
        places |= notes.get("gitlink", {}).keys()
        nested: tuple[NestedState, ...] = ()
        if places:
            from ckpt.engine.nested import nested_states

            nested = nested_states(repo, places, self._index.gitlinks, self._deadline)
        heads = {to_bytes(state.path): state.commit_hash for state in nested}
        for path in notes.get("gitlink", ()):
            folders.put(path, self._gitlink(path, heads.get(path)))
        absent: dict[bytes, TreeEntry] = {}
        if self._index.is_sparse:
            absent = sparse_entries(folders.paths(), self._read_staged(), skipped)
            for path, entry in absent.items():
                folders.put(path, File(CODES[entry.mode], unhexlify(entry.id), UNSURE))
        held = () if records else self._trees_of_head()
        top, records = folders.write(self._objects, held), folders.packed
        find = finder(records)
        if not self._index.state:
            self._index = with_state(self._objects, self._index, self._read_staged())
        # A .gitignore may ignore itself; a later rollback needs its rules.
        ignored = {to_str(p): text for p, text in notes.get("ignore", {}).items() if not find(p)}
        converted: dict[bytes, Converted] = {}
        known = [record for record in records.values() if record.cleaned]
        if known:
            from ckpt.engine.conversions import conversions_of

            converted = conversions_of(known)
        kept = None
        if self._clock is not NEVER and is_whole:
            kept = ScanCache(self._rules, attributes, self._index, records)
        return Present(
            top,
            self._index,
            self._head,
            self._operation,
            records,
            excludes={**self._excludes, **ignored},
            include=self._settings.include,
            skipped=skipped,
            empty_folders=tuple(notes.get("empty", ())),
            attribute_files=tuple(notes.get("attributes", ())),
            nested=nested,
            absent=absent,
            converted=converted,
            is_cut=found.is_cut,
            source=cache,
            cache=kept,
            staged_now=self._staged,
        )


# -- reading files that may change meanwhile


class VanishedFile(Exception):
    """A file that was removed during the capture."""


@contextmanager
def reading(path: bytes) -> Iterator[None]:
    """Raise VanishedFile or UnreadableFile in place of OSError."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise VanishedFile(path) from error
    except OSError as error:
        raise UnreadableFile(error.errno, error.strerror) from error


def add_stable(objects: ObjectStore, path: bytes) -> tuple[ObjectID, os.stat_result]:
    """Add the content of a file or link and return its blob and stat data; raise VanishedFile or
    UnreadableFile if that fails."""
    data, status = read_stable(path, LARGE)
    if data is not None:
        return objects.add(b"blob", data), status
    with opened(path) as file:
        before = os.fstat(file.fileno())
        blob = objects.add_file(file.fileno(), before.st_size)  # reads it twice
        after = os.fstat(file.fileno())
    if identity(before) != identity(after):
        raise UnreadableFile.changing()
    return blob, after


def read_stable(path: bytes, most: int) -> tuple[bytes | None, os.stat_result]:
    """Read a file or link while it does not change; return None for one larger than `most`."""
    for _ in range(_ATTEMPTS):
        with reading(path):
            before = os.lstat(path)
            if stat.S_ISLNK(before.st_mode):
                data = again = paths.readlink(path)
                after = os.lstat(path)
            else:
                with io.FileIO(paths.open_file(path)) as file:
                    before, began = os.fstat(file.fileno()), time.time_ns()
                    if not stat.S_ISREG(before.st_mode):
                        continue
                    if before.st_size > most:
                        return None, before
                    data = again = file.read(before.st_size + 1)
                    if not Clock(began).is_settled(before):  # it may change in this tick
                        file.seek(0)
                        again = file.read(before.st_size + 1)
                    after = os.fstat(file.fileno())
        if data == again and identity(before) == identity(after) and len(data) == after.st_size:
            return data, after
    raise UnreadableFile.changing()


def opened(path: bytes) -> io.FileIO:
    with reading(path):
        return io.FileIO(paths.open_file(path))
