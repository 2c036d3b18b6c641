# SPDX-License-Identifier: MIT
"""Objects that the repository has, and that are not written again.

That they are in use is told to git's gc by their time, and those that git wrote a moment ago are
flushed before a ref relies on them. A gc that has counted already goes by the time of before, and
`git repack -ad` by none: so what only a pack has is not relied on unless something names it.
A loose one is read, for a power cut or a full disk may have left a file of its length and nothing
in it. Of one in a pack it is usually enough that it is there. Who is about to take away the only
other copy is wary, and has each of them read.
"""

from __future__ import annotations

import os
from binascii import unhexlify

from ckpt import disk
from ckpt.store.loose import loose_path
from ckpt.store.unflushed import Unflushed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dulwich.objects import ObjectID

    from ckpt.store.object_format import ObjectFormat
    from ckpt.store.packs import Pack


class Reuse:
    """What was found since the last flush: `ids`, what of it is in a file of its own in this
    repository (`loose`) or only in a pack there (`packed`), and what is `unflushed`. If it
    `is_wary`, `is_sound` has the last word. What turned out to be `damaged` does not count as
    found."""

    def __init__(
        self,
        folder: str,
        object_format: ObjectFormat,
        *,
        find: Callable[[bytes], Pack | None],
        borrowed: Callable[[], list[str]],
        is_sound: Callable[[ObjectID], bool],
    ) -> None:
        self._folder = folder
        self._find = find
        self._borrowed = borrowed
        self._is_sound = is_sound
        self.unflushed = Unflushed(folder, object_format.oid_length)
        self._touched: set[str] = set()
        self.ids: set[ObjectID] = set()
        self.loose: set[ObjectID] = set()
        self.packed: set[ObjectID] = set()
        self.damaged: set[ObjectID] = set()
        self.is_wary = False

    def holds(self, object_id: ObjectID) -> bool:
        """True if the object exists and git's gc has been told that it is in use."""
        if object_id in self.damaged:
            return False
        if object_id not in self.ids and self._find_and_touch(object_id):
            if self.is_wary and not self._is_sound(object_id):
                return False
            self.ids.add(object_id)
        return object_id in self.ids

    def _find_and_touch(self, object_id: ObjectID) -> bool:
        if self._touch(loose_path(self._folder, object_id)):
            self.loose.add(object_id)
            return self.is_wary or self._is_sound(object_id)
        pack = self._find(unhexlify(object_id))
        if pack is not None:
            is_there = pack.is_whole() and self._touch(pack.path)
            if is_there and pack.path.startswith(os.path.join(self._folder, "")):
                self.packed.add(object_id)
            return is_there
        return any(self._touch(loose_path(folder, object_id)) for folder in self._borrowed())

    def _touch(self, path: str) -> bool:
        if path not in self._touched:
            try:
                status = os.stat(path)
                if not status.st_size:  # what a crash of the machine makes of a file
                    return False
                if not path.endswith(".pack"):
                    self.unflushed.note(path, status)
                disk.utime(path)
            except OSError:
                return False
            self._touched.add(path)
        return True

    def rely_on(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """Others, that were not asked for here, are to be flushed too, if they are young; gives
        back those whose files are broken."""
        return self.unflushed.note_all(object_ids)

    def clear(self) -> None:
        self.ids.clear()
        self.loose.clear()
        self.packed.clear()
        self._touched.clear()
        self.unflushed.paths.clear()
