# SPDX-License-Identifier: MIT
"""A large content passes through in pieces and is the same as if it had been whole.

Most tests call a few bytes large, so that pieces begin and end everywhere.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from byhand import files_below, object_store, pack
from hypothesis import given
from hypothesis import strategies as st
from seam import failing, observe

from ckpt.git import objects
from ckpt.git.objects import (
    LARGE,
    PIECE,
    SHA1,
    SHA256,
    MissingObject,
    ObjectFormat,
    ObjectID,
    ObjectStore,
    UnreadableFile,
)

SMALL, MEDIUM = 16, 64


@contextmanager
def tiny() -> Iterator[None]:
    """Pieces of 16 bytes, compressed 100 at a time; more than 64 are large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "PIECE", SMALL)
        patch.setattr(objects, "_COMPRESSED_PIECE", 100)
        patch.setattr(objects, "LARGE", MEDIUM)
        yield


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def added(store: ObjectStore, path: Path, size: int | None = None) -> ObjectID:
    with open(path, "rb") as file:
        return store.add_file(file.fileno(), path.stat().st_size if size is None else size)


def hashed(store: ObjectStore, path: Path) -> ObjectID:
    with open(path, "rb") as file:
        return store.hash_file(file.fileno(), path.stat().st_size)


def content(store: ObjectStore, object_id: ObjectID) -> bytes:
    return b"".join(store.pieces(object_id))


# Sizes around every boundary


@pytest.mark.parametrize("object_format", [SHA1, SHA256], ids=["sha1", "sha256"])
@pytest.mark.parametrize(
    "size", [0, 1, LARGE - 1, LARGE, LARGE + 1, LARGE + PIECE - 1, LARGE + PIECE, 2 * LARGE + 1]
)
@pytest.mark.parametrize("make", [bytes, noise], ids=["zeros", "noise"])
def test_a_file_in_pieces_is_the_object_that_it_is_whole(
    make: Callable[[int], bytes], size: int, object_format: ObjectFormat, tmp_path: Path
) -> None:
    data = make(size)
    path = put(tmp_path / "file", data)
    store = object_store(tmp_path / "objects", object_format)
    made = added(store, path)

    assert made == hashed(store, path) == store.hash(b"blob", data)
    assert (content(store, made), store.size(made)) == (data, size)
    store.flush()
    assert (content(store, made), store.size(made)) == (data, size)
    assert store.read(made, b"blob") == data
    assert len(files_below(tmp_path / "objects")) == 1
    store.close()


@given(data=st.binary(max_size=200) | st.builds(bytes, st.integers(0, 2000)))
def test_pieces_agree_with_the_whole_wherever_they_end(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, tiny():
        store = object_store(Path(folder, "objects"))
        made = added(store, put(Path(folder, "file"), data))
        assert made == store.hash(b"blob", data)
        assert content(store, made) == data
        store.flush()
        assert content(store, made) == store.read(made, b"blob") == data
        store.close()


# Nothing is done twice


def test_a_large_file_that_the_repository_has_is_not_written_again(
    store: ObjectStore, tmp_path: Path
) -> None:
    path = put(tmp_path / "file", noise(LARGE + 1))
    made = added(store, path)
    assert added(store, path) == made
    store.flush()
    with failing("create", "write"):
        assert added(store, path) == made

    assert not store.is_new(made)
    assert len(files_below(Path(store.path))) == 1


# Files that change, disks that fail


@pytest.mark.parametrize("size", [LARGE + 1, 10])
@pytest.mark.parametrize("told", [-1, 1])
def test_a_file_of_another_length_than_told_is_not_taken(
    told: int, size: int, store: ObjectStore, tmp_path: Path
) -> None:
    path = put(tmp_path / "file", noise(size))
    with pytest.raises(UnreadableFile):
        added(store, path, size + told)

    assert files_below(Path(store.path)) == []


def test_a_file_that_changes_between_two_passes_is_not_taken(
    store: ObjectStore, tmp_path: Path
) -> None:
    path = put(tmp_path / "file", noise(LARGE + 1))
    observe(lambda operation, _: operation == "create" and put(path, bytes(LARGE + 1)))
    with pytest.raises(UnreadableFile):
        added(store, path)
    store.discard()

    assert files_below(Path(store.path)) == []
    store.flush()
    assert files_below(Path(store.path)) == []


def test_a_disk_that_is_full_half_way_leaves_nothing(store: ObjectStore, tmp_path: Path) -> None:
    path = put(tmp_path / "file", noise(LARGE + 1))
    with failing("write", after=2), pytest.raises(OSError) as caught:
        added(store, path)

    assert not isinstance(caught.value, UnreadableFile)
    store.discard()
    assert files_below(Path(store.path)) == []
    assert content(store, added(store, path)) == path.read_bytes()


# Damage


def damage(path: Path, change: Callable[[bytearray], object]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.chmod(0o644)
    path.write_bytes(data)


def flip(position: int) -> Callable[[bytearray], object]:
    def change(data: bytearray) -> None:
        data[position] ^= 0x55

    return change


def cut(data: bytearray) -> None:
    del data[-2000:]


@pytest.mark.parametrize("deltify", [True, False])
@pytest.mark.parametrize("where", [30, 0.3, 0.6, 0.9])
def test_damage_in_a_pack_is_noticed(where: float, deltify: bool, store: ObjectStore) -> None:
    blobs = [noise(3000), noise(3000) + noise(500, 1), noise(200, 2) + noise(3000)]
    path = pack(Path(store.path), *blobs, deltify=deltify)
    length = path.stat().st_size
    damage(path, flip(int(where * length if where < 1 else where)))

    with tiny(), pytest.raises(MissingObject):
        for data in blobs:
            store.check(store.hash(b"blob", data), b"blob")


# Ids only


def test_a_scratch_store_does_not_hold_what_is_large(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LARGE", "LARGEST_KEPT"):
        monkeypatch.setattr(objects, name, 100)
    scratch = store.scratch()
    large, small = noise(101), noise(100)
    made = [added(scratch, put(tmp_path / "file", data)) for data in (large, small)]

    assert made == [store.hash(b"blob", large), store.hash(b"blob", small)]
    assert [scratch.size(name) for name in made] == [101, 100]
    assert all(map(scratch.has, made))
    assert all(map(scratch.is_new, made))
    assert content(scratch, made[1]) == small
    with pytest.raises(MissingObject):
        scratch.check(made[0], b"blob")
    assert files_below(Path(store.path)) == []
