# SPDX-License-Identifier: MIT
"""A bundle takes no more memory and no more work than it may, whatever its pack says."""

from __future__ import annotations

import os
import tracemalloc
import zlib
from hashlib import sha1
from itertools import pairwise
from pathlib import Path

import pytest

from ckpt.errors import Refused
from ckpt.git import bundle, pack_writer
from ckpt.git.formats import ObjectID
from ckpt.git.objects import ObjectStore
from ckpt.git.pack_writer import entry_header, make_delta

TREE, BLOB, OFS_DELTA, REF_DELTA = 2, 3, 6, 7
NOWHERE = b"\xab" * 20
MANY = 1 << 24


def entry(kind: int, content: bytes, base: bytes = b"") -> bytes:
    return entry_header(kind, len(content)) + base + zlib.compress(content, 9)


def sizes(base: int, made: int) -> bytes:
    """What a delta begins with."""
    return pack_writer._varint(base) + pack_writer._varint(made)


def named(content: bytes) -> bytes:
    return sha1(b"blob %d\0" % len(content) + content).digest()


def read(store: ObjectStore, folder: Path, *entries: bytes) -> None:
    """Read a pack of these entries."""
    pack = b"PACK\0\0\0\2" + len(entries).to_bytes(4, "big") + b"".join(entries)
    (folder / "pack").write_bytes(pack + sha1(pack).digest())
    fd = os.open(folder / "pack", os.O_RDONLY)
    try:
        bundle.read_pack(fd, 0, store)
    finally:
        os.close(fd)


def content_of(store: ObjectStore, name: bytes) -> bytes:
    return store.read(ObjectID(name.hex().encode()), b"blob")


def test_deltas_that_wait_for_their_base_are_not_held(store: ObjectStore, tmp_path: Path) -> None:
    bomb = entry(REF_DELTA, sizes(0, MANY) + bytes(MANY), NOWHERE)
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match="a delta without its base"):
            read(store, tmp_path, *[bomb] * 8)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < MANY


def test_a_delta_that_is_larger_than_what_it_makes_is_none(
    store: ObjectStore, tmp_path: Path
) -> None:
    bomb = entry(REF_DELTA, bytes(MANY), NOWHERE)

    with pytest.raises(Refused, match="larger than what it makes"):
        read(store, tmp_path, bomb)


def test_a_delta_makes_no_more_than_git_makes_them_for(store: ObjectStore, tmp_path: Path) -> None:
    bomb = entry(REF_DELTA, sizes(0, 1 << 30), NOWHERE)

    with pytest.raises(Refused, match="a delta that is too large"):
        read(store, tmp_path, bomb)


def test_a_delta_makes_no_thousand_times_of_its_base(store: ObjectStore, tmp_path: Path) -> None:
    base = os.urandom(1 << 16)
    whole_base = b"\x80"
    bomb = sizes(len(base), 1000 << 16) + 1000 * whole_base

    with pytest.raises(Refused, match="makes 65,536,000 of 65,536") as error:
        read(store, tmp_path, entry(BLOB, base), entry(REF_DELTA, bomb, named(base)))
    assert error.value.hint is not None
    assert error.value.hint.startswith("git fetch BUNDLE")


def test_large_ones_that_are_alike_are_made_in_pieces(store: ObjectStore, tmp_path: Path) -> None:
    first = bytes(4 * MANY)
    second, third = b"one" + first + b"end", b"two" + first + b"more at the end"
    pack = [
        entry(BLOB, first),
        entry(REF_DELTA, make_delta(first, second), named(first)),
        entry(REF_DELTA, make_delta(second, third), named(second)),
        entry(REF_DELTA, make_delta(third, b"small"), named(third)),
    ]
    tracemalloc.start()
    try:
        read(store, tmp_path, *pack)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < len(first)
    assert content_of(store, named(second)) == second
    assert content_of(store, named(third)) == third
    assert content_of(store, named(b"small")) == b"small"


