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
from helpers import Ran, fsck, git
from helpers import ckpt_here as ckpt
from scenes import State, remove, write

from ckpt import CheckpointManager

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
    is_dirty = submodule is not None and set(submodule.groups()) != {"."}
    assert found == is_dirty


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


def test_a_locked_submodule_stops_the_rollback_before_it_begins(top: Path) -> None:
    target = save(top, "--recurse")["id"]
    disturb(top)
    (top / ".git/modules/lib/modules/deep/index.lock").touch()

    assert "another git process" in refused(top, target).stderr


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


def test_a_submodule_that_is_new_since_is_kept_and_listed(top: Path) -> None:
    target = save(top, "--recurse")["id"]
    newer = new(top.with_name("newer"))
    add_submodule(top, newer)
    write(top, "newer/file", "edited\n")
    inside = look(top / "newer")

    rolled = ckpt("rollback", "--json", target, "--recurse", cwd=top, code=0).json

    assert {"path": "newer", "reason": "submodule"} in rolled["kept"]
    assert look(top / "newer") == inside


# -- paths -------------------------------------------------------------------------------


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
