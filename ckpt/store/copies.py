# SPDX-License-Identifier: MIT
"""Where the copies of an object are: not flushed yet, loose, in packs, in other repositories.

There may be several, and one that is damaged is no reason not to take the next. Git may repack
at any moment: what is not where it was is looked for once more.
"""

from __future__ import annotations

import os
from binascii import Error as NotHexadecimal
from binascii import hexlify, unhexlify

from ckpt.store.alternates import object_folders
from ckpt.store.loose import exists, loose_path
from ckpt.store.packs import PackList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from dulwich.objects import ObjectID

    from ckpt.store.object_format import ObjectFormat
    from ckpt.store.packs import Pack
    from ckpt.store.pending import Pending

    # Not flushed, a loose object's path, or in a pack.
    Copy: TypeAlias = Pending | str | tuple[Pack, int]
else:
    ObjectID = bytes


class Copies:
    """Those of one repository's objects. Packs are as they were at the first look since `forget`:
    a newer one may be missed, and what it holds is then written once more."""

    def __init__(
        self, path: str, object_format: ObjectFormat, alternates: tuple[str, ...], pending: Pending
    ) -> None:
        self._path = path
        self._format = object_format
        self._alternates = alternates
        self._pending = pending
        self._packs = PackList(object_format)
        self._folders: list[str] | None = None

    @property
    def packs(self) -> PackList:
        if self._folders is None:
            self.look_again()
        return self._packs

    @property
    def folders(self) -> list[str]:
        """The repository's own, then its alternates."""
        if self._folders is None:
            self.look_again()
        return self._folders or []

    def look_again(self) -> None:
        self._folders = object_folders(self._path, self._alternates)
        self._packs.look(self._folders)

    def forget(self) -> None:
        self._folders = None

    def close(self) -> None:
        self._packs.close()

    def of(self, object_id: ObjectID, only_there: bool = False) -> Iterator[Copy]:
        """Where an object is, or may be, one place after the other."""
        raw_id = self._raw(object_id)
        if raw_id is None:
            return
        if object_id in self._pending:
            yield self._pending
            return
        own, *others = paths = self.loose_paths(object_id)
        if not only_there or exists(own):  # quicker to tell than by looking into several packs
            yield own
        place = self.packs.find(raw_id)
        if place is not None:
            yield place
        yield from filter(exists, others) if only_there else others
        if place is not None or not self._packs.is_current():  # git may repack meanwhile
            self.look_again()
            yield from self._packs.find_all(raw_id)
            yield from filter(exists, paths) if only_there else paths

    def loose_paths(self, object_id: ObjectID) -> list[str]:
        """Where an object may be that is in no pack, here first."""
        return [loose_path(folder, object_id) for folder in self.folders]

    def pack_with(self, raw_id: bytes) -> Pack | None:
        place = self.packs.find(raw_id)
        return None if place is None else place[0]

    def missing(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """Those of which there is none, as things are now and not at the last look."""
        asked = set(object_ids)
        left = self.only_ids(asked)
        damaged = asked - left
        for _ in range(2):  # git may repack meanwhile
            self.look_again()
            for _, places in self._packs.find_many(map(unhexlify, left)):
                left.difference_update(map(hexlify, places.values()))
            left = {i for i in left if not self._is_loose(i)}
            if not left:
                break
        return left | damaged

    def _is_loose(self, object_id: ObjectID) -> bool:
        return object_id in self._pending or any(map(exists, self.loose_paths(object_id)))

    def beginning_with(self, prefix: bytes) -> set[ObjectID]:
        """Every object whose id begins so, as people and git's own lists shorten them; at
        least two digits."""
        found = self.packs.beginning_with(prefix)
        for folder in self.folders:
            try:
                names = os.listdir(os.path.join(folder, os.fsdecode(prefix[:2])))
            except OSError:
                continue
            found |= {prefix[:2] + os.fsencode(name) for name in names}
        length = self._format.hex_length
        return {ObjectID(i) for i in found if len(i) == length and i.startswith(prefix)}

    def only_ids(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """What can be an id at all: names come out of objects, and these may be damaged."""
        return {i for i in object_ids if self._raw(i) is not None}

    def _raw(self, object_id: ObjectID) -> bytes | None:
        """The bytes that an id stands for; None if it is none."""
        if len(object_id) != self._format.hex_length:
            return None
        try:
            return unhexlify(object_id)
        except NotHexadecimal:
            return None
