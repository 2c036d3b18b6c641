# SPDX-License-Identifier: MIT
"""Objects that are never written: for a dry run, a diff, or a look at a submodule.

Whoever captures or compares adds objects to a store; given this one, ids come out and
nothing reaches the disk. Everything that is really there is read from the store below.
"""

from __future__ import annotations

from ckpt.store.objects import LARGEST_KEPT, ObjectID, ObjectStore
from ckpt.store.streams import file_pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class ScratchObjects(ObjectStore):
    """Ids of what is added, without a trace on disk: for a dry run, or a diff."""

    def __init__(self, base: ObjectStore) -> None:
        super().__init__(base.path, base.object_format, is_partial=base.is_partial)
        self._under = base
        self._added: dict[ObjectID, tuple[bytes, bytes]] = {}
        self._left_out: dict[ObjectID, int] = {}

    def has(self, object_id: ObjectID) -> bool:
        return self.is_new(object_id) or self._under.has(object_id)

    def is_new(self, object_id: ObjectID) -> bool:
        return object_id in self._added or object_id in self._left_out

    def size(self, object_id: ObjectID) -> int | None:
        if object_id in self._added:
            return len(self._added[object_id][1])
        return self._left_out.get(object_id) or self._under.size(object_id)

    def sizes(self, object_ids: Iterable[ObjectID]) -> dict[ObjectID, int]:
        asked = set(object_ids)
        found = self._under.sizes(i for i in asked if not self.is_new(i))
        here = {i: self.size(i) for i in asked if self.is_new(i)}
        return found | {i: size for i, size in here.items() if size is not None}

    def missing(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        return self._under.missing(i for i in object_ids if not self.is_new(i))

    def whole(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        asked = set(object_ids)
        return {i for i in asked if self.is_new(i)} | self._under.whole(asked)

    def kind(self, object_id: ObjectID) -> bytes | None:
        if object_id in self._added:
            return self._added[object_id][0]
        return b"blob" if object_id in self._left_out else self._under.kind(object_id)

    def beginning_with(self, prefix: bytes) -> set[ObjectID]:
        return self._under.beginning_with(prefix)

    def read(self, object_id: ObjectID, kind: bytes, most: int | None = None) -> bytes:
        if object_id in self._added:
            return self._added[object_id][1]
        return self._under.read(object_id, kind, most)

    def pieces(self, object_id: ObjectID, kind: bytes = b"blob") -> Iterator[bytes]:
        if object_id in self._added:
            return iter((self._added[object_id][1],))
        return self._under.pieces(object_id, kind)

    def add(self, kind: bytes, data: bytes) -> ObjectID:
        object_id = self.hash(kind, data)
        if not self.has(object_id):
            self._added[object_id] = (kind, data)
        return object_id

    def add_file(self, fd: int, size: int) -> ObjectID:
        """What is too large to be kept gets its id all the same, and cannot be read again."""
        if size <= LARGEST_KEPT:
            return self.add(b"blob", b"".join(file_pieces(fd, size)))
        object_id = self.hash_file(fd, size)
        if not self.has(object_id):
            self._left_out[object_id] = size
        return object_id

    def flush(self, others: Iterable[str] = ()) -> set[ObjectID]:
        """Nothing is ever made durable here."""
        return set()
