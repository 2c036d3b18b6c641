# SPDX-License-Identifier: MIT
"""What a rollback may touch, what it leaves and lists, and what it refuses to do."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from helpers import Ran, fsck, git, loose_object, tree_state
from helpers import ckpt as ckpt_process
from helpers import ckpt_here as ckpt
from scenes import divide, hollow, link, remove, state, unprivileged, write


def save(*words: str) -> str:
    return ckpt("save", "--json", *words, code=0).json["checkpoint"]["id"]


def rollback(*words: str, code: int = 0) -> dict:
    return ckpt("rollback", "--json", *words, code=code).json


def paths(items: list[dict]) -> list[str]:
    return [item["path"] for item in items]


def checkpoints() -> str:
    return git("for-each-ref", "refs/checkpoints")


# What stands in the way and is held nowhere


def by_gitignore(repo: Path) -> None:
    write(repo, ".gitignore", "*.log\nbuild/\ndata\n")


def by_info_exclude(repo: Path) -> None:
    write(repo, ".git/info/exclude", "data\n")


def by_users_excludes(repo: Path) -> None:
    write(Path.home(), ".config/git/ignore", "data\n")


@pytest.fixture(params=[by_gitignore, by_info_exclude, by_users_excludes])
def ignored_since(repo: Path, request: pytest.FixtureRequest) -> str:
    """The id of a checkpoint that holds `data`, which has been changed and ignored since."""
    write(repo, "data", "at the checkpoint\n")
    saved = save()
    request.param(repo)
    write(repo, "data", "held nowhere\n")
    write(repo, "README.md", "edited\n")
    return saved


def test_an_ignored_file_in_the_way_is_left_and_listed(repo: Path, ignored_since: str) -> None:
    told = rollback(ignored_since, code=4)

    assert (repo / "data").read_text() == "held nowhere\n"
    assert told["skipped"] == [{"path": "data", "reason": "ignored"}]
    assert (repo / "README.md").read_text() == "# An example\n"
    assert "data" not in paths(told["written"])


def test_overwriting_an_ignored_file_saves_it_first(repo: Path, ignored_since: str) -> None:
    before = state(repo)
    told = rollback(ignored_since, "--overwrite-ignored")

    assert (repo / "data").read_text() == "at the checkpoint\n"
    assert told["skipped"] == []
    assert git("show", f"{told['safety']['ref']}:data") == "held nowhere\n"
    ckpt("undo", code=0)
    assert state(repo) == before


def test_the_person_is_told_what_was_left_and_how_to_replace_it(
    repo: Path, ignored_since: str
) -> None:
    told = ckpt("rollback", ignored_since, code=4)

    assert "'data'" in told.stderr
    assert "ignored" in told.stderr
    assert "--overwrite-ignored" in told.stderr


def test_a_denied_file_in_the_way_is_left_and_listed(repo: Path) -> None:
    write(repo, ".env", "TRACKED=1\n")
    git("add", "--force", ".env")
    saved = save()
    git("rm", "-q", "--cached", ".env")
    write(repo, ".env", "SECRET=2\n")

    told = rollback(saved, code=4)
    assert (repo / ".env").read_text() == "SECRET=2\n"
    assert told["skipped"] == [{"path": ".env", "reason": "denied"}]
    again = rollback(saved, "--overwrite-ignored")
    assert (repo / ".env").read_text() == "TRACKED=1\n"
    assert git("show", f"{again['safety']['ref']}:.env") == "SECRET=2\n"


def test_an_oversize_file_in_the_way_is_saved_whatever_its_size(repo: Path) -> None:
    git("config", "ckpt.maxFileSize", "100")
    write(repo, "data", "small\n")
    saved = save()
    write(repo, "data", b"large" * 100)
    assert ckpt("save", "--json").json["checkpoint"]["skipped"] == [
        {"path": "data", "reason": "oversize"}
    ]

    told = rollback(saved)

    assert (repo / "data").read_text() == "small\n"
    assert git("show", f"{told['safety']['ref']}:data") == "large" * 100
    ckpt("undo", code=0)
    assert (repo / "data").read_bytes() == b"large" * 100


def test_an_unreadable_file_in_the_way_is_left_and_listed(repo: Path) -> None:
    write(repo, "data", "at the checkpoint\n")
    saved = save()
    write(repo, "data", "cannot be read\n", 0o000)
    write(repo, "README.md", "edited\n")

    told = ckpt_process("rollback", saved, "--json", under=unprivileged(), code=4).json

    assert told["skipped"] == [{"path": "data", "reason": "unreadable"}]
    assert told["safety"]["partial"] is True
    assert (repo / "README.md").read_text() == "# An example\n"
    (repo / "data").chmod(0o644)
    assert (repo / "data").read_text() == "cannot be read\n"


def test_not_even_consent_makes_rollback_replace_what_it_cannot_read(repo: Path) -> None:
    write(repo, "data", "at the checkpoint\n")
    saved = save()
    write(repo, "data", "cannot be read\n", 0o000)

    words = ("rollback", saved, "--json", "--overwrite-ignored")
    told = ckpt_process(*words, under=unprivileged(), code=4).json

    assert told["skipped"] == [{"path": "data", "reason": "unreadable"}]
    (repo / "data").chmod(0o644)
    assert (repo / "data").read_text() == "cannot be read\n"


def test_a_special_file_in_the_way_is_left_and_listed(repo: Path) -> None:
    write(repo, "data", "at the checkpoint\n")
    saved = save()
    remove(repo, "data")
    os.mkfifo(repo / "data")

    assert rollback(saved, code=4)["skipped"] == [{"path": "data", "reason": "special"}]
    assert rollback(saved, "--overwrite-ignored", code=4)["skipped"] == [
        {"path": "data", "reason": "special"}
    ]
    assert tree_state(repo)[b"data"][0] == "special"


@pytest.mark.parametrize("consent", [(), ("--overwrite-ignored",)])
def test_a_nested_repository_in_the_way_is_left_and_listed(
    repo: Path, consent: tuple[str, ...]
) -> None:
    write(repo, "data", "at the checkpoint\n")
    saved = save()
    remove(repo, "data")
    git("init", "-q", "data")
    write(repo, "data/work", "in the nested one\n")
    before = tree_state(repo)

    told = rollback(saved, *consent, code=4)

    assert told["skipped"] == [{"path": "data", "reason": "nested"}]
    assert tree_state(repo) == before


@pytest.mark.parametrize("consent", [(), ("--overwrite-ignored",)])
def test_a_git_dir_in_the_way_is_left_and_listed_although_it_is_ignored(
    repo: Path, consent: tuple[str, ...]
) -> None:
    write(repo, "store", "at the checkpoint\n")
    saved = save()
    remove(repo, "store")
    git("init", "-q", "--bare", "store")
    write(repo, ".git/info/exclude", "store\n")
    before = tree_state(repo)

    told = rollback(saved, *consent, code=4)

    assert told["skipped"][0]["path"] == "store"
    assert tree_state(repo) == before


@pytest.mark.parametrize("consent", [(), ("--overwrite-ignored",)])
def test_an_ignored_folder_that_has_become_a_repository_is_left_as_it_is(
    repo: Path, consent: tuple[str, ...]
) -> None:
    write(repo, "vendor/lib/ours", "at the checkpoint\n")
    write(repo, "vendor/lib/both", "at the checkpoint\n")
    saved = save()
    for name in ("ours", "both"):
        remove(repo, f"vendor/lib/{name}")
    git("init", "-q", "vendor/lib")
    write(repo, "vendor/lib/both", "in the nested one\n")
    write(repo, ".git/info/exclude", "vendor/\n")
    before = tree_state(repo)

    told = rollback(saved, *consent, code=4)

    inside = ("vendor/lib/both", "vendor/lib/ours")
    assert told["skipped"] == [{"path": path, "reason": "nested"} for path in inside]
    assert tree_state(repo) == before


def test_a_git_dir_that_is_tracked_comes_back_like_any_folder(repo: Path) -> None:
    git("init", "-q", "--bare", "tests/fixture.git")
    write(repo, "tests/fixture.git/refs/heads/kept", "")
    write(repo, "tests/fixture.git/objects/kept", "")
    git("add", "-f", "tests")
    saved = save()
    before = tree_state(repo)
    for name in ("HEAD", "config"):
        remove(repo, f"tests/fixture.git/{name}")
    write(repo, "tests/fixture.git/objects/kept", "edited\n")

    rollback(saved)

    assert tree_state(repo) == before


def test_a_nested_repository_made_since_is_never_removed(repo: Path) -> None:
    saved = save()
    git("init", "-q", "outer/nested")
    write(repo, "outer/nested/work", "in the nested one\n")
    write(repo, "outer/file", "beside it\n")
    before = tree_state(repo)

    told = rollback(saved)

    assert paths(told["removed"]) == ["outer/file"]
    assert tree_state(repo) == {k: v for k, v in before.items() if k != b"outer/file"}


def test_a_file_that_was_tracked_in_a_nested_repository_comes_back(repo: Path) -> None:
    """Also if it is not tracked at present, as when a rollback is undone."""
    write(repo, "n/a", "1\n")
    git("add", "n/a")
    git("commit", "-q", "-m", "n")
    saved = save()
    git("init", "-q", "n")
    write(repo, "n/q", "tracked\n")
    git("add", "n/q")
    write(repo, "n/own", "of the nested one\n")
    before = state(repo)

    rollback(saved)
    assert not (repo / "n/q").exists()
    ckpt("undo", code=0)

    assert state(repo) == before


@pytest.mark.parametrize("words", [[], ["--", "n/a"], ["--", "n"]], ids=["all", "path", "folder"])
def test_so_it_does_if_it_was_removed_from_the_index_as_well(repo: Path, words: list[str]) -> None:
    write(repo, "n/a", "1\n")
    git("add", "n/a")
    git("init", "-q", "n")
    write(repo, "n/own", "of the nested one\n")
    saved = save()
    git("rm", "-q", "-f", "n/a")

    rollback(saved, *words)

    assert (repo / "n/a").read_text() == "1\n"
    assert (repo / "n/own").read_text() == "of the nested one\n"


def test_but_a_file_of_the_nested_repository_in_its_place_stays(repo: Path) -> None:
    write(repo, "n/a", "1\n")
    git("add", "n/a")
    git("init", "-q", "n")
    saved = save()
    git("rm", "-q", "-f", "--cached", "n/a")
    write(repo, "n/a", "of the nested one\n")

    told = rollback(saved, code=4)

    assert (repo / "n/a").read_text() == "of the nested one\n"
    assert paths(told["skipped"]) == ["n/a"]


def test_a_repository_made_since_has_all_that_it_holds_to_itself(repo: Path) -> None:
    """Also what was tracked at the checkpoint, and also if ignored files may be overwritten."""
    write(repo, "lib/a", "1\n")
    write(repo, "lib/b", "1\n")
    write(repo, "other/c", "of one that was there before\n")
    git("init", "-q", "other")
    git("add", "lib")
    git("commit", "-q", "-m", "lib")
    saved = save()
    git("rm", "-q", "--cached", "-r", "lib")
    git("init", "-q", "lib")
    write(repo, "lib/a", "of the nested one\n")
    remove(repo, "lib/b")

    told = rollback(saved, "--overwrite-ignored", code=4)

    assert (repo / "lib/a").read_text() == "of the nested one\n"
    assert not (repo / "lib/b").exists()
    assert paths(told["skipped"]) == ["lib/a", "lib/b"]


def test_what_a_rollback_wrote_in_a_nested_repository_is_undone(repo: Path) -> None:
    """Also if it is not tracked, as when the index was left alone."""
    for name in ("n/a", "n/b"):
        write(repo, name, "1\n")
    git("add", "n")
    git("init", "-q", "n")
    saved = save()
    git("rm", "-q", "-r", "-f", "--cached", "n")
    write(repo, "n/a", "of the nested one\n")
    remove(repo, "n/b")
    before = tree_state(repo)

    rollback(saved, "--no-index", "--overwrite-ignored")
    assert [(repo / name).read_text() for name in ("n/a", "n/b")] == ["1\n", "1\n"]
    ckpt("undo", code=0)

    assert tree_state(repo) == before


@pytest.mark.parametrize("limit", ["new/empty", "new"])
def test_an_empty_folder_can_be_asked_for_by_its_path(repo: Path, limit: str) -> None:
    (repo / "new/empty").mkdir(parents=True)
    saved = save()
    (repo / "new/empty").rmdir()
    (repo / "new").rmdir()

    rollback(saved, "--", limit)

    assert (repo / "new/empty").is_dir()


def test_an_ignored_file_in_the_place_of_a_folder_is_left_and_listed(repo: Path) -> None:
    write(repo, "data/inside", "at the checkpoint\n")
    saved = save()
    write(repo, "data", "held nowhere\n")
    write(repo, ".git/info/exclude", "/data\n")

    told = rollback(saved, code=4)

    assert (repo / "data").read_text() == "held nowhere\n"
    assert told["skipped"] == [{"path": "data/inside", "reason": "ignored"}]
    again = rollback(saved, "--overwrite-ignored")
    assert (repo / "data/inside").read_text() == "at the checkpoint\n"
    assert git("show", f"{again['safety']['ref']}:data") == "held nowhere\n"


def test_a_folder_with_ignored_files_in_the_place_of_a_file_is_left_and_listed(
    repo: Path,
) -> None:
    write(repo, "data", "at the checkpoint\n")
    saved = save()
    write(repo, "data/held", "not ignored\n")
    write(repo, "data/deep/not.log", "held nowhere\n")
    write(repo, "data/nor.log", "nor this\n")
    before = state(repo)

    told = rollback(saved, code=4)
    assert (repo / "data/deep/not.log").read_text() == "held nowhere\n"
    assert told["skipped"] == [{"path": "data", "reason": "ignored"}]
    ckpt("undo", code=0)
    assert state(repo) == before
    again = rollback(saved, "--overwrite-ignored")
    assert (repo / "data").read_text() == "at the checkpoint\n"
    assert git("show", f"{again['safety']['ref']}:data/deep/not.log") == "held nowhere\n"
    ckpt("undo", code=0)
    assert state(repo) == before


def test_an_ignored_file_is_not_given_up_where_something_else_stays_in_the_way(
    repo: Path,
) -> None:
    write(repo, "data", "at the checkpoint\n")
    saved = save()
    write(repo, "data/out.log", "ignored\n")
    os.mkfifo(repo / "data/pipe")
    before = tree_state(repo)

    told = rollback(saved, "--overwrite-ignored", code=4)

    assert paths(told["skipped"]) == ["data"]
    assert tree_state(repo) == before


def test_nothing_is_written_through_a_link(repo: Path, tmp_path: Path) -> None:
    write(repo, "data/inside", "at the checkpoint\n")
    saved = save()
    hollow(tmp_path, "elsewhere")
    write(tmp_path, "elsewhere/inside", "not ours\n")
    link(repo, "data", tmp_path / "elsewhere")

    rollback(saved)

    assert not (repo / "data").is_symlink()
    assert (repo / "data/inside").read_text() == "at the checkpoint\n"
    assert tree_state(tmp_path / "elsewhere") == {b"inside": ("file", 0o644, b"not ours\n")}


def test_an_ignored_link_in_the_place_of_a_folder_is_left_and_not_followed(
    repo: Path, tmp_path: Path
) -> None:
    write(repo, "data/inside", "at the checkpoint\n")
    saved = save()
    hollow(tmp_path, "elsewhere")
    link(repo, "data", tmp_path / "elsewhere")
    write(repo, ".git/info/exclude", "/data\n")

    told = rollback(saved, code=4)

    assert (repo / "data").is_symlink()
    assert told["skipped"] == [{"path": "data/inside", "reason": "ignored"}]
    assert os.listdir(tmp_path / "elsewhere") == []


# What the checkpoint says nothing about


def test_a_file_that_was_ignored_at_the_checkpoint_is_kept(repo: Path) -> None:
    write(repo, "out.log", "ignored then\n")
    saved = save()
    write(repo, ".gitignore", "")
    write(repo, "out.log", "not ignored now\n")

    told = rollback(saved)

    assert (repo / "out.log").read_text() == "not ignored now\n"
    assert told["kept"] == [{"path": "out.log", "reason": "ignored at the checkpoint"}]
    assert told["removed"] == []


def test_an_empty_folder_that_was_ignored_at_the_checkpoint_is_kept(repo: Path) -> None:
    hollow(repo, "build/cache")
    saved = save()
    write(repo, ".gitignore", "")
    hollow(repo, "new/hollow")

    rollback(saved)

    assert (repo / "build/cache").is_dir()
    assert not (repo / "new").exists()


def test_a_file_that_only_the_present_rules_ignore_is_not_removed(repo: Path) -> None:
    """The rules go with the rollback; what they hid must not go with them."""
    saved = save()
    write(repo, ".gitignore", "*.log\nbuild/\noutput/\n")
    write(repo, "output/result", "an hour of work\n")

    rollback(saved)

    assert (repo / ".gitignore").read_text() == "*.log\nbuild/\n"
    assert (repo / "output/result").read_text() == "an hour of work\n"


def test_a_file_that_was_denied_at_the_checkpoint_is_kept(repo: Path) -> None:
    write(repo, ".env", "SECRET=1\n")
    saved = save()
    git("config", "ckpt.allow", ".env")

    told = rollback(saved)

    assert (repo / ".env").read_text() == "SECRET=1\n"
    assert told["kept"] == [{"path": ".env", "reason": "denied at the checkpoint"}]


def test_a_file_that_was_too_large_for_the_checkpoint_is_kept(repo: Path) -> None:
    git("config", "ckpt.maxFileSize", "100")
    write(repo, "data", b"large" * 100)
    saved = save()
    git("config", "--unset", "ckpt.maxFileSize")

    told = rollback(saved)

    assert (repo / "data").read_bytes() == b"large" * 100
    assert told["kept"] == [{"path": "data", "reason": "oversize at the checkpoint"}]


def test_a_file_that_could_not_be_read_for_the_checkpoint_is_kept(repo: Path) -> None:
    write(repo, "data", "there all the time\n", 0o000)
    saved = ckpt_process("save", "--json", under=unprivileged(), code=0).json["checkpoint"]
    assert (saved["partial"], saved["skipped"]) == (
        True,
        [{"path": "data", "reason": "unreadable"}],
    )
    (repo / "data").chmod(0o644)

    told = rollback(saved["id"])

    assert (repo / "data").read_text() == "there all the time\n"
    assert told["kept"] == [{"path": "data", "reason": "unreadable at the checkpoint"}]


def test_ignored_oversize_and_special_files_of_the_present_stay(repo: Path) -> None:
    saved = save()
    git("config", "ckpt.maxFileSize", "100")
    write(repo, "made/big", b"large" * 100)
    write(repo, "made/out.log", "ignored\n")
    write(repo, "made/.env", "SECRET=1\n")
    os.mkfifo(repo / "made/pipe")
    write(repo, "made/file", "saved\n")
    write(repo, "build/out", "ignored\n")

    told = rollback(saved)

    assert paths(told["removed"]) == ["made/file"]
    assert sorted(os.listdir(repo / "made")) == [".env", "big", "out.log", "pipe"]
    assert (repo / "build/out").read_text() == "ignored\n"


# Removing


def test_files_and_folders_made_since_are_removed(repo: Path) -> None:
    before = state(repo)
    saved = save()
    write(repo, "made/deep/file", "new\n")
    hollow(repo, "made/hollow/inner")
    write(repo, "src/new", "new\n")

    told = rollback(saved)

    assert state(repo) == before
    assert paths(told["removed"]) == ["made/deep/file", "src/new"]


def test_removing_most_files_needs_consent(repo: Path) -> None:
    saved = save()
    for number in range(8):
        write(repo, f"new/{number}", "new\n")
    before, refs = state(repo), checkpoints()

    refused = rollback(saved, code=4)["error"]
    assert refused["code"] == "refused"
    assert "8 of 14 files" in refused["message"]
    assert "--yes" in refused["hint"]
    assert state(repo) == before
    assert checkpoints() == refs

    assert len(rollback(saved, "--yes")["removed"]) == 8


def test_removing_half_of_the_files_needs_none(repo: Path) -> None:
    saved = save()
    for number in range(6):
        write(repo, f"new/{number}", "new\n")

    assert len(rollback(saved)["removed"]) == 6


def test_removing_over_a_thousand_untracked_files_needs_consent(repo: Path) -> None:
    for number in range(1001):
        write(repo, f"tracked/{number}", "")
    git("add", "tracked")
    saved = save()
    for number in range(1001):
        write(repo, f"new/{number}", "")

    assert "1001 of 2008 files" in rollback(saved, code=4)["error"]["message"]
    remove(repo, "new/0")
    assert len(rollback(saved)["removed"]) == 1000


def test_undo_takes_away_what_the_rollback_brought_without_asking(repo: Path) -> None:
    for number in range(20):
        write(repo, f"new/{number}", "new\n")
    saved = save()
    remove(repo, "new")
    before = state(repo)
    rollback(saved)

    ckpt("undo", code=0)

    assert state(repo) == before


def test_undo_asks_before_it_removes_what_was_made_since(repo: Path) -> None:
    saved = save()
    write(repo, "README.md", "edited\n")
    rollback(saved)
    for number in range(20):
        write(repo, f"new/{number}", "new\n")

    assert "--yes" in ckpt("undo", code=4).stderr
    assert len(os.listdir(repo / "new")) == 20
    ckpt("undo", "--yes", code=0)
    assert not (repo / "new").exists()


# Others at work


def test_a_held_index_lock_stops_a_rollback_before_anything_happens(repo: Path) -> None:
    saved = save()
    write(repo, "README.md", "edited\n")
    write(repo, ".git/index.lock", "")
    before, refs = tree_state(repo), checkpoints()

    refused = rollback(saved, code=4)["error"]

    assert refused["code"] == "busy"
    assert "index.lock" in refused["message"]
    assert refused["hint"]
    assert tree_state(repo) == before
    assert checkpoints() == refs
    assert (repo / ".git/index.lock").exists()


def test_a_rollback_inside_a_hook_that_lends_its_index_is_refused(repo: Path) -> None:
    saved = save()
    write(repo, "README.md", "edited\n")

    refused = ckpt("rollback", saved, env={"GIT_INDEX_FILE": ".git/next-index-1.lock"}, code=4)

    assert "GIT_INDEX_FILE" in refused.stderr
    assert (repo / "README.md").read_text() == "edited\n"


def test_a_missing_object_stops_a_rollback_before_anything_happens(repo: Path) -> None:
    write(repo, "one", "one\n")
    write(repo, "two", "two\n")
    saved = save()
    remove(repo, "one")
    remove(repo, "two")
    write(repo, "README.md", "edited\n")
    lose(repo, "two\n")
    before, refs = state(repo), checkpoints()

    refused = rollback(saved, code=1)["error"]

    assert refused["code"] == "failed"
    assert saved in refused["message"]
    assert "nothing was touched" in refused["hint"]
    assert state(repo) == before
    assert checkpoints() == refs
    assert paths(rollback(saved, "--", "one")["written"]) == ["one"]


@pytest.mark.parametrize("left", [b"", b"\x78\x01rubbish"], ids=["nothing", "rubbish"])
def test_so_does_a_damaged_one_that_only_the_index_names(repo: Path, left: bytes) -> None:
    """Git would commit it, and find out later."""
    write(repo, "README.md", "staged\n")
    git("add", "README.md")
    write(repo, "README.md", "edited since\n")
    saved = save()
    git("reset", "-q", "--hard")
    object_file(repo, "staged\n").chmod(0o644)
    object_file(repo, "staged\n").write_bytes(left)
    before, refs = state(repo), checkpoints()

    refused = rollback(saved, code=1)["error"]

    assert saved in refused["message"]
    assert f"'git ckpt rollback --no-index {saved}'" in refused["hint"]
    assert state(repo) == before
    assert checkpoints() == refs


def test_a_damaged_object_stops_a_rollback_before_anything_happens(repo: Path) -> None:
    write(repo, "one", "one\n")
    saved = save()
    write(repo, "one", "edited\n")
    object_file(repo, "one\n").chmod(0o644)
    object_file(repo, "one\n").write_bytes(b"\x78\x01rubbish")
    before = state(repo)

    assert rollback(saved, code=1)["error"]["code"] == "failed"
    assert state(repo) == before


def test_a_missing_staged_object_stops_a_rollback_unless_the_index_stays(repo: Path) -> None:
    write(repo, "README.md", "only staged\n")
    git("add", "README.md")
    write(repo, "README.md", "in the worktree\n")
    saved = save()
    git("reset", "-q", "--hard")
    lose(repo, "only staged\n")
    before = state(repo)

    assert rollback(saved, code=1)["error"]["code"] == "failed"
    assert state(repo) == before
    rollback(saved, "--no-index")
    assert (repo / "README.md").read_text() == "in the worktree\n"


def test_a_missing_tree_or_manifest_stops_a_rollback_before_anything_happens(repo: Path) -> None:
    saved = ckpt("save", "--json", code=0).json["checkpoint"]
    write(repo, "README.md", "edited\n")
    before = state(repo)
    for lost in (f"{saved['commit']}^2:manifest.json", f"{saved['commit']}^2"):
        object_of(repo, git("rev-parse", lost).strip()).unlink()

        assert rollback(saved["id"], code=1)["error"]["code"] == "failed"
        assert state(repo) == before


def lose(repo: Path, content: str) -> None:
    object_file(repo, content).unlink()


def object_file(repo: Path, content: str) -> Path:
    return object_of(repo, git("hash-object", "--stdin", stdin=content).strip())


def object_of(repo: Path, name: str) -> Path:
    return Path(loose_object(repo / ".git", name))


# Only what differs


def test_equal_files_keep_their_times_and_inodes(repo: Path) -> None:
    write(repo, "untracked", "same\n")
    saved = save()
    write(repo, "README.md", "edited\n")
    kept = ("src/app.py", "untracked", "run.sh", "current", "src")
    before = [os.lstat(repo / path) for path in kept]
    time.sleep(0.01)

    told = rollback(saved)

    assert paths(told["written"]) == ["README.md"]
    assert [(s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for s in before] == [
        (s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for s in (os.lstat(repo / p) for p in kept)
    ]


def test_where_only_permission_bits_differ_no_content_is_written(repo: Path) -> None:
    saved = save()
    before = (repo / "README.md").stat()
    (repo / "README.md").chmod(0o600)

    rollback(saved)

    after = (repo / "README.md").stat()
    assert (after.st_mode, after.st_ino, after.st_mtime_ns) == (
        before.st_mode,
        before.st_ino,
        before.st_mtime_ns,
    )


def test_a_rollback_with_nothing_to_do_makes_no_checkpoint(repo: Path) -> None:
    write(repo, "README.md", "edited\n")
    saved = save()
    refs = checkpoints()

    told = rollback(saved)

    assert (told["written"], told["removed"], told["safety"], told["undo"]) == ([], [], None, None)
    assert checkpoints() == refs
    assert "Nothing to do" in ckpt("rollback", saved, code=0).stdout
    assert ckpt("undo").code == 3


def test_the_report_ends_with_the_command_that_undoes_it(repo: Path) -> None:
    save("start")
    write(repo, "README.md", "edited\n")
    write(repo, "new", "new\n")

    report = ckpt("rollback", "start", code=0).stdout.splitlines()

    assert any("start" in line for line in report)
    assert any("README.md" in line for line in report)
    assert any("new" in line for line in report)
    assert report[-1].endswith("git ckpt undo")


# Paths and the index


def test_only_the_named_paths_come_back(repo: Path) -> None:
    write(repo, "docs/a", "a\n")
    write(repo, "docs/b", "b\n")
    write(repo, "docsx", "not in the folder\n")
    git("add", "docs/a")
    saved = save()
    for path in ("docs/a", "docs/b", "docsx", "README.md"):
        write(repo, path, "edited\n")
    write(repo, "docs/new", "new\n")
    git("add", "--all")

    told = rollback(saved, "--", "docs")

    assert paths(told["written"]) == ["docs/a", "docs/b"]
    assert paths(told["removed"]) == ["docs/new"]
    assert git("status", "--porcelain").splitlines() == [
        "M  README.md",
        "A  docs/a",
        "A  docsx",
        "?? docs/b",
    ]
    assert (repo / "README.md").read_text() == "edited\n"


def test_undo_of_some_paths_leaves_the_others_alone(repo: Path) -> None:
    saved = save()
    write(repo, "README.md", "edited\n")
    write(repo, "src/app.py", "edited\n")
    rollback(saved, "--", "README.md")
    write(repo, "src/app.py", "edited again\n")

    ckpt("undo", code=0)

    assert (repo / "README.md").read_text() == "edited\n"
    assert (repo / "src/app.py").read_text() == "edited again\n"


@pytest.mark.parametrize("on_disk", [None, "edited\n"])
def test_what_is_staged_outside_the_named_paths_stays_staged(
    repo: Path, on_disk: str | None
) -> None:
    """Also a file where a folder of the named path was."""
    write(repo, "folder/file", "in a folder\n")
    git("add", "folder")
    saved = save()
    git("rm", "-q", "--cached", "-r", "folder")
    write(repo, "folder", "only staged\n")
    git("add", "folder")
    remove(repo, "folder")
    if on_disk is not None:
        write(repo, "folder", on_disk)
    before = state(repo)

    told = rollback(saved, "--", "folder/file", code=4)
    assert paths(told["skipped"]) == ["folder/file"]
    assert state(repo).index == before.index

    ckpt("undo", code=0 if on_disk is None else 3)  # what stands in the way, nothing touched
    assert state(repo) == before


def test_paths_are_relative_to_the_folder_the_command_is_typed_in(repo: Path) -> None:
    saved = save()
    write(repo, "src/app.py", "edited\n")
    write(repo, "README.md", "edited\n")

    told = ckpt("rollback", saved, "--json", "--", "app.py", cwd=repo / "src", code=0).json
    assert paths(told["written"]) == ["src/app.py"]
    told = ckpt("-C", "src", "rollback", saved, "--json", "--", "../README.md", code=0).json
    assert paths(told["written"]) == ["README.md"]


def test_a_single_deleted_file_comes_back_by_name(repo: Path) -> None:
    saved = save()
    remove(repo, "src")
    git("rm", "-q", "-r", "--cached", "src")

    rollback(saved, "--", "src/app.py")

    assert sorted(os.listdir(repo / "src")) == ["app.py"]
    assert git("status", "--porcelain") == "D  src/data.bin\n"


@pytest.mark.parametrize("name", ["-x", "--head", "*.md", ":(top)x", "a b"])
def test_what_stands_after_the_dashes_is_a_path_whatever_it_looks_like(
    repo: Path, name: str
) -> None:
    write(repo, name, "saved\n")
    saved = save()
    write(repo, name, "edited\n")
    write(repo, "README.md", "edited\n")

    assert paths(rollback(saved, "--", name)["written"]) == [name]


def test_a_path_that_is_a_link_is_restored_and_not_followed(repo: Path, tmp_path: Path) -> None:
    hollow(tmp_path, "elsewhere")
    link(repo, "out", tmp_path / "elsewhere")
    saved = save()
    remove(repo, "out")

    rollback(saved, "--", "out")

    assert os.readlink(repo / "out") == str(tmp_path / "elsewhere")


def test_the_top_folder_as_a_path_means_everything(repo: Path) -> None:
    before = state(repo)
    saved = save()
    write(repo, "README.md", "edited\n")
    write(repo, "new", "new\n")

    rollback(saved, "--", ".")

    assert state(repo) == before


def test_a_path_that_neither_state_has_is_a_mistake(repo: Path) -> None:
    saved = save()
    write(repo, "README.md", "edited\n")

    failed = ckpt("rollback", saved, "--", "README.md", "REEDME", code=1)

    assert "'REEDME'" in failed.stderr
    assert (repo / "README.md").read_text() == "edited\n"


def test_the_index_stays_when_asked_to(repo: Path) -> None:
    saved = save()
    write(repo, "README.md", "staged\n")
    write(repo, "new", "staged\n")
    git("add", "--all")
    index = (repo / ".git/index").read_bytes()

    told = rollback(saved, "--no-index")

    assert (repo / ".git/index").read_bytes() == index
    assert (repo / "README.md").read_text() == "# An example\n"
    assert told["index_changed"] is False
    ckpt("undo", code=0)
    assert (repo / ".git/index").read_bytes() == index
    assert git("status", "--porcelain") == "M  README.md\nA  new\n"


def test_a_file_untracked_at_the_checkpoint_never_comes_back_staged(repo: Path) -> None:
    write(repo, "notes", "mine\n")
    saved = save()
    git("add", "notes")
    git("commit", "-q", "-m", "notes")
    git("rm", "-q", "notes")

    rollback(saved)

    assert (repo / "notes").read_text() == "mine\n"
    assert "A  notes" not in git("status", "--porcelain")


# An operation in progress


@pytest.fixture
def conflict(repo: Path) -> str:
    """The id of a checkpoint from before a merge that has stopped."""
    divide(repo, "other")
    saved = save()
    with pytest.raises(AssertionError, match="CONFLICT"):
        git("merge", "other")
    return saved


def test_rolling_back_out_of_a_merge_is_refused(repo: Path, conflict: str) -> None:
    before, refs = state(repo), checkpoints()

    refused = rollback(conflict, code=4)["error"]

    assert refused["code"] == "refused"
    assert "merge" in refused["message"]
    assert "-- PATH" in refused["hint"]
    assert state(repo) == before
    assert checkpoints() == refs


def test_single_files_come_back_in_the_middle_of_a_merge(repo: Path, conflict: str) -> None:
    rollback(conflict, "--", "README.md")

    assert (repo / "README.md").read_text() == "ours\n"
    assert (repo / ".git/MERGE_HEAD").exists()


def test_rolling_back_into_a_merge_that_has_ended_is_refused(repo: Path, conflict: str) -> None:
    within = save()
    git("merge", "--abort")
    before = state(repo)

    assert "merge" in rollback(within, code=4)["error"]["message"]
    assert state(repo) == before


def test_rolling_back_into_another_merge_is_refused(repo: Path, conflict: str) -> None:
    within = save()
    git("merge", "--abort")
    git("checkout", "-q", "-b", "third", "HEAD^")
    write(repo, "README.md", "third\n")
    git("commit", "-q", "-a", "-m", "third")
    git("checkout", "-q", "main")
    with pytest.raises(AssertionError, match="CONFLICT"):
        git("merge", "third")
    before = state(repo)

    assert rollback(within, code=4)["error"]["code"] == "refused"
    assert state(repo) == before


def test_within_one_merge_rollback_works_both_ways(repo: Path, conflict: str) -> None:
    within = save()
    before = state(repo)
    write(repo, "README.md", "half resolved\n")
    git("add", "README.md")

    rollback(within)

    assert state(repo) == before
    assert fsck(repo) == []


# Settings that are broken


def test_a_rollback_goes_on_with_the_defaults_when_a_settings_file_is_broken(repo: Path) -> None:
    saved = save()
    write(repo, "README.md", "edited\n")
    write(repo, "ckpt.toml", "max_file_size = [\n")

    told: Ran = ckpt("rollback", saved, code=0)

    assert "warning: " in told.stderr
    assert "ckpt.toml" in told.stderr
    assert (repo / "README.md").read_text() == "# An example\n"
    assert not (repo / "ckpt.toml").exists()
    assert ckpt("undo", code=0)
    assert (repo / "ckpt.toml").read_text() == "max_file_size = [\n"


# What no file system takes


def with_link(target: bytes) -> str:
    """A checkpoint whose tree has one more symbolic link, `odd`, as only a program can write it."""
    (Path(".git") / "target").write_bytes(target)
    return with_entry(f"120000 blob {git('hash-object', '-w', '.git/target').strip()}\todd")


def with_entry(entry: str) -> str:
    ref = f"refs/checkpoints/{(wanted := save())}"
    listing = git("ls-tree", ref) + entry + "\n"
    _, _, rest = git("cat-file", "commit", ref).partition("\n")
    text = f"tree {git('mktree', stdin=listing)}{rest}"
    commit = git("hash-object", "-t", "commit", "-w", "--stdin", stdin=text).strip()
    git("update-ref", ref, commit)
    return wanted


@pytest.mark.parametrize("target", [b"", b"a\0b", b"a" * 4096], ids=["empty", "nul", "long"])
def test_a_symbolic_link_that_no_file_system_takes_is_left_and_listed(
    target: bytes, repo: Path
) -> None:
    wanted = with_link(target)
    before = tree_state(repo)
    write(repo, "odd/new", "in its place\n")
    write(repo, "other", "new\n")
    remove(repo, "README.md")
    disturbed = tree_state(repo)

    foreseen = rollback(wanted, "--dry-run", code=4)
    assert tree_state(repo) == disturbed
    done = rollback(wanted, code=4)

    reason = "no file system takes this link target"
    assert done["skipped"] == foreseen["skipped"] == [{"path": "odd", "reason": reason}]
    assert tree_state(repo) == before | {b"odd/new": disturbed[b"odd/new"]}
    ckpt("undo", code=0)
    assert tree_state(repo) == disturbed


@pytest.mark.parametrize("below", ["", "/file"], ids=["file", "folder"])
def test_a_name_that_the_file_system_does_not_take_is_left_and_listed(
    below: str, repo: Path
) -> None:
    name = "n" * 256
    blob = git("rev-parse", "HEAD:README.md").strip()
    tree = git("mktree", stdin=f"100644 blob {blob}\tfile\n").strip()
    wanted = with_entry(f"040000 tree {tree}\t{name}" if below else f"100644 blob {blob}\t{name}")
    before = tree_state(repo)
    remove(repo, "README.md")

    foreseen = rollback(wanted, "--dry-run", code=4)
    done = rollback(wanted, code=4)

    reason = "the file system takes no name that long"
    assert done["skipped"] == foreseen["skipped"] == [{"path": name + below, "reason": reason}]
    assert tree_state(repo) == before
    ckpt("undo", code=0)
    assert not (repo / "README.md").exists()


def test_a_symbolic_link_of_the_longest_target_comes_back(repo: Path) -> None:
    link(repo, "far", "a" * 4095)
    wanted = save()
    before = tree_state(repo)
    remove(repo, "far")

    rollback(wanted)

    assert tree_state(repo) == before


def test_a_rollback_that_could_not_be_remembered_does_not_begin(repo: Path) -> None:
    saved = save()
    write(repo, "README.md", "edited\n")
    before = checkpoints()
    remove(repo, ".git/ckpt/last-rollback")
    (repo / ".git/ckpt/last-rollback").mkdir(parents=True)

    ran = ckpt("rollback", saved)

    assert ran.code != 0
    assert "last-rollback' is a folder" in ran.stderr
    assert (repo / "README.md").read_text() == "edited\n"
    assert checkpoints() == before


def test_where_the_current_folder_goes_the_way_out_of_it_is_named(repo: Path) -> None:
    target = save()
    write(repo, "new/in ner/file", "new\n")
    script = 'cd "new/in ner" && "$@"'

    ran = ckpt_process("rollback", target, under=("sh", "-c", script, "sh"), code=0)

    (hint,) = [line for line in ran.stderr.splitlines() if line.startswith("hint: ")]
    assert hint.partition(": cd ")[2] == str(repo)
    assert "hint: " not in ckpt_process("undo", code=0).stderr
