# SPDX-License-Identifier: MIT
"""Carry out a plan on the files and folders of a worktree, then on the index.

Each path is looked at just before it changes: as the safety checkpoint has it, it is replaced or
removed; as it shall be, it is left; anything else is handed to `save_first` before anything
happens to it. Running a plan twice is the same as running it once, so a crash at any line is
harmless. Names and contents are flushed before the caller ends its journal. The index is written
under git's own lock, outside the paths of the rollback as it is now.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from ckpt import disk
from ckpt.engine.conversions import Smudger, Unrestorable
from ckpt.engine.journal import Action, FileState, FolderChange
from ckpt.errors import Busy, is_want
from ckpt.git import index as staging
from ckpt.git.formats import ObjectID
from ckpt.git.index import Index, IndexEntry, KnownFile, Staged, compose
from ckpt.git.objects import ObjectStore
from ckpt.git.repository import Repository
from ckpt.git.streams import UnreadableFile
from ckpt.git.trees import EXECUTABLE, GITLINK, REGULAR, SYMLINK, TreeEntry
from ckpt.locks import replace_locked
from ckpt.paths import folders_above, folders_of, identity, is_within
from ckpt.worktree.modes import is_executable
from ckpt.worktree.write import UnsafePath, Worktree

# What its owner needs to change the names in a folder.
OPEN = 0o700

# A path that changes each time it is looked at is left to whoever changes it.
_ATTEMPTS = 4

# The file system forbids this one path, or cannot have it: such a name, or a link at all. Another
# may well succeed.
_LEFT_ALONE = (
    *(errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS),
    *(errno.EINVAL, errno.EILSEQ, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS),
    errno.ENAMETOOLONG,
)

# What was a file is none any more.
_ANOTHER = (errno.ENOENT, errno.ELOOP)

# What was found at paths that changed, first the one whose turn it is.
Found = dict[bytes, tuple[FileState, os.stat_result]]

# False if the first of them is to be left as it is.
SaveFirst = Callable[[Found], bool]


@dataclass
class Applied:
    """What was done; `files` are those that are as wanted now, with their stat data."""

    written: list[bytes] = field(default_factory=list)
    removed: list[bytes] = field(default_factory=list)
    blocked: dict[bytes, str] = field(default_factory=dict)
    files: dict[bytes, tuple[TreeEntry, os.stat_result]] = field(default_factory=dict)


class Applier:
    """One pass over a plan. `recorded` tells the stat data of the safety checkpoint's
    files, if this process took it; without, contents are compared."""

    def __init__(
        self,
        objects: ObjectStore,
        smudger: Smudger,
        worktree: Worktree,
        recorded: Callable[[bytes], os.stat_result | None] | None,
        save_first: SaveFirst,
        folders: tuple[FolderChange, ...] = (),
    ) -> None:
        self._objects = objects
        self._smudger = smudger
        self._worktree = worktree
        self._recorded = recorded
        self._save_first = save_first
        self._folders = folders
        worktree.new_folders = {f.path: f.after for f in folders if f.after is not None}
        self.done = Applied()
        self._changed_folders: set[bytes] = set()
        self._settled: list[bytes] = []
        self._to_come: dict[bytes, Action] = {}

    def files(self, actions: tuple[Action, ...], remove_folders: tuple[bytes, ...]) -> None:
        """Removals, the folders they empty, then writes: a file may become a folder."""
        self.open_folders()
        self._to_come = {action.path: action for action in actions}
        for action in actions:
            if action.after is None:
                self._one(action)
        gone = [folder for folder in remove_folders if self._remove_folder(folder)]
        for action in actions:
            if action.after is not None:
                self._one(action)
        self._changed_folders |= _parents(gone)

    def folders(self, make_folders: tuple[bytes, ...]) -> None:
        for folder in make_folders:
            try:
                self._worktree.make_folder(folder)
            except (NotADirectoryError, FileExistsError, UnsafePath):
                self.done.blocked[folder] = "in the way"
            except OSError as error:
                self._leave_folder(folder, error)
        self._changed_folders |= _parents(make_folders)
        self._settle_folders()

    def _remove_folder(self, folder: bytes) -> bool:
        try:
            return self._worktree.remove_folder(folder)
        except OSError as error:
            self._leave_folder(folder, error)
            return False

    def _leave(self, path: bytes, error: OSError) -> None:
        """List a path that the file system forbids us."""
        if error.errno not in _LEFT_ALONE:
            raise error
        self.done.blocked[path] = _why(error)

    def _leave_folder(self, folder: bytes, error: OSError) -> None:
        """The same, unless it is for the sake of another."""
        is_needed = any(other.startswith(folder + b"/") for other in self.done.blocked)
        if error.errno not in _LEFT_ALONE or not is_needed:
            self._leave(folder, error)

    def open_folders(self) -> None:
        """Let the owner into folders that are closed to changes, as far as we may, until
        `folders` gives all of them the bits they shall have."""
        for change in self._folders:
            try:
                bits = self._worktree.folder_permissions(change.path)
                if bits is not None and bits & OPEN != OPEN:
                    self._worktree.set_folder_permissions(change.path, bits | OPEN)
            except OSError as error:  # what is inside will be listed
                if error.errno not in _LEFT_ALONE:
                    raise

    def _settle_folders(self) -> None:
        """Give folders the bits they shall have, the innermost first: the last look into one."""
        for change in reversed(self._folders):
            # A folder that should have gone and did not is left as it was.
            bits = change.before if change.after is None else change.after
            try:
                if bits is not None:
                    self._worktree.set_folder_permissions(change.path, bits)
            except OSError as error:
                self._leave_folder(change.path, error)
        new = _parents(change.path for change in self._folders if change.before is None)
        self._changed_folders |= new | {change.path for change in self._folders}

    def known(self, path: bytes) -> tuple[TreeEntry, os.stat_result] | None:
        """A file whose content is certain because it was written here."""
        return self.done.files.get(path)

    def sync(self) -> None:
        """Make all of it durable: contents, and the names in every folder in which some changed.

        What a rollback that died has made is not known: then, up to the top.
        """
        files = [*self.done.written, *self._settled]
        folders = self._changed_folders | _parents([*files, *self.done.removed])
        folders |= _parents(self._worktree.made)
        if self._recorded is None:
            folders |= {b"", *folders_of([*files, *self.done.removed, *folders])}
        if disk.sync_instead_of(len(files) + len(folders)):
            return
        for path in files:
            self._worktree.sync(path)
        for folder in sorted(folders):
            self._worktree.sync(folder)

    def _one(self, action: Action) -> None:
        self._to_come.pop(action.path, None)
        try:
            if not any(self._attempt(action) for _ in range(_ATTEMPTS)):
                self.done.blocked[action.path] = "changing"
        except (NotADirectoryError, IsADirectoryError, UnsafePath):
            self.done.blocked[action.path] = "in the way"
        except Unrestorable as error:
            self.done.blocked[action.path] = str(error)
        except OSError as error:
            self._leave(action.path, error)

    def _attempt(self, action: Action) -> bool:
        """Change a path, if it may be; False if it changed under our hands."""
        status = self._worktree.lstat(action.path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            if action.after is not None and not self._worktree.remove_folder(action.path):
                self.done.blocked[action.path] = "in the way"
                return True
            status = None
        try:
            if not self._is_as_recorded(action, status) and not self._settle(action, status):
                return True
            return self._change(action, status)
        except UnreadableFile:  # it is not what it was a moment ago
            return False

    def _settle(self, action: Action, status: os.stat_result | None) -> bool:
        """Look at a path whose stat data prove nothing; False if it must not be changed."""
        try:
            found = self._look(action.path, status)
        except OSError:
            if not self._is_unchanged(action.path, status):
                raise
            self.done.blocked[action.path] = "unreadable"
            return False
        if found == action.after:
            # Not our doing now, but maybe that of a rollback which died before it was durable.
            self._settled.append(action.path)
            if action.after is not None and status is not None:
                self.done.files[action.path] = (action.after.git_entry, status)
            return False
        if status is not None and found is None:
            self.done.blocked[action.path] = "special"
            return False
        if status is None or found is None or found == action.before:
            return True
        is_saved = self._save_first({action.path: (found, status), **self._changed_too()})
        if not is_saved:
            self.done.blocked[action.path] = "changing"
        return is_saved

    def _changed_too(self) -> Found:
        """What else has changed and has its turn to come, so far as stat data can tell."""
        changed: Found = {}
        for action in self._to_come.values() if self._recorded is not None else ():
            try:
                status = self._worktree.lstat(action.path)
                if status is None or self._is_as_recorded(action, status):
                    continue
                found = self._look(action.path, status)
            except (OSError, UnsafePath):
                continue
            if found not in (None, action.before, action.after):
                changed[action.path] = (found, status)
        return changed

    def _is_as_recorded(self, action: Action, status: os.stat_result | None) -> bool:
        """True if stat data prove that the path is as the safety checkpoint has it."""
        if status is None:
            return action.before is None and action.after is not None
        recorded = self._recorded(action.path) if self._recorded is not None else None
        return recorded is not None and identity(recorded) == identity(status)

    def _look(self, path: bytes, status: os.stat_result | None) -> FileState | None:
        return None if status is None else look(self._objects, self._worktree, path, status)

    def _change(self, action: Action, found: os.stat_result | None) -> bool:
        if action.after is None:
            if found is None or not self._worktree.remove_file(action.path, found):
                return False
            self._note(action, None)
            return True
        status = self._put(action, action.after, found)
        if status is not None:
            self._note(action, status)
        return status is not None

    def _put(
        self, action: Action, after: FileState, found: os.stat_result | None
    ) -> os.stat_result | None:
        path, before = action.path, action.before
        if after.is_link:
            target = self._objects.read(after.entry.id, b"blob")
            return self._worktree.write_link(path, target, found)
        pieces = self._smudger.pieces(after)
        has_content = before is not None and before.entry.id == after.entry.id
        if has_content and self._is_still(path, after):
            status = self._set_permissions(path, after.permissions)
            if status is not None:  # else it has other names, and becomes a copy
                return status
        return self._worktree.write_file(path, pieces, after.permissions, found)

    def _is_unchanged(self, path: bytes, status: os.stat_result | None) -> bool:
        now = self._worktree.lstat(path)
        if now is None or status is None:
            return now is status
        return identity(now) == identity(status)

    def _is_still(self, path: bytes, wanted: FileState) -> bool:
        status = self._worktree.lstat(path)
        found = self._look(path, status)
        return found is not None and not found.is_link and found.entry.id == wanted.entry.id

    def _set_permissions(self, path: bytes, permissions: int) -> os.stat_result | None:
        try:
            return self._worktree.set_permissions(path, permissions)
        except OSError as error:
            if error.errno in _ANOTHER:
                raise UnreadableFile.changing() from error
            raise

    def _note(self, action: Action, status: os.stat_result | None) -> None:
        if action.after is None:
            self.done.removed.append(action.path)
            return
        self.done.written.append(action.path)
        if status is not None:
            self.done.files[action.path] = (action.after.git_entry, status)


def _parents(paths: Iterable[bytes]) -> set[bytes]:
    return {path.rpartition(b"/")[0] for path in paths}


def _why(error: OSError) -> str:
    return (error.strerror or "not permitted").lower()


def look(
    objects: ObjectStore,
    worktree: Worktree,
    path: bytes,
    status: os.stat_result,
    *,
    store: bool = False,
) -> FileState | None:
    """What a path holds now, by its content; None for a folder or a special file.

    With `store`, the content is added to the object store; any OSError but UnreadableFile is for
    want of room there. UnreadableFile if it cannot be read, or changes its length meanwhile.
    """
    if stat.S_ISLNK(status.st_mode):
        with _reading():
            target = worktree.link_target(path)
        add = objects.add if store else objects.hash
        return FileState(TreeEntry(SYMLINK, add(b"blob", target)), 0)
    if not stat.S_ISREG(status.st_mode):
        return None
    mode = EXECUTABLE if is_executable(status.st_mode) else REGULAR
    add_file = objects.add_file if store else objects.hash_file
    with _opened(worktree, path) as file:
        content = add_file(file.fileno(), os.fstat(file.fileno()).st_size)
    return FileState(TreeEntry(mode, content), stat.S_IMODE(status.st_mode) & 0o777)


def _opened(worktree: Worktree, path: bytes) -> io.FileIO:
    with _reading():
        return worktree.open(path)


@contextmanager
def _reading() -> Iterator[None]:
    """Tell a file that is gone, or another by now, from a disk on which nothing can be kept."""
    try:
        yield
    except OSError as error:
        if is_want(error):
            raise
        raise UnreadableFile(error.errno, error.strerror) from error


# -- The index

# An editor's `git status` may hold the lock for a moment, for which nobody stops half way.
_INDEX_PATIENCE = 1.0

_Result = TypeVar("_Result")


class IndexChanged(Busy):
    """Another process staged something at that very moment."""

    def __init__(self) -> None:
        super().__init__(
            "the index changed while the rollback ran",
            hint="'git ckpt rollback --continue' saves that change and finishes",
        )


def limited(target: Index, present: Index, limits: tuple[bytes, ...]) -> Index:
    """The target's entries inside the limits, the present ones outside, all of which stay."""
    if not limits:
        return target
    hindered = below_files(target, present, limits)
    inside = [e for e in target.entries if is_within(e.path, limits) and e.path not in hindered]
    stay = [e for e in present.entries if not is_within(e.path, limits)]
    return _of(present, inside + stay)


