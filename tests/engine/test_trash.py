# SPDX-License-Identifier: MIT
"""Dropped checkpoints are held at every moment, and come back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from byhand import NOWHERE, commit, draft, worktree, write_checkpoint
from byhand import open_repository as opened

from ckpt.engine import journal, trash
from ckpt.engine.catalog import Catalog, set_pinned
from ckpt.engine.journal import Journal
from ckpt.errors import NotFound, Refused, UsageError
from ckpt.git import record
from ckpt.git.objects import ObjectID
from ckpt.git.repository import Repository
from ckpt.models import Checkpoint

A = "20260101-000000-000-aaaa"
B = "20260102-000000-000-abbb"


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with opened(worktree(tmp_path / "repo")) as repository:
        yield repository


@pytest.fixture
def found(repo: Repository) -> Checkpoint:
    return write_checkpoint(repo, id=A, name="before")


def put_aside(repo: Repository, name: str, commit: ObjectID) -> None:
    assert repo.refs.create(f"refs/checkpoints-trash/{name}".encode(), commit)


def test_a_dropped_checkpoint_is_in_the_trash_under_its_day(
    repo: Repository, found: Checkpoint
) -> None:
    trash.drop(repo, found)

    (item,) = trash.dropped(repo)
    assert Catalog(repo).ids() == []
    assert item.checkpoint == found
    assert abs(item.day - datetime.now(timezone.utc).date()).days <= 1
    assert item.ref == f"refs/checkpoints-trash/{item.day:%Y%m%d}/{A}"


@pytest.mark.parametrize("of_many", [False, True])
def test_what_is_dropped_while_the_clock_is_behind_is_not_a_week_old_when_it_is_right(
    of_many: bool, repo: Repository
) -> None:
    later = datetime.now(timezone.utc) + timedelta(days=400)
    made = write_checkpoint(repo, id=f"{later:%Y%m%d}-000000-000-aaaa")
    if of_many:
        assert trash.move_all_aside(repo, [made]) == {made.id}
    else:
        trash.drop(repo, made)

    assert trash.empty(repo, later.date()) == []
    assert trash.empty(repo, later.date() + timedelta(days=1)) == [made.id]


def test_a_restored_checkpoint_is_as_it_was(repo: Repository, found: Checkpoint) -> None:
    trash.drop(repo, found)

    assert trash.restore(repo, A) == found
    assert Catalog(repo).get(A) == found
    assert trash.dropped(repo) == []


def test_a_checkpoint_that_changed_meanwhile_is_not_dropped(
    repo: Repository, found: Checkpoint
) -> None:
    """It may just have been pinned."""
    set_pinned(repo, found, True)

    with pytest.raises(NotFound, match="was changed or removed meanwhile"):
        trash.drop(repo, found)
    assert Catalog(repo).get(A).pinned
    assert trash.dropped(repo) == []


def test_a_drop_that_was_interrupted_can_be_repeated(repo: Repository, found: Checkpoint) -> None:
    put_aside(repo, f"{datetime.now(timezone.utc):%Y%m%d}/{A}", ObjectID(found.commit.encode()))
    trash.drop(repo, found)

    assert len(trash.dropped(repo)) == 1
    assert Catalog(repo).ids() == []


def test_a_restore_that_was_interrupted_can_be_repeated(
    repo: Repository, found: Checkpoint
) -> None:
    put_aside(repo, f"20260101/{A}", ObjectID(found.commit.encode()))
    trash.restore(repo, A)

    assert Catalog(repo).ids() == [A]
    assert trash.dropped(repo) == []


@pytest.mark.parametrize("needed", ["target", "safety"])
@pytest.mark.parametrize("place", ["ckpt", "worktrees/other/ckpt"])
def test_what_an_interrupted_rollback_needs_is_not_dropped(
    place: str, needed: str, repo: Repository, found: Checkpoint
) -> None:
    ids = {"target": B, "safety": B} | {needed: A}
    private = Path(repo.common_dir, place)
    private.mkdir(parents=True, exist_ok=True)
    journal.write(str(private), Journal(**ids, paths=(), files=()))

    with pytest.raises(Refused, match=f"a rollback that is not over needs checkpoint '{A}'"):
        trash.drop(repo, found)
    assert Catalog(repo).ids() == [A]

    other = write_checkpoint(repo, id="20270101-000000-000-zzzz")
    trash.drop(repo, other)


def test_with_a_damaged_journal_nothing_is_dropped(repo: Repository, found: Checkpoint) -> None:
    Path(repo.private_dir).mkdir(exist_ok=True)
    Path(repo.private_dir, "journal").write_bytes(b"garbage")

    with pytest.raises(Refused, match="checksum"):
        trash.drop(repo, found)
    assert Catalog(repo).ids() == [A]


def test_the_trash_is_listed_newest_first(repo: Repository, found: Checkpoint) -> None:
    other = write_checkpoint(repo, id=B)
    trash.drop(repo, other)
    trash.drop(repo, found)

    assert [item.checkpoint.id for item in trash.dropped(repo)] == [B, A]


def test_what_we_did_not_put_into_the_trash_is_passed_over(
    repo: Repository, found: Checkpoint
) -> None:
    held = ObjectID(found.commit.encode())
    odd = draft(id="odd")
    hostile = commit(repo.objects, NOWHERE, message=record.compose_message(odd))
    repo.objects.flush()
    for name in (f"someday/{A}", f"20261301/{A}", A, "20260101/x/y", f"20260101/{B}"):
        put_aside(repo, name, held)
    put_aside(repo, "20260101/odd", hostile)

    assert trash.dropped(repo) == []
    with pytest.raises(NotFound):
        trash.restore(repo, "anything")


@pytest.mark.parametrize("word", [A, "before", "20260101", "aaaa", "aa"])
def test_a_dropped_checkpoint_answers_to_id_name_and_prefix(
    word: str, repo: Repository, found: Checkpoint
) -> None:
    trash.drop(repo, found)

    assert trash.restore(repo, word) == found


def test_of_several_with_a_name_the_newest_comes_back(repo: Repository, found: Checkpoint) -> None:
    other = write_checkpoint(repo, id=B, name="before")
    trash.drop(repo, found)
    trash.drop(repo, other)

    assert trash.restore(repo, "before") == other
    assert trash.restore(repo, "before") == found


def test_a_prefix_of_several_is_ambiguous(repo: Repository, found: Checkpoint) -> None:
    trash.drop(repo, found)
    trash.drop(repo, write_checkpoint(repo, id=B))

    with pytest.raises(UsageError, match="'a' is ambiguous"):
        trash.restore(repo, "a")
    assert len(trash.dropped(repo)) == 2


def test_what_is_not_in_the_trash_is_not_found(repo: Repository, found: Checkpoint) -> None:
    with pytest.raises(NotFound, match="'before' is not in the trash"):
        trash.restore(repo, "before")


@pytest.mark.parametrize("word", ["", "-", "--json"])
def test_what_cannot_be_a_checkpoint_is_an_error_of_use(word: str, repo: Repository) -> None:
    with pytest.raises(UsageError, match="is not a checkpoint"):
        trash.restore(repo, word)


def test_what_another_process_has_dropped_meanwhile_stays_in_the_trash(
    repo: Repository, found: Checkpoint
) -> None:
    trash.drop(repo, found)
    with pytest.raises(NotFound, match="was changed or removed meanwhile"):
        trash.drop(repo, found)

    assert [item.checkpoint for item in trash.dropped(repo)] == [found]


def test_half_a_drop_is_listed_once_and_the_next_one_ends_it(
    repo: Repository, found: Checkpoint
) -> None:
    """The trash ref is there, and the checkpoint's own still is."""
    put_aside(repo, f"20260101/{A}", ObjectID(found.commit.encode()))
    assert Catalog(repo).ids() == [A]
    assert trash.dropped(repo) == []
    assert trash.move_all_aside(repo, [found]) == {A}

    assert Catalog(repo).ids() == []
    assert [item.checkpoint.id for item in trash.dropped(repo)] == [A]
    assert trash.restore(repo, "aaaa") == found


