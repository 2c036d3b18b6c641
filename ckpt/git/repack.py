# SPDX-License-Identifier: MIT
"""Loose objects into one pack, with deltas: what piles up, save by save, takes less room.

Objects come in rows, versions of the same file or folder, newest first; an older one becomes a
delta on the one before it. The pack is read back, object by object, before anybody can see it,
and is durable before the first loose object goes. One goes only if nobody used it lately: whoever
found it there may rely on it, and although the pack has it, there is no hurry. No pack is ever
removed here, which is git's to do.

Large objects stay as they are. Two contents are in memory at a time.
"""

from __future__ import annotations

import os
import time
from binascii import hexlify, unhexlify
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from struct import iter_unpack

from ckpt import disk
from ckpt.errors import Busy, CkptError, is_want
from ckpt.git.formats import ObjectFormat, ObjectID
from ckpt.git.loose import DamagedObject, loose_path, read_header, read_loose
from ckpt.git.objects import ObjectStore, object_folders
from ckpt.git.pack_writer import PackWriter, is_kept_by_us, make_delta
from ckpt.git.packs import KINDS, DamagedIndex, Pack, PackList, load, parse_entry
from ckpt.git.temporaries import Temporaries, noted_packs
from ckpt.locks import Sharing

_LARGEST = 4 << 20
_LONGEST_CHAIN = 40  # deltas one upon the other; git makes up to 50
_MOST_OBJECTS = 20_000  # in one pack: what is known of each is in memory
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Repacked:
    """How many objects went into packs, and their bytes before and after; `removed` of the
    loose ones have gone, the others were used lately."""

    objects: int = 0
    loose_bytes: int = 0
    pack_bytes: int = 0
    removed: int = 0

    def __add__(self, other: Repacked) -> Repacked:
        return Repacked(
            self.objects + other.objects,
            self.loose_bytes + other.loose_bytes,
            self.pack_bytes + other.pack_bytes,
            self.removed + other.removed,
        )


class UnreadablePack(CkptError):
    """A pack that was just written does not hold what it should."""

    def __init__(self, object_id: bytes) -> None:
        super().__init__(
            f"a new pack does not hold object '{object_id.decode()}', and was not used",
            hint="nothing was removed; check the disk, then run 'git fsck'",
        )


def repack(
    objects: ObjectStore,
    rows: Iterable[Sequence[bytes]],
    sharing: Sharing,
    *,
    grace: float,
    has_time: Callable[[], bool] = lambda: True,
) -> Repacked:
    """Move objects, given by their raw ids, from files of their own to packs.

    What is not loose, damaged, large, or was used within `grace` seconds stays as it is, and so
    does what comes when there is no time left; to finish what was begun takes about as long.
    """
    work = _Repacking(objects, sharing, grace, has_time)
    total = Repacked()
    batch: list[Sequence[bytes]] = []
    count = 0
    for row in rows:
        batch.append(row)
        count += len(row)
        if count >= _MOST_OBJECTS:
            total += work.into_a_pack(batch)
            batch, count = [], 0
    return total + work.into_a_pack(batch)


def remove_copies(
    objects: ObjectStore,
    raw_ids: set[bytes],
    *,
    grace: float,
    has_time: Callable[[], bool] = lambda: True,
) -> tuple[set[bytes], int]:
    """Take away loose objects that the pack of a gc has, too, which was killed before it could:
    it still keeps that pack. Returns those that are in any pack, and how many went.

    Other packs are none of ours: what nothing names lives longer in a file of its own.
    """
    packs = PackList(objects.object_format)
    packs.look([objects.path])
    found: set[bytes] = set()
    removed = 0
    try:
        for pack, places in packs.find_many(raw_ids):
            found.update(places.values())
            if not places or not is_kept_by_us(pack.path) or not pack.is_whole():
                continue
            disk.fsync_files([pack.path])
            for offset, raw_id in sorted(places.items()):
                object_id = hexlify(raw_id)
                if has_time() and _holds(packs, pack, offset, objects, object_id):
                    removed += _remove_loose(objects.path, object_id, grace)
    finally:
        packs.close()
    return found, removed


def _holds(
    packs: PackList, pack: Pack, offset: int, objects: ObjectStore, object_id: bytes
) -> bool:
    try:
        kind, data = packs.read(pack, offset)
    except DamagedObject:
        return False
    return objects.hash(kind, data) == object_id


