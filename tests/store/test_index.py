# SPDX-License-Identifier: MIT
"""The index as bytes: what is read, what is written, what is turned away.

Whether git agrees is asked in tests/with_git/test_index_against_git.py.
"""

from __future__ import annotations

import hashlib
import os
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpt.errors import CkptError, Refused
from ckpt.git.index import (
    CorruptIndex,
    Index,
    IndexEntry,
    StatFields,
    UnsupportedIndex,
    matches,
    read_index,
    stat_fields,
    write_index,
)

BLOB = b"ce013625030ba8dba906f756967f9e9ca394464a"
OTHER = b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"  # the empty blob
FIELDS = StatFields(1, 2, 3, 4, 5, 6, 0o100644, 7, 8, 9)


def raw_entry(path: bytes, word: int | None = None, extended: bytes = b"") -> bytes:
    """An entry of version 2 or 3, put together without the code under test."""
    word = len(path) if word is None else word
    entry = struct.pack(">10I", *FIELDS) + bytes.fromhex(BLOB.decode())
    entry += struct.pack(">H", word) + extended + path
    return entry + bytes(8 - len(entry) % 8)


def raw_index(*parts: bytes, version: int = 2, count: int = 0) -> bytes:
    body = b"DIRC" + struct.pack(">II", version, count) + b"".join(parts)
    return body + hashlib.sha1(body).digest()


def extension(signature: bytes, content: bytes) -> bytes:
    return signature + struct.pack(">I", len(content)) + content


def entry(path: bytes = b"file", **flags: bool | int) -> IndexEntry:
    return IndexEntry.of(path, BLOB, 0o100644, FIELDS, **flags)


def test_an_entry_has_all_its_fields() -> None:
    index = read_index(raw_index(raw_entry(b"dir/file"), count=1))

    assert index.version == 2
    [read] = index.entries
    assert (read.path, read.id, read.stage, read.mode) == (b"dir/file", BLOB, 0, 0o100644)
    assert (read.ctime_s, read.ctime_ns, read.mtime_s, read.mtime_ns) == (1, 2, 3, 4)
    assert (read.dev, read.ino, read.uid, read.gid, read.size) == (5, 6, 7, 8, 9)
    assert not (read.assume_valid or read.skip_worktree or read.intent_to_add)


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 4094, 4095, 4096, 70_000])
def test_a_path_of_any_length_is_read_and_written_as_git_does(length: int) -> None:
    path = b"p" * length
    raw = raw_index(raw_entry(path, min(length, 0xFFF)), raw_entry(b"z"), count=2)

    assert [e.path for e in read_index(raw).entries] == [path, b"z"]
    assert write_index([entry(path), entry(b"z")]) == raw


def test_flags_are_told_apart() -> None:
    flagged = [
        entry(b"a", assume_valid=True),
        entry(b"b", skip_worktree=True),
        entry(b"c", intent_to_add=True),
        entry(b"d", stage=2),
    ]
    index = read_index(write_index(flagged))

    assert index.version == 3
    assert [e.assume_valid for e in index.entries] == [True, False, False, False]
    assert [e.skip_worktree for e in index.entries] == [False, True, False, False]
    assert [e.intent_to_add for e in index.entries] == [False, False, True, False]
    assert [e.stage for e in index.entries] == [0, 0, 0, 2]


def test_version_2_stays_when_no_flag_needs_more() -> None:
    assert read_index(write_index([entry(assume_valid=True)])).version == 2


def test_version_4_shortens_paths_by_what_they_share() -> None:
    paths = [b"long/folder/name/one", b"long/folder/name/two", b"z"]
    entries = [entry(path) for path in paths]

    compressed = write_index(entries, version=4)

    assert read_index(compressed).entries == entries
    assert compressed.count(b"long/folder") == 1
    assert b"\x03two\x00" in compressed
    assert len(compressed) < len(write_index(entries))


@pytest.mark.parametrize("dropped", [127, 128, 129, 16_511, 16_512, 100_000])
def test_version_4_can_drop_any_number_of_bytes(dropped: int) -> None:
    entries = [entry(b"a" * dropped), entry(b"b")]

    assert read_index(write_index(entries, version=4)).entries == entries


