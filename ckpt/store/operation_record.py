# SPDX-License-Identifier: MIT
"""An operation in progress as part of a checkpoint.

In the state tree, `op/files/` holds the operation's files as they are, `op/branches` the
branches that it will move, with where they stood, and `op/held/` the trees that any of
these name. Commits that they name become
parents of the state commit: nothing else may hold them (an autostash, the tip before a
rebase), and no gc takes them now.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from ckpt.errors import Refused
from ckpt.patterns import lazy_pattern
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.operation import LARGEST, MERGE_RR, TODO_LISTS, OperationFiles, is_known, read
from ckpt.store.refs import Refs
from ckpt.store.trees import FOLDER, REGULAR, TreeEntry, lookup, read_limited, walk
from ckpt.values import field, value_class

_FILES = b"op/files"
_BRANCHES = b"op/branches"
_HELD = b"op/held/"
_ABSENT = b"-"
_MOST_BYTES = LARGEST
_LONGEST_LIST = 1 << 24  # of branches
_FULL_ID = lazy_pattern(rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")
# In a list of things to do: a word for what, perhaps `-C`, then a commit, often shortened.
_TODO_ID = lazy_pattern(rb"(?m)^[a-z-]+ (?:-[cC] )?([0-9a-f]{4,64})\b")


@value_class
class OperationState:
    """An operation's files, and where the branches stand that it will move or go back to."""

    files: OperationFiles = field(default_factory=OperationFiles)
    branches: Mapping[bytes, ObjectID | None] = field(default_factory=dict)


def read_now(refs: Refs) -> OperationState:
    """The operation under way in a worktree."""
    files = read(refs.git_dir)
    named = [*files.branches, *([files.start] if files.start is not None else [])]
    branches = {branch: refs.read(branch) for branch in named}
    return OperationState(files, branches)


def write_state(objects: ObjectStore, state: OperationState) -> dict[bytes, TreeEntry]:
    """The operation's part of a state tree, as entries to be put into it."""
    _check_size(state.files.contents.values())
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


def _check_size(contents: Iterable[bytes]) -> None:
    """More than is read again must not be stored."""
    if sum(map(len, contents)) > _MOST_BYTES:
        raise Refused(
            f"the files of the operation in progress are over {_MOST_BYTES >> 20} MiB",
            hint="finish it, or give it up; 'git status' tells how",
        )


def commits_to_keep(objects: ObjectStore, state: OperationState) -> tuple[ObjectID, ...]:
    """The commits that hold all that the operation needs to go on, or to be given up.

    One whose tree has gone cannot be kept any more: a ref to it would only break gc.
    """
    headers = {c: _header(objects, c) for c in _of_kind(objects, b"commit", state)}
    whole = {c for c, lines in headers.items() if objects.has(_ids(lines, b"tree")[0])}
    # Long lists of things to do name commits one after the other: the last holds them all.
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
    named = {ObjectID(i) for text in state.files.contents.values() for i in _FULL_ID.findall(text)}
    named |= {commit for commit in state.branches.values() if commit is not None}
    for path in state.files.contents.keys() & set(TODO_LISTS):
        for prefix in set(_TODO_ID.findall(state.files.contents[path])):
            named |= set(objects.beginning_with(prefix))
    return named


def read_state(objects: ObjectStore, state_tree: ObjectID) -> OperationState:
    """The operation that a state tree holds."""
    files: dict[str, bytes] = {}
    left = _MOST_BYTES
    top = lookup(objects, state_tree, _FILES)
    for name, entry in walk(objects, top.id) if top is not None else ():
        path = os.fsdecode(name)
        if path == MERGE_RR:
            continue
        if entry.mode != REGULAR or not is_known(path):
            raise Refused(
                f"the checkpoint holds '{path}', which is no file of an operation of git's",
                hint="leave HEAD where it is: repeat the command without --head",
            )
        files[path] = read_limited(objects, entry.id, left)
        left -= len(files[path])
    listed = lookup(objects, state_tree, _BRANCHES)
    lines = () if listed is None else read_limited(objects, listed.id, _LONGEST_LIST).splitlines()
    return OperationState(OperationFiles(files), dict(_branches(lines)))


def _branches(lines: Iterable[bytes]) -> Iterator[tuple[bytes, ObjectID | None]]:
    for line in lines:
        commit, _, name = line.partition(b" ")
        yield name, None if commit == _ABSENT else ObjectID(commit)
