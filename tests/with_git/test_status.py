# SPDX-License-Identifier: MIT
"""`git ckpt status` tells in one screen what there is, what triggers did, and what is wrong.

Hooks are files that real git runs, and they fail as they would: on a disk that is full, in an
object store that cannot be written.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt, ckpt_here, git
from scenes import write

SCREEN = 24


def status(**env: str) -> dict[str, Any]:
    document: dict[str, Any] = ckpt_here("status", "--json", env=env, code=0).json
    return document


def trigger(name: str, **env: str) -> dict[str, Any]:
    (found,) = (item for item in status(**env)["triggers"] if item["name"] == name)
    assert isinstance(found, dict)
    return found


def screen(**env: str) -> str:
    """What people see; nothing else is printed, and it fits."""
    ran = ckpt_here("status", env=env, code=0)
    assert ran.stderr == ""
    assert len(ran.stdout.splitlines()) <= SCREEN
    return ran.stdout


def save(*words: str) -> str:
    saved: str = ckpt_here("save", *words, "--json", code=0).json["checkpoint"]["id"]
    return saved


def hook(repo: Path, event: str, before: str = "") -> None:
    """A hook file that calls ckpt, as install writes them in essence."""
    python = shlex.quote(sys.executable)
    path = Path(git("rev-parse", "--git-path", f"hooks/{event}", cwd=repo).strip())
    path.write_text(f'#!/bin/sh\n{before}\nexec {python} -I -m ckpt hook {event} "$@"\n')
    path.chmod(0o755)


def run_git(*words: str) -> str:
    """What git, and the hook that it runs, say; that it fails is a failure."""
    ran = subprocess.run(["git", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


def commit(repo: Path, text: str) -> str:
    write(repo, "README.md", text)
    said = run_git("commit", "-q", "-a", "-m", text)
    assert git("log", "-1", "--format=%s").strip() == text
    return said


# -- what there is ---------------------------------------------------------------------


@pytest.mark.usefixtures("repo")
def test_where_nothing_was_done_yet_it_says_what_to_do() -> None:
    shown = screen()
    found = status()

    assert "none here" in shown
    assert "git ckpt save" in shown
    assert " install\n" in shown
    assert found["checkpoints"] == {
        "here": 0,
        "kinds": dict.fromkeys(("manual", "feature", "auto", "session", "hook", "safety"), 0),
        "newest": None,
        "elsewhere": 0,
        "unreadable": 0,
        "trash": 0,
        "refs": 0,
        "foreign_refs": 0,
    }
    assert found["schema"] == 1


def test_checkpoints_are_counted_by_kind_worktree_and_trash(repo: Path, tmp_path: Path) -> None:
    _, feature, last = save("one"), save("two", "--kind", "feature"), save("three")
    dropped = save("four")
    ckpt_here("drop", dropped, code=0)
    git("worktree", "add", "-q", str(tmp_path / "linked"))
    ckpt_here("save", "five", cwd=tmp_path / "linked", code=0)
    git("update-ref", "refs/checkpoints/20200101-000000-000-0000", "HEAD")

    found = status()["checkpoints"]
    shown = screen()

    assert (found["here"], found["elsewhere"], found["trash"]) == (3, 1, 1)
    assert (found["unreadable"], found["refs"]) == (1, 6)
    assert {kind: count for kind, count in found["kinds"].items() if count} == {
        "manual": 2,
        "feature": 1,
    }
    assert found["newest"] == last
    assert feature not in shown
    for words in (
        "3 here (2 manual, 1 feature)",
        f"newest just now: {last}",
        "1 in other worktrees, 1 in the trash",
        "1 cannot be read",
        "6 refs",
    ):
        assert words in shown
    assert "(worktrees/linked)" in ckpt_here("status", cwd=tmp_path / "linked", code=0).stdout


def test_an_interrupted_rollback_and_an_operation_are_told(repo: Path) -> None:
    git("checkout", "-q", "-b", "other")
    commit(repo, "theirs")
    git("checkout", "-q", "main")
    commit(repo, "ours")
    subprocess.run(["git", "merge", "-q", "other"], capture_output=True)
    (repo / ".git/ckpt").mkdir(mode=0o700)
    write(repo, ".git/ckpt/journal", "torn")

    shown = screen()

    assert "a merge is in progress" in shown
    assert "interrupted" in shown
    assert "git ckpt rollback --continue, or --abort" in shown
    assert status()["rollback_interrupted"] is True
    assert status()["git_state"]["operation"] == "merge"


# -- triggers --------------------------------------------------------------------------


def test_the_last_checkpoint_of_a_hook_is_told(repo: Path) -> None:
    hook(repo, "pre-commit")
    assert commit(repo, "second") == ""
    found = trigger("pre-commit")

    assert found["last_success"]["outcome"] == "created"
    assert found["last_success"]["id"] == status()["checkpoints"]["newest"]
    assert found["last_success"]["seconds"] > 0
    assert (found["failing"], found["last_failure"]) == (False, None)
    assert f"created {found['last_success']['id']}" in screen()


@pytest.mark.parametrize(
    ("env", "config", "off"),
    [
        ({"CKPT_DISABLE": "1"}, (), "CKPT_DISABLE"),
        ({}, ("ckpt.disable", "all"), "ckpt.disable"),
        ({}, ("ckpt.enabled", "false"), "ckpt.enabled"),
    ],
)
def test_triggers_that_are_off_are_told_with_what_turns_them_off(
    repo: Path, env: dict[str, str], config: tuple[str, ...], off: str
) -> None:
    hook(repo, "pre-commit")
    commit(repo, "second")
    if config:
        git("config", *config)

    assert {item["off"] for item in status(**env)["triggers"]} == {off}
    assert f"off ({off})" in screen(**env)


def test_what_is_installed_and_what_another_tool_took_away_is_told(repo: Path) -> None:
    ckpt("install", "--hooks", "pre-commit,pre-push", code=0)
    assert trigger("pre-commit")["installed"]["state"] == "installed"
    assert trigger("pre-rebase")["installed"]["state"] == "missing"
    shown = screen()
    assert "not installed: pre-merge-commit, pre-rebase, post-checkout" in shown

    write(repo, ".git/hooks/pre-commit", "#!/bin/sh\nexit 0\n", 0o755)
    for name in git("config", "--name-only", "--list").split():  # where git runs those
        if name.startswith("hook.") and "pre-commit" in git("config", "--get-all", name):
            git("config", "--unset-all", name, "pre-commit")
    assert trigger("pre-commit")["installed"]["state"] == "replaced"
    shown = screen()
    assert "removed by another tool" in shown
    assert " install\n" in shown


# -- hooks that fail -------------------------------------------------------------------


def content_that_does_not_fit(repo: Path) -> None:
    write(repo, "untracked", os.urandom(300_000))


@pytest.fixture
def full(repo: Path) -> Path:
    """A repository in which the pre-commit hook has little room for files."""
    hook(repo, "pre-commit", before="ulimit -f 64")
    content_that_does_not_fit(repo)
    return repo


def test_a_full_disk_does_not_stop_a_commit_and_is_warned_of(full: Path) -> None:
    said = commit(full, "second")
    assert said.startswith("warning: no checkpoint was taken: ")
    assert len(said.splitlines()) == 1
    said = commit(full, "third")

    found = trigger("pre-commit")
    assert found["failing"] is True
    assert found["last_failure"]["count"] == 2
    assert found["last_failure"]["message"] in said
    shown = screen()
    assert "failed 2 times in a row, last just now: " in shown
    assert found["last_failure"]["message"] in shown


def mounted(*words: str) -> None:
    ran = subprocess.run(["mount", *words], capture_output=True, text=True)
    if ran.returncode:
        pytest.skip(f"needs to mount a file system: {ran.stderr.strip()}")


@contextmanager
def unmounting(place: Path) -> Iterator[None]:
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_disk_without_space_does_not_stop_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real one: the git dir lies on it, and what is to be saved is larger than it."""
    small, top = tmp_path / "small", tmp_path / "repo"
    small.mkdir()
    mounted("-t", "tmpfs", "-o", "size=400k", "tmpfs", str(small))
    with unmounting(small):
        git("init", "-q", "--separate-git-dir", str(small / "git"), str(top))
        monkeypatch.chdir(top)
        write(top, "README.md", "first\n")
        git("add", ".")
        git("commit", "-q", "-m", "first")
        hook(top, "pre-commit")
        write(top, "untracked", os.urandom(1_000_000))
        said = commit(top, "second")

        assert "No space left on device" in said
        assert trigger("pre-commit")["failing"] is True
        assert "No space left on device" in screen()
        assert git("fsck", "--strict") == ""


def test_a_read_only_repository_does_not_stop_status(repo: Path) -> None:
    save("one")
    folder = repo / ".git"
    mounted("--bind", str(folder), str(folder))
    with unmounting(folder):
        mounted("-o", "remount,ro,bind", str(folder))

        assert "1 here (1 manual)" in screen()
