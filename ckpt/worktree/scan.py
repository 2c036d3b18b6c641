# SPDX-License-Identifier: MIT
"""Walk a worktree once and say what a checkpoint would hold.

Knows files, ignore rules and which paths are tracked; knows nothing of objects, and
reads no file's content but `.gitignore`. An ignored folder is never opened: tracked
files inside it are looked at one by one. Nothing is followed through a symbolic link.
What is neither taken nor ignored is listed with its reason.

The walk is given its rules and gives back plain data, so that a cache can stand in
for the file system or for the hashing that comes after.
"""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ckpt.models import SkipReason
from ckpt.paths import folders_above, folders_of
from ckpt.worktree.ignore import IgnoreStack, Rules, parse

# Files that a rollback has begun to write and not yet named.
TEMPORARY_PREFIX = b".ckpt-tmp-"
TEMPORARY_NAME = re.compile(rb"\.ckpt-tmp-[0-9a-f]{16}")

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ScanRules:
    """What decides whether a path is taken.

    `tracked` is sorted. `git_dirs` are git dirs of this repository inside its worktree.
    `deny` holds what must not be taken though it is not ignored (secrets, dependency
    folders), `include` what is taken although it is ignored (`include_paths`: the same,
    where no pattern is needed), `force` what is taken whatever the other rules say.
    """

    tracked: tuple[bytes, ...] = ()
    gitlinks: frozenset[bytes] = frozenset()
    git_dirs: frozenset[bytes] = frozenset()
    ignore: IgnoreStack = field(default_factory=IgnoreStack.root)
    deny: IgnoreStack = field(default_factory=IgnoreStack.root)
    include: IgnoreStack = field(default_factory=IgnoreStack.root)
    include_paths: tuple[bytes, ...] = ()
    ignore_case: bool = False
    max_file_size: int | None = None
    force: tuple[bytes, ...] = ()


@dataclass(slots=True)
class Scan:
    """What was found: files and links by path, with the stat data they were found with.

    `ignore_files` are the `.gitignore` files that were read, with their texts.
    """

    files: dict[bytes, os.stat_result] = field(default_factory=dict)
    gitlinks: list[bytes] = field(default_factory=list)
    empty_folders: list[bytes] = field(default_factory=list)
    skipped: dict[bytes, SkipReason] = field(default_factory=dict)
    ignore_files: dict[bytes, bytes] = field(default_factory=dict)


def scan(top: bytes, rules: ScanRules, progress: Progress | None = None) -> Scan:
    """Scan the worktree at `top`."""
    return _Walk(top, rules, progress).run()


