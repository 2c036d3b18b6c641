# SPDX-License-Identifier: MIT
"""Packs as no git writes them: never a crash, an endless loop, or a wrong content."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Callable
from contextlib import closing
from hashlib import sha1
from pathlib import Path

import pytest
from byhand import files_below, object_store, pack
from hypothesis import given
from hypothesis import strategies as st

from ckpt.git import packs
from ckpt.git.formats import ObjectID
from ckpt.git.loose import DamagedObject
from ckpt.git.objects import MissingObject, ObjectStore, object_folders
from ckpt.git.pack_writer import _index, entry_header
from ckpt.git.packs import apply_delta

COMMIT, TREE, BLOB, TAG, OFS_DELTA, REF_DELTA = 1, 2, 3, 4, 6, 7
BASE, MADE = b"base" * 100, b"base" * 50 + b"!"


def blob_id(data: bytes) -> ObjectID:
    return ObjectID(sha1(b"blob %d\0" % len(data) + data).hexdigest().encode())


def raw(object_id: bytes) -> bytes:
    return bytes.fromhex(object_id.decode())


def entry(kind: int, data: bytes, base: bytes = b"", size: int | None = None) -> bytes:
    return entry_header(kind, len(data) if size is None else size) + base + zlib.compress(data)


def number(value: int) -> bytes:
    """A size as deltas have it."""
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def delta(
    base: int = len(BASE), made: int = len(MADE), instructions: bytes = b"\x90\xc8\x01!"
) -> bytes:
    """By default, 200 bytes from the beginning of the base and an exclamation mark."""
    return number(base) + number(made) + instructions


def write_pack(store: ObjectStore, *entries: tuple[bytes, bytes], name: str = "pack-1") -> Path:
    """A pack of entries with the ids that they are said to have."""
    data, offsets, checksums = b"PACK\0\0\0\2" + len(entries).to_bytes(4, "big"), {}, b""
    for object_id, body in entries:
        offsets[object_id] = len(data)
        checksums += zlib.crc32(body).to_bytes(4, "big")
        data += body
    data += sha1(data).digest()
    index = _index(offsets, checksums, data[-20:])
    path = Path(store.path, "pack", name + ".pack")
    path.write_bytes(data)
    path.with_suffix(".idx").write_bytes(index + sha1(index).digest())
    return path


def test_a_pack_by_hand_is_read(store: ObjectStore) -> None:
    base = entry(BLOB, BASE)
    back = entry(OFS_DELTA, delta(), base=bytes([len(base)]))
    assert len(base) < 0x80
    write_pack(store, (blob_id(BASE), base), (blob_id(MADE), back))

    assert store.read(blob_id(MADE), b"blob") == MADE
    assert (store.size(blob_id(MADE)), store.kind(blob_id(MADE))) == (len(MADE), b"blob")


@pytest.mark.parametrize("where", ["same pack", "another pack", "loose", "alternate"])
def test_a_base_is_found_by_its_id_wherever_it_is(where: str, store: ObjectStore) -> None:
    made = (blob_id(MADE), entry(REF_DELTA, delta(), base=raw(blob_id(BASE))))
    base = (blob_id(BASE), entry(BLOB, BASE))
    if where == "same pack":
        write_pack(store, made, base)
    else:
        write_pack(store, made)
    if where == "another pack":
        write_pack(store, base, name="pack-2")
    if where in ("loose", "alternate"):
        lender = Path(store.path).parent / "lender"
        folder = lender if where == "alternate" else Path(store.path)
        with closing(object_store(folder)) as other:
            other.add(b"blob", BASE)
            other.flush()
    if where == "alternate":
        Path(store.path, "info").mkdir()
        Path(store.path, "info/alternates").write_text("../lender\n")

    assert store.read(blob_id(MADE), b"blob") == MADE
    assert store.sizes([blob_id(MADE)]) == {blob_id(MADE): len(MADE)}
    assert store.kind(blob_id(MADE)) == b"blob"


def test_a_base_that_is_nowhere_is_an_error(store: ObjectStore) -> None:
    write_pack(store, (blob_id(MADE), entry(REF_DELTA, delta(), base=raw(blob_id(BASE)))))

    with pytest.raises(MissingObject):
        store.read(blob_id(MADE), b"blob")


@pytest.mark.parametrize("length", [1, 2, 3, 50])
def test_deltas_that_lead_round_in_a_circle_end(length: int, store: ObjectStore) -> None:
    names = [blob_id(b"%d" % n) for n in range(length)]
    rows = [
        (name, entry(REF_DELTA, delta(), base=raw(names[(n + 1) % length])))
        for n, name in enumerate(names)
    ]
    write_pack(store, *rows)

    for name in names:
        with pytest.raises(MissingObject):
            store.read(name, b"blob")
        assert store.kind(name) is None
        with pytest.raises(MissingObject):
            store.check(name, b"blob")


@pytest.mark.parametrize(("length", "can_be_read"), [(4000, True), (5000, False)])
def test_a_very_long_chain_is_followed_as_far_as_git_makes_one(
    length: int, can_be_read: bool, store: ObjectStore
) -> None:
    same = delta(4, 4, b"\x90\x04")
    rows = [(blob_id(b"base"), entry(BLOB, b"base"))]
    for n in range(length):
        size = len(rows[-1][1])
        rows.append((blob_id(b"%d" % n), entry(OFS_DELTA, same, base=bytes([size]))))
    write_pack(store, *rows)

    assert (store.kind(rows[-1][0]) == b"blob") == can_be_read


@pytest.mark.parametrize(
    "body",
    [
        entry(BLOB, MADE, size=5),
        entry(BLOB, MADE, size=1 << 40),
        entry(BLOB, bytes(50_000_000), size=10),
        entry(BLOB, MADE)[:-3],
        entry(BLOB, MADE)[:1],
        entry(0, MADE),
        entry(5, MADE),
        entry(OFS_DELTA, delta(), base=b"\0"),
        entry(OFS_DELTA, delta(), base=b"\x7f"),
        entry(OFS_DELTA, delta(), base=b"\xff" * 30 + b"\x01"),
        entry(OFS_DELTA, delta(), base=b"\xff" * 600),
        b"\xb0" + b"\xff" * 600,
        b"",
    ],
)
def test_an_entry_that_lies_is_an_error(body: bytes, store: ObjectStore) -> None:
    write_pack(store, (blob_id(MADE), body))

    with pytest.raises(MissingObject):
        store.read(blob_id(MADE), b"blob")
    with pytest.raises(MissingObject):
        store.check(blob_id(MADE), b"blob")
    store.kind(blob_id(MADE))
    store.size(blob_id(MADE))


@pytest.mark.parametrize(
    "wrong",
    [
        delta(base=len(BASE) - 1),
        delta(made=len(MADE) - 1),
        delta(made=len(MADE) + 1),
        delta(made=1 << 50),
        delta(instructions=b"\x00"),
        delta(instructions=b"\x90"),
        delta(instructions=b"\x05ab"),
        delta(instructions=b"\x91\xff\xc8\x01!"),
        delta(instructions=b"\xff" * 8 + b"\x01!"),
        delta(instructions=b"\x80" * 100_000),
        b"",
        b"\xff" * 20,
    ],
)
def test_a_delta_that_lies_is_an_error(wrong: bytes, store: ObjectStore) -> None:
    with pytest.raises(DamagedObject):
        apply_delta(BASE, wrong)
    write_pack(
        store,
        (blob_id(BASE), entry(BLOB, BASE)),
        (blob_id(MADE), entry(REF_DELTA, wrong, base=raw(blob_id(BASE)))),
    )
    with pytest.raises(MissingObject):
        store.read(blob_id(MADE), b"blob")
    assert store.read(blob_id(BASE), b"blob") == BASE


@pytest.mark.parametrize(("limit", "most"), [("LARGEST_WHOLE", 9_999), ("_MOST_MADE", 19_999)])
def test_deltas_that_make_more_than_memory_holds_are_an_error(
    limit: str, most: int, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of sixteen million bytes takes a delta of four."""
    base = BASE[:200]
    again = delta(10_000, 10_000, b"\xb0\x10\x27")
    tree = sha1(b"tree 10000\0" + base * 50).hexdigest().encode()
    write_pack(
        store,
        (b"1" * 40, entry(TREE, base)),
        (b"2" * 40, entry(REF_DELTA, delta(200, 10_000, b"\x90\xc8" * 50), base=raw(b"1" * 40))),
        (ObjectID(tree), entry(REF_DELTA, again, base=raw(b"2" * 40))),
    )
    with monkeypatch.context() as less, pytest.raises(MissingObject):
        less.setattr(f"ckpt.git.packs.{limit}", most)
        less.setattr(packs, "_CACHE_SIZE", 0)  # what is large is not kept
        store.read(ObjectID(tree), b"tree")

    assert store.read(ObjectID(tree), b"tree") == base * 50


