# SPDX-License-Identifier: MIT
"""`git ckpt install` and `uninstall`, with real git and the hooks that people have already."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import Ran, ckpt_here, git, tree_state

EVENTS = ["pre-commit", "pre-merge-commit", "pre-rebase", "pre-push", "post-checkout"]
SHELL = 'echo "$0 $*" >>ran.log; cat >>ran.log; exit ${STATUS:-0}\n'
PYTHON = (
    "import os, sys\nopen('ran.log', 'a').write(' '.join(sys.argv) + '\\n' + sys.stdin.read())\n"
)
PYTHON += "sys.exit(int(os.environ.get('STATUS', 0)))\n"

NEWER_GIT = os.environ.get("CKPT_TEST_GIT")  # read before the tests are isolated


@pytest.fixture(autouse=True)
def older_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with the real git, which says that it is one without configured hooks."""
    real = shutil.which("git")
    return say_version("2.39.5", real, tmp_path, monkeypatch)


def say_version(version: str, real: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    script = folder / f"bin-{version}/git"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\n[ "$1" != version ] || {{ echo git version {version}; exit; }}\n'
        f'exec {real} "$@"\n'
    )
    script.chmod(0o755)
    folders = [str(script.parent), os.environ["PATH"], os.path.dirname(sys.executable)]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    return script


def run(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def commit(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run("git", "commit", "-q", "--allow-empty", "-m", "second", *words, env=env)


def checkpoints() -> list[str]:
    return git("for-each-ref", "--format=%(refname)", "refs/checkpoints").split()


def edit(repo: Path) -> None:
    (repo / "README.md").write_text("in the worktree\n")


def let_saving_fail(repo: Path) -> None:
    shutil.rmtree(repo / ".git/ckpt")
    (repo / ".git/ckpt").write_text("a file where the folder should be")


def install(*words: str, code: int = 0) -> Ran:
    return ckpt_here("install", *words, code=code)


def uninstall(*words: str) -> Ran:
    return ckpt_here("uninstall", *words, code=0)


def make_hook(repo: Path, event: str, kind: str) -> Path:
    """A hook that somebody has already."""
    path = repo / ".git/hooks" / event
    path.parent.mkdir(exist_ok=True)
    if kind == "symlink":
        (repo / "tools").mkdir(exist_ok=True)
        (repo / "tools/hook").write_text(f"#!/bin/sh\n{SHELL}")
        (repo / "tools/hook").chmod(0o755)
        path.symlink_to("../../tools/hook")
        return path
    texts = {
        "sh": f"#!/bin/sh\n{SHELL}",
        "bash -eu": f"#!/usr/bin/env -S bash -eu\nset -o pipefail\n{SHELL}",
        "python": f"#!{sys.executable}\n{PYTHON}",
        "python in sh": f"#!/bin/sh\n'''exec' {sys.executable} \"$0\" \"$@\"\n' '''\n{PYTHON}",
        "no first line": SHELL,
        "no newline": f"#!/bin/sh\n{SHELL}".rstrip("\n"),
    }
    path.write_text(texts[kind])
    path.chmod(0o750)
    return path


KINDS = ["sh", "bash -eu", "python", "python in sh", "no first line", "no newline", "symlink"]


def state(repo: Path) -> object:
    """All that an install may touch: hooks, git's configuration, and the home folder."""
    home = tree_state(os.environ["HOME"])
    config = repo / ".git/config"
    bits = stat.S_IMODE(config.stat().st_mode)
    return tree_state(repo / ".git/hooks"), config.read_bytes(), bits, home


# -- hooks where there are none -----------------------------------------------------


def test_a_commit_is_preceded_by_a_checkpoint(repo: Path) -> None:
    install()
    edit(repo)

    assert commit("-a").stderr == ""
    [ref] = checkpoints()
    assert git("show", f"{ref}:README.md") == "in the worktree\n"
    assert "Ckpt-Kind: hook\n" in git("log", "-1", "--format=%B", ref)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("pre-merge-commit", ["merge", "-q", "--no-ff", "-m", "m", "side"]),
        ("pre-rebase", ["rebase", "-q", "side"]),
        ("pre-push", ["push", "-q", ".", "HEAD:refs/heads/copy"]),
        ("post-checkout", ["checkout", "-q", "side"]),
    ],
)
def test_each_hook_takes_one_of_what_is_not_committed(
    repo: Path, event: str, words: list[str]
) -> None:
    git("branch", "side")
    git("commit", "-q", "--allow-empty", "-m", "ahead")
    git("checkout", "-q", "side")
    git("commit", "-q", "--allow-empty", "-m", "aside")
    git("checkout", "-q", "main")
    install("--hooks", event)
    (repo / "untracked").write_text("new\n")

    ran = run("git", *words)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")
    refs = checkpoints()
    assert [git("show", f"{ref}:untracked") for ref in refs] == ["new\n"]


