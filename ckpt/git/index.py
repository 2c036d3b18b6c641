# SPDX-License-Identifier: MIT
"""Git's index: reading and writing the file, and the index as part of a checkpoint.

Reading is one loop by hand: 5.8 ms for 7,001 entries against 41 with dulwich, since an entry
keeps its stat data as the forty bytes of the file. Writing is by hand because dulwich's leaves a
cut index in place after an error, and copies extensions that are no longer true; ours writes none.
Left out: locking the file, and split and sparse indexes, which are refused.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from binascii import hexlify, unhexlify
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from ckpt import disk, jsontext
from ckpt.errors import CkptError, Refused
from ckpt.git.formats import ObjectID
from ckpt.git.objects import ObjectStore
from ckpt.git.record import INDEX
from ckpt.git.repository import Repository
from ckpt.git.trees import (
    EXECUTABLE,
    FOLDER,
    GITLINK,
    REGULAR,
    SYMLINK,
    Entries,
    TreeEntry,
    UnsafeTree,
    add_limited,
    check_name,
    is_null,
    lookup,
    read_limited,
    walk,
    write_tree,
)
from ckpt.paths import folders_above, from_json, to_json

# An entry's flags: the file's first flag word as it is, its extended word 16 bits up.
ASSUME_VALID = 0x8000
STAGE = 0x3000
SKIP_WORKTREE = 0x4000 << 16
INTENT_TO_ADD = 0x2000 << 16
_EXTENDED_FLAGS = SKIP_WORKTREE | INTENT_TO_ADD
_FLAGS = _EXTENDED_FLAGS | ASSUME_VALID | STAGE
# In the file only: an extended word follows; length of the name, or "this long or longer".
_EXTENDED = 0x4000
_NAME_LENGTH = 0x0FFF

STAT = struct.Struct(">10I")  # ctime, mtime (seconds, nanoseconds), dev, ino, mode, uid, gid, size
_HEADER = struct.Struct(">4sII")
_EXTENSION = struct.Struct(">4sI")
_MODE = slice(24, 28)
_MODES = frozenset((REGULAR, EXECUTABLE, SYMLINK, GITLINK))
_WORD = 0xFFFFFFFF
_SECOND = 1_000_000_000
_CLOCK = _SECOND << 32  # after so many nanoseconds the index's clock is at zero again
_EMPTY_BLOBS = {
    b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    b"473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
}


class CorruptIndex(CkptError):
    """The bytes are not an index that git would have written."""

    def __init__(
        self, message: str, *, hint: str = "move it away, and 'git reset' makes it anew from HEAD"
    ) -> None:
        super().__init__(message, hint=hint)


class UnsupportedIndex(CorruptIndex, Refused):
    """A kind of index that is not read."""


_UNSUPPORTED = {
    b"link": ("split index is not supported", "git update-index --no-split-index"),
    b"sdir": (
        "sparse index is not supported",
        "git sparse-checkout reapply --no-sparse-index",
    ),
}


class _Entry(NamedTuple):
    path: bytes
    id: bytes
    flags: int
    stat: bytes


class IndexEntry(_Entry):
    """One path at one stage. ``stat`` is the stat data as packed in the file."""

    __slots__ = ()

    @property
    def mode(self) -> int:
        return int.from_bytes(self.stat[_MODE], "big")

    @property
    def size(self) -> int:
        return int.from_bytes(self.stat[36:], "big")

    @property
    def mtime_ns(self) -> int:
        return _SECOND * int.from_bytes(self.stat[8:12], "big") + int.from_bytes(
            self.stat[12:16], "big"
        )

    @property
    def stage(self) -> int:
        return (self.flags & STAGE) >> 12

    @property
    def assume_valid(self) -> bool:
        return bool(self.flags & ASSUME_VALID)

    @property
    def skip_worktree(self) -> bool:
        return bool(self.flags & SKIP_WORKTREE)

    @property
    def intent_to_add(self) -> bool:
        return bool(self.flags & INTENT_TO_ADD)

    @classmethod
    def of(
        cls,
        path: bytes,
        id: bytes,
        mode: int,
        *,
        stage: int = 0,
        assume_valid: bool = False,
        skip_worktree: bool = False,
        intent_to_add: bool = False,
    ) -> IndexEntry:
        """An entry without stat data."""
        flags = stage << 12 | assume_valid * ASSUME_VALID
        flags |= skip_worktree * SKIP_WORKTREE | intent_to_add * INTENT_TO_ADD
        return cls(path, id, flags, bytes(24) + mode.to_bytes(4, "big") + bytes(12))


class Index:
    """`cached_trees` is the file's TREE extension, as it is."""

    def __init__(
        self, entries: list[IndexEntry], cached_trees: bytes = b"", hash_len: int = 20
    ) -> None:
        self.entries = entries
        self.cached_trees = cached_trees
        self.hash_len = hash_len

    @cached_property
    def trees(self) -> dict[bytes, ObjectID]:
        """The trees that git remembers, by folder, of folders whose entries did not change since.

        A damaged extension counts as none, as in git: it only saves work.
        """
        try:
            return _parse_cached_trees(self.cached_trees, self.hash_len)
        except ValueError:
            return {}

    @property
    def tree(self) -> ObjectID | None:
        """The tree of all entries, if git remembers it."""
        count = self.cached_trees[1:].partition(b" ")[0]
        return self.trees.get(b"") if count == b"%d" % len(self.entries) else None


