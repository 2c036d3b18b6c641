# SPDX-License-Identifier: MIT
"""The wrapper: a `git` that takes a checkpoint first, in three shells and on PATH."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from guards import OFF, install, run, start_with, write
from helpers import ckpt_here, git, tree_state

STARTS = {
    "bash": ["bash", "--norc", "-c", '. "$WRAPPER/git.sh"; {line}'],
    "zsh": ["zsh", "-f", "-c", '. "$WRAPPER/git.sh"; {line}'],
    "PATH": ["sh", "-c", 'PATH="$WRAPPER/bin:$PATH"; {line}'],
}


@pytest.fixture
def spoiled(repo: Path) -> Path:
    write(repo / "README.md", "edited\n")
    write(repo / "new.txt", "never added\n")
    return repo


@pytest.fixture(params=STARTS)
def way(request: pytest.FixtureRequest) -> str:
    if request.param != "PATH" and not shutil.which(request.param):
        pytest.skip(f"there is no {request.param} here")
    name: str = request.param
    return name


def folder(home: Path) -> Path:
    return home / ".local/share/ckpt/wrapper"


def type_in(way: str, line: str, top: Path, home: Path, stdin: str = "", **env: str) -> Any:
    words = [word.replace("{line}", line) for word in STARTS[way]]
    return subprocess.run(
        words,
        cwd=top,
        env={**os.environ, **env, "WRAPPER": str(folder(home))},
        capture_output=True,
        text=True,
        input=stdin,
    )


def checkpoints(top: Path) -> list[Any]:
    found: list[Any] = ckpt_here("list", "--json", cwd=top).json["checkpoints"]
    return found


def test_a_checkpoint_comes_first(spoiled: Path, isolated: Path, way: str) -> None:
    install(spoiled, "--wrapper")
    before = tree_state(spoiled)

    ran = type_in(way, "git clean -fd", spoiled, isolated)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert not (spoiled / "new.txt").exists()
    assert [checkpoint["trigger"] for checkpoint in checkpoints(spoiled)] == ["wrapper"]
    ckpt_here("rollback", "--yes", cwd=spoiled, code=0)
    assert tree_state(spoiled) == before


def test_what_git_tells_no_monitor_of_is_saved_too(
    spoiled: Path, isolated: Path, tmp_path: Path, way: str
) -> None:
    install(spoiled, "--wrapper")
    patch = tmp_path / "a patch"
    patch.write_text(git("diff", cwd=spoiled))

    ran = type_in(way, f"git apply -R '{patch}'", spoiled, isolated)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert (spoiled / "README.md").read_text() != "edited\n"
    ckpt_here("rollback", "--yes", cwd=spoiled, code=0)
    assert (spoiled / "README.md").read_text() == "edited\n"


def test_git_gets_everything_and_gives_everything_back(
    repo: Path, isolated: Path, way: str
) -> None:
    install(repo, "--wrapper")
    git("config", "alias.say", "!printf '<%s>' \"$@\"; cat; exit 7; :", cwd=repo)

    ran = type_in(way, "git say 'a b' '' '*' '$HOME'", repo, isolated, stdin="typed\n")

    assert (ran.returncode, ran.stdout) == (7, "<a b><><*><$HOME>typed\n")


def test_harmless_commands_start_no_python(
    spoiled: Path, isolated: Path, tmp_path: Path, way: str
) -> None:
    recorder = tmp_path / "recorder"
    recorder.write_text(f"#!/bin/sh\necho started >>{tmp_path}/started\n")
    recorder.chmod(0o755)
    install(spoiled, "--wrapper")
    start_with(folder(isolated) / "guard", recorder)

    for line in (
        "git status",
        "git log -1",
        "git diff",
        "git branch",
        "git config -l",
        "git add .",
    ):
        assert type_in(way, line, spoiled, isolated).returncode == 0
    assert not (tmp_path / "started").exists()
    type_in(way, "git stash", spoiled, isolated, **OFF)
    assert not (tmp_path / "started").exists()
    type_in(way, "git stash", spoiled, isolated)
    assert (tmp_path / "started").read_text() == "started\n"


def test_outside_a_repository_it_is_plain_git(isolated: Path, repo: Path, tmp_path: Path) -> None:
    install(repo, "--wrapper")

    ran = type_in("PATH", "git checkout -f", tmp_path, isolated)

    assert ran.returncode == 128
    assert ran.stderr == run("git", "checkout", "-f", cwd=tmp_path).stderr


def test_a_failure_stops_git_only_if_asked(spoiled: Path, isolated: Path, way: str) -> None:
    install(spoiled, "--wrapper")
    shutil.rmtree(spoiled / ".git/ckpt", ignore_errors=True)
    (spoiled / ".git/ckpt").write_text("a file where a folder should be")

    blocked = type_in(way, "git checkout -f", spoiled, isolated, CKPT_ON_ERROR="block")
    assert blocked.returncode == 1
    assert "warning: no checkpoint was taken" in blocked.stderr
    assert (spoiled / "README.md").read_text() == "edited\n"

    ran = type_in(way, "git checkout -f", spoiled, isolated)
    assert (ran.returncode, ran.stderr.count("warning: ")) == (0, 1)
    assert (spoiled / "README.md").read_text() != "edited\n"


def test_git_goes_on_when_ckpt_has_gone(spoiled: Path, isolated: Path, way: str) -> None:
    install(spoiled, "--wrapper")
    (folder(isolated) / "guard").unlink()

    ran = type_in(way, "git checkout -q -f", spoiled, isolated)

    assert (ran.returncode, ran.stderr) == (0, "")


def test_git_goes_on_when_ckpt_cannot_be_started(spoiled: Path, isolated: Path, way: str) -> None:
    install(spoiled, "--wrapper")
    start_with(folder(isolated) / "guard", Path("/bin/false"))

    assert type_in(way, "git checkout -q -f", spoiled, isolated).returncode == 0
    assert (spoiled / "README.md").read_text() != "edited\n"


def test_it_is_told_what_to_add_and_nothing_is_added(repo: Path, isolated: Path) -> None:
    write(isolated / ".bashrc", "# theirs\n")

    told = ckpt_here("install", "--wrapper", "--hooks", "none", cwd=repo, code=0).stdout

    assert str(folder(isolated) / "git.sh") in told
    assert (isolated / ".bashrc").read_text() == "# theirs\n"
    assert stat.S_IMODE((folder(isolated) / "bin/git").stat().st_mode) == 0o755


def test_it_goes_when_it_is_named_and_else_stays_for_other_repositories(
    repo: Path, isolated: Path
) -> None:
    install(repo, "--wrapper")

    told = ckpt_here("uninstall", cwd=repo, code=0).stdout
    assert "wrapper is left" in told and "git ckpt uninstall --wrapper" in told
    assert folder(isolated).exists()
    ckpt_here("uninstall", "--wrapper", cwd=repo, code=0)
    assert not folder(isolated).exists()
