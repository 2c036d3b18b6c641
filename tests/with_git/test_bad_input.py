# SPDX-License-Identifier: MIT
"""What cannot be done is said in one line, with the next command to type, and harms nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ckpt as ckpt_process
from helpers import ckpt_here as ckpt
from helpers import git, tree_state
from scenes import ODD_NAMES, creatable, link, remove, state, unprivileged, write
from terminals import Terminal

COMMANDS = (
    ("save",),
    ("list",),
    ("show",),
    ("diff",),
    ("rollback",),
    ("rollback", "--continue"),
    ("undo",),
    ("drop", "latest"),
    ("pin", "latest"),
    ("unpin", "latest"),
    ("trash",),
    ("restore-dropped", "x"),
)


def save(*words: str, cwd: Path | None = None) -> dict:
    return ckpt("save", "--json", *words, cwd=cwd, code=0).json["checkpoint"]


# Where no checkpoint can be


@pytest.mark.parametrize("words", COMMANDS)
def test_outside_a_repository_every_command_says_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    failed = ckpt(*words, cwd=tmp_path, code=1)

    assert failed.stderr.startswith("error: not a git repository")
    assert "hint: " in failed.stderr
    assert failed.stdout == ""
    assert os.listdir(tmp_path) == []
    assert ckpt(*words, "--json", cwd=tmp_path, code=1).json["error"]["code"] == "failed"


@pytest.mark.parametrize("words", COMMANDS)
def test_a_bare_repository_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    git("init", "-q", "--bare", str(tmp_path / "bare"))
    before = tree_state(tmp_path)

    refused = ckpt(*words, cwd=tmp_path / "bare", code=4)

    assert "work tree" in refused.stderr
    assert "hint: " in refused.stderr
    assert tree_state(tmp_path) == before


def test_the_home_folder_is_refused(isolated: Path) -> None:
    git("init", "-q", cwd=isolated)
    write(isolated, "diary", "private\n")

    refused = ckpt("save", cwd=isolated, code=4)

    assert "home folder" in refused.stderr
    assert "hint: " in refused.stderr
    assert not (isolated / ".git/ckpt").exists()
    assert git("for-each-ref", cwd=isolated) == ""
    (isolated / "below").mkdir()
    assert ckpt("save", cwd=isolated / "below", code=4)


def test_the_root_folder_is_refused(repo: Path) -> None:
    named = {"GIT_DIR": str(repo / ".git"), "GIT_WORK_TREE": "/"}

    refused = ckpt("save", "--json", env=named, code=4).json["error"]

    assert refused["code"] == "refused"
    assert "'/'" in refused["message"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
@pytest.mark.parametrize("given", [".", ".git"])
def test_a_repository_of_another_user_is_refused_until_declared_safe(
    repo: Path, isolated: Path, given: str
) -> None:
    config = (repo / ".git/config").read_text()
    write(repo, ".git/config", config + "[core]\n\tworktree = /\n[safe]\n\tdirectory = *\n")
    os.chown(repo / given, 12345, 12345)
    refused = ckpt("save", code=4)

    assert "dubious ownership" in refused.stderr
    assert f"git config --global --add safe.directory {repo}" in refused.stderr
    assert not (repo / ".git/ckpt").exists()
    write(repo, ".git/config", config)
    assert ckpt("list", code=4)
    git("config", "--global", "--add", "safe.directory", str(repo))
    ckpt("save", code=0)


def test_an_unknown_repository_format_is_refused_before_anything_is_written(repo: Path) -> None:
    for name, value in (("version", "7"), ("extension", "1")):
        config = (repo / ".git/config").read_text()
        if name == "version":
            git("config", "core.repositoryFormatVersion", value)
        else:
            git("config", "core.repositoryFormatVersion", "1")
            git("config", "extensions.fromTheFuture", "true")
        assert ckpt("save", code=4).stderr.startswith("error: ")
        assert not (repo / ".git/ckpt").exists()
        write(repo, ".git/config", config)


def test_a_damaged_index_is_an_error_and_not_an_empty_index(repo: Path) -> None:
    whole = (repo / ".git/index").read_bytes()
    for damaged in (b"", b"DIRC", whole[:-30], whole[:40] + b"\xff" + whole[41:]):
        write(repo, ".git/index", damaged)
        failed = ckpt("save")
        assert failed.code in (1, 4)
        assert failed.stderr.startswith("error: ")
        assert git("for-each-ref", "refs/checkpoints") == ""


def test_a_damaged_head_is_an_error(repo: Path) -> None:
    write(repo, ".git/HEAD", "rubbish\n")

    assert ckpt("save").code in (1, 4)


# Files that cannot be taken


def test_an_unreadable_file_makes_the_checkpoint_partial_and_is_named(repo: Path) -> None:
    write(repo, "cannot", "secret\n", 0o000)
    write(repo, "src/app.py", "cannot either\n", 0o000)
    write(repo, "folder/inside", "hidden\n")
    (repo / "folder").chmod(0o000)
    write(repo, "can", "taken\n")

    told = ckpt_process("save", "--json", under=unprivileged(), code=0)
    shown = ckpt_process("save", under=unprivileged(), code=0)
    (repo / "folder").chmod(0o755)

    document = told.json
    assert document["outcome"] == "partial"
    assert document["checkpoint"]["partial"] is True
    assert document["checkpoint"]["skipped"] == [
        {"path": "cannot", "reason": "unreadable"},
        {"path": "folder", "reason": "unreadable"},
        {"path": "src/app.py", "reason": "unreadable"},
    ]
    names = git("ls-tree", "-r", "--name-only", document["checkpoint"]["ref"]).split()
    assert "can" in names
    assert not {"cannot", "src/app.py"} & set(names)
    assert "warning: " in shown.stderr
    for name in ("cannot", "folder", "src/app.py"):
        assert name in shown.stderr
    assert "partial" in ckpt("list", code=0).stdout


def test_file_names_of_any_bytes_are_saved_shown_and_restored(repo: Path) -> None:
    names = creatable(repo, ODD_NAMES)
    for name in names:
        write(repo, b"odd/" + name, "content\n")
    before = tree_state(repo)
    saved = save("odd")
    remove(repo, "odd")

    shown = ckpt("show", "odd", code=0)
    stat = ckpt("diff", "odd", "--stat", code=0)
    status = ckpt("diff", "odd", "--name-status", code=0)
    patch = ckpt("diff", "odd", code=0)
    told = ckpt("rollback", "odd", code=0)

    assert tree_state(repo) == before
    for printed in (shown, stat, status, patch, told):
        assert "\x1b" not in printed.stdout
        assert "odd/" in printed.stdout
        assert printed.stderr == ""
    assert len(status.stdout.splitlines()) == len(names)
    assert len(saved["git_state"]["dirty_files"]) == len(names)


# Paths


@pytest.mark.parametrize("path", ["..", "../elsewhere", "/", "/etc/passwd", "src/../../x", ""])
@pytest.mark.parametrize("command", ["rollback", "diff"])
def test_a_path_outside_the_worktree_is_refused(repo: Path, command: str, path: str) -> None:
    save()
    write(repo, "README.md", "edited\n")

    failed = ckpt(command, "latest", "--", path, code=2)

    assert failed.stderr.startswith("error: ")
    assert "hint: " in failed.stderr
    assert (repo / "README.md").read_text() == "edited\n"


def test_a_path_that_leaves_the_worktree_through_a_link_is_refused(
    repo: Path, tmp_path: Path
) -> None:
    write(tmp_path, "elsewhere/file", "not ours\n")
    link(repo, "out", tmp_path / "elsewhere")
    save()

    assert "outside" in ckpt("rollback", "--", "out/file", code=2).stderr
    assert (tmp_path / "elsewhere/file").read_text() == "not ours\n"


@pytest.mark.parametrize("path", [".git", ".git/config", ".GIT/hooks/pre-commit"])
def test_a_path_inside_the_git_dir_is_refused(repo: Path, path: str) -> None:
    save()
    before = (repo / ".git/config").read_bytes()

    assert ckpt("rollback", "--", path, code=2).stderr.startswith("error: ")
    assert (repo / ".git/config").read_bytes() == before


# Words


@pytest.mark.parametrize(
    "words",
    [
        ("bogus",),
        ("--bogus",),
        ("save", "--bogus"),
        ("save", "one", "two"),
        ("save", "--kind", "odd"),
        ("save", "--kind", "safety"),
        ("save", "--session", ""),
        ("save", "--data", "{"),
        ("save", "--data", "NaN"),
        ("save", "--data", "[" * 100_000),
        ("save", "--data", "@missing"),
        ("save", "--meta", "no-equals"),
        ("save", "--meta", "=x"),
        ("save", "-m"),
        ("save", "-m", b"\xff"),
        ("save", "-m", "x" * 70_000),
        ("rollback", "--continue", "--abort"),
        ("rollback", "--continue", "latest"),
        ("rollback", "one", "two"),
        ("diff", "--stat", "--name-status"),
        ("drop",),
        ("pin",),
        ("help", "bogus"),
        ("-C",),
    ],
)
def test_wrong_words_are_usage_errors(repo: Path, words: tuple[str, ...]) -> None:
    failed = ckpt(*words, code=2)

    assert failed.stdout == ""
    assert failed.stderr.startswith("error: ")
    assert "hint: " in failed.stderr
    assert len(failed.stderr) < 1000
    assert git("for-each-ref", "refs/checkpoints") == ""
    error = ckpt("--json", *words, code=2).json["error"]
    assert error["code"] == "usage"
    assert error["hint"]


def test_continue_and_abort_without_an_interrupted_rollback_say_so(repo: Path) -> None:
    save()
    before = state(repo)

    for word in ("--continue", "--abort"):
        failed = ckpt("rollback", word)
        assert failed.code in (1, 3, 4)
        assert failed.stderr.startswith("error: ")
    assert state(repo) == before


def test_a_folder_to_work_in_that_does_not_exist_is_an_error(repo: Path) -> None:
    assert "nowhere'" in ckpt("-C", "nowhere", "list", code=1).stderr


# Settings


@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        ("ckpt.toml", "max_file_size = true\n", "max_file_size"),
        ("ckpt.toml", "max_file_sise = 1\n", "max_file_sise"),
        ("ckpt.toml", "= broken\n", "ckpt.toml"),
        ("ckpt.toml", b"\xff\xfe", "ckpt.toml"),
        ("pyproject.toml", "[tool.ckpt]\ninclude = 3\n", "include"),
        ("pyproject.toml", "[tool.ckpt]\nbogus = 3\n", "bogus"),
        ("pyproject.toml", "[tool\nckpt", "pyproject.toml"),
    ],
)
def test_a_broken_settings_file_stops_a_save_and_is_named(
    repo: Path, name: str, text: str, key: str
) -> None:
    write(repo, name, text)

    failed = ckpt("save", "--json", code=2).json["error"]

    assert failed["code"] == "usage"
    assert name in failed["message"]
    assert key in failed["message"]
    assert git("for-each-ref", "refs/checkpoints") == ""


def test_a_wrong_git_config_or_environment_stops_a_save_and_is_named(repo: Path) -> None:
    git("config", "ckpt.maxFileSize", "much")
    failed = ckpt("save", code=2).stderr
    assert "ckpt.maxFileSize" in failed
    assert str(repo / ".git/config") in failed
    git("config", "--unset", "ckpt.maxFileSize")
    assert "CKPT_MAX_FILE_SIZE" in ckpt("save", env={"CKPT_MAX_FILE_SIZE": "x"}, code=2).stderr


# Places


def test_every_command_works_from_a_subfolder(repo: Path) -> None:
    write(repo, "README.md", "saved\n")
    for cwd, words in (
        (repo / "src", ()),
        (repo, ("-C", "src")),
        (repo.parent, ("-C", "repo", "-C", "src")),
        (repo.parent, ("-C", "repo/src")),
    ):
        ckpt(*words, "save", "here", cwd=cwd, code=0)
        write(repo, "README.md", "edited\n")
        ckpt("diff", *words, "here", "--stat", cwd=cwd, code=0)
        ckpt("rollback", "here", *words, cwd=cwd, code=0)
        assert (repo / "README.md").read_text() == "saved\n"


def test_the_environment_can_name_git_dir_and_worktree(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "apart").mkdir()
    write(tmp_path, "apart/file", "one\n")
    named = {"GIT_DIR": str(repo / ".git"), "GIT_WORK_TREE": str(tmp_path / "apart")}
    found = ckpt("save", "--json", env=named, cwd="/", code=0).json["checkpoint"]

    assert git("ls-tree", "-r", "--name-only", found["ref"]) == "file\n"
    write(tmp_path, "apart/file", "two\n")
    ckpt("rollback", found["id"], env=named, cwd="/", code=0)
    assert (tmp_path / "apart/file").read_text() == "one\n"
    assert (repo / "README.md").read_text() == "# An example\n"


def test_a_git_file_points_to_the_repository(repo: Path, tmp_path: Path) -> None:
    os.rename(repo / ".git", tmp_path / "apart.git")
    write(repo, ".git", f"gitdir: {tmp_path}/apart.git\n")
    write(repo, "README.md", "saved\n")
    ckpt("save", "here", code=0)
    write(repo, "README.md", "edited\n")

    ckpt("rollback", "here", code=0)

    assert (repo / "README.md").read_text() == "saved\n"
    assert (tmp_path / "apart.git/ckpt").is_dir()


# Silence and colour


def test_quiet_prints_nothing_but_errors(repo: Path) -> None:
    write(repo, ".env", "SECRET=1\n")
    for words in (
        ("save", "one"),
        ("list",),
        ("show", "one"),
        ("diff", "one"),
        ("rollback", "one", "--dry-run"),
        ("pin", "one"),
        ("unpin", "one"),
        ("drop", "one"),
        ("trash",),
        ("restore-dropped", "one"),
    ):
        for quiet in ("-q", "--quiet"):
            told = ckpt(*words, quiet)
            if words[0] not in ("drop", "restore-dropped"):
                assert told.code == 0
            assert told.stdout == ""
            assert told.stderr == "" or told.code != 0
    write(repo, "README.md", "edited\n")
    for words in (("rollback", "one"), ("undo",)):
        told = ckpt(*words, "-q", code=0)
        assert (told.stdout, told.stderr) == ("", "")
    assert ckpt("show", "nothing", "-q", code=3).stderr.startswith("error: ")


def test_colour_is_for_terminals_only_and_never_with_no_color(repo: Path) -> None:
    save("one")
    write(repo, "README.md", "edited\n")
    for words in (("list",), ("show",), ("diff",), ("diff", "--stat"), ("show", "nothing")):
        assert "\x1b" not in on_terminal(*words, env={"NO_COLOR": "1"})
        assert "\x1b" not in on_terminal(*words, env={"TERM": "dumb"})
        piped = ckpt(*words, env={"TERM": "xterm"})
        assert "\x1b" not in piped.stdout + piped.stderr
    assert "\x1b[" in on_terminal("list", env={"TERM": "xterm"})
    assert "\x1b[" in on_terminal("diff", env={"TERM": "xterm"})


def on_terminal(*words: str, env: dict[str, str]) -> str:
    """What the program prints where standard output and error are a terminal."""
    command = [sys.executable, "-I", "-m", "ckpt", *words]
    with Terminal(command, {**os.environ, "TERM": "xterm", **env}) as terminal:
        terminal.end()
        return terminal.shown


def test_a_reader_that_leaves_early_gets_no_complaint(repo: Path) -> None:
    for _ in range(3):
        save("x" * 200)

    ran = subprocess.run(
        ["sh", "-c", '"$@" | head -c 1', "sh", sys.executable, "-I", "-m", "ckpt", "list"],
        capture_output=True,
        text=True,
    )

    assert ran.stderr == ""
