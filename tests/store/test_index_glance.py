# SPDX-License-Identifier: MIT
"""A glance tells of an index what reading it would tell, or nothing."""

from __future__ import annotations

from binascii import unhexlify
from typing import Any

import pytest

from ckpt.git.index import CorruptIndex, IndexEntry, glance, read_index, write_index

TREE = b"ab" * 20
PATHS = [b"a", b"folder/file", b"folder/other-file.py", b"z" * 300]
FIELDS = (1, 2, 3, 4, 5, 6, 0, 8, 9)


def entries(**flags: Any) -> list[IndexEntry]:
    made = []
    for number, path in enumerate(PATHS):
        own = flags if path == b"folder/file" else {}
        made.append(IndexEntry.of(path, b"%040d" % number, 0o100644, (*FIELDS, 10 + number), **own))
    return made


def cache_tree(count: int = len(PATHS), tree: bytes = TREE) -> dict[bytes, bytes]:
    folder = b"folder\x002 0\n" + bytes(20)
    return {b"TREE": b"\x00%d 1\n" % count + unhexlify(tree) + folder}


def file(
    made: list[IndexEntry] | None = None,
    extensions: dict[bytes, bytes] | None = None,
    **options: Any,
) -> bytes:
    extensions = cache_tree() if extensions is None else extensions
    return write_index(entries() if made is None else made, extensions=extensions, **options)


def test_single_entries_are_those_that_reading_gives() -> None:
    data = file()
    found = glance(data, 7, PATHS, TREE, 20)

    assert found is not None
    assert [*found.at([b"z" * 300, b"a", b"nowhere"])] == [
        read_index(data).entries[3],
        read_index(data).entries[0],
    ]


def test_sizes_are_those_of_the_entries() -> None:
    found = glance(file(), 7, PATHS, TREE, 20)

    assert found is not None
    assert dict(found.sizes()) == dict(zip(PATHS, [10, 11, 12, 13], strict=True))


@pytest.mark.parametrize("length", range(1, 20))
def test_an_entry_may_have_any_length(length: int) -> None:
    paths = [b"a" * length, b"b"]
    made = [IndexEntry.of(path, b"12" * 20, 0o100644, (*FIELDS, 5)) for path in paths]
    data = file(made, cache_tree(2))
    found = glance(data, 7, paths, TREE, 20)

    assert found is not None
    assert [*found.at(paths)] == read_index(data).entries


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(file(version=4), id="of version 4"),
        pytest.param(file(entries(skip_worktree=True), version=3), id="with flags of version 3"),
        pytest.param(file(entries(assume_valid=True)), id="assumed to be unchanged"),
        pytest.param(file(entries(stage=2)), id="with a conflict"),
        pytest.param(file(extensions={}), id="without a cache tree"),
        pytest.param(file(extensions=cache_tree(3)), id="with entries outside the tree"),
        pytest.param(file(extensions=cache_tree(-1)), id="with a tree that is out of date"),
        pytest.param(file(extensions=cache_tree(tree=b"cd" * 20)), id="with another tree"),
        pytest.param(file(extensions=cache_tree() | {b"REUC": b""}), id="with resolved conflicts"),
        pytest.param(file(entries()[1:]), id="with fewer paths"),
        pytest.param(file([], {}), id="of nothing"),
    ],
)
def test_an_index_that_is_not_plain_and_the_same_is_not_glanced_at(data: bytes) -> None:
    assert glance(data, 7, PATHS, TREE, 20) is None


@pytest.mark.parametrize("other", [b"b", b"a-longer-name-than-that"])
def test_nor_one_with_other_paths(other: bytes) -> None:
    assert glance(file(), 7, sorted([*PATHS[1:], other]), TREE, 20) is None


def test_an_index_cut_short_is_not_trusted() -> None:
    data = file()
    for length in range(12, len(data) - 20):
        try:
            assert glance(data[:length], 7, PATHS, TREE, 20) is None
        except CorruptIndex:
            continue
