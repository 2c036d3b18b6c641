# SPDX-License-Identifier: MIT
"""Many refs that change together, as when retention lets go of hundreds.

One by one, each would be flushed to the disk twice, and `packed-refs` written anew for each that is
in there. Here they are locked together, and one new `packed-refs` makes the change; the protocol
is the same, so that git and others who change a single ref meanwhile see it or wait.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ckpt.errors import CkptError
from ckpt.store.lock import Lock, holding, holding_all
from ckpt.store.loose_refs import read_loose, remove_empty, remove_empty_above, remove_file
from ckpt.store.objects import ObjectID
from ckpt.store.packed_refs import PackedRefs
from ckpt.store.ref_files import PACKED_PATIENCE, RefFiles, impossible
from ckpt.store.ref_names import is_safe


class RefBatches(RefFiles):
    """Refs of which several can be renamed at once."""

    def rename_all(self, renamed: Mapping[bytes, tuple[ObjectID, bytes | None]]) -> set[bytes]:
        """Give refs that are still what was read another name, or (None) take them away; those
        that were. The new names are there, durable, before any of the old ones goes.

        Each is locked while it is compared and until it has gone, and so is `packed-refs`, in which
        the new ones stand from one moment to the next. An error before that leaves all as it was.
        """
        paths = {self._path(ref): ref for ref in renamed if is_safe(ref)}
        with (
            holding_all(paths, self._shared_dir, sharing=self.sharing) as held,
            holding(self._packed_path, self._shared_dir, patience=PACKED_PATIENCE) as lock,
        ):
            packed = self._packed()
            locked = {paths[path]: renamed[paths[path]] for path in held}
            done = {
                ref: (value, name)
                for ref, (value, name) in locked.items()
                if self._is_still(ref, value, packed) and self._can_hold(name, value)
            }
            self._rewrite_packed(lock, packed, done)
            for ref in done:
                remove_file(self._path(ref))
        for ref in done:
            remove_empty_above(self._path(ref), self._path(b"/".join(ref.split(b"/")[:2])))
        return set(done)

    def _is_still(self, ref: bytes, value: ObjectID, packed: PackedRefs) -> bool:
        loose = read_loose(self._path(ref))
        return (packed.get(ref) if loose is None else self._object_id(loose)) == value

    def _can_hold(self, name: bytes | None, value: ObjectID) -> bool:
        """Whether no file hides what `packed-refs` says of a name; the same there is no harm."""
        if name is None:
            return True
        path = self._path(name)
        remove_empty(path)
        return not os.path.lexists(path) or self._object_id(read_loose(path)) == value

    def _rewrite_packed(
        self,
        lock: Lock,
        packed: PackedRefs,
        renamed: Mapping[bytes, tuple[ObjectID, bytes | None]],
    ) -> None:
        new = {name: value for value, name in renamed.values() if name is not None}
        if not new and not packed.has_any(renamed):
            return
        clash = packed.clash(new) or self._clash_with_files(new)
        if clash is not None:
            raise impossible(*clash)
        contents = packed.with_refs(new, without=renamed)
        if contents is None:
            raise CkptError(
                "cannot change 'packed-refs': it is not sorted as it says",
                hint="'git pack-refs --all' writes it anew",
            )
        lock.replace(contents)

    def _clash_with_files(self, refs: Iterable[bytes]) -> tuple[bytes, bytes] | None:
        for folder, ref in {os.path.dirname(ref): ref for ref in refs}.items():
            above = folder
            while above and not os.path.lexists(self._path(above)):
                above = os.path.dirname(above)
            if not os.path.isdir(self._path(above)):
                return ref, above
        return None
