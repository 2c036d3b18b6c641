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
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic

from ckpt import paths
from ckpt import paths as reach
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


@dataclass(slots=True)
class Scan:
    """What was found: files and links by path, with the stat data they were found with.

    `folders` are those that were walked or hold what was taken, with their permission bits;
    not the top, which is no part of what it holds. `ignore_files` are the `.gitignore` files
    that were read, with their texts. `untracked` are the files that nobody forced in and
    git does not track.

    The rest is for whoever wants to know next time what has changed. `walked` are the folders
    that were listed, with stat data from before, and the folders in each that are to be looked
    into. A folder of `unsure` has to be listed again even if its stat data are the same.
    `watched` are files that decided on something, taken or not: their stat data.
    `attribute_files` are the `.gitattributes` that the walk came by. `is_cut` if the time was
    up before everything was looked at. `vanished` is what a folder named and was gone a moment
    later: removed, or moved to where nobody may have looked.
    """

    files: dict[bytes, os.stat_result] = field(default_factory=dict)
    untracked: set[bytes] = field(default_factory=set)
    folders: dict[bytes, int] = field(default_factory=dict)
    gitlinks: list[bytes] = field(default_factory=list)
    empty_folders: list[bytes] = field(default_factory=list)
    skipped: dict[bytes, SkipReason] = field(default_factory=dict)
    ignore_files: dict[bytes, bytes] = field(default_factory=dict)
    walked: dict[bytes, tuple[os.stat_result, list[bytes]]] = field(default_factory=dict)
    unsure: set[bytes] = field(default_factory=set)
    attribute_files: set[bytes] = field(default_factory=set)
    watched: dict[bytes, os.stat_result] = field(default_factory=dict)
    is_cut: bool = False
    vanished: set[bytes] = field(default_factory=set)

    def miss(self, path: bytes) -> None:
        """Note what vanished. It may come back with all times of its folder as they were, if it
        was one further up that was moved."""
        folder = path.rpartition(b"/")[0]
        self.vanished.add(path)
        self.unsure.add(folder)

    def leave_for_later(self, path: bytes) -> None:
        """List a path, a file or all of a folder, that there was no time for."""
        self.skipped[path] = SkipReason.BUDGET
        self.unsure.add(path.rpartition(b"/")[0])
        self.is_cut = True


# -- The end of the time that a save may take, for those who work towards it


class Deadline:
    """So many seconds from now."""

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    @property
    def is_over(self) -> bool:
        return self._clock() >= self._end

    def left(self) -> float:
        """Seconds; 0 when it is over."""
        return max(self._end - self._clock(), 0.0)


# -- Whether a file system can be relied on to change a folder's times with the names in it

_TABLE = "/proc/self/mountinfo"
_RELIABLE = frozenset(
    b"bcachefs btrfs ext2 ext3 ext4 f2fs jfs nfs nfs4 overlay ramfs reiserfs tmpfs xfs zfs".split()
)


def dates_folders(folder: str) -> bool:
    """True if the times of the folders on the file system of one tell of changes to names."""
    if not sys.platform.startswith("linux"):
        return sys.platform == "darwin"
    try:
        with open(_TABLE, "rb") as file:
            return _kind(file.read(), os.fsencode(os.path.realpath(folder))) in _RELIABLE
    except OSError:
        return False


def _kind(table: bytes, folder: bytes) -> bytes:
    """The type of the file system that a folder is on; of several at one place, the last."""
    found, longest = b"", 0
    for line in table.splitlines():
        fields, _, behind = line.partition(b" - ")
        place = _unescaped(fields.split(b" ")[4:5])
        if len(place) >= longest and (folder + b"/").startswith(place.rstrip(b"/") + b"/"):
            found, longest = behind.split(b" ")[0], len(place)
    return found


def _unescaped(place: list[bytes]) -> bytes:
    """Blanks and backslashes are written as octal numbers."""
    text = b"".join(place)
    for code in (b"040", b"011", b"012", b"134"):
        text = text.replace(b"\\" + code, bytes([int(code, 8)]))
    return text


# -- What must not be taken though git does not ignore it: secrets, folders of dependencies

