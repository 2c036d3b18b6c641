# SPDX-License-Identifier: MIT
"""Apply a plan to the files and directories of a worktree, then to the index.

Each path is checked just before it changes. A path as in the safety checkpoint is replaced, one as
in the target is left, and any other is saved first, or left if it keeps changing. Applying a plan
twice has the same result, so a crash is harmless. All changes are flushed to disk before the caller
ends its journal. The index is written under git's lock, and keeps entries outside the paths.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from ckpt import disk
from ckpt.disk import holding, replace_held
from ckpt.engine.checkpoint import file_now
from ckpt.engine.conversions import Unrestorable, pieces
from ckpt.engine.journal import Action, FileState
from ckpt.engine.plan import OPEN, Plan
from ckpt.engine.working_state import Correction, Present
from ckpt.errors import Refused, is_want
from ckpt.git import index as staging
from ckpt.git.index import Index, compose
from ckpt.git.objects import ObjectStore, UnreadableFile
from ckpt.git.repository import Repository
from ckpt.git.trees import EXECUTABLE, REGULAR, SYMLINK, TreeEntry
from ckpt.paths import folders_above, is_within, to_str
from ckpt.worktree.cache import is_executable, stat_of
from ckpt.worktree.write import UnsafePath, Worktree

_ATTEMPTS = 4  # until a path that keeps changing is left
_LONGEST_LINK = 4095
IN_THE_WAY = "in the way"

# Errors for a single path, such as an unsupported name or link; other paths may succeed.
_LEFT_ALONE = (
    *(errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS),
    *(errno.EINVAL, errno.EILSEQ, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS),
    errno.ENAMETOOLONG,
)


@dataclass
class Applied:
    """What was done; `files` match the target now, with their stat data."""

    written: list[bytes] = field(default_factory=list)
    removed: list[bytes] = field(default_factory=list)
    blocked: dict[bytes, str] = field(default_factory=dict)
    files: dict[bytes, tuple[TreeEntry, os.stat_result]] = field(default_factory=dict)


@dataclass
class Applier:
    """One pass over a plan. `present` is the state in the safety checkpoint; `save` takes another
    one of files changed since."""

    repo: Repository
    worktree: Worktree
    present: Present
    save: Callable[[Present], Present]
    plan: Plan
    done: Applied = field(default_factory=Applied)
    _to_come: dict[bytes, Action] = field(default_factory=dict)

    # -- files

    def files(self) -> None:
        """Remove files and empty directories, then write, as a file may become a directory."""
        plan, worktree = self.plan, self.worktree
        for folder, *_ in plan.folders:  # make writable; `folders` sets the final permissions
            with suppress(PermissionError):  # paths below will be listed
                bits = worktree.folder_permissions(folder)
                if bits is not None and bits & OPEN != OPEN:
                    worktree.set_folder_permissions(folder, bits | OPEN)
        worktree.new_folders = {c.path: c.after for c in plan.folders if c.after is not None}
        self._to_come = {action.path: action for action in plan.actions}
        for action in plan.removals:
            self._one(action)
        for folder, _, bits in reversed(plan.folders):
            if bits is None:
                with self._leaving(folder, is_folder=True):
                    worktree.remove_folder(folder)
        for action in plan.writes:
            self._one(action)

    def _one(self, action: Action) -> None:
        with self._leaving(action.path):
            if not any(self._attempt(action) for _ in range(_ATTEMPTS)):
                self.done.blocked[action.path] = "changing"
        self._to_come.pop(action.path)

    @contextmanager
    def _leaving(self, path: bytes, *, is_folder: bool = False) -> Iterator[None]:
        """List a path as blocked if it cannot be changed; a directory only if no path in it is."""
        try:
            yield
        except (NotADirectoryError, IsADirectoryError, FileExistsError, UnsafePath):
            self.done.blocked[path] = IN_THE_WAY
        except Unrestorable as error:
            self.done.blocked[path] = str(error)
        except OSError as error:
            if error.errno not in _LEFT_ALONE:
                raise
            below = (other.startswith(path + b"/") for other in self.done.blocked)
            if not (is_folder and any(below)):
                self.done.blocked[path] = (error.strerror or "not permitted").lower()

    def _attempt(self, action: Action) -> bool:
        """Change a path, or list it as blocked; return False if it changed meanwhile."""
        path, after = action.path, action.after
        status = self.worktree.lstat(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            if after is not None and not self.worktree.remove_folder(path):
                self.done.blocked[path] = IN_THE_WAY
                return True
            status = None
        try:
            if status is not None and self.present.status(path) != stat_of(status):
                found = look(self.repo.objects, self.worktree, path, status)
                if found is None:
                    self.done.blocked[path] = "special"
                    return True
                if after is not None and found == after:
                    self.done.files[path] = (after.entry, status)
                    return True
                if found != file_now(self.present, path):
                    self._save_changed()
                    return False
            return self._change(action, status)
        except UnreadableFile:  # it may have changed just now
            return False

    def _save_changed(self) -> None:
        """Save the remaining paths whose stat data has changed."""
        objects = self.repo.objects
        files = stored(objects, self.worktree, self.present, self._to_come)
        self.present = self.save(self.present.with_files(objects, files))

    def _change(self, action: Action, found: os.stat_result | None) -> bool:
        path, after, worktree = action.path, action.after, self.worktree
        if after is None:
            if found is not None:
                if not worktree.remove_file(path, found):
                    return False
                self.done.removed.append(path)
            return True
        if after.is_link:
            status = worktree.write_link(path, link_target(self.repo.objects, after), found)
        else:
            content = pieces(self.repo, after)
            status = worktree.write_file(path, content, after.permissions, found)
        if status is None:
            return False
        self.done.written.append(path)
        self.done.files[path] = (after.entry, status)
        return True

    # -- directories

    def folders(self) -> None:
        """Create empty directories, then set permissions, innermost first."""
        for path, before, after in self.plan.folders:
            if before is None and after is not None:
                with self._leaving(path, is_folder=True):
                    self.worktree.make_folder(path)
        for path, before, after in reversed(self.plan.folders):
            # A directory that could not be removed gets its old permissions back.
            bits = before if after is None else after
            if bits is not None:
                with self._leaving(path, is_folder=True):
                    self.worktree.set_folder_permissions(path, bits)

    def sync(self, paths: Iterable[bytes]) -> None:
        """Flush files, and the directories that contain them, to disk."""
        files, folders = {*paths}, {change.path for change in self.plan.folders}
        changed = files | folders
        folders |= {path.rpartition(b"/")[0] for path in changed}
        if not disk.sync_instead_of(len(files) + len(folders)):
            for path in sorted(files) + sorted(folders):
                self.worktree.sync(path)

    # -- the index

    def restage(self, target: Index, limits: tuple[bytes, ...]) -> None:
        """Replace the index, after saving entries staged since it was captured."""
        repo, objects = self.repo, self.repo.objects
        with holding(repo.index_path, repo.private_dir):
            staged = staging.read_staged(repo)
            if not staging.same(staged, self.present.staged):
                self.present = self.save(self.present.with_index(objects, staged))
            wanted = limited(target, staged, limits)
            if any(entry.intent_to_add for entry in wanted.entries):
                objects.add(b"blob", b"")  # named by intent-to-add entries, and read by git
                objects.flush()
            data = compose(wanted, staged, self.done.files.get, repo.object_format.name)
            replace_held(repo.index_path, data, repo.private_dir)


def link_target(objects: ObjectStore, state: FileState) -> bytes:
    """Return the target of a symbolic link; raise Unrestorable if it is invalid."""
    if (objects.size(state.id) or 0) <= _LONGEST_LINK:
        target = objects.read(state.id, b"blob")
        if target and b"\0" not in target:
            return target
    raise Unrestorable("no file system takes this link target")


def look(
    objects: ObjectStore,
    worktree: Worktree,
    path: bytes,
    status: os.stat_result,
    *,
    store: bool = False,
) -> FileState | None:
    """Return the state of a path on disk; None for a directory or a special file.

    With `store`, add the content to the object store. UnreadableFile means that the file cannot be
    read or changed meanwhile, any other OSError that the object store cannot be written.
    """
    if stat.S_ISLNK(status.st_mode):
        with _reading():
            target = worktree.link_target(path)
        add = objects.add if store else objects.hash
        return FileState.of(TreeEntry(SYMLINK, add(b"blob", target)), 0)
    if not stat.S_ISREG(status.st_mode):
        return None
    mode = EXECUTABLE if is_executable(status.st_mode) else REGULAR
    add_file = objects.add_file if store else objects.hash_file
    with _reading():
        file = worktree.open(path)
    with file:
        content = add_file(file.fileno(), os.fstat(file.fileno()).st_size)
    return FileState.of(TreeEntry(mode, content), stat.S_IMODE(status.st_mode) & 0o777)


def stored(
    objects: ObjectStore, worktree: Worktree, present: Present, paths: Iterable[bytes]
) -> dict[bytes, Correction]:
    """Add changed files to the object store; skip those with the stat data of the present, and
    unreadable ones."""
    files: dict[bytes, Correction] = {}
    for path in paths:
        try:
            status = worktree.lstat(path)
            if status is None or present.status(path) == stat_of(status):
                continue
            state = look(objects, worktree, path, status, store=True)
        except (UnreadableFile, UnsafePath):
            continue
        if state is not None:
            files[path] = state.entry, stat_of(status)
    return files


@contextmanager
def _reading() -> Iterator[None]:
    """Convert errors of the file to UnreadableFile, but not a lack of resources."""
    try:
        yield
    except OSError as error:
        if is_want(error):
            raise
        raise UnreadableFile(error.errno, error.strerror) from error


# -- The index, limited to paths


def limited(target: Index, present: Index, limits: tuple[bytes, ...]) -> Index:
    """Return the target's entries within the limits, and the present ones outside."""
    if not limits:
        return target
    inside = [entry for entry in target.entries if is_within(entry.path, limits)]
    stay = [entry for entry in present.entries if not is_within(entry.path, limits)]
    files = {entry.path for entry in stay}
    for path in (entry.path for entry in inside):
        for folder in folders_above(path):
            if folder in files:  # an index cannot hold both
                raise Refused(
                    f"'{to_str(folder)}' is staged, so '{to_str(path)}' cannot be",
                    hint="repeat the command with --no-index, which leaves what is staged",
                )
    return Index(sorted(inside + stay, key=lambda entry: (entry.path, entry.stage)))