def test_a_second_install_changes_nothing(repo: Path) -> None:
    install()
    before = state(repo)

    ran = install()
    assert state(repo) == before
    assert ran.stdout.startswith("Already there: hook pre-commit, ")
    assert ran.stdout.count("\n") == 1


def test_another_python_is_put_in_the_place_of_the_first(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_hook(repo, "pre-push", "sh")
    make_hook(repo, "pre-rebase", "python")
    before = state(repo)
    install()
    other = tmp_path / "with space/python"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(other))

    assert "Changed hook pre-push, which calls" in install().stdout
    for event in EVENTS:
        text = (repo / ".git/hooks" / event).read_text()
        assert f"'{other}' -I -m ckpt hook {event}" in text
    edit(repo)
    assert commit("-a").returncode == 0
    assert len(checkpoints()) == 1
    uninstall()
    assert state(repo) == before


def test_only_the_hooks_that_are_named_are_installed(repo: Path) -> None:
    install("--hooks", "pre-push,pre-commit")
    assert sorted(os.listdir(repo / ".git/hooks")) == ["pre-commit", "pre-push"]
    uninstall("--hooks", "pre-push")
    assert os.listdir(repo / ".git/hooks") == ["pre-commit"]
    uninstall()
    assert os.listdir(repo / ".git/hooks") == []
    assert uninstall().stdout == "Nothing of ckpt is installed here.\n"


def test_outside_a_repository_and_in_a_bare_one_it_is_refused(tmp_path: Path) -> None:
    git("init", "-q", "--bare", str(tmp_path / "bare"))
    (tmp_path / "empty").mkdir()

    assert ckpt_here("install", cwd=tmp_path / "empty", code=1).stderr.startswith(
        "error: not a git"
    )
    assert "work tree" in ckpt_here("install", cwd=tmp_path / "bare", code=4).stderr
    assert os.listdir(tmp_path / "bare/hooks") == []


def test_json_tells_every_step(repo: Path) -> None:
    document = install("--json").json

    assert document["schema"] == 1
    assert document["steps"][0] == {
        "action": "added",
        "what": "hook pre-commit",
        "place": str(repo / ".git/hooks/pre-commit"),
        "advice": [],
    }
    assert {step["action"] for step in ckpt_here("uninstall", "--json").json["steps"]} == {
        "removed"
    }


# -- hooks of others ------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_foreign_hook_still_runs_and_can_still_fail_the_commit(repo: Path, kind: str) -> None:
    make_hook(repo, "pre-commit", kind)
    before = state(repo)
    install()
    edit(repo)

    assert commit("-a", STATUS="3").returncode == 1
    assert git("log", "--format=%s") == "first\n"
    assert len(checkpoints()) == 1
    assert commit("-a").returncode == 0
    assert len((repo / "ran.log").read_text().splitlines()) == 2
    uninstall()
    assert state(repo) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_foreign_hook_gets_its_arguments_and_input(repo: Path, kind: str) -> None:
    make_hook(repo, "pre-push", kind)
    install()
    (repo / "untracked").write_text("new\n")

    assert run("git", "push", "-q", ".", "HEAD:refs/heads/copy").returncode == 0
    first, second = (repo / "ran.log").read_text().splitlines()
    assert first.split()[1:] == [".", "."]
    assert second.startswith("HEAD ")
    assert second.split()[2] == "refs/heads/copy"
    assert len(checkpoints()) == 1
    assert run("git", "push", "-q", ".", "HEAD:refs/heads/c2", env={"STATUS": "1"}).returncode == 1


