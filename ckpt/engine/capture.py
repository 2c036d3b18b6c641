# SPDX-License-Identifier: MIT
"""The present: what is on disk, in the index and at HEAD, at one moment.

Takes tracked and untracked files with their exact bytes, links, permission bits, empty
folders, the index, HEAD and whether an operation is under way. Ignored files, secrets,
dependency folders, oversize untracked files, nested repositories and special files are
left out, the last five by name. Contents come from git's index where its stat data
prove them, or any other `KnownContents`; everything else is read.

Blobs go to the object store that is passed in. Nothing else is written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ckpt.engine.rules import scan_rules
from ckpt.models import SkipReason
from ckpt.paths import folders_above, folders_of, to_str
from ckpt.settings import Settings
from ckpt.store.index import IndexEntry, matches
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.operation import Operation, in_progress
from ckpt.store.refs import Head
from ckpt.store.repository import Repository, nested_head
from ckpt.store.staging import Staged, index_mtime, read_staged
from ckpt.store.trees import EXECUTABLE, GITLINK, REGULAR, SYMLINK, TreeEntry
from ckpt.worktree import modes
from ckpt.worktree.convert import converts
from ckpt.worktree.scan import Scan, read_plain_file, scan

_READ_ATTEMPTS = 4


class KnownContents(Protocol):
    """Something that knows a file's blob from its stat data: git's index, or a cache."""

    def entry(self, path: bytes, status: os.stat_result) -> TreeEntry | None: ...


@dataclass(slots=True)
class Present:
    """The working state as captured; blobs of `entries` are in the object store.

    `absent` are entries that a sparse checkout leaves out: unchanged, but not on disk.
    """

    entries: dict[bytes, TreeEntry]
    stats: dict[bytes, os.stat_result]
    empty_folders: tuple[bytes, ...]
    skipped: dict[bytes, SkipReason]
    excludes: dict[str, bytes]
    staged: Staged
    head: Head
    operation: Operation | None
    absent: set[bytes]

    @property
    def unskipped(self) -> tuple[bytes, ...]:
        """Paths that are marked skip-worktree and on disk all the same."""
        marked = {entry.path for entry in self.staged.index.entries if entry.skip_worktree}
        return tuple(sorted(marked - self.absent))

    @property
    def is_partial(self) -> bool:
        return SkipReason.UNREADABLE in self.skipped.values()

    @property
    def modes(self) -> modes.Modes:
        return modes.collect(
            {
                path: stat.S_IMODE(status.st_mode) & 0o777
                for path, status in self.stats.items()
                if stat.S_ISREG(status.st_mode)
            },
            {path for path, entry in self.entries.items() if entry.mode == EXECUTABLE},
        )


class IndexContents:
    """What git's index proves about files, in a worktree without conversions.

    Even there a file may have been converted by rules that are gone, or its blob be
    missing: so its size must be its blob's.
    """

    def __init__(
        self, staged: Staged, objects: ObjectStore, *, trust_ctime: bool, file_mode: bool
    ) -> None:
        self._staged = staged
        self._objects = objects
        self._entries = {e.path: e for e in staged.index.entries if e.stage == 0}
        self._trust_ctime = trust_ctime
        self._file_mode = file_mode

    def entry(self, path: bytes, status: os.stat_result) -> TreeEntry | None:
        found = self._entries.get(path)
        if found is None or self._staged.is_racy(found) or not self._proves(found, status):
            return None
        entry = TreeEntry(found.mode, ObjectID(found.id))
        return entry if self._objects.size(entry.id) == status.st_size else None

    def _proves(self, entry: IndexEntry, status: os.stat_result) -> bool:
        return matches(entry, status, trust_ctime=self._trust_ctime, file_mode=self._file_mode)


class _Nothing:
    def entry(self, path: bytes, status: os.stat_result) -> TreeEntry | None:
        return None


def capture(
    repo: Repository,
    settings: Settings,
    objects: ObjectStore,
    *,
    force: tuple[bytes, ...] = (),
    progress: Callable[[int], None] | None = None,
) -> Present:
    """Capture the worktree of `repo`, and the paths of `force` whatever the rules say.

    If git moves HEAD or rewrites the index meanwhile, files of two states would mix: the
    capture is taken again, a few times at most.
    """
    for _ in range(_READ_ATTEMPTS):
        present = _capture(repo, settings, objects, force, progress)
        if present.head == repo.refs.head() and present.staged.mtime_ns == index_mtime(repo):
            break
    return present


def _capture(
    repo: Repository,
    settings: Settings,
    objects: ObjectStore,
    force: tuple[bytes, ...],
    progress: Callable[[int], None] | None,
) -> Present:
    staged = read_staged(repo)
    head = repo.refs.head()
    rules, excludes = scan_rules(repo, settings, staged, force)
    top = os.fsencode(repo.worktree)
    found = scan(top, rules, progress)
    reader = _Reader(
        top, objects, _known_contents(repo, staged, found), _modes_by_git(repo, staged)
    )
    reader.take(found)
    reader.take_gitlinks(found, staged)
    absent = _add_sparse(reader.entries, staged, found)
    # A .gitignore may ignore itself; what it said decides what a later rollback keeps.
    hidden = found.ignore_files.keys() - reader.entries.keys()
    excludes |= {to_str(path): found.ignore_files[path] for path in sorted(hidden)}
    return Present(
        entries=reader.entries,
        stats=reader.stats,
        empty_folders=tuple(sorted(found.empty_folders)),
        skipped=dict(sorted(found.skipped.items())),
        excludes=excludes,
        staged=staged,
        head=head,
        operation=in_progress(repo.git_dir),
        absent=absent,
    )


def _known_contents(repo: Repository, staged: Staged, found: Scan) -> KnownContents:
    if converts(repo.config.get("core.autocrlf"), _attribute_texts(repo, found)):
        return _Nothing()
    return IndexContents(
        staged,
        repo.objects,
        trust_ctime=repo.config.get_bool("core.trustctime", True),
        file_mode=repo.config.get_bool("core.filemode", True),
    )


def _attribute_texts(repo: Repository, found: Scan) -> list[bytes]:
    """Every attributes file that git might read; those in the worktree may be untracked."""
    top = os.fsencode(repo.worktree)
    paths = [
        os.path.join(top, path)
        for path in found.files
        if path.rpartition(b"/")[2] == b".gitattributes"
    ]
    config_home = repo.env.get("XDG_CONFIG_HOME") or os.path.join(
        repo.env.get("HOME", ""), ".config"
    )
    for name in (
        repo.config.get_path("core.attributesfile") or os.path.join(config_home, "git/attributes"),
        os.path.join(repo.common_dir, "info/attributes"),
        "/etc/gitattributes",
    ):
        paths.append(os.fsencode(name))
    return [text for text in map(read_plain_file, paths) if text]


def _modes_by_git(repo: Repository, staged: Staged) -> dict[bytes, int] | None:
    """Without core.fileMode the index, not the file system, says what is executable."""
    if repo.config.get_bool("core.filemode", True):
        return None
    return {entry.path: entry.mode for entry in staged.index.entries if entry.stage == 0}


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
        modes_by_git: dict[bytes, int] | None,
    ) -> None:
        self._top = top
        self._objects = objects
        self._known = known
        self._modes_by_git = modes_by_git
        self.entries: dict[bytes, TreeEntry] = {}
        self.stats: dict[bytes, os.stat_result] = {}

    def take(self, found: Scan) -> None:
        for path, status in found.files.items():
            entry = self._known.entry(path, status)
            if entry is None:
                try:
                    data, status = read_stable(os.path.join(self._top, path))
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except (OSError, _Unstable):
                    found.skipped[path] = SkipReason.UNREADABLE
                    continue
                entry = TreeEntry(self._mode(path, status), self._objects.add(b"blob", data))
            self.entries[path] = entry
            self.stats[path] = status

    def take_gitlinks(self, found: Scan, staged: Staged) -> None:
        recorded = {e.path: e.id for e in staged.index.entries if e.mode == GITLINK}
        for path in found.gitlinks:
            commit = nested_head(os.path.join(self._top, path)) or recorded.get(path)
            if commit is not None:
                self.entries[path] = TreeEntry(GITLINK, ObjectID(commit))

    def _mode(self, path: bytes, status: os.stat_result) -> int:
        if stat.S_ISLNK(status.st_mode):
            return SYMLINK
        if self._modes_by_git is not None:
            return self._modes_by_git.get(path, REGULAR)
        return EXECUTABLE if modes.is_executable(status.st_mode) else REGULAR


class _Unstable(Exception):
    """A file that changed each time it was read."""


def read_stable(path: bytes) -> tuple[bytes, os.stat_result]:
    """A file's or link's content and the stat data that it had before and after."""
    for _ in range(_READ_ATTEMPTS):
        before = os.lstat(path)
        if stat.S_ISLNK(before.st_mode):
            data, after = os.readlink(path), os.lstat(path)
        else:
            data, before, after = _read_file(path)
        if identity(before) == identity(after) and len(data) == after.st_size:
            return data, after
    raise _Unstable(path)


def _read_file(path: bytes) -> tuple[bytes, os.stat_result, os.stat_result]:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise _Unstable(path)
        with open(fd, "rb", closefd=False) as file:
            return file.read(), before, os.fstat(fd)
    finally:
        os.close(fd)


def identity(status: os.stat_result) -> tuple[int, ...]:
    """What changes when a file's content or mode does."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