class _Walk:
    def __init__(self, top: bytes, rules: ScanRules, progress: Progress | None) -> None:
        self._top = top
        self._rules = rules
        self._progress = progress
        self._tracked = frozenset(rules.tracked)
        self._tracked_folders = folders_of(rules.tracked) | folders_of(rules.gitlinks)
        self._found = Scan()

    def run(self) -> Scan:
        todo = [(b"", self._rules.ignore)]
        while todo:
            folder, ignore = todo.pop()
            todo.extend(self._folder(folder, ignore))
            if self._progress is not None:
                self._progress(len(self._found.files))
        for path in self._rules.include_paths:
            self._take_named(path, forced=False)
        for path in self._rules.force:
            self._take_named(path, forced=True)
        return self._found

    def _folder(self, folder: bytes, ignore: IgnoreStack) -> Iterator[tuple[bytes, IgnoreStack]]:
        """Take the files of one folder; yield the folders to walk below it."""
        try:
            with os.scandir(os.path.join(self._top, folder)) as listing:
                children = list(listing)
        except FileNotFoundError:
            return
        except OSError:
            self._leave_out(folder, SkipReason.UNREADABLE)
            return
        if not children and folder:
            self._found.empty_folders.append(folder)
        prefix = folder + b"/" if folder else b""
        names = {child.name for child in children}
        if folder and self._is_repository(folder, names):
            self._leave_out(folder, SkipReason.NESTED)
            return
        if b".gitignore" in names:
            ignore = ignore.enter(self._read_ignore_file(prefix))
        for child in children:
            path = prefix + child.name
            if child.name == b".git" or self._is_unfinished(path, child.name):
                continue
            if is_like_dot_git(child.name) and path not in self._tracked:
                self._found.skipped[path] = SkipReason.SPECIAL
                continue
            if not child.is_dir(follow_symlinks=False):
                self._take_file(path, child, ignore)
                continue
            included = self._rules.include.ignored(path, True) and ignore.ignored(path, True)
            inner = IgnoreStack.root() if included else ignore
            if self._enters(path, inner):
                yield path, inner

    def _is_repository(self, folder: bytes, names: set[bytes]) -> bool:
        """A repository of its own, or the git dir of one."""
        if b".git" in names and is_nested_repository(os.path.join(self._top, folder)):
            return True
        return names >= {b"HEAD", b"objects", b"refs"}

    def _is_unfinished(self, path: bytes, name: bytes) -> bool:
        """A temporary file of a rollback, which nobody else's file looks like."""
        return TEMPORARY_NAME.fullmatch(name) is not None and path not in self._tracked

    def _enters(self, path: bytes, ignore: IgnoreStack) -> bool:
        """Decide on a folder; one that is not entered still gives up its tracked files."""
        if path in self._rules.gitlinks:
            self._found.gitlinks.append(path)
            return False
        if ignore.ignored(path, True):
            self._take_tracked_below(path)
            return False
        if self._is_denied(path, True):
            self._leave_out(path, SkipReason.DENIED)
            return False
        return path not in self._rules.git_dirs

    def _leave_out(self, folder: bytes, reason: SkipReason) -> None:
        self._found.skipped[folder] = reason
        self._take_tracked_below(folder)

    def _take_file(self, path: bytes, child: os.DirEntry[bytes], ignore: IgnoreStack) -> None:
        tracked = path in self._tracked
        if not tracked and ignore.ignored(path, False) and not self._is_included(path):
            return
        try:
            status = child.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError:
            self._found.skipped[path] = SkipReason.UNREADABLE
            return
        reason = self._reason_to_skip(path, status, tracked)
        if reason is None:
            self._found.files[path] = status
        else:
            self._found.skipped[path] = reason

    def _reason_to_skip(
        self, path: bytes, status: os.stat_result, tracked: bool
    ) -> SkipReason | None:
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            return SkipReason.SPECIAL
        if tracked:
            return None
        if self._is_denied(path, False):
            return SkipReason.DENIED
        limit = self._rules.max_file_size
        if limit is not None and status.st_size > limit:
            return SkipReason.OVERSIZE
        return None

    def _is_included(self, path: bytes) -> bool:
        return self._rules.include.ignored(path, False)

    def _is_denied(self, path: bytes, is_folder: bool) -> bool:
        return self._rules.deny.ignored(path, is_folder)

    def _take_tracked_below(self, folder: bytes) -> None:
        """Look at each tracked path in a folder that is not walked."""
        if folder and folder not in self._tracked_folders:
            return
        prefix = folder + b"/" if folder else b""
        tracked = self._rules.tracked
        for position in range(bisect_left(tracked, prefix), len(tracked)):
            path = tracked[position]
            if not path.startswith(prefix):
                break
            self._take_tracked(path, folder)
        self._found.gitlinks += [p for p in self._rules.gitlinks if p.startswith(prefix)]

    def _take_tracked(self, path: bytes, folder: bytes) -> None:
        try:
            if not self._parents_are_folders(path, folder):
                return
            status = os.lstat(os.path.join(self._top, path))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError:
            self._found.skipped[path] = SkipReason.UNREADABLE
            return
        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            self._found.files[path] = status
        elif not stat.S_ISDIR(status.st_mode):
            self._found.skipped[path] = SkipReason.SPECIAL

    def _parents_are_folders(self, path: bytes, folder: bytes) -> bool:
        """A tracked path behind a symbolic link is gone, as git sees it."""
        return all(
            stat.S_ISDIR(os.lstat(os.path.join(self._top, parent)).st_mode)
            for parent in folders_above(path)
            if len(parent) > len(folder)
        )

    def _take_named(self, path: bytes, *, forced: bool) -> None:
        """Take a path that the walk left out, and all below it; if forced, against the rules:
        someone will overwrite it."""
        todo = [path] if self._can_be_reached(path) else []
        while todo:
            todo.extend(self._take_one(todo.pop(), forced))

    def _can_be_reached(self, path: bytes) -> bool:
        """False where a walk would not come: through a link, or inside a git dir or submodule."""
        if any(name in (b"", b".", b"..") or is_like_dot_git(name) for name in path.split(b"/")):
            return False
        if any(map(self._is_closed, folders_above(path))):
            return False
        try:
            return self._parents_are_folders(path, b"")
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # looking at the path itself will tell
            return True

    def _take_one(self, path: bytes, forced: bool) -> list[bytes]:
        """Take a file; give back what is in a folder."""
        place = os.path.join(self._top, path)
        try:
            status = os.lstat(place)
            if not stat.S_ISDIR(status.st_mode):
                self._take_named_file(path, status, forced)
            elif self._opens(path, forced):
                return [
                    inside
                    for name in os.listdir(place)
                    if not is_like_dot_git(name)
                    and not self._is_unfinished(inside := path + b"/" + name, name)
                ]
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            self._found.skipped[path] = SkipReason.UNREADABLE
        return []

    def _take_named_file(self, path: bytes, status: os.stat_result, forced: bool) -> None:
        reason = self._reason_to_skip(path, status, forced or path in self._tracked)
        if reason is None:
            self._found.files[path] = status
            self._found.skipped.pop(path, None)
        else:
            self._found.skipped[path] = reason

    def _opens(self, folder: bytes, forced: bool) -> bool:
        if self._is_closed(folder):
            return False
        if not forced and self._is_denied(folder, True):
            self._found.skipped[folder] = SkipReason.DENIED
            return False
        if is_nested_repository(os.path.join(self._top, folder)):
            self._found.skipped[folder] = SkipReason.NESTED
            return False
        return True

    def _is_closed(self, folder: bytes) -> bool:
        return folder in self._rules.gitlinks or folder in self._rules.git_dirs

    def _read_ignore_file(self, prefix: bytes) -> Rules | None:
        path = prefix + b".gitignore"
        text = read_plain_file(os.path.join(self._top, path))
        if text is None:
            return None
        self._found.ignore_files[path] = text
        return parse(text, prefix.rstrip(b"/"), ignore_case=self._rules.ignore_case)


def is_like_dot_git(name: bytes) -> bool:
    """A name that git keeps out of every tree, since some file system takes it for `.git`."""
    plain = name.lower().split(b":")[0].rstrip(b". ")
    return plain in (b".git", b"git~1")


def read_plain_file(path: bytes) -> bytes | None:
    """A file's content, if it is one; git follows no link to a `.gitignore`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        with open(fd, "rb", closefd=False) as file:
            return file.read()
    except OSError:
        return None
    finally:
        os.close(fd)


def is_nested_repository(path: bytes) -> bool:
    """True if a folder is a repository of its own: a `.git` file, or a git dir in `.git`."""
    dot_git = os.path.join(path, b".git")
    try:
        status = os.lstat(dot_git)
    except OSError:
        return False
    if stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode):
        return os.path.lexists(os.path.join(dot_git, b"HEAD"))
    text = read_plain_file(dot_git)
    return text is not None and text.startswith(b"gitdir:")
