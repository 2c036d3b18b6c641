# SPDX-License-Identifier: MIT
"""When the guard saves and when it does not, and how little it is in anybody's way."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guards import OFF, Seen, install, run, start_with, write
from helpers import ckpt_here, git

SHELLS = {"dash": "#!/bin/dash", "busybox": "#!/bin/busybox sh", "bash": "#!/bin/bash --posix"}
READING = [
    "git status",
    "git status -sb",
    "git status --porcelain=v2 --branch",
    "git -C src status",
    "git --no-optional-locks -c core.quotepath=false status",
    "/usr/bin/git --git-dir=.git status",
    "git diff",
    "git diff HEAD -- README.md",
    "git log -p -1",
    "git show",
    "git ls-files -m -o",
    "git blame README.md",
    "git grep hello",
    "git describe --always --dirty",
    "git rev-parse HEAD",
    "git ls-tree HEAD",
    "git cat-file -p HEAD",
    "git check-ignore x.log",
    "git check-attr -a README.md",
    "git diff-index HEAD",
    "git update-index -q --refresh",
    "git stash list",
    "git worktree list",
    "git submodule status",
    "git submodule status --recursive",
    "git fetch",
    "git gc -q",
    "$(git --exec-path)/git-diff-files",
    "git add README.md",
    "git commit -qm again",
    "git commit --amend --no-edit -q",
]


@pytest.fixture
def spoiled(repo: Path) -> Path:
    write(repo / "README.md", "edited\n")
    write(repo / "new.txt", "never added\n")
    return repo


@pytest.fixture
def recorder(tmp_path: Path) -> Path:
    """In place of Python: writes down that it was started, in a file beside it."""
    path = tmp_path / "recorder"
    path.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/started\n')
    path.chmod(0o755)
    return path


def started(recorder: Path) -> list[str]:
    told = recorder.with_name("started")
    return told.read_text().splitlines() if told.exists() else []


def install_with(top: Path, python: Path, change: Callable[[str], str] = lambda text: text) -> Path:
    """The guard with something else to start, and changed besides."""
    install(top)
    script = top / ".git/ckpt-guard"
    start_with(script, python)
    script.write_text(change(script.read_text()))
    return script


def checkpoints(top: Path) -> list[Any]:
    found: list[Any] = ckpt_here("list", "--json", "--all", cwd=top).json["checkpoints"]
    return found


# -- what is let go --------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_that_only_read_start_no_python(spoiled: Path, recorder: Path, shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} here")
    install_with(spoiled, recorder, lambda text: text.replace("#!/bin/sh", SHELLS[shell], 1))

    for line in READING:
        ran = run("sh", "-c", line, cwd=spoiled)
        assert (ran.returncode, ran.stderr) == (0, ""), line
        assert started(recorder) == [], line
    run("git", "checkout", "-f", cwd=spoiled)
    assert len(started(recorder)) == 1
    assert re.fullmatch(r"-I -m ckpt hook guard \d+ \S+/ckpt/guarded", started(recorder)[0])


@pytest.mark.parametrize(
    "words",
    [
        ["checkout", "-f"],
        ["st"],
        ["-C", "status", "clean", "-fd"],
        ["-c", "diff", "stash"],
        ["--git-dir", "log", "reset"],
        ["--unknown", "status"],
        ["-C"],
        [],
        ["stash"],
        ["stash", "shows"],
        ["stash", "-q", "list"],
        ["statuses"],
        ["worktree", "remove", "x"],
        ["submodule", "update"],
        ["bisect", "reset"],
        ["update-index", "--refresh", "--remove", "x"],
        ["apply", "x"],
        ["merge-file", "a", "b", "c"],
        ["difftool"],
        ["", "status"],
    ],
)
def test_what_is_not_known_to_be_harmless_is_looked_at(
    repo: Path, recorder: Path, words: list[str]
) -> None:
    script = install_with(repo, recorder)

    run(str(script), "wrapper", *words, cwd=repo)

    assert started(recorder) == [" ".join(["-I -m ckpt hook wrapper --", *words])]


def test_an_alias_for_a_harmless_command_is_one(spoiled: Path) -> None:
    install(spoiled)
    git("config", "alias.st", "status -s", cwd=spoiled)
    git("config", "alias.s", "st", cwd=spoiled)

    git("s", cwd=spoiled)
    git("-c", "alias.d=diff", "d", cwd=spoiled)

    assert checkpoints(spoiled) == []


def test_a_clean_worktree_has_nothing_to_lose(repo: Path) -> None:
    install(repo)

    git("checkout", "-q", "-b", "next", cwd=repo)
    git("reset", "-q", "--hard", cwd=repo)

    assert checkpoints(repo) == []


def test_a_worktree_that_git_is_about_to_fill_has_nothing_to_lose(
    spoiled: Path, tmp_path: Path
) -> None:
    install(spoiled, "--guard", "--global")

    git("worktree", "add", "-q", str(tmp_path / "linked"), cwd=spoiled)
    git("clone", "-q", str(spoiled), str(tmp_path / "clone"), cwd=spoiled)
    places = [spoiled, tmp_path / "clone"]
    assert [git("for-each-ref", "refs/checkpoints", cwd=place) for place in places] == ["", ""]

    words = ["-c", "protocol.file.allow=always", "submodule", "-q", "add"]
    git(*words, str(tmp_path / "clone"), "inner", cwd=spoiled)
    assert git("for-each-ref", "refs/checkpoints", cwd=spoiled / "inner") == ""


@pytest.mark.parametrize(
    "change",
    [
        "echo new >new.txt",
        "rm README.md",
        "chmod +x README.md",
        "git rm -q --cached README.md",
        "echo x >README.md; git add README.md; git show HEAD:README.md >README.md",
        "mkdir empty",
    ],
)
def test_anything_that_could_be_lost_is_saved(repo: Path, change: str) -> None:
    run("sh", "-c", change, cwd=repo)
    install(repo)

    git("reset", "-q", "--hard", cwd=repo)

    assert len(checkpoints(repo)) == 1


def test_a_burst_on_one_state_leaves_one_checkpoint(spoiled: Path) -> None:
    install(spoiled)

    for _ in range(3):
        run("git", "checkout", cwd=spoiled)

    assert len(checkpoints(spoiled)) == 1


# -- it is in nobody's way -------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_the_answer_is_that_anything_may_have_changed(
    repo: Path, recorder: Path, shell: str
) -> None:
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} here")
    script = install_with(repo, recorder, lambda text: text.replace("#!/bin/sh", SHELLS[shell], 1))

    for words, answer in {("2", "token"): b"ckpt\0/\0", ("1", "12345"): b"/\0"}.items():
        ran = subprocess.run([script, *words], capture_output=True, cwd=repo)
        assert (0, answer, b"") == (ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.parametrize("variable", ["python", "program"])
def test_git_goes_on_when_python_or_ckpt_has_gone(spoiled: Path, variable: str) -> None:
    install(spoiled)
    script = spoiled / ".git/ckpt-guard"
    script.write_text(re.sub(rf"(?m)^{variable}=.*", f"{variable}=/gone", script.read_text()))

    ran = run("git", "reset", "--hard", cwd=spoiled)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert checkpoints(spoiled) == []
    assert "git ckpt install --guard" in ckpt_here("doctor").stdout


@pytest.mark.parametrize("value", ["1", "true", "all", "guard", "wrapper:guard", "YES"])
def test_it_can_be_turned_off(spoiled: Path, value: str) -> None:
    install(spoiled)

    run("git", "reset", "--hard", cwd=spoiled, CKPT_DISABLE=value)

    assert checkpoints(spoiled) == []


def test_a_setting_turns_it_off(spoiled: Path) -> None:
    install(spoiled)
    git("config", "ckpt.disable", "guard", cwd=spoiled)

    git("reset", "--hard", cwd=spoiled)

    assert checkpoints(spoiled) == []


def test_code_of_the_repository_is_not_run(spoiled: Path) -> None:
    for name in ("ckpt.py", "json.py", "os.py", "dulwich/__init__.py", "ckpt/__init__.py"):
        write(spoiled / name, f"open({str(spoiled / 'run')!r}, 'w')\nraise SystemExit(1)\n")
    install(spoiled)

    run("git", "reset", "--hard", cwd=spoiled, PYTHONPATH=str(spoiled), PYTHONHOME=str(spoiled))

    assert len(checkpoints(spoiled)) == 1
    assert not (spoiled / "run").exists()


def test_broken_settings_do_not_keep_it_from_saving(spoiled: Path) -> None:
    write(spoiled / "ckpt.toml", "no = [\n")
    install(spoiled)

    ran = run("git", "checkout", "-f", cwd=spoiled)

    assert len(checkpoints(spoiled)) == 1
    assert "ckpt.toml" in ran.stderr


def test_the_index_is_neither_locked_nor_written(spoiled: Path) -> None:
    """Git holds the lock when it calls. Who called is not known here, so that it saves."""
    install(spoiled)
    index = spoiled / ".git/index"
    write(spoiled / ".git/index.lock", "of a git that is at work\n")
    before = index.read_bytes(), index.stat().st_mtime_ns

    run(str(spoiled / ".git/ckpt-guard"), "2", "token", cwd=spoiled)

    assert before == (index.read_bytes(), index.stat().st_mtime_ns)
    assert (spoiled / ".git/index.lock").read_text() == "of a git that is at work\n"
    assert len(checkpoints(spoiled)) == 1


# -- one checkpoint for one command ----------------------------------------------------


def test_what_a_script_under_git_runs_is_part_of_one_command(spoiled: Path) -> None:
    install(spoiled)
    git("config", "alias.wipe", "!git reset -q --hard; echo x >x; git clean -fdq", cwd=spoiled)
    before = Seen.at(spoiled)

    git("wipe", cwd=spoiled)

    assert len(checkpoints(spoiled)) == 1
    ckpt_here("rollback", "--yes", cwd=spoiled, code=0)
    assert before == Seen.at(spoiled)


# -- places ----------------------------------------------------------------------------


def test_a_linked_worktree_gets_its_own_checkpoints(spoiled: Path, tmp_path: Path) -> None:
    install(spoiled)
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", str(linked), cwd=spoiled, env=OFF)
    spoil_linked = Path(linked / "README.md")
    spoil_linked.write_text("edited in the linked one\n")

    git("-C", str(linked), "checkout", "-f", cwd=spoiled)

    found = ckpt_here("list", "--json", cwd=linked).json["checkpoints"]
    assert [checkpoint["worktree"] for checkpoint in found] == ["worktrees/linked"]
    ckpt_here("rollback", "--yes", cwd=linked, code=0)
    assert spoil_linked.read_text() == "edited in the linked one\n"


@pytest.fixture
def with_submodule(repo: Path, tmp_path: Path) -> Path:
    inner = tmp_path / "inner"
    shutil.copytree(repo, inner)
    words = ["-c", "protocol.file.allow=always", "submodule", "-q", "add", str(inner), "inner"]
    git(*words, cwd=repo)
    git("commit", "-qm", "submodule", cwd=repo)
    write(repo / "inner/README.md", "edited inside\n")
    write(repo / "inner/new.txt", "new inside\n")
    return repo


@pytest.mark.parametrize(
    "line",
    [
        "git submodule update --force",
        "git submodule deinit -f inner",
        "git rm -qf inner",
        "git checkout -f --recurse-submodules HEAD",
        "git -c submodule.recurse=true reset -q --hard",
        "git submodule foreach -q 'git checkout -f && git clean -fd'",
    ],
)
def test_what_is_in_submodules_is_saved_before_git_goes_there(
    with_submodule: Path, line: str
) -> None:
    install(with_submodule)

    ran = run("sh", "-c", line, cwd=with_submodule)

    assert ran.returncode == 0, ran.stderr
    inner = ["--git-dir=.git/modules/inner", "--work-tree=."]
    refs = [*inner, "for-each-ref", "--format=%(refname)", "refs/checkpoints"]
    [ref] = git(*refs, cwd=with_submodule).split()
    assert git(*inner, "show", f"{ref}:README.md", cwd=with_submodule) == "edited inside\n"
    assert git(*inner, "show", f"{ref}:new.txt", cwd=with_submodule) == "new inside\n"


def test_a_submodule_comes_back_with_what_was_in_it(with_submodule: Path) -> None:
    install(with_submodule)
    before = Seen.at(with_submodule / "inner")

    git("submodule", "update", "--force", cwd=with_submodule)

    assert Seen.at(with_submodule / "inner") != before
    ckpt_here("rollback", "--recurse", "--yes", cwd=with_submodule, code=0)
    assert Seen.at(with_submodule / "inner") == before


# What it is called with


@pytest.mark.parametrize("words", [[], ["1"], ["1", "notes", "more"]])
def test_other_words_than_the_guards_are_a_usage_error(repo: Path, words: list[str]) -> None:
    ran = ckpt_here("hook", "guard", *words, code=2)

    assert ran.stderr.startswith("error: 'hook guard' is what the guard calls")
    assert "hint: git ckpt install --guard" in ran.stderr
