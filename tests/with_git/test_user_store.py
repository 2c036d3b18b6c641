# SPDX-License-Identifier: MIT
"""`--store user`: a folder that is no repository has checkpoints too, kept elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git, tree_state

from ckpt import CheckpointManager, Refused, UsageError
from ckpt.engine import private_store
from ckpt.engine.private_store import GONE_FOR, forget_vanished

USER = ("--store", "user")
DAYS = GONE_FOR // 86_400


def forgotten(day: int) -> list[str]:
    """Whose stores go so many days from now."""
    return forget_vanished(os.environ, time.time() + day * 86_400)


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a few files, which is the current one and no repository."""
    top = tmp_path / "plain"
    (top / "deep/empty").mkdir(parents=True)
    (top / "notes").write_text("one\n")
    (top / "deep/script").write_text("#!/bin/sh\n")
    (top / "deep/script").chmod(0o750)
    (top / "link").symlink_to("notes")
    monkeypatch.chdir(top)
    return top


def stores(home: Path) -> list[Path]:
    folder = home / ".local/share/ckpt/stores"
    return sorted(folder.iterdir()) if folder.exists() else []


def test_everything_comes_back_and_the_folder_holds_nothing_of_ours(plain: Path) -> None:
    before = tree_state(plain)
    ckpt("save", "one", *USER, code=0)
    assert tree_state(plain) == before
    (plain / "notes").write_text("two\n")
    shutil.rmtree(plain / "deep")
    (plain / "new").touch()
    after = tree_state(plain)

    names = [file["path"] for file in ckpt("diff", *USER, "--json", code=0).json["files"]]
    assert names == ["deep/script", "new", "notes"]
    told = ckpt("rollback", "one", *USER, "--json", code=0).json
    assert tree_state(plain) == before
    assert told["undo"] == "git ckpt --store user undo"
    ckpt("undo", *USER, code=0)
    assert tree_state(plain) == after
    assert ckpt("show", "one", *USER, "--json", code=0).json["checkpoint"]["name"] == "one"


def test_commands_are_told_as_they_must_be_typed(plain: Path) -> None:
    ckpt("save", *USER, code=0)

    said = ckpt("list", *USER, code=0).stdout

    assert "git ckpt --store user rollback ID" in said


def test_run_works_there_too(plain: Path) -> None:
    words = ["run", *USER, "--on-failure", "rollback", "--", "sh", "-c", "rm -r deep; exit 3"]

    assert ckpt(*words, code=3)
    assert (plain / "deep/script").exists()


def test_the_store_is_private_and_a_repository_that_git_can_read(
    plain: Path, isolated: Path
) -> None:
    ckpt("save", *USER, code=0)

    [store] = stores(isolated)
    for folder, _, files in os.walk(store):
        assert os.stat(folder).st_mode & 0o077 == 0 or folder.startswith(f"{store}/git/")
        assert ".git" not in files
    assert store.stat().st_mode & 0o777 == 0o700
    assert store.parent.stat().st_mode & 0o777 == 0o700
    git_dir = f"--git-dir={store / 'git'}"
    assert "refs/checkpoints/" in git(git_dir, "for-each-ref")
    assert fsck(store / "git") == []


def test_nothing_of_the_users_git_counts(plain: Path, isolated: Path) -> None:
    excludes = isolated / "excludes"
    excludes.write_text("notes\n")
    with open(isolated / ".gitconfig", "a") as config:
        config.write(f"[core]\n excludesFile = {excludes}\n autocrlf = true\n")
        config.write("[commit]\n gpgSign = true\n[ckpt]\n enabled = false\n")
    (isolated / ".config/git").mkdir(parents=True)
    (isolated / ".config/git/ignore").write_text("notes\n")
    other = isolated / "other.git"
    git("init", "-q", "--bare", str(other))

    told = ckpt("save", *USER, "--json", env={"GIT_DIR": str(other)}, code=0).json

    [store] = stores(isolated)
    listed = git(
        f"--git-dir={store / 'git'}", "ls-tree", "-r", "--name-only", told["checkpoint"]["commit"]
    )
    assert listed.split() == ["deep/script", "link", "notes"]
    assert git(f"--git-dir={other}", "for-each-ref") == ""


def test_rules_in_the_folder_count(plain: Path, isolated: Path) -> None:
    (plain / ".gitignore").write_text("notes\n")
    (plain / ".env").write_text("secret\n")

    ckpt("save", *USER, code=0)
    (plain / "notes").write_text("two\n")
    ckpt("rollback", *USER, code=0)

    assert (plain / "notes").read_text() == "two\n"
    assert ckpt("show", "latest", *USER, "--json").json["checkpoint"]["skipped"] == [
        {"path": ".env", "reason": "denied"}
    ]


