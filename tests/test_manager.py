# SPDX-License-Identifier: MIT
"""The Python API: what a program that embeds ckpt can rely on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from helpers import fsck, git
from scenes import remove, state, write
from seam import failing

import ckpt
from ckpt import CheckpointManager, CkptError, NotFound
from ckpt.errors import Busy, Refused, RollbackError, UsageError
from ckpt.models import Kind, Outcome
from ckpt.settings.settings import Settings


@pytest.fixture
def manager(repo: Path) -> Iterator[CheckpointManager]:
    with CheckpointManager(repo) as manager:
        yield manager


# Saving


def test_create_returns_a_result_that_is_true_and_holds_the_checkpoint(
    manager: CheckpointManager,
) -> None:
    result = manager.create("before-refactor", description="why")

    assert result
    assert result.outcome is Outcome.CREATED
    assert result.outcome == "created"
    assert result.reason is None
    assert result.checkpoint is not None
    assert result.id == result.checkpoint.id
    assert (result.checkpoint.name, result.checkpoint.description) == ("before-refactor", "why")


def test_agent_state_comes_back_as_it_was_given(manager: CheckpointManager) -> None:
    data = {"plan": ["a", "b"], "ünï": None, "nested": {"n": 1.5, "t": True}}
    saved = manager.create(
        data=data,
        metadata={"k": "v"},
        context={"session_number": 5, "token_usage": 45000},
        features={"current": "auth-003", "completed": ["auth-001", "auth-002"]},
    )

    found = manager.get(saved)

    assert found.data == data
    assert found.metadata == {"k": "v"}
    assert found.context == {"session_number": 5, "token_usage": 45000}
    assert found.feature_state is not None
    assert found.feature_state.current == "auth-003"
    assert list(found.feature_state.completed) == ["auth-001", "auth-002"]
    assert found.feature_state.snapshot_path is None


@pytest.mark.parametrize("data", [object(), float("nan"), {"a": {1j}}])
def test_data_that_is_not_json_is_refused_before_anything_is_saved(
    manager: CheckpointManager, data: object
) -> None:
    with pytest.raises(UsageError, match="not JSON"):
        manager.create(data=data)

    assert len(manager) == 0


def test_an_unchanged_state_is_told_and_true(manager: CheckpointManager) -> None:
    first = manager.create(kind="auto")
    second = manager.create(kind="auto")

    assert second.outcome is Outcome.UNCHANGED
    assert second
    assert second.id == first.id


@pytest.mark.parametrize("kind", ["auto", "hook"])
def test_the_environment_turns_triggers_off_and_nothing_else(
    repo: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("CKPT_DISABLE", "1")
    with CheckpointManager(repo) as manager:
        assert manager.create(kind=kind).reason == "disabled"
        assert manager.create(kind="manual").outcome is Outcome.CREATED


def test_progress_tells_how_many_files_and_bytes_were_read(
    manager: CheckpointManager, repo: Path
) -> None:
    manager.create()
    time.sleep(0.2)
    manager.create()  # from here on all that is there is known
    write(repo, "one", "1" * 1000)
    write(repo, "two", "2" * 500)
    seen: list[tuple[int, int]] = []
    manager.progress = lambda files, bytes: seen.append((files, bytes))

    manager.create()

    assert [files for files, _ in seen] == [1, 2]
    assert seen[-1] == (2, 1500)


def test_a_checkout_during_a_save_is_seen(manager: CheckpointManager, repo: Path) -> None:
    git("checkout", "-q", "-b", "other")
    write(repo, "README.md", "of the other branch\n")
    git("commit", "-q", "-a", "-m", "other")
    git("checkout", "-q", "main")
    write(repo, "new", "new\n")

    def checkout(files: int, bytes: int) -> None:
        git("checkout", "-q", "other")

    manager.progress = checkout
    saved = manager.create().checkpoint

    assert saved is not None
    assert (saved.git_state.branch, saved.git_state.dirty_files) == ("other", ("new",))


# Looking


def test_list_is_newest_first_and_iteration_oldest_first(manager: CheckpointManager) -> None:
    made = [manager.create(name).id for name in ("one", "two", "three")]

    assert [c.id for c in manager.list()] == made[::-1]
    assert [c.id for c in manager] == made
    assert len(manager) == 3


def test_a_manager_without_checkpoints_is_still_true(manager: CheckpointManager) -> None:
    assert manager
    assert manager.list() == []
    assert list(manager) == []
    assert manager.latest() is None


def test_list_filters_by_kind_name_and_session(manager: CheckpointManager) -> None:
    one = manager.create("one", session="s")
    two = manager.create("two", kind="feature")
    three = manager.create("one")

    assert [c.id for c in manager.list(name="one")] == [three.id, one.id]
    assert manager.by_name("one") == manager.list(name="one")
    assert [c.id for c in manager.list(kind="feature")] == [two.id]
    assert [c.id for c in manager.list(session="s")] == [one.id]


def test_latest_takes_name_and_kind(manager: CheckpointManager) -> None:
    one = manager.create("one")
    two = manager.create("two", kind="feature")

    assert manager.latest() == two.checkpoint
    assert manager.latest("one") == one.checkpoint
    assert manager.latest(kind="manual") == one.checkpoint
    assert manager.latest("nothing") is None
    assert manager.latest(kind="safety") is None


def test_latest_passes_over_safety_unless_asked_for(repo: Path, manager: CheckpointManager) -> None:
    one = manager.create()
    write(repo, "README.md", "edited\n")
    safety = manager.rollback(one).safety

    assert safety is not None
    assert manager.latest() == one.checkpoint
    assert manager.latest(kind=Kind.SAFETY) == safety


def test_since_is_later_than_and_between_is_inclusive(manager: CheckpointManager) -> None:
    made = [manager.create().checkpoint for _ in range(3)]
    times = [c.timestamp for c in made if c is not None]

    assert manager.since(times[0]) == [made[2], made[1]]
    assert manager.since(times[2]) == []
    assert manager.between(times[0], times[1]) == [made[1], made[0]]
    assert manager.between(times[1], times[1]) == [made[1]]
    assert manager.since(datetime.now(timezone.utc) + timedelta(days=1)) == []


def test_get_takes_words_checkpoints_and_results(manager: CheckpointManager) -> None:
    saved = manager.create("one")

    for which in ("latest", "latest~0", "one", saved.id, saved.id[-4:], saved, saved.checkpoint):
        assert manager.get(which) == saved.checkpoint


def test_what_is_not_there_raises_not_found_with_what_is(manager: CheckpointManager) -> None:
    saved = manager.create()
    for call in (manager.get, manager.rollback, manager.delete, manager.pin, manager.diff):
        with pytest.raises(NotFound) as caught:
            call("nothing")
        assert isinstance(caught.value, RollbackError)
        assert isinstance(caught.value, CkptError)
        assert caught.value.details["available"] == [saved.id]
        assert caught.value.hint
        assert "'nothing'" in str(caught.value)


def test_a_session_sees_its_own_checkpoints(repo: Path, manager: CheckpointManager) -> None:
    other = manager.create("other")
    with CheckpointManager(repo, session="s1") as session:
        mine = session.create("mine")

        assert [c.id for c in session.list()] == [mine.id]
        assert [c.id for c in session] == [mine.id]
        assert len(session) == 1
        assert session.latest() == mine.checkpoint
        assert session.get(other) == other.checkpoint
    assert len(manager) == 2


def test_a_name_and_latest_mean_the_session(repo: Path, manager: CheckpointManager) -> None:
    """Two agents at work, each with a checkpoint of the same name: neither takes the other's."""
    with CheckpointManager(repo, session="s1") as one, CheckpointManager(repo, session="s2") as two:
        older = one.create("start")
        mine = one.create("start")
        other = two.create("start")
        manager.create("by hand")

        for word in ("start", "latest"):
            assert one.get(word).id == one.rollback(word).target.id == mine.id
            assert two.get(word).id == other.id
        assert one.get("latest~1").id == older.id
        assert one.get("by hand").session is None
        with pytest.raises(NotFound, match="session 's1' has 2 checkpoints"):
            one.get("latest~2")