def test_entries_are_written_in_git_s_order() -> None:
    entries = [
        entry(b"b"),
        entry(b"a/x"),
        entry(b"a", stage=3),
        entry(b"a", stage=1),
        entry(b"a.c"),
        entry(b"a\xff"),
    ]
    index = read_index(write_index(entries))

    keys = [(e.path, e.stage) for e in index.entries]
    assert keys == [(b"a", 1), (b"a", 3), (b"a.c", 0), (b"a/x", 0), (b"a\xff", 0), (b"b", 0)]


@pytest.mark.parametrize(
    "bad",
    [
        IndexEntry.of(b"a\0b", BLOB, 0o100644),
        IndexEntry.of(b"a", BLOB[:-2], 0o100644),
        entry(b"a")._replace(stat=b"short"),
    ],
)
def test_what_is_no_entry_is_not_written(bad: IndexEntry) -> None:
    with pytest.raises(ValueError, match="not an index entry"):
        write_index([bad])


@pytest.mark.parametrize(
    "entries", [[entry(b"")], [entry(), entry()], [entry(), entry(stage=1)], [entry(stage=1)] * 2]
)
def test_an_index_that_git_would_refuse_is_not_written(entries: list[IndexEntry]) -> None:
    with pytest.raises(CorruptIndex):
        write_index(entries)


def test_an_unknown_version_is_not_written() -> None:
    with pytest.raises(ValueError, match="index version 5"):
        write_index([], version=5)


def test_an_id_of_the_other_hash_is_not_written() -> None:
    with pytest.raises(ValueError, match="not an index entry"):
        write_index([entry()], hash_name="sha256")


def test_a_sha256_index_has_longer_ids_and_checksum() -> None:
    made = IndexEntry.of(b"file", b"ab" * 32, 0o100755)
    data = write_index([made], hash_name="sha256")

    assert read_index(data, hash_len=32, hash_name="sha256").entries == [made]
    assert data[-32:] == hashlib.sha256(data[:-32]).digest()


def test_extensions_are_kept_as_they_are() -> None:
    extensions = {b"REUC": b"raw\0bytes", b"UNTR": b""}
    data = write_index([entry()], extensions=extensions)

    assert read_index(data).extensions == extensions
    assert write_index([entry()], extensions=extensions.items()) == data


def test_extensions_that_hold_offsets_are_not_written() -> None:
    data = write_index([entry()], extensions={b"EOIE": b"1234", b"IEOT": b"5678"})

    assert write_index([entry()]) == data


def test_zeros_stand_for_a_checksum_that_was_not_computed() -> None:
    data = write_index([entry()])

    assert read_index(data[:-20] + bytes(20)).entries == [entry()]


def test_a_wrong_checksum_is_corrupt() -> None:
    data = write_index([entry()])

    with pytest.raises(CorruptIndex, match="bad index file checksum"):
        read_index(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "smaller than expected"),
        (raw_index()[:31], "smaller than expected"),
        (raw_index().replace(b"DIRC", b"CRID"), "bad index file signature 0x43524944"),
        (raw_index(version=1), "bad index version 1"),
        (raw_index(version=5), "bad index version 5"),
        (raw_index(count=1), "ends inside an entry"),
        (raw_index(raw_entry(b"a"), count=2), "ends inside an entry"),
        (raw_index(raw_entry(b"a"), count=2**32 - 1), "ends inside an entry"),
        (raw_index(raw_entry(b"abc", 2), count=1), "malformed name"),
        (raw_index(raw_entry(b"abc", 0xFFF), count=1), "malformed name"),
        (raw_index(raw_entry(b"a\0b", 3), count=1), "malformed name"),
        (raw_index(raw_entry(b"p" * 5000, 5), count=1), "malformed name"),
        (raw_index(raw_entry(b""), count=1), "without a path"),
        (
            raw_index(raw_entry(b"b"), raw_entry(b"a"), count=2),
            "unordered entries in index, at 'a'",
        ),
        (raw_index(raw_entry(b"a"), raw_entry(b"a"), count=2), "multiple stage entries"),
        (
            raw_index(raw_entry(b"a", 0x2001), raw_entry(b"a", 0x1001), count=2),
            "unordered stage entries for 'a'",
        ),
        (raw_index(raw_entry(b"a", 0x4001, b"\x10\0"), version=3, count=1), "entry format 0x1000"),
        (raw_index(extension(b"TREE", b"x") + b"???"), "ends inside an extension"),
        (raw_index(b"TREE" + struct.pack(">I", 99)), "ends inside an extension"),
    ],
)
def test_what_git_would_not_have_written_is_corrupt(data: bytes, message: str) -> None:
    with pytest.raises(CorruptIndex, match=message) as caught:
        read_index(data)

    assert isinstance(caught.value, CkptError)
    assert caught.value.hint


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("length", [41, 42, 43])
def test_an_entry_that_runs_into_the_checksum_is_corrupt(version: int, length: int) -> None:
    """The checksum being zeros, it could pass for the id and the flags."""
    data = raw_index(bytes(length), version=version, count=1)[:-20] + bytes(20)

    with pytest.raises(CorruptIndex):
        read_index(data)


