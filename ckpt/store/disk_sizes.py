# SPDX-License-Identifier: MIT
"""How many bytes objects take on the disk: of a file, or of their part of a pack.

The same figure as git's `%(objectsize:disk)`. In a pack an object may be a delta, and then it
takes less than it would alone: what another object based on it would grow by is not known. What
an alternate holds takes nothing here. An object that is not there is left out.
"""

from __future__ import annotations

import os
from binascii import hexlify
from bisect import bisect_left

from ckpt.store.loose import loose_path
from ckpt.store.pack_index import DamagedIndex
from ckpt.store.packs import PackList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ckpt.store.objects import ObjectStore
    from ckpt.store.packs import Pack


def disk_sizes(objects: ObjectStore, raw_ids: Collection[bytes]) -> dict[bytes, int]:
    """Raw id to bytes, of those that the repository itself has."""
    sizes: dict[bytes, int] = {}
    packs = PackList(objects.object_format)
    packs.look([objects.path])
    try:
        for pack, places in packs.find_many(raw_ids):
            sizes.update(_packed(pack, places, objects.object_format.oid_length))
    finally:
        packs.close()
    for raw_id in raw_ids:
        if raw_id not in sizes:
            try:
                path = loose_path(objects.path, hexlify(raw_id))
                sizes[raw_id] = os.stat(path).st_size
            except OSError:
                continue
    return sizes


def _packed(pack: Pack, places: dict[int, bytes], id_length: int) -> Iterator[tuple[bytes, int]]:
    """An object ends where the next one begins, or where the checksum of the pack does."""
    if not places:
        return
    starts = sorted(places)
    try:
        end = os.stat(pack.path).st_size - id_length
        ends = [end] * len(starts)
        for offset in pack.index().offsets():
            before = bisect_left(starts, offset) - 1
            if before >= 0 and offset < ends[before]:
                ends[before] = offset
    except (OSError, DamagedIndex):
        return
    for start, end in zip(starts, ends, strict=True):
        yield places[start], end - start
