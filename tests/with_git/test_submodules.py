# SPDX-License-Identifier: MIT
"""Submodules and other repositories inside the worktree: noted, left alone, or taken along."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from byhand import locked_half_way
from faults.rollbacks import Look, leftovers, look, repositories
from helpers import Ran, fsck, git, loose_object
from helpers import ckpt as ckpt_apart
from helpers import ckpt_here as ckpt
from scenes import State, remove, unprivileged, write

from ckpt import CheckpointManager, SaveResult
from ckpt.engine import snapshot
from ckpt.engine.nested import open_nested
from ckpt.errors import Refused
from ckpt.git.objects import ObjectsPruned
from ckpt.git.repository import Repository

LOCAL = ("-c", "protocol.file.allow=always")


@pytest.fixture
def top(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A project with the submodule `lib`, in which there is the submodule `deep`."""
    made = tmp_path_factory.getbasetemp() / "submodules"
    if not made.exists():  # once for all tests: it takes a second
        lib = new(made / "lib")
        add_submodule(lib, new(made / "deep"))
        add_submodule(new(made / "project"), lib)
    project = tmp_path / "project"
    shutil.copytree(made / "project", project, symlinks=True)
    monkeypatch.chdir(project)
    return project


def new(top: Path) -> Path:
    top.mkdir(parents=True)
    git("init", "-q", cwd=top)
    write(top, "file", f"file of {top.name}\n")
    write(top, ".gitignore", "*.log\n")
    git("add", "--all", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)
    return top


def add_submodule(top: Path, source: Path) -> Path:
    git(*LOCAL, "submodule", "-q", "add", str(source), source.name, cwd=top)
    git(*LOCAL, "submodule", "-q", "update", "--init", "--recursive", cwd=top)
    git("commit", "-q", "-m", source.name, cwd=top)
    for place in repositories(top)[1:]:
        git("checkout", "-q", "-B", "main", cwd=place)
    return top / source.name


