# SPDX-License-Identifier: MIT
"""Walk a worktree, or its changes, and list the files for a checkpoint.

An ignored directory is entered only for tracked or included paths; symbolic links are not
followed. Paths that are neither taken nor ignored are noted with a reason. Left out: collecting
the rules, objects, and all file contents but `.gitignore`.
"""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import NamedTuple

from ckpt.git.rules import IgnoreStack, IgnoreTree, Rules, is_gitmodules, is_like_dot_git
from ckpt.models import SkipReason
from ckpt.paths import (
    IN_GIT_DIR,
    folders_above,
    is_nested_repository,
    is_within,
    read_plain_file,
)
from ckpt.worktree.cache import GITLINK, NEW, UNSURE, Folder, Folders, changed, path_in, stat_of
from ckpt.worktree.write import is_unfinished

# First bytes of names of unfinished files of a rollback, and of names that git refuses in trees.
_OURS_OR_GITS = b".gG"
_IGNORE = b".gitignore"

# In an ignored directory, only tracked or included paths are taken.
_EVERYTHING = IgnoreStack(Rules(b"*"))

Progress = Callable[[int, int], None]


class Overtaken(Exception):
    """The rules have changed since the directories were cached: a full scan is needed."""


class Scan:
    """The result of a scan: the stat data of new or changed `files` by path, and `folders`.

    It `is_cut` if the deadline passed before the end. `vanished` paths were listed in their
    directory, but no longer existed when they were read.
    """

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.files: dict[bytes, os.stat_result] = {}
        self.untracked: set[bytes] = set()  # of the files
        self.is_cut = False
        self.vanished: set[bytes] = set()

    def note(self, what: str, path: bytes, value: bytes = b"") -> Folder:
        """Add a note about a path to its parent directory, and return that directory."""
        folder, _ = self.folders.around(path)
        folder.notes.append((what, path, value))
        return folder

    def miss(self, path: bytes) -> None:
        """Note a path that vanished. It may return without a change to its directory's stat data,
        if a directory above was moved."""
        self.vanished.add(path)
        self.folders.put(path, None)
        self.folders.around(path)[0].stat = UNSURE

    def skip(self, path: bytes, reason: SkipReason) -> None:
        """Note a path that is not taken; it is checked again if stat data cannot show a change."""
        self.folders.put(path, None)
        folder = self.note("skipped", path, str(reason).encode())
        if reason not in (SkipReason.DENIED, SkipReason.SPECIAL):
            folder.stat = UNSURE

    def leave_for_later(self, path: bytes) -> None:
        """Note a file or directory that was not scanned before the deadline."""
        self.skip(path, SkipReason.BUDGET)
        self.is_cut = True


class ScanRules(NamedTuple):
    """The rules that select the paths to take.

    `tracked` is sorted. `deny` excludes paths that are not ignored, `include` takes ignored ones.
    `include_roots` are paths to search for in ignored directories, `trusted_roots` in denied ones
    too.
    """

    tracked: tuple[bytes, ...] = ()
    gitlinks: frozenset[bytes] = frozenset()
    git_dirs: frozenset[bytes] = frozenset()
    ignore: IgnoreStack = IgnoreStack()
    deny: IgnoreStack = IgnoreStack()
    include: IgnoreStack = IgnoreStack()
    include_roots: tuple[bytes, ...] = ()
    trusted_roots: tuple[bytes, ...] = ()
    ignore_case: bool = False
    max_file_size: int | None = None


class Deadline:
    """A time limit for a save, in seconds from now."""

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    @property
    def is_over(self) -> bool:
        return self._clock() >= self._end

    def left(self) -> float:
        """Return the seconds left, at least 0."""
        return max(self._end - self._clock(), 0.0)


# -- Secrets and dependency directories

# Usual names for copies of a file: #x#, x~, x.bak, .x.swp …
_COPY = re.compile(rb"(?is)#(.+)#|(.+?)(?:\.~[0-9]+~|~|\.(?:bak|old|orig|save|un~|s[a-w][a-z]))")