_ENDINGS = (b"~", b".bak", b".old", b".orig", b".save", b"#")
_LONGEST_ENDING = 5
_LAST_BYTES = frozenset(byte for each in _ENDINGS for byte in (each[-1:], each[-1:].upper()))
_SWAPPED = (b".s", b".S")
_MOST_TIMES = 8  # that a copy may have been copied
_BACKUP = re.compile(rb"(?is)(.+?)(?:\.~[0-9]+~|~|\.bak|\.old|\.orig|\.save)")
_AUTOSAVED = re.compile(rb"(?s)#(.+)#")
# Vim's, which counts down from `.swp`, or has what can be undone. The name of a file gets a dot
# before it, but for that of a swap file if there is one already.
_OF_VIM = re.compile(rb"(?is)(\.(.+))\.(?:s[a-w][a-z]|un~)")


class Denials(IgnoreStack):
    """`others` count more than `secrets`, which are read without case: they may take back some."""

    __slots__ = ("_others", "_others_of_files", "_secrets")

    def __init__(self, secrets: Rules, others: Rules) -> None:
        super().__init__((others, secrets))
        self._secrets = secrets
        self._others = others
        # Mostly there are none, and a walk asks for every file that is new.
        self._others_of_files = any(not pattern.dir_only for pattern in others.patterns)

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        decision = self._decide(path, is_dir)
        if decision is None and _may_be_copy(path):
            decision = self._decide_copy(path, is_dir)
        return decision is True

    def _decide(self, path: bytes, is_dir: bool) -> bool | None:
        decision = None
        if is_dir or self._others_of_files:
            decision = self._others.decide(path, is_dir)
        return self._decide_secret(path, is_dir) if decision is None else decision

    def _decide_secret(self, path: bytes, is_dir: bool) -> bool | None:
        lowered = path.lower()
        return self._secrets.decide_below(lowered, lowered.rpartition(b"/")[2], is_dir)

    def _decide_copy(self, path: bytes, is_dir: bool) -> bool | None:
        """As for the first original that anything is said of. That a tool can fill a folder again
        is not said of what somebody has copied."""
        for original in _originals(path):
            decision = self._decide(original, is_dir)
            if is_dir and decision:
                decision = self._decide_secret(original, is_dir)
            if decision is not None:
                return decision
        return None


def _may_be_copy(path: bytes) -> bool:
    """Quickly, as it is asked of every file that is new."""
    if path[-4:-2] in _SWAPPED:
        return True
    return path[-1:] in _LAST_BYTES and path[-_LONGEST_ENDING:].lower().endswith(_ENDINGS)


def _originals(path: bytes) -> Iterator[bytes]:
    """What a path may be a copy of, by its name, or a copy of a copy of."""
    folder, slash, name = path.rpartition(b"/")
    names = [name]
    for _ in range(_MOST_TIMES):
        names = list(dict.fromkeys(found for each in names for found in _copied(each)))
        yield from (folder + slash + each for each in names)


def _copied(name: bytes) -> Iterator[bytes]:
    if found := _OF_VIM.fullmatch(name):
        yield found[2]
        yield found[1]
    if found := _AUTOSAVED.fullmatch(name) or _BACKUP.fullmatch(name):
        yield found[1]


# -- Take the paths that a scan's rules name, whatever the walk made of them


def take_named(walk: Walk) -> None:
    """Add to what a walk has found."""
    for path in walk.rules.include_paths:
        _Naming(walk, forced=False).take(path)
    for path in walk.rules.force:
        _Naming(walk, forced=True).take(path)


