# SPDX-License-Identifier: MIT
"""The guard goes in and out without a trace, and gets along with what was there."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from guards import run, write
from helpers import git

from ckpt.git.repository import discover
from ckpt.install import guard
from ckpt.install.record import Step, Target
from ckpt.models import Finding


def target(top: Path, **more: Any) -> Target:
    env = dict(os.environ)
    return Target(discover(str(top), env), env, **{"python": sys.executable, **more})


@pytest.fixture
def config(repo: Path) -> Path:
    return repo / ".git/config"


def program(path: Path, *lines: str) -> Path:
    """A foreign fsmonitor program."""
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def actions(steps: list[Step]) -> list[str]:
    return [step.action for step in steps]


def found(top: Path) -> Finding:
    return guard.inspect(target(top))[0]


def call(top: Path, *words: str) -> tuple[int, bytes]:
    ran = subprocess.run([top / ".git/ckpt-guard", *words], cwd=top, capture_output=True)
    return ran.returncode, ran.stdout


@pytest.mark.parametrize(
    "more",
    [
        b"",
        b"[core]\n\tfsmonitor = /usr/bin/their-own\n",
        b"[core]\n\tfsmonitor = ~/their-own --flag\n\tfsmonitorHookVersion = 1\n",
        b"[core]\n\tfsmonitor = false\n",
        b"[alias]\n\tst = status",
    ],
)
def test_it_goes_without_a_trace(repo: Path, config: Path, more: bytes) -> None:
    before = config.read_bytes() + more
    config.write_bytes(before)

    assert actions(guard.install(target(repo))) == ["added"]
    assert config.read_bytes() != before
    assert actions(guard.install(target(repo))) == ["kept"]
    assert actions(guard.uninstall(target(repo))) == ["removed"]

    assert config.read_bytes() == before
    assert not (repo / ".git/ckpt-guard").exists()
    assert guard.uninstall(target(repo)) == []
    assert found(repo).state == "missing"


def test_who_may_read_the_repository_may_run_it(repo: Path) -> None:
    guard.install(target(repo))

    assert stat.S_IMODE((repo / ".git/ckpt-guard").stat().st_mode) == 0o755


def test_another_python_replaces_the_one_before(repo: Path) -> None:
    guard.install(target(repo, python="/old/python"))
    assert found(repo).state == "replaced"

    assert actions(guard.install(target(repo))) == ["changed"]

    assert git("config", "--get-all", "core.fsmonitor", cwd=repo).count("\n") == 1
    assert found(repo).state == "installed"


def test_a_program_that_was_there_still_answers(repo: Path, tmp_path: Path) -> None:
    theirs = program(tmp_path / "theirs", 'echo "$@" >>told', "printf 'x\\0a b\\0'", "exit 3")
    git("config", "core.fsmonitor", str(theirs), cwd=repo)

    [step] = guard.install(target(repo))

    assert str(theirs) in step.what
    assert call(repo, "2", "their token") == (3, b"x\0a b\0")
    assert call(repo, "1", "123") == (3, b"x\0a b\0")
    assert (repo / "told").read_text() == "2 their token\n1 123\n"


def test_a_program_with_arguments_and_spaces_still_answers(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    theirs = program(tmp_path / "a b/theirs", 'echo "$@" >told')
    git("config", "core.fsmonitor", f"'{theirs}' --flag", cwd=repo)
    guard.install(target(repo))
    write(repo / "README.md", "edited\n")

    assert "README.md" in git("status", "-s", cwd=repo)
    assert (repo / "told").read_text().startswith("--flag ")


def test_a_program_of_all_repositories_is_called_by_the_guard_of_one(
    repo: Path, tmp_path: Path
) -> None:
    theirs = program(tmp_path / "theirs", "printf 'x\\0'")
    git("config", "--global", "core.fsmonitor", str(theirs), cwd=repo)

    guard.install(target(repo))

    assert call(repo, "2", "") == (0, b"x\0")


@pytest.mark.parametrize("line", ["fsmonitor = true", "fsmonitor = 1", "fsmonitor"])
def test_with_gits_own_daemon_the_wrapper_is_offered(repo: Path, config: Path, line: str) -> None:
    config.write_text(config.read_text() + f"[core]\n\t{line}\n")
    before = config.read_bytes()

    [step] = guard.install(target(repo))

    assert (step.action, step.advice) == ("to-do", ("git ckpt install --wrapper",))
    assert config.read_bytes() == before
    assert not (repo / ".git/ckpt-guard").exists()
    assert (found(repo).state, found(repo).mend) == ("foreign", "git ckpt install --wrapper")


def test_a_program_that_another_tool_put_in_its_place_is_found_and_mended(
    repo: Path, tmp_path: Path
) -> None:
    guard.install(target(repo))
    theirs = program(tmp_path / "theirs", "printf 'x\\0'")
    git("config", "core.fsmonitor", str(theirs), cwd=repo)

    assert (found(repo).state, found(repo).mend) == ("replaced", "git ckpt install --guard")
    guard.install(target(repo))

    assert found(repo).state == "installed"
    assert call(repo, "2", "") == (0, b"x\0")


def test_a_repository_that_was_moved_is_found_and_mended(repo: Path, tmp_path: Path) -> None:
    guard.install(target(repo))
    moved = repo.rename(tmp_path / "moved")

    assert found(moved).state == "replaced"
    assert run("git", "status", cwd=moved).returncode == 0
    guard.install(target(moved))

    assert found(moved).state == "installed"
    assert run("git", "status", cwd=moved).stderr == ""


def test_for_all_repositories(repo: Path, isolated: Path) -> None:
    before = (isolated / ".gitconfig").read_bytes()
    assert actions(guard.install(target(repo, is_global=True))) == ["added"]
    write(repo / "README.md", "edited\n")

    git("checkout", "-f", cwd=repo)

    assert git("for-each-ref", "refs/checkpoints", cwd=repo).count("\n") == 1
    assert found(repo).state == "installed"
    guard.uninstall(target(repo, is_global=True))
    assert (isolated / ".gitconfig").read_bytes() == before
    assert not (isolated / ".local/share/ckpt/ckpt-guard").exists()


def test_one_for_all_is_not_called_by_one_for_a_repository(repo: Path) -> None:
    guard.install(target(repo, is_global=True))

    guard.install(target(repo))

    assert "former=''" in (repo / ".git/ckpt-guard").read_text()


def test_a_linked_worktree_uses_the_one_of_the_repository(repo: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", str(linked), cwd=repo)

    guard.install(target(linked))

    assert (repo / ".git/ckpt-guard").exists()
    assert found(repo).state == found(linked).state == "installed"


def test_what_it_starts_is_named_in_full(repo: Path) -> None:
    guard.install(target(repo))

    text = (repo / ".git/ckpt-guard").read_text()
    assert f"python={sys.executable}\n" in text
    assert not re.search("@[A-Z]+@", text)
    assert os.path.isabs(git("config", "core.fsmonitor", cwd=repo).strip())