@pytest.mark.parametrize("first", ["#!/bin/sh", "#!/bin/sh -eu", "#!/bin/bash -e"])
def test_a_block_changes_nothing_for_the_script_around_it(repo: Path, first: str) -> None:
    """Not even if ckpt fails."""
    hook = repo / ".git/hooks/post-checkout"
    hook.write_text(f'{first}\necho "$?,$#,$-,$(pwd)" >>ran.log; set >>ran.$1.log\n')
    hook.chmod(0o755)
    words = [str(hook), "1" * 40, "2" * 40, "1"]
    said = [run(*words).returncode, (repo / "ran.log").read_text()]
    (repo / "ran.log").unlink()
    install()
    let_saving_fail(repo)

    assert [run(*words).returncode, (repo / "ran.log").read_text()] == said


def test_what_a_user_adds_to_hooks_meanwhile_stays(repo: Path) -> None:
    make_hook(repo, "pre-commit", "sh")
    make_hook(repo, "pre-rebase", "python")
    install()
    hooks = repo / ".git/hooks"
    for event in ("pre-commit", "pre-push", "pre-rebase"):
        (hooks / event).write_text((hooks / event).read_text() + "echo mine\n")
    uninstall()

    assert (hooks / "pre-commit").read_text() == f"#!/bin/sh\n{SHELL}echo mine\n"
    assert (hooks / "pre-push").read_text() == "#!/bin/sh\necho mine\n"
    assert "pre-rebase.ckpt-wrapped" in (hooks / "pre-rebase").read_text()
    assert "hook pre-rebase" not in (hooks / "pre-rebase").read_text()
    assert sorted(os.listdir(hooks)) == [
        "pre-commit",
        "pre-push",
        "pre-rebase",
        "pre-rebase.ckpt-wrapped",
    ]


def test_an_install_that_was_killed_half_way_is_finished_by_the_next(repo: Path) -> None:
    hook = make_hook(repo, "pre-commit", "python")
    before = state(repo)
    os.link(hook, f"{hook}.ckpt-wrapped")
    install()
    assert commit(STATUS="1").returncode == 1
    uninstall()
    assert state(repo) == before


def test_a_hook_that_was_renamed_runs_again_when_ours_has_gone_and_is_put_back(repo: Path) -> None:
    hook = make_hook(repo, "pre-commit", "python")
    before = state(repo)
    install()
    hook.unlink()

    install()
    assert commit(STATUS="1").returncode == 1
    uninstall()
    assert state(repo) == before


# -- where ckpt or Python has gone, or is made to fail -----------------------------------


def test_git_goes_on_if_the_interpreter_has_gone(repo: Path) -> None:
    install()
    for event in EVENTS:
        hook = repo / ".git/hooks" / event
        hook.write_text(hook.read_text().replace(sys.executable, "/gone/python"))

    ran = commit()
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


@pytest.mark.parametrize("kind", [None, "sh", "bash -eu", "python"])
def test_a_failure_stops_git_only_if_the_user_wants_it(repo: Path, kind: str | None) -> None:
    if kind:
        make_hook(repo, "pre-commit", kind)
    install()
    let_saving_fail(repo)
    edit(repo)

    assert commit("-a", CKPT_ON_ERROR="block").returncode == 1
    assert run("git", "checkout", "-q", "-b", "b", env={"CKPT_ON_ERROR": "block"}).returncode == 0
    ran = commit("-a")
    assert ran.returncode == 0
    assert git("show", "HEAD:README.md") == "in the worktree\n"


def test_code_of_the_repository_is_never_run(repo: Path) -> None:
    evil = "open('evil', 'w')\n"
    for name in ("ckpt.py", "json.py", "sitecustomize.py", "usercustomize.py", "os.py"):
        (repo / name).write_text(evil)
    (repo / "dulwich").mkdir()
    (repo / "dulwich/__init__.py").write_text(evil)
    install()
    here = str(repo)

    assert commit(PYTHONPATH=here, PYTHONSTARTUP=f"{here}/os.py", PYTHONHOME="").returncode == 0
    assert len(checkpoints()) == 1
    assert not (repo / "evil").exists()


# -- other tools -----------------------------------------------------------------------


