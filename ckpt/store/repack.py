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
from contextlib import suppress

from ckpt import disk
from ckpt.errors import Busy, CkptError
from ckpt.store.deltas import make_delta
from ckpt.store.loose import DamagedObject, loose_path, read_header, read_loose
from ckpt.store.pack_writer import PackWriter, is_kept_by_us
from ckpt.store.packs import Pack, PackList
from ckpt.store.temporaries import Temporaries
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ckpt.store.object_format import ObjectFormat
    from ckpt.store.objects import ObjectStore
    from ckpt.store.sharing import Sharing

_LARGEST = 4 << 20
_LONGEST_CHAIN = 40  # deltas one upon the other; git makes up to 50
_MOST_OBJECTS = 20_000  # in one pack: what is known of each is in memory
_LEVEL = 6


@value_class
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
