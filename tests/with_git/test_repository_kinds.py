# SPDX-License-Identifier: MIT
"""Repositories of every shape: where the git dir, the worktree and the objects may be."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from helpers import ckpt as ckpt_process
from helpers import ckpt_here as ckpt
from helpers import fsck, git, tree_state
from journeys import reset_and_clean, save, there_and_back
from scenes import remove, state, unprivileged, write


def work(top: Path) -> None:
    write(top, "README.md", "staged\n")
    git("add", "README.md", cwd=top)
    write(top, "README.md", "edited\n")
    write(top, "new/file", "untracked\n")


# -- where things are ----------------------------------------------------------------


def test_a_worktree_that_the_configuration_names_is_served(repo: Path, tmp_path: Path) -> None:
    work(repo)
    os.rename(repo / ".git", tmp_path / "elsewhere")
    git("config", "-f", str(tmp_path / "elsewhere/config"), "core.worktree", str(repo))
    env = {"GIT_DIR": str(tmp_path / "elsewhere")}
    before = tree_state(repo)
    ckpt("save", "start", cwd=tmp_path, env=env, code=0)
    git("reset", "-q", "--hard", cwd=tmp_path, env=env)
    remove(repo, "new")

    ckpt("rollback", "start", cwd=tmp_path, env=env, code=0)

    assert tree_state(repo) == before
    assert git("status", "--porcelain", env=env) == "MM README.md\n?? new/\n"


def test_a_bare_repository_is_served_with_the_worktree_it_is_given(tmp_path: Path) -> None:
    git("init", "-q", "--bare", str(tmp_path / "home.git"))
    top = tmp_path / "worktree"
    top.mkdir()
    env = {"GIT_DIR": str(tmp_path / "home.git"), "GIT_WORK_TREE": str(top)}
    write(top, "README.md", "first\n")
    git("add", ".", cwd=top, env=env)
    git("commit", "-q", "-m", "first", cwd=top, env=env)
    write(top, "README.md", "staged\n")
    git("add", ".", cwd=top, env=env)
    write(top, "README.md", "edited\n")
    ckpt("save", "start", cwd=tmp_path, env=env, code=0)
    git("reset", "-q", "--hard", cwd=top, env=env)

    ckpt("rollback", "start", cwd=tmp_path, env=env, code=0)

    assert (top / "README.md").read_text() == "edited\n"
    assert git("status", "--porcelain", cwd=top, env=env) == "MM README.md\n"
    assert "GIT_WORK_TREE" in ckpt("list", cwd=tmp_path / "home.git", code=4).stderr


def test_linked_worktrees_of_a_bare_repository_are_served(repo: Path, tmp_path: Path) -> None:
    git("clone", "-q", "--bare", str(repo), str(tmp_path / "bare.git"))
    for name in ("one", "two"):
        git("worktree", "add", "-q", str(tmp_path / name), "-b", name, cwd=tmp_path / "bare.git")
    work(tmp_path / "one")

    there_and_back(tmp_path / "one", reset_and_clean)

    assert ckpt("list", "--json", cwd=tmp_path / "two", code=0).json["checkpoints"] == []
    ckpt("save", cwd=tmp_path / "bare.git", code=4)


def test_a_branch_that_another_worktree_has_is_not_moved(repo: Path, tmp_path: Path) -> None:
    saved = save(repo)
    git("checkout", "-q", "-b", "other")
    git("worktree", "add", "-q", str(tmp_path / "linked"), "main")
    write(repo, "README.md", "edited\n")
    before = state(repo)

    refused = ckpt("rollback", saved, "--head", code=4)

    assert "checked out in another worktree" in refused.stderr
    assert state(repo) == before


def test_worktrees_with_relative_paths_are_served(repo: Path, tmp_path: Path) -> None:
    top = tmp_path / "linked"
    git("worktree", "add", "-q", str(top))
    (top / ".git").write_text("gitdir: ../repo/.git/worktrees/linked\n")
    (repo / ".git/worktrees/linked/gitdir").write_text("../../../../linked/.git\n")
    work(top)
    before = tree_state(top)
    # What newer versions of git write and this one does not open.
    config = repo / ".git/config"
    config.write_text(
        config.read_text().replace("repositoryformatversion = 0", "repositoryformatversion = 1")
        + "[extensions]\n\trelativeWorktrees = true\n"
    )
    saved = save(top)
    write(top, "README.md", "broken\n")
    remove(top, "new")

    ckpt("rollback", saved, cwd=top, code=0)

    assert tree_state(top) == before
    told = ckpt("show", saved, "--json", cwd=top, code=0).json
    assert told["checkpoint"]["worktree"] == "worktrees/linked"


def test_a_submodule_s_own_repository_is_served(repo: Path, tmp_path: Path) -> None:
    git("clone", "-q", str(repo), str(tmp_path / "origin"))
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "origin"), "m")
    top = repo / "m"
    work(top)

    there_and_back(top, reset_and_clean)

    assert (repo / ".git/modules/m/ckpt").is_dir()
    assert git("for-each-ref", "refs/checkpoints", cwd=repo) == ""


# -- where objects are ---------------------------------------------------------------


@pytest.mark.parametrize("words", [["--shared"], ["--reference"]])
def test_a_clone_that_borrows_writes_only_to_its_own_objects(
    repo: Path, tmp_path: Path, words: list[str]
) -> None:
    if words == ["--reference"]:
        git("clone", "-q", "--bare", str(repo), str(tmp_path / "lender"))
        words = ["--reference", str(tmp_path / "lender")]
    top = tmp_path / "borrower"
    git("clone", "-q", *words, f"{repo}", str(top))
    lent = tree_state(repo / ".git/objects")
    work(top)

    there_and_back(top, reset_and_clean)

    assert tree_state(repo / ".git/objects") == lent


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_packs_of_every_kind_are_read(tmp_path: Path, object_format: str) -> None:
    top = tmp_path / "packed"
    git("init", "-q", f"--object-format={object_format}", str(top))
    for number in range(3):
        write(top, "README.md", f"{number}\n" * 1000)
        write(top, f"src/{number}", f"{number}\n")
        git("add", ".", cwd=top)
        git("commit", "-q", "-m", f"{number}", cwd=top)
        git("repack", "-q", "-d", cwd=top)
    git("multi-pack-index", "write", "--bitmap", cwd=top)
    git("commit-graph", "write", "--reachable", cwd=top)
    for loose in (top / ".git/objects").glob("??"):
        shutil.rmtree(loose)
    work(top)

    there_and_back(top, reset_and_clean)

    git("gc", "-q", "--prune=now", cwd=top)
    assert ckpt("rollback", "latest", cwd=top, code=0)
    assert fsck(top) == []


@pytest.mark.parametrize("kind", ["replace", "graft"])
def test_replaced_objects_do_not_disturb_ids(repo: Path, kind: str) -> None:
    first = git("rev-parse", "HEAD").strip()
    write(repo, "README.md", "second\n")
    git("commit", "-q", "-am", "second")
    head = git("rev-parse", "HEAD").strip()
    if kind == "replace":
        blob = git("rev-parse", "HEAD:README.md").strip()
        other = git("hash-object", "-w", "--stdin", stdin="another\n").strip()
        git("replace", blob, other)
        git("replace", head, first)
    else:
        write(repo, ".git/info/grafts", f"{head}\n")
    write(repo, "src/app.py", "edited\n")
    saved = save(repo)
    commit = git("--no-replace-objects", "cat-file", "-p", f"refs/checkpoints/{saved}")
    write(repo, "README.md", "broken\n")
    write(repo, "src/app.py", "broken\n")

    ckpt("rollback", saved, code=0)

    assert f"parent {head}\n" in commit
    assert (repo / "README.md").read_text() == "second\n"
    assert (repo / "src/app.py").read_text() == "edited\n"
    ckpt("rollback", saved, "--head", code=0)
    assert git("rev-parse", "HEAD").strip() == head


# -- partial clones ------------------------------------------------------------------


@pytest.fixture
def partial(repo: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A clone that lacks objects, and whose origin answers no more."""
    for folder in ("a", "b"):
        write(repo, f"{folder}/file", f"{folder}\n")
    write(repo, "c/.gitignore", "*.far-away\n")
    git("add", ".")
    git("commit", "-q", "-m", "folders")
    git("config", "uploadpack.allowFilter", "true")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    top = tmp_path / "partial"
    git("clone", "-q", "--sparse", request.param, f"file://{repo}", str(top))
    git("sparse-checkout", "set", "a", cwd=top)
    os.rename(repo, tmp_path / "gone")
    return top