def test_rollback_to_latest_means_the_session(repo: Path, manager: CheckpointManager) -> None:
    with CheckpointManager(repo, session="s1") as session:
        mine = session.create("mine")
        write(repo, "README.md", "edited\n")
        manager.create("newer, of nobody")
        write(repo, "README.md", "edited again\n")

        assert session.rollback_to_latest().target.id == mine.id
        assert (repo / "README.md").read_text() == "# An example\n"
    with CheckpointManager(repo, session="empty") as empty, pytest.raises(NotFound):
        empty.rollback_to_latest()


def test_worktrees_are_apart(repo: Path, tmp_path: Path, manager: CheckpointManager) -> None:
    git("worktree", "add", "-q", str(tmp_path / "linked"))
    mine = manager.create()
    with CheckpointManager(tmp_path / "linked") as linked:
        theirs = linked.create()

        assert [c.id for c in linked] == [theirs.id]
        assert [c.id for c in manager] == [mine.id]
        assert [c.id for c in manager.list(all_worktrees=True)] == [theirs.id, mine.id]


def test_diff_compares_with_the_present_or_with_another(
    repo: Path, manager: CheckpointManager
) -> None:
    one = manager.create()
    write(repo, "README.md", "# An example\nmore\n")
    write(repo, "new", "1\n2\n")
    two = manager.create()
    remove(repo, "new")

    found = manager.diff(one, two)
    assert (found.from_, found.to) == (one.checkpoint, two.checkpoint)
    assert [(f.path, f.status, f.insertions, f.deletions) for f in found.files] == [
        ("README.md", "M", 1, 0),
        ("new", "A", 2, 0),
    ]
    assert (found.stats.files_changed, found.stats.insertions) == (2, 3)
    assert b"+more\n" in found.patch
    now = manager.diff(one)
    assert now.to is None
    assert [f.path for f in now.files] == ["README.md"]
    assert [f.path for f in manager.diff(two, one, paths=["new"]).files] == ["new"]
    assert manager.diff(one, two, patch=False).patch == b""


