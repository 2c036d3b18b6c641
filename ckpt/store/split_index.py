# SPDX-License-Identifier: MIT
"""Join a split index with the shared file that holds most of its entries.

Git's `link` extension names the shared file by its checksum and says, in two
compressed bitmaps over its entries, which of them are gone and which are replaced. The
replacements come first in the index file, without their paths; entries that follow are
new. Only reading: a rollback writes a whole index, which git takes and splits again
when it is configured to.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice

from ckpt.store.index import CorruptIndex, Index, IndexEntry, check_order

_U32 = struct.Struct(">I")
_WORD_BITS = 64
_ALL = (1 << _WORD_BITS) - 1
_BEYOND = "corrupt link extension, a bit beyond the entries of the shared index"


def shared_name(index: Index) -> str | None:
    """The name of the shared file; None if the index holds all its entries itself."""
    link = index.extensions.get(b"link")
    if link is None:
        return None
    if len(link) < index.hash_len:
        raise CorruptIndex("corrupt link extension (too short)")
    base = link[: index.hash_len]
    return f"sharedindex.{base.hex()}" if any(base) else None


def join(index: Index, shared: Index) -> Index:
    """The index that the two files are together, with the extensions of the first."""
    bitmaps = index.extensions[b"link"][index.hash_len :]
    deleted, replaced = _read_bitmaps(bitmaps, len(shared.entries)) if bitmaps else (set(), [])
    entries = list(shared.entries)
    own = iter(index.entries)
    for position, entry in zip(replaced, islice(own, len(replaced)), strict=False):
        if entry.path or position in deleted:
            raise CorruptIndex("corrupt link extension, a replaced entry has a name or is deleted")
        entries[position] = entry._replace(path=entries[position].path)
    if len(replaced) > len(index.entries):
        raise CorruptIndex("corrupt link extension, entries to replace others are missing")
    kept = [entry for position, entry in enumerate(entries) if position not in deleted]
    joined = sorted([*kept, *own], key=_order)
    check_order(joined)
    return whole(index, joined)


def whole(index: Index, entries: list[IndexEntry]) -> Index:
    """The same index without its link to another file."""
    extensions = {name: data for name, data in index.extensions.items() if name != b"link"}
    return Index(index.version, entries, extensions, index.hash_len)


def _order(entry: IndexEntry) -> tuple[bytes, int]:
    return entry.path, entry.stage


def _read_bitmaps(data: bytes, count: int) -> tuple[set[int], list[int]]:
    try:
        deleted, rest = _read_bitmap(data, count)
        replaced, rest = _read_bitmap(rest, count)
    except struct.error as error:
        raise CorruptIndex("corrupt bitmap in link extension") from error
    if rest:
        raise CorruptIndex("garbage at the end of link extension")
    return set(deleted), replaced


def _read_bitmap(data: bytes, count: int) -> tuple[list[int], bytes]:
    """The bits that are set in a bitmap in EWAH compression, and what follows it."""
    (length,) = _U32.unpack_from(data, 4)
    words = struct.unpack_from(f">{length}Q", data, 8)
    end = 8 + 8 * length
    _U32.unpack_from(data, end)  # where the last marker is: of use to a writer only
    bits = []
    for number, word in _expand(iter(words), count):
        while word:
            low = word & -word
            bits.append(number * _WORD_BITS + low.bit_length() - 1)
            word ^= low
    if bits and bits[-1] >= count:
        raise CorruptIndex(_BEYOND)
    return bits, data[end + _U32.size :]


def _expand(words: Iterator[int], count: int) -> Iterator[tuple[int, int]]:
    """Number and value of each word that is not zero.

    A marker holds a bit, how many words of only that bit follow (32 bits), and how many
    words stand as they are after it (31 bits).
    """
    number = 0
    for marker in words:
        run, literals = marker >> 1 & 0xFFFFFFFF, marker >> 33
        if marker & 1:
            if (number + run) * _WORD_BITS > count + _WORD_BITS:
                raise CorruptIndex(_BEYOND)
            yield from ((number + step, _ALL) for step in range(run))
        number += run
        for word in islice(words, literals):
            yield number, word
            number += 1
