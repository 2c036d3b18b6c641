# SPDX-License-Identifier: MIT
"""Objects that are not flushed yet: held, or in a pack that grows, and never half visible."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha1
from pathlib import Path

import pytest
from byhand import files_below, object_store
from seam import failing, observed

from ckpt.git import objects, pack_writer
from ckpt.git.formats import SHA1, SHA256, ObjectFormat, ObjectID
from ckpt.git.objects import ObjectsPruned, ObjectStore
from ckpt.git.packs import PackIndex
from ckpt.locks import Sharing

CONTENTS = [b"%d\n" % number * (number % 50) for number in range(300)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    opened = object_store(tmp_path / "objects")
    yield opened
    opened.close()


def add(store: ObjectStore, contents: list[bytes] = CONTENTS) -> list[ObjectID]:
    return [store.add(b"blob", data) for data in contents]


def save(store: ObjectStore, contents: list[bytes]) -> None:
    """To the end, when a ref would be made and the pack is git's."""
    add(store, contents)
    store.flush()
    store.discard()


def files(store: ObjectStore) -> list[str]:
    return files_below(Path(store.path))


def check(store: ObjectStore, contents: list[bytes] = CONTENTS) -> None:
    """Everything is there, for this store and for one that is new."""
    with closing(object_store(Path(store.path), store.object_format)) as other:
        for each in (store, other):
            names = [each.hash(b"blob", data) for data in contents]
            assert [each.read(name, b"blob") for name in names] == contents
            assert [each.size(name) for name in names] == list(map(len, contents))
            assert each.sizes(names) == dict(zip(names, map(len, contents), strict=True))
            assert {each.kind(name) for name in names} == {b"blob"}
            assert each.missing(names) == set()
            assert not any(map(each.is_new, names))


# What is held


@pytest.mark.parametrize("count", [1, 100, objects.MANY_OBJECTS])
def test_what_is_held_leaves_no_trace(count: int, store: ObjectStore) -> None:
    with observed() as seen:
        add(store, CONTENTS[:count])
        store.discard()

    assert (seen, files(store)) == ([], [])


@pytest.mark.parametrize("object_format", [SHA1, SHA256], ids=["sha1", "sha256"])
@pytest.mark.parametrize(
    "count", [1, objects.MANY_OBJECTS, objects.MANY_OBJECTS + 1, objects.MANY_OBJECTS + 2, 300]
)
def test_objects_can_be_read_before_and_after_they_are_flushed(
    count: int, object_format: ObjectFormat, tmp_path: Path
) -> None:
    with closing(object_store(tmp_path / "objects", object_format)) as store:
        contents = [b"%d" % n * n for n in range(count)]
        names = add(store, contents)
        assert [store.read(name, b"blob") for name in names] == contents
        assert [store.size(name) for name in names] == list(map(len, contents))
        assert store.sizes(names) == dict(zip(names, map(len, contents), strict=True))
        assert store.missing(names) == set()
        assert all(map(store.has, names))
        assert all(map(store.is_new, names))
        assert {store.kind(name) for name in names} == {b"blob"}
        assert b"".join(store.pieces(names[-1])) == contents[-1]
        assert store.flush() == set(names)
        check(store, contents)
        store.discard()
        assert not [path for path in files(store) if "tmp" in path or path.endswith(".keep")]


@pytest.mark.parametrize(
    ("count", "loose"), [(objects.MANY_OBJECTS, True), (objects.MANY_OBJECTS + 1, False)]
)
def test_few_objects_are_loose_and_many_are_one_pack(
    count: int, loose: bool, store: ObjectStore
) -> None:
    add(store, [b"%d" % number for number in range(count)])
    store.flush()

    store.discard()
    names = [path for path in files(store) if not path.startswith(("pack/", "info/"))]
    packs = [path for path in files(store) if path.endswith(".pack")]
    assert (len(names), len(packs)) == ((count, 0) if loose else (0, 1))


def test_objects_of_every_kind_go_into_a_pack(store: ObjectStore) -> None:
    empty = store.add(b"blob", b"")
    made = {
        store.add(kind, b"%d" % number): kind
        for number in range(60)
        for kind in (b"commit", b"tree", b"blob", b"tag")
    }
    store.flush()

    assert {name: store.kind(name) for name in made} == made
    assert store.read(empty, b"blob") == b""


# Memory


def test_beyond_a_number_objects_are_in_a_pack_that_gc_clears_away(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "MANY_OBJECTS", 5)
    monkeypatch.setattr(pack_writer, "_BUFFER", 100)
    contents = [os.urandom(90) for _ in range(50)]
    names = add(store, contents)

    temporary, mark = files(store)
    assert re.fullmatch(r"tmp_obj_[0-9a-f]{16}", mark)
    assert re.fullmatch(mark.replace("obj", "pack") + "_[0-9]+", temporary.removeprefix("pack/"))
    assert os.path.getsize(Path(store.path, temporary)) > 4000
    assert [store.read(name, b"blob") for name in names] == contents
    store.flush()
    check(store, contents)


