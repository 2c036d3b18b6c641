# SPDX-License-Identifier: MIT
"""Are objects there, whole, and what they are taken for? Each is read once and to its end.

An object is sound if one of its copies (loose, in a pack, here or in an alternate) can be
read, is of the expected kind and has the content that its id stands for: what ckpt and git
ask of an object before they use it. Contents are read in the order in which packs have them,
large ones in pieces, so that memory grows with the number of objects and not with their size.

Left out: what an object refers to, which is for those who know what it is good for.
"""

from __future__ import annotations

import os
from binascii import unhexlify

from ckpt import regular
from ckpt.errors import is_want
from ckpt.store.alternates import object_folders
from ckpt.store.loose import exists, loose_path
from ckpt.store.object_scan import pack_stems
from ckpt.store.objects import MissingObject, ObjectID, ObjectStore
from ckpt.store.packs import Pack
from ckpt.store.streams import LARGE
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

MISSING, DAMAGED, UNREADABLE, WRONG_KIND, PROMISED = (
    "missing",
    "damaged",
    "unreadable",
    "wrong-kind",
    "promised",
)


@value_class
class Fault:
    """What is wrong with an object that was expected to be of a kind."""

    problem: str
    kind: bytes
    id: ObjectID
    detail: str


class Inspection:
    """Objects that were looked at, and those at fault by kind and id.

    `progress` is called with the number of objects and bytes that were read.
    """

    def __init__(
        self, objects: ObjectStore, progress: Callable[[int, int], None] | None = None
    ) -> None:
        self.objects = objects
        self.faults: dict[tuple[bytes, ObjectID], Fault] = {}
        self._sound: set[tuple[bytes, ObjectID]] = set()
        self._progress = progress
        self.read_bytes = 0

    @property
    def read_objects(self) -> int:
        return len(self._sound)

    def fault(self, kind: bytes, object_id: ObjectID) -> Fault | None:
        return self.faults.get((kind, object_id))

    def read(self, kind: bytes, object_id: ObjectID) -> bytes | None:
        """The content of a small object; None if it is at fault."""
        if (kind, object_id) in self.faults:
            return None
        try:
            data = self.objects.read(object_id, kind)
        except (MissingObject, OSError) as error:
            self._blame(kind, object_id, error)
            return None
        self._passed(kind, object_id, len(data))
        return data

    def condemn(self, kind: bytes, object_id: ObjectID, detail: str) -> None:
        """Note that what an object says cannot be."""
        shown = f"damaged {kind.decode()} {shown_id(object_id)}: {detail}"
        self.faults[kind, object_id] = Fault(DAMAGED, kind, object_id, shown)

    def check_blobs(self, blobs: Collection[ObjectID]) -> None:
        """Read contents to their end; those that were read before are not again."""
        left = {blob for blob in blobs if not self._is_known(blob)}
        sizes = self.objects.sizes(left)  # in the order of the packs
        for blob, size in sizes.items():
            self._check_blob(blob, size)
        for blob in sorted(left - sizes.keys()):
            self._check_blob(blob, 0)

    def distrust_packs(self) -> None:
        """Find fault with what only a pack has that does not end as its index says: each object
        may be right, but git reads none of them."""
        folders = object_folders(self.objects.path)
        stems = [stem for folder in folders for stem in pack_stems(folder)]
        packs = [Pack(stem, self.objects.object_format, []) for stem in stems]
        broken = [pack for pack in packs if not pack.is_whole()]
        others = [pack for pack in packs if pack.is_whole()]
        for kind, object_id in list(self._sound) if broken else ():
            raw_id = unhexlify(object_id)
            is_elsewhere = _holds(others, raw_id) or any(
                exists(loose_path(folder, object_id)) for folder in folders
            )
            if not is_elsewhere and _holds(broken, raw_id):
                self._sound.discard((kind, object_id))
                self.condemn(kind, object_id, "its pack does not match the index of that")

    def _is_known(self, blob: ObjectID) -> bool:
        return (b"blob", blob) in self._sound or (b"blob", blob) in self.faults

    def _check_blob(self, blob: ObjectID, size: int) -> None:
        try:
            if size > LARGE:
                self.objects.check(blob, b"blob")
            else:
                self.objects.read(blob, b"blob")
        except (MissingObject, OSError) as error:
            self._blame(b"blob", blob, error)
        else:
            self._passed(b"blob", blob, size)

    def _passed(self, kind: bytes, object_id: ObjectID, size: int) -> None:
        if (kind, object_id) not in self._sound:
            self._sound.add((kind, object_id))
            self.read_bytes += size
            if self._progress is not None:
                self._progress(len(self._sound), self.read_bytes)

    def _blame(self, kind: bytes, object_id: ObjectID, error: Exception) -> None:
        if isinstance(error, OSError) and is_want(error):
            raise error
        problem, detail = self._diagnosis(kind, object_id, error)
        self.faults[kind, object_id] = Fault(problem, kind, object_id, detail)

    def _diagnosis(self, kind: bytes, object_id: ObjectID, error: Exception) -> tuple[str, str]:
        name, shown = kind.decode(), shown_id(object_id)
        error = self._denial(object_id) or error
        if isinstance(error, OSError):  # of what has to be laid down on the way, for one
            return UNREADABLE, f"unreadable {name} {shown}: {error.strerror}"
        if not self.objects.has(object_id):
            return MISSING, f"missing {name} {shown}"
        found = self.objects.kind(object_id)
        if found is not None and found != kind:
            return WRONG_KIND, f"{shown} is a {found.decode()}, not a {name}"
        return DAMAGED, f"damaged {name} {shown}"

    def _denial(self, object_id: ObjectID) -> OSError | None:
        """Why we may not look where an object is, or may be, if that is so: it could be sound."""
        for folder in object_folders(self.objects.path):
            packs = [stem + ending for stem in pack_stems(folder) for ending in (".pack", ".idx")]
            for path in (loose_path(folder, object_id), *packs):
                try:
                    os.close(regular.opened(path))
                except PermissionError as error:
                    return error
                except OSError as error:
                    if is_want(error):
                        raise
        return None


def _holds(packs: list[Pack], raw_id: bytes) -> bool:
    return any(pack.find(raw_id) is not None for pack in packs)


def shown_id(object_id: ObjectID) -> str:
    return object_id.decode("ascii", "backslashreplace")[:64]
