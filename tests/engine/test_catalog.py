# SPDX-License-Identifier: MIT
"""The checkpoint that is meant is found; what is no checkpoint disturbs nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from byhand import ID, commit, worktree, write_checkpoint
from byhand import open_repository as opened

from ckpt.engine.catalog import Catalog, counts_as_latest, set_pinned
from ckpt.errors import CkptError, NotFound, Refused, UsageError
from ckpt.git import record
from ckpt.git.objects import ObjectID, ObjectStore
from ckpt.git.repository import Repository
from ckpt.models import Kind, Scope

A, B, C, D = (
    f"2026010{day}-000000-000-{end}" for day, end in enumerate(("aaaa", "abbb", "cccc", "dddd"), 1)
)


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with opened(worktree(tmp_path / "repo")) as repository:
        yield repository


def make(repo: Repository, *ids: str, **fields: Any) -> None:
    for checkpoint_id in ids:
        write_checkpoint(repo, id=checkpoint_id, **fields)


def resolved(repo: Repository, word: str) -> str:
    return Catalog(repo).resolve(word).id


# Listing


def test_checkpoints_come_newest_first(repo: Repository) -> None:
    make(repo, B, D, A, C)

    assert Catalog(repo).ids() == [D, C, B, A]
    assert [c.id for c in Catalog(repo)] == [D, C, B, A]


def test_what_is_no_checkpoint_is_passed_over_in_a_list(repo: Repository) -> None:
    make(repo, A)
    foreign = commit(repo.objects)
    repo.objects.flush()
    for name in (B, "my-backup", "20260105-000000-000-AAAA"):
        assert repo.refs.create(f"refs/checkpoints/{name}".encode(), foreign)
    Path(repo.git_dir, "refs/checkpoints", C).write_bytes(b"9" * 40 + b"\n")
    Path(repo.git_dir, "refs/checkpoints", D).write_bytes(b"ref: refs/heads/main\n")

    assert [c.id for c in Catalog(repo)] == [A]


@pytest.mark.parametrize("damage", ["foreign", "missing", "newer"])
def test_what_is_no_checkpoint_is_explained_when_it_is_named(damage: str, repo: Repository) -> None:
    make(repo, A)
    objects = repo.objects
    made = commit(objects)
    if damage == "newer":
        message = record.compose_message(Catalog(repo).get(A)).replace("Format: 1", "Format: 2")
        made = commit(objects, message=message)
    objects.flush()
    path = Path(repo.git_dir, "refs/checkpoints", A)
    path.write_bytes((b"9" * 40 if damage == "missing" else made) + b"\n")

    with pytest.raises(CkptError) as caught:
        Catalog(repo).resolve(A)
    assert not isinstance(caught.value, NotFound)
    assert isinstance(caught.value, Refused) == (damage == "newer")


def test_each_commit_is_read_once(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    make(repo, A, B)
    catalog = Catalog(repo)
    assert len(list(catalog)) == 2
    monkeypatch.setattr(repo.objects, "read", None)

    assert len(list(catalog)) == 2
    assert catalog.get(A).id == A


def test_a_worktree_sees_its_own_first(repo: Repository) -> None:
    make(repo, A, C)
    make(repo, B, worktree="worktrees/other")

    assert [c.id for c in Catalog(repo).here()] == [C, A]
    assert [c.id for c in Catalog(repo)] == [C, B, A]


# Latest


def test_latest_counts_back(repo: Repository) -> None:
    make(repo, A, B, C)

    assert [resolved(repo, w) for w in ("latest", "latest~0", "latest~1", "latest~2")] == [
        C,
        C,
        B,
        A,
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": Kind.SAFETY},
        {"during_rollback": True},
        {"scope": Scope.STATE},
        {"worktree": "worktrees/other"},
    ],
)
def test_some_checkpoints_are_never_latest(fields: dict[str, Any], repo: Repository) -> None:
    make(repo, A)
    make(repo, B, **fields)

    assert resolved(repo, "latest") == A
    assert counts_as_latest(Catalog(repo).get(B)) == ("worktree" in fields)


def test_without_checkpoints_there_is_no_latest(repo: Repository) -> None:
    make(repo, A, kind=Kind.SAFETY)

    with pytest.raises(NotFound, match="no checkpoint in this worktree yet") as caught:
        resolved(repo, "latest")
    assert caught.value.details == {"available": []}


def test_too_far_back_says_how_many_there_are(repo: Repository) -> None:
    make(repo, A)
    with pytest.raises(
        NotFound, match=r"'latest~1' is too far back: this worktree has 1 checkpoint$"
    ):
        resolved(repo, "latest~1")

    make(repo, B)
    with pytest.raises(NotFound, match=r"has 2 checkpoints$") as caught:
        resolved(repo, "latest~999999999")
    assert caught.value.details == {"available": [B, A]}


@pytest.mark.parametrize(
    "word", ["latest~", "latest~x", "latest~-1", "latest~1234567890", "latest^", "latest~\u0661"]
)
def test_what_only_begins_like_latest_is_not_found(word: str, repo: Repository) -> None:
    make(repo, A)

    with pytest.raises(NotFound, match="no checkpoint"):
        resolved(repo, word)


# Words


def test_an_id_is_found_and_nothing_else_is_guessed_from_it(repo: Repository) -> None:
    make(repo, A, B)

    assert resolved(repo, A) == A
    with pytest.raises(NotFound, match=f"no checkpoint '{C}'") as caught:
        resolved(repo, C)
    assert caught.value.details == {"available": [B, A]}


def test_a_name_means_its_newest_checkpoint(repo: Repository) -> None:
    make(repo, A, C, name="before")
    make(repo, B, name="other")

    assert resolved(repo, "before") == C


def test_a_name_of_this_worktree_comes_before_a_newer_one_elsewhere(repo: Repository) -> None:
    make(repo, A, name="before")
    make(repo, B, name="before", worktree="worktrees/other")
    make(repo, C, name="there", worktree="worktrees/other")

    assert resolved(repo, "before") == A
    assert resolved(repo, "there") == C


def test_a_name_comes_before_a_prefix(repo: Repository) -> None:
    make(repo, A, name="cccc")
    make(repo, C)

    assert resolved(repo, "cccc") == A


@pytest.mark.parametrize(
    ("word", "expected"),
    [("20260103", C), ("20260104-0", D), ("cccc", C), ("cc", C), ("d", D), ("aaaa", A), ("ab", B)],
)
def test_a_unique_prefix_of_an_id_or_of_its_end_is_enough(
    word: str, expected: str, repo: Repository
) -> None:
    make(repo, A, B, C, D)

    assert resolved(repo, word) == expected


@pytest.mark.parametrize("word", ["2026", "a", "20260101-", "2"])
def test_a_prefix_of_several_is_ambiguous(word: str, repo: Repository) -> None:
    make(repo, A, B, "20260101-000000-001-zzzz")

    with pytest.raises(UsageError, match=f"'{word}' is ambiguous: ") as caught:
        resolved(repo, word)
    assert len(caught.value.details["available"]) > 1


def test_only_a_few_of_many_are_shown(repo: Repository) -> None:
    make(repo, *(f"20260101-000000-00{n}-aaaa" for n in range(7)))

    with pytest.raises(UsageError, match=r", …$") as caught:
        resolved(repo, "a")
    assert caught.value.message.count("20260101") == 5
    assert len(caught.value.details["available"]) == 7


@pytest.mark.parametrize("word", ["nobody", "aa\n", "AAAA", "*", "k7pq", "%"])
def test_a_word_for_nothing_is_not_found(word: str, repo: Repository) -> None:
    make(repo, A)

    with pytest.raises(NotFound):
        resolved(repo, word)


@pytest.mark.parametrize("word", ["", "-", "--json"])
def test_what_cannot_be_a_checkpoint_is_an_error_of_use(word: str, repo: Repository) -> None:
    make(repo, A)

    with pytest.raises(UsageError):
        resolved(repo, word)


# No more than the question needs


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How many commits are read, from here on."""
    seen: list[str] = []
    read_object = ObjectStore.read

    def read(self: ObjectStore, object_id: ObjectID, kind: bytes) -> bytes:
        seen.append(kind.decode())
        return read_object(self, object_id, kind)

    monkeypatch.setattr(ObjectStore, "read", read)
    return seen


