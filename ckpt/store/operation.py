# SPDX-License-Identifier: MIT
"""An operation in progress: a merge, rebase, cherry-pick, revert, am or bisect.

All that git remembers of one lies in files of the worktree's own git dir (its private
refs are files there too), and in the branches that a rebase will move when it ends.
Which operation it is, is told by its name and by a digest of the files that say what it
is about: files of one state and a MERGE_HEAD of another make a commit that drops a side.

Reads only. `operation_record` keeps an operation in a checkpoint, `operation_files`
puts it back.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping

from ckpt import regular
from ckpt.errors import CkptError
from ckpt.hashing import sha256
from ckpt.values import field, value_class

# In git's own order of telling them apart: name, the file that shows it, what identifies it.
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
# Everything by which git continues or aborts one. Those by which it sees that there is
# one come last: what they point to must be in its place before they are.
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
# Cleared, but neither kept nor put back: git crashes if a conflict it names is not in rr-cache/.
MERGE_RR = "MERGE_RR"
# Git's name for what a rebase or a sequence still has to do, and has done.
TODO_LISTS = (
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


@value_class
class Operation:
    """`name` joins several with a plus: a merge may stop inside a bisect."""

    name: str
    fingerprint: str


@value_class
class OperationFiles:
    """The files of an operation by their path in the git dir; none if there is none.

    Some may be there without an operation, such as the message of a squash merge.
    """

    contents: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def operation(self) -> Operation | None:
        """Which operation these files tell of."""
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
        # Three lines for each branch: its name, where it stands, where it shall.
        named |= set(self.contents.get(UPDATE_REFS, b"").splitlines()[::3])
        return tuple(sorted(name for name in named if name.startswith(b"refs/")))

    @property
    def start(self) -> bytes | None:
        """The branch that a bisect goes back to when it is reset; it does not move it."""
        name = self.contents.get(_BISECT_START, b"").strip()
        is_commit = len(name) in (40, 64) and not name.strip(b"0123456789abcdef")
        return b"refs/heads/" + name if name and not is_commit else None


def read(git_dir: str) -> OperationFiles:
    """The operation under way in a worktree, by its git dir."""
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
    """Whether git itself uses this name: no other ever gets into a git dir."""
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
        return regular.read(full, most)
    except FileNotFoundError:
        return None
    except OSError as error:
        # Without it the operation could be neither continued nor told from another one.
        raise CkptError(
            f"cannot read '{full}' of the operation in progress: {error.strerror}",
            hint="'git status' tells what git makes of it",
        ) from None
