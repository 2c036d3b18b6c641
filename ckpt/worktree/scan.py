# SPDX-License-Identifier: MIT
"""Walk a worktree once and say what a checkpoint would hold.

Knows files, ignore rules and which paths are tracked; knows nothing of objects, and
reads no file's content but `.gitignore`. An ignored folder is never opened: tracked
files inside it are looked at one by one. Nothing is followed through a symbolic link.
What is neither taken nor ignored is listed with its reason. Left out: which rules there are.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from time import monotonic
from typing import NamedTuple

from ckpt import paths
from ckpt.git.rules import Everything, IgnoreStack, Rules, is_gitmodules, is_like_dot_git, parse
from ckpt.models import SkipReason
from ckpt.paths import (
    IN_GIT_DIR,
    folders_above,
    folders_of,
    is_nested_repository,
    is_repository,
    is_within,
    read_plain_file,
)
from ckpt.worktree.write import is_unfinished

# How the names begin of what a rollback has begun to write, and of all that git keeps out of trees.
_OURS_OR_GITS = b".gG"

# In an ignored folder nothing is brought back; but what is tracked or included is taken.
_EVERYTHING = Everything()

Progress = Callable[[int, int], None]


class Scan:
    """What was found: files and links by path, with the stat data they were found with.

    `folders` are those that were walked or hold what was taken, with their permission bits;
    not the top, which is no part of what it holds. `ignore_files` are the `.gitignore` files
    that were read, with their texts. `untracked` are the files that were not forced in and
    that git does not track.

    The rest tells the next scan what has changed. `walked` are the folders that were listed,
    with stat data from before, and the folders in each that are to be looked into. A folder of
    `unsure` has to be listed again even if its stat data are the same. `watched` are files that
    decided on something, taken or not: their stat data. `attribute_files` are the
    `.gitattributes` that the walk came by. `is_cut` if the time was up before everything was
    looked at. `vanished` is what a folder named and was gone a moment later: removed, or moved.
    """

    def __init__(self) -> None:
        self.files: dict[bytes, os.stat_result] = {}
        self.untracked: set[bytes] = set()
        self.folders: dict[bytes, int] = {}
        self.gitlinks: list[bytes] = []
        self.empty_folders: list[bytes] = []
        self.skipped: dict[bytes, SkipReason] = {}
        self.ignore_files: dict[bytes, bytes] = {}
        self.walked: dict[bytes, tuple[os.stat_result, list[bytes]]] = {}
        self.unsure: set[bytes] = set()
        self.attribute_files: set[bytes] = set()
        self.watched: dict[bytes, os.stat_result] = {}
        self.is_cut = False
        self.vanished: set[bytes] = set()

    def miss(self, path: bytes) -> None:
        """Note what vanished. It may come back with all times of its folder as they were, if it
        was one further up that was moved."""
        self.vanished.add(path)
        self.unsure.add(_parent(path))

    def leave_for_later(self, path: bytes) -> None:
        """List a path, a file or all of a folder, that there was no time for."""
        self.skipped[path] = SkipReason.BUDGET
        self.unsure.add(_parent(path))
        self.is_cut = True


class ScanRules(NamedTuple):
    """What decides whether a path is taken.

    `tracked` is sorted. `git_dirs` are git dirs of this repository inside its worktree.
    `deny` holds what must not be taken though it is not ignored (secrets, dependency
    folders), `include` what is taken although it is ignored (`include_paths`: the same,
    where no pattern is needed; `include_roots`: folders to look in although they are
    ignored), `force` what is taken whatever the other rules say. `absent_ignore_files`
    are `.gitignore` files by path that count where there is none on disk. `unfinished` is the
    rollback that was interrupted here, if one was: the files that it had begun are not taken.
    """

    tracked: tuple[bytes, ...] = ()
    gitlinks: frozenset[bytes] = frozenset()
    git_dirs: frozenset[bytes] = frozenset()
    ignore: IgnoreStack = IgnoreStack()
    deny: IgnoreStack = IgnoreStack()
    include: IgnoreStack = IgnoreStack()
    include_paths: tuple[bytes, ...] = ()
    include_roots: tuple[bytes, ...] = ()
    ignore_case: bool = False
    max_file_size: int | None = None
    force: tuple[bytes, ...] = ()
    absent_ignore_files: Mapping[bytes, bytes] = {}
    unfinished: bytes | None = None


class Deadline:
    """The end of the time that a save may take: so many seconds from now."""

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    @property
    def is_over(self) -> bool:
        return self._clock() >= self._end

    def left(self) -> float:
        """Seconds; 0 when it is over."""
        return max(self._end - self._clock(), 0.0)


# -- Secrets and folders of dependencies

_ENDINGS = (b"~", b".bak", b".old", b".orig", b".save", b"#")
_COPY = rb"(?is)#(.+)#|(.+?)(?:\.~[0-9]+~|~|\.bak|\.old|\.orig|\.save)"
# Vim puts a dot before the name of a file, but for that of a swap file if there is one already.
_OF_VIM = rb"(?is)(\.(.+))\.(?:s[a-w][a-z]|un~)"


class Denials(IgnoreStack):
    """What is not taken though it is not ignored, nor an editor's copy of it. `others` count more
    than `secrets`, which are read without case: they may take back some."""

    __slots__ = ("_others", "_secrets")

    def __init__(self, secrets: Rules, others: Rules) -> None:
        super().__init__((others, secrets))
        self._secrets = secrets
        self._others = others

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        decision = self._decide(path, is_dir)
        if decision is None and (path.lower().endswith(_ENDINGS) or path[-4:-2] in (b".s", b".S")):
            # A copy of a dependency folder is not denied: no tool fills it again.
            for original in _originals(path):
                decision = self._decide(original, is_dir)
                if is_dir and decision:
                    decision = self._secrets.decide(original.lower(), True)
                if decision is not None:
                    break
        return decision is True

    def _decide(self, path: bytes, is_dir: bool) -> bool | None:
        decision = self._others.decide(path, is_dir)
        return self._secrets.decide(path.lower(), is_dir) if decision is None else decision


def _originals(path: bytes) -> Iterator[bytes]:
    """What a path may be a copy of, by its name, or a copy of a copy of."""
    folder, slash, name = path.rpartition(b"/")
    for _ in range(3):
        if found := re.fullmatch(_OF_VIM, name):
            yield folder + slash + found[2]
            name = found[1]
        elif found := re.fullmatch(_COPY, name):
            name = found[1] or found[2]
        else:
            return
        yield folder + slash + name


# -- The walk


def scan(
    top: bytes,
    rules: ScanRules,
    progress: Progress | None = None,
    deadline: Deadline | None = None,
) -> Scan:
    """Scan the worktree at `top`; after the deadline, only the folders that hold tracked files."""
    walk = Walk(top, rules, progress, deadline)
    walk.below(b"", rules.ignore)
    for path in rules.include_paths:
        walk.take_named(path, forced=False)
    for path in rules.force:
        walk.take_named(path, forced=True)
    return walk.found


class Walk:
    """A scan step by step: of a folder with all below it, or of the folder alone."""

    def __init__(
        self,
        top: bytes,
        rules: ScanRules,
        progress: Progress | None,
        deadline: Deadline | None = None,
    ) -> None:
        self.rules = rules
        self._progress = progress
        self._deadline = deadline
        self._includes = bool(rules.include)
        self._base = os.path.join(top, b"")
        self._tracked = frozenset(rules.tracked)
        # With core.ignoreCase, git takes a file for tracked under any case of its name.
        self._folded = {path.lower() for path in rules.tracked} if rules.ignore_case else set()
        self._gitlinks = sorted(rules.gitlinks)
        self.found = Scan()

    def below(
        self, folder: bytes, ignore: IgnoreStack, status: os.stat_result | None = None
    ) -> None:
        """Walk a folder and everything in it; `ignore` are the rules outside it."""
        todo = [(folder, ignore, status)]
        while todo:
            folder, ignore, status = todo.pop()
            if self._deadline is not None and self._is_too_late_for(folder):
                self.found.leave_for_later(folder)
                continue
            todo.extend(self.folder(folder, ignore, status))
            if self._progress is not None:
                self._progress(len(self.found.files), 0)

    def _is_too_late_for(self, folder: bytes) -> bool:
        """Tracked files are looked at however late it is."""
        if self._deadline is None or not self._deadline.is_over or not folder:
            return False
        spelt = folder.lower() if self.rules.ignore_case else folder
        return spelt not in self._tracked_folders

    @cached_property
    def _tracked_folders(self) -> set[bytes]:
        tracked = [*self.rules.tracked, *(path + b"/" for path in self._gitlinks)]
        return folders_of(map(bytes.lower, tracked) if self.rules.ignore_case else tracked)

    def folder(
        self, folder: bytes, ignore: IgnoreStack, status: os.stat_result | None = None
    ) -> Iterator[tuple[bytes, IgnoreStack, os.stat_result]]:
        """Take the files of one folder; yield the folders to walk below it."""
        found, place = self.found, self._base + folder
        try:
            status = status or paths.lstat(place)
            children = paths.children(place)
        except FileNotFoundError:
            if folder:  # which the one above had named
                found.miss(folder)
            return
        except OSError:
            self._leave_out(folder, SkipReason.UNREADABLE)
            return
        if not children and folder in self.rules.gitlinks:  # not initialised
            return
        inside: list[bytes] = []
        found.walked[folder] = status, inside
        prefix = folder + b"/" if folder else b""
        names = {child.name for child in children}
        if folder:
            found.folders[folder] = status.st_mode & 0o777
            if not children and ignore is not _EVERYTHING:
                found.empty_folders.append(folder)
            if b".git" in names:  # it may become a repository with no change to the folder
                found.unsure.add(folder)
            if (b".git" in names and is_nested_repository(place)) or names >= IN_GIT_DIR:
                self._leave_out(folder, SkipReason.NESTED)
                return
        if b".gitattributes" in names:
            found.attribute_files.add(prefix + b".gitattributes")
        if ignore is not _EVERYTHING:
            ignore = self._enter(prefix, names, ignore)
        for child in children:
            name = child.name
            path = prefix + name
            if name[0] in _OURS_OR_GITS and self._is_ours_or_gits(path, child):
                continue
            if not child.is_dir(follow_symlinks=False):
                self._take_file(path, child, ignore)
                continue
            inner = self._ignore_within(path, ignore)
            if not self._enters(path, inner):
                continue
            try:
                status = child.stat(follow_symlinks=False)
            except FileNotFoundError:
                found.miss(path)
            except OSError:
                self._leave_out(path, SkipReason.UNREADABLE)
            else:
                inside.append(name)
                yield path, inner, status

    # -- rules

    def _enter(self, prefix: bytes, names: set[bytes], ignore: IgnoreStack) -> IgnoreStack:
        """The rules in a folder: with those of its own ignore file, on disk or left out."""
        path = prefix + b".gitignore"
        text = self.rules.absent_ignore_files.get(path)
        if b".gitignore" in names:
            place = self._base + path
            text = read_plain_file(place)
            try:
                self.found.watched[path] = paths.lstat(place)
            except OSError:
                text = None
            if text is None:
                self.found.unsure.add(prefix[:-1])
            else:
                self.found.ignore_files[path] = text
        if text is None:
            return ignore
        return ignore.enter(parse(text, prefix[:-1], ignore_case=self.rules.ignore_case))

    def _ignore_within(self, path: bytes, ignore: IgnoreStack) -> IgnoreStack:
        """Nothing is ignored in an ignored folder that is included, and everything else in one
        that is looked through for what is."""
        if self._includes and ignore.ignored(path, True):
            if self.rules.include.ignored(path, True):
                return IgnoreStack()
            if leads_to(path, self.rules.include_roots):
                return _EVERYTHING
        return ignore

    def _is_ours_or_gits(self, path: bytes, child: paths.Child) -> bool:
        """A git dir, a file that a rollback has begun, or a name that no tree may hold."""
        if child.name == b".git" or self._is_unfinished(path, child):
            return True
        if not is_like_dot_git(child.name) or path in self._tracked:
            return False
        self.found.skipped[path] = SkipReason.SPECIAL
        return True

    def _is_unfinished(self, path: bytes, child: paths.Child) -> bool:
        """A file that the interrupted rollback has begun, and that is not tracked. Without its
        journal it is a file like any other, and that changes nothing about its folder."""
        if not is_unfinished(child.name, self.rules.unfinished) or path in self._tracked:
            return False
        self.found.unsure.add(_parent(path))
        return not child.is_dir(follow_symlinks=False)

    def _enters(self, path: bytes, ignore: IgnoreStack) -> bool:
        """Decide on a folder; one that is not entered still gives up its tracked files."""
        if path not in self.rules.gitlinks:
            return self._is_open(path, ignore)
        self.found.gitlinks.append(path)
        self.found.unsure.add(_parent(path))
        if not is_nested_repository(self._base + path) and self._is_open(path, ignore):
            self.below(path, ignore)  # now: what is in it decides on the gitlink
        return False

    def _is_open(self, path: bytes, ignore: IgnoreStack) -> bool:
        if ignore is not _EVERYTHING and ignore.ignored(path, True):
            self._take_tracked_below(path)
            return False
        if self.rules.deny.ignored(path, True):
            self._leave_out(path, SkipReason.DENIED)
            return False
        return path not in self.rules.git_dirs

    def _leave_out(self, folder: bytes, reason: SkipReason) -> None:
        self.found.skipped[folder] = reason
        self.found.folders.pop(folder, None)
        if reason is not SkipReason.DENIED:
            self.found.unsure |= {folder, _parent(folder)}
        self._take_tracked_below(folder)

    # -- files

    def _take_file(self, path: bytes, child: paths.Child, ignore: IgnoreStack) -> None:
        tracked = path in self._tracked or path.lower() in self._folded
        if (
            not tracked
            and ignore.ignored(path, False)
            and not self.rules.include.ignored(path, False)
        ):
            return
        try:
            status = child.stat(follow_symlinks=False)
        except FileNotFoundError:
            self.found.miss(path)
        except OSError:
            self.found.skipped[path] = SkipReason.UNREADABLE
            self.found.unsure.add(_parent(path))
        else:
            self._sort(path, status, tracked)

    def _sort(self, path: bytes, status: os.stat_result, tracked: bool) -> None:
        """Take what is no folder, or list it with the reason why not."""
        limit, found = self.rules.max_file_size, self.found
        if not _is_storable(path, status.st_mode):
            found.skipped[path] = SkipReason.SPECIAL
        elif tracked:
            found.files[path] = status
        elif self.rules.deny.ignored(path, False):
            found.skipped[path] = SkipReason.DENIED
        elif limit is not None and status.st_size > limit:
            found.skipped[path] = SkipReason.OVERSIZE
            found.watched[path] = status
        else:
            found.files[path] = status
            found.untracked.add(path)

    def _take_tracked_below(self, folder: bytes) -> None:
        """Look at each tracked path in a folder that is not walked."""
        prefix = folder + b"/" if folder else b""
        tracked = [*_beginning_with(prefix, self.rules.tracked)]
        gitlinks = [*_beginning_with(prefix, self._gitlinks)]
        for path in tracked:
            try:
                if not self._parents_are_folders(path, folder):
                    continue
                status = paths.lstat(self._base + path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                self.found.skipped[path] = SkipReason.UNREADABLE
                continue
            if not stat.S_ISDIR(status.st_mode):
                self._sort(path, status, True)
        self.found.gitlinks += gitlinks
        if tracked or gitlinks:  # these are looked at only from here
            self.found.unsure.add(_parent(folder))

    def _parents_are_folders(self, path: bytes, folder: bytes) -> bool:
        """A tracked path behind a symbolic link is gone, as git sees it."""
        for parent in folders_above(path):
            if len(parent) >= len(folder) and parent not in self.found.folders:
                mode = paths.lstat(self._base + parent).st_mode
                if not stat.S_ISDIR(mode):
                    return False
                self.found.folders[parent] = mode & 0o777
        return True

    # -- what the rules name, whatever the walk made of it

    def take_named(self, path: bytes, *, forced: bool) -> None:
        """Take a path and all below it."""
        todo = [path] if self._can_be_reached(path) else []
        while todo:
            inside = todo.pop()
            try:
                status = paths.lstat(self._base + inside)
                if stat.S_ISDIR(status.st_mode):
                    if self._may_open(inside, forced):
                        todo += self._children(inside, status, forced)
                    continue
            except (FileNotFoundError, NotADirectoryError):
                if inside != path:
                    self.found.miss(inside)
                continue
            except OSError:
                self.found.skipped[inside] = SkipReason.UNREADABLE
                continue
            self.found.skipped.pop(inside, None)
            self.found.untracked.discard(inside)
            self._sort(inside, status, forced or inside in self._tracked)

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

    def _children(self, folder: bytes, status: os.stat_result, forced: bool) -> Iterator[bytes]:
        self.found.folders[folder] = status.st_mode & 0o777
        children = paths.children(self._base + folder)
        if forced and not children and folder not in self.found.empty_folders:
            self.found.empty_folders.append(folder)
        for child in children:
            path = folder + b"/" + child.name
            if not is_like_dot_git(child.name) and not self._is_unfinished(path, child):
                yield path

    def _may_open(self, folder: bytes, forced: bool) -> bool:
        if self._is_closed(folder):
            return False
        if not forced and self.rules.deny.ignored(folder, True):
            self.found.skipped[folder] = SkipReason.DENIED
            return False
        if not forced and self._is_too_late_for(folder):
            self.found.leave_for_later(folder)
            return False
        if is_repository(self._base + folder):
            self.found.skipped[folder] = SkipReason.NESTED
            return False
        return True

    def _is_closed(self, folder: bytes) -> bool:
        if folder in self.rules.gitlinks:
            return is_nested_repository(self._base + folder)
        return folder in self.rules.git_dirs


def _parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _is_storable(path: bytes, mode: int) -> bool:
    """A file, or a link in a place where git accepts one."""
    if not stat.S_ISLNK(mode):
        return stat.S_ISREG(mode)
    return not is_gitmodules(path.rpartition(b"/")[2])


def leads_to(folder: bytes, roots: tuple[bytes, ...]) -> bool:
    """Whether a folder is above one of some folders, or below it."""
    return any(is_within(root, (folder,)) or is_within(folder, (root,)) for root in roots)


def _beginning_with(prefix: bytes, paths: Sequence[bytes]) -> Iterator[bytes]:
    """Those of some sorted paths that begin so."""
    for position in range(bisect_left(paths, prefix), len(paths)):
        if not paths[position].startswith(prefix):
            return
        yield paths[position]


# -- Whether the times of folders tell of changes to the names in them

_TABLE = "/proc/self/mountinfo"
_RELIABLE = frozenset(
    b"bcachefs btrfs ext2 ext3 ext4 f2fs jfs nfs nfs4 overlay ramfs reiserfs tmpfs xfs zfs".split()
)


def dates_folders(folder: str) -> bool:
    """True if the file system of a folder changes the times of folders with the names in them."""
    if not sys.platform.startswith("linux"):
        return sys.platform == "darwin"
    try:
        with open(_TABLE, "rb") as file:
            table = file.read()
    except OSError:
        return False
    place = os.fsencode(os.path.realpath(folder)) + b"/"
    kind, longest = b"", 0
    for line in table.splitlines():
        fields, _, behind = line.partition(b" - ")
        # Blanks and backslashes are written as octal numbers.
        escaped = b"".join(fields.split(b" ")[4:5])
        mount = re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), escaped)
        if len(mount) >= longest and place.startswith(mount.rstrip(b"/") + b"/"):
            kind, longest = behind.split(b" ")[0], len(mount)
    return kind in _RELIABLE