# Going back


def test_rollback_and_undo_tell_what_they_did(repo: Path, manager: CheckpointManager) -> None:
    write(repo, "gone", "was here\n")
    saved = manager.create(data={"step": 1})
    remove(repo, "gone")
    write(repo, "new", "new\n")
    before = state(repo)

    result = manager.rollback(saved)
    assert result.target == saved.checkpoint
    assert result.safety is not None
    assert result.safety.kind is Kind.SAFETY
    assert (result.written, result.removed) == (("gone",), ("new",))
    assert (result.kept, result.skipped, result.dry_run) == ((), (), False)
    assert result.changed
    assert result.data == {"step": 1}
    assert result.undo_command == "git ckpt undo"
    undone = manager.undo()
    assert undone.target == result.safety
    assert state(repo) == before
    assert fsck(repo) == []


def test_a_dry_run_foresees_exactly_what_is_done(repo: Path, manager: CheckpointManager) -> None:
    saved = manager.create()
    write(repo, "README.md", "edited\n")
    write(repo, "new", "new\n")
    git("add", "new")
    before = state(repo)

    foreseen = manager.rollback(saved, dry_run=True)
    assert state(repo) == before
    done = manager.rollback(saved)

    assert (foreseen.dry_run, foreseen.safety) == (True, None)
    for name in (
        "written",
        "removed",
        "kept",
        "skipped",
        "folders_changed",
        "index_changed",
        "head",
    ):
        assert getattr(foreseen, name) == getattr(done, name)


def test_paths_are_relative_to_the_folder_of_the_manager(repo: Path) -> None:
    with CheckpointManager(repo / "src") as manager:
        saved = manager.create()
        write(repo, "src/app.py", "edited\n")

        assert manager.rollback(saved, ["app.py"]).written == ("src/app.py",)


def test_refusals_are_errors_of_their_own(repo: Path, manager: CheckpointManager) -> None:
    saved = manager.create()
    for number in range(20):
        write(repo, f"new/{number}", "")
    with pytest.raises(Refused, match="20 of 26") as caught:
        manager.rollback(saved)
    assert len(caught.value.details["removed"]) == 20
    assert len(manager.rollback(saved, yes=True).removed) == 20
    write(repo, ".git/index.lock", "")
    with pytest.raises(Busy):
        manager.undo()


def test_undo_without_a_rollback_is_not_found(manager: CheckpointManager) -> None:
    with pytest.raises(NotFound):
        manager.undo()


# Keeping


