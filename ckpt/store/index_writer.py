# SPDX-License-Identifier: MIT
"""Git's index file: entries in, bytes out, in each version that git reads.

Only a rollback needs it: a save never writes an index.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Iterable, Mapping

from ckpt import hashing
from ckpt.store.index import (
    ASSUME_VALID,
    EXTENDED,
    EXTENDED_FLAGS,
    EXTENSION,
    HEADER,
    NAME_LENGTH,
    STAGE,
    STAT,
    U16,
    IndexEntry,
    check_order,
)

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
    hash_len = len(hashing.new(hash_name, expected=0).digest())
    if version == 2 and any(entry.flags & EXTENDED_FLAGS for entry in ordered):
        version = 3
    parts = [HEADER.pack(b"DIRC", version, len(ordered))]
    write_entries = _write_compressed if version == 4 else _write_padded
    write_entries(ordered, hash_len, parts)
    for signature, content in dict(extensions).items():
        if signature not in _POSITIONAL:
            parts += (EXTENSION.pack(signature, len(content)), content)
    body = b"".join(parts)
    return body + hashing.new(hash_name, body).digest()


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
