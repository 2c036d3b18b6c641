# SPDX-License-Identifier: MIT
"""A manager that is at work when it is closed, or called again: by another thread, by a callback
or the handler of a signal, or in a fork."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import fsck, git, verified
from scenes import write

from ckpt import CheckpointManager
from ckpt.errors import Busy
from ckpt.git.formats import ObjectID
from ckpt.git.objects import ObjectStore

A_WHILE = 60.0  # seconds, after which something waits for ever
Act = Callable[[], object]


@pytest.fixture
def amid(monkeypatch: pytest.MonkeyPatch) -> Callable[[Act], None]:
    """Has something done once, when the files that a save found are added and nothing flushed."""
    add = ObjectStore.add
    todo: list[Act] = []

    def interrupted(objects: ObjectStore, kind: bytes, data: bytes) -> ObjectID:
        if todo and kind == b"tree":
            todo.pop()()
        return add(objects, kind, data)

    monkeypatch.setattr(ObjectStore, "add", interrupted)
    return todo.append


def edit(repo: Path) -> None:
    for number in range(3):
        write(repo, f"new {number}", f"{number}" * (1 << 20))  # too much to be held in memory
    write(repo, "README.md", "precious\n")


@pytest.mark.parametrize("deed", ["create", "rollback"])
def test_closing_waits_for_what_another_thread_is_at(
    repo: Path, amid: Callable[[Act], None], deed: str
) -> None:
    manager = CheckpointManager(repo)
    manager.create("before")
    edit(repo)
    closing = threading.Thread(target=manager.close)
    is_waiting: list[bool] = []

    def close_meanwhile() -> None:
        closing.start()
        closing.join(0.2)
        is_waiting.append(closing.is_alive())

    amid(close_meanwhile)
    results: list[object] = []
    working = threading.Thread(target=lambda: results.append(getattr(manager, deed)("before")))
    working.start()
    working.join(A_WHILE)
    closing.join(A_WHILE)

    assert is_waiting == [True]
    assert not closing.is_alive()
    assert results
    assert verified(repo) == []
    if deed == "rollback":
        manager.undo()
    assert (repo / "README.md").read_text() == "precious\n"
    assert (repo / "new 2").read_text() == "2" * (1 << 20)
    assert fsck(repo) == []


def test_what_closes_its_own_manager_is_finished_first(
    repo: Path, amid: Callable[[Act], None]
) -> None:
    git("gc", "-q")
    manager = CheckpointManager(repo)
    edit(repo)
    amid(manager.close)

    with manager.guard("around"):
        assert manager.create("closed meanwhile")
        manager.close()

    assert verified(repo) == []
    assert git("show", f"{manager.list()[0].ref}:new 2") == "2" * (1 << 20)


def test_a_manager_that_was_to_be_closed_is_closed_when_the_deed_is_done(
    repo: Path, amid: Callable[[Act], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = CheckpointManager(repo)
    happened: list[str] = []
    monkeypatch.setattr(ObjectStore, "close", lambda _: happened.append("closed"))
    edit(repo)

    def close_around() -> None:
        manager.close()
        happened.append("goes on")

    amid(close_around)
    manager.create()

    assert happened == ["goes on", "closed"]


@pytest.mark.parametrize(
    "call",
    [
        lambda manager: manager.create("inside"),
        lambda manager: manager.rollback("before"),
        lambda manager: manager.rollback("before", dry_run=True),
        lambda manager: manager.diff("before"),
        lambda manager: manager.delete("before"),
    ],
)
def test_a_call_amid_another_is_refused_and_harms_neither(
    repo: Path, amid: Callable[[Act], None], call: Callable[[CheckpointManager], object]
) -> None:
    with CheckpointManager(repo) as manager:
        manager.create("before")
        edit(repo)
        refused: list[str] = []

        def call_again() -> None:
            with pytest.raises(Busy, match="under way in the same thread"):
                call(manager)
            refused.append(str(manager.ensure().reason))

        amid(call_again)
        assert manager.create("around")

        assert refused == ["busy"]
        assert [checkpoint.name for checkpoint in manager] == ["before", "around"]
        assert call(manager)
    assert verified(repo) == []


def test_who_hears_of_a_rollback_may_save(repo: Path) -> None:
    with CheckpointManager(repo, worktree=False) as manager:
        first = manager.create(data=1)
        manager.on_rollback(lambda _: manager.create("heard", data=2))

        assert manager.rollback(first).warnings == ()
        assert [checkpoint.name for checkpoint in manager] == [None, "heard"]


def test_reading_goes_on_beside_closing(repo: Path) -> None:
    manager = CheckpointManager(repo)
    first = manager.create("first")
    edit(repo)
    second = manager.create("second")
    git("gc", "-q")
    is_over = threading.Event()
    errors: list[Exception] = []

    def close_for_ever() -> None:
        while not is_over.wait(0.001):
            manager.close()

    def read() -> None:
        try:
            for _ in range(20):
                manager.diff(first, second)
                manager.rollback(first, dry_run=True)
        except Exception as error:  # of any kind: the test says that there is none
            errors.append(error)

    closing = threading.Thread(target=close_for_ever)
    closing.start()
    read()
    is_over.set()
    closing.join(A_WHILE)

    assert errors == []
