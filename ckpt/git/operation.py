# SPDX-License-Identifier: MIT
"""An operation in progress (merge, rebase, cherry-pick, revert, am, bisect): read, keep, restore.

Git keeps it in files of the worktree's own git dir, its private refs among them, and in the
branches that a rebase moves when it ends. It is identified by its name and a digest of the files
that say what it is about: files of one state and a MERGE_HEAD of another would make a commit
that drops a side. dulwich knows none of this.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import NamedTuple

from ckpt import disk
from ckpt.errors import CkptError, Refused
from ckpt.git.formats import ObjectID
from ckpt.git.objects import ObjectStore
from ckpt.git.refs import Refs
from ckpt.git.trees import FOLDER, REGULAR, TreeEntry, lookup, read_limited, walk

# In the order in which git tells them apart: name, the file that shows it, what identifies it.
_OPERATIONS = (
    (
        "rebase",
        "rebase-merge",
        ("rebase-merge/onto", "rebase-merge/orig-head", "rebase-merge/done"),
    ),
    ("am", "rebase-apply/applying", ("rebase-apply/abort-safety", "rebase-apply/next")),
    (
        "rebase",
        "rebase-apply",
        ("rebase-apply/onto", "rebase-apply/orig-head", "rebase-apply/next"),
    ),
    ("merge", "MERGE_HEAD", ("MERGE_HEAD",)),
    ("cherry-pick", "CHERRY_PICK_HEAD", ("CHERRY_PICK_HEAD",)),
    ("revert", "REVERT_HEAD", ("REVERT_HEAD",)),
    ("sequencer", "sequencer", ("sequencer/head", "sequencer/todo")),
    ("bisect", "BISECT_LOG", ("BISECT_START", "BISECT_LOG")),
)
# All files by which git continues or aborts one. Those that show git that there is one come last:
# what they point to must be in place before.
FILES = (
    "ORIG_HEAD",
    "AUTO_MERGE",
    "MERGE_AUTOSTASH",
    "MERGE_MODE",
    "MERGE_MSG",
    "SQUASH_MSG",
    "BISECT_ANCESTORS_OK",
    "BISECT_EXPECTED_REV",
    "BISECT_FIRST_PARENT",
    "BISECT_HEAD",
    "BISECT_NAMES",
    "BISECT_RUN",
    "BISECT_TERMS",
    "BISECT_START",
    "BISECT_LOG",
    "REBASE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "MERGE_HEAD",
)
FOLDERS = ("refs/bisect", "refs/rewritten", "sequencer", "rebase-apply", "rebase-merge")
# Kept only while there is an operation: `git am --abort` needs it, and any reset leaves one.
ORIG_HEAD = "ORIG_HEAD"
# Removed, but never restored: git crashes if a conflict that it names is not in rr-cache/.
MERGE_RR = "MERGE_RR"
# What a rebase or a sequence still has to do, and has done.
INSTRUCTION_LISTS = (
    "rebase-merge/git-rebase-todo",
    "rebase-merge/git-rebase-todo.backup",
    "rebase-merge/done",
    "sequencer/todo",
    "sequencer/done",
)
_HEAD_NAMES = ("rebase-merge/head-name", "rebase-apply/head-name")
UPDATE_REFS = "rebase-merge/update-refs"
_BISECT_START = "BISECT_START"
LARGEST = 1 << 28  # of all these files together


class Operation(NamedTuple):
    """`name` joins several with a plus: a merge may stop inside a bisect."""

    name: str
    fingerprint: str


class OperationFiles(NamedTuple):
    """The files of an operation by their path in the git dir; none if there is none.

    Some may be there without an operation, such as the message of a squash merge.
    """

    contents: Mapping[str, bytes] = {}

    @property
    def operation(self) -> Operation | None:
        """Which operation these files belong to."""
        names: list[str] = []
        signs: set[str] = set()
        told: list[bytes] = []
        for name, sign, identity in _OPERATIONS:
            top = sign.partition("/")[0]  # of an am and of a rebase, `rebase-apply` shows one
            if name in names or top in signs or not self._has(sign):
                continue
            names.append(name)
            signs.add(top)
            for part in identity:
                told += (name.encode(), self.contents.get(part, b""))
        if not names:
            return None
        return Operation(
            "+".join(names), sha256(b"".join(b"%s\0" % part for part in told)).hexdigest()
        )

    def _has(self, sign: str) -> bool:
        return sign in self.contents or any(p.startswith(sign + "/") for p in self.contents)

    @property
    def branches(self) -> tuple[bytes, ...]:
        """The branches that the operation moves when it ends."""
        named = {self.contents.get(path, b"").strip() for path in _HEAD_NAMES}
        # Three lines for each branch: its name, its old and its new commit.
        named |= set(self.contents.get(UPDATE_REFS, b"").splitlines()[::3])
        return tuple(sorted(name for name in named if name.startswith(b"refs/")))

    @property
    def start(self) -> bytes | None:
        """The branch that a bisect goes back to when it is reset; it does not move it."""
        name = self.contents.get(_BISECT_START, b"").strip()
        is_commit = len(name) in (40, 64) and not name.strip(b"0123456789abcdef")
        return b"refs/heads/" + name if name and not is_commit else None


def read(git_dir: str) -> OperationFiles:
    """The operation in progress in a worktree, by its git dir."""
    found: dict[str, bytes] = {}
    left = LARGEST
    for path in sorted(_paths(git_dir)):
        data = _read(git_dir, path, left)
        if data is not None:
            found[path] = data
            left -= len(data)
    files = OperationFiles(found)
    if files.operation is None:
        found.pop(ORIG_HEAD, None)
    return files


def in_progress(git_dir: str) -> Operation | None:
    return read(git_dir).operation


def is_known(path: str) -> bool:
    """Whether git uses this name: no other is ever written into a git dir."""
    return path in FILES or path.startswith(tuple(folder + "/" for folder in FOLDERS))


def _paths(git_dir: str) -> Iterator[str]:
    yield from set(FILES).intersection(os.listdir(git_dir))
    for top in FOLDERS:
        for folder, _, names in os.walk(os.path.join(git_dir, top)):
            for name in names:
                yield os.path.relpath(os.path.join(folder, name), git_dir)


def _read(git_dir: str, path: str, most: int) -> bytes | None:
    full = os.path.join(git_dir, path)
    try:
        if not stat.S_ISREG(os.lstat(full).st_mode):
            raise IsADirectoryError(errno.EISDIR, "not a file")
        return disk.read(full, most)
    except FileNotFoundError:
        return None
    except OSError as error:
        # Without it the operation could be neither continued nor told from another one.
        raise CkptError(
            f"cannot read '{full}' of the operation in progress: {error.strerror}",
            hint="see 'git status'",
        ) from None


# -- Removing and restoring the files

ROOM = "op-"


def clear(git_dir: str, private_dir: str) -> None:
    """End the operation in progress, as git sees it; its files are lost."""
    doomed = _make_room(private_dir)
    for name in (*reversed(FOLDERS), *reversed(FILES), MERGE_RR):
        if name != ORIG_HEAD and os.path.lexists(os.path.join(git_dir, name)):
            disk.rename(os.path.join(git_dir, name), os.path.join(doomed, os.path.basename(name)))
    _flush_names(git_dir)
    clear_leftovers(private_dir)


def install(git_dir: str, private_dir: str, wanted: OperationFiles) -> None:
    """Restore an operation's files, after `clear`."""
    room = _make_room(private_dir)
    for path, contents in wanted.contents.items():
        _write(os.path.join(room, path), contents)
    disk.fsync_dirs([folder for folder, _, _ in os.walk(room)])
    for name in (*FILES, *FOLDERS):
        source, target = os.path.join(room, name), os.path.join(git_dir, name)
        if not os.path.lexists(source):
            continue
        if os.path.isdir(target):
            disk.rename(target, os.path.join(room, "old-" + os.path.basename(name)))
        disk.make_folders(os.path.dirname(target), git_dir)
        disk.rename(source, target)
    _flush_names(git_dir)
    clear_leftovers(private_dir)


