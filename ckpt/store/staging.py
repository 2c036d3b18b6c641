# SPDX-License-Identifier: MIT
"""What is staged: the index as part of a checkpoint, and back into git's file.

In the state tree, `index/` is the tree that `git write-tree` would make, `stages/1|2|3/`
hold the sides of conflicts, and `index-flags.json` what a tree cannot say: version,
intent-to-add, skip-worktree, assume-unchanged. Stat data are no part of a checkpoint:
they are filled in from files whose content is known, and git looks at the rest again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ckpt.errors import Refused
from ckpt.paths import from_json, to_json
from ckpt.store.index import (
    ASSUME_VALID,
    INTENT_TO_ADD,
    SKIP_WORKTREE,
    STAGE,
    Index,
    IndexEntry,
    read_index,
    stat_fields,
    write_index,
)
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.repository import Repository
from ckpt.store.trees import FOLDER, TreeEntry, lookup, walk, write_tree

FLAGS = b"index-flags.json"
_FLAG_NAMES = ("assume_valid", "skip_worktree")
_CONTENT_FLAGS = ASSUME_VALID | INTENT_TO_ADD | SKIP_WORKTREE | STAGE
# How a file's state is known: its entry and the stat data it had then.
KnownFile = Callable[[bytes], tuple[TreeEntry, os.stat_result] | None]


@dataclass(frozen=True, slots=True)
class Staged:
    """The index file as it was read; `mtime_ns` is None when there was none."""

    index: Index
    mtime_ns: int | None

    def is_racy(self, entry: IndexEntry) -> bool:
        """Its file may have changed in the tick in which git looked at it."""
        mtime = entry.mtime_s * 1_000_000_000 + entry.mtime_ns
        return self.mtime_ns is None or mtime >= self.mtime_ns


def read_staged(repo: Repository) -> Staged:
    """The index of a worktree, a sparse one expanded."""
    hash_len = repo.object_format.oid_length
    try:
        with open(repo.index_path, "rb") as file:
            mtime = os.fstat(file.fileno()).st_mtime_ns
            data = file.read()
    except FileNotFoundError:
        return Staged(Index(2, [], {}, hash_len), None)
    index = read_index(data, hash_len=hash_len, hash_name=repo.object_format.name)
    if index.is_split:
        raise Refused(
            "this worktree has a split index, which ckpt cannot read",
            hint="git update-index --no-split-index",
        )
    if index.is_sparse:
        entries = sorted(_expand(repo.objects, index.entries), key=_order)
        index = Index(index.version, entries, {}, hash_len)
    return Staged(index, mtime)


def _order(entry: IndexEntry) -> tuple[bytes, int]:
    return entry.path, entry.stage


def index_mtime(repo: Repository) -> int | None:
    try:
        return os.stat(repo.index_path).st_mtime_ns
    except FileNotFoundError:
        return None


def _expand(objects: ObjectStore, entries: Iterable[IndexEntry]) -> Iterable[IndexEntry]:
    for entry in entries:
        if entry.mode != FOLDER:
            yield entry
            continue
        for path, child in walk(objects, ObjectID(entry.id), entry.path.rstrip(b"/")):
            yield IndexEntry.of(path, child.id, child.mode, skip_worktree=True)


def write_state(objects: ObjectStore, index: Index) -> dict[bytes, TreeEntry]:
    """The index's part of a state tree, as entries to be put into it."""
    stages: dict[int, dict[bytes, TreeEntry]] = {0: {}}
    for entry in index.entries:
        if not entry.intent_to_add:
            side = stages.setdefault(entry.stage, {})
            side[entry.path] = TreeEntry(entry.mode, ObjectID(entry.id))
    flags = json.dumps(_flags(index), sort_keys=True, indent=1).encode() + b"\n"
    state = {FLAGS: TreeEntry(0o100644, objects.add(b"blob", flags))}
    for stage, entries in stages.items():
        name = b"stages/%d" % stage if stage else b"index"
        state[name] = TreeEntry(FOLDER, write_tree(objects, entries))
    return state


def _flags(index: Index) -> dict[str, Any]:
    document: dict[str, Any] = {"version": index.version}
    document["intent_to_add"] = [
        to_json(entry.path) | {"mode": f"{entry.mode:o}"}
        for entry in index.entries
        if entry.intent_to_add
    ]
    for name in _FLAG_NAMES:
        document[name] = [to_json(e.path) for e in index.entries if getattr(e, name)]
    return document


def read_state(objects: ObjectStore, state_tree: ObjectID) -> Index:
    """The index that a state tree holds, without stat data."""
    flags = _read_flags(objects, state_tree)
    marked = {name: {from_json(d) for d in flags.get(name, ())} for name in _FLAG_NAMES}
    entries = []
    for stage, name in enumerate([b"index", b"stages/1", b"stages/2", b"stages/3"]):
        top = lookup(objects, state_tree, name)
        for path, entry in walk(objects, top.id) if top is not None else ():
            entries.append(
                IndexEntry.of(
                    path,
                    entry.id,
                    entry.mode,
                    stage=stage,
                    assume_valid=path in marked["assume_valid"],
                    skip_worktree=path in marked["skip_worktree"],
                )
            )
    empty = objects.hash(b"blob", b"")
    for item in flags.get("intent_to_add", ()):
        path, mode = from_json(item), int(item["mode"], 8)
        entries.append(
            IndexEntry.of(
                path,
                empty,
                mode,
                assume_valid=path in marked["assume_valid"],
                skip_worktree=path in marked["skip_worktree"],
                intent_to_add=True,
            )
        )
    entries.sort(key=_order)
    return Index(flags.get("version", 2), entries, {}, objects.object_format.oid_length)


def _read_flags(objects: ObjectStore, state_tree: ObjectID) -> dict[str, Any]:
    entry = lookup(objects, state_tree, FLAGS)
    document = json.loads(objects.read(entry.id, b"blob")) if entry is not None else {}
    if not isinstance(document, dict) or document.get("version", 2) not in (2, 3, 4):
        raise Refused("the index flags of this checkpoint are damaged", hint="git ckpt list")
    return document


def same(left: Index, right: Index) -> bool:
    """Equal in all that `git status` and `git commit` look at; stat data and version do not."""
    return _content(left) == _content(right)


def _content(index: Index) -> list[tuple[bytes, bytes, int, int]]:
    return [(e.path, e.id, e.flags & _CONTENT_FLAGS, e.mode) for e in index.entries]


def compose(target: Index, present: Staged, known: KnownFile, hash_name: str) -> bytes:
    """The bytes of an index file with the target's content and the best stat data to hand."""
    before = {(e.path, e.stage): e for e in present.index.entries}
    entries = []
    for entry in target.entries:
        if entry.stage == 0 and not entry.intent_to_add:
            entry = _with_stat(entry, before.get((entry.path, 0)), present, known)
        entries.append(entry)
    return write_index(entries, version=target.version, hash_name=hash_name)


def _with_stat(
    entry: IndexEntry, before: IndexEntry | None, present: Staged, known: KnownFile
) -> IndexEntry:
    file = known(entry.path)
    if file is not None and file[0] == (entry.mode, entry.id):
        fields = stat_fields(file[1])
        packed = IndexEntry.of(entry.path, entry.id, entry.mode, fields).stat
        return entry._replace(stat=packed)
    unchanged = before is not None and (before.id, before.mode) == (entry.id, entry.mode)
    if before is not None and unchanged and not present.is_racy(before):
        return entry._replace(stat=before.stat)
    return entry
