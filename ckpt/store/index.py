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

import os
import stat
import struct
from binascii import hexlify
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from ckpt import hashing
from ckpt.errors import CkptError, Refused
from ckpt.values import NamedTuple, value_class

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


@value_class(slots=False)
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
    return hashing.new(hash_name, memoryview(data)[:end]).digest()


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