def test_an_id_reads_its_own_commit_alone(repo: Repository, looks: list[str]) -> None:
    make(repo, A, B, C, D)
    looks.clear()

    assert resolved(repo, B) == B
    assert looks == ["commit"]


def test_latest_reads_only_the_newest(repo: Repository, looks: list[str]) -> None:
    make(repo, A, B, C)
    make(repo, D, kind=Kind.SAFETY)
    looks.clear()

    assert resolved(repo, "latest") == C
    assert looks == ["commit"] * 2
    looks.clear()
    assert resolved(repo, "latest~1") == B
    assert looks.count("commit") == 3


def test_a_list_reads_each_commit_once_and_nothing_else(repo: Repository, looks: list[str]) -> None:
    make(repo, A, B, C, D)
    looks.clear()
    catalog = Catalog(repo)
    found = [c.id for c in catalog], [c.id for c in catalog.here()]

    assert found == ([D, C, B, A], [D, C, B, A])
    assert looks == ["commit"] * 4


# For new ids


def made_by_us(repo: Repository, *ids: str, **fields: Any) -> None:
    make(repo, *ids, **fields)
    for checkpoint_id in ids:
        commit_id = Catalog(repo).get(checkpoint_id).commit
        record.note(repo.common_dir, checkpoint_id, commit_id)