class _Naming:
    def __init__(self, walk: Walk, *, forced: bool) -> None:
        self._walk = walk
        self._rules = walk.rules
        self._found = walk.found
        self._forced = forced

    def take(self, path: bytes) -> None:
        """Take a path and all below it."""
        todo = self._take_one(path) if self._can_be_reached(path) else []
        while todo:
            inside = todo.pop()
            todo.extend(self._take_one(inside, is_listed=True))

    def _can_be_reached(self, path: bytes) -> bool:
        """False where a walk would not come: through a link, or inside a git dir or submodule."""
        if any(name in (b"", b".", b"..") or is_like_dot_git(name) for name in path.split(b"/")):
            return False
        if any(map(self._is_closed, folders_above(path))):
            return False
        try:
            return self._walk.parents_are_folders(path, b"")
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # looking at the path itself will tell
            return True

    def _take_one(self, path: bytes, *, is_listed: bool = False) -> list[bytes]:
        """Take a file; give back what is in a folder."""
        try:
            status = paths.lstat(self._place(path))
            if stat.S_ISDIR(status.st_mode):
                return self._open(path, status)
            self._take_file(path, status)
        except (FileNotFoundError, NotADirectoryError):
            if is_listed:
                self._found.miss(path)
        except OSError:
            self._found.skipped[path] = SkipReason.UNREADABLE
        return []

    def _take_file(self, path: bytes, status: os.stat_result) -> None:
        self._found.skipped.pop(path, None)
        self._found.untracked.discard(path)
        self._walk.sort(path, status, self._forced or path in self._walk.tracked)

    def _open(self, folder: bytes, status: os.stat_result) -> list[bytes]:
        if not self._may_open(folder):
            return []
        self._found.folders[folder] = status.st_mode & 0o777
        children = paths.children(self._place(folder))
        if self._forced and not children and folder not in self._found.empty_folders:
            self._found.empty_folders.append(folder)
        return [
            inside
            for child in children
            if not is_like_dot_git(child.name)
            and not self._walk.is_unfinished(inside := folder + b"/" + child.name, child)
        ]

    def _may_open(self, folder: bytes) -> bool:
        if self._is_closed(folder):
            return False
        if not self._forced and self._rules.deny.ignored(folder, True):
            self._found.skipped[folder] = SkipReason.DENIED
            return False
        if not self._forced and self._walk.is_too_late_for(folder):
            self._found.leave_for_later(folder)
            return False
        if is_repository(self._place(folder)):
            self._found.skipped[folder] = SkipReason.NESTED
            return False
        return True

    def _is_closed(self, folder: bytes) -> bool:
        if folder in self._rules.gitlinks:
            return is_nested_repository(self._place(folder))
        return folder in self._rules.git_dirs

    def _place(self, path: bytes) -> bytes:
        return os.path.join(self._walk.top, path)


# -- Walk a worktree once and say what a checkpoint would hold

# How the names begin of what a rollback has begun to write, and of all that git keeps out of trees.
_OURS_OR_GITS = b".gG"

# In an ignored folder nothing is brought back; but what is tracked or included is taken.
_EVERYTHING = Everything()

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ScanRules:
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
    ignore: IgnoreStack = field(default_factory=IgnoreStack.root)
    deny: IgnoreStack = field(default_factory=IgnoreStack.root)
    include: IgnoreStack = field(default_factory=IgnoreStack.root)
    include_paths: tuple[bytes, ...] = ()
    include_roots: tuple[bytes, ...] = ()
    ignore_case: bool = False
    max_file_size: int | None = None
    force: tuple[bytes, ...] = ()
    absent_ignore_files: Mapping[bytes, bytes] = field(default_factory=dict)
    unfinished: bytes | None = None


