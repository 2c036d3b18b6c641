# SPDX-License-Identifier: MIT
"""Objects that git wrote a moment ago, and that may be in memory only.

Git does not wait until a loose object is on the disk. A checkpoint that takes over what
`git add` or `git commit` has just written would not survive a power cut, and a rollback may
already have replaced the file. So these are flushed before the ref is made. Packs are not
looked at: them git does flush.
"""

from __future__ import annotations

import os
import stat
import time

from ckpt import disk
from ckpt.store.loose import loose_path, read_header, read_loose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dulwich.objects import ObjectID
else:
    ObjectID = bytes

# Seconds, after which the kernel has written everything by itself: it begins after half a minute.
_WRITTEN_OUT = 120.0


class Unflushed:
    """Those of one object folder that something relies on, by their `paths`."""

    def __init__(self, folder: str, id_length: int) -> None:
        self._folder = folder
        self._id_length = id_length
        self.paths: set[str] = set()

    def note(self, path: str, status: os.stat_result) -> bool:
        """Remember a loose object if it is young; what is no file is none."""
        is_young = stat.S_ISREG(status.st_mode) and status.st_mtime > time.time() - _WRITTEN_OUT
        if is_young:
            self.paths.add(path)
        return is_young

    def note_all(self, object_ids: Iterable[ObjectID]) -> set[ObjectID]:
        """The same for objects and all that they name: what names nothing young is older. Gives
        back those whose files are as a power cut leaves them."""
        todo = [*object_ids]
        seen: set[ObjectID] = set()
        broken: set[ObjectID] = set()
        while todo and not disk.syncs_instead_of(len(self.paths)):
            object_id = todo.pop()
            if object_id in seen:
                continue
            seen.add(object_id)
            path = loose_path(self._folder, object_id)
            try:
                status = os.stat(path)
                if self.note(path, status) or not status.st_size:
                    todo += self._named_in(path)
            except OSError:  # in a pack, or another repository's
                continue
            except ValueError:
                broken.add(object_id)
        return broken

    def _named_in(self, path: str) -> list[ObjectID]:
        from ckpt.store.trees import GITLINK, parse_tree

        if read_header(path)[0] == b"blob":  # it names nothing, and may be large
            return []
        kind, data = read_loose(path)
        if kind == b"tree":
            entries = parse_tree(data, self._id_length)
            return [child for _, mode, child in entries if mode != GITLINK]
        lines = data.partition(b"\n\n")[0].splitlines() if kind == b"commit" else []
        words = (line.split() for line in lines)
        named = (line[1] for line in words if line[0] in (b"tree", b"parent") and len(line) == 2)
        return [*map(ObjectID, named)]
