# SPDX-License-Identifier: MIT
"""Refs of a repository that keeps them in reftables: reading only.

A stack of binary tables, the newest last in `tables.list`, each with sorted blocks of
refs that share prefixes with their neighbours. All refs are read at once, the later
table wins, and a deletion hides what older tables say. Reflogs, indexes and the map
from objects to refs are passed over. Writing is git's alone: whoever does it without
git's own lock destroys the stack.
"""

from __future__ import annotations

import os
import struct
import zlib
from binascii import hexlify
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn

from ckpt import disk
from ckpt.errors import CkptError, Refused
from ckpt.git.formats import ObjectID
from ckpt.git.refs import SYMREF, CheckpointRefs, Head, Refs, is_shared

_HEADER = struct.Struct(">4sB3sQQ")
_U16 = struct.Struct(">H")
_FOOTER_POSITIONS = 5 * 8
_CHECKSUM = struct.Struct(">I")
# By version of the format: length of the header, and of the footer that repeats it.
_HEADERS = {1: _HEADER.size, 2: _HEADER.size + 4}
_DELETED, _ID, _ID_AND_PEELED, _SYMBOLIC = range(4)
_READ_ATTEMPTS = 20


class CorruptReftable(CkptError):
    """A table, or the list of them, is not what git would have written."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"cannot read the refs in '{path}'", hint="'git refs verify' tells what is wrong"
        )


class Target(NamedTuple):
    """What a ref holds: an object's id in hexadecimal, or the name of another ref."""

    value: bytes
    is_symbolic: bool


def read_stack(folder: str, hash_len: int) -> dict[bytes, Target]:
    """Every ref in the reftables of a folder; none where there are no tables."""
    for _ in range(_READ_ATTEMPTS):
        try:
            return _read_stack(folder, hash_len)
        except FileNotFoundError:  # git joined tables since their names were read
            continue
    raise CorruptReftable(folder)


def _read_stack(folder: str, hash_len: int) -> dict[bytes, Target]:
    refs: dict[bytes, Target] = {}
    for name in _table_names(folder):
        path = os.path.join(folder, name)
        data = disk.read(path, disk.LARGE)
        try:
            for ref, target in read_table(data, hash_len):
                refs.pop(ref, None)
                if target is not None:
                    refs[ref] = target
        except (ValueError, IndexError, struct.error) as error:
            raise CorruptReftable(path) from error
    return refs


def _table_names(folder: str) -> list[str]:
    try:
        names = os.fsdecode(disk.read(os.path.join(folder, "tables.list"))).splitlines()
    except FileNotFoundError:
        return []
    if any("/" in name or not name for name in names):
        raise CorruptReftable(folder)
    return names


def read_table(data: bytes, hash_len: int) -> Iterator[tuple[bytes, Target | None]]:
    """The refs of one table in order; None for one that it deletes."""
    block_size, end, start = _frame(data)
    position = 0
    while position < end:
        block = position if position else start
        if data[block : block + 1] != b"r":
            return
        length = int.from_bytes(data[block + 1 : block + 4], "big")
        yield from _records(data, block, position + length, hash_len)
        position = _next_block(data, position, length, block_size)


def _frame(data: bytes) -> tuple[int, int, int]:
    """Size of a block (0: any), where blocks end and where the first one begins."""
    magic, version, block_size, _, _ = _HEADER.unpack_from(data)
    if magic != b"REFT" or version not in _HEADERS:
        raise ValueError("not a reftable")
    header = _HEADERS[version]
    end = len(data) - header - _FOOTER_POSITIONS - _CHECKSUM.size
    footer = data[end:]
    (checksum,) = _CHECKSUM.unpack_from(footer, len(footer) - _CHECKSUM.size)
    if end < header:
        raise ValueError("cut off")
    if footer[:header] != data[:header] or zlib.crc32(footer[: -_CHECKSUM.size]) != checksum:
        raise ValueError("damaged footer")
    return int.from_bytes(block_size, "big"), end, header


def _next_block(data: bytes, position: int, length: int, block_size: int) -> int:
    """Blocks fill up to the block size with zeros, unless the table does without."""
    if length < 4:
        raise ValueError("empty block")
    is_padded = length < block_size and data[position + length] == 0
    return position + (block_size if is_padded else length)


def _records(
    data: bytes, block: int, end: int, hash_len: int
) -> Iterator[tuple[bytes, Target | None]]:
    """The refs of a block, up to the table of places where names are written in full."""
    (restarts,) = _U16.unpack_from(data, end - 2)
    stop = end - 2 - 3 * restarts
    pos, name = block + 4, b""
    while pos < stop:
        shared, pos = _varint(data, pos)
        rest, pos = _varint(data, pos)
        length, kind = rest >> 3, rest & 7
        if shared > len(name) or pos + length > stop:
            raise ValueError("damaged name")
        name = name[:shared] + data[pos : pos + length]
        _, pos = _varint(data, pos + length)  # when it was written, which only git needs
        target, pos = _value(data, pos, kind, hash_len)
        yield name, target
    if pos != stop:
        raise ValueError("record beyond its block")


