# SPDX-License-Identifier: MIT
"""When the guard saves and when it does not, and how little it is in anybody's way."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guards import OFF, Seen, install, run, target, write
from helpers import ckpt_here, git

from ckpt.install import guard
from ckpt.triggers.guard import HARMLESS

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
    guard.install(target(top, python=str(python)))
    script = top / ".git/ckpt-guard"
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


def test_without_proc_ps_is_asked(spoiled: Path, recorder: Path) -> None:
    install_with(spoiled, recorder, lambda text: text.replace("/proc/", "/nowhere/"))

    for line in ["git status", "git -C src status -s", "git diff HEAD", "git add README.md"]:
        ran = run("sh", "-c", line, cwd=spoiled)
        assert (ran.returncode, ran.stderr) == (0, ""), line
    assert started(recorder) == []
    (spoiled / "a status").mkdir()
    run("git", "-C", "a status", "clean", "-n", cwd=spoiled)
    assert len(started(recorder)) == 1


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


def test_an_empty_word_does_not_hide_the_command(spoiled: Path, recorder: Path) -> None:
    write(spoiled / "status", "a file of that name\n")
    git("add", "status", cwd=spoiled)
    install_with(spoiled, recorder)

    run("git", "-C", "", "checkout", "status", cwd=spoiled)

    assert len(started(recorder)) == 1


def test_shell_and_python_know_the_same_harmless_commands() -> None:
    text = (Path(__file__).parents[2] / "hooks/guard").read_text()
    listed = text.rpartition("case ${1-} in")[2].partition("*)")[0]

    assert set(re.findall(r"[\w-]+(?= [|]|\) ;;)", listed)) == HARMLESS


@pytest.mark.parametrize("name", ["status-undo", "status-s-", "statuses"])
def test_an_alias_that_begins_like_status_is_not_taken_for_it(name: str, spoiled: Path) -> None:
    guard.install(target(spoiled))
    git("config", f"alias.{name}", "checkout -f .", cwd=spoiled)
    run("git", name, cwd=spoiled)

    assert [found["trigger"] for found in checkpoints(spoiled)] == ["guard"]


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
    guard.install(target(spoiled, is_global=True))

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
    [found] = guard.inspect(target(spoiled))
    assert (found.state, found.mend) == ("replaced", "git ckpt install --guard")


@pytest.mark.parametrize("value", ["1", "true", "all", "guard", "wrapper:guard", "YES"])
def test_it_can_be_turned_off(spoiled: Path, value: str) -> None:
    install(spoiled)

    run("git", "reset", "--hard", cwd=spoiled, CKPT_DISABLE=value)

    assert checkpoints(spoiled) == []


def test_turned_off_it_starts_no_python(spoiled: Path, recorder: Path) -> None:
    install_with(spoiled, recorder)

    run("git", "reset", "--hard", cwd=spoiled, **OFF)

    assert started(recorder) == []


def test_a_setting_turns_it_off(spoiled: Path) -> None:
    install(spoiled)
    git("config", "ckpt.disable", "guard", cwd=spoiled)

    git("reset", "--hard", cwd=spoiled)

    assert checkpoints(spoiled) == []


def test_a_save_that_fails_is_told_of_once_and_stops_nothing(spoiled: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nulimit -f 40\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    install_with(spoiled, python)
    (spoiled / "big.bin").write_bytes(os.urandom(100_000))

    first = run("git", "stash", "-u", cwd=spoiled)
    second = run("git", "stash", "pop", cwd=spoiled)

    assert (first.returncode, second.returncode) == (0, 0)
    assert first.stderr.count("warning: no checkpoint was taken") == 1
    assert "warning" not in second.stderr
    assert (spoiled / "new.txt").read_text() == "never added\n"
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


def test_what_is_run_from_an_editor_that_git_opened_is_a_command_by_itself(
    spoiled: Path, tmp_path: Path
) -> None:
    install(spoiled)
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import subprocess, sys\n"
        "for text in ('first', 'second'):\n"
        "    open('README.md', 'w').write(text)\n"
        "    subprocess.run(['git', 'checkout', '-q', '-f'])\n"
        "open(sys.argv[1], 'w').write('message')\n".replace("\n", "\n")
    )

    git(
        *("-c", f"core.editor={sys.executable} {editor}"),
        *("commit", "-q", "--allow-empty"),
        cwd=spoiled,
    )

    assert len(checkpoints(spoiled)) == 2


def test_what_is_typed_at_a_shell_that_git_started_is_a_command_by_itself(repo: Path) -> None:
    """At a terminal a command gets a process group of its own; here the whole shell does."""
    if not shutil.which("setsid"):
        pytest.skip("there is no setsid here")
    install(repo)
    typed = "echo 1 >README.md; git checkout -qf; echo 2 >README.md; git checkout -qf; :"

    git("rebase", "-q", "-x", f"setsid -w sh -c '{typed}'", "--root", cwd=repo)

    assert len(checkpoints(repo)) == 2


def test_a_script_in_a_rebase_is_part_of_it(spoiled: Path) -> None:
    install(spoiled)
    typed = "echo 1 >src/app.py; git checkout -qf"

    git("rebase", "-q", "--autostash", "--root", "-x", typed, "-x", typed, cwd=spoiled)

    assert len(checkpoints(spoiled)) == 1


# -- places ----------------------------------------------------------------------------


def test_a_path_with_spaces_and_quotes(spoiled: Path, tmp_path: Path, recorder: Path) -> None:
    top = tmp_path / 'it\'s a "path" $HOME'
    shutil.move(spoiled, top)
    install(top)

    git("reset", "-q", "--hard", cwd=top)

    assert [checkpoint["trigger"] for checkpoint in checkpoints(top)] == ["guard"]
    install_with(top, recorder)
    assert run("git", "diff", cwd=top).stderr == ""
    install_with(top, recorder, lambda text: text.replace("/proc/", "/nowhere/"))
    assert run("git", "diff", cwd=top).stderr == ""
    assert started(recorder) == []


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


def test_an_index_that_a_tool_keeps_elsewhere_is_not_the_users(
    spoiled: Path, tmp_path: Path
) -> None:
    install(spoiled)
    git("add", "new.txt", cwd=spoiled)
    staged = git("ls-files", "-s", cwd=spoiled)

    run(
        "git", "read-tree", "-u", "--reset", "HEAD", cwd=spoiled, GIT_INDEX_FILE=f"{tmp_path}/index"
    )

    git("rm", "-q", "--cached", "new.txt", cwd=spoiled, env=OFF)
    ckpt_here("rollback", "--yes", cwd=spoiled, code=0)
    assert git("ls-files", "-s", cwd=spoiled) == staged
    assert (spoiled / "README.md").read_text() == "edited\n"


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


def test_a_nested_repository_that_git_would_delete_is_saved(spoiled: Path) -> None:
    install(spoiled)
    nested = spoiled / "nested"
    git("init", "-q", str(nested), cwd=spoiled)
    write(nested / "file", "never committed\n")

    git("clean", "-n", "-ffdx", cwd=spoiled)

    [ref] = git("for-each-ref", "--format=%(refname)", "refs/checkpoints", cwd=nested).split()
    assert git("show", f"{ref}:file", cwd=nested) == "never committed\n"


# -- git sees what it would see without ------------------------------------------------


@pytest.mark.parametrize("untracked_cache", ["true", "false"])
def test_git_misses_no_change_with_the_guard_or_after_it(repo: Path, untracked_cache: str) -> None:
    """Git keeps in its index what a monitor told it, and which one that was."""
    git("config", "core.untrackedCache", untracked_cache, cwd=repo)
    install(repo)
    for number in range(3):
        git("status", cwd=repo)
        write(repo / "src/app.py", f"{number}")
        write(repo / f"src/new{number}", "")
        assert f" M src/app.py\n?? src/new{number}" in git("status", "-s", cwd=repo)
        git("add", ".", cwd=repo)
        git("commit", "-qm", "next", cwd=repo)
    guard.uninstall(target(repo))
    write(repo / "src/app.py", "last")
    assert git("status", "-s", cwd=repo) == " M src/app.py\n"


# What it is called with


@pytest.mark.parametrize("words", [[], ["1"], ["1", "notes", "more"]])
def test_other_words_than_the_guards_are_a_usage_error(repo: Path, words: list[str]) -> None:
    ran = ckpt_here("hook", "guard", *words, code=2)

    assert ran.stderr.startswith("error: 'hook guard' is what the guard calls")
    assert "hint: git ckpt install --guard" in ran.stderr


@pytest.mark.parametrize("pid", ["", "x", "-1", "0", "9" * 5000])
def test_it_saves_though_it_cannot_tell_for_which_process(
    spoiled: Path, pid: str, tmp_path: Path
) -> None:
    ran = ckpt_here("hook", "guard", "--json", "--", pid, str(tmp_path / "notes"), code=0)

    assert ran.json["outcome"] == "created"
