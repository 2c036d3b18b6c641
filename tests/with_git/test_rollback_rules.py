# SPDX-License-Identifier: MIT
"""What a rollback may touch, what it leaves and lists, and what it refuses to do."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from helpers import ckpt as ckpt_process
from helpers import ckpt_here as ckpt
from helpers import fsck, git, loose_object, tree_state
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


def test_the_top_as_a_path_is_all_of_the_worktree(repo: Path) -> None:
    before = state(repo)
    saved = save()
    write(repo, "new", "since\n")
    git("add", "new")

    rollback(saved, "--", ".")
    assert state(repo) == before


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


def test_a_nested_repository_made_since_is_never_removed(repo: Path) -> None:
    saved = save()
    git("init", "-q", "outer/nested")
    write(repo, "outer/nested/work", "in the nested one\n")
    write(repo, "outer/file", "beside it\n")
    before = tree_state(repo)

    told = rollback(saved)

    assert paths(told["removed"]) == ["outer/file"]
    assert tree_state(repo) == {k: v for k, v in before.items() if k != b"outer/file"}


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


def test_a_file_that_was_denied_at_the_checkpoint_is_kept(repo: Path) -> None:
    write(repo, ".env", "SECRET=1\n")
    saved = save()
    git("config", "ckpt.allow", ".env")

    told = rollback(saved)

    assert (repo / ".env").read_text() == "SECRET=1\n"
    assert told["kept"] == [{"path": ".env", "reason": "denied at the checkpoint"}]


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


def test_a_damaged_object_stops_a_rollback_before_anything_happens(repo: Path) -> None:
    write(repo, "one", "one\n")
    saved = save()
    write(repo, "one", "edited\n")
    object_file(repo, "one\n").chmod(0o644)
    object_file(repo, "one\n").write_bytes(b"\x78\x01rubbish")
    before = state(repo)

    assert rollback(saved, code=1)["error"]["code"] == "failed"
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


def test_a_file_staged_outside_the_named_paths_where_a_folder_was_is_refused(repo: Path) -> None:
    write(repo, "folder/file", "in a folder\n")
    git("add", "folder")
    saved = save()
    git("rm", "-q", "--cached", "-r", "folder")
    remove(repo, "folder")
    write(repo, "folder", "staged\n")
    git("add", "folder")
    remove(repo, "folder")
    before, refs = state(repo), checkpoints()

    refused = rollback(saved, "--", "folder/file", code=4)["error"]

    assert "'folder' is staged, so 'folder/file' cannot be" in refused["message"]
    assert "--no-index" in refused["hint"]
    assert (state(repo), checkpoints()) == (before, refs)
    rollback(saved, "--no-index", "--", "folder/file")
    assert (repo / "folder/file").read_text() == "in a folder\n"


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


def test_within_one_merge_rollback_works_both_ways(repo: Path, conflict: str) -> None:
    within = save()
    before = state(repo)
    write(repo, "README.md", "half resolved\n")
    git("add", "README.md")

    rollback(within)

    assert state(repo) == before
    assert fsck(repo) == []
