# SPDX-License-Identifier: MIT
"""`git ckpt doctor` warns where others may read checkpoints, on the network or on the machine;
and it is silent where they may not."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import git

from ckpt.engine.flaws import Flaw
from ckpt.engine.served import find_open
from ckpt.store.repository import discover

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user of the machine can enter, as those of tests cannot be."""
    folder = Path(os.path.realpath(tempfile.mkdtemp()))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def project(top: Path) -> Path:
    top.mkdir(parents=True)
    git("init", "-q", cwd=top)
    (top / "tracked").write_text("tracked\n")
    git("add", ".", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)
    return top


def flaws(top: Path) -> list[Flaw]:
    with discover(str(top), dict(os.environ)) as repo:
        return list(find_open(repo))


def follow(top: Path, found: Flaw) -> None:
    """Type what doctor says, after the `or:`."""
    assert found.by_hand is not None
    subprocess.run(found.by_hand.rpartition("or: ")[2], shell=True, cwd=top, check=True)


def fetchable(top: Path) -> list[str]:
    """The checkpoints of which git tells whoever asks."""
    return [line for line in git("ls-remote", str(top)).splitlines() if "refs/checkpoints" in line]


@pytest.mark.parametrize(
    "served",
    [
        pytest.param(lambda git_dir: (git_dir / "git-daemon-export-ok").touch(), id="daemon"),
        pytest.param(lambda d: git("config", "http.receivepack", "true", cwd=d), id="http"),
        pytest.param(lambda d: git("config", "daemon.receivepack", "1", cwd=d), id="to push"),
    ],
)
def test_a_repository_that_git_serves_is_told_until_its_checkpoints_are_hidden(
    served: object, repo: Path
) -> None:
    assert callable(served)
    served(repo / ".git")
    ckpt("save", "one", code=0)
    ckpt("save", "two", code=0)
    ckpt("drop", "two", code=0)

    (found,) = flaws(repo)
    assert not found.is_wrong
    assert len(fetchable(repo)) == 2
    follow(repo, found)
    assert flaws(repo) == []
    assert fetchable(repo) == []
    git(
        "fetch", "-q", ".", "refs/checkpoints/*:refs/x/*", cwd=repo
    )  # finds none, as they are hidden
    assert git("for-each-ref", "refs/x", cwd=repo) == ""


@pytest.mark.parametrize(
    ("values", "hidden"),
    [
        (["refs"], True),
        (["refs/checkpoints"], False),
        (["refs/checkpoints", "refs/checkpoints-trash/"], True),
        (["refs/check"], False),
        (["refs", "!refs/checkpoints"], False),
        (["!refs/checkpoints", "refs"], True),
        (["^refs/checkpoints", "^refs/checkpoints-trash"], True),
    ],
)
def test_what_is_hidden_is_what_git_hides(values: list[str], hidden: bool, repo: Path) -> None:
    (repo / ".git/git-daemon-export-ok").touch()
    for name in ("checkpoints/20260101-000000-000-aaaa", "checkpoints-trash/20260101/x"):
        git("update-ref", f"refs/{name}", "HEAD")
    keys = ("transfer.hideRefs", "uploadpack.hideRefs")
    for number, value in enumerate(values):
        git("config", "--add", keys[number % 2], value)

    assert (fetchable(repo) == []) == hidden
    assert (flaws(repo) == []) == hidden


def test_settings_for_all_repositories_say_nothing_of_this_one(repo: Path) -> None:
    git("config", "--global", "http.receivepack", "true")

    assert flaws(repo) == []


def test_a_hook_for_plain_web_servers_is_told_but_its_sample_and_a_gc_are_not(repo: Path) -> None:
    ckpt("save", "one", code=0)
    git("gc", "-q")
    assert "refs/checkpoints/" in (repo / ".git/info/refs").read_text()
    hook = repo / ".git/hooks/post-update"
    hook.write_text("#!/bin/sh\n# as git update-server-info wants it\n")
    hook.chmod(0o755)
    assert flaws(repo) == []

    hook.write_text("#!/bin/sh\nexec git update-server-info\n")
    hook.chmod(0o644)
    assert flaws(repo) == []
    hook.chmod(0o755)
    (found,) = flaws(repo)
    assert "git clone --bare" in str(found.by_hand)
    copy = repo.parent / "copy.git"
    git("clone", "-q", "--bare", str(repo), str(copy))
    assert fetchable(copy) == []


@pytest.mark.parametrize(
    ("where", "page", "told"),
    [
        ("public_html", None, True),
        ("htdocs/shop", None, True),
        ("www/shop", "index.php", True),
        ("www", "index.html", True),
        ("www", None, False),
        ("shop", "index.html", False),
    ],
)
def test_a_git_dir_that_a_web_server_may_hand_out_is_told(
    where: str, page: str | None, told: bool, place: Path
) -> None:
    top = project(place / where)
    if page is not None:
        (top / page).write_text("<html></html>\n")

    found = flaws(top)
    assert bool(found) == told
    for each in found:
        assert f"'{place / where.partition('/')[0]}'" in each.detail
        assert cat_as_nobody(top / ".git/HEAD").returncode == 0
        follow(top, each)
        assert cat_as_nobody(top / ".git/HEAD").returncode == 1
    assert flaws(top) == []


def cat_as_nobody(path: Path) -> subprocess.CompletedProcess[bytes]:
    if os.geteuid() != 0:
        pytest.skip("only root can read as another user")
    return subprocess.run([*NOBODY, "cat", str(path)], capture_output=True)


def test_a_git_dir_elsewhere_is_not_handed_out_with_the_worktree(place: Path) -> None:
    top = place / "public_html"
    git("init", "-q", "--separate-git-dir", str(place / "elsewhere"), str(top))
    linked = project(place / "main")
    git("worktree", "add", "-q", str(place / "htdocs"), cwd=linked)

    assert flaws(top) == []
    assert flaws(place / "htdocs") == []


def test_a_private_file_whose_copy_every_user_can_read_is_told(place: Path) -> None:
    top = project(place / "work")
    (top / "plan").write_text("nobody's business\n")
    (top / "tracked").chmod(0o600)
    ckpt("save", cwd=top, code=0)
    assert flaws(top) == []

    (top / "plan").chmod(0o600)
    ckpt("save", cwd=top, code=0)
    (found,) = flaws(top)
    assert found.detail.startswith("'plan' may be read by you alone")
    blob = git("rev-parse", "refs/checkpoints/" + latest(top) + ":plan", cwd=top).strip()
    copy = top / ".git/objects" / blob[:2] / blob[2:]
    assert cat_as_nobody(top / "plan").returncode == 1
    assert cat_as_nobody(copy).returncode == 0
    follow(top, found)
    assert flaws(top) == []
    assert cat_as_nobody(copy).returncode == 1


def latest(top: Path) -> str:
    found: str = ckpt("show", "--json", cwd=top, code=0).json["checkpoint"]["id"]
    return found


def test_doctor_says_it_as_a_warning(repo: Path) -> None:
    (repo / ".git/git-daemon-export-ok").touch()
    told = ckpt("doctor", "--fix", "--json", code=0).json["diagnoses"]

    (found,) = [one for one in told if one["subject"] == "served"]
    assert (found["state"], found["done"]) == ("warning", None)
    assert found["mend"].startswith("git config --add transfer.hideRefs refs/checkpoints; ")