# -- Reading


def read_index(data: bytes, *, hash_len: int = 20, hash_name: str = "sha1") -> Index:
    """The index in ``data``, a whole file, of version 2, 3 or 4."""
    end = len(data) - hash_len
    if end < _HEADER.size:
        raise CorruptIndex("index file smaller than expected")
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC":
        raise CorruptIndex(f"bad index file signature 0x{signature.hex()}")
    if version not in (2, 3, 4):
        raise UnsupportedIndex(f"bad index version {version}", hint="upgrade ckpt")
    # Zeros instead of a checksum: index.skipHash.
    checksum = hashlib.new(hash_name, memoryview(data)[:end]).digest()
    if data[end:] not in (bytes(hash_len), checksum):
        raise CorruptIndex("bad index file checksum")
    try:
        entries, ascending, pos = _read_entries(data, count, hash_len, version == 4)
    except (struct.error, IndexError, ValueError) as error:
        raise CorruptIndex("index file ends inside an entry") from error
    trees = _read_extensions(data, pos, end)
    if not ascending:
        _check_order(entries)
    return Index(entries, trees, hash_len)


def _read_entries(
    data: bytes, count: int, hash_len: int, compressed: bool
) -> tuple[list[IndexEntry], bool, int]:
    """The entries, whether their paths ascend, and where in ``data`` they end.

    Up to version 3 an entry is padded with NULs; in version 4, compressed, its path
    drops some bytes from the end of the previous one and adds its own.
    """
    fixed = struct.Struct(f">40s{hash_len}sH")
    unpack, size, find, new = fixed.unpack_from, fixed.size, data.index, tuple.__new__
    entries: list[IndexEntry] = []
    append = entries.append
    pos, previous, shared, ascending = _HEADER.size, b"", b"", True
    for _ in range(count):
        stat_data, sha, length = unpack(data, pos)
        start = pos + size
        flags = 0
        if length > _NAME_LENGTH:
            flags = length & (ASSUME_VALID | STAGE)
            if length & _EXTENDED:
                flags |= int.from_bytes(data[start : start + 2], "big") << 16
                start += 2
                if flags & ~_FLAGS:
                    raise CorruptIndex(f"unknown index entry format 0x{flags:08x}")
            length &= _NAME_LENGTH
        if compressed:
            shared, start = _read_shared(data, start, previous)
        stop = find(0, start)
        path = shared + data[start:stop]
        if len(path) != length and (length < _NAME_LENGTH or len(path) < _NAME_LENGTH):
            raise CorruptIndex(f"malformed name field in the index, near '{_shown(previous)}'")
        if path <= previous:
            ascending = False
        previous = path
        append(new(IndexEntry, (path, hexlify(sha), flags, stat_data)))
        pos = stop + 1 if compressed else pos + (stop - pos + 8 & -8)
    return entries, ascending, pos


def _read_shared(data: bytes, pos: int, previous: bytes) -> tuple[bytes, int]:
    """What a compressed path has from the previous one, less the bytes to drop: their number is
    in git's offset encoding, seven bits a byte."""
    drop = data[pos] & 0x7F
    while data[pos] & 0x80 and drop <= len(previous):
        pos += 1
        drop = (drop + 1) << 7 | data[pos] & 0x7F
    if drop > len(previous):
        raise CorruptIndex(f"malformed name field in the index, near '{_shown(previous)}'")
    return previous[: len(previous) - drop], pos + 1


