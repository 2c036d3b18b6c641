# SPDX-License-Identifier: MIT
"""An operation in progress as part of a checkpoint.

In the state tree, `op/files/` holds the operation's files as they are, `op/branches` the
branches that it will move, with where they stood, and `op/held/` the trees that any of
these name. Commits that they name become parents of the state commit: nothing else may
hold them (an autostash, the tip before a rebase), and no gc takes them now.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ckpt.errors import Refused
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.operation import TODO_LISTS, OperationFiles, is_known, read
from ckpt.store.refs import Refs
from ckpt.store.trees import FOLDER, REGULAR, TreeEntry, lookup, walk

_FILES = b"op/files"
_BRANCHES = b"op/branches"
_HELD = b"op/held/"
_ABSENT = b"-"
_FULL_ID = re.compile(rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")
# In a list of things to do: a word for what, perhaps `-C`, then a commit, often shortened.
_TODO_ID = re.compile(rb"^[a-z-]+ (?:-[cC] )?([0-9a-f]{4,64})\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OperationState:
    """An operation's files, and where the branches stand that it will move."""

    files: OperationFiles = field(default_factory=OperationFiles)
    branches: Mapping[bytes, ObjectID | None] = field(default_factory=dict)


def read_now(refs: Refs) -> OperationState:
    """The operation under way in a worktree."""
    files = read(refs.git_dir)
    return OperationState(files, {branch: refs.read(branch) for branch in files.branches})


def write_state(objects: ObjectStore, state: OperationState) -> dict[bytes, TreeEntry]:
    """The operation's part of a state tree, as entries to be put into it."""
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
    """The commits that must stay for the operation to go on, or to be given up.

    One whose tree has gone cannot be kept any more: a ref to it would only break gc.
    """
    commits = _of_kind(objects, b"commit", state)
    return tuple(c for c in commits if objects.has(_tree_of(objects, c)))


def _tree_of(objects: ObjectStore, commit: ObjectID) -> ObjectID:
    return ObjectID(objects.read(commit, b"commit").partition(b"\n")[0].removeprefix(b"tree "))


def _of_kind(objects: ObjectStore, kind: bytes, state: OperationState) -> list[ObjectID]:
    return sorted(i for i in _named(objects, state) if objects.kind(i) == kind)


def _named(objects: ObjectStore, state: OperationState) -> set[ObjectID]:
    """Every object that the files and branches name, also in short."""
    named = {ObjectID(i) for text in state.files.contents.values() for i in _FULL_ID.findall(text)}
    named |= {commit for commit in state.branches.values() if commit is not None}
    for path in TODO_LISTS:
        for prefix in set(_TODO_ID.findall(state.files.contents.get(path, b""))):
            named |= set(objects.beginning_with(prefix))
    return named


def read_state(objects: ObjectStore, state_tree: ObjectID) -> OperationState:
    """The operation that a state tree holds."""
    files = {}
    top = lookup(objects, state_tree, _FILES)
    for name, entry in walk(objects, top.id) if top is not None else ():
        path = os.fsdecode(name)
        if entry.mode != REGULAR or not is_known(path):
            raise Refused(
                f"the checkpoint holds '{path}', which is no file of an operation of git's",
                hint="leave HEAD where it is: repeat the command without --head",
            )
        files[path] = objects.read(entry.id, b"blob")
    listed = lookup(objects, state_tree, _BRANCHES)
    lines = objects.read(listed.id, b"blob").splitlines() if listed is not None else ()
    return OperationState(OperationFiles(files), dict(_branches(lines)))


def _branches(lines: Iterable[bytes]) -> Iterator[tuple[bytes, ObjectID | None]]:
    for line in lines:
        commit, _, name = line.partition(b" ")
        yield name, None if commit == _ABSENT else ObjectID(commit)
