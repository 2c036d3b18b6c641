# SPDX-License-Identifier: MIT
"""What is staged goes into a checkpoint and comes back, with every flag and stage."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from byhand import NOWHERE, blob, worktree
from byhand import open_repository as opened
from hypothesis import given
from hypothesis import strategies as st

from ckpt.errors import Refused
from ckpt.git import index as staging
from ckpt.git.formats import ObjectID
from ckpt.git.index import (
    Index,
    IndexEntry,
    KnownFile,
    Staged,
    compose,
    read_index,
    stat_fields,
    write_index,
)
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.repository import Repository
from ckpt.git.trees import FOLDER, GITLINK, TreeEntry, lookup, walk, write_tree

OLD = (1, 2, 3, 4, 5, 6, 0, 8, 9, 10)


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with opened(worktree(tmp_path / "repo")) as repository:
        yield repository


@pytest.fixture
def objects(repo: Repository) -> ObjectStore:
    return repo.objects


def entry(objects: ObjectStore, path: bytes, data: bytes = b"1", **flags: Any) -> IndexEntry:
    return IndexEntry.of(path, objects.add(b"blob", data), 0o100644, **flags)


def index(*entries: IndexEntry, version: int = 2) -> Index:
    return Index(version, sorted(entries, key=lambda e: (e.path, e.stage)), {}, 20)


def there_and_back(objects: ObjectStore, before: Index) -> Index:
    return staging.read_state(objects, write_tree(objects, staging.write_state(objects, before)))


def put_index(repo: Repository, *entries: IndexEntry, **options: Any) -> None:
    Path(repo.index_path).write_bytes(write_index(entries, **options))


# Reading git's file


def test_without_an_index_nothing_is_staged(repo: Repository) -> None:
    found = staging.read_staged(repo)

    assert (found.index.entries, found.mtime_ns) == ([], None)
    assert staging.index_mtime(repo) is None


def test_the_index_is_read_with_its_time(repo: Repository, objects: ObjectStore) -> None:
    put_index(repo, entry(objects, b"a"), entry(objects, b"b"))
    os.utime(repo.index_path, ns=(5, 7))
    found = staging.read_staged(repo)

    assert [e.path for e in found.index.entries] == [b"a", b"b"]
    assert found.mtime_ns == staging.index_mtime(repo) == 7


def test_a_sparse_index_is_expanded_to_its_files(repo: Repository, objects: ObjectStore) -> None:
    """`a.txt` lies between the folder's name and what is in it: the order changes."""
    tree = write_tree(objects, {b"x": blob(objects, b"1"), b"deep/y": blob(objects, b"2")})
    folder = IndexEntry.of(b"a/", tree, FOLDER, skip_worktree=True)
    put_index(repo, folder, entry(objects, b"a.txt"), extensions={b"sdir": b""})
    found = staging.read_staged(repo).index

    assert [e.path for e in found.entries] == [b"a.txt", b"a/deep/y", b"a/x"]
    assert [e.skip_worktree for e in found.entries] == [False, True, True]
    assert found.entries[2].id == objects.hash(b"blob", b"1")
    assert not found.is_sparse


@pytest.mark.parametrize(
    ("mtime", "index_time", "expected"),
    [
        ((6, 999_999_999), 7_000_000_000, False),
        ((7, 0), 7_000_000_000, True),
        ((7, 1), 7_000_000_000, True),
        ((0, 0), None, True),
    ],
)
def test_an_entry_as_young_as_the_index_proves_nothing(
    mtime: tuple[int, int], index_time: int | None, expected: bool
) -> None:
    fields = (0, 0, *mtime, 0, 0, 0, 0, 0, 0)
    found = IndexEntry.of(b"a", NOWHERE, 0o100644, fields)

    assert Staged(index(), index_time).is_racy(found) is expected


# As part of a checkpoint


def test_a_staged_file_is_in_the_tree_that_git_would_write(objects: ObjectStore) -> None:
    state = staging.write_state(objects, index(entry(objects, b"a/b"), entry(objects, b"c")))

    assert list(walk(objects, state[b"index"].id)) == [
        (b"c", blob(objects, b"1")),
        (b"a/b", blob(objects, b"1")),
    ]


def test_every_flag_and_stage_comes_back(objects: ObjectStore) -> None:
    before = index(
        entry(objects, b"plain"),
        IndexEntry.of(b"run", objects.add(b"blob", b"2"), 0o100755),
        IndexEntry.of(b"link", objects.add(b"blob", b"3"), 0o120000),
        IndexEntry.of(b"sub", NOWHERE, GITLINK),
        entry(objects, b"kept", assume_valid=True),
        entry(objects, b"sparse", skip_worktree=True),
        IndexEntry.of(b"new", objects.hash(b"blob", b""), 0o100755, intent_to_add=True),
        entry(objects, b"conflict", b"base", stage=1),
        entry(objects, b"conflict", b"ours", stage=2),
        entry(objects, b"conflict", b"theirs", stage=3),
        entry(objects, b"added", b"ours", stage=2),
        version=4,
    )
    after = there_and_back(objects, before)

    assert staging.same(after, before)
    assert after.version == 4
    assert after.entries == before.entries