def test_delete_goes_through_the_trash(manager: CheckpointManager) -> None:
    one, two = manager.create("one"), manager.create("two")

    assert manager.delete(one) == one.checkpoint
    assert [c.id for c in manager] == [two.id]
    assert [item.checkpoint for item in manager.trash()] == [one.checkpoint]
    assert manager.restore_dropped("one") == one.checkpoint
    assert len(manager) == 2
    assert manager.trash() == []


def test_pin_and_unpin_give_the_checkpoint_as_it_is_now(manager: CheckpointManager) -> None:
    saved = manager.create()

    assert manager.pin(saved).pinned
    assert manager.get(saved).pinned
    assert not manager.unpin(saved).pinned
    assert manager.create(pin=True).checkpoint.pinned


# Settings and places


def test_settings_are_given_as_values_or_as_a_mapping(repo: Path) -> None:
    write(repo, "big", b"x" * 5000)
    for settings in (Settings(max_file_size=1000), {"max_file_size": "1k"}):
        with CheckpointManager(repo, settings=settings) as manager:
            found = manager.create().checkpoint
            assert found is not None
            assert [(item.path, item.reason) for item in found.skipped] == [("big", "oversize")]


def test_a_folder_that_is_no_repository_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(CkptError, match="not a git repository") as caught:
        CheckpointManager(tmp_path)

    assert caught.value.hint


def test_an_environment_can_be_passed_instead_of_the_process_s(repo: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "GIT_DIR": str(repo / ".git"), "GIT_WORK_TREE": str(repo)}
    with CheckpointManager(tmp_path, environ=environ) as manager:
        assert manager.create()
    with pytest.raises(Refused):
        CheckpointManager(repo, environ={"HOME": str(repo)})


def test_a_closed_manager_can_be_used_again(repo: Path) -> None:
    manager = CheckpointManager(repo)
    saved = manager.create()
    manager.close()
    git("gc", "-q", "--prune=now")

    assert manager.get(saved) == saved.checkpoint
    manager.close()


def test_a_manager_sees_what_others_do_meanwhile(repo: Path, manager: CheckpointManager) -> None:
    one = manager.create("one")
    with CheckpointManager(repo) as other:
        two = other.create("two")
        assert manager.latest() == two.checkpoint
        other.delete(one)
    git("gc", "-q", "--prune=now")
    write(repo, "README.md", "edited\n")
    three = manager.create("three")

    assert [c.id for c in manager] == [two.id, three.id]
    assert fsck(repo) == []


def test_threads_share_a_manager(repo: Path, manager: CheckpointManager) -> None:
    errors: list[BaseException] = []
    made: list[str | None] = []

    def work(number: int) -> None:
        try:
            for step in range(4):
                write(repo, f"thread {number}", f"{step}\n")
                made.append(manager.create(f"{number}-{step}").id)
                manager.list()
                manager.latest()
                manager.diff("latest")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert len(set(made)) == 24
    assert sorted(c.id for c in manager) == sorted(made)
    assert fsck(repo) == []


def test_everything_public_can_be_imported_from_the_package() -> None:
    for name in ckpt.__all__:
        assert getattr(ckpt, name) is not None


def test_a_manager_that_lives_on_follows_the_configuration(repo: Path) -> None:
    """Git may be told to convert line endings, and settings may come, while it lives."""
    with CheckpointManager(repo) as manager:
        manager.create("first")
        git("config", "core.autocrlf", "true")
        write(repo, "README.md", "one\r\ntwo\r\n")
        write(repo, "ckpt.toml", 'deny = ["notes"]\n')
        write(repo, "notes", "new\n")
        saved = manager.create("second").checkpoint

    assert saved is not None
    assert git("show", f"{saved.ref}:README.md") == "one\ntwo\n"
    assert [item.path for item in saved.skipped] == ["notes"]


# A repository that changes while the manager is open


def test_what_the_disk_refuses_is_an_error_of_ours_too(manager: CheckpointManager) -> None:
    write(Path(manager.repository.worktree), "new", "x\n")
    with failing("write"), pytest.raises(CkptError, match="No space left") as caught:
        manager.create()

    assert isinstance(caught.value, OSError)
    assert (caught.value.errno, caught.value.code) == (28, "failed")
    assert caught.value.hint
    assert manager.create()