@pytest.fixture
def pre_commit(repo: Path) -> Callable[..., None]:
    """Real pre-commit, with one check that fails if STATUS says so."""
    (repo / "check").write_text(f"#!/bin/sh\n{SHELL}")
    (repo / "check").chmod(0o755)
    (repo / ".pre-commit-config.yaml").write_text(
        "repos: [{repo: local, hooks: [{id: x, name: x, language: system, "
        "entry: ./check, pass_filenames: false, always_run: true}]}]\n"
    )
    git("add", ".")

    def call(*words: str) -> None:
        ran = run(sys.executable, "-m", "pre_commit", *words)
        assert ran.returncode == 0, ran.stdout + ran.stderr

    return call


def check_with_pre_commit(repo: Path) -> None:
    """The checkpoint is taken before pre-commit hides what is not staged."""
    (repo / "src/app.py").write_text("not staged\n")
    assert commit(STATUS="1").returncode == 1
    assert commit().returncode == 0
    assert (repo / "ran.log").read_text().count("check") == 2
    assert {git("show", f"{ref}:src/app.py") for ref in checkpoints()} == {"not staged\n"}


def test_it_works_with_pre_commit_installed_before(
    repo: Path, pre_commit: Callable[..., None]
) -> None:
    pre_commit("install")
    before = state(repo)
    install()
    check_with_pre_commit(repo)

    uninstall()
    hooks, *_ = before
    assert state(repo)[0] == hooks


def test_it_works_with_pre_commit_installed_after(
    repo: Path, pre_commit: Callable[..., None]
) -> None:
    make_hook(repo, "pre-commit", "python")
    install()
    pre_commit("install")
    with_both = tree_state(repo / ".git/hooks")
    assert "Already there: hook pre-commit" in install().stdout
    assert tree_state(repo / ".git/hooks") == with_both
    assert commit(STATUS="1").returncode == 1
    assert ".git/hooks/pre-commit" in (repo / "ran.log").read_text()

    uninstall()
    left = tree_state(repo / ".git/hooks")
    assert sorted(left) == [b"pre-commit", b"pre-commit.legacy"]
    pre_commit("uninstall")
    assert (repo / ".git/hooks/pre-commit").read_text() == f"#!{sys.executable}\n{PYTHON}"


# -- hooks elsewhere -------------------------------------------------------------------


@pytest.fixture
def husky(repo: Path) -> Path:
    """The files that husky 9 makes, in short: `_/NAME` runs `NAME` with `sh -e`."""
    own = repo / ".husky/_"
    own.mkdir(parents=True)
    (own / "h").write_text('n=${0##*/}; s=.husky/$n\n[ ! -f "$s" ] && exit 0\nsh -e "$s" "$@"\n')
    for event in EVENTS:
        (own / event).write_text('#!/usr/bin/env sh\n. "${0%/*}/h"\n')
        (own / event).chmod(0o755)
    (repo / ".husky/pre-commit").write_text(SHELL)
    git("config", "core.hooksPath", ".husky/_")
    return repo


def test_hooks_in_the_worktree_are_not_edited_unasked(husky: Path) -> None:
    before = tree_state(husky)
    ran = install(code=4)

    assert tree_state(husky) == before
    assert "not installed: hook pre-commit: add this line at the beginning" in ran.stderr
    assert f"hint: if [ -x {sys.executable} ] && " in ran.stderr
    assert "git ckpt install --edit-tracked" in ran.stdout


def test_asked_to_it_edits_the_scripts_that_husky_runs(husky: Path) -> None:
    before = tree_state(husky)
    install("--edit-tracked")
    edit(husky)

    assert commit("-a", STATUS="1").returncode == 1
    assert len(checkpoints()) == 1
    (husky / "ran.log").unlink()
    git("checkout", "-q", "README.md")
    uninstall()
    assert tree_state(husky) == before


def test_a_folder_of_hooks_outside_the_repository_is_left_alone(repo: Path, tmp_path: Path) -> None:
    git("config", "core.hooksPath", str(tmp_path / "company"))
    (tmp_path / "company").mkdir()

    assert "make this script" in install(code=4).stderr
    assert os.listdir(tmp_path / "company") == []


