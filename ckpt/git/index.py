# SPDX-License-Identifier: MIT
"""Git's index file: bytes in, entries out.

A save reads the whole index, so reading is one tight loop: an entry keeps its stat
data as the forty bytes of the file and takes them apart only when asked, which is
twice as fast as ten integers an entry, and half the memory.

Left out: writing it (`index_writer`), locking and finding the file, split indexes, expanding
a sparse one (``is_sparse``), and judging paths: the index may hold names that must never
be written to disk.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from binascii import hexlify, unhexlify
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from ckpt import disk, jsontext
from ckpt.errors import CkptError, Refused
from ckpt.git.formats import ObjectID
from ckpt.git.objects import MissingObject, ObjectStore
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
    Unfolding,
    UnsafeTree,
    add_limited,
    check_name,
    is_null,
    lookup,
    read_limited,
    walk,
    write_tree,
)
from ckpt.paths import folders_above, from_json, to_json, to_str

# An entry's flags: the file's first flag word as it is, its extended word 16 bits up.
ASSUME_VALID = 0x8000
STAGE = 0x3000
SKIP_WORKTREE = 0x4000 << 16
INTENT_TO_ADD = 0x2000 << 16
EXTENDED_FLAGS = SKIP_WORKTREE | INTENT_TO_ADD
# In the file only: an extended word follows; length of the name, or "this long or longer".
EXTENDED = 0x4000
NAME_LENGTH = 0x0FFF

STAT = struct.Struct(">10I")
U16 = struct.Struct(">H")
HEADER = struct.Struct(">4sII")
EXTENSION = struct.Struct(">4sI")
_MODE = slice(24, 28)  # where the mode is in an entry's stat data
_FOLDER_MODE = struct.pack(">I", stat.S_IFDIR)
_KIND = 0o170000
_WORD = 0xFFFFFFFF
_SECOND = 1_000_000_000
_CLOCK = _SECOND << 32  # after so many nanoseconds the index's clock is at zero again
_MANDATORY = {b"sdir"}
# Bytes that paths may come to which are put together of parts: so many in any case, and so many
# times what they are stored in, lest a small file becomes more than anyone can hold.
_ANY_SIZE, _TIMES = 64 << 20, 16
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
    """The index says that whoever does not know one of its parts must not read it."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "'pip install --upgrade git-ckpt' may bring one that knows it",
    ) -> None:
        super().__init__(message, hint=hint)


def _split_index() -> UnsupportedIndex:
    return UnsupportedIndex(
        "split index is not supported",
        hint="'git update-index --no-split-index' makes it one file again",
    )


class StatFields(NamedTuple):
    """Stat data as the index holds it: ten numbers of 32 bits, cut off where too large."""

    ctime_s: int
    ctime_ns: int
    mtime_s: int
    mtime_ns: int
    dev: int
    ino: int
    mode: int
    uid: int
    gid: int
    size: int


