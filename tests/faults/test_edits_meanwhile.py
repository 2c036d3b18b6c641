# SPDX-License-Identifier: MIT
"""Someone works on while a rollback runs, or between its crash and its recovery.

Whatever they did to a path, the index or a branch that is about to be replaced is in a
safety checkpoint first; then the rollback, or its recovery, is as exact as ever.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from faults.rollbacks import (
    SCENES,
    Scene,
    checkpoints,
    differences,
    leftovers,
    look,
    other_branch,
    same_branch,
    whole,
)
from faults.striking import (
    TORTURE,
    Blow,
    Driver,
    Sweep,
    begun,
    kill,
    sample,
)
from helpers import fsck, git, tree_state, verified

Record = Callable[[str, object], None]

BY_HAND = b"by hand\n"
WAYS = ["--continue", "--abort"]

# How far the rollback had come: nothing done yet, in the middle, files done, all done.
CRASHES = {
    "before the first file": kill(1, "unlink", "becomes-file"),
    "amid the files": kill(1, "rename", "edited"),
    "before the index": kill(1, "link", "/index.lock"),
    "before the end": kill(1, "rename", "/last-rollback"),
}


@dataclass(frozen=True)
class Edit:
    """What someone does, and what a checkpoint then holds at `path`: git's mode, bytes."""

    command: str
    path: str
    mode: str = "100644"
    content: bytes = BY_HAND


EDITS = {
    "a file to be replaced": Edit("echo by hand > src/edited", "src/edited"),
    "a file to be removed": Edit("echo by hand > src/deleted", "src/deleted"),
    "a file to be created": Edit(
        "mkdir -p untracked/deeper; echo by hand > untracked/deeper/file", "untracked/deeper/file"
    ),
    "a file for another": Edit("echo by hand > new-edited; mv new-edited src/edited", "src/edited"),
    "an executable": Edit("echo by hand > src/edited; chmod +x src/edited", "src/edited", "100755"),
    "a link for a file": Edit(
        "ln -sfn 'by hand' src/edited", "src/edited", "120000", BY_HAND.strip()
    ),
    "a file for a link": Edit("rm -f link; echo by hand > link", "link"),
}

# Where the worktree has it as it was all along, only the index can have changed.
STAGE = "git update-index --cacheinfo 100644,$(echo by hand | git hash-object -w --stdin),src/same"
COMMIT = "git commit -q -m 'by hand'"


def sh(command: str, top: Path) -> None:
    git("-c", f"alias.sh=!cd {shlex.quote(str(top))}; {command}", "sh", cwd=top)


def held(top: Path, ref: str, path: str) -> tuple[str, bytes]:
    """Mode and bytes of a path in a tree; fails where there is none."""
    mode, _, blob = git("ls-tree", ref, "--", path, cwd=top).split("\t")[0].split()
    return mode, git("cat-file", "blob", blob, cwd=top).encode()


def new_checkpoints(scene: Scene, top: Path) -> list[str]:
    """Refs of the safety checkpoints that were not there before, the oldest first."""
    return sorted(checkpoints(top).keys() - scene.checkpoints.keys())


def crash(driver: Driver, scene: Scene, blow: Blow) -> Path:
    top = scene.copy()
    struck = driver.run(top, *scene.words, blow=blow)
    assert struck.killed, struck
    return top


# -- between the crash and the recovery -------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_an_edit_after_the_crash_is_saved_before_it_is_overwritten(
    way: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = whole(tmp_path / "before")

    cases = list(product(CRASHES, EDITS))
    with Sweep(record_property) as sweep:
        for when, what in cases if TORTURE else cases[::2]:
            with sweep.trying((when, what)):
                sweep.count("edits after a crash")
                edit = EDITS[what]
                top = crash(driver, scene, CRASHES[when])
                known = new_checkpoints(scene, top)
                sh(edit.command, top)

                recovered = driver.run(top, "rollback", way, "--json")

                assert recovered.code == 0, recovered
                (saved,) = set(new_checkpoints(scene, top)) - set(known)
                assert held(top, saved, edit.path) == (edit.mode, edit.content)
                assert recovered.json["safety"]["ref"] == saved
                scene.check(top, scene.after if way == "--continue" else scene.before)
                sweep.count("edits saved")


@pytest.mark.parametrize("when", ["amid the files", "before the index", "before the end"])
@pytest.mark.parametrize("name", ["whole", "same branch", "other branch"])
def test_undo_after_continue_brings_back_what_there_was_before_it(
    name: str, when: str, driver: Driver, tmp_path: Path
) -> None:
    scene = SCENES[name](tmp_path / "before")
    top = crash(driver, scene, CRASHES[when])
    sh(f"{put('src/edited')}; rm -f src/.ckpt-tmp-*", top)
    half = look(top)

    resumed = driver.run(top, "rollback", "--continue")

    saved = new_checkpoints(scene, top)[-1]
    assert resumed.code == 0, resumed
    assert f"The state before is saved as {saved.rpartition('/')[2]}\n" in resumed.stdout
    assert driver.run(top, "undo", "--yes").code == 0
    assert differences(look(top), half) == []


