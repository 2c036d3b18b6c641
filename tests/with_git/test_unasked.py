# SPDX-License-Identifier: MIT
"""`git ckpt doctor` warns where a plain push sends checkpoints, and says what git does."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt_here, git

ID = "20260101-000000-000-aaaa"
REF = f"refs/checkpoints/{ID}"
IN_TRASH = "refs/checkpoints-trash/20260102/20260101-000000-000-aaab"


@pytest.fixture
def remote(repo: Path, tmp_path: Path) -> Path:
    """A bare repository that is called `other` here, where there are two checkpoints."""
    path = tmp_path / "other.git"
    git("init", "-q", "--bare", str(path))
    git("remote", "add", "other", str(path), cwd=repo)
    git("push", "-q", "other", "main", cwd=repo)
    for ref in (REF, IN_TRASH):
        git("update-ref", ref, "HEAD", cwd=repo)
    return path


def flaws(repo: Path, subject: str) -> list[dict[str, Any]]:
    found = ckpt_here("doctor", "--json", cwd=repo).json["diagnoses"]
    return [each for each in found if each["subject"] == subject]


def configure(repo: Path, settings: list[str]) -> None:
    with (repo / ".git/config").open("a") as file:
        for setting in settings:
            key, _, value = setting.partition("=")
            section, *middle, name = key.split(".")
            file.write(f"""[{section}{"".join(f' "{each}"' for each in middle)}]\n""")
            file.write(f"{name} = {value}\n")


def follow(repo: Path, mend: str | None) -> None:
    """Type what doctor says."""
    assert mend is not None
    subprocess.run(mend, shell=True, cwd=repo, check=True)


def try_to(repo: Path, *words: str) -> None:
    """Some of these have nothing to send, which git calls a failure."""
    subprocess.run(["git", *words], cwd=repo, capture_output=True)


def sent(repo: Path, remote: Path) -> set[str]:
    """What of ours a plain push brings to the other side, under whatever name."""
    before = set(git("for-each-ref", "--format=%(refname)", cwd=remote).split())
    try_to(repo, "push", "-q", "other")
    after = set(git("for-each-ref", "--format=%(refname)", cwd=remote).split())
    return {name for name in after - before if "main" not in name}


P, M = "remote.other.push=", "remote.other.mirror=true"


def test_a_mirror_that_sends_checkpoints_is_told_with_what_stops_it(
    repo: Path, remote: Path
) -> None:
    configure(repo, [M])

    config = (repo / ".git/config").read_text()
    (found,) = flaws(repo, "push")
    assert found["state"] == "warning"
    assert "'git push other' sends checkpoints along" in found["detail"]
    assert found["detail"] in ckpt_here("install", cwd=repo).stdout
    follow(repo, found["mend"])
    assert flaws(repo, "push") == []
    assert sent(repo, remote) == set()
    (repo / ".git/config").write_text(config)
    assert sent(repo, remote) != set()


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param([], id="nothing"),
        pytest.param([P + "HEAD"], id="HEAD"),
        pytest.param([P + "refs/*", P + "^refs/checkpoints*"], id="all but these"),
        pytest.param(
            [P + "refs/*", P + "^refs/checkpoints/*", P + "^refs/checkpoints-trash/*"],
            id="all but both",
        ),
        pytest.param([M, P + "refs/*", P + "^refs/checkpoints*"], id="mirror but for these"),
    ],
)
def test_no_push_is_told_that_sends_none(settings: list[str], repo: Path, remote: Path) -> None:
    configure(repo, settings)

    assert flaws(repo, "push") == []
    assert sent(repo, remote) == set()
