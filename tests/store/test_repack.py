# SPDX-License-Identifier: MIT
"""Packs with deltas, as ckpt writes them and reads them again."""

from __future__ import annotations

import os
import random
from binascii import unhexlify
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt.git import repack
from ckpt.git.formats import ObjectID, get_object_format
from ckpt.git.objects import ObjectStore
from ckpt.git.pack_writer import distance_bytes, entry_header
from ckpt.git.packs import parse_entry
from ckpt.locks import NOT_SHARED


@pytest.fixture(params=["sha1", "sha256"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    path = tmp_path / "objects"
    path.mkdir()
    return ObjectStore(str(path), get_object_format(request.param))


def written(objects: ObjectStore, contents: list[bytes]) -> list[ObjectID]:
    found = []
    for content in contents:
        found.append(objects.add(b"blob", content))
        objects.flush()
    return found


def packed(objects: ObjectStore, *rows: list[ObjectID]) -> repack.Repacked:
    return repack.repack(objects, [list(map(unhexlify, row)) for row in rows], NOT_SHARED, grace=0)


@given(st.integers(1, 1 << 40))
def test_a_distance_is_read_as_it_was_written(distance: int) -> None:
    entry = entry_header(6, 5) + distance_bytes(distance)

    assert parse_entry(entry, distance + 12, 20) == (6, 5, distance + 12 + len(entry), 12)


def test_long_rows_and_more_than_fits_a_buffer_come_back(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repack, "_LONGEST_CHAIN", 4)
    noise = random.Random(1).randbytes(210_000)
    versions = [noise[: 200_000 + 500 * number] + b"end %d" % number for number in range(9)]
    others = [random.Random(seed).randbytes(200_000) for seed in range(6)]
    rows = written(objects, versions), written(objects, others)
    done = packed(objects, *rows)

    assert (done.objects, done.removed) == (15, 15)
    assert done.pack_bytes < 2 * 210_000 + 6 * 200_000 + 10_000
    for ids, contents in zip(rows, (versions, others), strict=True):
        assert [objects.read(i, b"blob") for i in ids] == contents


def test_objects_of_many_packs_are_written_pack_by_pack(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repack, "_MOST_OBJECTS", 4)
    rows = [written(objects, [b"%d %d" % (row, n) for n in range(3)]) for row in range(5)]
    done = packed(objects, *rows)

    assert done.objects == done.removed == 15
    packs = [name for name in os.listdir(objects.path + "/pack") if name.endswith(".pack")]
    assert len(packs) == 3
    assert all(objects.has(object_id) for row in rows for object_id in row)


def test_one_that_is_named_twice_or_not_there_makes_no_difference(objects: ObjectStore) -> None:
    (one,) = written(objects, [b"one"])
    absent = objects.hash(b"blob", b"absent")
    done = packed(objects, [one, absent], [one])

    assert done.objects == 1
    assert objects.read(one, b"blob") == b"one"
    assert packed(objects, [absent]) == repack.Repacked()
    assert not [name for name in os.listdir(objects.path + "/pack") if name.startswith("tmp_")]


def test_an_object_that_was_used_lately_is_not_packed(objects: ObjectStore) -> None:
    (one, two) = written(objects, [b"one", b"two"])
    os.utime(f"{objects.path}/{two.decode()[:2]}/{two.decode()[2:]}", (1, 1))
    rows = [[unhexlify(one), unhexlify(two)]]

    assert repack.repack(objects, rows, NOT_SHARED, grace=60).objects == 1
    assert os.path.exists(f"{objects.path}/{one.decode()[:2]}/{one.decode()[2:]}")


def test_an_object_that_is_used_while_it_is_packed_stays_loose_too(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one, two) = written(objects, [b"one", b"two"])
    for folder, _, names in os.walk(objects.path):
        for name in names:
            os.utime(os.path.join(folder, name), (1, 1))
    check = repack._check

    def use_meanwhile(*words: object) -> None:
        check(*words)  # type: ignore[arg-type]  # whatever it takes
        objects.add(b"blob", b"one")

    monkeypatch.setattr(repack, "_check", use_meanwhile)
    rows = [[unhexlify(one), unhexlify(two)]]
    done = repack.repack(objects, rows, NOT_SHARED, grace=60)

    assert (done.objects, done.removed) == (2, 1)
    assert os.path.exists(f"{objects.path}/{one.decode()[:2]}/{one.decode()[2:]}")
    assert not os.path.exists(f"{objects.path}/{two.decode()[:2]}/{two.decode()[2:]}")
