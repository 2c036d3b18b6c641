# SPDX-License-Identifier: MIT
"""What a commit has at a path, for many paths of few folders.

Each folder is read once, when the first of its files is asked for. A tree that is not here
(a partial clone need not have it) tells nothing, which is no error.
"""

from __future__ import annotations

from ckpt.store.objects import MissingObject, ObjectID, ObjectStore
from ckpt.store.record import read_commit
from ckpt.store.trees import FOLDER, lookup, read_tree


class HeadBlobs:
    """The ids of a commit's files; without a commit there are none."""

    def __init__(self, objects: ObjectStore, commit: ObjectID | None) -> None:
        self._objects = objects
        self._commit = commit
        self._folders: dict[bytes, dict[bytes, ObjectID]] = {}

    def __call__(self, path: bytes) -> ObjectID | None:
        folder, _, name = path.rpartition(b"/")
        if folder not in self._folders:
            self._folders[folder] = self._read(folder)
        return self._folders[folder].get(name)

    def _read(self, folder: bytes) -> dict[bytes, ObjectID]:
        if self._commit is None:
            return {}
        objects = self._objects
        try:
            entry = lookup(objects, read_commit(objects, self._commit).tree, folder)
            if entry is None or entry.mode != FOLDER:
                return {}
            return {name: found for name, _, found in read_tree(objects, entry.id)}
        except MissingObject:
            return {}