NO_STAT = StatFields(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


class _Entry(NamedTuple):
    path: bytes
    id: bytes
    flags: int
    stat: bytes


class _Word:
    """Attribute that reads one of the ten numbers in an entry's stat data."""

    def __init__(self, number: int) -> None:
        self._where = slice(4 * number, 4 * number + 4)

    def __get__(self, entry: _Entry, owner: type) -> int:
        return int.from_bytes(entry.stat[self._where], "big")


class _Flag:
    def __init__(self, mask: int) -> None:
        self._mask = mask

    def __get__(self, entry: _Entry, owner: type) -> bool:
        return entry.flags & self._mask != 0


class IndexEntry(_Entry):
    """One path at one stage. ``stat`` is the stat data as packed in the file."""

    __slots__ = ()

    ctime_s = _Word(0)
    ctime_ns = _Word(1)
    mtime_s = _Word(2)
    mtime_ns = _Word(3)
    dev = _Word(4)
    ino = _Word(5)
    mode = _Word(6)
    uid = _Word(7)
    gid = _Word(8)
    size = _Word(9)
    assume_valid = _Flag(ASSUME_VALID)
    skip_worktree = _Flag(SKIP_WORKTREE)
    intent_to_add = _Flag(INTENT_TO_ADD)

    @property
    def stage(self) -> int:
        return (self.flags & STAGE) >> 12

    @classmethod
    def of(
        cls,
        path: bytes,
        id: bytes,
        mode: int,
        fields: Sequence[int] = NO_STAT,
        *,
        stage: int = 0,
        assume_valid: bool = False,
        skip_worktree: bool = False,
        intent_to_add: bool = False,
    ) -> IndexEntry:
        """An entry made by hand; ``mode`` wins over the one in ``fields``."""
        flags = (stage << 12) & STAGE
        flags |= ASSUME_VALID if assume_valid else 0
        flags |= SKIP_WORKTREE if skip_worktree else 0
        flags |= INTENT_TO_ADD if intent_to_add else 0
        return cls(path, id, flags, STAT.pack(*fields[:6], mode, *fields[7:]))


class CacheTreeNode(NamedTuple):
    """What the index remembers of a folder: the tree that its entries would make."""

    entry_count: int
    subtree_count: int
    id: bytes


@dataclass(frozen=True)
class Index:
    version: int
    entries: list[IndexEntry]
    extensions: dict[bytes, bytes]
    hash_len: int = 20

    @cached_property
    def is_sparse(self) -> bool:
        """Whole folders outside the sparse checkout may stand as one entry, ``folder/``."""
        return b"sdir" in self.extensions or any(
            entry.stat[_MODE] == _FOLDER_MODE for entry in self.entries
        )

    @cached_property
    def cache_tree(self) -> dict[bytes, CacheTreeNode]:
        """Tree ids by folder, for the folders whose entries did not change since.

        A damaged cache tree counts as none, as in git: it only saves work.
        """
        try:
            return _parse_cache_tree(self.extensions.get(b"TREE", b""), self.hash_len)
        except ValueError:
            return {}


def read_index(data: bytes, *, hash_len: int = 20, hash_name: str = "sha1") -> Index:
    """The index in ``data``, a whole file, of version 2, 3 or 4."""
    end = len(data) - hash_len
    version, count = read_header(data, end)
    # Zeros instead of a checksum: index.skipHash.
    if data[end:] not in (bytes(hash_len), _checksum(data, end, hash_name)):
        raise CorruptIndex("bad index file checksum")
    try:
        entries, ascending, pos = _read_entries(data, count, hash_len, version == 4)
    except (struct.error, IndexError, ValueError) as error:
        raise CorruptIndex("index file ends inside an entry") from error
    extensions = read_extensions(data, pos, end)
    if not ascending:
        check_order(entries)
    return Index(version, entries, extensions, hash_len)


def _checksum(data: bytes, end: int, hash_name: str) -> bytes:
    return hashlib.new(hash_name, memoryview(data)[:end]).digest()


def read_header(data: bytes, end: int) -> tuple[int, int]:
    """The version, and the number of entries."""
    if end < HEADER.size:
        raise CorruptIndex("index file smaller than expected")
    signature, version, count = HEADER.unpack_from(data)
    if signature != b"DIRC":
        raise CorruptIndex(f"bad index file signature 0x{signature.hex()}")
    if version not in (2, 3, 4):
        raise UnsupportedIndex(f"bad index version {version}")
    return version, count


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
    pos, previous, shared, ascending = HEADER.size, b"", b"", True
    room = _room(data)
    for _ in range(count):
        stat_data, sha, length = unpack(data, pos)
        start = pos + size
        flags = 0
        if length > NAME_LENGTH:
            flags, start = _read_flags(data, length, start)
            length &= NAME_LENGTH
        if compressed:
            shared, start = _read_shared(data, start, previous)
            room -= len(shared)
            if room < 0:
                raise CorruptIndex("the paths of the index unfold without an end")
        stop = find(0, start)
        path = shared + data[start:stop]
        if len(path) != length and (length < NAME_LENGTH or len(path) < NAME_LENGTH):
            raise _malformed_name(previous)
        if path <= previous:
            ascending = False
        previous = path
        append(new(IndexEntry, (path, hexlify(sha), flags, stat_data)))
        pos = stop + 1 if compressed else pos + (stop - pos + 8 & -8)
    return entries, ascending, pos


def _room(data: bytes) -> int:
    return _ANY_SIZE + _TIMES * len(data)


def _read_flags(data: bytes, word: int, start: int) -> tuple[int, int]:
    flags = word & (ASSUME_VALID | STAGE)
    if not word & EXTENDED:
        return flags, start
    extended = U16.unpack_from(data, start)[0] << 16
    if extended & ~EXTENDED_FLAGS:
        raise CorruptIndex(f"unknown index entry format 0x{extended:08x}")
    return flags | extended, start + 2


def _read_shared(data: bytes, pos: int, previous: bytes) -> tuple[bytes, int]:
    """What a compressed path has from the previous one.

    The number of bytes to drop is in git's offset encoding: seven bits a byte, and
    only one way to write each number.
    """
    drop = data[pos] & 0x7F
    while data[pos] & 0x80 and drop <= len(previous):
        pos += 1
        drop = (drop + 1) << 7 | data[pos] & 0x7F
    if drop > len(previous):
        raise _malformed_name(previous)
    return previous[: len(previous) - drop], pos + 1


def _malformed_name(previous: bytes) -> CorruptIndex:
    near = previous.decode(errors="replace")
    return CorruptIndex(f"malformed name field in the index, near path '{near}'")


def check_order(entries: list[IndexEntry]) -> None:
    """Raise unless the entries are in git's order, each path and stage once."""
    if entries and not entries[0].path:
        raise CorruptIndex("index entry without a path")
    for before, after in pairwise(entries):
        if before.path < after.path:
            continue
        name = after.path.decode(errors="replace")
        if before.path > after.path:
            raise CorruptIndex(f"unordered entries in index, at '{name}'")
        if before.stage == 0:
            raise CorruptIndex(f"multiple stage entries for merged file '{name}'")
        if before.stage >= after.stage:
            raise CorruptIndex(f"unordered stage entries for '{name}'")


def read_extensions(data: bytes, pos: int, end: int) -> dict[bytes, bytes]:
    """What follows the entries, by signature."""
    extensions = {}
    while pos + EXTENSION.size <= end:
        signature, size = EXTENSION.unpack_from(data, pos)
        start, pos = pos + EXTENSION.size, pos + EXTENSION.size + size
        if signature == b"link":
            raise _split_index()
        if not b"A" <= signature[:1] <= b"Z" and signature not in _MANDATORY:
            name = signature.decode("latin-1")
            raise UnsupportedIndex(f"index uses {name!r} extension, which ckpt does not know")
        extensions[signature] = data[start:pos]
    if pos != end:
        raise CorruptIndex("index file ends inside an extension")
    return extensions


def _parse_cache_tree(data: bytes, hash_len: int) -> dict[bytes, CacheTreeNode]:
    """Nodes come depth first: name NUL, "entries SP subtrees LF", id unless entries is -1."""
    valid: dict[bytes, CacheTreeNode] = {}
    parents = [(b"", 1)] if data else []  # folder and how many of its subtrees are to come
    pos, room = 0, _room(data)
    while parents:
        prefix, left = parents.pop()
        name_end = data.index(b"\0", pos)
        line_end = data.index(b"\n", name_end)
        folder = prefix + data[pos:name_end]
        room -= len(folder)
        if room < 0:
            raise ValueError("folders without an end")
        entry_count, subtree_count = map(int, data[name_end + 1 : line_end].split(b" "))
        pos = line_end + 1
        if entry_count >= 0:
            raw = data[pos : pos + hash_len]
            pos += hash_len
            valid[folder] = CacheTreeNode(entry_count, subtree_count, hexlify(raw))
        if left > 1:
            parents.append((prefix, left - 1))
        if subtree_count > 0:
            parents.append((folder + b"/" if folder else b"", subtree_count))
    if pos != len(data):
        raise ValueError("trailing bytes")
    return valid


def matches(
    entry: IndexEntry, st: os.stat_result, *, trust_ctime: bool = True, file_mode: bool = True
) -> bool:
    """Whether the file still has the stat data under which its content was recorded.

    The device is not compared, as in git. Never true where an equal stat would prove
    nothing: gitlinks, intent-to-add, and entries whose size git set to 0 because they
    were written too soon after their file.

    Left to the caller: a file changed twice within one tick of the clock matches its
    first content. So an entry whose mtime is not before the mtime of the index file
    itself is *racy*, and its file has to be read.
    """
    ctime_s, ctime_ns, mtime_s, mtime_ns, _, ino, mode, uid, gid, size = STAT.unpack(entry.stat)
    differ = (st.st_size ^ size) | (st.st_ino ^ ino) | (st.st_uid ^ uid) | (st.st_gid ^ gid)
    return (
        not differ & _WORD
        and not (st.st_mtime_ns - mtime_s * _SECOND - mtime_ns) % _CLOCK
        and not (trust_ctime and (st.st_ctime_ns - ctime_s * _SECOND - ctime_ns) % _CLOCK)
        and not (st.st_mode ^ mode) & _KIND
        and not (file_mode and (st.st_mode ^ mode) & 0o100 and mode != stat.S_IFLNK)
        and not entry.flags & INTENT_TO_ADD
        and (size != 0 or entry.id in _EMPTY_BLOBS)
    )


# -- Is an index that a checkpoint holds one that git could have written?

_MODES = frozenset((REGULAR, EXECUTABLE, SYMLINK, GITLINK))


def check(entries: Sequence[IndexEntry]) -> None:
    """ValueError for what no git would write; the entries are in git's order."""
    before = None
    for entry in entries:
        if entry.mode not in _MODES:
            raise ValueError(f"an entry of mode {entry.mode:o}")
        if is_null(entry.id):
            raise ValueError("an entry that names no object")
        if entry.intent_to_add:
            check_path(entry.path)
        if before is not None and before.path == entry.path and before.stage == entry.stage:
            raise ValueError("a path is there twice")
        before = entry
    if any(entry.intent_to_add for entry in entries):  # else one tree has all that is staged
        _check_folders(entries)


def _check_folders(entries: Iterable[IndexEntry]) -> None:
    """ValueError for a staged path below another; a zero sorts what is below it right after it."""
    staged = sorted(entry.path.replace(b"/", b"\0") for entry in entries if entry.stage == 0)
    if any(after.startswith(before + b"\0") for before, after in pairwise(staged)):
        raise ValueError("a path is both a file and a folder")


def check_path(path: bytes) -> None:
    """ValueError for a path that is none of a worktree's."""
    try:
        for name in path.split(b"/"):
            check_name(name)
    except UnsafeTree as error:
        raise ValueError(error.message) from None


# -- Git's index file: entries in, bytes out, in each version that git reads

_POSITIONAL = {b"EOIE", b"IEOT"}  # offsets into the file they were read from


def write_index(
    entries: Iterable[IndexEntry],
    *,
    version: int = 2,
    hash_name: str = "sha1",
    extensions: Mapping[bytes, bytes] | Iterable[tuple[bytes, bytes]] = (),
) -> bytes:
    """An index file of these entries, in any order; 2 becomes 3 where flags need it.

    Extensions go in as they are, so pass only those that are true of these entries.
    The two that hold offsets into their file are dropped; git does without.
    """
    if version not in (2, 3, 4):
        raise ValueError(f"index version {version}")
    ordered = sorted(entries, key=lambda entry: (entry.path, entry.flags & STAGE))
    check_order(ordered)
    hash_len = len(hashlib.new(hash_name).digest())
    if version == 2 and any(entry.flags & EXTENDED_FLAGS for entry in ordered):
        version = 3
    parts = [HEADER.pack(b"DIRC", version, len(ordered))]
    write_entries = _write_compressed if version == 4 else _write_padded
    write_entries(ordered, hash_len, parts)
    for signature, content in dict(extensions).items():
        if signature not in _POSITIONAL:
            parts += (EXTENSION.pack(signature, len(content)), content)
    body = b"".join(parts)
    return body + hashlib.new(hash_name, body).digest()


def _write_padded(entries: list[IndexEntry], hash_len: int, parts: list[bytes]) -> None:
    for entry in entries:
        fixed = _fixed_part(entry, hash_len)
        padding = 8 - (len(fixed) + len(entry.path)) % 8
        parts += (fixed, entry.path, bytes(padding))


def _write_compressed(entries: list[IndexEntry], hash_len: int, parts: list[bytes]) -> None:
    previous = b""
    for entry in entries:
        common = _common_prefix(previous, entry.path)
        drop = _varint(len(previous) - common)
        parts += (_fixed_part(entry, hash_len), drop, entry.path[common:], b"\0")
        previous = entry.path


def _fixed_part(entry: IndexEntry, hash_len: int) -> bytes:
    path, sha = entry.path, unhexlify(entry.id)
    if not path or b"\0" in path or len(sha) != hash_len or len(entry.stat) != STAT.size:
        raise ValueError(f"not an index entry: {entry!r}")
    word = entry.flags & (ASSUME_VALID | STAGE) | min(len(path), NAME_LENGTH)
    extended = entry.flags & EXTENDED_FLAGS
    if not extended:
        return entry.stat + sha + U16.pack(word)
    return entry.stat + sha + U16.pack(word | EXTENDED) + U16.pack(extended >> 16)


def _common_prefix(a: bytes, b: bytes) -> int:
    length = min(len(a), len(b))
    differ = int.from_bytes(a[:length], "big") ^ int.from_bytes(b[:length], "big")
    return length - (differ.bit_length() + 7) // 8


def _varint(value: int) -> bytes:
    out = [value & 0x7F]
    while value := value >> 7:
        value -= 1
        out.append(0x80 | value & 0x7F)
    return bytes(reversed(out))


# -- Git's index file out of what was staged, with the best stat data to hand

# How a file's state is known: its entry and the stat data it had then.
KnownFile = Callable[[bytes], tuple[TreeEntry, os.stat_result] | None]

_SECOND_index_file = 1_000_000_000
_WORD_index_file = 0xFFFFFFFF


def compose(
    target: Index,
    present: Staged,
    known: KnownFile,
    hash_name: str,
    doubtful: Collection[bytes] = (),
) -> bytes:
    """The bytes of an index file with the target's content and the best stat data to hand.

    Those that the present index has of `doubtful` paths are not taken over.
    """
    before = {(e.path, e.stage): e for e in present.index.entries if e.path not in doubtful}
    entries = []
    for entry in target.entries:
        if entry.stage == 0 and not entry.intent_to_add:
            entry = _with_stat(entry, before.get((entry.path, 0)), present, known)
        entries.append(entry)
    return write_index(entries, version=target.version, hash_name=hash_name)


def _with_stat(
    entry: IndexEntry, before: IndexEntry | None, present: Staged, known: KnownFile
) -> IndexEntry:
    if entry.size == STALE.size:
        return entry
    file = known(entry.path)
    unseen = entry.size == UNSEEN.size
    if unseen:
        entry = entry._replace(stat=IndexEntry.of(b"", b"", entry.mode).stat)
    if file is not None and file[0] == (entry.mode, file[0].id if unseen else entry.id):
        fields = stat_fields(file[1])
        if unseen:
            fields = fields._replace(dev=MISLEADING)
        packed = IndexEntry.of(entry.path, entry.id, entry.mode, fields).stat
        return entry._replace(stat=packed)
    unchanged = before is not None and (before.id, before.mode) == (entry.id, entry.mode)
    if before is not None and unchanged and not present.is_racy(before):
        return entry._replace(stat=before.stat)
    return entry


def stat_fields(st: os.stat_result) -> StatFields:
    """Stat data of a file as git would store them, `mode` being git's mode for it."""
    ctime_s, ctime_ns = divmod(st.st_ctime_ns, _SECOND_index_file)
    mtime_s, mtime_ns = divmod(st.st_mtime_ns, _SECOND_index_file)
    return StatFields(
        ctime_s & _WORD_index_file,
        ctime_ns,
        mtime_s & _WORD_index_file,
        mtime_ns,
        st.st_dev & _WORD_index_file,
        st.st_ino & _WORD_index_file,
        _git_mode(st.st_mode),
        st.st_uid & _WORD_index_file,
        st.st_gid & _WORD_index_file,
        st.st_size & _WORD_index_file,
    )


def _git_mode(mode: int) -> int:
    if stat.S_ISREG(mode):
        return EXECUTABLE if mode & 0o100 else REGULAR
    if stat.S_ISLNK(mode):
        return SYMLINK
    return GITLINK if stat.S_ISDIR(mode) else 0


# -- A glance at an index in which only stat data are new

_STAT = 40
_SIZE = slice(36, 40)
_LONGEST = 0xFFF  # from here on the length of a path is not in its entry
_FLAGS = 0xF0  # of the first byte of an entry's flags; the rest is that length
# Of these extensions only the first tells anything about what is staged.
_TREE = b"TREE"
_EXTENSIONS = {_TREE, b"UNTR", b"FSMN", b"EOIE", b"IEOT"}


@dataclass(frozen=True, slots=True)
class IndexGlance:
    """The file as it was read, with the paths in it and the places of their entries."""

    data: bytes
    mtime_ns: int
    paths: list[bytes]
    places: list[int]
    hash_len: int

    def at(self, paths: Iterable[bytes]) -> Iterator[IndexEntry]:
        """The entries of these paths, as far as there are any."""
        for path in paths:
            number = bisect_left(self.paths, path)
            if self.paths[number : number + 1] == [path]:
                place = self.places[number]
                stat, end = self.data[place : place + _STAT], place + _STAT + self.hash_len
                yield IndexEntry(path, hexlify(self.data[place + _STAT : end]), 0, stat)

    def sizes(self) -> Iterator[tuple[bytes, int]]:
        """The size of each file, by its entry."""
        start, end, data = _SIZE.start, _SIZE.stop, self.data
        sizes = (int.from_bytes(data[place + start : place + end], "big") for place in self.places)
        return zip(self.paths, sizes, strict=True)


def glance(
    data: bytes, mtime_ns: int, paths: list[bytes], tree: bytes, hash_len: int
) -> IndexGlance | None:
    """A glance at an index file, if it has just these paths, which are sorted, and stands for
    this tree. Its checksum is not computed; nor does git, but for `git fsck`."""
    end = len(data) - hash_len
    version, count = read_header(data, end)
    if version != 2 or not count or count != len(paths):
        return None
    places = _places(data, end, paths, _STAT + hash_len)
    if places is None:
        return None
    extensions = read_extensions(data, places.pop(), end)
    is_known = extensions.keys() <= _EXTENSIONS
    if not is_known or not _is_top(extensions.get(_TREE, b""), count, tree, hash_len):
        return None
    return IndexGlance(data, mtime_ns, paths, places, hash_len)


def _places(data: bytes, end: int, paths: list[bytes], flags: int) -> list[int] | None:
    """Where each entry begins, and where the last ends; None if these are not its paths."""
    start = flags + 2
    lengths = [*map(len, paths)]
    sizes = [start + length + 8 & -8 for length in lengths]
    places = [*accumulate(sizes, initial=HEADER.size)]
    if max(lengths) >= _LONGEST or places[-1] > end:
        return None
    where = zip(places, lengths, strict=False)
    if [data[at + start : at + start + length] for at, length in where] != paths:
        return None
    marks = [data[at + flags] for at in places[:-1]]
    if max(marks) & _FLAGS:
        return None
    return places


def _is_top(cache_tree: bytes, count: int, tree: bytes, hash_len: int) -> bool:
    """Whether a cache tree begins with this one, made of that many entries."""
    name, _, rest = cache_tree.partition(b"\0")
    numbers, _, rest = rest.partition(b"\n")
    is_whole = not name and numbers.split(b" ")[0] == b"%d" % count
    return is_whole and hexlify(rest[:hash_len]) == tree


# -- What is staged: the index as part of a checkpoint, and out of it again

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


@dataclass(frozen=True, slots=True)
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
    data, status = disk.read_with_status(repo.index_path, disk.LARGE)
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
    # a save does not need it

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
