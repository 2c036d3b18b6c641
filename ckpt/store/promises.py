# SPDX-License-Identifier: MIT
"""Objects that a partial clone left at its remote, which promised to have them.

As git sees it, what came from such a remote lies in packs with a `.promisor` file beside
them, and whatever their objects name may be missing here. Anything else that is missing,
such as a content that only a checkpoint ever held, is nowhere.
"""

from __future__ import annotations

from binascii import hexlify
from contextlib import closing

from ckpt.store.alternates import object_folders
from ckpt.store.loose import DamagedObject
from ckpt.store.object_scan import all_ids, opened_pack, pack_stems
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.packs import PackList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ckpt.store.packs import Pack

_HEADER_LINES = (b"tree ", b"parent ", b"object ")


def promised(objects: ObjectStore, missing: Iterable[ObjectID]) -> set[ObjectID]:
    """Those of the missing objects that an object of a promisor pack names.

    Newer objects come first in a pack: what is asked for is mostly found soon.
    """
    asked_for = set(missing)
    left = set(asked_for)
    for names in _named(objects) if left else ():
        left -= names
        if not left:
            break
    return asked_for - left


def _named(objects: ObjectStore) -> Iterator[set[ObjectID]]:
    """What each object of each promisor pack names."""
    folders = object_folders(objects.path)
    with closing(PackList(objects.object_format)) as packs:
        packs.look(folders)
        for folder in folders:
            for stem in pack_stems(folder, ".promisor"):
                with opened_pack(objects, stem) as pack:
                    yield from _named_in(packs, pack, objects)


def _named_in(packs: PackList, pack: Pack, objects: ObjectStore) -> Iterator[set[ObjectID]]:
    length = objects.object_format.oid_length
    places = pack.find_many(all_ids(pack, objects))
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
