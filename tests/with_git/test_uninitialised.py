# SPDX-License-Identifier: MIT
"""The folder of a submodule in which there is no repository: never initialised, deinitialised, or
taken out of it by hand. To git it is a submodule all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from byhand import locked_half_way
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


def test_its_folder_is_made_where_it_is_missing(top: Path) -> None:
    (top / "lib").rmdir()
    assert status(top) == " D lib\n"

    ran = ckpt("rollback", "empty", "--json", cwd=top, code=0)

    assert ran.json["folders_changed"] is True
    assert status(top) == ""


def test_its_folder_stays_when_a_rollback_is_taken_back_that_stopped_half_way(top: Path) -> None:
    with locked_half_way(top / ".git/index.lock"):
        ckpt("rollback", "plain", cwd=top, code=4)
    assert (top / "lib/a").exists()

    ckpt("rollback", "--abort", cwd=top, code=0)

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


def test_files_in_it_come_back_when_git_has_taken_the_folder_as_plain_files(top: Path) -> None:
    write(top, "lib/mine", "precious\n")
    write(top, "lib/edited", "before\n")
    save(top, "before")
    git("rm", "-q", "--cached", "lib", cwd=top)
    git("add", "lib", cwd=top)
    write(top, "lib/edited", "after\n")

    ckpt("rollback", "before", cwd=top, code=0)

    assert (top / "lib/mine").read_text() == "precious\n"
    assert (top / "lib/edited").read_text() == "before\n"
    assert status(top) == ""


def test_files_made_in_it_since_go_and_come_back_with_undo(top: Path) -> None:
    write(top, "lib/mine", "precious\n")
    ckpt("rollback", "empty", cwd=top, code=0)
    assert [*(top / "lib").iterdir()] == []

    ckpt("undo", cwd=top, code=0)

    assert (top / "lib/mine").read_text() == "precious\n"


def test_files_that_were_a_repository_at_the_checkpoint_are_kept(top: Path) -> None:
    git("init", "-q", "lib", cwd=top)
    write(top, "lib/file", "of the submodule\n")
    git("add", "file", cwd=top / "lib")
    git("commit", "-q", "-m", "within", cwd=top / "lib")
    save(top, "populated")
    remove(top, "lib/.git")

    ran = ckpt("rollback", "populated", "--json", cwd=top, code=0)

    assert {"path": "lib/file", "reason": "nested at the checkpoint"} in ran.json["kept"]
    assert (top / "lib/file").read_text() == "of the submodule\n"


def test_what_no_checkpoint_takes_is_named_and_the_submodule_is_in_its_place(top: Path) -> None:
    write(top, "lib/a.log", "ignored\n")
    write(top, "lib/.env", "denied\n")
    saved = save(top)["checkpoint"]

    assert saved["skipped"] == [{"path": "lib/.env", "reason": "denied"}]
    assert files(top, saved["id"]) == "commit lib\n"


def test_a_trigger_saves_anew_with_every_change_to_files_in_it(top: Path) -> None:
    def fire() -> tuple[str, str]:
        found = save(top, "--kind", "auto")
        return found["outcome"], files(top, found["checkpoint"]["id"])

    assert fire() == ("unchanged", "commit lib\n")
    write(top, "lib/mine", "1\n")
    assert fire() == ("created", "blob lib/mine\n")
    assert fire() == ("unchanged", "blob lib/mine\n")
    write(top, "lib/deep/new", "2\n")
    assert fire() == ("created", "blob lib/deep/new\nblob lib/mine\n")
    remove(top, "lib/mine")
    assert fire() == ("created", "blob lib/deep/new\n")
    git("init", "-q", "lib", cwd=top)
    assert fire() == ("created", "commit lib\n")
    remove(top, "lib/.git")
    assert fire()[1] == "blob lib/deep/new\n"
    remove(top, "lib/deep")
    assert fire()[1] == "commit lib\n"
    fsck(top)


def test_the_wrapper_saves_them_before_git_wipes_the_folder(top: Path) -> None:
    words = ("hook", "wrapper", "--", "submodule", "deinit", "-f", "lib")
    before = ckpt("list", "--json", cwd=top, code=0).json["checkpoints"]
    ckpt("hook", "wrapper", "--", "checkout", "-f", cwd=top, code=0)
    assert ckpt("list", "--json", cwd=top, code=0).json["checkpoints"] == before  # it was clean

    write(top, "lib/mine", "precious\n")
    ckpt("hook", "wrapper", "--", "checkout", "-f", cwd=top, code=0)
    ckpt(*words, cwd=top, code=0)

    newest = ckpt("list", "--json", cwd=top, code=0).json["checkpoints"][0]
    assert files(top, newest["id"]) == "blob lib/mine\n"


def test_a_sparse_checkout_without_it_saves_files_in_it_too(top: Path) -> None:
    git("update-index", "--skip-worktree", "lib", "1", cwd=top)
    write(top, "lib/mine", "precious\n")
    saved = save(top)["checkpoint"]

    assert files(top, saved["id"]) == "blob lib/mine\n"
    remove(top, "lib")
    ckpt("rollback", saved["id"], cwd=top, code=0)
    assert (top / "lib/mine").read_text() == "precious\n"


# -- between a crash and the recovery ---------------------------------------------------------


def stop_half_way(top: Path) -> None:
    with locked_half_way(top / ".git/index.lock"):
        ckpt("rollback", "plain", cwd=top, code=4)


@pytest.mark.parametrize("path", ["lib/b", "lib/c.log"])
@pytest.mark.parametrize("way", ["--continue", "--abort"])
def test_an_edit_in_it_after_a_crash_is_saved_before_it_is_overwritten(
    way: str, path: str, top: Path
) -> None:
    stop_half_way(top)
    write(top, path, "hours of work\n")

    ran = ckpt("rollback", way, "--json", cwd=top, code=0)

    assert git("show", f"{ran.json['safety']['ref']}:{path}", cwd=top) == "hours of work\n"
    assert (top / path).exists() is (way == "--continue")


@pytest.mark.parametrize("way", ["--continue", "--abort"])
def test_an_edit_stays_that_cannot_be_saved_since_its_folder_is_a_repository(
    way: str, top: Path
) -> None:
    stop_half_way(top)
    git("init", "-q", "lib", cwd=top)
    write(top, "lib/b", "hours of work\n")

    ran = ckpt("rollback", way, cwd=top, code=1)

    assert "cannot save 'lib/b' before it is overwritten" in ran.stderr
    assert (top / "lib/b").read_text() == "hours of work\n"
