# SPDX-License-Identifier: MIT
"""What the index remembers of conflicts that were resolved (its `REUC` extension).

`git checkout -m PATH`, `git rerere forget` and `git update-index --unresolve` make the
conflict again from it. For each path it has the mode and id of the sides that there
were. Bytes in, records out, and back; keeping the blobs alive is left to the caller.
"""

from __future__ import annotations

from binascii import hexlify, unhexlify
from collections.abc import Iterable

from ckpt.store.index import Index
from ckpt.values import NamedTuple

SIGNATURE = b"REUC"
# Mode and id at stages 1, 2 and 3; None where a side did not have the path.
Sides = tuple[tuple[int, bytes] | None, ...]


class Resolved(NamedTuple):
    path: bytes
    sides: Sides


def resolved(index: Index) -> list[Resolved]:
    """The records of an index, in its order; damaged ones count as none: they only help."""
    try:
        return list(_parse(index.extensions.get(SIGNATURE, b""), index.hash_len))
    except ValueError:
        return []


def _parse(data: bytes, hash_len: int) -> Iterable[Resolved]:
    while data:
        path, *modes, data = data.split(b"\0", 4)
        if not path or len(modes) != 3:
            raise ValueError("not a record")
        sides: list[tuple[int, bytes] | None] = []
        for mode in (int(text, 8) for text in modes):
            if mode and len(data) < hash_len:
                raise ValueError("cut off")
            sides.append((mode, hexlify(data[:hash_len])) if mode else None)
            data = data[hash_len:] if mode else data
        yield Resolved(path, tuple(sides))


def extension(records: Iterable[Resolved]) -> dict[bytes, bytes]:
    """The extension for these records, to be written into an index; none for none."""
    parts = []
    for path, sides in sorted(records, key=lambda record: record.path):
        modes = (b"%o\0" % (side[0] if side else 0) for side in sides)
        parts += [path, b"\0", *modes, *(unhexlify(side[1]) for side in sides if side)]
    return {SIGNATURE: b"".join(parts)} if parts else {}