def test_a_subfolder_belongs_to_the_store_around_it(plain: Path, isolated: Path) -> None:
    ckpt("save", "one", *USER, code=0)
    ckpt("save", "two", *USER, cwd=plain / "deep", code=0)

    assert len(stores(isolated)) == 1
    assert len(ckpt("list", *USER, "--json", code=0).json["checkpoints"]) == 2


def test_it_is_taken_only_if_it_is_asked_for(plain: Path, isolated: Path) -> None:
    told = ckpt("save", "--json", code=1).json["error"]

    assert "--store user" in told["hint"]
    assert stores(isolated) == []
    ckpt("save", *USER, code=0)
    ckpt("list", code=1)


def test_a_repository_keeps_its_own(repo: Path, isolated: Path) -> None:
    told = ckpt("save", *USER, "--json", cwd=repo / "src", code=4).json["error"]

    assert "is a git repository" in told["message"]
    assert stores(isolated) == []


def test_too_much_is_refused(isolated: Path) -> None:
    (isolated / ".local/share/ckpt/stores").mkdir(parents=True)
    for place in ("/", isolated.parent, isolated, isolated / ".local", isolated / ".local/share"):
        told = ckpt("save", *USER, "--json", cwd=place, code=4).json["error"]
        assert "refusing to take checkpoints of" in told["message"]
    assert stores(isolated) == []


def test_a_folder_of_a_home_that_is_a_repository_can_have_a_store(isolated: Path) -> None:
    git("init", "-q", cwd=isolated)
    (isolated / "folder").mkdir()
    (isolated / "folder/file").touch()

    ckpt("save", *USER, cwd=isolated / "folder", code=0)


def test_an_unknown_store_is_a_usage_error(plain: Path) -> None:
    assert ckpt("list", "--store", "other", "--json", code=2).json["error"]["code"] == "usage"
    assert ckpt("list", "--store", "--json", code=2).stdout
    with pytest.raises(UsageError, match="unknown store"):
        CheckpointManager(plain, store="other")


def test_the_api_is_the_same(plain: Path) -> None:
    with CheckpointManager(plain, store="user", session="s") as manager:
        saved = manager.create("one", data={"step": 1})
        (plain / "notes").unlink()
        done = manager.rollback(saved)

        assert done.data == {"step": 1}
        assert len(manager) == 1
        assert (plain / "notes").read_text() == "one\n"
    with pytest.raises(Refused):
        CheckpointManager("/", store="user")


def test_a_store_that_was_made_by_half_is_completed(plain: Path, isolated: Path) -> None:
    ckpt("save", *USER, code=0)
    [store] = stores(isolated)
    shutil.rmtree(store / "git")

    ckpt("save", *USER, code=0)

    assert fsck(store / "git") == []


def test_a_store_whose_empty_folders_were_not_copied_is_completed(
    plain: Path, isolated: Path
) -> None:
    ckpt("save", "one", *USER, code=0)
    [store] = stores(isolated)
    git(f"--git-dir={store / 'git'}", "pack-refs", "--all")
    shutil.rmtree(store / "git/refs")

    assert len(ckpt("list", *USER, "--json", cwd=plain / "deep").json["checkpoints"]) == 1
    ckpt("save", "two", *USER, code=0)
    assert len(stores(isolated)) == 1
    assert fsck(store / "git") == []


@pytest.mark.parametrize("where", [".", ".."])
def test_a_folder_that_becomes_a_repository_keeps_the_store_that_it_has(
    plain: Path, isolated: Path, where: str
) -> None:
    before = tree_state(plain)
    script = f"git init -q {where}; echo work > notes; exit 3"
    ckpt("run", *USER, "--on-failure", "rollback", "--", "sh", "-c", script, code=3)
    assert (plain / "notes").read_text() == "one\n"

    ckpt("undo", *USER, code=0)
    assert (plain / "notes").read_text() == "work\n"
    ckpt("undo", *USER, code=0)
    assert git("rev-parse", "--git-dir").strip()
    shutil.rmtree(plain / ".git", ignore_errors=True)
    assert tree_state(plain) == before
    assert len(stores(isolated)) == 1


def test_a_repository_inside_a_folder_with_a_store_keeps_its_own(
    plain: Path, isolated: Path
) -> None:
    ckpt("save", *USER, code=0)
    git("init", "-q", "deep")

    told = ckpt("save", *USER, cwd=plain / "deep", code=4)
    assert "is a git repository" in told.stderr


