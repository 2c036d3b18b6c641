# SPDX-License-Identifier: MIT
"""The folder of a submodule in which there is no repository: never initialised, deinitialised, or
taken out of it by hand. To git it is a submodule all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git
from scenes import remove, write


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the plain folder `lib` in the checkpoint `plain`, and an empty submodule
    there since, in the checkpoint `empty`."""
    git("init", "-q", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("lib/a", "lib/b", "1", "2", "3", "4"):
        write(tmp_path, name, f"{name}\n")
    write(tmp_path, ".gitignore", "*.log\n")
    write(tmp_path, "lib/c.log", "tracked, then ignored\n")
    git("add", "--all", "--force", cwd=tmp_path)
    git("commit", "-q", "-m", "plain", cwd=tmp_path)
    ckpt("save", "plain", cwd=tmp_path, code=0)
    git("rm", "-q", "-r", "lib", cwd=tmp_path)
    link = f"160000,{git('rev-parse', 'HEAD', cwd=tmp_path).strip()},lib"
    git("update-index", "--add", "--cacheinfo", link, cwd=tmp_path)
    git("commit", "-q", "-m", "a submodule", cwd=tmp_path)
    (tmp_path / "lib").mkdir()
    ckpt("save", "empty", cwd=tmp_path, code=0)
    return tmp_path


def files(top: Path, id: str) -> str:
    """What a checkpoint holds at the submodule's path."""
    return git("ls-tree", "-r", "--format=%(objecttype) %(path)", ref(id), "lib", cwd=top)


def ref(id: str) -> str:
    return f"refs/checkpoints/{id}"


def save(top: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = ckpt("save", "--json", *words, cwd=top, code=0).json
    return found


def status(top: Path) -> str:
    return git("status", "--porcelain", cwd=top)


# -- the folder ---------------------------------------------------------------------------


def test_its_folder_stays_when_the_files_in_it_go(top: Path) -> None:
    ckpt("rollback", "plain", cwd=top, code=0)
    assert sorted(path.name for path in (top / "lib").iterdir()) == ["a", "b", "c.log"]

    ckpt("undo", cwd=top, code=0)

    assert [*(top / "lib").iterdir()] == []
    assert status(top) == ""


def test_no_folder_is_made_for_a_submodule_whose_repository_is_gone(top: Path) -> None:
    """Else git would not tell that its files are missing."""
    git("init", "-q", "lib", cwd=top)
    git("commit", "-q", "--allow-empty", "-m", "within", cwd=top / "lib")
    ckpt("save", "populated", cwd=top, code=0)
    remove(top, "lib")

    ckpt("rollback", "populated", cwd=top, code=0)

    assert not (top / "lib").exists()


# -- the files in it ------------------------------------------------------------------------


def test_files_in_it_are_saved_and_put_back(top: Path) -> None:
    write(top, "lib/mine", "precious\n")
    write(top, "lib/deep/too", "precious\n")
    saved = save(top)["checkpoint"]
    assert files(top, saved["id"]) == "blob lib/deep/too\nblob lib/mine\n"
    remove(top, "lib")

    ckpt("rollback", saved["id"], cwd=top, code=0)

    assert (top / "lib/mine").read_text() == (top / "lib/deep/too").read_text() == "precious\n"
    assert (status(top), git("ls-files", "-s", "lib", cwd=top)[:6]) == ("", "160000")
    fsck(top)


def test_files_made_in_it_since_go_and_come_back_with_undo(top: Path) -> None:
    write(top, "lib/mine", "precious\n")
    ckpt("rollback", "empty", cwd=top, code=0)
    assert [*(top / "lib").iterdir()] == []

    ckpt("undo", cwd=top, code=0)

    assert (top / "lib/mine").read_text() == "precious\n"