def test_another_copy_stands_in_for_a_damaged_one(store: ObjectStore) -> None:
    for name in ("pack-1", "pack-2", "pack-3"):
        body = entry(BLOB, MADE if name == "pack-2" else b"something else")
        write_pack(store, (blob_id(MADE), body), name=name)

    assert store.read(blob_id(MADE), b"blob") == MADE


def test_a_loose_copy_stands_in_for_a_damaged_one_in_a_pack(store: ObjectStore) -> None:
    store.add(b"blob", MADE)
    store.flush()
    write_pack(store, (blob_id(MADE), entry(BLOB, MADE)[:-3]))

    assert store.read(blob_id(MADE), b"blob") == MADE


# Indexes


def damage(path: Path, change: Callable[[bytearray], object]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.chmod(0o644)
    path.write_bytes(data)


@given(
    suffix=st.sampled_from([".pack", ".idx"]),
    changes=st.lists(st.tuples(st.integers(0, 1 << 14), st.integers(1, 255)), max_size=4),
    cut=st.none() | st.integers(0, 1 << 14),
    deltify=st.booleans(),
)
def test_what_is_read_from_a_damaged_pack_is_right_or_missing(
    suffix: str, changes: list[tuple[int, int]], cut: int | None, deltify: bool
) -> None:
    contents = [BASE * 3, BASE * 3 + MADE, b"", b"x", bytes(range(256)) * 3]
    with tempfile.TemporaryDirectory() as folder:
        path = pack(Path(folder), *contents, deltify=deltify).with_suffix(suffix)

        def change(data: bytearray) -> None:
            for place, bits in changes:
                data[place % len(data)] ^= bits
            if cut is not None:
                del data[cut % len(data) :]

        damage(path, change)
        with closing(object_store(Path(folder))) as store:
            names = [blob_id(data) for data in contents]
            for name, data in zip(names, contents, strict=True):
                store.size(name)
                store.kind(name)
                store.has(name)
                store.beginning_with(name[:3])
                try:
                    assert store.read(name, b"blob") == data
                except MissingObject:
                    assert changes or cut is not None
            store.sizes(names)
            store.missing(names)


@pytest.mark.parametrize("content", [b"", b"\xfftOc", b"\xfftOc\0\0\0\2" + bytes(500), b"x" * 5000])
def test_an_index_that_is_none_hides_no_other(content: bytes, store: ObjectStore) -> None:
    path = write_pack(store, (blob_id(BASE), entry(BLOB, BASE)))
    path.with_suffix(".idx").write_bytes(content)
    write_pack(store, (blob_id(MADE), entry(BLOB, MADE)), name="pack-2")

    assert store.read(blob_id(MADE), b"blob") == MADE
    assert not store.has(blob_id(BASE))
    assert store.missing([blob_id(MADE), blob_id(BASE)]) == {blob_id(BASE)}


@pytest.mark.parametrize("content", [b"", b"MIDX", b"MIDX\x01\x01\x04\0\0\0\0\x01" + bytes(200)])
def test_a_damaged_multi_pack_index_is_not_used(content: bytes, store: ObjectStore) -> None:
    path = write_pack(store, (blob_id(BASE), entry(BLOB, BASE)))
    path.with_name("multi-pack-index").write_bytes(content)

    assert store.read(blob_id(BASE), b"blob") == BASE


# Packs that come and go


def remove(path: Path) -> None:
    path.unlink()
    path.with_suffix(".idx").unlink()


@pytest.mark.parametrize("ask", ["read", "size", "sizes", "kind", "check"])
def test_an_object_is_found_where_a_repack_put_it(ask: str, store: ObjectStore) -> None:
    answers = {
        "read": lambda: store.read(blob_id(BASE), b"blob") == BASE,
        "size": lambda: store.size(blob_id(BASE)) == len(BASE),
        "sizes": lambda: store.sizes([blob_id(BASE)]) == {blob_id(BASE): len(BASE)},
        "kind": lambda: store.kind(blob_id(BASE)) == b"blob",
        "check": lambda: store.check(blob_id(BASE), b"blob") is None,
    }
    old = write_pack(store, (blob_id(BASE), entry(BLOB, BASE)))
    assert store.has(blob_id(BASE))
    write_pack(
        store,
        (blob_id(MADE), entry(BLOB, MADE)),
        (blob_id(BASE), entry(BLOB, BASE)),
        name="pack-2",
    )
    remove(old)
    assert answers[ask]()
    remove(old.with_name("pack-2.pack"))
    assert store.missing([blob_id(BASE)]) == {blob_id(BASE)}


def test_a_pack_that_was_replaced_under_its_name_is_read_anew(store: ObjectStore) -> None:
    path = write_pack(store, (blob_id(BASE), entry(BLOB, BASE)))
    assert store.read(blob_id(BASE), b"blob") == BASE
    remove(path)
    write_pack(store, (blob_id(MADE), entry(BLOB, MADE)))
    store.flush()

    assert store.read(blob_id(MADE), b"blob") == MADE
    assert not store.has(blob_id(BASE))


def test_few_packs_are_open_at_a_time(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "_MOST_OPEN", 3)
    contents = [b"%d" % n for n in range(20)]
    for n, data in enumerate(contents):
        write_pack(store, (blob_id(data), entry(BLOB, data)), name=f"pack-{n}")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(2):
        assert [store.read(blob_id(data), b"blob") for data in contents] == contents
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    assert after - before <= 3


def test_what_deltas_are_based_on_is_kept_up_to_a_bound(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "_CACHE_SIZE", 5000)
    contents = [bytes(range(n, 200)) * 5 for n in range(40)]
    pack(Path(store.path), *contents, deltify=True)
    for _ in range(2):
        assert [store.read(blob_id(data), b"blob") for data in contents] == contents
        listed = store._copies.packs
        assert sum(len(data) for _, data in listed._bases.values()) == listed._bases_size <= 5000


# Alternates


def test_alternates_are_followed_as_far_as_git_follows_them(tmp_path: Path) -> None:
    for n in range(10):
        (tmp_path / str(n) / "info").mkdir(parents=True)
        (tmp_path / str(n) / "info/alternates").write_text(f"# next\n\n../{n + 1}\n")

    found = object_folders(str(tmp_path / "0"))
    assert [os.path.basename(folder) for folder in found] == [str(n) for n in range(7)]


def test_a_folder_is_looked_into_once(tmp_path: Path) -> None:
    (tmp_path / "a/info").mkdir(parents=True)
    (tmp_path / "b/info").mkdir(parents=True)
    (tmp_path / "a/info/alternates").write_text(f"{tmp_path}/b\n../b\n../a\n/nowhere\n")
    (tmp_path / "b/info/alternates").write_text("../a\n")

    more = [str(tmp_path / "b"), str(tmp_path / "c")]
    assert object_folders(str(tmp_path / "a"), more) == [str(tmp_path / "a"), f"{tmp_path}/b"]
    assert files_below(tmp_path)


def test_packs_are_listed_again_for_a_missing_object_only_if_there_may_be_others(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pack(store, (blob_id(BASE), entry(BLOB, BASE)))
    os.utime(Path(store.path, "pack"), (1, 1))
    assert not store.has(blob_id(MADE))
    looks: list[object] = []
    look = packs.PackList.look
    monkeypatch.setattr(
        packs.PackList, "look", lambda self, folders: looks.append(folders) or look(self, folders)
    )
    assert not store.has(blob_id(MADE))
    assert store.size(blob_id(MADE)) is None
    assert looks == []
    write_pack(store, (blob_id(MADE), entry(BLOB, MADE)), name="pack-2")
    assert store.has(blob_id(MADE))
    assert len(looks) == 1
