# SPDX-License-Identifier: MIT
"""A repository with reftables: everything can be looked at, nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import git, tree_state
from journeys import save
from reftables import migrate, put_stack, table
from scenes import write


@pytest.fixture(params=["sha1", "sha256"])
def migrated(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Two checkpoints of a repository that was migrated to reftables later."""
    top = tmp_path / "repo"
    git("init", "-q", f"--object-format={request.param}", str(top))
    write(top, "README.md", "first\n")
    git("add", ".", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)
    for name in ("one", "two"):
        write(top, "README.md", f"{name}\n")
        save(top, name)
    write(top, "README.md", "now\n")
    migrate(top, 20 if request.param == "sha1" else 32)
    return top


def test_checkpoints_can_be_looked_at(migrated: Path) -> None:
    found = ckpt("list", "--json", cwd=migrated, code=0).json["checkpoints"]
    shown = ckpt("show", "two", "--json", cwd=migrated, code=0).json["checkpoint"]

    assert [checkpoint["name"] for checkpoint in found] == ["two", "one"]
    assert shown["git_state"]["branch"] == "main"
    assert "+now" in ckpt("diff", "two", cwd=migrated, code=0).stdout
    assert "-one\n+two\n" in ckpt("diff", "one", "two", cwd=migrated, code=0).stdout
    ckpt("trash", cwd=migrated, code=0)
    assert len(ckpt("verify", "--all", "--json", cwd=migrated, code=0).json["checkpoints"]) == 2
    assert "README.md" in ckpt("rollback", "one", "--dry-run", cwd=migrated, code=0).stdout


@pytest.mark.parametrize(
    "words",
    [
        ["save"],
        ["rollback", "one"],
        ["rollback", "one", "--head"],
        ["rollback", "--continue"],
        ["rollback", "--abort"],
        ["undo"],
        ["drop", "one"],
        ["pin", "one"],
        ["unpin", "one"],
        ["restore-dropped", "one"],
    ],
    ids=" ".join,
)
def test_what_writes_a_ref_is_refused_before_anything_is_written(
    migrated: Path, words: list[str]
) -> None:
    before = tree_state(migrated / ".git"), tree_state(migrated)

    refused = ckpt(*words, cwd=migrated, code=4)

    assert "reftables, which ckpt can read but not write" in refused.stderr
    assert "git refs migrate --ref-format=files" in refused.stderr
    assert (tree_state(migrated / ".git"), tree_state(migrated)) == before


def test_the_gitlink_of_a_submodule_with_reftables_is_its_head(repo: Path) -> None:
    git("clone", "-q", str(repo), "module")
    git("-c", "advice.addEmbeddedRepo=false", "add", "module")
    git("commit", "-q", "-m", "module")
    write(repo, "module/README.md", "moved\n")
    git("commit", "-q", "-a", "-m", "moved", cwd=repo / "module")
    head = git("rev-parse", "HEAD", cwd=repo / "module").strip()
    migrate(repo / "module")

    saved = save(repo)

    assert head in git("ls-tree", f"refs/checkpoints/{saved}", "module")


def test_damaged_tables_are_told(migrated: Path) -> None:
    put_stack(migrated / ".git/reftable", table({b"HEAD": b"ref: refs/heads/main"})[:-1])

    told = ckpt("list", cwd=migrated, code=1)

    assert "cannot read the refs in" in told.stderr
