# SPDX-License-Identifier: MIT
"""Pipes and devices where git has its files: nobody waits for one, or reads without end."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import git

LONG_ENOUGH = 60  # seconds; whoever waits for a pipe waits for ever
MEMORY = 1 << 30  # bytes, in which a device that never ends is soon too much


def ran(top: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-m", "ckpt", *words],
        cwd=top,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_ENOUGH,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


KINDS: dict[str, Callable[[Path], None]] = {"pipe": pipe, "device": endless}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["config", "index", "HEAD", "packed-refs", "objects/info/alternates", "included"]
)
def test_a_nested_repository_with_one_is_noted_and_all_else_is_saved(
    name: str, kind: str, repo: Path
) -> None:
    git("init", "-q", "nested")
    nested = repo / "nested/.git"
    if name == "included":
        git("config", "include.path", "included", cwd=repo / "nested")
    (nested / name).parent.mkdir(exist_ok=True)
    KINDS[kind](nested / name)
    (repo / "mine").write_text("mine\n")

    done = ran(repo, "save", "all else")

    assert (done.returncode, done.stderr) == (0, "")
    assert "mine" in git("ls-tree", "--name-only", saved(repo))


def saved(top: Path) -> str:
    return git("for-each-ref", "--format=%(objectname)", "refs/checkpoints", cwd=top).strip()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["config", "index", "HEAD", "packed-refs"])
def test_in_place_of_a_file_that_is_needed_it_is_an_error(name: str, kind: str, repo: Path) -> None:
    KINDS[kind](repo / ".git" / name)

    done = ran(repo, "save")

    assert (done.returncode != 0, "Traceback" in done.stderr) == (True, False), done
    assert "this is a bug" not in done.stderr
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["error", "hint"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["gc.pid", "logs/HEAD", "shallow", "ckpt-guard"])
@pytest.mark.parametrize("words", [["save"], ["status"]], ids=" ".join)
def test_in_place_of_one_that_can_be_done_without_it_is_passed_over(
    words: list[str], name: str, kind: str, repo: Path
) -> None:
    (repo / ".git" / name).parent.mkdir(exist_ok=True)
    KINDS[kind](repo / ".git" / name)

    done = ran(repo, *words)

    assert (done.returncode, "error" in done.stderr) == (0, False), done


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    [
        "objects/tmp_obj_0123456789abcdef",
        "objects/pack/PACK.keep",
        "objects/pack/PACK.mtimes",
        "ckpt/lock",
    ],
)
@pytest.mark.parametrize("words", [["doctor"], ["gc"], ["rescue"], ["list"]], ids=" ".join)
def test_in_place_of_a_file_of_ours_it_is_not_waited_for(
    words: list[str], name: str, kind: str, repo: Path
) -> None:
    ran(repo, "save")
    git("repack", "-adq", cwd=repo)
    (pack,) = (repo / ".git/objects/pack").glob("*.pack")
    KINDS[kind](repo / ".git" / name.replace("PACK", pack.stem))

    done = ran(repo, *words)

    assert "this is a bug" not in done.stderr and "Traceback" not in done.stderr, done
    is_told = words == ["doctor"] and f"/{name}" in done.stdout
    assert done.returncode == 0 or is_told or done.stderr.startswith("error: "), done
