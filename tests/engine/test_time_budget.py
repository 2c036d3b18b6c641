# SPDX-License-Identifier: MIT
"""A save that has no more time: what is tracked is saved, and what was not reached is listed.

A budget of nothing has run out when it begins, and where the moment matters the clock is the
test's own: nothing here waits, or depends on how fast the machine is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from byhand import open_repository
from helpers import git, tree_state
from saving import committed, content, difference, paths, write_all

from ckpt.disk import worktree_lock
from ckpt.engine import capture as capturing
from ckpt.engine import nested, scan_cache, snapshot
from ckpt.engine.capture import capture
from ckpt.engine.scan_cache import Clock
from ckpt.engine.snapshot import SaveRequest
from ckpt.errors import Busy
from ckpt.git.repository import Repository
from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint, Kind, Outcome, SaveResult
from ckpt.settings.settings import Settings
from ckpt.worktree.cache import Folders
from ckpt.worktree.filters import Filters
from ckpt.worktree.scan import Deadline, ScanRules, scan

TRACKED = {"a": b"first\n", "src/b": b"first\n", "src/deep/c": b"first\n"}
DIRTY = {"a": b"edited\n", "src/deep/c": b"edited too\n"}
NEW = {"new": b"1", "src/new": b"22", "data/x": b"333", "data/in/y": b"4444"}
# What a walk did not get to: files where something is tracked, and the rest as one folder.
UNREACHED = {"new": "budget", "src/new": "budget", "data": "budget"}


@contextmanager
def knowing_nothing(everything: bool) -> Iterator[None]:
    """Saves inside start from git's index, or not even from that, and leave no cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_cache, "load", lambda repo: None)
        patch.setattr(scan_cache, "store", lambda repo, present, holder: None)
        if everything:
            patch.setattr("ckpt.engine.capture._Look._staged_blob", lambda *_: None)
        yield


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return committed(tmp_path / "repo", TRACKED)


@pytest.fixture
def repo(top: Path) -> Iterator[Repository]:
    with open_repository(top) as opened:
        yield opened


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a save looks at counts as old: the next one relies on all that this one keeps."""

    def later(repo: Repository) -> Clock:
        return Clock(1 << 62, os.stat(repo.worktree).st_dev)

    monkeypatch.setattr(scan_cache, "clock", later)


def save(
    repo: Repository, seconds: float | None = None, kind: Kind = Kind.HOOK, **settings: Any
) -> SaveResult:
    return snapshot.save(repo, Settings(**settings), SaveRequest(kind=kind), budget=seconds)


def skipped(checkpoint: Checkpoint | None) -> dict[str, str]:
    assert checkpoint is not None
    return {item.path: item.reason for item in checkpoint.skipped}


def held(result: SaveResult) -> Checkpoint:
    assert result.checkpoint is not None
    return result.checkpoint


@pytest.mark.parametrize("known", ["nothing", "the index", "a cache"])
@pytest.mark.usefixtures("settled")
def test_what_is_tracked_is_saved_and_what_was_not_reached_is_listed(
    known: str, top: Path, repo: Repository
) -> None:
    if known == "a cache":
        save(repo)
    write_all(top, {**DIRTY, **NEW})
    git("rm", "-q", "--cached", "src/b", cwd=top)
    os.unlink(top / "src/b")
    if known == "nothing":
        with knowing_nothing(everything=True):
            result = save(repo, 0)
    else:
        result = save(repo, 0)

    assert (result.outcome, result.reason) == (Outcome.PARTIAL, "budget")
    made = held(result)
    assert made.partial
    assert skipped(made) == UNREACHED
    assert paths(top, made) == {"a", "src/deep/c"}
    assert content(top, made, "a") == b"edited\n"
    assert content(top, made, "src/deep/c") == b"edited too\n"


def test_what_was_read_before_is_kept_though_there_is_no_time(
    top: Path, repo: Repository, settled: None
) -> None:
    write_all(top, NEW)
    save(repo)
    write_all(top, {"data/z": b"newer", "a": b"edited\n"})
    made = held(save(repo, 0))

    assert skipped(made) == {"data/z": "budget"}
    assert paths(top, made) == {*TRACKED, *NEW}
    assert content(top, made, "a") == b"edited\n"


@pytest.mark.parametrize("everything", [False, True])
def test_a_rollback_leaves_alone_what_there_was_no_time_for(
    everything: bool, top: Path, repo: Repository
) -> None:
    write_all(top, {**DIRTY, **NEW})
    (top / "data/hollow").mkdir()
    with knowing_nothing(everything):
        made = held(save(repo, 0))
    write_all(top, {"a": b"worse\n", "data/x": b"changed since", "data/since": b"", "src/new": b""})
    write_all(top, {"elsewhere": b"created since"})
    before = tree_state(top)

    with CheckpointManager(top) as manager:
        result = manager.rollback(made.id)

    assert [*result.removed] == ["elsewhere"]
    assert {item.path: item.reason for item in result.kept} == dict.fromkeys(
        ("new", "src/new", "data/x", "data/since", "data/in/y"), "budget at the checkpoint"
    )
    after = tree_state(top)
    assert after.pop(b"a")[2] == b"edited\n"
    del before[b"a"], before[b"elsewhere"]
    assert after == before


@pytest.mark.usefixtures("settled")
def test_the_next_save_with_time_holds_everything(top: Path, repo: Repository) -> None:
    write_all(top, {**DIRTY, **NEW})
    save(repo, 0)
    again = save(repo, 1 << 30)

    made = held(again)
    assert again.outcome is Outcome.CREATED
    assert not made.partial and skipped(made) == {}
    assert paths(top, made) == {*TRACKED, *NEW}
    with knowing_nothing(everything=True):
        stranger = held(save(repo, kind=Kind.MANUAL))
    assert difference(top, made, stranger) == ""


@pytest.mark.usefixtures("settled")
def test_later_saves_go_on_from_where_the_time_was_up(
    top: Path, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a worktree that takes longer than a hook has would never be saved whole by hooks."""
    read: list[str] = []
    real = capturing.add_stable

    def reader(objects: Any, place: bytes) -> Any:
        read.append(os.path.relpath(os.fsdecode(place), top))
        return real(objects, place)

    monkeypatch.setattr(capturing, "add_stable", reader)
    write_all(top, {**DIRTY, **NEW})
    save(repo, 0)
    read.clear()
    save(repo)

    assert sorted(read) == sorted(NEW)