def v4_entry(drop: bytes, rest: bytes, length: int) -> bytes:
    return raw_entry(b"")[:60] + struct.pack(">H", length) + drop + rest + b"\0"


@pytest.mark.parametrize(
    "entries",
    [
        [v4_entry(b"\x01", b"a", 1)],
        [v4_entry(b"\0", b"a", 1), v4_entry(b"\x02", b"b", 1)],
        [v4_entry(b"\0", b"a", 1), v4_entry(b"\xff\xff\xff\x7f", b"b", 1)],
        [v4_entry(b"\0", b"a", 1), v4_entry(b"\0", b"b", 1)],
    ],
)
def test_a_compressed_path_that_cannot_be_is_corrupt(entries: list[bytes]) -> None:
    with pytest.raises(CorruptIndex, match="malformed name"):
        read_index(raw_index(*entries, version=4, count=len(entries)))


def test_compressed_paths_that_unfold_without_an_end_are_corrupt() -> None:
    """Each has all of the one before, and a hundred bytes more."""
    count = 5_000
    lengths = (min(100 * n, 0xFFF) for n in range(1, count + 1))
    entries = [v4_entry(b"\0", b"a" * 100, length) for length in lengths]

    with pytest.raises(CorruptIndex, match="without an end"):
        read_index(raw_index(*entries, version=4, count=count))


def test_long_compressed_paths_have_an_end() -> None:
    paths = [b"a" * 100_000 + b"%03d" % n for n in range(100)]
    entries = [IndexEntry.of(path, b"1" * 40, 0o100644) for path in paths]

    assert [e.path for e in read_index(write_index(entries, version=4)).entries] == paths


@pytest.mark.parametrize("signature", [b"abcd", b"zzzz", b"\0\0\0\0"])
def test_an_unknown_mandatory_extension_is_refused_by_name(signature: bytes) -> None:
    with pytest.raises(UnsupportedIndex) as caught:
        read_index(raw_index(extension(signature, b"content")))

    assert repr(signature.decode()) in caught.value.message
    assert isinstance(caught.value, Refused)
    assert (caught.value.code, caught.value.exit_code) == ("refused", 4)


def test_an_unknown_optional_extension_is_kept() -> None:
    assert read_index(raw_index(extension(b"WHAT", b"x"))).extensions == {b"WHAT": b"x"}


def test_a_sparse_index_is_told_by_extension_or_by_folder_entries() -> None:
    folder = IndexEntry.of(b"folder/", BLOB, 0o040000, skip_worktree=True)

    assert read_index(raw_index(extension(b"sdir", b""))).is_sparse
    assert read_index(write_index([entry(b"a"), folder])).is_sparse
    assert not read_index(write_index([entry(b"a")])).is_sparse


def tree_index(content: bytes) -> Index:
    return read_index(raw_index(extension(b"TREE", content)))


TREE = b"".join(
    [
        b"\x00-1 2\n",  # the top changed: no id
        b"a\x003 1\n" + b"\xaa" * 20,
        b"b\x001 0\n" + b"\xbb" * 20,
        b"c\x00-1 1\n",
        b"d\x002 0\n" + b"\n" * 20,
    ]
)