def _value(data: bytes, pos: int, kind: int, hash_len: int) -> tuple[Target | None, int]:
    if kind == _DELETED:
        return None, pos
    if kind == _SYMBOLIC:
        length, pos = _varint(data, pos)
        return Target(data[pos : pos + length], True), pos + length
    if kind not in (_ID, _ID_AND_PEELED):
        raise ValueError("unknown type of value")
    return Target(hexlify(data[pos : pos + hash_len]), False), pos + kind * hash_len


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    """A number as in packs: seven bits a byte, and only one way to write each."""
    value = data[pos] & 0x7F
    while data[pos] & 0x80:
        pos += 1
        value = (value + 1) << 7 | data[pos] & 0x7F
    return value, pos + 1


# -- The refs of a repository with reftables, in the shape of `Refs`: looking, not moving

_MOST_LINKS = 5  # from one symbolic ref to the next, as in git


class ReadOnlyRefs(Refused):
    """Refs that ckpt can read and never writes."""

    def __init__(self) -> None:
        super().__init__(
            "this repository keeps its refs in reftables, which ckpt can read but not write",
            hint="git refs migrate --ref-format=files",
        )


class ReftableRefs(Refs):
    """Each look reads the tables anew: another process may have changed them."""

    def check_writable(self) -> NoReturn:
        raise ReadOnlyRefs

    def _below(self, prefix: str) -> dict[str, ObjectID]:
        start = prefix.encode()
        refs = read_stack(os.path.join(self.common_dir, "reftable"), self._hex_length // 2)
        return {
            name[len(start) :].decode("utf-8", "surrogateescape"): ObjectID(target.value)
            for name, target in refs.items()
            if name.startswith(start) and not target.is_symbolic
        }

    def own(self) -> set[ObjectID]:
        if self.git_dir == self.common_dir:
            return set()
        refs = read_stack(os.path.join(self.git_dir, "reftable"), self._hex_length // 2)
        return {ObjectID(target.value) for target in refs.values() if not target.is_symbolic}

    def contents_below(self, prefix: str) -> dict[str, bytes]:
        start = prefix.encode()
        refs = read_stack(os.path.join(self.common_dir, "reftable"), self._hex_length // 2)
        return {
            name[len(start) :].decode("utf-8", "surrogateescape"): (
                SYMREF + target.value if target.is_symbolic else target.value
            )
            for name, target in refs.items()
            if name.startswith(start)
        }

    def hidden(self, ref: bytes) -> ObjectID | None:
        return None

    def listed_checkpoints(self) -> CheckpointRefs:
        found = self.checkpoints()
        return CheckpointRefs(found.keys(), found.get)

    def checkpoint(self, checkpoint_id: str) -> ObjectID | None:
        return self.checkpoints().get(checkpoint_id)

    def read(self, ref: bytes) -> ObjectID | None:
        for _ in range(_MOST_LINKS):
            target = self._target(ref)
            if target is None:
                return None
            if not target.is_symbolic:
                return ObjectID(target.value)
            ref = target.value
        raise CkptError(
            f"'{os.fsdecode(ref)}' is a link in a circle", hint="'git refs verify' tells more"
        )

    def head(self) -> Head:
        target = self._target(b"HEAD")
        if target is None:
            raise CkptError("there is no HEAD in the reftables", hint="git refs verify")
        if target.is_symbolic:
            return Head(target.value, self.read(target.value))
        return Head(None, ObjectID(target.value))

    def _target(self, ref: bytes) -> Target | None:
        folder = self.common_dir if is_shared(ref) else self.git_dir
        return read_stack(os.path.join(folder, "reftable"), self._hex_length // 2).get(ref)

    # -- what is never done --------------------------------------------------------

    def create(self, ref: bytes, target: ObjectID) -> bool:
        raise ReadOnlyRefs

    def replace(self, ref: bytes, old: ObjectID, new: ObjectID) -> bool:
        raise ReadOnlyRefs

    def remove(self, ref: bytes, old: ObjectID) -> bool:
        raise ReadOnlyRefs

    def clear_dead(self) -> None:
        raise ReadOnlyRefs

    def clear_dead_locks(self) -> None:
        raise ReadOnlyRefs

    def move_all(self, moved: Mapping[bytes, tuple[ObjectID, bytes | None]]) -> set[bytes]:
        raise ReadOnlyRefs

    def pack(self, prefixes: Sequence[str], is_packed: Callable[[ObjectID], bool]) -> int:
        return 0

    def loose_count(self, prefixes: Sequence[str]) -> int:
        return 0

    def remove_as(self, ref: bytes, contents: bytes, hidden: ObjectID | None) -> bool:
        raise ReadOnlyRefs

    def replace_as(
        self, ref: bytes, contents: bytes, hidden: ObjectID | None, new: ObjectID
    ) -> bool:
        raise ReadOnlyRefs

    def uncover(self, ref: bytes, contents: bytes, hidden: ObjectID) -> bool:
        raise ReadOnlyRefs

    def move_branch(
        self, branch: bytes, old: ObjectID | None, new: ObjectID | None, message: bytes
    ) -> None:
        raise ReadOnlyRefs

    def set_head(self, head: Head, old: Head, message: bytes) -> None:
        raise ReadOnlyRefs
