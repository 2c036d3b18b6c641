# SPDX-License-Identifier: MIT
"""Folders in chunks: whatever is put in, taken out, divided and packed, comes back as it was."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from ckpt.worktree import cache
from ckpt.worktree.cache import (
    EXECUTABLE,
    NEW,
    REGULAR,
    Chunk,
    Listing,
    Listings,
    owner_of,
    stat_of,
)

FOLDERS = [b"", b"a", b"a-b", b"a/b", b"a/b/c", b"a0", b"ab", b"d", b"d/e", b"d/e/f", b"\xff", b"~"]


def listing(folder: bytes, count: int = 2, mark: int = 0) -> Listing:
    made = Listing(folder)
    made.status = (mark, 2, 3, 4, 0o040755)
    made.bits = 0o755 if mark % 3 else 0o700
    made.is_walked = bool(mark % 4)
    for number in range(count):
        made.names.append(b"name %d" % number)
        made.codes.append([REGULAR, EXECUTABLE, REGULAR - NEW][number % 3])
        made.ids.append(bytes([number, mark % 256]) * 10)
        made.stats.append((mark, number, 2**64 - 1, 10 + number, 0o100644))
        made.owners.append((mark, 0, 0) if mark % 2 else (number, 0, 0))
    if mark % 2:
        made.watched.append(b"watched")
        made.stats.append((mark, 1, 1, 1, 0o100644))
        made.owners.append((mark, 0, 0))
        made.unsure.add(count)
    if count and mark % 5 == 0:
        made.unsure.add(0)
    made.trees = {b"inner": b"\1" * 20, b"hollow": b""}
    made.tree = bytes([mark % 256]) * 20
    made.notes = [("skipped", folder + b"/x", b"denied")] if mark % 2 else []
    return made


def plain(made: Listing) -> dict[str, object]:
    return {name: getattr(made, name) for name in Listing.__slots__}


def check(found: Listings, expected: dict[bytes, Listing]) -> None:
    assert [x.folder for x in found] == sorted(expected)
    for folder, made in expected.items():
        got = found.get(folder)
        assert got is not None
        assert plain(got) == plain(made)
        below = {x.folder for x in found.below(folder)}
        assert below == {
            f for f in expected if f == folder or f.startswith(folder + b"/") or not folder
        }
    assert {x.folder for x in found.unwalked()} == {
        folder for folder, made in expected.items() if not made.is_walked
    }


def check_sums(found: Listings, expected: dict[bytes, Listing]) -> None:
    summaries = found.summaries()
    new = [size for made in expected.values() for size in made.new_sizes()]
    assert sum(s.new_files for s in summaries) == len(new)
    assert sum(s.new_bytes for s in summaries) == sum(new)
    assert sum(sum(s.folders.values()) for s in summaries) == len(expected)
    assert sum(sum(s.bits.values()) for s in summaries) == sum(
        len(made.names) for made in expected.values()
    )
    notes = [note for summary in summaries for note in summary.notes]
    assert sorted(notes) == sorted(note for made in expected.values() for note in made.notes)


@pytest.mark.parametrize("seed", range(30))
def test_folders_come_and_go_and_all_others_stay(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_PATHS", seed % 7 + 1)
    dice = random.Random(seed)
    found, expected = Listings(), dict[bytes, Listing]()
    for mark in range(120):
        folder = dice.choice(FOLDERS)
        step = dice.choice(["put", "put", "remove", "touch", "pack", "store", "look"])
        if step == "put":
            count = dice.randrange(6)
            found.put(listing(folder, count, mark))
            expected[folder] = listing(folder, count, mark)
        elif step == "remove":
            found.remove(folder)
            expected.pop(folder, None)
        elif step == "touch" and folder in expected:
            got = found.get(folder)
            assert got is not None
            for made in (got, expected[folder]):
                made.tree = bytes([mark]) * 20
                if made.names:
                    made.drop(0)
            found.touch(folder)
        elif step == "pack":
            found.pack()
            check_sums(found, expected)
        elif step == "store":
            found = Listings([Chunk.of(chunk.plain()) for chunk in found.pack()])
        elif found.pack():
            check(found, expected)
    found.pack()
    check(found, expected)
    check_sums(found, expected)


def test_a_listing_that_was_changed_and_not_said_to_be_is_not_kept() -> None:
    found = Listings()
    found.put(listing(b"a"))
    chunks = found.pack()
    got = Listings(chunks).get(b"a")
    assert got is not None
    got.drop(0)

    again = Listings(chunks).get(b"a")
    assert again is not None
    assert plain(again) == plain(listing(b"a"))


# -- compared with the disk --------------------------------------------------------------


def of_disk(top: Path, folder: bytes) -> Listing:
    made = Listing(folder)
    place = top / os.fsdecode(folder)
    made.status = stat_of(place.lstat())
    for path in sorted(place.iterdir()):
        if path.is_dir() and not path.is_symlink():
            made.trees[os.fsencode(path.name)] = b""
            continue
        made.names.append(os.fsencode(path.name))
        made.codes.append(REGULAR)
        made.ids.append(bytes(20))
        made.stats.append(stat_of(path.lstat()))
        made.owners.append(owner_of(path.lstat()))
    return made


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for folder in range(6):
        for name in range(4):
            path = tmp_path / f"f{folder}/n{name}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"1\n")
    return tmp_path


def known(top: Path) -> Listings:
    found = Listings()
    for folder in (b"", *(b"f%d" % number for number in range(6))):
        found.put(of_disk(top, folder))
    return Listings(found.pack())


def differing(top: Path, found: Listings) -> dict[bytes, list[int]]:
    return {x.folder: places for x, places in found.changed(os.fsencode(top) + b"/")}


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("fork_pays", [0, 100])
def test_what_differs_is_told_by_its_place(
    top: Path, size: int, fork_pays: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_PATHS", size)
    monkeypatch.setattr(cache, "_FORK_PAYS", fork_pays)
    found = known(top)

    assert differing(top, found) == {}
    (top / "f1/n0").write_bytes(b"22\n")
    (top / "f1/n3").chmod(0o600)
    (top / "f2/n2").unlink()
    (top / "f5/new").write_bytes(b"new\n")
    assert differing(top, found) == {b"f1": [1, 4], b"f2": [0, 3], b"f5": [0]}


def test_what_is_unsure_differs_whatever_the_disk_says(top: Path) -> None:
    found = known(top)
    got = found.get(b"f3")
    assert got is not None
    got.unsure.add(2)
    found.touch(b"f3")

    assert differing(top, Listings(found.pack())) == {b"f3": [3]}


def test_each_part_of_the_stat_data_counts(top: Path) -> None:
    for part in range(5):
        found = known(top)
        got = found.get(b"f0")
        assert got is not None
        status = list(got.stats[0])
        status[part] ^= 1
        got.stats[0] = (status[0], status[1], status[2], status[3], status[4])
        found.touch(b"f0")

        assert differing(top, Listings(found.pack())) == {b"f0": [1]}


def test_a_path_longer_than_a_call_takes_is_compared_too(tmp_path: Path) -> None:
    inner = os.path.join(*["x" * 200] * 25)
    folder = tmp_path
    fd = os.open(folder, os.O_RDONLY)
    for name in inner.split("/"):
        os.mkdir(name, dir_fd=fd)
        fd, outer = os.open(name, os.O_RDONLY, dir_fd=fd), fd
        os.close(outer)
    made = Listing(os.fsencode(inner))
    made.status = stat_of(os.fstat(fd))
    os.close(fd)
    found = Listings()
    found.put(made)
    assert differing(tmp_path, Listings(found.pack())) == {}
    made.status = (*made.status[:4], made.status[4] ^ 1)
    found.put(made)
    assert differing(tmp_path, Listings(found.pack())) == {os.fsencode(inner): [0]}