class _Repacking:
    """A repack while it runs, one pack after the other."""

    def __init__(
        self, objects: ObjectStore, sharing: Sharing, grace: float, has_time: Callable[[], bool]
    ) -> None:
        self._objects = objects
        self._sharing = sharing
        self._grace = grace
        self._has_time = has_time

    def into_a_pack(self, rows: list[Sequence[bytes]]) -> Repacked:
        if not any(rows) or not self._has_time():
            return Repacked()
        objects = self._objects
        temporaries = Temporaries(objects.path, self._sharing)
        try:
            writer = PackWriter(objects.path, objects.object_format, self._sharing, temporaries)
            return self._write(writer, rows, lambda: temporaries.end(keeps=True))
        except FileNotFoundError:
            raise Busy(
                "git pruned the new pack before it was finished",
                hint="wait for 'git gc --prune=now' to end, then try again",
            ) from None
        finally:
            temporaries.end()

    def _write(
        self, writer: PackWriter, rows: list[Sequence[bytes]], is_finished: Callable[[], None]
    ) -> Repacked:
        objects, grace = self._objects, self._grace
        try:
            loose = sum(_add_row(objects, writer, row, grace) for row in rows if self._has_time())
            ids, size = list(writer.ids()), writer.size()
            if not ids:
                return Repacked()
            writer.finish(lambda pack, index: _check(pack, index, objects, ids))
            is_finished()  # from here on, a pack that is kept tells the next gc what to take away
            removed = sum(_remove_loose(objects.path, object_id, grace) for object_id in ids)
            return Repacked(len(ids), loose, size, removed)
        finally:
            writer.discard()


def _add_row(objects: ObjectStore, writer: PackWriter, row: Sequence[bytes], grace: float) -> int:
    """Add what can be packed of a row; the bytes that it takes as it is."""
    base: tuple[bytes, bytes, int] | None = None
    taken = 0
    for object_id in map(hexlify, row):
        found = None if object_id in writer else _read(objects, object_id, grace)
        if found is None:
            continue
        kind, data, size = found
        taken += size
        delta = b"" if base is None or base[2] >= _LONGEST_CHAIN else make_delta(base[1], data)
        if base is not None and 0 < len(delta) < len(data) // 2:
            writer.add_delta(object_id, base[0], delta)
            base = (object_id, data, base[2] + 1)
        else:
            writer.add(object_id, kind, data, _LEVEL)
            base = (object_id, data, 0)
    return taken


def _read(objects: ObjectStore, object_id: bytes, grace: float) -> tuple[bytes, bytes, int] | None:
    """Kind, content and size on disk of a loose object that is to be packed, and is right."""
    path = loose_path(objects.path, object_id)
    try:
        if not _is_old(path, grace) or read_header(path)[1] > _LARGEST:
            return None
        (kind, data), size = read_loose(path), os.stat(path).st_size
    except (OSError, DamagedObject):
        return None
    return (kind, data, size) if objects.hash(kind, data) == object_id else None


def _is_old(path: str, grace: float) -> bool:
    return os.stat(path).st_mtime <= time.time() - grace


def _check(pack_path: str, index_path: str, objects: ObjectStore, ids: list[bytes]) -> None:
    """Read every object back from the files that are about to become a pack."""
    pack = _Unfinished(pack_path, index_path, objects.object_format)
    packs = PackList(objects.object_format)
    try:
        is_readable = pack.is_whole()
        for object_id in ids:
            offset = pack.find(unhexlify(object_id)) if is_readable else None
            if offset is None or not _holds(packs, pack, offset, objects, object_id):
                raise UnreadablePack(object_id)
    finally:
        pack.close()


class _Unfinished(Pack):
    """A pack whose files have other names yet."""

    def __init__(self, path: str, index_path: str, object_format: ObjectFormat) -> None:
        super().__init__("", object_format, [])
        self.path = path
        self._index_path = index_path


def _remove_loose(folder: str, object_id: bytes, grace: float) -> bool:
    """Take away a loose object that is in a pack, unless it is in use."""
    path = loose_path(folder, object_id)
    with suppress(OSError):
        if _is_old(path, grace):
            disk.unlink(path)
            return True
    return False


# -- What a repository's own object folder holds, told without reading contents

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
            times = disk.read(stem + ".mtimes", disk.LARGE)
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
    return bool(objects.object_format.new_hash(data[:-length]).digest() == data[-length:])


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


# -- How many bytes objects take on the disk: of a file, or of their part of a pack


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


# -- Objects that a partial clone left at its remote, which promised to have them

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