def test_the_cache_tree_gives_ids_of_unchanged_folders_only() -> None:
    assert tree_index(TREE).cache_tree == {
        b"a": (3, 1, b"aa" * 20),
        b"a/b": (1, 0, b"bb" * 20),
        b"c/d": (2, 0, b"0a" * 20),
    }


@pytest.mark.parametrize("content", [TREE[:-1], TREE + b"x", b"\x00x 1\n", b"no end", b"\x001\n"])
def test_a_damaged_cache_tree_counts_as_none(content: bytes) -> None:
    assert tree_index(content).cache_tree == {}


def test_without_the_extension_the_cache_tree_is_empty() -> None:
    assert read_index(raw_index()).cache_tree == {}


def test_a_cache_tree_that_unfolds_without_an_end_counts_as_none() -> None:
    name, node = b"d" * 1_000 + b"\0", b"1 1\n" + bytes(20)
    leaf = b"1 0\n" + bytes(20)

    # Not compared with nothing: where it is not so, that would be shown, folder by folder.
    assert len(tree_index((name + node) * 600 + name + leaf).cache_tree) == 0


def test_a_cache_tree_nested_deeper_than_the_stack_is_read() -> None:
    content = b"".join(b"d\x00-1 1\n" for _ in range(3000)) + b"e\x001 0\n" + bytes(20)

    [(folder, _)] = tree_index(content.removeprefix(b"d")).cache_tree.items()
    assert folder == b"d/" * 2999 + b"e"


def stat_result(
    mode: int, size: int = 9, *, mtime_ns: int = 3_000_000_004, ctime_ns: int = 1_000_000_002
) -> os.stat_result:
    """A stat of a file with the numbers of FIELDS where not said otherwise."""
    times = [5, 3, 1, 5.0, 3.0, 1.0, 5_000_000_000, mtime_ns, ctime_ns]
    return os.stat_result([mode, 6, 5, 1, 7, 8, size, *times])


def test_stat_data_are_those_of_the_file() -> None:
    assert stat_fields(stat_result(0o100600)) == FIELDS


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (0o100600, 0o100644),
        (0o100666, 0o100644),
        (0o100711, 0o100755),
        (0o100655, 0o100644),  # git looks at the owner's bit alone
        (0o120777, 0o120000),
        (0o040755, 0o160000),
        (0o010644, 0),
    ],
)
def test_the_mode_becomes_one_of_git_s(mode: int, expected: int) -> None:
    assert stat_fields(stat_result(mode)).mode == expected


def test_stat_data_too_large_for_the_index_are_cut_to_32_bits() -> None:
    huge = stat_result(0o100644, 2**32 + 9, mtime_ns=-1, ctime_ns=2**32 * 10**9 + 7)

    fields = stat_fields(huge)

    assert (fields.mtime_s, fields.mtime_ns, fields.size) == (2**32 - 1, 999_999_999, 9)
    assert (fields.ctime_s, fields.ctime_ns) == (0, 7)
    assert matches(IndexEntry.of(b"file", BLOB, 0o100644, fields), huge)


@pytest.mark.parametrize(
    "field", ["ctime_s", "ctime_ns", "mtime_s", "mtime_ns", "ino", "mode", "uid", "gid", "size"]
)
def test_a_file_matches_only_while_every_number_is_equal(field: str) -> None:
    file = stat_result(0o100644)
    other = FIELDS._replace(**{field: getattr(FIELDS, field) ^ 0o100})

    assert matches(IndexEntry.of(b"file", BLOB, FIELDS.mode, FIELDS), file)
    assert not matches(IndexEntry.of(b"file", BLOB, other.mode, other), file)


def test_the_device_number_is_not_compared() -> None:
    moved = FIELDS._replace(dev=99)

    assert matches(IndexEntry.of(b"file", BLOB, 0o100644, moved), stat_result(0o100644))


def test_ctime_counts_only_when_trusted() -> None:
    copied = IndexEntry.of(b"file", BLOB, 0o100644, FIELDS._replace(ctime_s=77))

    assert matches(copied, stat_result(0o100644), trust_ctime=False)
    assert not matches(copied, stat_result(0o100644))


