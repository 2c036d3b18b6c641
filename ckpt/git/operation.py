# SPDX-License-Identifier: MIT
"""Read, save and restore an operation in progress: merge, rebase, cherry-pick, revert, am, bisect.

Git keeps it in files and private refs of the worktree's git dir, and in the branches that a rebase
updates at its end. It is identified by its name and the files that define it, so that the files of
one merge are never combined with the MERGE_HEAD of another.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from ckpt import disk
from ckpt.errors import CkptError, raise_want
from ckpt.git.objects import ObjectID, ObjectStore
from ckpt.git.record import read_commit
from ckpt.git.refs import Refs
from ckpt.git.trees import FOLDER, LARGEST_STATE, REGULAR, TreeEntry, lookup, walk

# In the order in which git detects them: name, the file that marks it, the files that identify it.
_OPERATIONS = (
    ("rebase", "rebase-merge", "rebase-merge/onto rebase-merge/orig-head rebase-merge/done"),
    ("am", "rebase-apply/applying", "rebase-apply/abort-safety rebase-apply/next"),
    ("rebase", "rebase-apply", "rebase-apply/onto rebase-apply/orig-head rebase-apply/next"),
    ("merge", "MERGE_HEAD", "MERGE_HEAD"),
    ("cherry-pick", "CHERRY_PICK_HEAD", "CHERRY_PICK_HEAD"),
    ("revert", "REVERT_HEAD", "REVERT_HEAD"),
    ("sequencer", "sequencer", "sequencer/head sequencer/todo"),
    ("bisect", "BISECT_LOG", "BISECT_START BISECT_LOG"),
)
# The files that git needs to continue or abort an operation. Those that mark it as in progress
# come last, after the files they depend on.
FILES = (
    *("ORIG_HEAD", "AUTO_MERGE", "MERGE_AUTOSTASH", "MERGE_MODE", "MERGE_MSG", "SQUASH_MSG"),
    *("BISECT_ANCESTORS_OK", "BISECT_EXPECTED_REV", "BISECT_FIRST_PARENT", "BISECT_HEAD"),
    *("BISECT_NAMES", "BISECT_RUN", "BISECT_TERMS", "BISECT_START", "BISECT_LOG"),
    *("REBASE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "MERGE_HEAD"),
)
FOLDERS = ("refs/bisect", "refs/rewritten", "sequencer", "rebase-apply", "rebase-merge")
# Saved only with an operation: `git am --abort` needs it, but every reset writes one.
ORIG_HEAD = "ORIG_HEAD"
# Removed, never restored: git crashes if rr-cache/ lacks a conflict that it names.
MERGE_RR = "MERGE_RR"
# The steps of a rebase or a sequence, to do and done.
_INSTRUCTION_LISTS = (
    *("rebase-merge/git-rebase-todo", "rebase-merge/git-rebase-todo.backup", "rebase-merge/done"),
    *("sequencer/todo", "sequencer/done"),
)
LARGEST = 1 << 28  # of each of these files


class Operation(NamedTuple):
    """The identity of an operation; `name` joins several with a plus, as "merge+bisect"."""

    name: str
    marks: tuple[bytes, ...]


class OperationState(NamedTuple):
    """The contents of an operation's files by path in the git dir, and the commits of the branches
    that it updates. A squash merge has a message but is not an operation."""

    contents: Mapping[str, bytes] = {}
    branches: Mapping[bytes, ObjectID] = {}

    @property
    def identity(self) -> Operation | None:
        """Return the operation that the files belong to."""
        found: dict[str, str] = {}
        marks: list[bytes] = []
        for name, sign, identity in _OPERATIONS:
            top = sign.partition("/")[0]  # `rebase-apply` marks either an am or a rebase
            is_there = any(path == sign or path.startswith(sign + "/") for path in self.contents)
            if is_there and name not in found and top not in found.values():
                found[name] = top
                marks += [self.contents.get(part, b"") for part in identity.split()]
        return Operation("+".join(found), tuple(marks)) if found else None

    @property
    def moved(self) -> tuple[bytes, ...]:
        """Return the branches that the operation updates at its end."""
        names = ("rebase-merge/head-name", "rebase-apply/head-name")
        named = {self.contents.get(name, b"").strip() for name in names}
        # Three lines for each branch: its name, its old and its new commit.
        named |= set(self.contents.get("rebase-merge/update-refs", b"").splitlines()[::3])
        return tuple(sorted(name for name in named if name.startswith(b"refs/")))


def read(git_dir: str) -> OperationState:
    """Read the operation in progress from a git dir, without its branches."""
    found: dict[str, bytes] = {}
    paths = set(FILES).intersection(os.listdir(git_dir))
    for top in FOLDERS:
        for folder, _, names in os.walk(os.path.join(git_dir, top), onerror=raise_want):
            paths |= {os.path.relpath(os.path.join(folder, name), git_dir) for name in names}
    for path in sorted(paths):
        full = os.path.join(git_dir, path)
        try:
            found[path] = disk.read(full, LARGEST)
        except FileNotFoundError:
            continue
        except OSError as error:
            # Without this file the operation could be neither continued nor identified.
            raise CkptError(
                f"cannot read '{full}' of the operation in progress: {error.strerror}",
                hint="see 'git status'",
            ) from None
    if OperationState(found).identity is None:
        found.pop(ORIG_HEAD, None)
    return OperationState(found)


def read_now(refs: Refs) -> OperationState:
    """Read the operation in progress in a worktree, with its branches."""
    state = read(refs.git_dir)
    found = {branch: refs.read(branch) for branch in state.moved}
    return state._replace(branches={name: id for name, id in found.items() if id is not None})


# -- Removing and restoring the files, each by a rename


def clear(git_dir: str, private_dir: str) -> None:
    """Remove the files of the operation in progress."""
    with _room(git_dir, private_dir) as room:
        for name in (*reversed(FOLDERS), *reversed(FILES), MERGE_RR):
            path = os.path.join(git_dir, name)
            if name != ORIG_HEAD and os.path.lexists(path):
                os.rename(path, os.path.join(room, os.path.basename(name)))


def install(git_dir: str, private_dir: str, wanted: OperationState) -> None:
    """Restore the files of an operation; call `clear` first."""
    with _room(git_dir, private_dir) as room:
        for path, contents in wanted.contents.items():
            full = os.path.join(room, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(disk.create(full, 0o666), "wb") as file:
                file.write(contents)
        made = ((top, ("", *names)) for top, _, names in os.walk(room))
        disk.fsync([os.path.join(top, name) for top, names in made for name in names])
        for name in (*FILES, *FOLDERS):
            source, target = os.path.join(room, name), os.path.join(git_dir, name)
            if os.path.lexists(source):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.rename(source, target)


@contextmanager
def _room(git_dir: str, private_dir: str) -> Iterator[str]:
    """Create a temporary directory for atomic renames of files and directories."""
    from shutil import rmtree  # slow to import, and rarely needed

    room = os.path.join(private_dir, "operation")
    if os.path.lexists(room):  # left by a killed process
        rmtree(room)
    disk.ensure_dir(room)
    yield room
    folders = {os.path.dirname(os.path.join(git_dir, name)) for name in (*FILES, *FOLDERS)}
    disk.fsync(sorted(filter(os.path.isdir, folders)))
    rmtree(room)


# -- In a checkpoint

_BRANCHES = b"op/branches"
_FULL_ID = rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])"
# In a todo list: a command, optionally `-C`, and a commit, often abbreviated.
_INSTRUCTED_ID = rb"(?m)^[a-z-]+ (?:-[cC] )?([0-9a-f]{4,64})\b"


def write_state(objects: ObjectStore, state: OperationState) -> dict[bytes, TreeEntry]:
    """Write an operation to the store and return its entries for a state tree."""
    blobs = {b"op/files/" + os.fsencode(path): text for path, text in state.contents.items()}
    if state.branches:
        lines = (commit + b" " + name for name, commit in state.branches.items())
        blobs[_BRANCHES] = b"".join(line + b"\n" for line in sorted(lines))
    entries = {p: TreeEntry(REGULAR, objects.add(b"blob", text)) for p, text in blobs.items()}
    for tree in _named(objects, b"tree", state):
        entries[b"op/held/" + tree] = TreeEntry(FOLDER, tree)
    return entries


def commits_to_keep(objects: ObjectStore, state: OperationState) -> tuple[ObjectID, ...]:
    """Return the commits that the operation needs to be continued or aborted.

    Commits without their tree are left out: a ref to them would break gc.
    """
    found = {c: read_commit(objects, c) for c in _named(objects, b"commit", state)}
    whole = {c for c, commit in found.items() if objects.has(commit.tree)}
    # The commits of a todo list often form a chain: its tip is enough.
    held = {parent for c in whole for parent in found[c].parents}
    return tuple(sorted(whole - held))


def _named(objects: ObjectStore, kind: bytes, state: OperationState) -> list[ObjectID]:
    """Return the objects of a kind that the files and branches name, in full or abbreviated."""
    texts = state.contents
    named = {ObjectID(name) for text in texts.values() for name in re.findall(_FULL_ID, text)}
    named |= {*state.branches.values()}
    for path in texts.keys() & set(_INSTRUCTION_LISTS):
        for prefix in set(re.findall(_INSTRUCTED_ID, texts[path])):
            named |= set(objects.beginning_with(prefix))
    return sorted(name for name in named if objects.kind(name) == kind)


def read_state(objects: ObjectStore, state_tree: ObjectID) -> OperationState:
    """Read the operation of a state tree."""
    top = lookup(objects, state_tree, b"op/files")
    files = {
        os.fsdecode(path): objects.read(entry.id, b"blob", LARGEST)
        for path, entry in (walk(objects, top.id) if top is not None else ())
    }
    listed = lookup(objects, state_tree, _BRANCHES)
    text = b"" if listed is None else objects.read(listed.id, b"blob", LARGEST_STATE)
    pairs = (line.partition(b" ") for line in text.splitlines())
    return OperationState(files, {name: ObjectID(id) for id, _, name in pairs})
