# SPDX-License-Identifier: MIT
"""A recovery is interrupted in turn, or saves several times, and someone edits each time.

Each checkpoint that it makes holds what the ones before it held and it has replaced since, so
that `undo` after it, or who goes to the one checkpoint that is named, gets all of it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.rollbacks import (
    SCENES,
    Look,
    Scene,
    checkpoints,
    differences,
    has_journal,
    leftovers,
    look,
    off_branch,
)
from faults.striking import (
    Blow,
    Driver,
    Sweep,
    begun,
    kill,
    kills,
)
from helpers import fsck, git, loose_object, verified
from scenes import link, remove, write

Record = Callable[[str, object], None]

WAYS = ["--continue", "--abort"]
CRASHES = {
    "before the first file": kill(1, "unlink", "becomes-file"),
    "amid the files": kill(1, "rename", "edited"),
    "before the end": kill(1, "rename", "/last-rollback"),
}
STAGE = "git update-index --cacheinfo 100644,$(echo first | git hash-object -w --stdin),src/same"
SWITCH = "git branch -q other HEAD~0; git symbolic-ref HEAD refs/heads/other"


def sh(command: str, top: Path) -> None:
    git("-c", f"alias.sh=!cd {shlex.quote(str(top))}; {command}", "sh", cwd=top)


def edit_first(top: Path) -> None:
    """After the crash: contents, bits, a link, files that go, come and change their kind."""
    write(top, "run", "first\n", 0o750)
    (top / "private").chmod(0o611)
    write(top, "src/both", "first\n")
    link(top, "src/staged", "first")
    remove(top, "link")
    remove(top, "becomes-link")
    write(top, "untracked/deeper/file", "first\n")
    for path in ("becomes-folder", "becomes-file"):
        write(top, f"{path}/now/deeper" if (top / path).is_dir() else path, "first\n")
    sh(STAGE, top)
    clear_temporaries(top)


def clear_temporaries(top: Path) -> None:
    for left in top.glob("**/.ckpt-tmp-*"):
        left.unlink()


def edit_again(top: Path) -> None:
    write(top, "src/edited", "again\n")


def copied(top: Path, name: str) -> Path:
    target = top.with_name(name)
    if target.exists():
        shutil.rmtree(target)
    subprocess.run(["cp", "-a", str(top), str(target)], check=True)
    return target


def with_edit(top: Path, edit: Callable[[Path], None]) -> Look:
    """What there is, once it is edited too."""
    both = copied(top, "both")
    edit(both)
    return look(both)


def crashed(driver: Driver, scene: Scene, when: str) -> Path:
    top = scene.copy("crashed")
    struck = driver.run(top, *scene.words, blow=CRASHES[when])
    assert struck.killed, struck
    return top


def check_sound(top: Path) -> None:
    assert leftovers(top) == []
    assert fsck(top) == []
    assert verified(top) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "name, when",
    [
        ("whole", "before the first file"),
        ("whole", "amid the files"),
        ("by path", "before the end"),
        ("same branch", "amid the files"),
        ("other branch", "amid the files"),
        ("detached", "before the end"),
        ("operation", "amid the files"),
    ],
)
def test_undo_brings_back_all_edits_wherever_the_recovery_between_them_was_killed(
    name: str, when: str, way: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    """The first recovery goes either way; the second finishes the rollback."""
    scene = SCENES[name](tmp_path / "before")
    start = crashed(driver, scene, when)
    edit_first(start)
    if "branch" in name:
        sh(SWITCH, start)
    expected = with_edit(start, edit_again)
    operations = driver.run(copied(start, "run"), "rollback", way).operations

    with Sweep(record_property) as sweep:
        for nth in kills(operations, every=41):
            with sweep.trying((nth, operations[nth - 1])):
                top = copied(start, "run")
                struck = driver.run(top, "rollback", way, blow=kill(nth))
                if not struck.killed or not has_journal(top):
                    continue  # it was over
                sweep.count("recoveries interrupted, with edits before and after")
                edit_again(top)
                resumed = driver.run(top, "rollback", "--continue", "--json")
                assert resumed.code in (0, 4), resumed
                check_sound(top)
                assert driver.run(top, "undo", "--yes").code == 0
                assert differences(look(top), expected) == []
                check_sound(top)


# -- one kind of edit at a time -----------------------------------------------------------

DONE = kill(1, "rename", "/last-rollback")  # all is replaced, and the journal there still
PATHS = ["file-a", "file-b", "file-c", "file-d"]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    top.mkdir()
    git("init", "-q", cwd=top)
    put(top, "then", *PATHS)
    git("add", "--all", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)
    return top


def put(top: Path, content: str, *paths: str) -> None:
    for path in paths:
        write(top, path, f"{content}\n")


def contents(top: Path) -> dict[str, str]:
    return {path: (top / path).read_text().strip() for path in PATHS}


def begin(
    driver: Driver, top: Path, *words: str, change: Callable[[], object] = lambda: None
) -> None:
    """A rollback of four files, and what else has changed, killed when two of the four are done."""
    assert driver.run(top, "save", "it").code == 0
    put(top, "now", *PATHS)
    change()
    struck = driver.run(top, "rollback", "it", "--yes", *words, blow=kill(1, "rename", "file-c"))
    assert struck.killed, struck
    clear_temporaries(top)


def stop_recovery(driver: Driver, top: Path, way: str = "--continue", blow: Blow = DONE) -> None:
    struck = driver.run(top, "rollback", way, blow=blow)
    assert struck.killed, struck


def finish_and_undo(driver: Driver, top: Path) -> None:
    resumed = driver.run(top, "rollback", "--continue")
    assert resumed.code == 0, resumed
    assert contents(top) == dict.fromkeys(PATHS, "then")
    check_sound(top)
    assert driver.run(top, "undo", "--yes").code == 0


def edit_last(top: Path) -> None:
    write(top, "file-d", "again\n")


def check_all_comes_back(driver: Driver, top: Path) -> None:
    """What there is now, through a recovery that is killed when it has replaced all of it, and
    what is edited then."""
    expected = with_edit(top, edit_last)
    stop_recovery(driver, top)
    edit_last(top)
    finish_and_undo(driver, top)
    assert differences(look(top), expected) == []
    check_sound(top)


@pytest.mark.parametrize("way", WAYS)
def test_abort_names_one_checkpoint_that_holds_all_edits(
    way: str, driver: Driver, top: Path
) -> None:
    begin(driver, top)
    put(top, "first", "file-a")
    stop_recovery(driver, top, way, kill(1, "fsync", "file-a"))
    assert contents(top)["file-a"] != "first"
    put(top, "again", "file-d")

    aborted = driver.run(top, "rollback", "--abort", "--json")

    assert aborted.code == 0, aborted
    assert contents(top) == dict.fromkeys(PATHS, "now")
    assert driver.run(top, "rollback", aborted.json["safety"]["id"]).code == 0
    assert contents(top) == {
        "file-a": "first",
        "file-b": "then",
        "file-c": "now",
        "file-d": "again",
    }


def test_undo_brings_back_edits_that_one_recovery_saved_one_after_the_other(
    driver: Driver, top: Path
) -> None:
    begin(driver, top)
    put(top, "first", "file-a")
    blows = [
        Blow(1, "chmod", begun("file-c"), command=("sh", "-c", "echo second > file-c")),
        Blow(1, "chmod", begun("file-d"), command=("sh", "-c", "echo third > file-d")),
    ]

    assert driver.run(top, "rollback", "--continue", blow=blows).code == 0

    assert contents(top) == dict.fromkeys(PATHS, "then")
    assert driver.run(top, "undo").code == 0
    assert contents(top) == {
        "file-a": "first",
        "file-b": "then",
        "file-c": "second",
        "file-d": "third",
    }


def test_undo_returns_to_the_beginning_and_the_edit_if_that_came_when_all_else_was_replaced(
    driver: Driver, top: Path
) -> None:
    """Nobody had edited anything before, so that nothing was saved."""
    begin(driver, top)
    blow = Blow(1, "chmod", begun("file-d"), command=("sh", "-c", "echo first > file-d"))

    assert driver.run(top, "rollback", "--continue", blow=blow).code == 0

    assert contents(top) == dict.fromkeys(PATHS, "then")
    assert driver.run(top, "undo").code == 0
    assert contents(top) == {"file-a": "now", "file-b": "now", "file-c": "now", "file-d": "first"}


def test_what_is_edited_twice_comes_back_as_it_was_last(driver: Driver, top: Path) -> None:
    begin(driver, top)
    put(top, "first", "file-a", "file-b")
    stop_recovery(driver, top)
    put(top, "again", "file-b")
    stop_recovery(driver, top)
    put(top, "at last", "file-c")

    finish_and_undo(driver, top)

    assert contents(top) == {
        "file-a": "first",
        "file-b": "again",
        "file-c": "at last",
        "file-d": "now",
    }


def test_a_file_that_was_removed_again_stays_removed(driver: Driver, top: Path) -> None:
    begin(driver, top)
    put(top, "first", "file-a", "file-b")
    stop_recovery(driver, top)
    remove(top, "file-a")
    put(top, "again", "file-c")

    finish_and_undo(driver, top)

    assert not (top / "file-a").exists()
    assert (top / "file-b").read_text() == "first\n"


def test_converted_files_come_back_to_the_byte(driver: Driver, top: Path) -> None:
    write(top, ".gitattributes", "*.txt text eol=crlf\n*.f filter=upper\n")
    git("config", "filter.upper.clean", "tr a-z A-Z", cwd=top)
    git("config", "filter.upper.smudge", "tr A-Z a-z", cwd=top)
    paths = ["g-mixed.txt", "g-plain.txt", "g.f"]
    put(top, "then\r", *paths)
    git("add", "--all", cwd=top)
    git("commit", "-q", "-m", "converted", cwd=top)
    begin(driver, top, change=lambda: put(top, "now\r", *paths))
    put(top, "first\r", *paths)
    write(top, "g-mixed.txt", "first\r\nand\n")
    git("add", "g-plain.txt", cwd=top)

    check_all_comes_back(driver, top)


def test_folders_come_back_with_their_bits_and_empty_ones_too(driver: Driver, top: Path) -> None:
    put(top, "then", "g-bits/file", "g-gone/file")
    (top / "g-gone").chmod(0o700)
    (top / "g-made").mkdir()

    def change() -> None:
        (top / "g-bits").chmod(0o700)
        remove(top, "g-gone")
        (top / "g-made").rmdir()
        put(top, "now", "g-new/file")
        (top / "g-hollow").mkdir()

    begin(driver, top, change=change)
    (top / "g-bits").chmod(0o711)
    put(top, "first", "g-new/file")
    (top / "g-new").chmod(0o750)
    (top / "g-hollow").mkdir(exist_ok=True)

    check_all_comes_back(driver, top)

    assert [(top / path).stat().st_mode & 0o777 for path in ("g-bits", "g-new")] == [0o711, 0o750]
    assert not (top / "g-gone").exists() and not (top / "g-made").exists()
    assert [*(top / "g-hollow").iterdir()] == []


def test_what_a_sparse_checkout_left_out_is_left_out_again(driver: Driver, top: Path) -> None:
    begin(driver, top)
    git("status", cwd=top)  # which refreshes the index
    git("sparse-checkout", "set", "--no-cone", "/*", "!/file-b", cwd=top)
    assert not (top / "file-b").exists()
    put(top, "first", "file-a")

    check_all_comes_back(driver, top)


def test_head_returns_to_the_branch_that_someone_had_gone_to(driver: Driver, top: Path) -> None:
    begin(driver, top, "--head", change=lambda: sh("git commit -q -a -m second", top))
    git("switch", "-q", "-c", "other", cwd=top)

    check_all_comes_back(driver, top)


def test_a_merge_that_was_begun_comes_back_with_its_head_and_index(
    driver: Driver, top: Path
) -> None:
    branch_off(top)
    begin(driver, top, "--head")
    git("reset", "-q", "--hard", cwd=top)
    git("merge", "-q", "--no-commit", "topic", cwd=top)
    assert (top / ".git/MERGE_HEAD").exists()

    check_all_comes_back(driver, top)


def branch_off(top: Path) -> str:
    """A commit on a branch, which can be merged without a conflict; then HEAD goes on."""
    git("switch", "-q", "-c", "topic", cwd=top)
    put(top, "topic", "of-topic")
    git("add", "of-topic", cwd=top)
    git("commit", "-q", "-m", "topic", cwd=top)
    git("switch", "-q", "main", cwd=top)
    put(top, "main", "of-main")
    git("add", "of-main", cwd=top)
    git("commit", "-q", "-m", "main", cwd=top)
    return git("rev-parse", "topic", cwd=top).strip()


def test_no_merge_comes_back_to_what_was_staged_since_but_its_commits_are_held(
    driver: Driver, top: Path
) -> None:
    commit = branch_off(top)
    begin(driver, top, "--head")
    git("reset", "-q", "--hard", cwd=top)
    git("merge", "-q", "--no-commit", "topic", cwd=top)
    stop_recovery(driver, top)
    put(top, "again", "file-d")
    git("add", "file-d", cwd=top)

    finish_and_undo(driver, top)

    assert not (top / ".git/MERGE_HEAD").exists()
    assert git("show", ":file-d", cwd=top) == "again\n"
    assert commit in held(top, newest(top, 2))


def test_a_commit_at_which_head_was_is_held_though_it_moved_once_more(
    driver: Driver, tmp_path: Path
) -> None:
    scene = off_branch(tmp_path / "before")
    top = crashed(driver, scene, "amid the files")
    commit = "git commit -q --allow-empty -m 'by hand'"
    sh(commit, top)
    first = git("rev-parse", "HEAD", cwd=top).strip()
    stop_recovery(driver, top)
    sh(commit, top)
    second = git("rev-parse", "HEAD", cwd=top).strip()

    resumed = driver.run(top, "rollback", "--continue", "--json")

    assert resumed.code == 0, resumed
    scene.check(top, scene.after)
    assert {first, second} <= held(top, resumed.json["safety"]["ref"])
    assert driver.run(top, "undo", "--yes").code == 0
    assert git("rev-parse", "HEAD", cwd=top).strip() == second


def newest(top: Path, nth: int) -> str:
    """The ref of a checkpoint, counted from the newest."""
    return sorted(checkpoints(top))[-nth]


def held(top: Path, ref: str) -> set[str]:
    return set(git("rev-list", ref, cwd=top).split())


def test_what_cannot_be_there_together_with_a_later_edit_stays_in_the_earlier_checkpoint(
    driver: Driver, top: Path
) -> None:
    begin(driver, top, change=lambda: put(top, "now", "e"))
    put(top, "first", "e", "file-a")
    stop_recovery(driver, top)
    earlier = newest(top, 1)
    put(top, "again", "e/inside", "file-d")

    finish_and_undo(driver, top)

    assert (top / "e/inside").read_text() == "again\n"
    assert contents(top) == {
        "file-a": "first",
        "file-b": "then",
        "file-c": "now",
        "file-d": "again",
    }
    assert git("show", f"{earlier}:e", cwd=top) == "first\n"
    check_sound(top)


def test_what_the_earlier_checkpoint_has_lost_stops_nobody(driver: Driver, top: Path) -> None:
    begin(driver, top, change=lambda: git("add", "file-d", cwd=top))
    put(top, "first", "file-a", "file-b")
    git("add", "file-a", cwd=top)
    stop_recovery(driver, top)
    edit_last(top)
    blob = git("rev-parse", f"{newest(top, 1)}:file-a", cwd=top).strip()
    os.unlink(loose_object(top / ".git", blob))

    assert driver.run(top, "rollback", "--continue").code == 0
    assert driver.run(top, "undo").code == 0

    assert contents(top)["file-d"] == "again"