FILTERS = pytest.mark.parametrize(
    "partial", ["--filter=blob:none", "--filter=tree:0", "--filter=blob:limit=1"], indirect=True
)


def missing(top: Path) -> set[str]:
    lines = git("rev-list", "--objects", "--all", "--missing=print", cwd=top).splitlines()
    return {line[1:] for line in lines if line.startswith("?")}


@FILTERS
def test_a_partial_clone_is_served_without_the_objects_it_lacks(partial: Path) -> None:
    lacking = missing(partial)
    assert lacking
    write(partial, "a/file", "edited\n")
    write(partial, "a/new", "untracked\n")
    before = tree_state(partial)
    saved = save(partial)
    write(partial, "a/file", "broken\n")
    remove(partial, "a/new")

    assert "a/file" in ckpt("diff", saved, "--stat", cwd=partial, code=0).stdout
    ckpt("list", cwd=partial, code=0)
    ckpt("show", saved, cwd=partial, code=0)
    ckpt("rollback", saved, cwd=partial, code=0)

    assert tree_state(partial) == before
    assert missing(partial) == lacking


# -- permissions ---------------------------------------------------------------------


@pytest.mark.parametrize("value", ["group", "true", "0640"])
def test_a_repository_of_several_users_is_refused(repo: Path, value: str) -> None:
    git("config", "core.sharedRepository", value)
    before = tree_state(repo), tree_state(repo / ".git")

    assert "git config --unset core.sharedRepository" in ckpt("save", code=4).stderr

    assert (tree_state(repo), tree_state(repo / ".git")) == before
    git("config", "core.sharedRepository", "umask")
    save(repo)


def test_without_permission_to_write_one_can_look_and_a_save_says_why(repo: Path) -> None:
    write(repo, "README.md", "edited\n")
    saved = save(repo)
    write(repo, "README.md", "again\n")
    under = unprivileged()
    for folder, _, files in os.walk(repo / ".git"):
        for name in files:
            os.chmod(os.path.join(folder, name), 0o444)
        os.chmod(folder, 0o555)
    try:
        ckpt_process("list", under=under, code=0)
        ckpt_process("show", saved, under=under, code=0)
        assert "+again" in ckpt_process("diff", saved, under=under, code=0).stdout
        refused = ckpt_process("save", under=under)
        rolled = ckpt_process("rollback", saved, under=under)
    finally:
        for folder, _, _ in os.walk(repo / ".git"):
            os.chmod(folder, 0o755)

    assert refused.code == rolled.code == 1
    assert "Permission denied" in refused.stderr
    assert (repo / "README.md").read_text() == "again\n"