def _check_order(entries: list[IndexEntry]) -> None:
    """Raise unless the entries are in git's order, each path and stage once."""
    if entries and not entries[0].path:
        raise CorruptIndex("index entry without a path")
    for before, after in pairwise(entries):
        if before.path > after.path:
            raise CorruptIndex(f"unordered entries in index, at '{_shown(after.path)}'")
        if before.path == after.path and (not before.stage or before.stage >= after.stage):
            raise CorruptIndex(f"unordered stage entries for '{_shown(after.path)}'")


def _shown(path: bytes) -> str:
    return path.decode(errors="replace")


def _read_extensions(data: bytes, pos: int, end: int) -> bytes:
    """The extension TREE; the other optional ones only save work."""
    trees = b""
    while pos + _EXTENSION.size <= end:
        signature, size = _EXTENSION.unpack_from(data, pos)
        start, pos = pos + _EXTENSION.size, pos + _EXTENSION.size + size
        if signature in _UNSUPPORTED:
            message, hint = _UNSUPPORTED[signature]
            raise UnsupportedIndex(message, hint=hint)
        if not b"A" <= signature[:1] <= b"Z":
            name = signature.decode("latin-1")
            raise UnsupportedIndex(f"index uses {name!r} extension", hint="upgrade ckpt")
        if signature == b"TREE":
            trees = data[start:pos]
    if pos != end:
        raise CorruptIndex("index file ends inside an extension")
    return trees


def _parse_cached_trees(data: bytes, hash_len: int) -> dict[bytes, ObjectID]:
    """Nodes come depth first: name NUL, "entries SP subtrees LF", id unless entries is -1."""
    valid: dict[bytes, ObjectID] = {}
    parents = [(b"", 1)] if data else []  # folder and how many of its subtrees are to come
    pos = 0
    while parents:
        prefix, left = parents.pop()
        name_end = data.index(b"\0", pos)
        line_end = data.index(b"\n", name_end)
        folder = prefix + data[pos:name_end]
        entry_count, subtree_count = map(int, data[name_end + 1 : line_end].split(b" "))
        pos = line_end + 1
        if entry_count >= 0:
            valid[folder] = ObjectID(hexlify(data[pos : pos + hash_len]))
            pos += hash_len
        if left > 1:
            parents.append((prefix, left - 1))
        if subtree_count > 0:
            parents.append((folder + b"/" if folder else b"", subtree_count))
    if pos != len(data):
        raise ValueError("trailing bytes")
    return valid


# -- Writing


def write_index(entries: Iterable[IndexEntry], *, hash_name: str = "sha1") -> bytes:
    """An index file of these entries, in any order, without extensions; version 3 where flags
    need it, else 2."""
    ordered = sorted(entries, key=_order)
    _check_order(ordered)
    version = 3 if any(entry.flags & _EXTENDED_FLAGS for entry in ordered) else 2
    parts = [_HEADER.pack(b"DIRC", version, len(ordered))]
    for path, object_id, flags, stat_data in ordered:
        word = flags & (ASSUME_VALID | STAGE) | min(len(path), _NAME_LENGTH)
        extended = (flags & _EXTENDED_FLAGS) >> 16
        if extended:
            words = struct.pack(">HH", word | _EXTENDED, extended)
        else:
            words = struct.pack(">H", word)
        fixed = stat_data + unhexlify(object_id) + words
        parts += (fixed, path, bytes(8 - (len(fixed) + len(path)) % 8))
    body = b"".join(parts)
    return body + hashlib.new(hash_name, body).digest()


def _order(entry: IndexEntry) -> tuple[bytes, int]:
    return entry.path, entry.flags & STAGE


# How a file's state is known: its entry and the stat data it had then.
KnownFile = Callable[[bytes], tuple[TreeEntry, os.stat_result] | None]


def compose(target: Index, present: Staged, known: KnownFile, hash_name: str) -> bytes:
    """The bytes of an index file with the target's content and the best stat data to hand."""
    before = {(e.path, e.stage): e for e in present.index.entries}
    entries = []
    for entry in target.entries:
        if entry.stage == 0 and not entry.intent_to_add:
            file, old = known(entry.path), before.get((entry.path, 0))
            if file is not None and file[0] == (entry.mode, entry.id):
                entry = entry._replace(stat=_packed(file[1], entry.mode))
            elif (
                old is not None
                and (old.id, old.mode) == (entry.id, entry.mode)
                and not present.is_racy(old)
            ):
                entry = entry._replace(stat=old.stat)
        entries.append(entry)
    return write_index(entries, hash_name=hash_name)


