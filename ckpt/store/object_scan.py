# SPDX-License-Identifier: MIT
"""What a repository's own object folder holds, told without reading contents.

Objects in files of their own, those in cruft packs (where git keeps what nothing names any
more, with the time of each), and the commits in all other packs, found by the kind that each
entry begins with. Left out: alternates, whose owners look after them, and the packs that a
partial clone fetched, in which nothing is anybody's lost work.
"""

from __future__ import annotations

import os
from binascii import hexlify, unhexlify
from contextlib import closing
from struct import iter_unpack

from ckpt import regular
from ckpt.errors import is_want
from ckpt.store.alternates import object_folders
from ckpt.store.loose import DamagedObject
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.pack_entries import KINDS, parse_entry
from ckpt.store.pack_index import DamagedIndex, load
from ckpt.store.packs import Pack
from ckpt.store.temporaries import noted_packs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMIT = 1
_WINDOW = 1 << 16
_LONGEST_HEADER = 64  # of an entry: its size, and the id or the distance of its base
_CRUFT_HEADER = 12


def loose_objects(objects: ObjectStore) -> Iterator[bytes]:
    """The raw ids of objects in files of their own."""
    length = objects.object_format.hex_length
    for folder in _names(objects.path):
        if len(folder) != 2:
            continue
        for name in _names(os.path.join(objects.path, folder)):
            if len(name) == length - 2:
                try:
                    yield unhexlify(folder + name)
                except ValueError:  # not hexadecimal, or not even ASCII
                    continue


def cruft_objects(objects: ObjectStore) -> dict[bytes, int]:
    """Raw id to time, in seconds since 1970, of objects in cruft packs."""
    found: dict[bytes, int] = {}
    for stem in pack_stems(objects.path, ".mtimes"):
        with opened_pack(objects, stem) as pack:
            raw_ids = all_ids(pack, objects)
        try:
            times = regular.read(stem + ".mtimes", regular.LARGE)
        except OSError:
            continue
        times = times[_CRUFT_HEADER : _CRUFT_HEADER + 4 * len(raw_ids)]
        if len(times) == 4 * len(raw_ids):
            found.update(zip(raw_ids, (time for (time,) in iter_unpack(">I", times)), strict=True))
    return found


def packed_commits(objects: ObjectStore) -> Iterator[bytes]:
    """The raw ids of commits in packs; a damaged pack has none."""
    promised = set(pack_stems(objects.path, ".promisor"))
    for stem in pack_stems(objects.path, ".pack"):
        if stem not in promised:
            with opened_pack(objects, stem) as pack:
                try:
                    yield from list(_commits_in(pack, objects))
                except DamagedObject:
                    continue


def _commits_in(pack: Pack, objects: ObjectStore) -> Iterator[bytes]:
    places = pack.find_many(all_ids(pack, objects))
    length = objects.object_format.oid_length
    kinds: dict[int, int] = {}
    start, data = 0, b""
    for offset in sorted(places):
        if not start <= offset <= start + len(data) - _LONGEST_HEADER:
            start, data = offset, pack.pread(_WINDOW, offset)
        kind, _, _, base = parse_entry(data, offset, length, offset - start)
        if isinstance(base, int):  # it comes before, and is known
            kind = kinds.get(base, 0)
        elif isinstance(base, bytes):
            kind = _kind_of(objects, base)
        kinds[offset] = kind
        if kind == _COMMIT:
            yield places[offset]


def _kind_of(objects: ObjectStore, raw_id: bytes) -> int:
    found = objects.kind(ObjectID(hexlify(raw_id)))
    return next((number for number, kind in KINDS.items() if kind == found), 0)


def all_ids(pack: Pack, objects: ObjectStore) -> list[bytes]:
    """The raw ids of all objects in a pack, sorted."""
    length = objects.object_format.oid_length
    return pack.between(b"\0" * length, b"\xff" * length)


def opened_pack(objects: ObjectStore, stem: str) -> closing[Pack]:
    """A pack for as long as it is read."""
    return closing(Pack(stem, objects.object_format, []))


def unindexed_packs(objects: ObjectStore) -> Iterator[str]:
    """The packs, borrowed ones too, in which nothing can be found for want of an index that is
    whole; not those that living processes are at."""
    for folder in object_folders(objects.path):
        at_work = noted_packs(folder)
        for stem in pack_stems(folder):
            if os.path.basename(stem) not in at_work and not _has_index(stem, objects):
                yield stem + ".pack"


def damaged_packs(objects: ObjectStore) -> Iterator[str]:
    """The packs, borrowed ones too, that do not begin as a pack, or end otherwise than their index
    says: what is in them may well be whole."""
    for folder in object_folders(objects.path):
        for stem in pack_stems(folder, ".idx"):
            if _can_be_opened(stem, objects) or not _has_index(stem, objects):
                continue
            if os.path.exists(stem + ".pack"):  # else git has taken it away since
                yield stem + ".pack"


def _can_be_opened(stem: str, objects: ObjectStore) -> bool:
    with opened_pack(objects, stem) as pack:
        try:
            pack.pread(1, 0)
        except DamagedObject:
            return False
        return pack.is_whole()


def _has_index(stem: str, objects: ObjectStore) -> bool:
    try:
        data = memoryview(load(stem + ".idx"))
    except (FileNotFoundError, DamagedIndex):
        return False
    length = objects.object_format.oid_length
    return objects.object_format.new_hash(data[:-length]).digest() == data[-length:]


def pack_stems(folder: str, ending: str = ".pack") -> list[str]:
    """The packs of an object folder that have a file of that ending, without it."""
    place = os.path.join(folder, "pack")
    return [
        os.path.join(place, name.removesuffix(ending))
        for name in sorted(_names(place))
        if name.endswith(ending)
    ]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        if is_want(error):
            raise
        return []