def test_a_folder_of_very_many_files_is_read(store: ObjectStore, tmp_path: Path) -> None:
    tree = b"".join(b"100644 name %06d\0" % number + NOWHERE for number in range(50_000))

    read(store, tmp_path, entry(TREE, tree))

    assert len(tree) > 1 << 20
    assert store.read(store.hash(b"tree", tree), b"tree") == tree


def test_but_none_that_could_not_be_read_again(store: ObjectStore, tmp_path: Path) -> None:
    bomb = entry_header(TREE, (1 << 28) + 1) + zlib.compress(b"")

    with pytest.raises(Refused, match="a tree of 268435457 bytes"):
        read(store, tmp_path, bomb)


@pytest.mark.parametrize("said", [(MANY + 1, MANY), (MANY, MANY + 1), (MANY, MANY - 1)])
def test_a_large_one_is_what_its_delta_says(
    store: ObjectStore, tmp_path: Path, said: tuple[int, int]
) -> None:
    base = bytes(MANY)
    delta = make_delta(base, base)[len(sizes(MANY, MANY)) :]
    pack = [entry(BLOB, base), entry(REF_DELTA, sizes(*said) + delta, named(base))]

    with pytest.raises(Refused, match="its pack is damaged"):
        read(store, tmp_path, *pack)


@pytest.mark.parametrize("kind", [BLOB, REF_DELTA])
def test_what_would_become_a_thousand_times_as_large_is_refused(
    kind: int, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "_ALWAYS_ENOUGH", 1 << 20)
    content = bytes(MANY) if kind == BLOB else sizes(0, MANY)

    with pytest.raises(Refused, match="bytes would become more than") as error:
        read(store, tmp_path, entry(kind, content, b"" if kind == BLOB else NOWHERE))
    assert error.value.hint is not None
    assert error.value.hint.startswith("git fetch BUNDLE")


def test_so_is_nothing_that_is_not_large(store: ObjectStore, tmp_path: Path) -> None:
    read(store, tmp_path, entry(BLOB, bytes(MANY)))

    assert (tmp_path / "pack").stat().st_size * 900 < MANY
    assert content_of(store, named(bytes(MANY))) == bytes(MANY)


def test_a_bundle_that_is_large_may_hold_as_many_times_more(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "_ALWAYS_ENOUGH", 1)
    some = os.urandom(MANY // 256)

    read(store, tmp_path, entry(BLOB, some), entry(BLOB, bytes(MANY // 2)))

    assert content_of(store, named(some)) == some


def versions(number: int) -> list[bytes]:
    text = b"".join(b"line %d\n" % line for line in range(50))
    return [text + b"version %d\n" % each for each in range(number)]


def test_a_chain_of_deltas_is_followed_from_whichever_end_it_comes(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each base is looked for once, though the last delta comes first."""
    contents = versions(200)
    chain = [
        entry(REF_DELTA, make_delta(base, content), named(base))
        for base, content in pairwise(contents)
    ]
    asked = []
    usual = ObjectStore.kind
    monkeypatch.setattr(
        ObjectStore, "kind", lambda self, name: asked.append(name) or usual(self, name)
    )

    read(store, tmp_path, *reversed(chain), entry(BLOB, contents[0]))

    assert [content_of(store, named(each)) for each in contents] == contents
    assert len(asked) <= 2 * len(contents)


def test_bases_are_named_by_place_and_by_id_and_may_be_in_the_repository(
    store: ObjectStore, tmp_path: Path
) -> None:
    first, second, third, fourth = versions(4)
    store.add(b"blob", first)
    thin = entry(REF_DELTA, make_delta(first, second), named(first))
    by_place = entry(OFS_DELTA, make_delta(second, third), bytes([len(thin)]))
    by_id = entry(REF_DELTA, make_delta(third, fourth), named(third))

    read(store, tmp_path, thin, by_place, by_id)

    assert [content_of(store, named(each)) for each in (second, third, fourth)] == [
        *(second, third, fourth)
    ]