def test_where_nothing_was_edited_continue_makes_no_checkpoint(
    driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top = crash(driver, scene, kill(1, "rename", "edited"))
    known = checkpoints(top)

    assert driver.run(top, "rollback", "--continue").code == 0

    assert checkpoints(top) == known


@pytest.mark.parametrize("way", WAYS)
def test_all_edits_after_the_crash_are_in_one_checkpoint(
    way: str, driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top = crash(driver, scene, CRASHES["amid the files"])
    known = new_checkpoints(scene, top)
    paths = ["src/edited", "src/deleted", "run", "untracked/deeper/file"]
    write_all = f"for path in {' '.join(paths)}; do echo by hand > $path; done"
    sh(f"{STAGE}; mkdir -p untracked/deeper; {write_all}", top)

    assert driver.run(top, "rollback", way).code == 0

    (saved,) = set(new_checkpoints(scene, top)) - set(known)
    assert {held(top, saved, path)[1] for path in paths} == {BY_HAND}
    assert held(top, f"{saved}^2", "index/src/same")[1] == BY_HAND
    scene.check(top, scene.after if way == "--continue" else scene.before)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("when", CRASHES)
def test_permission_bits_changed_after_the_crash_are_saved_too(
    when: str, way: str, driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top = crash(driver, scene, CRASHES[when])
    sh("chmod 0611 private", top)

    recovered = driver.run(top, "rollback", way, "--json")

    scene.check(top, scene.after if way == "--continue" else scene.before)
    assert driver.run(top, "rollback", recovered.json["safety"]["id"], "--", "private").code == 0
    assert (top / "private").stat().st_mode & 0o777 == 0o611


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("when", CRASHES)
@pytest.mark.parametrize("name", ["whole", "by path"])
def test_what_was_staged_after_the_crash_is_saved_first(
    name: str, when: str, way: str, driver: Driver, tmp_path: Path
) -> None:
    scene = SCENES[name](tmp_path / "before")
    top = crash(driver, scene, CRASHES[when])
    known = new_checkpoints(scene, top)
    sh(STAGE, top)

    recovered = driver.run(top, "rollback", way)

    assert recovered.code == 0, recovered
    (saved,) = set(new_checkpoints(scene, top)) - set(known)
    assert held(top, f"{saved}^2", "index/src/same") == ("100644", BY_HAND)
    scene.check(top, scene.after if way == "--continue" else scene.before)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("when", ["amid the files", "before the index", "before the end"])
def test_a_commit_made_after_the_crash_is_saved_first(
    when: str, way: str, driver: Driver, tmp_path: Path
) -> None:
    scene = same_branch(tmp_path / "before")
    top = crash(driver, scene, CRASHES[when])
    sh(f"git add -A; {COMMIT}", top)
    commit = git("rev-parse", "HEAD", cwd=top).strip()

    recovered = driver.run(top, "rollback", way)

    assert recovered.code == 0, recovered
    scene.check(top, scene.after if way == "--continue" else scene.before)
    git("merge-base", "--is-ancestor", commit, new_checkpoints(scene, top)[-1], cwd=top)


@pytest.mark.parametrize("way", WAYS)
def test_a_branch_moved_after_the_crash_is_saved_first(
    way: str, driver: Driver, tmp_path: Path
) -> None:
    """The rollback goes from `main` to `topic/one`: each is moved where a way out leads to it."""
    scene = other_branch(tmp_path / "before")
    top = crash(driver, scene, CRASHES["before the index"])
    branch = "topic/one" if way == "--continue" else "main"
    commit = git("commit-tree", "-p", branch, "-m", "x", "HEAD^{tree}", cwd=top).strip()
    git("update-ref", f"refs/heads/{branch}", commit, cwd=top)

    recovered = driver.run(top, "rollback", way)

    assert recovered.code == 0, recovered
    scene.check(top, scene.after if way == "--continue" else scene.before)
    git("merge-base", "--is-ancestor", commit, new_checkpoints(scene, top)[-1], cwd=top)


# -- while the rollback runs --------------------------------------------------------------

# The last moment at which a change can be seen: the new file is ready, or nothing but the
# removal is left to do. Later ones fall into the gap that no program can close.
LAST_LOOKS = {
    "src/edited": Blow(1, "chmod", begun("src/edited")),
    "src/deleted": Blow(1, "unlink", "becomes-file"),
    "becomes-link": Blow(1, "chmod", begun("becomes-link")),
    "untracked/deeper/file": Blow(1, "chmod", begun("untracked/deeper/file")),
    "untracked/link": Blow(1, "symlink", ""),
}


def edit_at(blow: Blow, command: str) -> Blow:
    return Blow(blow.nth, blow.operation, blow.path, command=("sh", "-c", command))


def put(path: str, content: str = "by hand") -> str:
    folder = str(Path(path).parent)
    return f"mkdir -p {folder}; rm -f {path}; echo {content} > {path}"


def undone_files(scene: Scene, path: str, content: bytes) -> dict[bytes, tuple[str, int, bytes]]:
    return scene.before.state.files | {path.encode(): ("file", 0o644, content)}


@pytest.mark.parametrize("path", LAST_LOOKS)
def test_a_file_edited_just_before_its_turn_is_saved_and_undo_brings_the_edit_back(
    path: str, driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top = scene.copy()

    ran = driver.run(top, *scene.words, "--json", blow=edit_at(LAST_LOOKS[path], put(path)))

    assert ran.code == 0, ran
    saved = new_checkpoints(scene, top)[-1]
    assert held(top, saved, path) == ("100644", BY_HAND)
    assert ran.json["safety"]["ref"] == saved
    scene.check(top, scene.after)
    assert driver.run(top, "undo").code == 0
    assert tree_state(top) == undone_files(scene, path, BY_HAND)
    assert look(top).state.index == scene.before.state.index


def test_a_file_edited_at_any_moment_is_saved_or_stays(
    driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    """From the first look at the worktree to the end of the rollback."""
    scene = whole(tmp_path / "before")
    operations = driver.run(scene.copy(), *scene.words).operations
    path = "src/edited"

    with Sweep(record_property) as sweep:
        for nth in sample(operations, every=14):
            with sweep.trying((nth, operations[nth - 1])):
                top = scene.copy()
                ran = driver.run(top, *scene.words, blow=edit_at(Blow(nth), put(path)))
                if sweep.is_over(ran, nth):
                    continue
                sweep.count("edits during a rollback")
                assert ran.code == 0, ran
                assert leftovers(top) == []
                assert fsck(top) == []
                assert verified(top) == []
                replaced = ("rename", str(top / path))
                if replaced in ran.operations[nth - 1 :]:
                    if ran.operations[nth - 1] != replaced:
                        assert held(top, new_checkpoints(scene, top)[-1], path)[1] == BY_HAND
                        assert driver.run(top, "undo").code == 0
                        assert tree_state(top) == undone_files(scene, path, BY_HAND)
                else:
                    assert (top / path).read_bytes() == BY_HAND
                sweep.count("edits saved or kept")


def test_a_file_that_never_stops_changing_is_left_to_its_writer(
    driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top = scene.copy()
    blows = [
        edit_at(Blow(nth, "chmod", begun("src/edited")), put("src/edited", f"edit {nth}"))
        for nth in range(1, 20)
    ]

    ran = driver.run(top, *scene.words, "--json", blow=blows)

    assert ran.code == 4
    assert ran.json["skipped"] == [{"path": "src/edited", "reason": "changing"}]
    last = (top / "src/edited").read_bytes()
    assert last.startswith(b"edit ")
    edited = scene.after.state.files | {b"src/edited": ("file", 0o644, last)}
    assert tree_state(top) == edited
    assert leftovers(top) == []


@pytest.mark.parametrize("way", WAYS)
def test_after_a_crash_abort_brings_back_the_edit_that_the_rollback_saved(
    way: str, driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    edit = edit_at(Blow(1, "chmod", begun("src/edited")), put("src/edited"))
    for last in (kill(2, "chmod", begun("src/edited")), CRASHES["before the index"]):
        top = scene.copy()
        assert driver.run(top, *scene.words, blow=[edit, last]).killed

        assert driver.run(top, "rollback", way).code == 0

        if way == "--continue":
            scene.check(top, scene.after)
            assert driver.run(top, "undo").code == 0
        assert tree_state(top) == undone_files(scene, "src/edited", BY_HAND)
        assert leftovers(top) == []


@pytest.mark.parametrize("name", ["whole", "by path"])
def test_what_is_staged_while_the_rollback_runs_is_saved_and_undo_stages_it_again(
    name: str, driver: Driver, tmp_path: Path
) -> None:
    scene = SCENES[name](tmp_path / "before")
    top = scene.copy()

    ran = driver.run(top, *scene.words, blow=edit_at(Blow(1, "rename", "edited"), STAGE))

    assert ran.code == 0, ran
    assert held(top, f"{new_checkpoints(scene, top)[-1]}^2", "index/src/same")[1] == BY_HAND
    scene.check(top, scene.after)
    assert driver.run(top, "undo").code == 0
    assert git("show", ":src/same", cwd=top).encode() == BY_HAND
    assert tree_state(top) == scene.before.state.files


@pytest.mark.parametrize("name", ["whole", "by path"])
@pytest.mark.parametrize("way", ["", *WAYS])
def test_what_is_staged_when_the_index_is_about_to_be_written_is_saved_too(
    way: str, name: str, driver: Driver, tmp_path: Path
) -> None:
    scene = SCENES[name](tmp_path / "before")
    top = crash(driver, scene, CRASHES["before the index"]) if way else scene.copy()
    words = ("rollback", way) if way else scene.words
    at = Blow(1, "link", "/index.lock")
    if way == "--abort":  # which has an index to write if there is another one
        sh(STAGE.replace("by hand", "at first"), top)

    ran = driver.run(top, *words, blow=edit_at(at, STAGE))

    assert ran.code == 0, ran
    assert held(top, f"{new_checkpoints(scene, top)[-1]}^2", "index/src/same")[1] == BY_HAND
    scene.check(top, scene.before if way == "--abort" else scene.after)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("when", CRASHES)
def test_what_was_staged_after_the_crash_outside_the_given_paths_stays_staged(
    when: str, way: str, driver: Driver, tmp_path: Path
) -> None:
    scene = SCENES["by path"](tmp_path / "before")
    top = crash(driver, scene, CRASHES[when])
    sh(STAGE.replace("src/same", "run"), top)

    recovered = driver.run(top, "rollback", way)

    assert recovered.code == 0, recovered
    assert git("show", ":run", cwd=top).encode() == BY_HAND
    expected = scene.after if way == "--continue" else scene.before
    assert len(set(look(top).state.index) ^ set(expected.state.index)) == 2
    assert tree_state(top) == expected.state.files


def test_a_commit_made_while_head_is_moved_back_is_not_overwritten(
    driver: Driver, tmp_path: Path
) -> None:
    scene = same_branch(tmp_path / "before")
    top = scene.copy()
    command = "git commit -q --allow-empty -m 'by hand'"

    ran = driver.run(top, *scene.words, blow=edit_at(Blow(1, "link", "/main.lock"), command))

    assert ran.code == 4, ran
    commit = git("rev-parse", "main", cwd=top).strip()
    assert git("log", "-1", "--format=%s", "main", cwd=top) == "by hand\n"
    assert driver.run(top, "rollback", "--abort").code == 0
    scene.check(top, scene.before)
    git("merge-base", "--is-ancestor", commit, new_checkpoints(scene, top)[-1], cwd=top)


# -- while the recovery runs --------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_file_edited_during_the_recovery_is_saved_first(
    way: str, driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    at = CRASHES["amid the files" if way == "--continue" else "before the end"]
    top = crash(driver, scene, at)
    known = new_checkpoints(scene, top)
    edits = [edit_at(Blow(1, "chmod", begun("src/edited")), put("src/edited"))]
    # Someone had worked on it before the recovery, too.
    sh(put("src/edited", "early"), top)

    assert driver.run(top, "rollback", way, blow=edits).code == 0

    early, late = sorted(set(new_checkpoints(scene, top)) - set(known))
    assert held(top, early, "src/edited")[1] == b"early\n"
    assert held(top, late, "src/edited")[1] == BY_HAND
    scene.check(top, scene.after if way == "--continue" else scene.before)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_staged_during_the_recovery_is_saved_first(
    way: str, driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    at = CRASHES["amid the files" if way == "--continue" else "before the end"]
    top = crash(driver, scene, at)

    ran = driver.run(top, "rollback", way, blow=edit_at(Blow(1, "fsync", "src/edited"), STAGE))

    assert ran.code == 0, ran
    assert held(top, f"{new_checkpoints(scene, top)[-1]}^2", "index/src/same")[1] == BY_HAND
    scene.check(top, scene.after if way == "--continue" else scene.before)


def test_a_commit_made_during_the_recovery_is_saved_first(driver: Driver, tmp_path: Path) -> None:
    scene = same_branch(tmp_path / "before")
    top = crash(driver, scene, CRASHES["amid the files"])
    command = "git commit -q --allow-empty -m 'by hand'"

    ran = driver.run(
        top, "rollback", "--continue", blow=edit_at(Blow(1, "fsync", "src/edited"), command)
    )

    assert ran.code == 4, ran
    commit = git("rev-parse", "main", cwd=top).strip()
    assert driver.run(top, "rollback", "--continue").code == 0
    scene.check(top, scene.after)
    git("merge-base", "--is-ancestor", commit, new_checkpoints(scene, top)[-1], cwd=top)