def save(top: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = ckpt("save", "--json", *words, cwd=top, code=0).json["checkpoint"]
    return found


def nested(top: Path, *words: str) -> dict[str, dict[str, Any]]:
    return {state["path"]: state for state in save(top, *words)["nested"]}


def dirty(top: Path, path: str = "lib") -> bool | None:
    answer: bool | None = nested(top)[path]["dirty"]
    return answer


def commit(top: Path, text: str) -> None:
    write(top, "file", text)
    git("commit", "-q", "-a", "-m", text, cwd=top)


def disturb(top: Path) -> None:
    """Something of every kind, in all three repositories."""
    lib, deep = top / "lib", top / "lib/deep"
    commit(deep, "committed\n")
    write(deep, "untracked", "new\n")
    git("switch", "-q", "-c", "topic", cwd=lib)
    git("add", "deep", cwd=lib)
    commit(lib, "committed\n")
    write(lib, "file", "edited\n")
    git("add", "lib", cwd=top)
    write(top, "file", "edited\n")


def there(look: Look) -> Look:
    """Without the names of other branches: a rollback takes none away; nor what git dirs hold
    that lie in the worktree."""
    inside = tuple(map(there, look.submodules))
    files = {path: file for path, file in look.state.files.items() if b"/.git/" not in path}
    state = State(files, look.state.status, look.state.index)
    return Look(state, look.head, "", look.operation, inside)


# -- what is known of them ------------------------------------------------------------


def test_a_submodule_is_noted_with_its_head_and_branch_and_a_clean_one_is_clean(top: Path) -> None:
    state = nested(top)["lib"]

    assert state == {
        "path": "lib",
        "commit_hash": git("rev-parse", "HEAD", cwd=top / "lib").strip(),
        "branch": "main",
        "dirty": False,
        "checkpoint": None,
        "problem": None,
    }


def edit(top: Path) -> None:
    write(top, "lib/file", "edited\n")


def edit_in_the_same_size(top: Path) -> None:
    write(top, "lib/file", "FILE of lib\n")


def stage(top: Path) -> None:
    edit(top)
    git("add", "file", cwd=top / "lib")
    write(top, "lib/file", "file of lib\n")


def edit_deeper(top: Path) -> None:
    write(top, "lib/deep/file", "edited\n")


def commit_deeper(top: Path) -> None:
    commit(top / "lib/deep", "more\n")


def remove_deeper(top: Path) -> None:
    remove(top, "lib/deep")


def add_secret(top: Path) -> None:
    write(top, "lib/.env", "denied to checkpoints, untracked to git\n")


def add_repository(top: Path) -> None:
    new(top / "lib/other")


def touch(top: Path) -> None:
    os.utime(top / "lib/file", (1, 1))


def ignore(top: Path) -> None:
    write(top, "lib/out.log", "ignored\n")


def empty(top: Path) -> None:
    (top / "lib/hollow").mkdir()


def assume(top: Path) -> None:
    git("update-index", "--assume-unchanged", "file", cwd=top / "lib")
    edit(top)


def convert(top: Path) -> None:
    write(top / "lib", ".gitattributes", "file text eol=crlf\n")
    git("add", "--all", cwd=top / "lib")
    git("commit", "-q", "-m", "crlf", cwd=top / "lib")
    git("add", "lib", cwd=top)
    remove(top, "lib/file")
    git("checkout", "-q", "file", cwd=top / "lib")
    touch(top)
    assert (top / "lib/file").read_bytes() == b"file of lib\r\n"


def deinit_deeper(top: Path) -> None:
    git("submodule", "-q", "deinit", "-f", "deep", cwd=top / "lib")


CHANGES: list[Callable[[Path], None]] = [
    edit,
    edit_in_the_same_size,
    stage,
    edit_deeper,
    commit_deeper,
    remove_deeper,
    add_secret,
    add_repository,
    touch,
    ignore,
    empty,
    assume,
    convert,
    deinit_deeper,
    lambda top: write(top, "lib/new", "untracked\n"),
    lambda top: write(top, "lib/deep/new", "untracked\n"),
    lambda top: remove(top, "lib/file"),
    lambda top: (top / "lib/file").chmod(0o755),
    lambda top: commit(top / "lib", "more\n"),
    lambda top: git("add", "-N", write_new(top), cwd=top / "lib") and None,
]


def write_new(top: Path) -> str:
    write(top, "lib/intended", "new\n")
    return "intended"


@pytest.mark.parametrize("change", CHANGES)
def test_a_submodule_is_dirty_exactly_when_git_says_so(
    change: Callable[[Path], None], top: Path
) -> None:
    change(top)

    found = dirty(top)
    status = git("--no-optional-locks", "status", "--porcelain=v2", "lib", cwd=top)
    submodule = re.search(r" S([C.])([M.])([U.]) ", status)
    assert found == (submodule is not None and set(submodule.groups()) != {"."})


def test_a_submodule_is_dirty_by_a_change_that_git_is_told_to_overlook(top: Path) -> None:
    git("config", "core.trustCtime", "false", cwd=top / "lib")
    write(top, "lib/timed", "old\n")
    os.utime(top / "lib/timed", (1_600_000_000, 1_600_000_000))
    git("add", "timed", cwd=top / "lib")
    git("commit", "-q", "-m", "timed", cwd=top / "lib")
    git("add", "lib", cwd=top)
    assert dirty(top) is False

    (top / "lib/timed").write_text("new\n")
    os.utime(top / "lib/timed", (1_600_000_000, 1_600_000_000))

    assert dirty(top) is True


def test_no_command_of_a_submodule_is_run_to_find_out_whether_it_is_dirty(top: Path) -> None:
    """A filter driver could tell; without it the answer stays open."""
    lib = top / "lib"
    write(lib, ".gitattributes", "file filter=upper\n")
    git("config", "filter.upper.clean", "tr a-z A-Z", cwd=lib)
    git("add", "--all", "--renormalize", cwd=lib)
    git("add", "--all", cwd=lib)
    git("commit", "-q", "-m", "filtered", cwd=lib)
    git("add", "lib", cwd=top)
    git("config", "filter.upper.clean", f"touch {top}/ran; tr a-z A-Z", cwd=lib)
    touch(top)

    assert dirty(top) is None
    assert not (top / "ran").exists()


def test_a_submodule_with_more_files_than_are_looked_at_is_not_compared(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpt.engine.nested.MOST_FILES", 1)

    state = nested(top)["lib"]

    assert (state["branch"], state["dirty"]) == ("main", None)


def test_a_save_that_has_to_be_tried_again_takes_the_repositories_inside_along_again(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one beside `git gc --prune=now` has."""
    write_within, tried = snapshot._write, []

    def pruned_once(repo: Repository, *rest: Any) -> SaveResult:
        tried.append(os.path.basename(repo.worktree))
        if tried.count(tried[-1]) == 1:
            raise ObjectsPruned
        return write_within(repo, *rest)

    monkeypatch.setattr(snapshot, "_write", pruned_once)
    disturb(top)
    found = save(top, "--recurse")

    assert {"project", "lib", "deep"} <= {*tried}
    assert [state["problem"] for state in found["nested"]] == [None]
    assert not found["partial"]


def test_saving_writes_nothing_into_a_submodule(top: Path) -> None:
    touch(top)
    git_dir = top / ".git/modules/lib"
    before = {path: path.lstat().st_mtime_ns for path in git_dir.rglob("*")}

    save(top)

    assert {path: path.lstat().st_mtime_ns for path in git_dir.rglob("*")} == before


def test_a_trigger_saves_anew_when_a_submodule_has_become_dirty(top: Path) -> None:
    first = ckpt("save", "--json", "--kind", "auto", cwd=top, code=0).json
    again = ckpt("save", "--json", "--kind", "auto", cwd=top, code=0).json
    edit(top)
    later = ckpt("save", "--json", "--kind", "auto", cwd=top, code=0).json

    assert [first["outcome"], again["outcome"], later["outcome"]] == [
        "created",
        "unchanged",
        "created",
    ]


def test_a_trigger_is_content_with_a_checkpoint_that_has_the_submodules_too(top: Path) -> None:
    whole = save(top, "--recurse")

    found = ckpt("save", "--json", "--kind", "auto", cwd=top, code=0).json

    assert (found["outcome"], found["checkpoint"]["id"]) == ("unchanged", whole["id"])


def test_an_unborn_submodule_has_no_commit(top: Path) -> None:
    git("checkout", "-q", "--orphan", "fresh", cwd=top / "lib")

    state = nested(top)["lib"]

    assert (state["commit_hash"], state["branch"], state["dirty"]) == (None, "fresh", True)


def test_a_folder_of_a_submodule_that_is_not_initialised_is_no_repository(top: Path) -> None:
    git("submodule", "-q", "deinit", "-f", "lib", cwd=top)

    assert nested(top, "--recurse") == {}
    assert ckpt("rollback", "--recurse", cwd=top, code=0)


def test_a_damaged_submodule_is_noted_and_the_checkpoint_taken(top: Path) -> None:
    write(top, ".git/modules/lib/index", "no index")

    assert dirty(top) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_submodule_of_another_owner_is_noted_and_not_opened(top: Path) -> None:
    os.chown(top / "lib", 12345, -1)

    state = nested(top)["lib"]
    assert (state["commit_hash"], state["dirty"]) == (None, None)
    found = ckpt("save", "--json", "--recurse", cwd=top, code=0).json
    assert found["outcome"] == "partial"
    assert "dubious ownership" in found["checkpoint"]["nested"][0]["problem"]


@pytest.mark.parametrize("elsewhere", ["..", "../.."])
def test_a_repository_whose_work_tree_is_elsewhere_is_not_opened(elsewhere: str, top: Path) -> None:
    other = new(top / "other")
    git("config", "core.worktree", f"../{elsewhere}", cwd=other)

    state = nested(top, "--recurse")["other"]

    assert (state["dirty"], state["checkpoint"]) == (None, None)
    assert "another work tree" in state["problem"]


def test_a_folder_with_the_git_dir_of_the_worktree_around_it_is_not_opened(top: Path) -> None:
    write(top, "odd/.git", "gitdir: ../.git\n")

    state = nested(top, "--recurse")["odd"]

    assert (state["dirty"], state["checkpoint"]) == (None, None)


# -- untracked repositories ------------------------------------------------------------


def test_an_untracked_repository_is_noted_and_never_entered_nor_removed(top: Path) -> None:
    before = save(top)
    other = new(top / "other")
    write(other, "file", "edited\n")
    wanted = look(top)

    assert nested(top)["other"]["dirty"] is True
    rolled = ckpt("rollback", "--json", before["id"], cwd=top, code=0).json
    assert rolled["nested"] == []
    assert look(top) == wanted
    assert not (other / ".git/ckpt").exists()


def test_an_untracked_repository_that_is_gone_is_listed_and_not_taken_for_restored(
    top: Path,
) -> None:
    new(top / "other")
    target = save(top, "--recurse")["id"]
    shutil.rmtree(top / "other")

    ran = ckpt("rollback", target, cwd=top, code=0)
    elsewhere = ckpt("rollback", target, "--", "file", cwd=top, code=0)

    assert ran.stdout.startswith("Nothing to do: all else is as in checkpoint")
    assert "kept other (repository that is not there any more)\n" in ran.stdout
    assert "--recurse" not in ran.stderr  # which would be refused
    assert "other" not in elsewhere.stdout


def test_one_that_is_gone_and_was_not_saved_is_listed_among_those_taken_along(top: Path) -> None:
    write(new(top / "other"), ".git/index", "no index")
    target = save(top, "--recurse")["id"]
    shutil.rmtree(top / "other")

    rolled = ckpt("rollback", "--json", "--recurse", target, cwd=top, code=0).json

    assert rolled["kept"] == [
        {"path": "other", "reason": "repository that is not there any more"},
    ]


def test_a_submodule_that_was_initialised_and_is_not_is_listed(top: Path) -> None:
    target = save(top)["id"]
    git("submodule", "-q", "deinit", "-f", "lib", cwd=top)

    rolled = ckpt("rollback", "--json", target, cwd=top, code=0).json

    assert rolled["kept"] == [{"path": "lib", "reason": "submodule"}]


def test_an_untracked_repository_is_saved_and_put_back_with_recurse(top: Path) -> None:
    other = new(top / "other")
    write(other, "file", "edited\n")
    wanted = there(look(top))
    saved = nested(top, "--recurse")
    git("reset", "-q", "--hard", cwd=other)

    ckpt("rollback", "--recurse", cwd=top, code=0)

    assert there(look(top)) == wanted
    assert saved["other"]["checkpoint"] is not None


# -- with --recurse --------------------------------------------------------------------


def test_every_submodule_gets_a_checkpoint_of_its_own_that_is_linked_by_id(top: Path) -> None:
    edit_deeper(top)

    linked = nested(top, "both", "--recurse", "--pin", "--session", "s")["lib"]["checkpoint"]

    inside = ckpt("show", "--json", linked, cwd=top / "lib", code=0).json["checkpoint"]
    assert (inside["name"], inside["session"], inside["pinned"]) == ("both", "s", True)
    deepest = inside["nested"][0]
    assert (deepest["path"], deepest["dirty"]) == ("deep", True)
    found = ckpt("show", "--json", deepest["checkpoint"], cwd=top / "lib/deep", code=0).json
    assert found["checkpoint"]["git_state"]["dirty_files"] == [{"path": "file"}]


def test_a_checkpoint_with_submodules_is_unchanged_as_a_whole(top: Path) -> None:
    words = ("save", "--json", "--recurse", "--kind", "auto")
    first = ckpt(*words, cwd=top, code=0).json
    again = ckpt(*words, cwd=top, code=0).json
    edit_deeper(top)
    later = ckpt(*words, cwd=top, code=0).json

    assert again["outcome"] == "unchanged"
    assert again["checkpoint"]["nested"] == first["checkpoint"]["nested"]
    assert later["outcome"] == "created"


@pytest.mark.parametrize("through", ["command", "API"])
def test_all_go_back_together_and_each_has_an_undo_of_its_own(through: str, top: Path) -> None:
    edit_deeper(top)
    write(top, "lib/out.log", "ignored\n")
    wanted = there(look(top))
    target = save(top, "--recurse")["id"]
    disturb(top)
    disturbed = there(look(top))

    if through == "command":
        report = ckpt("rollback", "--json", target, "--recurse", cwd=top, code=0).json
        inner = report["nested"][0]
        assert (inner["path"], inner["written"]) == ("lib", [{"path": "file"}])
        assert (inner["nested"][0]["path"], inner["undo"]) == ("deep", "git -C lib ckpt undo")
    else:
        with CheckpointManager(top) as manager:
            result = manager.rollback(target, recurse=True)
        assert [inside.path for inside in result.nested] == ["lib"]
        assert result.nested[0].result.written == ("file",)
    assert there(look(top)) == wanted
    for expected in (disturbed, wanted):
        for place in ("lib/deep", "lib", "."):
            ckpt("undo", cwd=top / place, code=0)
        assert there(look(top)) == expected
    assert leftovers(top) == []
    assert [line for place in repositories(top) for line in fsck(place)] == []


def test_undo_takes_away_what_the_rollback_put_into_a_submodule_also_where_ignored(
    top: Path,
) -> None:
    write(top, "lib/note.txt", "untracked\n")
    save(top, "--recurse")
    remove(top, "lib/note.txt")
    write(top, ".git/modules/lib/info/exclude", "note.txt\n")
    ckpt("rollback", "--recurse", cwd=top, code=0)
    assert (top / "lib/note.txt").exists()

    ckpt("undo", cwd=top / "lib", code=0)

    assert not (top / "lib/note.txt").exists()


def test_undo_in_a_submodule_takes_back_that_submodule_alone(top: Path) -> None:
    save(top, "--recurse")
    disturb(top)
    ckpt("rollback", "--recurse", cwd=top, code=0)

    ckpt("undo", cwd=top / "lib/deep", code=0)

    assert (top / "lib/deep/file").read_text() == "committed\n"
    assert (top / "lib/file").read_text() == "file of lib\n"


def test_a_dry_run_tells_of_every_submodule_and_touches_none(top: Path) -> None:
    target = save(top, "--recurse")["id"]
    disturb(top)
    before = look(top)

    told = ckpt("rollback", target, "--recurse", "--dry-run", cwd=top, code=0).stdout
    report = ckpt("rollback", "--json", target, "--recurse", "--dry-run", cwd=top, code=0).json

    assert look(top) == before
    assert "\nIn lib:\n  Would roll back" in told and "\n  In deep:\n    Would roll back" in told
    assert report["nested"][0]["nested"][0]["removed"] == [{"path": "untracked"}]
    assert report["nested"][0]["safety"] is None


def test_without_recurse_a_submodule_stays_and_the_report_says_how_to_take_it_along(
    top: Path,
) -> None:
    target = save(top, "--recurse")["id"]
    disturb(top)
    inside = look(top / "lib")

    ran = ckpt("rollback", target, cwd=top, code=0)

    assert look(top / "lib") == inside
    assert "kept lib (submodule)" in ran.stdout
    assert f"git ckpt rollback {target} --recurse" in ran.stderr


def test_without_recurse_a_submodule_with_changes_is_listed_though_its_head_is_the_same(
    top: Path,
) -> None:
    new(top / "other")
    target = save(top, "--recurse")["id"]

    unchanged = ckpt("rollback", "--json", target, cwd=top, code=0).json
    edit(top)
    write(top, "other/file", "edited\n")
    changed = ckpt("rollback", "--json", target, cwd=top, code=0).json
    elsewhere = ckpt("rollback", "--json", target, "--", "file", cwd=top, code=0).json

    assert (unchanged["kept"], elsewhere["kept"]) == ([], [])
    assert changed["kept"] == [
        {"path": "lib", "reason": "submodule"},
        {"path": "other", "reason": "nested"},
    ]


def test_a_submodule_that_was_clean_and_is_not_is_listed_though_nothing_in_it_was_saved(
    top: Path,
) -> None:
    """A rollback that says nothing of it would be taken for one that brought everything back."""
    target = save(top)["id"]
    edit(top)
    write(top, "file", "edited\n")
    new(top / "newer")

    changed = ckpt("rollback", "--json", target, cwd=top, code=0).json

    assert changed["kept"] == [
        {"path": "lib", "reason": "submodule"},
        {"path": "newer", "reason": "nested"},
    ]
    assert ckpt("undo", "--json", cwd=top, code=0).json["kept"] == []


def test_a_merge_in_a_submodule_comes_back_and_can_be_finished(top: Path) -> None:
    lib = top / "lib"
    git("switch", "-q", "-c", "topic", cwd=lib)
    commit(lib, "topic\n")
    git("switch", "-q", "main", cwd=lib)
    commit(lib, "main\n")
    subprocess.run(["git", "merge", "topic"], cwd=lib, capture_output=True)
    wanted = there(look(top))
    save(top, "--recurse")
    git("merge", "--abort", cwd=lib)
    commit(lib, "went on\n")

    ckpt("rollback", "--recurse", cwd=top, code=0)

    assert there(look(top)) == wanted
    write(lib, "file", "both\n")
    git("add", "file", cwd=lib)
    git("commit", "-q", "-m", "merged", cwd=lib)
    assert len(git("rev-parse", "HEAD^@", cwd=lib).split()) == 2


def test_a_conflict_about_the_submodule_itself_comes_back(top: Path) -> None:
    git("switch", "-q", "-c", "topic", cwd=top)
    commit(top / "lib", "theirs\n")
    git("commit", "-q", "-a", "-m", "theirs", cwd=top)
    git("switch", "-q", "main", cwd=top)
    git("reset", "-q", "--hard", "HEAD~1", cwd=top / "lib")
    commit(top / "lib", "ours\n")
    git("commit", "-q", "-a", "-m", "ours", cwd=top)
    subprocess.run(["git", "merge", "topic"], cwd=top, capture_output=True)
    assert git("ls-files", "--unmerged", cwd=top).count("160000") == 3
    wanted = there(look(top))
    save(top, "--recurse")
    git("merge", "--abort", cwd=top)
    edit(top)

    ckpt("rollback", "--recurse", "--head", cwd=top, code=0)

    assert there(look(top)) == wanted


def test_an_unborn_submodule_is_unborn_again(top: Path) -> None:
    git("checkout", "-q", "--orphan", "fresh", cwd=top / "lib")
    wanted = there(look(top))
    save(top, "--recurse")
    git("commit", "-q", "-m", "born", cwd=top / "lib")

    ckpt("rollback", "--recurse", cwd=top, code=0)

    assert there(look(top)) == wanted


def test_a_submodule_with_its_git_dir_inside_it_is_served_alike(top: Path) -> None:
    """As git made them before it kept their git dirs in the project's own."""
    old = new(top / "old")
    git("add", "old", cwd=top)
    git("commit", "-q", "-m", "old", cwd=top)
    assert (old / ".git").is_dir()
    wanted = there(look(top))
    save(top, "--recurse")
    commit(old, "more\n")

    ckpt("rollback", "--recurse", cwd=top, code=0)

    assert there(look(top)) == wanted


def test_a_linked_worktree_has_submodules_of_its_own(top: Path) -> None:
    linked = top.with_name("linked")
    git("worktree", "add", "-q", str(linked), cwd=top)
    git(*LOCAL, "submodule", "-q", "update", "--init", "--recursive", cwd=linked)
    edit(linked)
    wanted = there(look(linked))
    inside = look(top)
    save(linked, "--recurse")
    commit(linked / "lib", "more\n")

    ckpt("rollback", "--recurse", cwd=linked, code=0)

    assert there(look(linked)) == wanted
    assert there(look(top)) == there(inside)


def test_variables_that_name_the_repository_do_not_reach_into_submodules(top: Path) -> None:
    env = {"GIT_DIR": str(top / ".git"), "GIT_WORK_TREE": str(top)}
    edit(top)

    ran = ckpt("save", "--json", "--recurse", cwd=top, env=env, code=0)

    assert ran.json["checkpoint"]["nested"][0]["checkpoint"] is not None
    remove(top, "lib/file")
    ckpt("rollback", "--recurse", cwd=top, env=env, code=0)
    assert (top / "lib/file").read_text() == "edited\n"


def test_a_submodule_keeps_to_its_own_settings(top: Path) -> None:
    write(top, "lib/ckpt.toml", 'deny = ["*.private"]\n')
    write(top, "lib/x.private", "denied there\n")
    write(top, "x.private", "not denied here\n")

    saved = save(top, "--recurse")

    linked = saved["nested"][0]["checkpoint"]
    inside = ckpt("show", "--json", linked, cwd=top / "lib", code=0).json["checkpoint"]
    assert {"path": "x.private", "reason": "denied"} in inside["skipped"]
    assert saved["skipped"] == []


# -- what cannot be done, and is said before anything is touched -----------------------


def refused(top: Path, *words: str, code: int = 4) -> Ran:
    """What a rollback says that is refused; nothing anywhere has changed."""
    before = look(top)
    ran = ckpt("rollback", *words, "--recurse", cwd=top, code=code)
    assert look(top) == before
    assert not list(top.rglob("ckpt/journal"))
    return ran


def test_a_submodule_that_is_not_there_stops_the_rollback_and_is_named(top: Path) -> None:
    target = save(top, "--recurse")["id"]
    disturb(top)
    git("add", "lib", cwd=top)
    git("submodule", "-q", "deinit", "-f", "lib", cwd=top)

    ran = refused(top, target)

    assert "submodule 'lib' is not there" in ran.stderr
    assert "hint: git submodule update --init -- lib\n" in ran.stderr
    git(*LOCAL, "submodule", "-q", "update", "--init", "lib", cwd=top)
    git(*LOCAL, "submodule", "-q", "update", "--init", cwd=top / "lib")
    ckpt("rollback", target, "--recurse", cwd=top, code=0)
    assert (top / "lib/file").read_text() == "file of lib\n"


def test_the_path_of_a_submodule_is_no_option_in_the_hint(top: Path) -> None:
    git("init", "-q", "--", "--upload-pack=x", cwd=top)
    git("commit", "-q", "--allow-empty", "-m", "one", cwd=top / "--upload-pack=x")
    git("add", "--", "--upload-pack=x", cwd=top)
    target = save(top, "--recurse")["id"]
    shutil.rmtree(top / "--upload-pack=x")

    assert "hint: git submodule update --init -- --upload-pack=x\n" in refused(top, target).stderr


def test_a_submodule_that_git_does_not_know_any_more_takes_two_steps(top: Path) -> None:
    target = save(top, "--recurse")["id"]
    git("rm", "-q", "-f", "lib", cwd=top)

    hint = re.search(r"hint: (.*)\n", refused(top, target, "--yes").stderr)

    assert hint is not None
    assert hint[1] == f"git ckpt rollback {target} && git submodule update --init -- lib"
    ckpt("rollback", target, cwd=top, code=0)
    git(*LOCAL, "submodule", "-q", "update", "--init", "--recursive", "lib", cwd=top)
    ckpt("rollback", target, "--recurse", cwd=top, code=0)
    assert git("status", "--porcelain", cwd=top) == ""


def test_a_submodule_of_a_submodule_that_is_not_there_is_named_with_its_place(top: Path) -> None:
    target = save(top, "--recurse")["id"]
    disturb(top)
    deinit_deeper(top)

    ran = refused(top, target)

    assert "in 'lib': submodule 'deep' is not there" in ran.stderr
    assert "hint: git -C lib submodule update --init -- deep\n" in ran.stderr


def test_an_untracked_repository_that_is_gone_stops_the_rollback(top: Path) -> None:
    new(top / "other")
    target = save(top, "--recurse")["id"]
    shutil.rmtree(top / "other")

    assert "'other' is not there any more" in refused(top, target).stderr


def test_a_missing_checkpoint_of_a_submodule_stops_the_rollback(top: Path) -> None:
    saved = save(top, "--recurse")
    disturb(top)
    gone = saved["nested"][0]["checkpoint"]
    ckpt("drop", gone, cwd=top / "lib", code=0)

    ran = refused(top, saved["id"], code=3)

    assert "in 'lib': no checkpoint" in ran.stderr
    assert f"hint: git -C lib ckpt restore-dropped {gone}\n" in ran.stderr
    ckpt("prune", "--now", cwd=top / "lib", code=0)
    assert "git -C lib ckpt list" in refused(top, saved["id"], code=3).stderr


def test_a_damaged_checkpoint_of_the_innermost_submodule_stops_the_rollback(top: Path) -> None:
    write(top, "lib/deep/new", "held by this checkpoint alone\n")
    target = save(top, "--recurse")["id"]
    blob = git("hash-object", "lib/deep/new", cwd=top).strip()
    remove(top, "lib/deep/new")
    disturb(top)
    os.unlink(loose_object(top / ".git/modules/lib/modules/deep", blob))

    assert "in 'lib/deep': checkpoint" in refused(top, target, code=1).stderr


def test_a_locked_submodule_stops_the_rollback_before_it_begins(top: Path) -> None:
    target = save(top, "--recurse")["id"]
    disturb(top)
    (top / ".git/modules/lib/modules/deep/index.lock").touch()

    assert "another git process" in refused(top, target).stderr


def test_an_interrupted_rollback_in_a_submodule_is_noted_and_stops_a_rollback(top: Path) -> None:
    target = save(top, "--recurse")["id"]
    write(top, ".git/modules/lib/ckpt/journal", "")

    ran = refused_with_journal(top, target)
    saved = ckpt("save", "--json", "--recurse", cwd=top, code=0).json

    assert "in 'lib': a rollback was interrupted" in ran.stderr
    assert "git -C lib ckpt rollback --continue" in ran.stderr
    assert saved["outcome"] == "partial"
    assert saved["checkpoint"]["nested"][0]["checkpoint"] is None
    assert "interrupted" in saved["checkpoint"]["nested"][0]["problem"]


def refused_with_journal(top: Path, target: str) -> Ran:
    before = look(top)
    ran = ckpt("rollback", target, "--recurse", cwd=top, code=4)
    assert look(top) == before
    return ran


def test_removing_most_of_a_submodule_needs_consent(top: Path) -> None:
    git("rm", "-q", "--cached", "deep", ".gitmodules", cwd=top / "lib")
    target = save(top, "--recurse")["id"]
    for number in range(20):
        write(top, f"lib/{number}", "new\n")

    ran = refused(top, target)

    assert "in 'lib': this rollback would remove 20 of" in ran.stderr
    ckpt("rollback", target, "--recurse", "--yes", cwd=top, code=0)


def forge(top: Path, found: dict[str, Any], **facts: Any) -> None:
    """Change what a checkpoint's manifest says of its one nested repository."""
    ref = f"refs/checkpoints/{found['id']}"
    state = git("rev-parse", f"{ref}^2", cwd=top).strip()
    document = json.loads(git("show", f"{state}:manifest.json", cwd=top))
    document["nested"] = [document["nested"][0] | facts]
    text = json.dumps(document)
    blob = git("hash-object", "-w", "--stdin", cwd=top, stdin=text).strip()
    listing = git("ls-tree", state, cwd=top)
    tree = git("mktree", cwd=top, stdin=re.sub(r"\w+(?=\tmanifest.json)", blob, listing)).strip()
    forged = git("commit-tree", "-m", "state", tree, cwd=top).strip()
    text = git("cat-file", "commit", ref, cwd=top).replace(state, forged)
    commit = git("hash-object", "-t", "commit", "-w", "--stdin", cwd=top, stdin=text).strip()
    git("update-ref", ref, commit, cwd=top)


def test_a_hostile_checkpoint_cannot_name_a_repository_outside_the_worktree(
    top: Path, tmp_path: Path
) -> None:
    other = new(tmp_path / "other")
    theirs = save(other)["id"]
    write(other, "file", "precious\n")
    found = save(top, "--recurse")
    forge(top, found, path=str(other), checkpoint=theirs)

    ran = ckpt("rollback", found["id"], "--recurse", cwd=top, code=1)

    assert "not a path of the worktree" in ran.stderr
    assert (other / "file").read_text() == "precious\n"


@pytest.mark.parametrize("outside", ["..", "absolute", ""])
def test_a_repository_outside_the_worktree_is_never_opened_as_a_nested_one(
    outside: str, top: Path, tmp_path: Path
) -> None:
    path = {"..": "../other", "absolute": str(new(tmp_path / "other"))}.get(outside, outside)

    with CheckpointManager(top) as manager, pytest.raises(Refused):
        open_nested(manager.repository, os.fsencode(path))


def test_a_checkpoint_that_was_taken_without_the_submodules_cannot_bring_them_back(
    top: Path,
) -> None:
    target = save(top)["id"]
    disturb(top)

    assert "no checkpoints of the repositories in it" in refused(top, target).stderr


def test_a_submodule_that_is_new_since_is_kept_and_listed(top: Path) -> None:
    target = save(top, "--recurse")["id"]
    newer = new(top.with_name("newer"))
    add_submodule(top, newer)
    write(top, "newer/file", "edited\n")
    inside = look(top / "newer")

    rolled = ckpt("rollback", "--json", target, "--recurse", cwd=top, code=0).json

    assert {"path": "newer", "reason": "submodule"} in rolled["kept"]
    assert look(top / "newer") == inside


def test_a_submodule_that_could_not_be_saved_is_named_and_the_others_are_saved(top: Path) -> None:
    new(top / "other")
    write(top, ".git/modules/lib/index", "no index")

    ran = ckpt("save", "--recurse", cwd=top, code=0)
    saved = ckpt("show", "--json", "latest", cwd=top, code=0).json["checkpoint"]

    assert "warning: 'lib' was not saved whole:" in ran.stderr
    states = {state["path"]: state["checkpoint"] for state in saved["nested"]}
    assert saved["partial"] and states["lib"] is None and states["other"] is not None


def test_a_file_in_a_submodule_that_cannot_be_read_makes_both_checkpoints_partial(
    top: Path,
) -> None:
    write(top, "lib/closed", "secret\n", 0o000)

    found = ckpt_apart("save", "--json", "--recurse", cwd=top, code=0, under=unprivileged()).json

    assert found["outcome"] == "partial"
    assert found["checkpoint"]["nested"][0]["problem"] == "partial"
    assert found["checkpoint"]["nested"][0]["checkpoint"] is not None


# -- paths -------------------------------------------------------------------------------


def test_the_path_of_a_submodule_takes_back_that_one_alone(top: Path) -> None:
    new(top / "other")
    target = save(top, "--recurse")["id"]
    disturb(top)
    write(top, "other/file", "edited\n")

    ckpt("rollback", target, "--recurse", "--", "lib", cwd=top, code=0)

    assert git("status", "--porcelain", cwd=top).splitlines() == [" M file", "?? other/"]
    assert (top / "lib/file").read_text() == "file of lib\n"
    assert (top / "other/file").read_text() == "edited\n"
    ckpt("undo", cwd=top / "lib", code=0)
    assert (top / "lib/file").read_text() == "edited\n"


@pytest.mark.parametrize("words", [(), ("--recurse",)])
def test_a_path_inside_a_submodule_is_for_the_submodule_to_put_back(
    words: tuple[str, ...], top: Path
) -> None:
    saved = save(top, "--recurse")
    edit(top)

    ran = ckpt("rollback", saved["id"], *words, "--", "lib/file", cwd=top, code=2)

    hint = re.search(r"hint: git (.*)\n", ran.stderr)
    assert "is inside the repository 'lib'" in ran.stderr and hint is not None
    linked = saved["nested"][0]["checkpoint"]
    assert hint[1] == f"-C lib ckpt rollback {linked} -- file"
    ckpt("-C", "lib", "rollback", linked, "--", "file", cwd=top, code=0)
    assert (top / "lib/file").read_text() == "file of lib\n"


@pytest.mark.parametrize("folder", ["empty", "absent"])
def test_files_come_back_below_a_submodule_that_is_not_initialised(folder: str, top: Path) -> None:
    write(top, "place/a", "1\n")
    git("add", "place", cwd=top)
    git("commit", "-q", "-m", "a folder", cwd=top)
    target = save(top)["id"]
    git("rm", "-q", "-r", "place", cwd=top)
    git(*LOCAL, "submodule", "-q", "add", str(top / "lib"), "place", cwd=top)
    git("commit", "-q", "-m", "a submodule", cwd=top)
    git("submodule", "-q", "deinit", "-f", "place", cwd=top)
    if folder == "absent":
        (top / "place").rmdir()

    ckpt("rollback", target, "--head", "--yes", cwd=top, code=0)

    assert (top / "place/a").read_text() == "1\n"
    assert git("status", "--porcelain", cwd=top) == ""


def test_the_hint_to_take_a_submodule_along_keeps_the_paths(top: Path) -> None:
    target = save(top, "--recurse")["id"]
    disturb(top)

    ran = ckpt("rollback", target, "--", "lib", "a file", cwd=top)

    assert ran.code != 0
    write(top, "a file", "new\n")
    ran = ckpt("rollback", target, "--", "lib", "a file", cwd=top, code=0)
    assert f"git ckpt rollback {target} --recurse -- lib 'a file'" in ran.stderr


# -- interrupted -------------------------------------------------------------------------


def test_a_rollback_that_stops_says_which_repositories_are_done_and_how_to_go_on(
    top: Path,
) -> None:
    target = save(top, "--recurse")["id"]
    wanted = there(look(top))
    disturb(top)
    git("commit", "-q", "-a", "-m", "moves HEAD", cwd=top)
    with locked_half_way(top / ".git/refs/heads/main.lock"):
        ran = ckpt("rollback", target, "--recurse", "--head", cwd=top, code=4)

    assert "main.lock'" in ran.stderr
    assert "(already rolled back: 'lib/deep', 'lib')" in ran.stderr
    assert "'git -C lib/deep ckpt undo', 'git -C lib ckpt undo'" in ran.stderr
    assert (top / "lib/file").read_text() == "file of lib\n"
    ckpt("rollback", target, "--recurse", "--head", cwd=top, code=0)
    assert there(look(top)) == wanted
