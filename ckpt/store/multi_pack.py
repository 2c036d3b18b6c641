# SPDX-License-Identifier: MIT
"""One index for several packs, as git makes it of a repository that is large.

Few repositories have one, so it is read where there is one, and not imported elsewhere. It only
saves time: where it is damaged, or names a pack that is gone, each pack's own index is asked.
"""

from __future__ import annotations

from struct import unpack

from ckpt.store.pack_index import FAN_OUT, FAR, U32, U64, DamagedIndex, Table, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterable, Iterator, Mapping

    from ckpt.store.packs import Pack


def open_group(path: str, id_length: int, packs: Mapping[bytes, Pack]) -> PackGroup | None:
    """Those of some packs, by the names of their indexes, that one index is for; None where
    there is no such index, or not all that it is for."""
    try:
        index = MultiPackIndex(load(path), id_length)
    except (FileNotFoundError, DamagedIndex):
        return None
    if not packs.keys() >= set(index.packs):
        return None
    return PackGroup(index, {name: packs[name] for name in index.packs})


class PackGroup:
    """Packs with an index in common."""

    def __init__(self, index: MultiPackIndex, packs: dict[bytes, Pack]) -> None:
        self._index = index
        self.packs = packs

    def find(self, raw_id: bytes) -> tuple[Pack, int] | None:
        try:
            place = self._index.find(raw_id)
        except DamagedIndex:
            return None
        return None if place is None else (self.packs[place[0]], place[1])

    def find_many(self, raw_ids: Iterable[bytes]) -> Iterator[tuple[Pack, dict[int, bytes]]]:
        """For each pack, the ids that are there by offset."""
        try:
            found = self._index.find_many(raw_ids)
        except DamagedIndex:
            return
        for name, places in found.items():
            yield self.packs[name], places


class MultiPackIndex:
    """One index for several packs; nothing that it says is needed, as each has its own."""

    def __init__(self, data: bytes | mmap.mmap, id_length: int) -> None:
        if data[:5] != b"MIDX\x01" or len(data) < 12 + 12 + id_length:
            raise DamagedIndex("no multi-pack index of version 1")
        hash_number, chunk_count, base_count = data[5], data[6], data[7]
        if hash_number != (1 if id_length == 20 else 2) or base_count:
            raise DamagedIndex("a multi-pack index of another kind")
        chunks = _chunks(data, chunk_count)
        try:
            names, fan_out, ids = chunks[b"PNAM"], chunks[b"OIDF"], chunks[b"OIDL"]
            self._offsets, self._offsets_end = chunks[b"OOFF"]
            self._far, self._far_end = chunks.get(b"LOFF", (0, 0))
        except KeyError as error:
            raise DamagedIndex("a multi-pack index without one of its parts") from error
        if fan_out[1] - fan_out[0] != FAN_OUT:
            raise DamagedIndex("a fan-out table of another length")
        self._data = data
        self._table = Table(data, fan_out[0], ids[0], id_length)
        if self._offsets + 8 * self._table.count > self._offsets_end:
            raise DamagedIndex("a multi-pack index that was cut off")
        (count,) = U32.unpack_from(data, 8)
        self.packs = bytes(data[names[0] : names[1]]).split(b"\0")[:count]
        if len(self.packs) != count:
            raise DamagedIndex("fewer names than packs")

    def find(self, raw_id: bytes) -> tuple[bytes, int] | None:
        """The name of the index of a pack that has an object, and where in it that is."""
        at = self._table.position(raw_id)
        if at is None:
            return None
        return self._place(U64.unpack_from(self._data, self._offsets + 8 * at)[0])

    def find_many(self, raw_ids: Iterable[bytes]) -> dict[bytes, dict[int, bytes]]:
        """The ids that are there, by the name of the pack's index, then by offset."""
        found: dict[bytes, dict[int, bytes]] = {name: {} for name in self.packs}
        for raw_id, row in self._table.rows(raw_ids, self._offsets, ">Q"):
            name, offset = self._place(row)
            found[name][offset] = raw_id
        return found

    def _place(self, row: int) -> tuple[bytes, int]:
        number, offset = row >> 32, row & 0xFFFFFFFF
        if offset >= FAR and self._far:
            start = self._far + 8 * (offset - FAR)
            if start + 8 > self._far_end:
                raise DamagedIndex("an offset beyond the index")
            (offset,) = U64.unpack_from(self._data, start)
        if number >= len(self.packs):
            raise DamagedIndex("a pack beyond the index")
        return self.packs[number], offset


def _chunks(data: bytes | mmap.mmap, count: int) -> dict[bytes, tuple[int, int]]:
    """Where each part of a multi-pack index begins and ends."""
    if len(data) < 12 + 12 * (count + 1):
        raise DamagedIndex("a multi-pack index that was cut off")
    rows = [unpack(">4sQ", data[12 + 12 * n : 24 + 12 * n]) for n in range(count + 1)]
    places = [offset for _, offset in rows]
    if places != sorted(places) or places[-1] > len(data):
        raise DamagedIndex("parts of a multi-pack index beyond its end")
    return {rows[n][0]: (places[n], places[n + 1]) for n in range(count)}
