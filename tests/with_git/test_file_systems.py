# SPDX-License-Identifier: MIT
"""Settings by which git knows what a file system cannot do: exec bits, links, case."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git, status, tree_state
from journeys import reset_and_clean, save, there_and_back
from scenes import link, remove, state, write
from seam import observe


def interrupted_rollback(saved: str) -> None:
    """All files are written and the disk fails before the journal goes."""

    def fail(operation: str, path: str) -> None:
        if operation == "unlink" and os.fsdecode(path).endswith("/ckpt/journal"):
            raise OSError(errno.EIO, "Input/output error")

    observe(fail)
    try:
        ckpt("rollback", saved, "--yes", code=1)
    finally:
        observe(None)


def safeties() -> int:
    return len(ckpt("list", "--kind", "safety", "--json", code=0).json["checkpoints"])


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


def test_a_file_in_the_place_of_a_link_is_a_file(no_modes: Path) -> None:
    """The index's mode counts only among regular files."""
    write(no_modes, "current", "a file now\n")

    there_and_back(no_modes, reset_and_clean)

    assert mode_in_checkpoint(save(no_modes), "current") == "100644"
    assert os.path.isfile(no_modes / "current") and not os.path.islink(no_modes / "current")


def test_a_change_of_mode_in_the_index_alone_leaves_the_file_alone(no_modes: Path) -> None:
    saved = save(no_modes)
    git("update-index", "--chmod=+x", "README.md")
    before = os.stat("README.md")

    told = ckpt("rollback", saved, "--json", code=0).json

    assert git("ls-files", "-s", "README.md").startswith("100644")
    assert told["written"] == []
    assert os.stat("README.md").st_mtime_ns == before.st_mtime_ns


def test_files_with_bits_unlike_git_s_mode_are_known_again_after_an_interruption(
    no_modes: Path,
) -> None:
    write(no_modes, "README.md", "edited\n", 0o755)
    before = state(no_modes)
    saved = save(no_modes)
    write(no_modes, "README.md", "broken\n")
    interrupted_rollback(saved)

    ckpt("rollback", "--continue", code=0)

    assert state(no_modes) == before
    assert safeties() == 1


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
    assert mode_in_checkpoint(saved, "current") == "120000"
    assert git("diff", "--name-status", "HEAD", f"refs/checkpoints/{saved}") == "M\tcurrent\n"
    assert git("ls-files", "-s", "current").startswith("120000")


def test_an_unchanged_link_that_is_a_plain_file_is_no_change(no_links: Path) -> None:
    told = ckpt("save", "--json", code=0).json["checkpoint"]

    assert told["stats"]["files_changed"] == 0
    assert told["git_state"]["dirty_files"] in (0, [])


def test_links_become_plain_files_again_where_they_were_plain_files(no_links: Path) -> None:
    def links_after_all(top: Path) -> None:
        git("config", "core.symlinks", "true", cwd=top)
        for name in ("current", "second"):
            remove(top, name)
            git("checkout", "-q", "--", name, cwd=top)
            assert os.path.islink(top / name)

    there_and_back(no_links, links_after_all, tree_state)


def test_a_real_link_stays_one_whatever_the_setting_says(no_links: Path) -> None:
    link(no_links, "current", "README.md")
    link(no_links, "new", "nowhere")

    there_and_back(no_links, reset_and_clean)

    assert os.readlink("current") == "README.md"


def test_bits_of_links_that_are_plain_files_come_back(no_links: Path) -> None:
    (no_links / "current").chmod(0o600)

    there_and_back(no_links, lambda top: (top / "current").chmod(0o640))


def test_links_that_are_plain_files_are_known_again_after_an_interruption(no_links: Path) -> None:
    write(no_links, "current", "README.md")
    before = state(no_links)
    saved = save(no_links)
    write(no_links, "current", "broken")
    interrupted_rollback(saved)

    ckpt("rollback", "--continue", code=0)

    assert state(no_links) == before
    assert safeties() == 1


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


def test_names_that_differ_only_in_case_are_different_files(no_case: Path) -> None:
    write(no_case, "readme.md", "another\n")
    write(no_case, "README.MD", "yet another\n")

    there_and_back(no_case, lambda top: [remove(top, "readme.md"), remove(top, "README.MD")])


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


def test_a_file_that_came_in_other_case_goes_again(no_case: Path) -> None:
    write(no_case, ".gitignore", "readme*\n")
    git("commit", "-q", "-a", "-m", "ignore")
    before = state(no_case)
    saved = save(no_case)
    os.rename("README.md", "readme.md")

    ckpt("rollback", saved, code=0)

    assert state(no_case) == before