def below_files(target: Index, present: Index, limits: tuple[bytes, ...]) -> dict[bytes, bytes]:
    """Of the target's entries inside the limits, those below what is staged as a file outside
    them, each with that file: an index cannot hold both."""
    stay = {e.path for e in present.entries if not is_within(e.path, limits)}
    inside = (e.path for e in target.entries if is_within(e.path, limits))
    return {path: folder for path in inside for folder in folders_above(path) if folder in stay}


def without(index: Index, paths: Collection[bytes]) -> Index:
    """An index but for some paths, in none of whose stages anything is."""
    if not paths:
        return index
    entries = [entry for entry in index.entries if entry.path not in paths]
    return _of(index, entries)


def _of(index: Index, entries: list[IndexEntry]) -> Index:
    """The same index with other entries."""
    ordered = sorted(entries, key=lambda entry: (entry.path, entry.stage))
    return Index(ordered, hash_len=index.hash_len)


def needed_blobs(wanted: Index, present: Index) -> set[ObjectID]:
    """Blobs that the wanted index names and the present one does not."""
    held = {entry.id for entry in present.entries}
    return {
        ObjectID(entry.id)
        for entry in wanted.entries
        if entry.id not in held and entry.mode != GITLINK and not entry.intent_to_add
    }


def writes_converted(action: Action) -> bool:
    """Whether git would go by the size in the index, and take what was written for changed."""
    return any(s is not None and s.origin is not None for s in (action.before, action.after))


def restage(
    repo: Repository,
    wanted: Index,
    present: Staged,
    known: KnownFile,
) -> None:
    """Replace the index file; IndexChanged if another process did so since it was read."""
    if any(entry.intent_to_add for entry in wanted.entries):
        repo.objects.add(b"blob", b"")  # which such an entry names, and git reads
        repo.objects.flush()
    data = compose(wanted, present, known, repo.object_format.name)

    def unchanged() -> bool:
        return staging.same(staging.read_staged(repo).index, present.index)

    if not replace_locked(
        repo.index_path, data, repo.private_dir, unchanged, patience=_INDEX_PATIENCE
    ):
        raise IndexChanged


def until_settled(attempt: Callable[[], _Result]) -> _Result:
    """Read the index, save what is new in it and restage, again if somebody was quicker."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(IndexChanged):
            return attempt()
    return attempt()