def test_an_intent_to_add_is_not_in_the_tree(objects: ObjectStore) -> None:
    state = staging.write_state(objects, index(entry(objects, b"new", intent_to_add=True)))

    assert list(walk(objects, state[b"index"].id)) == []


def test_without_conflicts_there_are_no_stages(objects: ObjectStore) -> None:
    assert set(staging.write_state(objects, index(entry(objects, b"a")))) == {
        b"index",
        b"index-flags.json",
    }


def test_stat_data_are_no_part_of_a_checkpoint(objects: ObjectStore) -> None:
    young = IndexEntry.of(b"a", objects.add(b"blob", b"1"), 0o100644, OLD)

    assert staging.write_state(objects, index(young)) == staging.write_state(
        objects, index(entry(objects, b"a"))
    )


names = st.binary(min_size=1, max_size=4).filter(lambda n: not set(n) & {0, 47} and n != b".git")
paths = st.lists(names.filter(lambda n: n not in (b".", b"..")), min_size=1, max_size=2)
flags = st.sampled_from(["assume_valid", "skip_worktree", "intent_to_add", None])


@given(st.dictionaries(paths.map(b"/".join), flags, max_size=6))
def test_paths_of_any_bytes_come_back(
    tmp_path_factory: pytest.TempPathFactory, wanted: dict[bytes, str | None]
) -> None:
    with opened(worktree(tmp_path_factory.mktemp("repo"))) as repo:
        objects = repo.objects.scratch()
        objects.add(b"blob", b"1")
        free = [p for p in wanted if not any(q.startswith(p + b"/") for q in wanted)]
        before = index(
            *(
                entry(objects, p, b"" if wanted[p] == "intent_to_add" else b"1", **{f: True})
                if (f := wanted[p]) is not None
                else entry(objects, p)
                for p in free
            )
        )

        assert there_and_back(objects, before).entries == before.entries


def test_a_state_tree_without_flags_has_none(objects: ObjectStore) -> None:
    tree = write_tree(objects, {b"a": blob(objects, b"1")})
    state = write_tree(objects, {b"index": TreeEntry(FOLDER, tree)})

    assert staging.read_state(objects, state).entries == [entry(objects, b"a")]


@pytest.mark.parametrize(
    "document", [[], 7, None, {"version": 1}, {"version": 5}, {"version": "2"}]
)
def test_flags_of_another_shape_are_refused(document: Any, objects: ObjectStore) -> None:
    flags = blob(objects, json.dumps(document).encode())
    state = write_tree(objects, {staging.FLAGS: flags})

    with pytest.raises(Refused, match="index flags of this checkpoint are damaged"):
        staging.read_state(objects, state)


@pytest.mark.parametrize(
    ("staged", "intended"), [("a", "a/x"), ("a/x", "a"), ("a/b/x", "a"), ("b", "a a/x")]
)
def test_nothing_is_staged_below_a_file(staged: str, intended: str, objects: ObjectStore) -> None:
    others = [entry(objects, name, intent_to_add=True) for name in intended.encode().split()]
    around = [entry(objects, name) for name in (b"a.b", b"a0")]  # sorted between, or after

    with pytest.raises(ValueError, match="both a file and a folder"):
        there_and_back(objects, index(entry(objects, staged.encode()), *others, *around))


def test_a_side_of_a_conflict_may_have_a_file_where_a_folder_is(objects: ObjectStore) -> None:
    before = index(
        entry(objects, b"a", stage=2),
        entry(objects, b"a/x"),
        entry(objects, b"a/y", b"", intent_to_add=True),
        entry(objects, b"a.b"),
    )

    assert staging.same(there_and_back(objects, before), before)


def test_an_index_that_names_a_missing_object_is_not_saved(objects: ObjectStore) -> None:
    with pytest.raises(MissingObject, match="'a' needs missing"):
        staging.write_state(objects, index(IndexEntry.of(b"a", NOWHERE, 0o100644)))


@pytest.mark.parametrize(
    "other",
    [
        {"path": b"b"},
        {"id": b"2" * 40},
        {"mode": 0o100755},
        {"stage": 1},
        {"assume_valid": True},
        {"skip_worktree": True},
        {"intent_to_add": True},
    ],
)
def test_indexes_differ_in_all_that_git_status_looks_at(other: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"path": b"a", "id": NOWHERE, "mode": 0o100644}

    assert not staging.same(index(IndexEntry.of(**plain)), index(IndexEntry.of(**plain | other)))


def test_indexes_with_other_stat_data_or_version_are_the_same() -> None:
    plain = IndexEntry.of(b"a", NOWHERE, 0o100644)
    young = IndexEntry.of(b"a", NOWHERE, 0o100644, OLD)

    assert staging.same(index(plain), index(young, version=4))


# Back into git's file


def composed(target: Index, present: Staged, known: KnownFile) -> list[IndexEntry]:
    return read_index(compose(target, present, known, "sha1")).entries


def unknown(path: bytes) -> None:
    return None


