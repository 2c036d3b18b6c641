# SPDX-License-Identifier: MIT
"""The refs of a repository with reftables, in the shape of `Refs`: looking, not moving.

The files HEAD and refs/heads are stubs there, to stop programs that do not know the
format. A linked worktree has a stack of its own for HEAD and the few other refs that
are not shared. Whatever would write a ref is refused with the way out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from ckpt.errors import CkptError, Refused
from ckpt.store.loose_refs import SYMREF
from ckpt.store.objects import ObjectID
from ckpt.store.ref_names import is_shared
from ckpt.store.refs import CheckpointRefs, Head, Refs
from ckpt.store.reftable import Target, read_stack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_MOST_LINKS = 5  # from one symbolic ref to the next, as in git


class ReadOnlyRefs(Refused):
    """Refs that ckpt can read and never writes."""

    def __init__(self) -> None:
        super().__init__(
            "this repository keeps its refs in reftables, which ckpt can read but not write",
            hint="git refs migrate --ref-format=files",
        )


class ReftableRefs(Refs):
    """Each look reads the tables anew: another process may have changed them."""

    def check_writable(self) -> NoReturn:
        raise ReadOnlyRefs

    def _below(self, prefix: str) -> dict[str, ObjectID]:
        start = prefix.encode()
        refs = read_stack(os.path.join(self.common_dir, "reftable"), self._hex_length // 2)
        return {
            name[len(start) :].decode("utf-8", "surrogateescape"): ObjectID(target.value)
            for name, target in refs.items()
            if name.startswith(start) and not target.is_symbolic
        }

    def own(self) -> set[ObjectID]:
        if self.git_dir == self.common_dir:
            return set()
        refs = read_stack(os.path.join(self.git_dir, "reftable"), self._hex_length // 2)
        return {ObjectID(target.value) for target in refs.values() if not target.is_symbolic}

    def contents_below(self, prefix: str) -> dict[str, bytes]:
        start = prefix.encode()
        refs = read_stack(os.path.join(self.common_dir, "reftable"), self._hex_length // 2)
        return {
            name[len(start) :].decode("utf-8", "surrogateescape"): (
                SYMREF + target.value if target.is_symbolic else target.value
            )
            for name, target in refs.items()
            if name.startswith(start)
        }

    def hidden(self, ref: bytes) -> ObjectID | None:
        return None

    def listed_checkpoints(self) -> CheckpointRefs:
        found = self.checkpoints()
        return CheckpointRefs(found.keys(), found.get)

    def checkpoint(self, checkpoint_id: str) -> ObjectID | None:
        return self.checkpoints().get(checkpoint_id)

    def read(self, ref: bytes) -> ObjectID | None:
        for _ in range(_MOST_LINKS):
            target = self._target(ref)
            if target is None:
                return None
            if not target.is_symbolic:
                return ObjectID(target.value)
            ref = target.value
        raise CkptError(
            f"'{os.fsdecode(ref)}' is a link in a circle", hint="'git refs verify' tells more"
        )

    def head(self) -> Head:
        target = self._target(b"HEAD")
        if target is None:
            raise CkptError("there is no HEAD in the reftables", hint="git refs verify")
        if target.is_symbolic:
            return Head(target.value, self.read(target.value))
        return Head(None, ObjectID(target.value))

    def _target(self, ref: bytes) -> Target | None:
        folder = self.common_dir if is_shared(ref) else self.git_dir
        return read_stack(os.path.join(folder, "reftable"), self._hex_length // 2).get(ref)

    # -- what is never done --------------------------------------------------------

    def create(self, ref: bytes, target: ObjectID) -> bool:
        raise ReadOnlyRefs

    def replace(self, ref: bytes, old: ObjectID, new: ObjectID) -> bool:
        raise ReadOnlyRefs

    def remove(self, ref: bytes, old: ObjectID) -> bool:
        raise ReadOnlyRefs

    def clear_dead(self) -> None:
        raise ReadOnlyRefs

    def clear_dead_locks(self) -> None:
        raise ReadOnlyRefs

    def move_all(self, moved: Mapping[bytes, tuple[ObjectID, bytes | None]]) -> set[bytes]:
        raise ReadOnlyRefs

    def pack(self, prefixes: Sequence[str], is_packed: Callable[[ObjectID], bool]) -> int:
        return 0

    def loose_count(self, prefixes: Sequence[str]) -> int:
        return 0

    def remove_as(self, ref: bytes, contents: bytes, hidden: ObjectID | None) -> bool:
        raise ReadOnlyRefs

    def replace_as(
        self, ref: bytes, contents: bytes, hidden: ObjectID | None, new: ObjectID
    ) -> bool:
        raise ReadOnlyRefs

    def uncover(self, ref: bytes, contents: bytes, hidden: ObjectID) -> bool:
        raise ReadOnlyRefs

    def move_branch(
        self, branch: bytes, old: ObjectID | None, new: ObjectID | None, message: bytes
    ) -> None:
        raise ReadOnlyRefs

    def set_head(self, head: Head, old: Head, message: bytes) -> None:
        raise ReadOnlyRefs