def _packed(st: os.stat_result, mode: int) -> bytes:
    """Stat data as git stores them, cut to 32 bits."""
    times = (*divmod(st.st_ctime_ns, _SECOND), *divmod(st.st_mtime_ns, _SECOND))
    fields = (*times, st.st_dev, st.st_ino, mode, st.st_uid, st.st_gid, st.st_size)
    return STAT.pack(*(field & _WORD for field in fields))


# -- What an entry tells of its file


def matches(entry: IndexEntry, st: os.stat_result, *, file_mode: bool = True) -> bool:
    """Whether the file still has the stat data under which its content was recorded.

    The device is not compared, as in git. Never true where an equal stat would prove nothing:
    gitlinks, intent-to-add, and entries whose size git set to 0 because they were written too
    soon after their file. Left to the caller: an entry that is racy (`Staged.is_racy`).
    """
    ctime_s, ctime_ns, mtime_s, mtime_ns, _, ino, mode, uid, gid, size = STAT.unpack(entry.stat)
    differ = (st.st_size ^ size) | (st.st_ino ^ ino) | (st.st_uid ^ uid) | (st.st_gid ^ gid)
    return (
        not differ & _WORD
        and not (st.st_mtime_ns - mtime_s * _SECOND - mtime_ns) % _CLOCK
        and not (st.st_ctime_ns - ctime_s * _SECOND - ctime_ns) % _CLOCK
        and not stat.S_IFMT(st.st_mode ^ mode)
        and not (file_mode and (st.st_mode ^ mode) & 0o100 and mode != stat.S_IFLNK)
        and not entry.flags & INTENT_TO_ADD
        and (size != 0 or entry.id in _EMPTY_BLOBS)
    )


class Staged:
    """The index file as it was read; `mtime_ns` is None when there was none."""

    def __init__(self, index: Index, mtime_ns: int | None) -> None:
        self.index = index
        self.mtime_ns = mtime_ns

    def is_racy(self, entry: IndexEntry) -> bool:
        """Its file may have changed in the tick in which git looked at it."""
        return self.mtime_ns is None or entry.mtime_ns >= self.mtime_ns


def read_staged(repo: Repository) -> Staged:
    """The index of a worktree."""
    form = repo.object_format
    try:
        data, status = disk.read_with_status(repo.index_path, disk.LARGE)
    except FileNotFoundError:
        return Staged(Index([], hash_len=form.oid_length), None)
    index = read_index(data, hash_len=form.oid_length, hash_name=form.name)
    return Staged(index, status.st_mtime_ns)


def index_mtime(repo: Repository) -> int | None:
    try:
        return os.stat(repo.index_path).st_mtime_ns
    except FileNotFoundError:
        return None


# -- The index as part of a state tree: index/, stages/1|2|3/ and index-flags.json

FLAGS = b"index-flags.json"
_STAGES = (INDEX, b"stages/1", b"stages/2", b"stages/3")
_FLAG_NAMES = ("assume_valid", "skip_worktree")


def write_state(
    objects: ObjectStore, index: Index, stages: Mapping[int, ObjectID] | None = None
) -> dict[bytes, TreeEntry]:
    """The index's part of a state tree, as entries to be put into it; `stages` are the trees, if
    they are written already."""
    marked = [entry for entry in index.entries if entry.flags]
    intended = [e for e in marked if e.intent_to_add]
    document = {"intent_to_add": [to_json(e.path) | {"mode": f"{e.mode:o}"} for e in intended]}
    for name in _FLAG_NAMES:
        document[name] = [to_json(e.path) for e in marked if getattr(e, name)]
    state = {FLAGS: add_limited(objects, jsontext.dump(document), FLAGS.decode())}
    for stage, tree in (stages or write_stages(objects, index)).items():
        state[_STAGES[stage]] = TreeEntry(FOLDER, tree)
    return state


def whole_trees(objects: ObjectStore, index: Index) -> dict[bytes, ObjectID]:
    """The trees that git remembers, by folder, if they and all inside them are there and whole."""
    whole = objects.whole(index.trees.values())
    broken = [folder for folder, tree in index.trees.items() if tree not in whole]
    around = {above for folder in broken for above in (folder, *folders_above(folder), b"")}
    return {folder: tree for folder, tree in index.trees.items() if folder not in around}