@pytest.mark.parametrize("nowhere", ["/dev/null", ""])
def test_hooks_that_are_turned_off_are_told_of(repo: Path, nowhere: str) -> None:
    git("config", "core.hooksPath", nowhere)

    assert "hooks are outside the git dir" in install(code=4).stdout
    git("config", "--unset", "core.hooksPath")
    install()
    git("config", "core.hooksPath", nowhere)
    uninstall()
    assert os.listdir(repo / ".git/hooks") == []


def test_a_linked_worktree_shares_the_hooks(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("worktree", "add", "-q", "../linked")
    monkeypatch.chdir(repo.parent / "linked")
    install()
    Path("only-here").write_text("x")
    git("add", ".")

    assert commit().stderr == ""
    [ref] = checkpoints()
    assert git("show", f"{ref}:only-here") == "x"
    monkeypatch.chdir(repo)
    uninstall()
    assert os.listdir(repo / ".git/hooks") == []


# -- where git-ckpt is not on PATH --------------------------------------


@pytest.fixture
def bare_path(tmp_path: Path, older_git: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with a shell, git and man, and no git-ckpt."""
    folder = tmp_path / "only"
    folder.mkdir()
    for name in ("sh", "man", "env"):
        if shutil.which(name):
            (folder / name).symlink_to(shutil.which(name))
    (folder / "git").symlink_to(older_git)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_without_the_console_script_the_alias_to_set_is_printed(
    repo: Path, bare_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Path("~/.gitconfig").expanduser().read_bytes()
    [line] = [line for line in install().stdout.splitlines() if "git config --global" in line]
    assert Path("~/.gitconfig").expanduser().read_bytes() == before
    subprocess.run(["sh", "-c", line], check=True)
    assert "git config --global" not in install().stdout
    monkeypatch.chdir(repo / "src")
    Path("app.py").write_text("edited\n")

    saved = run("git", "ckpt", "save", "by hand", "-m", "two words")
    assert saved.returncode == 0, saved.stderr
    listed = run("git", "ckpt", "list")
    assert "by hand" in listed.stdout
    Path("app.py").write_text("again\n")
    assert run("git", "ckpt", "rollback", "--", "app.py").returncode == 0
    assert Path("app.py").read_text() == "edited\n"
    assert run("git", "ckpt", "show", "none").returncode == 3


# -- for all repositories ----------------------------------------------------------------


def test_hooks_for_all_repositories_need_a_git_that_has_configured_ones(repo: Path) -> None:
    before = state(repo)

    ran = install("--global", code=4)
    assert "not installed: hooks for all repositories need git 2.54" in ran.stderr
    assert "hint: git ckpt install" in ran.stderr
    assert state(repo) == before


# -- git 2.54 and later ------------------------------------------------------------------


@pytest.fixture
def newer_git(monkeypatch: pytest.MonkeyPatch) -> None:
    if not NEWER_GIT:
        pytest.skip("CKPT_TEST_GIT names no git of 2.54 or later")
    monkeypatch.setenv("PATH", f"{os.path.dirname(NEWER_GIT)}{os.pathsep}{os.environ['PATH']}")


def test_a_git_that_has_configured_hooks_is_told_in_its_configuration(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say_version("2.54.0", shutil.which("git"), tmp_path, monkeypatch)
    before = state(repo)
    install()

    assert os.listdir(repo / ".git/hooks") == []
    for event in EVENTS:
        assert git("config", f"hook.ckpt-{event}.event") == f"{event}\n"
        assert f" -I -m ckpt hook {event}" in git("config", f"hook.ckpt-{event}.command")
    installed = state(repo)
    assert install().stdout.startswith("Already there: ")
    assert state(repo) == installed
    uninstall()
    assert state(repo) == before


@pytest.mark.usefixtures("newer_git")
def test_configured_hooks_save_before_the_others_run_and_may_stop_git(repo: Path) -> None:
    git("config", "hook.theirs.event", "pre-commit")
    git("config", "hook.theirs.command", "echo theirs >README.md; exit ${STATUS:-0}; :")
    make_hook(repo, "pre-commit", "python")
    before = state(repo)
    install()
    edit(repo)

    assert commit("-a", STATUS="1").returncode == 1
    [ref] = checkpoints()
    assert git("show", f"{ref}:README.md") == "in the worktree\n"
    assert commit("-a").returncode == 0
    uninstall()
    assert state(repo) == before
