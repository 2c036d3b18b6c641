# SPDX-License-Identifier: MIT
"""A checkpoint comes back from its commit as it went in, and only if ckpt wrote it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from byhand import ID, MOMENT, NOWHERE, draft, object_store
from hypothesis import given
from hypothesis import strategies as st

from ckpt import ids
from ckpt.errors import CkptError, Refused, UsageError
from ckpt.git import record
from ckpt.git.objects import MissingObject, ObjectID, ObjectStore
from ckpt.git.trees import write_tree
from ckpt.models import Checkpoint, Kind, Scope, Stats

HEAD = ObjectID(b"2" * 40)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    opened = object_store(tmp_path_factory.mktemp("objects"))
    yield opened
    opened.close()


def written(
    store: ObjectStore, message: str, parents: tuple[ObjectID, ...] = (NOWHERE,)
) -> ObjectID:
    return record.write_commit(store, write_tree(store, {}), parents, message, MOMENT)


def read(store: ObjectStore, commit: ObjectID) -> Checkpoint:
    return record.read_checkpoint(store, ID, commit, frozenset())._replace(foreign=False)


def there_and_back(store: ObjectStore, checkpoint: Checkpoint) -> Checkpoint:
    head = () if checkpoint.head_commit is None else (HEAD,)
    commit = written(store, record.compose_message(checkpoint), (*head, NOWHERE))
    return read(store, commit)


def same(first: Checkpoint, second: Checkpoint) -> bool:
    names = {*Checkpoint._fields} - {"commit", "tree"}
    return all(getattr(first, name) == getattr(second, name) for name in names)


def test_a_checkpoint_with_everything_comes_back(store: ObjectStore) -> None:
    full = draft(
        name="before the refactor",
        description="Why.\n\nAnd how.",
        kind=Kind.FEATURE,
        trigger="cli",
        scope=Scope.STATE,
        worktree="worktrees/other",
        session="s 1",
        pinned=True,
        partial=True,
        during_rollback=True,
        head_commit=HEAD.decode(),
        branch="topic",
        stats=Stats(3, 20, 100),
    )

    assert same(there_and_back(store, full), full)


def test_a_checkpoint_with_nothing_optional_comes_back(store: ObjectStore) -> None:
    bare = draft(branch=None)

    assert same(there_and_back(store, bare), bare)


def accepted(check: Any) -> Any:
    def fits(text: str) -> bool:
        try:
            return bool(check(text)) and check(text) == text
        except UsageError:
            return False

    return st.text(max_size=40).filter(fits)


any_bytes = st.binary(min_size=1, max_size=20).map(os.fsdecode)
any_text = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), any_bytes)
lines = st.lists(
    st.sampled_from(["", "text", "Ckpt-Kind: safety", "Ckpt-Format: 9", "Ckpt-State: x", "  x"]),
    min_size=1,
).map("\n".join)
descriptions = st.one_of(accepted(ids.check_description), lines.map(ids.check_description))


@given(
    name=st.none() | accepted(ids.check_name),
    description=st.none() | descriptions,
    trigger=st.none() | any_text,
    session=st.none() | any_text,
    branch=st.none() | any_text,
    worktree=any_text,
)
def test_any_text_comes_back(store: ObjectStore, **texts: str | None) -> None:
    checkpoint = draft(**texts)

    assert same(there_and_back(store.scratch(), checkpoint), checkpoint)


@given(st.datetimes(datetime(1980, 1, 1), datetime(2200, 1, 1)), st.integers(-14, 14))
def test_any_moment_comes_back(store: ObjectStore, moment: datetime, hours: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(hours=hours)))
    found = there_and_back(store.scratch(), draft(timestamp=aware))

    assert found.timestamp == aware


def test_the_message_reads_like_one_of_git(store: ObjectStore) -> None:
    checkpoint = draft(
        name="before", description="Why.", session="a b", head_commit=HEAD.decode(), pinned=True
    )

    assert record.compose_message(checkpoint) == (
        "before\n\nWhy.\n\n"
        "Ckpt-Format: 1\n"
        f"Ckpt-Id: {ID}\n"
        "Ckpt-Kind: manual\n"
        "Ckpt-Scope: full\n"
        "Ckpt-Timestamp: 2026-11-15T23:34:12.123456+00:00\n"
        "Ckpt-Worktree: main\n"
        f"Ckpt-Head: {HEAD.decode()}\n"
        "Ckpt-Branch: main\n"
        "Ckpt-Session: a b\n"
        "Ckpt-Stats: 0 0 0\n"
        "Ckpt-Pinned: yes\n"
        f"Ckpt-State: {NOWHERE.decode()}\n"
    )


def test_without_a_name_the_subject_is_the_id() -> None:
    assert record.compose_message(draft()).startswith(f"{ID}\n\nCkpt-Format: 1\n")


def test_a_trailer_is_one_line_whatever_is_in_it() -> None:
    message = record.compose_message(draft(session="a\nCkpt-Pinned: yes\r\0%41\x7f\udcff"))

    assert "Ckpt-Session: a%0ACkpt-Pinned: yes%0D%00%2541%7F%FF\n" in message
    assert "\nCkpt-Pinned" not in message


def test_a_percent_sign_that_we_did_not_write_stays(store: ObjectStore) -> None:
    message = record.compose_message(draft(session="x")).replace("Session: x", "Session: 100%")

    assert read(store, written(store, message)).session == "100%"


def test_a_commit_is_unsigned_and_of_a_fixed_identity(store: ObjectStore) -> None:
    tree = write_tree(store, {})
    made = record.write_commit(store, tree, [HEAD, NOWHERE], "text\n", MOMENT)

    assert store.read(made, b"commit") == (
        b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
        b"parent 2222222222222222222222222222222222222222\n"
        b"parent 1111111111111111111111111111111111111111\n"
        b"author ckpt <ckpt@localhost> 1794785652 +0000\n"
        b"committer ckpt <ckpt@localhost> 1794785652 +0000\n"
        b"\n"
        b"text\n"
    )


def test_a_commit_of_anyone_can_be_read(store: ObjectStore) -> None:
    signed = (
        b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
        b"parent " + HEAD + b"\n"
        b"author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\nencoding latin-1\n"
        b"gpgsig -----BEGIN\n parent 3333\n \n tree 4444\n -----END\n"
        b"\ncaf\xe9\n\nparent x\n"
    )
    found = record.read_commit(store, store.add(b"commit", signed))

    assert found.tree == b"4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    assert found.parents == (HEAD,)
    assert found.message == "caf\ufffd\n\nparent x\n"


TREE = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
OTHER_TREE = b"tree " + b"3" * 40 + b"\n"
PARENTS = b"parent " + HEAD + b"\nparent " + NOWHERE + b"\n"
STAMPS = b"author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n"


@pytest.mark.parametrize(
    ("header", "parents"),
    [
        (TREE + PARENTS + STAMPS, (HEAD, NOWHERE)),
        (TREE + OTHER_TREE + PARENTS + STAMPS, ()),
        (TREE + PARENTS + OTHER_TREE + STAMPS, (HEAD, NOWHERE)),
        (TREE + STAMPS + PARENTS, ()),
    ],
)
def test_of_two_trees_the_one_is_read_that_git_reads(
    store: ObjectStore, header: bytes, parents: tuple[ObjectID, ...]
) -> None:
    found = record.read_commit(store, store.add(b"commit", header + b"\nx\n"))

    assert (found.tree, found.parents) == (TREE[5:-1], parents)


COMMAND = b"$(touch pwned; echo 12345678901234567890)"[:40]


@pytest.mark.parametrize(
    "header",
    [
        b"tree " + COMMAND + b"\n" + STAMPS,
        TREE + b"parent " + COMMAND + b"\n" + STAMPS,
        TREE + b"parent " + HEAD + b"\nparent " + HEAD[:-1] + b"\n" + STAMPS,
        TREE + b"parent " + HEAD + b"0\n" + STAMPS,
        STAMPS + TREE,
        b"\n" + TREE,
        b"",
    ],
)
def test_a_commit_that_names_what_is_no_id_is_damaged(store: ObjectStore, header: bytes) -> None:
    commit = store.add(b"commit", header + b"\n" + record.compose_message(draft()).encode())

    for reading in (record.read_commit, lambda *_: read(store, commit)):
        with pytest.raises(MissingObject, match=f"damaged commit '{commit.decode()}'"):
            reading(store, commit)


# What ckpt did not write


@pytest.mark.parametrize(
    "message", ["", "a commit\n", "a\n\nbody\n\nSigned-off-by: me\n", "\n\n\n"]
)
def test_a_foreign_commit_is_explained(message: str, store: ObjectStore) -> None:
    with pytest.raises(CkptError, match="was not written by ckpt") as caught:
        read(store, written(store, message))

    assert caught.value.hint == f"git show refs/checkpoints/{ID}"


def test_a_checkpoint_under_another_id_is_foreign(store: ObjectStore) -> None:
    commit = written(store, record.compose_message(draft()))

    with pytest.raises(CkptError, match="was not written by ckpt"):
        record.read_checkpoint(store, "20270101-000000-000-aaaa", commit, frozenset())


def test_trailers_count_only_in_the_last_paragraph(store: ObjectStore) -> None:
    message = record.compose_message(draft()) + "\nmore text\n"

    with pytest.raises(CkptError, match="was not written by ckpt"):
        read(store, written(store, message))


@pytest.mark.parametrize("number", ["2", "10", "x", "1.1"])
def test_a_newer_format_is_refused_not_guessed(number: str, store: ObjectStore) -> None:
    message = record.compose_message(draft()).replace("Format: 1", f"Format: {number}")

    with pytest.raises(Refused, match=f"has format {number}, newer than this ckpt") as caught:
        read(store, written(store, message))
    assert "upgrade" in (caught.value.hint or "")


def test_a_trailer_that_is_not_known_is_passed_over(store: ObjectStore) -> None:
    message = record.compose_message(draft()) + "Ckpt-Colour: blue\n"

    assert same(read(store, written(store, message)), draft())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Ckpt-Kind: manual\n", ""),
        ("Ckpt-Kind: manual", "Ckpt-Kind: none"),
        ("Ckpt-Scope: full\n", ""),
        ("Ckpt-Timestamp: 2026", "Ckpt-Timestamp: x"),
        ("+00:00", ""),
        ("Ckpt-Worktree: main\n", ""),
        ("Ckpt-Stats: 0 0 0", "Ckpt-Stats: many"),
        ("Ckpt-Stats: 0 0 0", "Ckpt-Stats: 1 2 3 4"),
        ("Ckpt-Stats: 0 0 0", "Ckpt-Stats: " + "9" * 4000 + " 0 0"),
        ("Ckpt-Stats: 0 0 0", "Ckpt-Stats: 1 -5 3"),
        ("Ckpt-State: 1", "Ckpt-State: 2"),
        ("Ckpt-State: ", "Ckpt-Stat: "),
        ("Ckpt-Branch", f"Ckpt-Head: {HEAD.decode()}\nCkpt-Branch"),
    ],
)
def test_damaged_trailers_are_an_error_that_names_the_checkpoint(
    old: str, new: str, store: ObjectStore
) -> None:
    message = record.compose_message(draft())
    assert old in message

    with pytest.raises(CkptError, match=f"'{ID}' has damaged trailers"):
        read(store, written(store, message.replace(old, new)))


def test_a_name_is_as_long_as_one_can_be(store: ObjectStore) -> None:
    longest = "x" * ids.MAX_NAME

    assert there_and_back(store, draft(name=longest)).name == longest
    with pytest.raises(CkptError, match="a name of 201 characters"):
        there_and_back(store, draft(name=longest + "x"))


def test_an_error_does_not_repeat_a_megabyte_of_what_is_wrong(store: ObjectStore) -> None:
    for old, new in (("Kind: manual", "Kind: "), ("Format: 1", "Format: ")):
        message = record.compose_message(draft()).replace(old, new + "x" * (1 << 20))
        with pytest.raises(CkptError) as caught:
            read(store, written(store, message))
        assert len(caught.value.message) < 400


@pytest.mark.parametrize("parents", [(), (HEAD,), (NOWHERE, HEAD), (HEAD, NOWHERE)])
def test_parents_that_the_trailers_do_not_tell_are_damage(
    parents: tuple[ObjectID, ...], store: ObjectStore
) -> None:
    """HEAD's commit comes first, if there is one, and the state commit last."""
    with pytest.raises(CkptError, match="damaged trailers"):
        read(store, written(store, record.compose_message(draft()), parents))
