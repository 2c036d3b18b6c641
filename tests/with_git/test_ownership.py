# SPDX-License-Identifier: MIT
"""Repositories of other users are refused as git refuses them, before anything in them counts."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from helpers import Ran, fsck, git
from helpers import ckpt as ckpt_process
from helpers import ckpt_here as ckpt
from scenes import unprivileged

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can give a folder to somebody else"
)
SOMEBODY = 12345


def takes(*values: str, cwd: Path, env: Mapping[str, str] | None = None) -> tuple[bool, bool]:
    """Whether git and ckpt take the repository, with these values of `safe.directory`."""
    text = "".join(f"\tdirectory = {value}\n" for value in values)
    (Path(os.environ["HOME"]) / ".gitconfig").write_text(f"[safe]\n{text}")
    ran = subprocess.run(
        ["git", "status"], cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True
    )
    return ran.returncode == 0, told(ckpt("list", cwd=cwd, env=env))


def told(ran: Ran) -> bool:
    assert ran.code in (0, 1, 4), ran
    return ran.code == 0


@pytest.fixture
def foreign(repo: Path) -> Path:
    """A repository that somebody else owns, whose configuration cannot even be read."""
    (repo / ".git/config").write_text("[broken\n")
    os.chown(repo, SOMEBODY, SOMEBODY)
    return repo


def test_the_configuration_is_not_read_before_the_owner_is_known(foreign: Path) -> None:
    refused = ckpt("save", code=4)

    assert "dubious ownership" in refused.stderr
    assert not (foreign / ".git/ckpt").exists()
    os.chown(foreign, 0, 0)
    assert "dubious ownership" not in ckpt("save").stderr


# Whether these values of safe.directory are enough for the repository at `top`.
DECLARED = {
    (): False,
    ("*",): True,
    ("*", ""): False,
    ("", "*"): True,
    ("{top}",): True,
    ("{top}", ""): False,
    ("{top}", "", "{top}"): True,
    ("{top}/src",): False,
    ("{above}",): False,
    ("/elsewhere", "{top}"): True,
    ("repo",): False,
    ("../repo",): False,
    ("..",): False,
    ("~nobody-of-that-name/repo",): False,
}
# Git before 2.46 knows less.
DECLARED_BY_NEWER = {
    ("{above}/*",): True,
    ("{above}/*", ""): False,
    ("{top}/*",): False,
    ("{above}/re*",): False,
    ("{above}/**",): False,
    ("{above}/missing/../*",): False,
    ("~/above/*",): True,
    ("~/link",): True,
    ("{top}/",): True,
    ("{above}/missing/../repo",): False,
    ("../*",): False,
}


def test_git_and_ckpt_agree_on_what_is_declared_safe(repo: Path, isolated: Path) -> None:
    (isolated / "link").symlink_to(repo)
    (isolated / "above").symlink_to(repo.parent)
    os.chown(repo, SOMEBODY, SOMEBODY)
    is_newer = git_version() >= (2, 46)
    for values, are_enough in {**DECLARED, **DECLARED_BY_NEWER}.items():
        filled = [value.format(top=repo, above=repo.parent) for value in values]
        of_git, of_ckpt = takes(*filled, cwd=repo / "src")

        assert of_ckpt == are_enough, values
        assert of_git == are_enough or not (is_newer or values in DECLARED), values


def git_version() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", git("--version"))[:2]))


def test_only_what_the_repository_cannot_write_declares_it_safe(repo: Path) -> None:
    (repo / ".git/config").write_text(
        (repo / ".git/config").read_text() + "[safe]\n\tdirectory = *\n"
    )
    os.chown(repo, SOMEBODY, SOMEBODY)
    typed = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": str(repo),
    }

    assert takes(cwd=repo) == (False, False)
    assert takes(cwd=repo, env=typed) == (True, True)


def test_a_git_file_leads_to_nobody_elses_repository(tmp_path: Path) -> None:
    top, git_dir = tmp_path / "top", tmp_path / "git dir"
    git("init", "-q", "--separate-git-dir", str(git_dir), str(top))
    assert takes(cwd=top) == (True, True)

    for place in (top, top / ".git", git_dir):
        os.chown(place, SOMEBODY, SOMEBODY)
        assert takes(cwd=top) == (False, False)
        assert takes(str(top), cwd=top) == (True, True)
        os.chown(place, 0, 0)


def test_whoever_called_sudo_may_use_what_is_his(repo: Path) -> None:
    for owner in (SOMEBODY, 0):
        for path in (repo, repo / ".git"):
            os.chown(path, owner, owner)
        for said in (str(SOMEBODY), "54321", "", "0", "²"):
            is_enough = owner == 0 or said == str(SOMEBODY)

            assert takes(cwd=repo, env={"SUDO_UID": said}) == (is_enough, is_enough), said


def test_beside_private_files_of_another_user_saves_go_on_and_a_rollback_names_the_command(
    repo: Path,
) -> None:
    """As a `sudo git commit` or a container leaves them."""
    saved = ckpt("save", "one", "--json", code=0).json["checkpoint"]["id"]
    private = repo / ".git/ckpt"
    for path in (private, *private.iterdir()):
        os.chown(path, SOMEBODY, SOMEBODY)
    (repo / "README.md").write_text("edited\n")

    made = ckpt_process("save", "again", "--json", under=unprivileged(), code=0).json
    refused = ckpt_process("rollback", saved, under=unprivileged())

    assert refused.code != 0
    assert f"sudo chown -R 0 {repo}/.git" in refused.stderr
    assert (repo / "README.md").read_text() == "edited\n"
    assert git("show", made["checkpoint"]["ref"] + ":README.md") == "edited\n"
    assert fsck(repo) == []
