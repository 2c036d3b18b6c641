# SPDX-License-Identifier: MIT
"""No checkpoint lacks an object, though the save found it unnecessary to write.

What an earlier checkpoint or git's index names is not looked up. Here these let go of it, and
git prunes at once: before the save, between its scan and its ref, and right after.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers import fsck, git, tree_state, verified
from saving import Saver, committed, content, lose_all_checkpoints, prune, write_all

from ckpt.engine import rollback, snapshot
from ckpt.git.objects import ObjectStore
from ckpt.git.refs import Refs
from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint

FILES = {"a": b"a\n", "d/x": b"x\n", "d/e/y": b"y\n", "k/z": b"z\n"}
EDITED = {"d/x": b"edited\n", "d/e/new": b"new\n", "fresh/file": b"fresh\n"}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return committed(tmp_path / "work", FILES)


@pytest.fixture
def saver(top: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Saver]:
    saver = Saver(top, monkeypatch)
    yield saver
    saver.close()


def check(saver: Saver, saved: Checkpoint) -> None:
    """Nothing is missing, now or after another gc, and all of it comes back."""
    for _ in range(2):
        assert fsck(saver.top) == []
        assert verified(saver.top) == []
        assert saved.id in {found.id for found in saver.manager.list()}
        prune(saver.top)
    state = tree_state(saver.top)
    for path in saver.top.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    saver.manager.rollback(saved.id, yes=True)
    assert tree_state(saver.top) == state


class Once:
    """Does something before the first call of a method, and never again."""

    def __init__(self, owner: object, name: str, act: Callable[[], None]) -> None:
        self.is_done = False
        self._patch = pytest.MonkeyPatch()
        self._called = getattr(owner, name)
        self._act = act
        self._patch.setattr(owner, name, self._instead())

    def _instead(self) -> Callable[..., object]:
        def instead(*words: object, **options: object) -> object:
            if not self.is_done:
                self.is_done = True
                self._act()
            return self._called(*words, **options)

        return instead

    def __enter__(self) -> Once:
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()
        assert self.is_done


# Where the save is when it happens: all is scanned, all is durable.
MOMENTS = [(ObjectStore, "flush"), (Refs, "create")]
NAMES = ["before the objects", "before the ref"]
# What the index names is compared before anything is written.
COMPARING = (snapshot, "summarise")


@pytest.mark.parametrize("lives_on", [True, False])
def test_the_same_state_is_saved_again_when_all_checkpoints_of_it_are_gone(
    saver: Saver, lives_on: bool
) -> None:
    write_all(saver.top, EDITED)
    first = saver.settle()
    lose_all_checkpoints(saver.top)
    assert git("cat-file", "--batch-check", cwd=saver.top, stdin=first.tree).endswith("missing\n")
    if not lives_on:
        saver.start_anew()
    saved = saver.save()

    assert saved.tree == first.tree
    check(saver, saved)


def test_dropped_by_ckpt_and_gone_from_the_trash(saver: Saver) -> None:
    write_all(saver.top, EDITED)
    for _ in range(3):
        saver.settle()
        for found in saver.manager.list():
            saver.manager.delete(found.id)
        lose_all_checkpoints(saver.top)
        write_all(saver.top, {"a": b"a %d\n" % time.time_ns()})
        saved = saver.save()

    check(saver, saved)


@pytest.mark.parametrize("lost", ["d/e/new", "d/e", "d", "fresh", "d/x"])
@pytest.mark.parametrize("lives_on", [True, False])
def test_what_a_broken_disk_took_is_written_again_from_the_files(
    saver: Saver, lost: str, lives_on: bool
) -> None:
    write_all(saver.top, EDITED)
    first = saver.settle()
    name = git("rev-parse", f"{first.commit}:{lost}", cwd=saver.top).strip()
    (saver.top / ".git/objects" / name[:2] / name[2:]).unlink()
    assert verified(saver.top) != []
    if not lives_on:
        saver.start_anew()
    saved = saver.save(check=False)

    assert saved.tree == first.tree
    check(saver, saved)


@pytest.mark.parametrize("most", [1, 3])
def test_of_many_files_a_part_is_looked_for_each_time(
    saver: Saver, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_MOST_LOOKED_FOR", most)
    write_all(saver.top, {f"new/{number}": b"%d\n" % number for number in range(5)})
    first = saver.settle()
    name = git("rev-parse", f"{first.commit}:new/3", cwd=saver.top).strip()
    (saver.top / ".git/objects" / name[:2] / name[2:]).unlink()
    while verified(saver.top) != []:
        saver.save(check=False)


@pytest.mark.parametrize("moment", MOMENTS, ids=NAMES)
@pytest.mark.parametrize("lives_on", [True, False])
def test_the_checkpoint_that_was_relied_on_goes_while_the_next_is_made(
    saver: Saver, moment: tuple[type, str], lives_on: bool
) -> None:
    write_all(saver.top, EDITED)
    saver.settle()
    time.sleep(1.1)  # then also what is in the index is taken over without a look
    write_all(saver.top, {"a": b"a 2\n"})
    if not lives_on:
        saver.start_anew()
    with Once(*moment, lambda: lose_all_checkpoints(saver.top)):
        saved = saver.save(check=False)

    assert content(saver.top, saved, "d/e/new") == b"new\n"
    check(saver, saved)


# Where a rollback is: the present is known, and about to be held, written and named.
SECURING = [(rollback, "hold_changing"), (rollback, "prove_changing"), *MOMENTS]


@pytest.mark.parametrize("moment", SECURING, ids=["held", "proved", "written", "named"])
@pytest.mark.parametrize("is_edited", [True, False])
def test_the_checkpoint_that_was_relied_on_goes_before_a_rollback_begins(
    saver: Saver, moment: tuple[object, str], is_edited: bool
) -> None:
    target = saver.save()
    write_all(saver.top, {**EDITED, "a": b"wrecked\n"})
    saver.settle()
    time.sleep(1.1)

    def lose_others() -> None:
        if is_edited:
            write_all(saver.top, {"a": b"wrecked again\n"})
        git("update-ref", "refs/keep", target.commit, cwd=saver.top)
        lose_all_checkpoints(saver.top)
        git("update-ref", f"refs/checkpoints/{target.id}", target.commit, cwd=saver.top)

    with Once(*moment, lose_others):
        gone = saver.manager.rollback(target.id, paths=["a"])

    assert (saver.top / "a").read_bytes() == b"a\n"
    assert gone.safety is not None
    assert content(saver.top, gone.safety, "d/e/new") == b"new\n"
    saver.manager.undo()
    assert (saver.top / "a").read_bytes() == (b"wrecked again\n" if is_edited else b"wrecked\n")
    check(saver, gone.safety)


@pytest.mark.parametrize("lost", ["fresh/file", "fresh", "d/e/new", "d/e", "d", "d/x"])
@pytest.mark.parametrize("is_edited", [True, False])
def test_what_a_broken_disk_took_before_a_rollback_is_written_again_from_the_files(
    saver: Saver, lost: str, is_edited: bool
) -> None:
    target = saver.save()
    write_all(saver.top, {**EDITED, "a": b"wrecked\n"})
    first = saver.settle()
    name = git("rev-parse", f"{first.commit}:{lost}", cwd=saver.top).strip()

    def lose() -> None:
        (saver.top / ".git/objects" / name[:2] / name[2:]).unlink()
        if is_edited:
            write_all(saver.top, {"a": b"wrecked again\n"})

    with Once(rollback, "hold_changing", lose):
        gone = saver.manager.rollback(target.id, paths=["a"])

    assert gone.safety is not None
    assert content(saver.top, gone.safety, "fresh/file") == b"fresh\n"
    saver.manager.undo()
    assert (saver.top / "a").read_bytes() == (b"wrecked again\n" if is_edited else b"wrecked\n")
    check(saver, saver.save(check=False))


@pytest.mark.parametrize("moment", MOMENTS, ids=NAMES)
def test_objects_that_nobody_held_any_more_go_while_they_are_used_again(
    saver: Saver, moment: tuple[type, str]
) -> None:
    write_all(saver.top, EDITED)
    saver.save()
    refs = git("for-each-ref", "--format=delete %(refname)", "refs/checkpoints", cwd=saver.top)
    git("update-ref", "--stdin", cwd=saver.top, stdin=refs)
    write_all(saver.top, {"a": b"a 2\n"})
    with Once(*moment, lambda: prune(saver.top)):
        saved = saver.save(check=False)

    check(saver, saved)


def reset_and_prune(top: Path) -> None:
    git("reset", "-q", cwd=top)
    prune(top)


def empty_and_prune(top: Path) -> None:
    git("read-tree", "--empty", cwd=top)
    prune(top)


@pytest.mark.parametrize("moment", [*MOMENTS, COMPARING], ids=[*NAMES, "before they are compared"])
@pytest.mark.parametrize("forget", [reset_and_prune, empty_and_prune])
@pytest.mark.parametrize("has_trees", [True, False])
def test_the_index_that_a_first_save_went_by_lets_go(
    saver: Saver, moment: tuple[object, str], forget: Callable[[Path], None], has_trees: bool
) -> None:
    """What was staged and never committed is held by the index alone."""
    write_all(saver.top, EDITED)
    git("add", "-A", cwd=saver.top)
    if has_trees:
        git("write-tree", cwd=saver.top)
    time.sleep(0.05)
    with Once(*moment, lambda: forget(saver.top)):
        saved = saver.save(check=False)

    assert content(saver.top, saved, "d/x") == b"edited\n"
    check(saver, saved)


@pytest.mark.parametrize("moment", [*MOMENTS, COMPARING], ids=[*NAMES, "before they are compared"])
@pytest.mark.parametrize("forget", [reset_and_prune, empty_and_prune])
def test_the_index_that_a_later_save_went_by_lets_go(
    saver: Saver, moment: tuple[object, str], forget: Callable[[Path], None]
) -> None:
    saver.settle()
    write_all(saver.top, EDITED)
    git("add", "-A", cwd=saver.top)
    git("write-tree", cwd=saver.top)
    time.sleep(0.05)
    with Once(*moment, lambda: forget(saver.top)):
        saved = saver.save(check=False)

    assert content(saver.top, saved, "d/x") == b"edited\n"
    check(saver, saved)


def test_what_is_only_staged_is_held_by_the_next_checkpoint(saver: Saver) -> None:
    """Its index is known, so that it is not written anew; an edit hides the staged content."""
    saver.settle()
    write_all(saver.top, {"d/x": b"staged\n"})
    git("add", "d/x", cwd=saver.top)
    write_all(saver.top, {"d/x": b"edited\n"})
    saver.settle()
    saved = saver.save()
    git("reset", "-q", cwd=saver.top)
    prune(saver.top)

    assert fsck(saver.top) == []
    assert verified(saver.top) == []
    assert git("show", f"{saved.state_commit}:index/d/x", cwd=saver.top) == "staged\n"


def test_a_pinned_holder_is_still_the_same(saver: Saver) -> None:
    """Pinning writes the commit anew; what it holds is what it held."""
    write_all(saver.top, EDITED)
    held = saver.settle()
    for found in saver.manager.list():
        saver.manager.delete(found.id) if found.id != held.id else saver.manager.pin(found.id)
    git("gc", "-q", "--prune=now", cwd=saver.top)
    saved = saver.save()

    assert saver.read == []
    check(saver, saved)


def test_a_living_process_notices_what_others_did(saver: Saver) -> None:
    write_all(saver.top, EDITED)
    saver.settle()
    git_dir = saver.top / ".git"
    write_all(saver.top, {"d/x": b"by another\n"})
    with CheckpointManager(saver.top) as other:
        other.create()
    lose_all_checkpoints(saver.top)
    shutil.rmtree(git_dir / "ckpt")
    write_all(saver.top, {"d/x": b"once more\n"})
    saved = saver.save()

    assert content(saver.top, saved, "d/x") == b"once more\n"
    check(saver, saved)