class Denials(IgnoreStack):
    """The deny rules, which apply to copies of a file too. `others` take precedence over
    `secrets`, which are matched without case, and may re-include paths."""

    __slots__ = ("_others", "_secrets")

    def __init__(self, secrets: Rules, others: Rules) -> None:
        super().__init__(secrets, others)
        self._secrets = secrets
        self._others = others

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        decision = self._decide(path, is_dir)
        folder, slash, name = path.rpartition(b"/")
        copy = _COPY.fullmatch(name)
        if decision is None and copy is not None:
            name = copy[1] or copy[2]
            decision = self._decide(folder + slash + name, is_dir, is_copy=True)
            if decision is None:  # Vim prefixes the names of most swap files with a dot
                name = name.removeprefix(b".")
                decision = self._decide(folder + slash + name, is_dir, is_copy=True)
        return decision is True

    def _decide(self, path: bytes, is_dir: bool, *, is_copy: bool = False) -> bool | None:
        # A copy of a dependency directory is not denied: no tool can recreate it.
        decision = None if is_dir and is_copy else self._others.decide(path, is_dir)
        return self._secrets.decide(path.lower(), is_dir) if decision is None else decision


# -- The walk


def scan(
    top: bytes,
    folders: Folders,
    rules: Callable[[], ScanRules],
    is_settled: Callable[[os.stat_result], bool],
    *,
    doubtful: Iterable[bytes] = (),
    progress: Progress | None = None,
    deadline: Deadline | None = None,
) -> Scan:
    """Scan the worktree, or only its changes if `folders` has records; Overtaken if a full scan is
    needed. After the deadline, only directories with tracked files are walked.

    The directories in `doubtful` are always listed again. Stat data of directories are recorded
    only if `is_settled` accepts them.
    """
    base, known, found = os.path.join(top, b""), folders.packed, Scan(folders)
    if not known:
        now = rules()
        Walk(base, now, found, is_settled, progress, deadline).below(b"", now.ignore)
        return found
    edited: dict[bytes, os.stat_result] = {}
    relist = {folder for folder in doubtful if folder in known}
    for record in changed(base, known):
        status = _lstat(base + record.path)
        if status is None:
            relist.add(_parent(record.path))
            continue
        folder = Folder.of(record)
        files = _edited(base, folder) if stat_of(status) == folder.stat else None
        if files is None:
            relist.add(record.path)
        else:
            edited |= files
    if relist:
        Walk(base, rules(), found, is_settled, progress, deadline).again(relist)
    # The files of directories that were listed again are in `found` already.
    found.files |= {path: status for path, status in edited.items() if _parent(path) in known}
    return found


def _edited(base: bytes, folder: Folder) -> dict[bytes, os.stat_result] | None:
    """Return the changed files of a directory; None if a change may affect which paths are taken,
    as for the size of an untracked file or the content of a submodule."""
    edited = {}
    for name, file in folder.files.items():
        path = path_in(folder.path, name)
        status = _lstat(base + path)
        if status is not None and stat_of(status) == file.stat:
            continue
        if name == _IGNORE or status is None or not file.code & NEW or file.kind == GITLINK:
            return None
        if stat.S_IFMT(status.st_mode) != stat.S_IFMT(file.stat[4]):
            return None
        edited[path] = status
    return edited


def _lstat(place: bytes) -> os.stat_result | None:
    try:
        return os.lstat(place)
    except OSError:
        return None