def clear_leftovers(private_dir: str) -> None:
    """Remove what `clear` and `install` left, also of a killed process."""
    for name in disk.names_in(private_dir):
        if name.startswith(ROOM):
            disk.remove_tree(os.path.join(private_dir, name))


def _flush_names(git_dir: str) -> None:
    folders = {os.path.dirname(os.path.join(git_dir, name)) for name in (*FILES, *FOLDERS)}
    disk.fsync_dirs(sorted(filter(os.path.isdir, folders)))


def _make_room(private_dir: str) -> str:
    disk.ensure_dir(private_dir)
    room = os.path.join(private_dir, disk.temporary_name(ROOM))
    disk.mkdir(room)
    return room


def _write(path: str, contents: bytes) -> None:
    disk.make_folders(os.path.dirname(path))
    fd = disk.create(path, 0o666)
    try:
        disk.write(fd, contents)
        disk.fsync(fd)
    finally:
        os.close(fd)


# -- In a checkpoint

_FILES = b"op/files"
_BRANCHES = b"op/branches"
_HELD = b"op/held/"
_ABSENT = b"-"
_LONGEST_LIST = 1 << 24  # of branches
_FULL_ID = rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])"
# In a todo list: a command, perhaps `-C`, then a commit, often shortened.
_INSTRUCTED_ID = rb"(?m)^[a-z-]+ (?:-[cC] )?([0-9a-f]{4,64})\b"