def test_a_folder_that_was_removed_comes_back_as_the_hint_says(plain: Path, isolated: Path) -> None:
    before = tree_state(plain)
    ckpt("save", "one", *USER, code=0)
    os.chdir(isolated)
    words = ("-C", str(plain), *USER, "run", "--on-failure", "rollback", "--")
    told = ckpt(*words, "sh", "-c", f"rm -r {plain}; exit 3", code=3).stderr
    assert "not rolled back: the work tree" in told
    subprocess.run(told.rpartition("first: ")[2], shell=True, check=True)

    ckpt("rollback", "one", *USER, cwd=plain, code=0)
    assert tree_state(plain) == before


def test_doctor_misses_no_trigger_where_there_can_be_none(plain: Path) -> None:
    ckpt("save", *USER, code=0)

    assert "none is installed" not in ckpt("doctor", *USER, code=0).stdout


def test_where_a_name_is_no_text_there_are_stores_too(tmp_path: Path, isolated: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    odd.mkdir()
    (odd / "file").touch()
    ckpt("save", *USER, cwd=odd, code=0)
    shutil.rmtree(odd)

    assert [forgotten(day) for day in (0, 1, DAYS)] == [[], [], [str(odd)]]


# Vanished folders


def test_the_store_of_a_removed_folder_goes_after_a_while(plain: Path, isolated: Path) -> None:
    ckpt("save", *USER, code=0)
    os.chdir(isolated)
    shutil.rmtree(plain)

    assert [forgotten(day) for day in range(DAYS)] == [[]] * DAYS
    assert len(stores(isolated)) == 1
    assert forgotten(DAYS) == [str(plain)]
    assert stores(isolated) == []


def test_it_has_to_be_missed_on_several_days(plain: Path, isolated: Path) -> None:
    ckpt("save", *USER, code=0)
    os.chdir(isolated)
    shutil.rmtree(plain)

    assert [forgotten(day) for day in (0, 0, DAYS, DAYS)] == [[]] * 4
    assert forgotten(DAYS + 1) == [str(plain)]


@pytest.mark.parametrize("wrong", [[-11, -10, -9], [11]], ids=["behind", "ahead"])
def test_a_clock_that_is_wrong_for_a_while_is_no_reason_to_forget(
    plain: Path, isolated: Path, wrong: list[int]
) -> None:
    ckpt("save", *USER, code=0)
    os.chdir(isolated)
    plain.rename(plain.with_name("aside"))

    assert [forgotten(at) for at in (0, *wrong, 0, DAYS)] == [[]] * (len(wrong) + 3)
    plain.with_name("aside").rename(plain)
    assert len(ckpt("list", *USER, "--json", cwd=plain, code=0).json["checkpoints"]) == 1


def test_a_folder_that_comes_back_keeps_its_store(plain: Path, isolated: Path) -> None:
    ckpt("save", *USER, code=0)
    plain.rename(plain.with_name("aside"))
    forgotten(0)
    plain.with_name("aside").rename(plain)
    forgotten(1)
    plain.rename(plain.with_name("aside"))

    assert [forgotten(day) for day in range(2, DAYS + 1)] == [[]] * (DAYS - 1)
    assert len(stores(isolated)) == 1


def test_what_may_only_be_unmounted_is_no_reason_to_forget(
    plain: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parent that is gone too, one on another device, and a folder that was a mount point."""
    ckpt("save", *USER, code=0)
    [store] = stores(isolated)
    known = private_store._read(str(store))
    os.chdir(isolated)
    shutil.rmtree(plain)
    others = [
        known | {"path": str(plain / "deeper")},
        known | {"parent_device": known["parent_device"] + 1},
        known | {"device": known["device"] + 1},
        known | {"device": known["device"] + 1, "parent_device": known["parent_device"] + 1},
    ]
    for facts in others:
        private_store._write(str(store), facts)
        assert [forgotten(day) for day in (0, 1, DAYS)] == [[]] * 3


def test_damage_to_one_store_is_no_reason_to_touch_it(plain: Path, isolated: Path) -> None:
    ckpt("save", *USER, code=0)
    [store] = stores(isolated)
    for text in ("", "[]", "{}", "not json"):
        (store / "folder.json").write_text(text)
        assert [forgotten(day) for day in (0, 1, DAYS)] == [[]] * 3
    ckpt("list", *USER, code=0)
    assert len(ckpt("list", *USER, "--json", code=0).json["checkpoints"]) == 1
