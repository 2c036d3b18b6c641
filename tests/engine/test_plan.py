# SPDX-License-Identifier: MIT
"""What a rollback may touch: the rules that keep people's files, one by one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from byhand import NOWHERE, index, worktree
from byhand import open_repository as opened
from helpers import tree_state
from seam import observed

from ckpt.engine.capture import capture
from ckpt.engine.plan import Plan, make_plan
from ckpt.engine.recorded import Recorded
from ckpt.engine.snapshot import SaveRequest, save
from ckpt.git.index import IndexEntry
from ckpt.git.repository import Repository
from ckpt.git.trees import GITLINK, write_tree
from ckpt.settings.settings import Settings
from ckpt.worktree.write import Worktree


class Scene:
    """A worktree, the checkpoint to go back to, and the plan for that."""

    def __init__(self, repo: Repository) -> None:
        self.repo = repo
        self.top = Path(repo.worktree)
        self.settings = Settings(max_file_size=100)
        self.target: Recorded | None = None

    def put(self, *paths: str, data: str = "x", mode: int = 0o644) -> None:
        for path in paths:
            (self.top / path).parent.mkdir(parents=True, exist_ok=True)
            (self.top / path).write_text(data)
            (self.top / path).chmod(mode)

    def remove(self, *paths: str) -> None:
        for path in paths:
            (self.top / path).unlink()

    def track(self, *paths: str, gitlinks: tuple[str, ...] = ()) -> None:
        """Stage files as they are, and submodules at a commit nobody has."""
        objects = self.repo.objects
        staged = [
            IndexEntry.of(p.encode(), objects.add(b"blob", (self.top / p).read_bytes()), 0o100644)
            for p in paths
        ]
        objects.flush()
        links = [IndexEntry.of(p.encode(), NOWHERE, GITLINK) for p in gitlinks]
        index(Path(self.repo.git_dir), *staged, *links)

    def save(self) -> None:
        made = save(self.repo, self.settings, SaveRequest()).checkpoint
        assert made is not None
        self.target = Recorded(self.repo, made)

    def plan(self, *limits: str, force: tuple[bytes, ...] = (), **options: Any) -> Plan:
        assert self.target is not None
        objects = self.repo.objects.scratch()
        present = capture(self.repo, self.settings, objects, force=force)
        tree = write_tree(objects, present.entries)
        named = tuple(limit.encode() for limit in limits)
        with Worktree(os.fsencode(self.top)) as handle:
            return make_plan(present, tree, self.target, objects, handle, named, **options)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with opened(worktree(tmp_path / "repo")) as repo:
        yield Scene(repo)


def written(plan: Plan) -> list[str]:
    return [os.fsdecode(action.path) for action in plan.writes]


def removed(plan: Plan) -> list[str]:
    return [os.fsdecode(action.path) for action in plan.removals]


def reasons(found: dict[bytes, str]) -> dict[str, str]:
    return {os.fsdecode(path): reason for path, reason in found.items()}


# Differences


def test_an_unchanged_worktree_needs_nothing(scene: Scene) -> None:
    scene.put("a", "deep/b")
    scene.save()
    plan = scene.plan()

    assert plan == Plan()
    assert plan.is_empty


def test_each_difference_is_one_action_in_order(scene: Scene) -> None:
    scene.put("changed", "gone", "same", "deep/gone")
    scene.save()
    scene.put("changed", data="y")
    scene.put("new", "deep/new")
    scene.remove("gone", "deep/gone")
    plan = scene.plan()

    assert written(plan) == ["changed", "deep/gone", "gone"]
    assert removed(plan) == ["deep/new", "new"]
    assert [action.path for action in plan.actions] == sorted(a.path for a in plan.actions)
    assert (plan.kept, plan.blocked) == ({}, {})


def test_an_action_tells_what_was_and_what_shall_be(scene: Scene) -> None:
    scene.put("run", mode=0o750)
    (scene.top / "link").symlink_to("a")
    scene.save()
    scene.put("run", data="y", mode=0o600)
    scene.remove("link")
    link, run = scene.plan().actions

    assert run.before is not None
    assert run.after is not None
    assert (run.before.entry.mode, run.before.permissions) == (0o100644, 0o600)
    assert (run.after.entry.mode, run.after.permissions) == (0o100755, 0o750)
    assert link.before is None
    assert link.after is not None
    assert (link.after.entry.mode, link.after.permissions) == (0o120000, 0)


def test_bits_that_git_does_not_know_are_a_difference(scene: Scene) -> None:
    scene.put("a", "b", "c")
    scene.put("private", mode=0o600)
    scene.save()
    (scene.top / "private").chmod(0o640)
    (action,) = scene.plan().actions

    assert action.path == b"private"
    assert action.before is not None
    assert action.after is not None
    assert action.before.entry == action.after.entry
    assert (action.before.permissions, action.after.permissions) == (0o640, 0o600)


def test_other_usual_bits_are_a_difference_for_every_file(scene: Scene) -> None:
    scene.put("a", "b")
    scene.save()
    for name in ("a", "b"):
        (scene.top / name).chmod(0o664)

    assert written(scene.plan()) == ["a", "b"]


def test_planning_touches_nothing(scene: Scene) -> None:
    scene.put("a", "deep/b", "c/d")
    scene.save()
    scene.put("a", data="y")
    scene.put("new/file")
    scene.remove("c/d")
    before = tree_state(scene.top)
    with observed() as seen:
        assert not scene.plan().is_empty

    assert seen == []
    assert tree_state(scene.top) == before


def test_only_paths_inside_the_limits_are_planned(scene: Scene) -> None:
    scene.put("a", "src/a", "src.txt")
    (scene.top / "src/empty").mkdir()
    scene.save()
    for name in ("a", "src/a", "src.txt"):
        scene.put(name, data="y")
    scene.put("new", "src/new")
    (scene.top / "src/empty").rmdir()
    (scene.top / "other").mkdir()
    plan = scene.plan("src")

    assert written(plan) == ["src/a"]
    assert removed(plan) == ["src/new"]
    assert plan.make_folders == [b"src/empty"]
    assert b"other" not in plan.remove_folders
    assert written(scene.plan("src/a", "a")) == ["a", "src/a"]


# Rule 1: only what the present checkpoint holds may be replaced or removed


def test_an_ignored_file_is_never_removed(scene: Scene) -> None:
    scene.put(".gitignore", data="*.log\n")
    scene.save()
    scene.put("a.log", "new")

    assert removed(scene.plan()) == ["new"]


@pytest.mark.parametrize(
    ("name", "reason"), [(".env", "denied"), ("big", "oversize"), ("debug.log", "ignored")]
)
def test_a_file_that_is_held_nowhere_is_not_replaced(name: str, reason: str, scene: Scene) -> None:
    scene.put(".gitignore", data="")
    scene.put(name, data="small")
    scene.track(name)
    scene.save()
    scene.put(".gitignore", data="*.log\n")
    scene.track(".gitignore")
    scene.put(name, data="precious " * 20)
    plan = scene.plan()

    assert written(plan) == [".gitignore"]
    assert reasons(plan.blocked) == {name: reason}
    assert plan.obstacles == {name.encode()}


def test_what_was_captured_on_request_may_be_replaced(scene: Scene) -> None:
    scene.put("big", data="small")
    scene.save()
    scene.put("big", data="precious " * 20)

    assert written(scene.plan()) == []
    assert written(scene.plan(force=(b"big",))) == ["big"]


def test_a_special_file_is_not_replaced(scene: Scene) -> None:
    scene.put("a")
    scene.save()
    scene.remove("a")
    os.mkfifo(scene.top / "a")

    assert reasons(scene.plan().blocked) == {"a": "special"}


# Rule 2: what the target does not hold because it was left out then is kept


def test_a_file_that_was_ignored_then_is_kept(scene: Scene) -> None:
    scene.put(".gitignore", data="*.log\n")
    scene.put("a.log")
    scene.save()
    scene.put(".gitignore", data="")
    plan = scene.plan()

    assert written(plan) == [".gitignore"]
    assert removed(plan) == []
    assert reasons(plan.kept) == {"a.log": "ignored at the checkpoint"}


def test_a_file_in_a_folder_that_was_ignored_then_is_kept(scene: Scene) -> None:
    scene.put(".gitignore", data="build/\n")
    scene.save()
    scene.put(".gitignore", data="")
    scene.put("build/deep/x")

    assert reasons(scene.plan().kept) == {"build/deep/x": "ignored at the checkpoint"}


def test_the_private_exclude_file_of_then_counts(scene: Scene) -> None:
    exclude = Path(scene.repo.git_dir, "info/exclude")
    exclude.write_text("*.tmp\n")
    scene.put("a.tmp")
    scene.save()
    exclude.write_text("")

    assert reasons(scene.plan().kept) == {"a.tmp": "ignored at the checkpoint"}


def test_a_file_that_was_left_out_then_is_kept(scene: Scene) -> None:
    scene.put("big", data="x" * 200)
    scene.put(".env")
    scene.save()
    scene.track(".env")
    scene.put("big", data="small")

    assert reasons(scene.plan().kept) == {
        "big": "oversize at the checkpoint",
        ".env": "denied at the checkpoint",
    }


def test_a_file_in_a_repository_that_was_nested_then_is_kept(scene: Scene) -> None:
    worktree(scene.top / "lib")
    scene.put("lib/a")
    scene.save()
    (scene.top / "lib/.git/HEAD").unlink()

    assert reasons(scene.plan().kept) == {"lib/a": "nested at the checkpoint"}


def test_a_tracked_file_that_was_deleted_then_is_removed_although_a_pattern_matches(
    scene: Scene,
) -> None:
    scene.put(".gitignore", data="*.log\n")
    scene.put("a.log")
    scene.track("a.log")
    scene.remove("a.log")
    scene.save()
    scene.put("a.log")

    assert removed(scene.plan()) == ["a.log"]


def test_a_file_that_is_given_up_goes_although_it_was_ignored_then(scene: Scene) -> None:
    scene.put(".gitignore", data="*.log\n")
    scene.save()
    scene.put(".gitignore", data="")
    scene.put("a.log", "b.log")
    plan = scene.plan(given_up=frozenset([b"a.log"]))

    assert removed(plan) == ["a.log"]
    assert reasons(plan.kept) == {"b.log": "ignored at the checkpoint"}


# Rule 3: what stands in the way and is held nowhere is left and listed


def test_an_ignored_file_in_place_of_a_folder_stays(scene: Scene) -> None:
    scene.put("a/b", "a/c")
    scene.save()
    scene.remove("a/b", "a/c")
    (scene.top / "a").rmdir()
    scene.put("a", data="precious")
    Path(scene.repo.git_dir, "info/exclude").write_text("a\n")
    plan = scene.plan()

    assert plan.actions == []
    assert reasons(plan.blocked) == {"a/b": "ignored", "a/c": "ignored"}
    assert plan.obstacles == {b"a"}


def test_a_file_that_the_present_holds_makes_way_for_a_folder(scene: Scene) -> None:
    scene.put("a/b")
    scene.save()
    scene.remove("a/b")
    (scene.top / "a").rmdir()
    scene.put("a")
    plan = scene.plan()

    assert removed(plan) == ["a"]
    assert written(plan) == ["a/b"]
    assert plan.blocked == {}


def test_a_folder_makes_way_for_a_file_if_all_in_it_is_held(scene: Scene) -> None:
    scene.put("a")
    scene.save()
    scene.remove("a")
    scene.put("a/b", "a/c/d")
    plan = scene.plan()

    assert written(plan) == ["a"]
    assert removed(plan) == ["a/b", "a/c/d"]
    assert plan.remove_folders == [b"a/c", b"a"]


@pytest.mark.parametrize("is_same", [True, False])
def test_a_file_that_goes_under_a_name_in_other_case_is_not_in_the_way(
    is_same: bool, scene: Scene
) -> None:
    """A hard link stands for a file system on which both names are one."""
    scene.put("README", data="old")
    scene.save()
    scene.remove("README")
    scene.put("readme", data="new")
    if is_same:
        os.link(scene.top / "readme", scene.top / "README")
    else:
        scene.put("README", data="another file")
    Path(scene.repo.git_dir, "info/exclude").write_text("README\n")
    plan = scene.plan()

    assert removed(plan) == ["readme"]
    assert written(plan) == (["README"] if is_same else [])
    assert reasons(plan.blocked) == ({} if is_same else {"README": "ignored"})


def test_a_folder_with_an_ignored_file_stays(scene: Scene) -> None:
    scene.put("a")
    scene.save()
    scene.remove("a")
    scene.put("a/b", "a/deep/precious.log", "a/z.log")
    Path(scene.repo.git_dir, "info/exclude").write_text("*.log\n")
    plan = scene.plan()

    assert written(plan) == []
    assert reasons(plan.blocked) == {"a": "ignored"}
    assert plan.obstacles == {b"a/deep/precious.log", b"a/z.log"}


def test_a_nested_repository_in_the_way_stays(scene: Scene) -> None:
    scene.put("a")
    scene.save()
    scene.remove("a")
    worktree(scene.top / "a")
    scene.put("a/x")
    plan = scene.plan()

    assert plan.actions == []
    assert reasons(plan.blocked) == {"a": "nested"}


def test_nothing_is_written_through_a_link_that_stays(scene: Scene, tmp_path: Path) -> None:
    scene.put("a/b")
    scene.save()
    scene.remove("a/b")
    (scene.top / "a").rmdir()
    (scene.top / "a").symlink_to(tmp_path)
    Path(scene.repo.git_dir, "info/exclude").write_text("a\n")

    assert reasons(scene.plan().blocked) == {"a/b": "ignored"}


def test_a_kept_file_blocks_what_would_need_its_place(scene: Scene) -> None:
    """Ignored at the checkpoint, so kept; a file now, where the checkpoint has a folder."""
    scene.put("a/b")
    scene.put(".gitignore", data="/a\n!/a/\n")
    scene.save()
    scene.remove("a/b", ".gitignore")
    (scene.top / "a").rmdir()
    scene.put("a", data="precious")
    plan = scene.plan()

    assert removed(plan) == []
    assert reasons(plan.kept) == {"a": "ignored at the checkpoint"}
    assert reasons(plan.blocked) == {"a/b": "in the way"}


# Rule 4: submodules are never touched


def test_a_submodule_that_came_or_went_is_kept(scene: Scene) -> None:
    (scene.top / "old").mkdir()
    (scene.top / "same").mkdir()
    scene.track(gitlinks=("old", "same"))
    scene.save()
    (scene.top / "old").rmdir()
    (scene.top / "new").mkdir()
    scene.track(gitlinks=("new", "same"))
    plan = scene.plan()

    assert plan.actions == []
    assert reasons(plan.kept) == {"old": "submodule", "new": "submodule"}


def test_a_submodule_at_another_commit_is_kept(scene: Scene) -> None:
    worktree(scene.top / "sub")
    (scene.top / "sub/.git/HEAD").write_bytes(b"2" * 40 + b"\n")
    scene.track(gitlinks=("sub",))
    scene.save()
    (scene.top / "sub/.git/HEAD").write_bytes(b"3" * 40 + b"\n")

    assert reasons(scene.plan().kept) == {"sub": "submodule"}


def test_a_file_is_not_written_in_place_of_a_submodule(scene: Scene) -> None:
    scene.put("sub")
    scene.save()
    scene.remove("sub")
    worktree(scene.top / "sub")
    scene.track(gitlinks=("sub",))
    plan = scene.plan()

    assert plan.actions == []
    assert reasons(plan.kept) == {"sub": "submodule"}


def test_a_file_is_not_written_into_a_submodule(scene: Scene) -> None:
    scene.put("sub/a")
    scene.save()
    scene.remove("sub/a")
    worktree(scene.top / "sub")
    scene.track(gitlinks=("sub",))
    plan = scene.plan()

    assert plan.actions == []
    assert reasons(plan.kept) == {"sub": "submodule"}
    assert reasons(plan.blocked) == {"sub/a": "submodule"}
    assert plan.obstacles == set()


def test_nothing_is_put_into_a_folder_that_has_become_a_repository(scene: Scene) -> None:
    scene.put("lib/a", "lib/b")
    (scene.top / "lib/empty").mkdir()
    scene.save()
    scene.remove("lib/a", "lib/b")
    (scene.top / "lib/empty").rmdir()
    worktree(scene.top / "lib")
    plan = scene.plan()

    assert plan.is_empty
    assert reasons(plan.blocked) == {"lib/a": "nested", "lib/b": "nested"}


@pytest.mark.parametrize("rule", ["lib/", "lib/a", "*"])
def test_nor_into_one_that_is_ignored_too(rule: str, scene: Scene) -> None:
    scene.put("lib/a")
    (scene.top / "lib/empty").mkdir()
    scene.save()
    scene.remove("lib/a")
    (scene.top / "lib/empty").rmdir()
    worktree(scene.top / "lib")
    (scene.top / ".git/info").mkdir(exist_ok=True)
    (scene.top / ".git/info/exclude").write_text(rule)
    plan = scene.plan()

    assert plan.is_empty
    assert reasons(plan.blocked) == {"lib/a": "nested"}


def test_what_was_captured_on_request_stays_if_a_repository_lies_around_it(scene: Scene) -> None:
    scene.save()
    scene.put("lib/a")
    worktree(scene.top / "lib")
    plan = scene.plan(force=(b"lib/a",))

    assert plan.is_empty
    assert reasons(plan.blocked) == {"lib/a": "nested"}


def test_a_tracked_file_comes_back_although_a_repository_lies_around_it(scene: Scene) -> None:
    scene.put("lib/a")
    scene.track("lib/a")
    worktree(scene.top / "lib")
    scene.save()
    scene.remove("lib/a")

    assert written(scene.plan()) == ["lib/a"]


# Folders


def test_empty_folders_come_and_go(scene: Scene) -> None:
    (scene.top / "old/deep").mkdir(parents=True)
    scene.save()
    (scene.top / "old/deep").rmdir()
    (scene.top / "new/deep").mkdir(parents=True)
    plan = scene.plan()

    assert plan.make_folders == [b"old/deep"]
    assert plan.remove_folders == [b"new/deep", b"new"]
    assert not plan.is_empty


def test_folders_that_removals_leave_empty_go_deepest_first(scene: Scene) -> None:
    scene.put("a")
    scene.save()
    scene.put("new/deep/er/x", "new/y")

    assert scene.plan().remove_folders == [b"new/deep/er", b"new/deep", b"new"]


def test_a_folder_that_is_needed_stays(scene: Scene) -> None:
    scene.put("src/a")
    (scene.top / "empty").mkdir()
    scene.save()
    scene.remove("src/a")
    scene.put("src/b", "empty/c")
    plan = scene.plan()

    assert removed(plan) == ["empty/c", "src/b"]
    assert plan.remove_folders == []


def test_an_empty_folder_that_was_ignored_then_stays(scene: Scene) -> None:
    scene.put(".gitignore", data="build/\n")
    scene.save()
    scene.put(".gitignore", data="")
    (scene.top / "build").mkdir()

    assert scene.plan().remove_folders == []


def test_many_files_in_the_way_are_not_each_compared_with_all_that_go(scene: Scene) -> None:
    """A hundred of each; with a hundred thousand, that would take hours."""
    tracked, new = ([f"{folder}/{n}" for n in range(100)] for folder in ("tracked", "new"))
    scene.put(*tracked)
    scene.track(*tracked)
    scene.save()
    scene.track()
    scene.put(".gitignore", data="tracked/\n")
    scene.put(*tracked, data="other")
    scene.put(*new)
    folded = []

    def note(_: object, event: str, what: object) -> None:
        if event == "c_call" and getattr(what, "__name__", "") == "lower":
            folded.append(what)

    sys.setprofile(note)
    try:
        plan = scene.plan()
    finally:
        sys.setprofile(None)

    assert len(plan.blocked) == len(tracked)
    assert len(plan.removals) == len(new) + 1
    assert len(folded) < 2000