def scan(
    top: bytes,
    rules: ScanRules,
    progress: Progress | None = None,
    deadline: Deadline | None = None,
) -> Scan:
    """Scan the worktree at `top`; after the deadline, only the folders that hold tracked files."""
    walk = Walk(top, rules, progress, deadline)
    walk.below(b"", rules.ignore)
    walk.take_named()
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
        self.top = top
        self.rules = rules
        self._progress = progress
        self._deadline = deadline
        self._includes = bool(rules.include)
        self._base = os.path.join(top, b"")
        self.tracked = frozenset(rules.tracked)
        # With core.ignoreCase, git takes a file for tracked under any case of its name.
        self._folded = {path.lower() for path in rules.tracked} if rules.ignore_case else set()
        self._gitlinks = sorted(rules.gitlinks)
        self.found = Scan()

    def below(
        self, folder: bytes, ignore: IgnoreStack, status: os.stat_result | None = None
    ) -> None:
        """Walk a folder and everything in it; `ignore` are the rules outside it."""
        todo = [(folder, ignore, status)]
        if self._deadline is not None:
            return self._below_in_time(todo)
        while todo:
            todo.extend(self.folder(*todo.pop()))
            if self._progress is not None:
                self._progress(len(self.found.files), 0)
        return None

    def _below_in_time(self, todo: list[tuple[bytes, IgnoreStack, os.stat_result | None]]) -> None:
        """The same, but for the folders that it is too late for."""
        while todo:
            folder, ignore, status = todo.pop()
            if self.is_too_late_for(folder):
                self.found.leave_for_later(folder)
                continue
            todo.extend(self.folder(folder, ignore, status))
            if self._progress is not None:
                self._progress(len(self.found.files), 0)

    def is_too_late_for(self, folder: bytes) -> bool:
        """Tracked files are looked at however late it is."""
        if self._deadline is None or not self._deadline.is_over or not folder:
            return False
        spelt = folder.lower() if self.rules.ignore_case else folder
        return spelt not in self._tracked_folders

    @cached_property
    def _tracked_folders(self) -> set[bytes]:
        paths = [*self.rules.tracked, *(path + b"/" for path in self._gitlinks)]
        return folders_of(map(bytes.lower, paths) if self.rules.ignore_case else paths)

    def take_named(self) -> None:
        """Take what the rules name, wherever it is."""
        if self.rules.include_paths or self.rules.force:
            take_named(self)

    def folder(
        self, folder: bytes, ignore: IgnoreStack, status: os.stat_result | None = None
    ) -> Iterator[tuple[bytes, IgnoreStack, os.stat_result]]:
        """Take the files of one folder; yield the folders to walk below it."""
        place = self._base + folder
        try:
            status = status or reach.lstat(place)
            children = reach.children(place)
        except FileNotFoundError:
            if folder:  # which the one above had named
                self.found.miss(folder)
            return
        except OSError:
            self._leave_out(folder, SkipReason.UNREADABLE)
            return
        if not children and folder in self.rules.gitlinks:  # not initialised
            return
        inside: list[bytes] = []
        self.found.walked[folder] = status, inside
        if folder:
            self.found.folders[folder] = status.st_mode & 0o777
        if not children and folder and ignore is not _EVERYTHING:
            self.found.empty_folders.append(folder)
        prefix = folder + b"/" if folder else b""
        names = {child.name for child in children}
        if folder and b".git" in names:  # it may become a repository with no change to the folder
            self.found.unsure.add(folder)
        if folder and self._is_repository(folder, names):
            self._leave_out(folder, SkipReason.NESTED)
            return
        if b".gitattributes" in names:
            self.found.attribute_files.add(prefix + b".gitattributes")
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
            if self._enters(path, inner):
                status = self._look_at_folder(path, child)
                if status is not None:
                    inside.append(name)
                    yield path, inner, status

    def _enter(self, prefix: bytes, names: set[bytes], ignore: IgnoreStack) -> IgnoreStack:
        """The rules in a folder: with those of its own ignore file, on disk or left out."""
        if b".gitignore" in names:
            return ignore.enter(self._read_ignore_file(prefix))
        text = self.rules.absent_ignore_files.get(prefix + b".gitignore")
        if text is None:
            return ignore
        return ignore.enter(parse(text, prefix[:-1], ignore_case=self.rules.ignore_case))

    def _ignore_within(self, path: bytes, ignore: IgnoreStack) -> IgnoreStack:
        """Nothing is ignored in an ignored folder that is included, and everything else in one
        that is looked through for what is."""
        if self._includes and ignore.ignored(path, True):
            if self._is_included(path, True):
                return IgnoreStack.root()
            if leads_to(path, self.rules.include_roots):
                return _EVERYTHING
        return ignore

    def _is_ours_or_gits(self, path: bytes, child: reach.Child) -> bool:
        """A git dir, a file that a rollback has begun, or a name that no tree may hold."""
        if child.name == b".git" or self.is_unfinished(path, child):
            return True
        if not is_like_dot_git(child.name) or path in self.tracked:
            return False
        self.found.skipped[path] = SkipReason.SPECIAL
        return True

    def _look_at_folder(self, path: bytes, child: reach.Child) -> os.stat_result | None:
        """The stat data of a folder to walk; None if it is gone meanwhile."""
        try:
            status = child.stat(follow_symlinks=False)
        except FileNotFoundError:
            self.found.miss(path)
            return None
        except OSError:
            self._leave_out(path, SkipReason.UNREADABLE)
            return None
        return status

    def _is_repository(self, folder: bytes, names: set[bytes]) -> bool:
        """A repository of its own, or the git dir of one."""
        if b".git" in names and is_nested_repository(os.path.join(self.top, folder)):
            return True
        return names >= IN_GIT_DIR

    def is_unfinished(self, path: bytes, child: reach.Child) -> bool:
        """A file that the interrupted rollback has begun, and nobody has tracked since. Without its
        journal it is a file like any other, and that changes nothing about its folder."""
        if not is_unfinished(child.name, self.rules.unfinished) or path in self.tracked:
            return False
        self.found.unsure.add(_parent(path))
        return not child.is_dir(follow_symlinks=False)

    def _enters(self, path: bytes, ignore: IgnoreStack) -> bool:
        """Decide on a folder; one that is not entered still gives up its tracked files."""
        if path not in self.rules.gitlinks:
            return self._is_open(path, ignore)
        self.found.gitlinks.append(path)
        self.found.unsure.add(_parent(path))
        is_plain = not is_nested_repository(os.path.join(self.top, path))
        if is_plain and self._is_open(path, ignore):
            self.below(path, ignore)  # now: what is in it decides on the gitlink
        return False

    def _is_open(self, path: bytes, ignore: IgnoreStack) -> bool:
        if ignore is not _EVERYTHING and ignore.ignored(path, True):
            self._take_tracked_below(path)
            return False
        if self._is_denied(path, True):
            self._leave_out(path, SkipReason.DENIED)
            return False
        return path not in self.rules.git_dirs

    def _leave_out(self, folder: bytes, reason: SkipReason) -> None:
        self.found.skipped[folder] = reason
        self.found.folders.pop(folder, None)
        if reason is not SkipReason.DENIED:
            self.found.unsure |= {folder, _parent(folder)}
        self._take_tracked_below(folder)

    def _take_file(self, path: bytes, child: reach.Child, ignore: IgnoreStack) -> None:
        tracked = path in self.tracked or path.lower() in self._folded
        if not tracked and ignore.ignored(path, False) and not self._is_included(path, False):
            return
        try:
            status = child.stat(follow_symlinks=False)
        except FileNotFoundError:
            self.found.miss(path)
            return
        except OSError:
            self.found.skipped[path] = SkipReason.UNREADABLE
            self.found.unsure.add(_parent(path))
            return
        if tracked and stat.S_ISREG(status.st_mode):
            self.found.files[path] = status
            return
        self.sort(path, status, tracked)

    def sort(self, path: bytes, status: os.stat_result, tracked: bool) -> None:
        """Take what is no folder, or list it with the reason why not."""
        reason = self._reason_to_skip(path, status, tracked)
        if reason is not None:
            self.found.skipped[path] = reason
            if reason is SkipReason.OVERSIZE:
                self.found.watched[path] = status
            return
        self.found.files[path] = status
        if not tracked:
            self.found.untracked.add(path)

    def _reason_to_skip(
        self, path: bytes, status: os.stat_result, tracked: bool
    ) -> SkipReason | None:
        if not _is_storable(path, status.st_mode):
            return SkipReason.SPECIAL
        if tracked:
            return None
        if self._is_denied(path, False):
            return SkipReason.DENIED
        limit = self.rules.max_file_size
        if limit is not None and status.st_size > limit:
            return SkipReason.OVERSIZE
        return None

    def _is_included(self, path: bytes, is_folder: bool) -> bool:
        return self.rules.include.ignored(path, is_folder)

    def _is_denied(self, path: bytes, is_folder: bool) -> bool:
        return self.rules.deny.ignored(path, is_folder)

    def _take_tracked_below(self, folder: bytes) -> None:
        """Look at each tracked path in a folder that is not walked."""
        prefix = folder + b"/" if folder else b""
        tracked = [*_beginning_with(prefix, self.rules.tracked)]
        gitlinks = [*_beginning_with(prefix, self._gitlinks)]
        for path in tracked:
            self._take_tracked(path, folder)
        self.found.gitlinks += gitlinks
        if tracked or gitlinks:  # these are looked at only from here
            self.found.unsure.add(_parent(folder))

    def _take_tracked(self, path: bytes, folder: bytes) -> None:
        try:
            if not self.parents_are_folders(path, folder):
                return
            status = reach.lstat(os.path.join(self.top, path))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError:
            self.found.skipped[path] = SkipReason.UNREADABLE
            return
        if _is_storable(path, status.st_mode):
            self.found.files[path] = status
        elif not stat.S_ISDIR(status.st_mode):
            self.found.skipped[path] = SkipReason.SPECIAL

    def parents_are_folders(self, path: bytes, folder: bytes) -> bool:
        """A tracked path behind a symbolic link is gone, as git sees it."""
        return all(
            self._is_folder(parent) for parent in folders_above(path) if len(parent) >= len(folder)
        )

    def _is_folder(self, path: bytes) -> bool:
        if path not in self.found.folders:
            mode = reach.lstat(os.path.join(self.top, path)).st_mode
            if not stat.S_ISDIR(mode):
                return False
            self.found.folders[path] = mode & 0o777
        return True

    def _read_ignore_file(self, prefix: bytes) -> Rules | None:
        path = prefix + b".gitignore"
        place = os.path.join(self.top, path)
        try:
            self.found.watched[path] = reach.lstat(place)
        except OSError:
            self.found.unsure.add(prefix[:-1])
        text = read_plain_file(place)
        if text is None:
            self.found.unsure.add(prefix[:-1])
            return None
        self.found.ignore_files[path] = text
        return parse(text, prefix[:-1], ignore_case=self.rules.ignore_case)


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