def test_the_newest_of_this_worktree_is_what_a_new_id_must_follow(repo: Repository) -> None:
    made_by_us(repo, A, C)
    made_by_us(repo, D, worktree="worktrees/other")
    catalog = Catalog(repo)

    assert catalog.newest_here(A[:19]) == C
    assert catalog.newest_here(C[:19]) == C
    assert catalog.newest_here(D[:19]) is None


def test_a_new_id_follows_none_that_others_made(repo: Repository) -> None:
    made_by_us(repo, A)
    make(repo, B, C)

    assert Catalog(repo).newest_here(A[:19]) == A
    assert Catalog(repo).newest_here(B[:19]) is None


def test_the_record_is_not_read_for_a_new_id_that_is_the_newest(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_by_us(repo, A)
    monkeypatch.setattr(record, "made_here", None)

    assert Catalog(repo).newest_here(B[:19]) is None


def test_older_commits_are_not_read_for_a_new_id(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(repo, A, B)
    catalog = Catalog(repo)
    monkeypatch.setattr(repo.objects, "read", None)

    assert catalog.newest_here(C[:19]) is None


# Pinning


def test_a_pin_keeps_id_trees_and_time(repo: Repository) -> None:
    before = write_checkpoint(repo, name="x", description="why")
    pinned = set_pinned(repo, before, True)

    assert pinned.pinned
    assert pinned.commit != before.commit
    for field in ("id", "name", "description", "timestamp", "tree", "state_commit", "kind"):
        assert getattr(pinned, field) == getattr(before, field)
    assert Catalog(repo).get(ID).pinned
    assert set_pinned(repo, pinned, False).commit == before.commit


def test_a_pin_that_is_there_already_changes_nothing(repo: Repository) -> None:
    before = write_checkpoint(repo, pinned=True)

    assert set_pinned(repo, before, True) is before


def test_a_checkpoint_that_changed_meanwhile_is_not_pinned(repo: Repository) -> None:
    before = write_checkpoint(repo)
    set_pinned(repo, before, True)

    with pytest.raises(NotFound, match="was changed or removed meanwhile"):
        set_pinned(repo, before, True)


def test_a_checkpoint_that_went_meanwhile_does_not_come_back_by_a_pin(repo: Repository) -> None:
    before = write_checkpoint(repo)
    Path(repo.git_dir, before.ref).unlink()

    with pytest.raises(NotFound):
        set_pinned(repo, before, True)
    assert Catalog(repo).ids() == []