class Walk:
    """A scan of a directory, recursive or not."""

    def __init__(
        self,
        base: bytes,
        rules: ScanRules,
        found: Scan,
        is_settled: Callable[[os.stat_result], bool],
        progress: Progress | None,
        deadline: Deadline | None,
    ) -> None:
        self._rules = rules
        self._found = found
        self._is_settled = is_settled
        self._progress = progress
        self._deadline = deadline
        self._base = base
        # With core.ignoreCase, a path is tracked if the index has it in any case.
        self._spelt: Callable[[bytes], bytes] = bytes.lower if rules.ignore_case else bytes
        tracked = [*map(bytes.lower, rules.tracked)] if rules.ignore_case else [*rules.tracked]
        self._tracked = frozenset(tracked)
        self._sorted = sorted(tracked + [self._spelt(path) + b"/" for path in rules.gitlinks])

    def _holds_tracked(self, folder: bytes) -> bool:
        prefix = self._spelt(folder) + b"/"
        at = bisect_left(self._sorted, prefix)
        return at < len(self._sorted) and self._sorted[at].startswith(prefix)

    def below(self, folder: bytes, ignore: IgnoreStack) -> None:
        """Walk a directory recursively; `ignore` are the rules of its parent."""
        todo = [(folder, ignore)]
        while todo:
            folder, ignore = todo.pop()
            is_late = self._deadline is not None and self._deadline.is_over
            if is_late and folder and not self._holds_tracked(folder):
                self._found.leave_for_later(folder)
                continue
            todo.extend(self._list(folder, ignore))
            if self._progress is not None:
                self._progress(len(self._found.files), 0)

    def again(self, relist: Iterable[bytes]) -> None:
        """List some directories again, and walk their new subdirectories."""
        folders, known = self._found.folders, self._found.folders.packed
        rules = self._rules
        outside = IgnoreTree(rules.ignore, self._read_ignore, ignore_case=rules.ignore_case)
        for folder in sorted(relist):
            record = known.get(folder)
            if record is None:  # removed, or walked, with a directory above
                continue
            ignore: IgnoreStack | None = rules.ignore
            if folder:
                above = outside.stack(_parent(folder))
                ignore = None if above is None else self._inside(folder, above)
            if ignore is None:
                raise Overtaken
            inside = dict(self._list(folder, ignore))
            if folder in known or any(map(self._is_left_out, (folder, *folders_above(folder)))):
                raise Overtaken
            rules_then = [note for note in record.notes if note[0] == "ignore"]
            if rules_then != [note for note in folders[folder].notes if note[0] == "ignore"]:
                raise Overtaken
            for name in record.trees.keys() - folders[folder].trees.keys():
                folders.remove_folder(path_in(folder, name))
            for path, inner in inside.items():
                if path not in known:
                    self.below(path, inner)

    def _is_left_out(self, folder: bytes) -> bool:
        """Check whether a directory was skipped, except for tracked files."""
        around, _ = self._found.folders.around(folder)
        return any(note[:2] == ("skipped", folder) for note in around.notes)

    def _list(self, folder: bytes, ignore: IgnoreStack) -> Iterator[tuple[bytes, IgnoreStack]]:
        """Take the files of a directory; yield the subdirectories to walk."""
        found, place = self._found, self._base + folder
        try:
            status = os.lstat(place)
            with os.scandir(place) as listing:
                children = list(listing)
        except FileNotFoundError:
            if folder:  # its parent listed it
                found.miss(folder)
            return
        except OSError:
            if not folder:
                raise
            found.skip(folder, SkipReason.UNREADABLE)
            return
        if not children and folder in self._rules.gitlinks:  # not initialised
            return
        here = found.folders.new(folder)
        here.stat = stat_of(status) if self._is_settled(status) else UNSURE
        prefix = folder + b"/" if folder else b""
        names = {child.name for child in children}
        if folder:
            here.bits = status.st_mode & 0o777
            if not children and ignore is not _EVERYTHING:
                here.notes.append(("empty", folder, b""))
            if b".git" in names:  # may become a repository without a change to the directory
                here.stat = UNSURE
            if (b".git" in names and is_nested_repository(place)) or names >= IN_GIT_DIR:
                found.skip(folder, SkipReason.NESTED)
                here.stat = UNSURE
                if not self._holds_tracked(folder):
                    here.bits = None
                    return
                ignore = _EVERYTHING
        if b".gitattributes" in names:
            found.note("attributes", prefix + b".gitattributes")
        if ignore is not _EVERYTHING and _IGNORE in names:
            ignore = self._enter(here, ignore)
        for child in children:
            name = child.name
            path = prefix + name
            if name[0] in _OURS_OR_GITS and self._is_ours_or_gits(path, child):
                continue
            if not child.is_dir(follow_symlinks=False):
                self._take_file(path, child, ignore)
                continue
            inner = self._enters(path, ignore)
            if inner is not None:
                record = found.folders.packed.get(path)
                here.trees[name] = b"" if record is None else record.tree
                yield path, inner
        if prefix + _IGNORE not in found.files and _IGNORE in names:
            here.stat = UNSURE  # the stat data of its .gitignore are not recorded

    # -- rules

    def _read_ignore(self, folder: bytes) -> bytes | None:
        return read_plain_file(self._base + path_in(folder, _IGNORE))

    def _enter(self, here: Folder, ignore: IgnoreStack) -> IgnoreStack:
        """Return the rules in a directory, with those of its own ignore file."""
        path, text = path_in(here.path, _IGNORE), self._read_ignore(here.path)
        if text is None:
            here.stat = UNSURE
            return ignore
        here.notes.append(("ignore", path, text))
        return ignore.enter(Rules(text, here.path, ignore_case=self._rules.ignore_case))

    def _inside(self, folder: bytes, ignore: IgnoreStack) -> IgnoreStack | None:
        """Return the rules in a directory; None if it is ignored. They are empty if it is included,
        and ignore everything if only tracked or included paths in it are taken."""
        if not ignore.ignored(folder, True):
            return ignore
        if self._rules.include.ignored(folder, True):
            return IgnoreStack()
        return self._looking_for(folder, self._rules.include_roots)

    def _looking_for(self, folder: bytes, roots: tuple[bytes, ...]) -> IgnoreStack | None:
        leads_on = self._holds_tracked(folder) or leads_to(folder, roots)
        return _EVERYTHING if leads_on else None

    def _enters(self, path: bytes, ignore: IgnoreStack) -> IgnoreStack | None:
        """Return the rules in a directory; None if it must not be entered."""
        inner = self._inside(path, ignore)
        if inner is not None and self._rules.deny.ignored(path, True):
            self._found.skip(path, SkipReason.DENIED)
            inner = self._looking_for(path, self._rules.trusted_roots)
        if path in self._rules.gitlinks:
            self._found.note("gitlink", path).stat = UNSURE
            if is_nested_repository(self._base + path):
                return None
        return None if path in self._rules.git_dirs else inner

    def _is_ours_or_gits(self, path: bytes, child: os.DirEntry[bytes]) -> bool:
        """Check for a git dir, an unfinished file of a rollback, or a name not allowed in trees."""
        if child.name == b".git":
            return True
        if self._spelt(path) in self._tracked:
            return False
        if is_unfinished(child.name):
            return not child.is_dir(follow_symlinks=False)
        if is_like_dot_git(child.name):
            self._found.skip(path, SkipReason.SPECIAL)
            return True
        return False

    # -- files

    def _take_file(self, path: bytes, child: os.DirEntry[bytes], ignore: IgnoreStack) -> None:
        """Take a path that is not a directory, or skip it with a reason."""
        rules, found = self._rules, self._found
        tracked = self._spelt(path) in self._tracked
        if not tracked and ignore.ignored(path, False) and not rules.include.ignored(path, False):
            return
        try:
            status = child.stat(follow_symlinks=False)
        except FileNotFoundError:
            found.miss(path)
            return
        except OSError:
            found.skip(path, SkipReason.UNREADABLE)
            return
        if not _is_storable(path, status.st_mode):
            found.skip(path, SkipReason.SPECIAL)
        elif tracked:
            found.files[path] = status
        elif rules.deny.ignored(path, False):
            found.skip(path, SkipReason.DENIED)
        elif rules.max_file_size is not None and status.st_size > rules.max_file_size:
            found.skip(path, SkipReason.OVERSIZE)
        else:
            found.files[path] = status
            found.untracked.add(path)


def _parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _is_storable(path: bytes, mode: int) -> bool:
    """Check for a regular file, or a symbolic link that git accepts."""
    if not stat.S_ISLNK(mode):
        return stat.S_ISREG(mode)
    return not is_gitmodules(path.rpartition(b"/")[2])


def leads_to(folder: bytes, roots: tuple[bytes, ...]) -> bool:
    """Check whether a directory contains one of some paths, or lies in one."""
    return any(is_within(root, (folder,)) or is_within(folder, (root,)) for root in roots)