def test_beyond_a_size_objects_are_in_files_that_gc_clears_away(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_MOST_HELD", 1000)
    contents = [os.urandom(90) for _ in range(50)]
    names = add(store, contents)

    assert len(files(store)) > 40
    assert all(re.fullmatch(r"tmp_obj_[0-9a-f]{16}(_[0-9]+)?", path) for path in files(store))
    assert [store.read(name, b"blob") for name in names] == contents
    store.flush()
    assert not list(Path(store.path).glob("pack/*"))
    check(store, contents)


def test_many_large_objects_are_one_pack_all_the_same(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_MOST_HELD", 1000)
    monkeypatch.setattr(objects, "MANY_OBJECTS", 20)
    contents = [os.urandom(90) for _ in range(300)]
    add(store, contents)
    store.flush()

    assert len(list(Path(store.path).glob("pack/*.pack"))) == 1
    assert len(files(store)) < 30
    check(store, contents)


def test_a_pack_that_is_given_up_leaves_nothing(store: ObjectStore) -> None:
    names = add(store)
    assert files(store)
    store.discard()

    assert files(store) == []
    assert not any(map(store.has, names))
    add(store)
    store.flush()
    check(store)


# Order and failure


def test_a_pack_is_durable_before_it_is_visible(store: ObjectStore) -> None:
    add(store)
    with observed() as seen:
        store.flush()

    rows = [(what, Path(path).name) for what, path in seen if what not in ("write", "create")]
    steps = [(what, re.sub(r"[0-9a-f]{16,}(_[0-9]+)?|[0-9]+$", "*", name)) for what, name in rows]
    assert steps == [
        ("fsync", "handle *"),
        ("fsync", "tmp_idx_*"),
        ("rename", "pack-*.pack"),
        ("rename", "pack-*.idx"),
        ("fsync-dir", "pack"),
    ]


@pytest.mark.parametrize("count", [5, 300])
@pytest.mark.parametrize(
    ("operation", "after"),
    [
        *[("create", number) for number in range(3)],
        *[("write", number) for number in range(5)],
        *[("fsync", number) for number in range(2)],
        *[("rename", number) for number in range(3)],
    ],
)
def test_a_flush_that_fails_shows_nothing_and_can_be_tried_again_or_given_up(
    operation: str, after: int, count: int, store: ObjectStore
) -> None:
    contents = CONTENTS[:count]
    for again in (False, True):
        add(store, contents)
        with failing(operation, after=after):
            try:
                store.flush()
            except OSError:
                assert not [path for path in files(store) if path.endswith(".idx")]
                if not again:
                    store.discard()
                    assert not [path for path in files(store) if "tmp" in path or "keep" in path]
            else:
                break  # there are not so many, or one that can be done without
        if again:
            store.flush()
    check(store, contents)


def test_a_temporary_pack_that_a_prune_took_is_no_success(store: ObjectStore) -> None:
    add(store)
    for path in files(store):
        Path(store.path, path).unlink()

    with pytest.raises(ObjectsPruned):
        store.flush()
    store.discard()
    assert files(store) == []


def test_a_pack_has_the_bits_of_a_shared_repository(tmp_path: Path) -> None:
    with closing(object_store(tmp_path, sharing=Sharing(0o660))) as store:
        add(store)
        store.flush()
        modes = {path.stat().st_mode & 0o777 for path in tmp_path.glob("pack/*")}

    assert modes == {0o444}


# Beside git


def test_a_pack_is_kept_from_git_until_its_ref_is_made(store: ObjectStore) -> None:
    add(store)
    with observed() as seen:
        store.flush()
    (keep,) = Path(store.path).glob("pack/*.keep")
    order = [Path(path).suffix for _, path in seen if Path(path).stem == keep.stem]
    assert order[0] == ".keep"
    others = [b"other " + content for content in CONTENTS]
    add(store, others)
    store.flush()
    assert len(list(Path(store.path).glob("pack/*.keep"))) == 2

    store.discard()
    assert list(Path(store.path).glob("pack/*.keep")) == []
    check(store, CONTENTS + others)


@pytest.mark.parametrize("content", [pack_writer.KEPT_BY_US, b"", b"by somebody"])
def test_what_a_killed_save_kept_is_git_s_again_after_a_while(
    content: bytes, store: ObjectStore
) -> None:
    keep = Path(store.path, "pack", f"pack-{'0' * 40}.keep")
    keep.parent.mkdir(exist_ok=True)
    keep.write_bytes(content)
    keep.with_suffix(".idx").touch()  # else an empty one would be of a process that was killed
    save(store, CONTENTS)
    assert keep.exists()
    os.utime(keep, (1, 1))
    save(store, [b"other " + content for content in CONTENTS])

    assert keep.exists() == (content != pack_writer.KEPT_BY_US)
    check(store)


def test_an_index_says_where_objects_are_beyond_2_gibibytes() -> None:
    """A pack of that size is not made for it."""
    offsets = {blob_id(n): offset for n, offset in enumerate((12, 1 << 31, 1 << 40, 99, 5 << 30))}
    index = pack_writer._index(offsets, bytes(range(20)), bytes(20)) + bytes(20)
    read = PackIndex(index, 20)

    assert {name: read.find(bytes.fromhex(name.decode())) for name in offsets} == offsets


def blob_id(n: int) -> bytes:
    return sha1(b"%d" % n).hexdigest().encode()


def test_a_pack_that_was_cut_off_holds_nothing_that_need_not_be_written(store: ObjectStore) -> None:
    save(store, CONTENTS)
    (whole,) = Path(store.path).glob("pack/*.pack")
    whole.chmod(0o644)
    os.truncate(whole, 300)

    with closing(object_store(Path(store.path))) as other:
        names = add(other, CONTENTS[-3:])
        assert all(map(other.is_new, names))
        other.flush()
        assert [other.read(name, b"blob") for name in names] == CONTENTS[-3:]


@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_fork_that_gives_up_leaves_what_its_parent_added(
    store: ObjectStore, is_flushed: bool
) -> None:
    add(store)
    if is_flushed:
        store.flush()
    before = files(store)
    child = os.fork()
    if child == 0:
        store.discard()
        os._exit(0)
    os.waitpid(child, 0)

    assert files(store) == before
    store.flush()
    check(store)