class OperationState(NamedTuple):
    """An operation's files, and the commits of the branches that it will move or go back to."""

    files: OperationFiles = OperationFiles()
    branches: Mapping[bytes, ObjectID | None] = {}


def read_now(refs: Refs) -> OperationState:
    """The operation in progress in a worktree, with its branches."""
    files = read(refs.git_dir)
    named = [*files.branches, *([files.start] if files.start is not None else [])]
    branches = {branch: refs.read(branch) for branch in named}
    return OperationState(files, branches)


def write_state(objects: ObjectStore, state: OperationState) -> dict[bytes, TreeEntry]:
    """The operation's entries of a state tree."""
    if sum(map(len, state.files.contents.values())) > LARGEST:
        raise Refused(
            f"the files of the operation in progress are over {LARGEST >> 20} MiB",
            hint="finish it, or abort it; see 'git status'",
        )
    entries = {
        _FILES + b"/" + os.fsencode(path): TreeEntry(REGULAR, objects.add(b"blob", contents))
        for path, contents in state.files.contents.items()
    }
    if state.branches:
        lines = ((commit or _ABSENT) + b" " + name for name, commit in state.branches.items())
        listed = objects.add(b"blob", b"".join(line + b"\n" for line in sorted(lines)))
        entries[_BRANCHES] = TreeEntry(REGULAR, listed)
    for tree in _of_kind(objects, b"tree", state):
        entries[_HELD + tree] = TreeEntry(FOLDER, tree)
    return entries


def commits_to_keep(objects: ObjectStore, state: OperationState) -> tuple[ObjectID, ...]:
    """The commits that the operation needs to continue or to be aborted.

    One without its tree cannot be kept: a ref to it would only break gc.
    """
    headers = {c: _header(objects, c) for c in _of_kind(objects, b"commit", state)}
    whole = {c for c, lines in headers.items() if objects.has(_ids(lines, b"tree")[0])}
    # Long todo lists name commits one after the other: the last holds them all.
    held = {parent for c in whole for parent in _ids(headers[c], b"parent")}
    return tuple(sorted(whole - held))


def _header(objects: ObjectStore, commit: ObjectID) -> list[bytes]:
    return objects.read(commit, b"commit").partition(b"\n\n")[0].split(b"\n")


def _ids(header: list[bytes], key: bytes) -> list[ObjectID]:
    return [ObjectID(line[len(key) + 1 :]) for line in header if line.startswith(key + b" ")]


def _of_kind(objects: ObjectStore, kind: bytes, state: OperationState) -> list[ObjectID]:
    return sorted(i for i in _named(objects, state) if objects.kind(i) == kind)


def _named(objects: ObjectStore, state: OperationState) -> set[ObjectID]:
    """Every object that the files and branches name, also in short."""
    named = {
        ObjectID(i) for text in state.files.contents.values() for i in re.findall(_FULL_ID, text)
    }
    named |= {commit for commit in state.branches.values() if commit is not None}
    for path in state.files.contents.keys() & set(INSTRUCTION_LISTS):
        for prefix in set(re.findall(_INSTRUCTED_ID, state.files.contents[path])):
            named |= set(objects.beginning_with(prefix))
    return named


def read_state(objects: ObjectStore, state_tree: ObjectID) -> OperationState:
    """The operation that a state tree holds."""
    files: dict[str, bytes] = {}
    left = LARGEST
    top = lookup(objects, state_tree, _FILES)
    for name, entry in walk(objects, top.id) if top is not None else ():
        path = os.fsdecode(name)
        if path == MERGE_RR:
            continue
        if entry.mode != REGULAR or not is_known(path):
            raise Refused(
                f"'{path}' in the checkpoint is not a file of an operation of git's",
                hint="leave HEAD where it is: repeat the command without --head",
            )
        files[path] = read_limited(objects, entry.id, left)
        left -= len(files[path])
    listed = lookup(objects, state_tree, _BRANCHES)
    lines = () if listed is None else read_limited(objects, listed.id, _LONGEST_LIST).splitlines()
    pairs = (line.partition(b" ") for line in lines)
    branches = {name: None if id == _ABSENT else ObjectID(id) for id, _, name in pairs}
    return OperationState(OperationFiles(files), branches)
