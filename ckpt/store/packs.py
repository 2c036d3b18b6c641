# SPDX-License-Identifier: MIT
"""Objects in packs, read by ourselves.

dulwich reads packs well, but takes half of the time of a whole save to be imported, and a
save asks for few objects. Here a pack is opened when something is read from it. `git gc`
may take it away at any moment: what cannot be read any more is DamagedObject, and whoever
asked looks for the packs anew.

Contents are not checked against their ids here. They are as long as they say, no delta
leads round in a circle, and what deltas are based on is kept up to a bound.
"""

from __future__ import annotations

import os
import time
import zlib
from binascii import hexlify
from collections import OrderedDict

from ckpt import regular
from ckpt.errors import is_want
from ckpt.store.loose import LARGEST, LARGEST_WHOLE, DamagedObject, loose_path, read_loose
from ckpt.store.pack_entries import HEAD_LENGTH, KINDS, apply_delta, object_size, parse_entry
from ckpt.store.pack_index import NO_INDEX, DamagedIndex, load_pack_index, shown_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ckpt.store.multi_pack import PackGroup
    from ckpt.store.object_format import ObjectFormat
    from ckpt.store.pack_entries import Entry
    from ckpt.store.pack_index import Index

    Object = tuple[bytes, bytes]  # kind and content

_FIRST_READ = 1 << 12
_FURTHER_READ = 1 << 18
_MOST_OPEN = 64
_LONGEST_CHAIN = 1 << 12  # git makes none of 4096
_MOST_MADE = 1 << 32  # bytes, by all deltas of a chain, of what is never read in pieces
_CACHE_SIZE = 16 << 20
_COARSEST_CLOCK = 2_000_000_000  # nanoseconds, of any file system


class Pack:
    """One pack file and its index, opened when they are needed."""

    def __init__(self, stem: str, object_format: ObjectFormat, opened: list[Pack]) -> None:
        self.path = stem + ".pack"
        self._index_path = stem + ".idx"
        self._format = object_format
        self._opened = opened
        self._fd = -1
        self._index: Index | None = None
        self._is_whole: bool | None = None
        self.identity = self._stat_index()

    def _stat_index(self) -> tuple[int, int, int]:
        try:
            status = os.stat(self._index_path)
        except OSError:
            return 0, 0, 0
        return status.st_ino, status.st_size, status.st_mtime_ns

    def is_another(self) -> bool:
        """Whether the name belongs to another pack by now, or to none."""
        return self._stat_index() != self.identity

    def is_whole(self) -> bool:
        """Whether the file ends as its index says: git does not trust one that was cut off."""
        if self._is_whole is None:
            length = self._format.oid_length
            try:
                end = end_of(self.path, length)
                self._is_whole = end == end_of(self._index_path, 2 * length)[:length]
            except OSError as error:
                if is_want(error):
                    raise
                self._is_whole = False
        return self._is_whole

    def index(self) -> Index:
        """One that cannot be read is looked at once, and has nothing."""
        if self._index is None:
            length, name = self._format.oid_length, self._format.name
            try:
                self._index = load_pack_index(self._index_path, length, name)
            except (FileNotFoundError, DamagedIndex):
                self._index = NO_INDEX
        return self._index

    def find(self, raw_id: bytes) -> int | None:
        try:
            return (self._index or self.index()).find(raw_id)
        except DamagedIndex:
            return None

    def find_many(self, raw_ids: Iterable[bytes]) -> dict[int, bytes]:
        try:
            return self.index().find_many(raw_ids)
        except DamagedIndex:
            return {}

    def between(self, low: bytes, high: bytes) -> list[bytes]:
        try:
            return list(self.index().between(low, high))
        except DamagedIndex:
            return []

    # -- entries ---------------------------------------------------------------

    def entry(self, offset: int) -> tuple[Entry, bytes]:
        """An entry, and the first bytes of its stream."""
        data = self.pread(_FIRST_READ, offset)
        entry = parse_entry(data, offset, self._format.oid_length)
        return entry, data[entry[2] - offset :]

    def inflate(self, entry: Entry, start: bytes) -> bytes:
        """The stream of an entry, which is as long as that says."""
        kind, size, position, _ = entry
        if size > LARGEST_WHOLE and KINDS.get(kind) != b"blob":
            raise DamagedObject("an entry too large for its kind")
        unpacker = zlib.decompressobj()
        try:
            data = unpacker.decompress(start, size + 1)
            position += len(start)
            while not unpacker.eof and len(data) <= size:
                more = unpacker.unconsumed_tail
                if not more:
                    more = self.pread(min(_FURTHER_READ, size + HEAD_LENGTH), position)
                    position += len(more)
                if not more:
                    break
                data += unpacker.decompress(more, size + 1 - len(data))
        except zlib.error as error:
            raise DamagedObject(str(error)) from error
        if not unpacker.eof or len(data) != size:
            raise DamagedObject("an entry is not as long as it says")
        return data

    def size(self, offset: int) -> int:
        """How large the object at an offset is."""
        return object_size(self.pread(HEAD_LENGTH, offset), 0, self._format.oid_length)

    def sizes(self, places: dict[int, bytes]) -> Iterator[tuple[bytes, int]]:
        """The sizes of many objects, given by offset; the damaged ones are left out."""
        start, last, data = 0, -1, b""
        length = self._format.oid_length
        for offset in sorted(places):
            if not start <= offset <= last:
                start, data = offset, self.pread(_FIRST_READ, offset)
                last = max(offset, offset + len(data) - HEAD_LENGTH)
            try:
                yield places[offset], object_size(data, offset - start, length)
            except DamagedObject:
                continue

    def pread(self, length: int, offset: int) -> bytes:
        try:
            return os.pread(self._fd if self._fd >= 0 else self._open(), length, offset)
        except (OSError, OverflowError) as error:
            if isinstance(error, OSError) and is_want(error):
                raise
            raise DamagedObject(str(error)) from error

    def _open(self) -> int:
        fd = regular.opened(self.path)
        header = os.pread(fd, 8, 0)
        if header not in (b"PACK\0\0\0\2", b"PACK\0\0\0\3"):
            os.close(fd)
            raise DamagedObject("no pack")
        self._fd = fd
        self._opened.append(self)
        if len(self._opened) > _MOST_OPEN:
            self._opened[0].close()
        return fd

    def close(self) -> None:
        if self._fd >= 0:
            self._opened.remove(self)
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def end_of(path: str, back: int) -> bytes:
    """The last bytes of a file."""
    fd = regular.opened(path)
    try:
        return os.pread(fd, back, max(os.fstat(fd).st_size - back, 0))
    finally:
        os.close(fd)


