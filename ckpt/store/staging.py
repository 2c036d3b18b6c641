# SPDX-License-Identifier: MIT
"""What is staged: the index as part of a checkpoint, and out of it again.

In the state tree, `index/` is the tree that `git write-tree` would make, `stages/1|2|3/`
hold the sides of conflicts, and `index-flags.json` what a tree cannot say: version,
intent-to-add, skip-worktree, assume-unchanged. Stat data are no part of a checkpoint: they
are filled in when git's file is made again (`index_file`). Nor are git's caches in the index
(cache tree, resolve-undo, untracked cache, file monitor): git makes them anew.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from ckpt import jsontext, regular
from ckpt.errors import Refused
from ckpt.paths import folders_above, from_json, to_json, to_str
from ckpt.store.index import (
    ASSUME_VALID,
    INTENT_TO_ADD,
    NO_STAT,
    SKIP_WORKTREE,
    STAGE,
    STAT,
    CorruptIndex,
    Index,
    IndexEntry,
    read_index,
)
from ckpt.store.index_glance import IndexGlance, glance
from ckpt.store.objects import MissingObject, ObjectID, ObjectStore
from ckpt.store.record import INDEX
from ckpt.store.repository import Repository
from ckpt.store.trees import (
    FOLDER,
    REGULAR,
    Entries,
    TreeEntry,
    Unfolding,
    add_limited,
    lookup,
    read_limited,
    walk,
    write_tree,
)
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLAGS = b"index-flags.json"
_STAGES = (INDEX, b"stages/1", b"stages/2", b"stages/3")
_FLAG_NAMES = ("assume_valid", "skip_worktree")
_CONTENT_FLAGS = ASSUME_VALID | INTENT_TO_ADD | SKIP_WORKTREE | STAGE
# Stat data that no file has. Git does not look past the size of the first; the second is
# never written, and stands for those that the file will have.
STALE = NO_STAT._replace(size=0xFFFFFFFF)
UNSEEN = NO_STAT._replace(size=0xFFFFFFFE)
# In place of the device, which git does not compare: by this we know that they mislead it.
MISLEADING = 0xFFFFFFFF


@value_class
class Staged:
    """The index file as it was read; `mtime_ns` is None when there was none."""

    index: Index
    mtime_ns: int | None

    def is_proof(self, entry: IndexEntry) -> bool:
        """A file with its stat data has its content."""
        return STAT.unpack(entry.stat)[4] != MISLEADING and not self.is_racy(entry)

    def is_racy(self, entry: IndexEntry) -> bool:
        """Its file may have changed in the tick in which git looked at it."""
        mtime = entry.mtime_s * 1_000_000_000 + entry.mtime_ns
        return self.mtime_ns is None or mtime >= self.mtime_ns


def read_staged(repo: Repository, most: int | None = None) -> Staged:
    """The index of a worktree, a sparse one expanded. Refused if it has more than so many
    entries, or is split."""
    try:
        return parse_staged(repo, *_read_file(repo), most)
    except FileNotFoundError:
        return Staged(Index(2, [], {}, repo.object_format.oid_length), None)


def _read_file(repo: Repository) -> tuple[bytes, int]:
    data, status = regular.read_with_status(repo.index_path, regular.LARGE)
    return data, status.st_mtime_ns


def parse_staged(repo: Repository, data: bytes, mtime: int, most: int | None = None) -> Staged:
    """The same from a file that was read already."""
    hash_len = repo.object_format.oid_length
    index = _parse(repo, data, most)
    if index.is_sparse:
        entries = sorted(_expand(repo.objects, index.entries), key=_order)
        index = Index(index.version, entries, {}, hash_len)
    return Staged(index, mtime)


def glance_at(repo: Repository, paths: list[bytes], state: Entries) -> IndexGlance | None:
    """A glance at the index, if it has these paths and is what `write_state` made this of."""
    staged = state.get(INDEX)
    plain = repo.objects.hash(b"blob", jsontext.dump(_flags(Index(2, [], {}))))
    if staged is None or state != {FLAGS: TreeEntry(REGULAR, plain), INDEX: staged}:
        return None
    try:
        data, mtime = _read_file(repo)
        return glance(data, mtime, paths, staged.id, repo.object_format.oid_length)
    except (FileNotFoundError, CorruptIndex):
        return None


def _parse(repo: Repository, data: bytes, most: int | None) -> Index:
    if most is not None and int.from_bytes(data[8:12], "big") > most:
        raise Refused(f"its index has more than {most:,} entries", hint="git ckpt save")
    form = repo.object_format
    return read_index(data, hash_len=form.oid_length, hash_name=form.name)


def _order(entry: IndexEntry) -> tuple[bytes, int]:
    return entry.path, entry.stage


def index_mtime(repo: Repository) -> int | None:
    try:
        return os.stat(repo.index_path).st_mtime_ns
    except FileNotFoundError:
        return None


def _expand(objects: ObjectStore, entries: Iterable[IndexEntry]) -> Iterable[IndexEntry]:
    unfolding = Unfolding()
    for entry in entries:
        if entry.mode != FOLDER:
            yield entry
            continue
        try:
            below = list(walk(objects, ObjectID(entry.id), entry.path.rstrip(b"/"), unfolding))
        except MissingObject as error:
            raise Refused(
                f"the tree of '{to_str(entry.path)}', which the sparse index names, is not here",
                hint="'git sparse-checkout reapply --no-sparse-index' fetches it",
                details=error.details,
            ) from error
        for path, child in below:
            yield IndexEntry.of(path, child.id, child.mode, skip_worktree=True)


def write_state(
    objects: ObjectStore,
    index: Index,
    stale: Collection[bytes] = (),
    unseen: Collection[bytes] = (),
    *,
    stages: Mapping[int, ObjectID] | None = None,
) -> dict[bytes, TreeEntry]:
    """The index's part of a state tree, as entries to be put into it.

    By their stat data git takes `stale` files for changed that are not, once converted, and
    does not see that `unseen` ones are. `stages` are the trees, if they are written already.
    """
    document = _flags(index)
    for belief, paths in {"stale": stale, "unseen": unseen}.items():
        if paths:
            document[belief] = [to_json(path) for path in sorted(paths)]
    state = {FLAGS: add_limited(objects, jsontext.dump(document), "index-flags.json")}
    for stage, tree in (stages or write_stages(objects, index)).items():
        state[b"stages/%d" % stage if stage else INDEX] = TreeEntry(FOLDER, tree)
    return state


def whole_trees(objects: ObjectStore, index: Index) -> dict[bytes, ObjectID]:
    """The trees that git remembers, by folder, if they and all inside them are there and whole."""
    trees = {folder: ObjectID(node.id) for folder, node in index.cache_tree.items()}
    whole = objects.whole(trees.values())
    broken = [folder for folder, tree in trees.items() if tree not in whole]
    around = {above for folder in broken for above in (folder, *folders_above(folder), b"")}
    return {folder: tree for folder, tree in trees.items() if folder not in around}


def write_stages(
    objects: ObjectStore, index: Index, whole: Mapping[bytes, ObjectID] | None = None
) -> dict[int, ObjectID]:
    """The tree of each stage that there is. If it is not given which of the trees that git
    remembers are `whole`, those of them are trusted that are there."""
    trees = whole
    if trees is None:
        trees = {folder: ObjectID(node.id) for folder, node in index.cache_tree.items()}
    top = trees.get(b"")
    is_all = top is not None and index.cache_tree[b""].entry_count == len(index.entries)
    if top is not None and is_all and (whole is not None or objects.has(top)):
        return {0: top}
    stages: dict[int, dict[bytes, TreeEntry]] = {0: {}}
    for entry in index.entries:
        if not entry.intent_to_add:
            side = stages.setdefault(entry.stage, {})
            side[entry.path] = TreeEntry(entry.mode, ObjectID(entry.id))
    stages[0] = _with_known_trees(objects, trees, stages[0])
    return {stage: write_tree(objects, entries) for stage, entries in stages.items()}


def _with_known_trees(
    objects: ObjectStore, trees: Mapping[bytes, ObjectID], entries: dict[bytes, TreeEntry]
) -> dict[bytes, TreeEntry]:
    """The same entries, but for the folders whose trees git remembers and still has."""
    known = {folder: TreeEntry(FOLDER, tree) for folder, tree in trees.items() if folder}
    outermost: dict[bytes, bytes] = {b"": b""}

    def within(folder: bytes) -> bytes:
        """The highest folder with a known tree that a folder is in, or is."""
        inner = [] if folder in outermost else [folder, *folders_above(folder)]
        for each in reversed(inner):
            if each not in outermost:
                is_known = each in known and objects.has(known[each].id)
                outermost[each] = outermost[each.rpartition(b"/")[0]] or (each if is_known else b"")
        return outermost[folder]

    shorter: dict[bytes, TreeEntry] = {}
    for path, entry in entries.items() if known else ():
        folder = within(path.rpartition(b"/")[0])
        shorter[folder or path] = known[folder] if folder else entry
    return shorter or entries


def _flags(index: Index) -> dict[str, Any]:
    document: dict[str, Any] = {"version": index.version}
    marked = [entry for entry in index.entries if entry.flags]
    document["intent_to_add"] = [
        to_json(entry.path) | {"mode": f"{entry.mode:o}"} for entry in marked if entry.intent_to_add
    ]
    for name in _FLAG_NAMES:
        document[name] = [to_json(e.path) for e in marked if getattr(e, name)]
    return document


def read_state(objects: ObjectStore, state_tree: ObjectID) -> Index:
    """The index that a state tree holds, without stat data."""
    flags = read_flags(objects, state_tree)
    marked = {name: {from_json(d) for d in flags.get(name, ())} for name in _FLAG_NAMES}
    stats = {from_json(item): UNSEEN for item in flags.get("unseen", ())}
    stats |= {from_json(item): STALE for item in flags.get("stale", ())}
    entries = []
    for stage, tree in enumerate(stage_trees(objects, state_tree)):
        for path, entry in walk(objects, tree) if tree is not None else ():
            entries.append(
                IndexEntry.of(
                    path,
                    entry.id,
                    entry.mode,
                    NO_STAT if stage else stats.get(path, NO_STAT),
                    stage=stage,
                    assume_valid=path in marked["assume_valid"],
                    skip_worktree=path in marked["skip_worktree"],
                )
            )
    empty = objects.hash(b"blob", b"")
    for item in flags.get("intent_to_add", ()):
        path, mode = from_json(item), int(item["mode"], 8) & 0xFFFFFFFF
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
    from ckpt.store.index_check import check  # a save does not need it

    check(entries)
    return Index(flags.get("version", 2), entries, {}, objects.object_format.oid_length)


def is_stored(objects: ObjectStore, state_tree: ObjectID, state: Entries) -> bool:
    """Whether a state tree holds the same index as these entries of `write_state`."""
    names = (FLAGS, *_STAGES)
    return all(lookup(objects, state_tree, name) == state.get(name) for name in names)


def stage_trees(objects: ObjectStore, state_tree: ObjectID) -> list[ObjectID | None]:
    """The trees of the stages in a state tree, None where it has none."""
    found = (lookup(objects, state_tree, name) for name in _STAGES)
    return [None if entry is None else entry.id for entry in found]


def read_flags(objects: ObjectStore, state_tree: ObjectID) -> dict[str, Any]:
    """What a state tree tells of an index besides its trees."""
    entry = lookup(objects, state_tree, FLAGS)
    document = jsontext.load(read_limited(objects, entry.id)) if entry is not None else {}
    if not isinstance(document, dict) or document.get("version", 2) not in (2, 3, 4):
        raise Refused("the index flags of this checkpoint are damaged", hint="git ckpt list")
    return document


def same(left: Index, right: Index) -> bool:
    """Equal in all that `git status` and `git commit` look at; stat data and version do not."""
    return _content(left) == _content(right)


def _content(index: Index) -> list[tuple[bytes, bytes, int, int]]:
    return [(e.path, e.id, e.flags & _CONTENT_FLAGS, e.mode) for e in index.entries]


def misleads(index: Index) -> bool:
    """True if git shall believe of a file what is not so; see write_state."""
    return any(entry.size in (STALE.size, UNSEEN.size) for entry in index.entries)


def unseen(index: Index) -> list[bytes]:
    """Files that git shall take for unchanged although they are not; see write_state."""
    return [entry.path for entry in index.entries if entry.size == UNSEEN.size]
