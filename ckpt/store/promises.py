# SPDX-License-Identifier: MIT
"""Objects that a partial clone left at its remote, which promised to have them.

As git sees it, what came from such a remote lies in packs with a `.promisor` file beside
them, and whatever their objects name may be missing here. Anything else that is missing,
such as a content that only a checkpoint ever held, is nowhere.
"""

from __future__ import annotations

import os
from binascii import hexlify

from ckpt.store.alternates import object_folders
from ckpt.store.loose import DamagedObject
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.packs import Pack, PackList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HEADER_LINES = (b"tree ", b"parent ", b"object ")


def promised(objects: ObjectStore, missing: Iterable[ObjectID]) -> set[ObjectID]:
    """Those of the missing objects that an object of a promisor pack names.

    Newer objects come first in a pack: what is asked for is mostly found soon.
    """
    left = set(missing)
    wanted = set(left)
    for names in _named(objects) if left else ():
        left -= names
        if not left:
            break
    return wanted - left


def _named(objects: ObjectStore) -> Iterator[set[ObjectID]]:
    folders = object_folders(objects.path)
    packs = PackList(objects.object_format)
    packs.look(folders)
    opened: list[Pack] = []
    try:
        for stem in _promisor_packs(folders):
            yield from _named_in(packs, Pack(stem, objects.object_format, opened), objects)
    finally:
        packs.close()
        for pack in list(opened):
            pack.close()


def _promisor_packs(folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        place = os.path.join(folder, "pack")
        for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
            stem, ending = os.path.splitext(os.path.join(place, name))
            if ending == ".promisor":
                yield stem


def _named_in(packs: PackList, pack: Pack, objects: ObjectStore) -> Iterator[set[ObjectID]]:
    length = objects.object_format.oid_length
    places = pack.find_many(pack.between(b"\0" * length, b"\xff" * length))
    for offset in sorted(places):
        try:
            kind = packs.kind(pack, offset)
            if kind == b"tree":
                yield set(_in_tree(packs.read(pack, offset)[1], length))
            elif kind != b"blob":
                yield set(_in_header(packs.read(pack, offset)[1]))
        except (DamagedObject, ValueError):  # for others to find
            continue


def _in_tree(data: bytes, length: int) -> Iterator[ObjectID]:
    at = 0
    while at < len(data):
        start = data.index(b"\0", at) + 1
        at = start + length
        yield ObjectID(hexlify(data[start:at]))


def _in_header(data: bytes) -> Iterator[ObjectID]:
    """What a commit or tag names."""
    for line in data.partition(b"\n\n")[0].split(b"\n"):
        if line.startswith(_HEADER_LINES):
            yield ObjectID(line.partition(b" ")[2])