def test_a_file_whose_content_is_certain_brings_its_stat_data(
    tmp_path: Path, objects: ObjectStore
) -> None:
    (tmp_path / "a").write_bytes(b"1")
    status = (tmp_path / "a").stat()
    wanted = entry(objects, b"a")

    (found,) = composed(
        index(wanted), Staged(index(), 1), lambda path: (blob(objects, b"1"), status)
    )
    assert found.mtime_s == status.st_mtime_ns // 10**9
    assert found.size == 1
    assert found.stat == IndexEntry.of(b"a", b"", 0o100644, stat_fields(status)).stat


def test_a_file_of_another_content_brings_nothing(tmp_path: Path, objects: ObjectStore) -> None:
    status = tmp_path.stat()
    known = (blob(objects, b"other"), status)

    (found,) = composed(index(entry(objects, b"a")), Staged(index(), 1), lambda path: known)
    assert found.stat == entry(objects, b"a").stat


def test_an_entry_that_does_not_change_keeps_its_stat_data(objects: ObjectStore) -> None:
    before = IndexEntry.of(b"a", objects.add(b"blob", b"1"), 0o100644, OLD)
    present = Staged(index(before), 10**18)

    assert composed(index(entry(objects, b"a")), present, unknown) == [before]


def believed(objects: ObjectStore, before: Index, **paths: set[bytes]) -> Index:
    """The index of a state in which git is misled about some paths."""
    return staging.read_state(
        objects, write_tree(objects, staging.write_state(objects, before, **paths))
    )


def test_a_file_that_git_takes_for_changed_by_its_size_is_taken_for_it_again(
    tmp_path: Path, objects: ObjectStore
) -> None:
    (tmp_path / "a").write_bytes(b"1")
    known = (blob(objects, b"1"), (tmp_path / "a").stat())
    wanted = believed(objects, index(entry(objects, b"a")), stale={b"a"})

    assert staging.misleads(wanted)
    (found,) = composed(wanted, Staged(index(), 1), lambda path: known)
    assert found.size not in (0, 1)


def test_a_change_that_git_does_not_see_is_not_seen_again(
    tmp_path: Path, objects: ObjectStore
) -> None:
    (tmp_path / "a").write_bytes(b"other")
    known = (blob(objects, b"other"), (tmp_path / "a").stat())
    wanted = believed(objects, index(entry(objects, b"a")), unseen={b"a"})

    assert staging.unseen(wanted) == [b"a"]
    (found,) = composed(wanted, Staged(index(), 1), lambda path: known)
    assert (found.id, found.size) == (entry(objects, b"a").id, 5)
    (found,) = composed(wanted, Staged(index(), 1), unknown)
    assert found == entry(objects, b"a")


def test_doubtful_stat_data_are_not_kept(objects: ObjectStore) -> None:
    before = IndexEntry.of(b"a", objects.add(b"blob", b"1"), 0o100644, OLD)
    present, wanted = Staged(index(before), 10**18), index(entry(objects, b"a"))

    data = compose(wanted, present, unknown, "sha1", {b"a"})
    assert read_index(data).entries == wanted.entries


def test_racy_stat_data_are_not_kept(objects: ObjectStore) -> None:
    """A file written in the same tick as the index would look unchanged for ever."""
    before = IndexEntry.of(b"a", objects.add(b"blob", b"1"), 0o100644, OLD)
    present = Staged(index(before), 3 * 10**9 + 4)

    assert composed(index(entry(objects, b"a")), present, unknown) == [entry(objects, b"a")]


@pytest.mark.parametrize("change", [{"data": b"2"}, {"mode": True}])
def test_stat_data_of_another_content_are_not_kept(
    change: dict[str, Any], objects: ObjectStore
) -> None:
    made = objects.add(b"blob", change.get("data", b"1"))
    before = IndexEntry.of(b"a", made, 0o100755 if "mode" in change else 0o100644, OLD)
    present = Staged(index(before), 10**18)

    assert composed(index(entry(objects, b"a")), present, unknown) == [entry(objects, b"a")]


def test_conflicts_and_intents_have_no_stat_data(tmp_path: Path, objects: ObjectStore) -> None:
    sides = [entry(objects, b"a", side, stage=n) for n, side in enumerate((b"1", b"2"), 2)]
    new = IndexEntry.of(b"new", objects.hash(b"blob", b""), 0o100644, intent_to_add=True)
    present = Staged(index(*sides, new), 10**18)
    known = (blob(objects, b"1"), tmp_path.stat())

    found = composed(index(*sides, new), present, lambda path: known)
    assert found == [*sides, new]


def test_the_flags_of_the_target_are_written(objects: ObjectStore) -> None:
    target = index(entry(objects, b"a", skip_worktree=True, assume_valid=True))

    (found,) = composed(target, Staged(index(entry(objects, b"a")), 10**18), unknown)
    assert (found.skip_worktree, found.assume_valid) == (True, True)


def test_the_objects_of_a_state_are_found_by_name(objects: ObjectStore) -> None:
    state = write_tree(objects, staging.write_state(objects, index(entry(objects, b"a"))))
    found = lookup(objects, state, b"index/a")

    assert found == TreeEntry(0o100644, ObjectID(objects.hash(b"blob", b"1")))