class PackList:
    """The packs of a repository and its alternates, as they were at the last look."""

    def __init__(self, object_format: ObjectFormat) -> None:
        self._format = object_format
        self._folders: list[str] = []
        self._seen: dict[str, int] = {}
        self._seen_at = 0
        self._opened: list[Pack] = []
        self._packs: dict[str, Pack] = {}
        self._groups: list[PackGroup] = []
        self._alone: list[Pack] = []
        self._bases: OrderedDict[tuple[Pack, int], Object] = OrderedDict()
        self._bases_size = 0

    def look(self, folders: Iterable[str]) -> None:
        """See which packs there are now; those known already stay open."""
        known, self._packs = self._packs, {}
        self._groups, self._alone = [], []
        self._folders = list(folders)
        self._seen = {folder: _pack_folder_time(folder) for folder in self._folders}
        self._seen_at = time.time_ns()
        for folder in self._folders:
            self._look_into(os.path.join(folder, "pack"), known)
        for pack in known.values():
            self._forget(pack)

    def is_current(self) -> bool:
        """Whether there is surely no other pack by now than at the last look."""
        for folder, seen in self._seen.items():
            if seen > self._seen_at - _COARSEST_CLOCK or seen != _pack_folder_time(folder):
                return False
        return bool(self._seen)

    def _look_into(self, folder: str, known: dict[str, Pack]) -> None:
        try:
            names = set(os.listdir(folder))
        except OSError as error:
            if is_want(error):
                raise
            return
        packs: dict[bytes, Pack] = {}
        for name in sorted(names):
            if name.endswith(".pack") and name[:-5] + ".idx" in names:
                stem = os.path.join(folder, name[:-5])
                pack = known.pop(stem, None)
                if pack is not None and pack.is_another():
                    self._forget(pack)
                    pack = None
                pack = pack or Pack(stem, self._format, self._opened)
                self._packs[stem] = packs[os.fsencode(name[:-5] + ".idx")] = pack
        if "multi-pack-index" in names:
            self._group(os.path.join(folder, "multi-pack-index"), packs)
        self._alone += packs.values()

    def _group(self, path: str, packs: dict[bytes, Pack]) -> None:
        """Take those out of some packs that have an index in common."""
        from ckpt.store.multi_pack import open_group

        group = open_group(path, self._format.oid_length, packs)
        if group is not None:
            self._groups.append(group)
            for name in group.packs:
                del packs[name]

    def _forget(self, pack: Pack) -> None:
        pack.close()
        for key in [key for key in self._bases if key[0] is pack]:
            self._bases_size -= len(self._bases.pop(key)[1])

    def close(self) -> None:
        self.look(())

    # -- finding ---------------------------------------------------------------

    def find(self, raw_id: bytes) -> tuple[Pack, int] | None:
        """A pack that has an object, and where in it that is."""
        for group in self._groups:
            place = group.find(raw_id)
            if place is not None:
                return place
        for pack in self._alone:
            offset = pack.find(raw_id)
            if offset is not None:
                if pack is not self._alone[0]:  # the next one is probably there, too
                    self._alone.remove(pack)
                    self._alone.insert(0, pack)
                return pack, offset
        return None

    def find_all(self, raw_id: bytes) -> Iterator[tuple[Pack, int]]:
        """Every copy of an object, whatever a multi-pack index says."""
        for pack in list(self._packs.values()):
            offset = pack.find(raw_id)
            if offset is not None:
                yield pack, offset

    def find_many(self, raw_ids: Iterable[bytes]) -> Iterator[tuple[Pack, dict[int, bytes]]]:
        """For each pack, the ids that are there by offset, each id once."""
        left = set(raw_ids)
        for group in self._groups:
            for pack, places in group.find_many(left):
                left.difference_update(places.values())
                yield pack, places
        for pack in self._alone:
            places = pack.find_many(left) if left else {}
            left.difference_update(places.values())
            yield pack, places

    def beginning_with(self, prefix: bytes) -> set[bytes]:
        ends = shown_range(prefix, self._format.hex_length)
        if ends is None:
            return set()
        return {hexlify(i) for pack in self._packs.values() for i in pack.between(*ends)}

    # -- reading ---------------------------------------------------------------

    def kind(self, pack: Pack, offset: int) -> bytes:
        """What an object is, without its content."""
        chain, base = self.chain(pack, offset)
        return base[0] if isinstance(base, tuple) else KINDS[chain[-1][2][0]]

    def read(self, pack: Pack, offset: int) -> Object:
        """Kind and content of the object at a place."""
        chain, base = self.chain(pack, offset)
        if base is None:
            pack, offset, entry, start = chain.pop()
            base = KINDS[entry[0]], pack.inflate(entry, start)
            if chain:
                self._keep((pack, offset), base)
        kind, data = base
        most, left = (LARGEST, LARGEST) if kind == b"blob" else (LARGEST_WHOLE, _MOST_MADE)
        while chain:
            pack, offset, entry, start = chain.pop()
            data = apply_delta(data, pack.inflate(entry, start), min(most, left))
            left -= len(data)
            if chain:
                self._keep((pack, offset), (kind, data))
        return kind, data

    def chain(self, pack: Pack, offset: int) -> tuple[list[Link], Object | None]:
        """The entries that make an object, a delta before its base, and the last of these
        if it is at hand and need not be read from a pack."""
        chain: list[Link] = []
        seen: set[tuple[Pack, int]] = set()
        while True:
            kept = self._bases.get((pack, offset))
            if kept is not None:
                return chain, kept
            entry, start = pack.entry(offset)
            chain.append((pack, offset, entry, start))
            base = entry[3]
            if base is None:
                return chain, None
            seen.add((pack, offset))
            if isinstance(base, int):
                offset = base
            else:
                place = self._base(pack, base)
                if place is None:
                    return chain, self._outside(base)
                pack, offset = place
            if (pack, offset) in seen or len(chain) > _LONGEST_CHAIN:
                raise DamagedObject("deltas without an end")

    def _base(self, pack: Pack, raw_id: bytes) -> tuple[Pack, int] | None:
        offset = pack.find(raw_id)
        return self.find(raw_id) if offset is None else (pack, offset)

    def _outside(self, raw_id: bytes) -> Object:
        """A base that is in no pack."""
        for folder in self._folders:
            try:
                return read_loose(loose_path(folder, hexlify(raw_id)))
            except FileNotFoundError:
                continue
        raise DamagedObject("a delta without its base")

    def _keep(self, place: tuple[Pack, int], base: Object) -> None:
        if len(base[1]) > _CACHE_SIZE // 4:
            return
        self._bases[place] = base
        self._bases_size += len(base[1])
        while self._bases_size > _CACHE_SIZE:
            _, oldest = self._bases.popitem(last=False)
            self._bases_size -= len(oldest[1])


if TYPE_CHECKING:
    Link = tuple[Pack, int, Entry, bytes]


def _pack_folder_time(folder: str) -> int:
    try:
        return os.stat(folder + "/pack").st_mtime_ns
    except OSError:
        return 0