def test_the_trash_holds_what_was_dropped_last(repo: Repository, found: Checkpoint) -> None:
    """A restore was interrupted, and what it brought back was changed since."""
    put_aside(repo, f"{datetime.now(timezone.utc):%Y%m%d}/{A}", ObjectID(found.commit.encode()))
    pinned = set_pinned(repo, found, True)
    trash.drop(repo, pinned)

    assert [item.checkpoint for item in trash.dropped(repo)] == [pinned]


def test_a_checkpoint_is_not_brought_back_over_another_of_its_id(
    repo: Repository, found: Checkpoint
) -> None:
    trash.drop(repo, found)
    other = write_checkpoint(repo, id=A, name="another")
    with pytest.raises(Refused, match=f"another checkpoint '{A}' is there"):
        trash.restore(repo, A)

    assert Catalog(repo).get(A) == other
    assert [item.checkpoint for item in trash.dropped(repo)] == [found]


def test_of_many_those_go_that_are_as_they_were_and_that_no_rollback_needs(
    repo: Repository, found: Checkpoint
) -> None:
    others = [write_checkpoint(repo, id=f"2026010{day}-000000-000-zzzz") for day in range(3, 6)]
    journal.write(repo.private_dir, Journal(others[0].id, others[0].id, (), ()))
    set_pinned(repo, others[1], True)

    assert trash.move_all_aside(repo, [found, *others]) == {A, others[2].id}
    assert Catalog(repo).ids() == [others[1].id, others[0].id]
    assert len(trash.dropped(repo)) == 2
