# SPDX-License-Identifier: MIT
"""An object that can be seen is whole and durable; writing one twice costs nothing."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from byhand import files_below, loose, object_store, pack
from seam import failing, observed

from ckpt.git.objects import MissingObject, ObjectID, ObjectStore

HELLO = ObjectID(b"ce013625030ba8dba906f756967f9e9ca394464a")  # "hello\n"
OLD = 1_000_000_000


def test_an_object_has_the_id_that_git_gives_it(store: ObjectStore) -> None:
    assert store.add(b"blob", b"hello\n") == HELLO
    assert store.hash(b"tree", b"") == b"4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def test_an_object_is_nowhere_until_it_is_flushed(store: ObjectStore) -> None:
    store.add(b"blob", b"hello\n")

    assert files_below(Path(store.path)) == []
    assert not object_store(Path(store.path)).has(HELLO)

    store.flush()
    assert files_below(Path(store.path)) == [f"ce/{HELLO[2:].decode()}"]
    assert object_store(Path(store.path)).read(HELLO, b"blob") == b"hello\n"


def test_every_content_is_on_the_disk_before_any_gets_its_name(store: ObjectStore) -> None:
    made = [store.add(b"blob", b"%d" % number) for number in range(3)]
    with observed() as seen:
        store.flush()

    changes = [row for row in seen if row[0] in ("write", "fsync", "rename")]
    operations = [operation for operation, _ in changes]
    assert operations == ["write"] * 3 + ["fsync"] * 3 + ["rename"] * 3
    assert all("tmp_obj_" in path for _, path in changes[:6])
    assert {path for _, path in changes[6:]} == {str(loose(store, name)) for name in made}


def test_the_names_are_durable_when_a_flush_returns(store: ObjectStore) -> None:
    made = [store.add(b"blob", b"%d" % number) for number in range(3)]
    with observed() as seen:
        store.flush()

    folders = {str(loose(store, name).parent) for name in made} | {store.path}
    after = seen[max(n for n, (operation, _) in enumerate(seen) if operation == "rename") + 1 :]
    assert {operation for operation, _ in after} == {"fsync-dir"}
    assert {path for _, path in after} == folders


def test_a_flush_with_nothing_to_do_touches_nothing(store: ObjectStore) -> None:
    with observed() as seen:
        store.flush()

    assert seen == []


def test_a_flush_that_fails_names_nothing_that_is_not_durable(store: ObjectStore) -> None:
    store.add(b"blob", b"one")
    store.add(b"blob", b"two")
    with failing("fsync", after=1), pytest.raises(OSError):
        store.flush()

    assert all("tmp_obj_" in path for path in files_below(Path(store.path)))
    store.discard()
    assert files_below(Path(store.path)) == []


def test_the_same_content_twice_is_one_object(store: ObjectStore) -> None:
    assert store.add(b"blob", b"hello\n") == store.add(b"blob", b"hello\n")
    store.flush()
    assert len(files_below(Path(store.path))) == 1


def test_two_stores_may_write_the_same_object_at_once(store: ObjectStore) -> None:
    other = object_store(Path(store.path))
    store.add(b"blob", b"hello\n")
    other.add(b"blob", b"hello\n")
    store.flush()
    other.flush()

    assert files_below(Path(store.path)) == [f"ce/{HELLO[2:].decode()}"]
    assert store.read(HELLO, b"blob") == b"hello\n"


def test_discarding_leaves_no_file(store: ObjectStore) -> None:
    store.add(b"blob", b"hello\n")
    store.add(b"blob", b"more")
    store.discard()

    assert files_below(Path(store.path)) == []
    assert not store.has(HELLO)
    store.flush()
    assert files_below(Path(store.path)) == []


@pytest.mark.parametrize("operation", ["create", "write"])
def test_a_write_that_fails_leaves_no_file(operation: str, store: ObjectStore) -> None:
    store.add(b"blob", b"hello\n")
    with failing(operation), pytest.raises(OSError):
        store.flush()

    assert store.is_new(HELLO)
    store.flush()
    assert files_below(Path(store.path)) == [f"ce/{HELLO[2:].decode()}"]
    assert object_store(Path(store.path)).has(HELLO)


def test_an_object_is_readable_by_all_and_writable_by_none(store: ObjectStore) -> None:
    store.add(b"blob", b"hello\n")
    store.flush()

    assert loose(store, HELLO).stat().st_mode & 0o777 == 0o444


# Objects that are there already


def test_a_loose_object_is_not_written_again_but_made_young(store: ObjectStore) -> None:
    store.add(b"blob", b"hello\n")
    store.flush()
    os.utime(loose(store, HELLO), (OLD, OLD))
    inode = loose(store, HELLO).stat().st_ino
    store.add(b"blob", b"hello\n")
    store.flush()

    assert not store.is_new(HELLO)
    assert loose(store, HELLO).stat().st_ino == inode
    assert loose(store, HELLO).stat().st_mtime > OLD


@pytest.mark.parametrize("spoil", [lambda data: bytes(len(data)), lambda data: data[:-3]])
def test_a_file_without_its_bytes_is_no_object(
    store: ObjectStore, spoil: Callable[[bytes], bytes]
) -> None:
    """A power cut may leave the length of a file that git did not flush, and no more."""
    store.add(b"blob", b"hello\n")
    store.flush()
    file = loose(store, HELLO)
    content = file.read_bytes()
    file.chmod(0o644)
    file.write_bytes(spoil(content))
    store.add(b"blob", b"hello\n")
    store.flush()

    assert file.read_bytes() == content


def test_an_object_that_went_with_its_pack_is_written(store: ObjectStore) -> None:
    path = pack(Path(store.path), b"hello\n")
    assert store.has(HELLO)
    path.unlink()
    path.with_suffix(".idx").unlink()
    store.add(b"blob", b"hello\n")
    store.flush()

    assert loose(store, HELLO).exists()


@pytest.mark.parametrize("packed", [True, False])
def test_an_object_of_an_alternate_is_read_and_made_young(packed: bool, tmp_path: Path) -> None:
    lender = object_store(tmp_path / "lender")
    if packed:
        path = pack(tmp_path / "lender", b"hello\n")
    else:
        lender.add(b"blob", b"hello\n")
        lender.flush()
        path = loose(lender, HELLO)
    os.utime(path, (OLD, OLD))
    (tmp_path / "objects/info").mkdir(parents=True)
    (tmp_path / "objects/info/alternates").write_text(f"{tmp_path}/lender\n")
    with closing(object_store(tmp_path / "objects")) as store:
        assert store.has(HELLO)
        assert store.read(HELLO, b"blob") == b"hello\n"
        store.add(b"blob", b"hello\n")
        store.flush()
        assert not loose(store, HELLO).exists()
        assert path.stat().st_mtime > OLD


# Sizes


def test_the_size_of_an_object_is_told_after_git_has_repacked(store: ObjectStore) -> None:
    old = pack(Path(store.path), b"hello\n")
    assert store.size(HELLO) == 6
    store.flush()
    pack(Path(store.path), b"hello\n", b"other")
    old.unlink()
    old.with_suffix(".idx").unlink()

    assert store.size(HELLO) == 6
    store.flush()
    for path in Path(store.path, "pack").iterdir():
        path.unlink()
    assert store.size(HELLO) is None


# Damage


def damaged(store: ObjectStore, data: bytes) -> None:
    loose(store, HELLO).parent.mkdir(exist_ok=True)
    loose(store, HELLO).write_bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not zlib at all",
        zlib.compress(b"blob 6\0hello\n")[:-8],
        zlib.compress(b"blob 6\0hellO\n"),
        zlib.compress(b"blob 8\0hello\n\0\0"),
        zlib.compress(b"blob six\0hello\n"),
        zlib.compress(b"blob -6\0hello\n"),
        zlib.compress(b"blob 99999999999999999999999999\0hello\n"),
        zlib.compress(b"blub 6\0hello\n"),
        zlib.compress(b"no header"),
        zlib.compress(b""),
    ],
)
def test_a_damaged_object_is_never_taken_for_its_content(data: bytes, store: ObjectStore) -> None:
    damaged(store, data)

    with pytest.raises(MissingObject):
        store.read(HELLO, b"blob")


def test_an_object_of_another_kind_is_not_what_was_asked_for(store: ObjectStore) -> None:
    store.add(b"blob", b"hello\n")
    store.flush()

    with pytest.raises(MissingObject, match="not a tree"):
        store.read(HELLO, b"tree")


def test_an_object_in_a_damaged_pack_is_an_error(store: ObjectStore) -> None:
    path = pack(Path(store.path), b"hello\n")
    data = bytearray(path.read_bytes())
    data[16] ^= 0xFF
    path.chmod(0o644)
    path.write_bytes(bytes(data))

    with pytest.raises(MissingObject):
        store.read(HELLO, b"blob")


# In memory only


def test_a_scratch_store_has_all_that_was_there_and_leaves_no_trace(store: ObjectStore) -> None:
    store.add(b"blob", b"hello\n")
    store.flush()
    scratch = store.scratch()
    with observed() as seen:
        made = scratch.add(b"blob", b"scratch")
        scratch.add(b"blob", b"hello\n")
        scratch.flush()

    assert seen == []
    assert scratch.read(made, b"blob") == b"scratch"
    assert scratch.read(HELLO, b"blob") == b"hello\n"
    assert (scratch.is_new(made), scratch.is_new(HELLO)) == (True, False)
    assert not store.has(made)
    assert not scratch.has(ObjectID(b"0" * 40))
