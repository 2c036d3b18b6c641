# SPDX-License-Identifier: MIT
"""Trees and all that is in them, each looked at once, whoever shares it.

A tree of ten million files by repetition is as quick as its few objects, and one that is
nested ten thousand deep takes no deeper stack. Where something is at fault is told by
going down from a top again, only into folders that hold a fault, and not for ever.
"""

from __future__ import annotations

import stat

from ckpt.engine.tree_check import shown
from ckpt.errors import CkptError
from ckpt.store.objects import ObjectID
from ckpt.store.soundness import Fault, Inspection
from ckpt.store.trees import GITLINK, is_null, parse_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Children = list[tuple[bytes, int, ObjectID]]

MOST_PLACES = 1000  # of faults below one top


class VerifiedTrees:
    """`blobs` are the contents in all trees that were gathered."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self._seen: set[ObjectID] = set()
        self._holds_fault: dict[ObjectID, bool] = {}
        self.blobs: set[ObjectID] = set()

    def gather(self, top: ObjectID) -> None:
        """Read a tree and those below it, unless they have been read."""
        todo = [top]
        while todo:
            tree = todo.pop()
            if tree in self._seen:
                continue
            self._seen.add(tree)
            for _, mode, child in self._children(tree):
                if stat.S_ISDIR(mode):
                    todo.append(child)
                elif mode != GITLINK:
                    self.blobs.add(child)

    def faults_in(self, top: ObjectID) -> Iterator[tuple[bytes, Fault]]:
        """The paths below a tree at which something is at fault, the first so many."""
        self._look_for_faults(top)
        todo, count = [(b"", top)], 0
        while todo and count < MOST_PLACES:
            folder, tree = todo.pop()
            if not self._holds_fault[tree]:
                continue
            for path, fault in self._direct_faults(folder, tree):
                count += 1
                yield path, fault
            below = [
                (_join(folder, name), child)
                for name, mode, child in self._children(tree)
                if stat.S_ISDIR(mode)
            ]
            todo += reversed(below)

    def _direct_faults(self, folder: bytes, tree: ObjectID) -> Iterator[tuple[bytes, Fault]]:
        own = self._inspection.fault(b"tree", tree)
        if own is not None:
            yield folder, own
        for name, mode, child in self._children(tree):
            if not stat.S_ISDIR(mode) and mode != GITLINK:
                fault = self._inspection.fault(b"blob", child)
                if fault is not None:
                    yield _join(folder, name), fault

    def _look_for_faults(self, top: ObjectID) -> None:
        """Find out for a tree and each below it whether there is a fault in it."""
        known, todo = self._holds_fault, [top]
        while todo:
            tree = todo[-1]
            if tree in known:
                todo.pop()
                continue
            folders = [child for _, mode, child in self._children(tree) if stat.S_ISDIR(mode)]
            unknown = [child for child in folders if child not in known]
            if unknown:
                todo += unknown
                continue
            is_direct = any(True for _ in self._direct_faults(b"", tree))
            known[tree] = is_direct or any(known[child] for child in folders)
            todo.pop()

    def _children(self, tree: ObjectID) -> Children:
        """What is in a tree; nothing if it is at fault, which is noted."""
        data = self._inspection.read(b"tree", tree)
        if data is None:
            return []
        try:
            children = parse_tree(data, self._inspection.objects.object_format.oid_length)
            _check(children)
        except ValueError as error:
            self._inspection.condemn(b"tree", tree, str(error))
        except CkptError as error:
            self._inspection.condemn(b"tree", tree, error.message)
        else:
            return children
        return []


def _check(children: Children) -> None:
    """Refuse entries that git would not have in a tree."""
    keys = [name + b"/" * stat.S_ISDIR(mode) for name, mode, _ in children]
    if len({name for name, _, _ in children}) < len(children):
        raise ValueError("it has two entries of one name")
    if keys != sorted(keys):
        raise ValueError("its entries are not in order")
    for name, mode, child in children:
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode) or mode == GITLINK):
            raise ValueError(f"it has an entry of the unknown mode {mode:o}")
        if is_null(child):
            raise ValueError(f"its entry '{shown(name)}' names no object")


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name
