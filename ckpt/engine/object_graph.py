# SPDX-License-Identifier: MIT
"""What checkpoints hold, as a graph of objects: who lets go of what, and what it frees.

Pure: ids, edges and sizes in, bytes out. An object is held by whatever names it, a ref, a commit
or a tree, and goes when the last of these has gone. So dropping a checkpoint costs no more than
to count down what it names, and what several hold goes with the last of them, in whatever order.
"""

from __future__ import annotations

from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@value_class
class Graph:
    """`children` are what an object names, each once; `roots` the commits of checkpoints."""

    roots: Mapping[str, bytes]
    children: Mapping[bytes, tuple[bytes, ...]]
    sizes: Mapping[bytes, int]

    def size(self) -> int:
        return sum(self.sizes.values())


class Dropping:
    """What is left when some of the checkpoints go; the graph itself stays as it is."""

    def __init__(self, graph: Graph, names: Iterable[str]) -> None:
        self._graph = graph
        self._left = {name: graph.roots[name] for name in names}
        self._holders: dict[bytes, int] = {}
        self.total = self._take_up()

    @property
    def trash(self) -> int:
        """What nothing holds any more but dropped checkpoints."""
        return self._graph.size() - self.total

    def drop(self, name: str) -> int:
        """Let go of one; the bytes that it was the last to hold."""
        gone = self._let_go(self._left.pop(name))
        freed = self._bytes(gone)
        self.total -= freed
        return freed

    def size(self, name: str) -> int:
        """The bytes that one alone holds, as things stand."""
        root = self._left[name]
        gone = self._let_go(root)
        for object_id in gone:
            for child in self._graph.children.get(object_id, ()):
                self._holders[child] += 1
        self._holders[root] += 1
        return self._bytes(gone)

    def _bytes(self, object_ids: Iterable[bytes]) -> int:
        sizes = self._graph.sizes
        return sum([sizes.get(object_id, 0) for object_id in object_ids])

    def _take_up(self) -> int:
        """Count who names each object; the bytes of all that are named."""
        holders, children = self._holders, self._graph.children
        todo = list(self._left.values())
        while todo:
            object_id = todo.pop()
            count = holders.get(object_id, 0)
            holders[object_id] = count + 1
            if not count:
                todo += children.get(object_id, ())
        return self._bytes(holders)

    def _let_go(self, root: bytes) -> list[bytes]:
        """Count down from a root; the objects that nothing names any more."""
        holders, children = self._holders, self._graph.children
        gone, todo = [], [root]
        while todo:
            object_id = todo.pop()
            holders[object_id] -= 1
            if not holders[object_id]:
                gone.append(object_id)
                todo += children.get(object_id, ())
        return gone