def write_stages(
    objects: ObjectStore, index: Index, whole: Mapping[bytes, ObjectID] | None = None
) -> dict[int, ObjectID]:
    """The tree of each stage that there is. Of the trees that git remembers those are not written
    again that are `whole`, or, where that is not given, that exist."""
    top = index.tree
    if top is not None and (top == whole.get(b"") if whole is not None else objects.has(top)):
        return {0: top}
    stages: dict[int, dict[bytes, TreeEntry]] = {0: {}}
    for entry in index.entries:
        if not entry.intent_to_add:
            side = stages.setdefault(entry.stage, {})
            side[entry.path] = TreeEntry(entry.mode, ObjectID(entry.id))
    stages[0] = _with_trees(objects, index.trees if whole is None else whole, stages[0])
    return {stage: write_tree(objects, entries) for stage, entries in stages.items()}


def _with_trees(
    objects: ObjectStore, trees: Mapping[bytes, ObjectID], entries: dict[bytes, TreeEntry]
) -> dict[bytes, TreeEntry]:
    """The same entries, which are sorted, but for the outermost folders whose trees are known."""
    if not trees:
        return entries
    shorter: dict[bytes, TreeEntry] = {}
    unknown: set[bytes] = set()
    prefix = b"/"  # with which no path begins
    for path, entry in entries.items():
        if path.startswith(prefix):
            continue
        for folder in reversed([*folders_above(path)]):
            if folder in unknown:
                continue
            if folder in trees and objects.has(trees[folder]):
                shorter[folder], prefix = TreeEntry(FOLDER, trees[folder]), folder + b"/"
                break
            unknown.add(folder)
        else:
            shorter[path] = entry
    return shorter


def read_state(objects: ObjectStore, state_tree: ObjectID) -> Index:
    """The index that a state tree holds, without stat data."""
    document = read_flags(objects, state_tree)
    marked = {name: {from_json(d) for d in document.get(name, ())} for name in _FLAG_NAMES}

    def entry(path: bytes, id: bytes, mode: int, **others: Any) -> IndexEntry:
        flags = {name: path in paths for name, paths in marked.items()}
        return IndexEntry.of(path, id, mode, **flags, **others)

    entries = [
        entry(path, found.id, found.mode, stage=stage)
        for stage, tree in enumerate(stage_trees(objects, state_tree))
        for path, found in (walk(objects, tree) if tree is not None else ())
    ]
    empty = objects.hash(b"blob", b"")
    for item in document.get("intent_to_add", ()):
        mode = int(item["mode"], 8) & _WORD
        entries.append(entry(from_json(item), empty, mode, intent_to_add=True))
    entries.sort(key=_order)
    _check(entries)
    return Index(entries, hash_len=objects.object_format.oid_length)


def _check(entries: Sequence[IndexEntry]) -> None:
    """ValueError for what no git would write; the entries are in git's order."""
    for entry in entries:
        if entry.mode not in _MODES:
            raise ValueError(f"an entry of mode {entry.mode:o}")
        if is_null(entry.id):
            raise ValueError("an entry that names no object")
        if entry.intent_to_add:
            check_path(entry.path)
    if any(_order(before) == _order(after) for before, after in pairwise(entries)):
        raise ValueError("a path is there twice")
    if any(entry.intent_to_add for entry in entries):  # else one tree has all that is staged
        # A zero sorts what is below a path right after it.
        staged = sorted(entry.path.replace(b"/", b"\0") for entry in entries if not entry.stage)
        if any(after.startswith(before + b"\0") for before, after in pairwise(staged)):
            raise ValueError("a path is both a file and a folder")


def check_path(path: bytes) -> None:
    """ValueError for a path that is none of a worktree's."""
    try:
        for name in path.split(b"/"):
            check_name(name)
    except UnsafeTree as error:
        raise ValueError(error.message) from None


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
    if not isinstance(document, dict):
        raise Refused("the index flags of this checkpoint are damaged", hint="git ckpt list")
    return document


def same(left: Index, right: Index) -> bool:
    """Equal in all that `git status` and `git commit` look at; stat data do not."""
    return _content(left) == _content(right)


def _content(index: Index) -> list[tuple[bytes, bytes, int, int]]:
    return [(e.path, e.id, e.flags & _FLAGS, e.mode) for e in index.entries]