def test_an_equal_state_that_was_cut_off_is_saved_once_and_a_whole_one_after_it_too(
    top: Path, repo: Repository
) -> None:
    write_all(top, NEW)
    cut, cut_again, whole, whole_again = save(repo, 0), save(repo, 0), save(repo), save(repo)

    assert [cut.outcome, cut_again.outcome] == [Outcome.PARTIAL, Outcome.PARTIAL]
    assert [cut.reason, cut_again.reason] == ["budget", "budget"]
    assert cut_again.id == cut.id
    assert [whole.outcome, whole_again.outcome] == [Outcome.CREATED, Outcome.UNCHANGED]
    assert whole_again.id == whole.id != cut.id
    assert not held(whole).partial


class ReadingTime:
    """A clock that a second passes on with every file that is read."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._now = 0
        self._read = capturing.add_stable
        patch.setattr(capturing, "add_stable", self._reading)

    def __call__(self) -> float:
        return self._now

    def _reading(self, objects: Any, place: bytes) -> Any:
        self._now += 1
        return self._read(objects, place)


def test_the_smallest_files_are_read_first_and_tracked_ones_before_all(
    top: Path, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(top, {"a": b"edited, and longer than all others\n"})
    write_all(top, {"large": b"333", "small": b"1", "data/middle": b"22", "data/largest": b"4444"})
    deadline = Deadline(2.5, ReadingTime(monkeypatch))
    with knowing_nothing(everything=False):
        present = capture(repo, Settings(), repo.objects, deadline=deadline)

    # The index proves the other tracked files; "a" takes the first second.
    assert present.entries.keys() - {path.encode() for path in TRACKED} == {
        b"small",
        b"data/middle",
    }
    assert {p: str(why) for p, why in present.skipped.items()} == {
        b"large": "budget",
        b"data/largest": "budget",
    }
    assert present.is_partial


def test_with_enough_time_a_budget_changes_nothing(top: Path, repo: Repository) -> None:
    write_all(top, {**DIRTY, **NEW})
    result = save(repo, 1 << 30)
    with knowing_nothing(everything=True):
        other = save(repo, kind=Kind.MANUAL)

    assert result.outcome is Outcome.CREATED
    assert difference(top, held(result), held(other)) == ""


def test_what_is_left_out_for_its_number_alone_makes_no_checkpoint_partial(
    top: Path, repo: Repository
) -> None:
    write_all(top, {"src/one": b"1", "src/two": b"22"})
    result = save(repo, 1 << 30, max_new_files=1)

    assert skipped(result.checkpoint) == {"src/two": "budget"}
    assert (result.outcome, held(result).partial) == (Outcome.CREATED, False)


@pytest.mark.parametrize("include", [("local/keep/",), ("local/*/x",)])
def test_an_included_folder_that_was_not_reached_is_listed(
    include: tuple[str, ...], top: Path, repo: Repository
) -> None:
    """Else its files would count as created since, and be removed."""
    write_all(top, {".gitignore": b"local\n", "local/keep/x": b"mine\n"})
    made = held(save(repo, 0, include=include))
    assert skipped(made) == {".gitignore": "budget", "local": "budget"}

    with CheckpointManager(top, settings={"include": list(include)}) as manager:
        result = manager.rollback(made.id)

    assert result.removed == ()
    assert (top / "local/keep/x").read_bytes() == b"mine\n"


def filtered(top: Path) -> None:
    """Give files that end in .x a driver."""
    (top / ".git/info/attributes").write_text("*.x filter=upper\n")
    git("config", "filter.upper.clean", "tr a-z A-Z", cwd=top)


def test_a_tracked_file_is_taken_as_it_is_if_there_is_no_time_for_its_driver(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(top, {"t.x": b"tracked"})
    git("add", "t.x", cwd=top)
    filtered(top)
    write_all(top, {"t.x": b"edited", "u.x": b"untracked"})
    with open_repository(top) as opened:
        with monkeypatch.context() as patch:
            patch.setattr(Filters, "_run", None)  # nothing is started only to be killed
            made = held(save(opened, 0))
        assert skipped(made) == {"u.x": "budget"}
        assert content(top, made, "t.x") == b"edited"
        assert content(top, held(save(opened)), "t.x") == b"EDITED"
    write_all(top, {"t.x": b"worse"})
    with CheckpointManager(top) as manager:
        manager.rollback(made.id)

    assert (top / "t.x").read_bytes() == b"edited"


@pytest.fixture
def around(tmp_path: Path, top: Path) -> Path:
    """A worktree with the other one in it as a submodule."""
    outer = committed(tmp_path / "outer", {"a": b"first\n"})
    allowing = ("-c", "protocol.file.allow=always")
    git(*allowing, "submodule", "--quiet", "add", str(top), "lib", cwd=outer)
    git("commit", "-q", "-m", "lib", cwd=outer)
    return outer


def test_repositories_inside_share_the_time_of_the_one_around_them(around: Path) -> None:
    write_all(around, {"a": b"edited\n", "new": b"", "lib/a": b"edited inside\n", "lib/new": b""})
    with open_repository(around) as repo:
        result = nested.save(repo, Settings(), SaveRequest(kind=Kind.HOOK), budget=0)
    made = held(result)
    (state,) = made.nested

    assert (result.outcome, skipped(made)) == (Outcome.PARTIAL, {"new": "budget"})
    assert (state.path, state.problem) == ("lib", "partial")
    with CheckpointManager(around / "lib") as manager:
        inner = manager.get(state.checkpoint or "")
        assert skipped(inner) == {"new": "budget"}
    assert content(around / "lib", inner, "a") == b"edited inside\n"
    assert state.dirty is None


def test_a_repository_inside_is_compared_while_there_is_time(around: Path) -> None:
    with open_repository(around) as repo:
        assert [state.dirty for state in held(save(repo, 1 << 30)).nested] == [False]
        assert [state.dirty for state in held(save(repo, 0)).nested] == [None]


def test_the_lock_is_waited_for_no_longer_than_the_time(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = []

    def lock(private_dir: str, *, exclusive: bool, timeout: float) -> Any:
        patience.append(timeout)
        return worktree_lock(private_dir, exclusive=exclusive, timeout=timeout)

    monkeypatch.setattr(snapshot, "worktree_lock", lock)
    with worktree_lock(repo.private_dir, exclusive=True, timeout=0), pytest.raises(Busy):
        save(repo, 0)
    save(repo)

    assert patience == [0, snapshot.LOCK_TIMEOUT]


def test_a_folder_counts_as_tracked_under_any_case_where_case_does_not_count(
    tmp_path: Path,
) -> None:
    write_all(tmp_path, {"Src/a": b"", "new/b": b""})
    rules = ScanRules(tracked=(b"SRC/a",), ignore_case=True)
    place, folders = os.fsencode(tmp_path), Folders({})
    found = scan(place, folders, lambda: rules, lambda _: False, deadline=Deadline(0))

    assert [*found.files] == [b"Src/a"]
    assert folders.notes() == {"skipped": {b"new": b"budget"}}


def test_a_deadline_is_over_at_its_moment_and_nothing_is_left_after_it() -> None:
    now = 10.0
    deadline = Deadline(2, lambda: now)
    assert (deadline.is_over, deadline.left()) == (False, 2)
    now = 12.0
    assert (deadline.is_over, deadline.left()) == (True, 0)
    now = 13.0
    assert (deadline.is_over, deadline.left()) == (True, 0)