def test_the_exec_bit_counts_only_with_file_mode() -> None:
    assert matches(entry(), stat_result(0o100755), file_mode=False)
    assert not matches(entry(), stat_result(0o100755))
    assert not matches(entry(), stat_result(0o120777), file_mode=False)


def test_a_symlink_has_no_exec_bit_to_compare() -> None:
    assert matches(IndexEntry.of(b"link", BLOB, 0o120000, FIELDS), stat_result(0o120777))


def test_nothing_matches_where_the_id_is_not_the_file_s() -> None:
    gitlink = IndexEntry.of(b"sub", BLOB, 0o160000, FIELDS)

    assert not matches(entry(intent_to_add=True), stat_result(0o100644))
    assert not matches(gitlink, stat_result(0o040755))


def test_an_entry_that_git_marked_as_racy_by_size_0_does_not_match() -> None:
    empty = FIELDS._replace(size=0)

    assert not matches(IndexEntry.of(b"f", BLOB, 0o100644, empty), stat_result(0o100644, 0))
    assert matches(IndexEntry.of(b"f", OTHER, 0o100644, empty), stat_result(0o100644, 0))


words = st.integers(0, 2**32 - 1)
paths = st.one_of(
    st.binary(min_size=1, max_size=20),
    st.text("ab/", min_size=1, max_size=8).map(str.encode),
    st.builds(lambda n: b"n" * n, st.integers(4090, 4100)),
).filter(lambda path: b"\0" not in path)


@st.composite
def index_entries(draw: st.DrawFn, hash_len: int = 20) -> IndexEntry:
    return IndexEntry.of(
        draw(paths),
        draw(st.binary(min_size=hash_len, max_size=hash_len)).hex().encode(),
        draw(st.sampled_from([0o100644, 0o100755, 0o120000, 0o160000])),
        draw(st.tuples(*[words] * 10)),
        stage=draw(st.integers(0, 3)),
        assume_valid=draw(st.booleans()),
        skip_worktree=draw(st.booleans()),
        intent_to_add=draw(st.booleans()),
    )


def unique(entries: list[IndexEntry]) -> list[IndexEntry]:
    """At most one entry a path and stage; stage 0 excludes the others."""
    staged = {(e.path, e.stage): e for e in entries}
    return [e for (path, stage), e in staged.items() if not stage or (path, 0) not in staged]


entry_lists = st.lists(index_entries(), max_size=8).map(unique)
extension_dicts = st.dictionaries(
    st.sampled_from([b"TREE", b"REUC", b"sdir", b"FSMN"]), st.binary(max_size=30)
)


@settings(max_examples=80, deadline=None)
@given(entry_lists, extension_dicts, st.sampled_from([2, 3, 4]))
def test_what_is_written_is_read_again(
    entries: list[IndexEntry], extensions: dict[bytes, bytes], version: int
) -> None:
    index = read_index(write_index(entries, version=version, extensions=extensions))

    assert index.entries == sorted(entries, key=lambda e: (e.path, e.stage))
    assert index.extensions == extensions


@settings(max_examples=150, deadline=None)
@given(entry_lists, extension_dicts, st.sampled_from([2, 3, 4]), st.data())
def test_damaged_bytes_raise_nothing_but_corrupt_index(
    entries: list[IndexEntry], extensions: dict[bytes, bytes], version: int, data: st.DataObject
) -> None:
    """The checksum is left out, or almost no damage would get past it."""
    damaged = bytearray(write_index(entries, version=version, extensions=extensions)[:-20])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))

    try:
        index = read_index(bytes(damaged) + bytes(20))
    except CorruptIndex:
        return
    assert isinstance(index.cache_tree, dict)
    assert isinstance(index.is_sparse, bool)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([2, 3, 4]), st.integers(0, 3), st.binary(max_size=200))
def test_random_bytes_after_a_header_raise_nothing_but_corrupt_index(
    version: int, count: int, rest: bytes
) -> None:
    data = b"DIRC" + struct.pack(">II", version, count) + rest + bytes(20)

    try:
        read_index(data)
    except CorruptIndex:
        return


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=120))
def test_any_bytes_may_stand_in_the_cache_tree(content: bytes) -> None:
    assert isinstance(tree_index(content).cache_tree, dict)
