# SPDX-License-Identifier: MIT
"""Settings by which git knows what a file system cannot do: exec bits, links, case."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git, status, tree_state
from journeys import reset_and_clean, save, there_and_back
from scenes import link, remove, write


def mode_in_checkpoint(saved: str, path: str) -> str:
    return git("ls-tree", f"refs/checkpoints/{saved}", path)[:6]


# -- core.fileMode = false -------------------------------------------------------------


@pytest.fixture
def no_modes(repo: Path) -> Path:
    git("config", "core.fileMode", "false")
    return repo


def test_exec_bits_are_git_s_to_say_and_the_bits_on_disk_come_back_too(no_modes: Path) -> None:
    for name in ("README.md", "run.sh", "src/app.py"):
        write(no_modes, name, "edited\n", 0o755)
    write(no_modes, "untracked", "new\n", 0o755)
    (no_modes / "run.sh").chmod(0o644)
    git("update-index", "--chmod=+x", "src/app.py")

    there_and_back(no_modes, reset_and_clean)

    saved = save(no_modes)
    modes = {"README.md": "100644", "run.sh": "100755", "src/app.py": "100755"}
    assert {path: mode_in_checkpoint(saved, path) for path in modes} == modes
    assert mode_in_checkpoint(saved, "untracked") == "100644"


# -- core.symlinks = false -------------------------------------------------------------


@pytest.fixture
def no_links(repo: Path) -> Path:
    """As git checks out where there are no links: a plain file with the target in it."""
    link(repo, "second", "README.md")
    git("add", "second")
    git("commit", "-q", "-m", "second link")
    git("config", "core.symlinks", "false")
    for name in ("current", "second"):
        remove(repo, name)
        git("checkout", "-q", "--", name)
        assert not os.path.islink(repo / name)
    assert git("status", "--porcelain") == ""
    return repo


def test_links_that_are_plain_files_come_back_as_such(no_links: Path) -> None:
    write(no_links, "current", "src/data.bin")

    there_and_back(no_links, lambda top: [remove(top, "current"), write(top, "second", "x")])

    assert (no_links / "current").read_bytes() == b"src/data.bin"
    saved = save(no_links)
    assert mode_in_checkpoint(saved, "current") == "100644"
    assert git("ls-files", "-s", "current").startswith("120000")


# -- core.ignoreCase = true --------------------------------------------------------------


@pytest.fixture
def no_case(repo: Path) -> Path:
    git("config", "core.ignoreCase", "true")
    return repo


def test_a_rename_that_changes_only_case_comes_back(no_case: Path) -> None:
    os.rename("README.md", "readme.MD")
    os.rename("src", "SRC")
    write(no_case, "SRC/app.py", "edited\n")

    def rename_again(top: Path) -> None:
        os.rename(top / "readme.MD", top / "Readme.md")
        os.rename(top / "SRC", top / "Src")

    there_and_back(no_case, rename_again, tree_state)


def test_a_tracked_file_stays_tracked_under_a_name_in_other_case(no_case: Path) -> None:
    """Else a pattern that ignores its new name would keep it out of the checkpoint."""
    write(no_case, ".gitignore", "readme*\nother*\n")
    git("commit", "-q", "-a", "-m", "ignore")
    os.rename("README.md", "Readme.md")
    write(no_case, "Readme.md", "precious\n")
    write(no_case, "OTHER", "ignored\n")
    assert "Readme.md" not in status(no_case).split("! ")[-1]
    before = tree_state(no_case)
    saved = save(no_case)
    remove(no_case, "Readme.md")

    ckpt("rollback", saved, code=0)

    assert tree_state(no_case) == before
    assert fsck(no_case) == []
    assert "OTHER" not in git("ls-tree", "--name-only", f"refs/checkpoints/{saved}")
