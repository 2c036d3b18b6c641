# SPDX-License-Identifier: MIT
"""What only an operation names: found among a few trees, however often they are repeated."""

from __future__ import annotations

from itertools import islice

import pytest
from byhand import blob

from ckpt.engine.snapshot import only_in
from ckpt.git import trees
from ckpt.git.formats import ObjectID
from ckpt.git.objects import ObjectStore
from ckpt.git.trees import UnsafeTree, write_tree

SOME = 1000


def folder(store: ObjectStore, **children: ObjectID) -> ObjectID:
    lines = (
        b"40000 %s\0" % name.encode() + bytes.fromhex(i.decode()) for name, i in children.items()
    )
    return store.add(b"tree", b"".join(lines))


def files(store: ObjectStore, content: bytes) -> ObjectID:
    return write_tree(store, {b"file": blob(store, content)})


def test_what_is_only_in_one_tree_is_found_and_nothing_else(store: ObjectStore) -> None:
    same, old, new = (files(store, content) for content in (b"same", b"old", b"new"))
    before = folder(store, a=same, b=old)
    now = folder(store, a=same, b=new, c=old)

    found = set(only_in(store, now, before))

    assert found == {now, new, blob(store, b"new").id, old, blob(store, b"old").id}


def test_a_tree_that_is_repeated_without_an_end_is_looked_into_once(store: ObjectStore) -> None:
    tree = files(store, b"x")
    for _ in range(12):
        tree = folder(store, **{chr(ord("a") + n): tree for n in range(12)})

    found = list(islice(only_in(store, tree, None), SOME))

    assert len(found) == len(set(found)) == 12 + 2


def test_nor_is_it_compared_with_all_others_without_an_end(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "_ANY_SIZE", 0)
    monkeypatch.setattr(trees, "_TIMES", 1)
    tree, *others = (files(store, content) for content in (b"x", b"y", b"z"))
    now, before = (folder(store, a=a, b=b) for a, b in ((tree, tree), others))

    with pytest.raises(UnsafeTree):
        list(only_in(store, now, before))
