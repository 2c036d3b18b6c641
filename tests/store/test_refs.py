# SPDX-License-Identifier: MIT
"""Refs: found wherever git keeps them, made only if new, moved only from where they were."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from byhand import files_below, git_dir
from seam import SETUP, observed

from ckpt.errors import Busy, CkptError, Refused
from ckpt.git.formats import ObjectID
from ckpt.git.refs import Head, Refs
from ckpt.locks import Sharing

ONE, TWO, THREE = (ObjectID(digit * 40) for digit in (b"1", b"2", b"3"))
FIRST = "20261115-233412-123-k7pq"
SECOND = "20261115-233412-124-k7pq"
REF = f"refs/checkpoints/{FIRST}".encode()
MAIN = b"refs/heads/main"
UNBORN = Head(MAIN, None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return git_dir(tmp_path / "git")


@pytest.fixture
def refs(folder: Path) -> Refs:
    return Refs(str(folder), str(folder), 40)


@pytest.fixture
def linked(folder: Path) -> Refs:
    """The refs of a second worktree."""
    own = folder / "worktrees/other"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (own / "HEAD").write_text("ref: refs/heads/topic\n")
    return Refs(str(own), str(folder), 40)


def put(folder: Path, ref: bytes | str, contents: bytes) -> None:
    path = folder / os.fsdecode(ref)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents)


def pack_refs(folder: Path, **refs: bytes) -> None:
    lines = [b"# pack-refs with: peeled fully-peeled sorted \n"]
    lines += [b"%s %s\n" % (value, name.encode()) for name, value in sorted(refs.items())]
    (folder / "packed-refs").write_bytes(b"".join(lines))


# Checkpoints


def test_without_refs_there_are_no_checkpoints(refs: Refs) -> None:
    assert refs.checkpoints() == {}
    assert refs.trash() == {}


def test_loose_and_packed_checkpoints_are_found(folder: Path, refs: Refs) -> None:
    put(folder, REF, ONE + b"\n")
    pack_refs(folder, **{f"refs/checkpoints/{SECOND}": TWO, "refs/heads/main": THREE})

    assert refs.checkpoints() == {FIRST: ONE, SECOND: TWO}


def test_a_loose_ref_hides_a_packed_one(folder: Path, refs: Refs) -> None:
    put(folder, REF, ONE + b"\n")
    pack_refs(folder, **{REF.decode(): TWO})

    assert refs.checkpoints() == {FIRST: ONE}
    assert refs.read(REF) == ONE


def test_the_peeled_value_of_a_packed_tag_is_no_ref(folder: Path, refs: Refs) -> None:
    pack_refs(folder, **{"refs/checkpoints/x": ONE})
    with open(folder / "packed-refs", "ab") as file:
        file.write(b"^" + TWO + b"\n")

    assert refs.checkpoints() == {"x": ONE}


def test_the_trash_is_listed_by_day(folder: Path, refs: Refs) -> None:
    put(folder, f"refs/checkpoints-trash/20261116/{FIRST}", ONE + b"\n")
    pack_refs(folder, **{f"refs/checkpoints-trash/20261117/{SECOND}": TWO})

    assert refs.trash() == {f"20261116/{FIRST}": ONE, f"20261117/{SECOND}": TWO}
    assert refs.checkpoints() == {}


@pytest.mark.parametrize(
    "contents",
    [
        b"ref: refs/heads/main\n",
        b"",
        b"1" * 39,
        b"1" * 41,
        b"g" * 40,
        b"G" * 40,
        b"\xff\0garbage",
    ],
)
def test_what_names_no_object_is_passed_over(contents: bytes, folder: Path, refs: Refs) -> None:
    put(folder, MAIN, ONE + b"\n")
    put(folder, REF, contents)
    put(folder, f"refs/checkpoints/{SECOND}", TWO + b"\n")

    assert refs.checkpoints() == {SECOND: TWO}


def test_an_id_in_capitals_is_read_as_git_does(folder: Path, refs: Refs) -> None:
    put(folder, REF, b"A" * 40 + b"\n")
    (folder / "packed-refs").write_bytes(b"%s refs/checkpoints/%s\n" % (b"B" * 40, SECOND.encode()))

    assert set(refs.checkpoints().values()) == {b"a" * 40, b"b" * 40}
    assert refs.checkpoint(SECOND) == b"b" * 40


def test_a_lock_is_no_ref(folder: Path, refs: Refs) -> None:
    put(folder, REF + b".lock", ONE + b"\n")

    assert refs.checkpoints() == {}


def test_a_damaged_line_of_packed_refs_hides_no_other(folder: Path, refs: Refs) -> None:
    pack_refs(folder, **{REF.decode(): ONE})
    with open(folder / "packed-refs", "ab") as file:
        file.write(b"what is this\n\n" + TWO + b"\n" + TWO + b" refs/checkpoints/caf\xe9\n")

    assert refs.checkpoints() == {FIRST: ONE, "caf\udce9": TWO}


def test_a_sha256_ref_is_told_by_its_length(folder: Path) -> None:
    refs = Refs(str(folder), str(folder), 64)
    put(folder, REF, b"a" * 64 + b"\n")
    put(folder, f"refs/checkpoints/{SECOND}", ONE + b"\n")

    assert refs.checkpoints() == {FIRST: b"a" * 64}


def test_linked_worktrees_share_the_checkpoints(refs: Refs, linked: Refs) -> None:
    assert linked.create(REF, ONE)

    assert refs.checkpoints() == linked.checkpoints() == {FIRST: ONE}


# Changing them


def test_a_ref_is_created_only_if_it_is_new(folder: Path, refs: Refs) -> None:
    assert refs.create(REF, ONE)
    assert (folder / os.fsdecode(REF)).read_bytes() == ONE + b"\n"

    assert not refs.create(REF, TWO)
    assert refs.read(REF) == ONE


def test_a_packed_ref_is_not_new(folder: Path, refs: Refs) -> None:
    pack_refs(folder, **{REF.decode(): ONE})

    assert not refs.create(REF, TWO)
    assert refs.checkpoints() == {FIRST: ONE}


def test_the_folders_of_a_new_ref_are_durable(folder: Path, refs: Refs) -> None:
    with observed() as seen:
        refs.create(REF, ONE)
        refs.create(f"refs/checkpoints/{SECOND}".encode(), ONE)

    synced = [path for operation, path in seen if operation == "fsync-dir"]
    assert synced == [
        str(folder / "refs/checkpoints"),
        str(folder / "refs"),
        str(folder / "refs/checkpoints"),
    ]


def test_a_ref_moves_only_from_where_it_was_read(refs: Refs) -> None:
    refs.create(REF, ONE)

    assert not refs.replace(REF, TWO, THREE)
    assert refs.read(REF) == ONE
    assert refs.replace(REF, ONE, TWO)
    assert refs.read(REF) == TWO


def test_a_packed_ref_moves_to_a_loose_one(folder: Path, refs: Refs) -> None:
    pack_refs(folder, **{REF.decode(): ONE})

    assert refs.replace(REF, ONE, TWO)
    assert refs.checkpoints() == {FIRST: TWO}


def test_a_ref_is_removed_only_if_it_is_where_it_was_read(folder: Path, refs: Refs) -> None:
    refs.create(REF, ONE)

    assert not refs.remove(REF, TWO)
    assert refs.read(REF) == ONE
    assert refs.remove(REF, ONE)
    assert refs.read(REF) is None
    assert files_below(folder / "refs") == []


def test_removing_takes_the_packed_ref_too_and_no_other(folder: Path, refs: Refs) -> None:
    pack_refs(folder, **{REF.decode(): ONE, "refs/heads/main": TWO})
    put(folder, REF, ONE + b"\n")

    assert refs.remove(REF, ONE)
    assert refs.checkpoints() == {}
    assert refs.read(MAIN) == TWO


def test_a_ref_that_is_not_there_is_neither_moved_nor_removed(refs: Refs) -> None:
    assert not refs.replace(REF, ONE, TWO)
    assert not refs.remove(REF, ONE)
    assert refs.checkpoints() == {}


def test_refs_that_another_process_packed_are_seen(folder: Path, refs: Refs) -> None:
    pack_refs(folder, **{"refs/heads/main": ONE})
    assert refs.read(MAIN) == ONE
    pack_refs(folder, **{"refs/heads/main": TWO, REF.decode(): THREE})

    assert refs.read(MAIN) == TWO
    assert not refs.create(REF, ONE)


@pytest.mark.parametrize("change", ["create", "replace", "remove"])
def test_a_lock_of_another_process_is_told_as_busy(change: str, folder: Path, refs: Refs) -> None:
    if change != "create":
        put(folder, REF, ONE + b"\n")
    put(folder, REF + b".lock", b"")
    calls = {
        "create": lambda: refs.create(REF, ONE),
        "replace": lambda: refs.replace(REF, ONE, TWO),
        "remove": lambda: refs.remove(REF, ONE),
    }

    with pytest.raises(Busy, match=f"unable to lock '.*{REF.decode()}'") as caught:
        calls[change]()
    assert caught.value.hint
    assert (folder / os.fsdecode(REF + b".lock")).exists()


def test_what_a_killed_save_left_is_cleared_by_the_next(folder: Path, refs: Refs) -> None:
    script = (
        f"{SETUP}import os; from ckpt.git.refs import Refs\n"
        "seam.observe(lambda operation, path: operation == 'rename' and os._exit(9))\n"
        "Refs(sys.argv[1], sys.argv[1], 40).create(os.fsencode(sys.argv[2]), b'1' * 40)"
    )
    ran = subprocess.run([sys.executable, "-c", script, str(folder), os.fsdecode(REF)])
    assert ran.returncode == 9
    assert (folder / os.fsdecode(REF + b".lock")).exists()
    git_lock = f"refs/checkpoints/{SECOND}.lock"
    put(folder, git_lock, b"")

    assert refs.create(b"refs/checkpoints/next", ONE)
    assert files_below(folder / "ckpt") == []
    assert files_below(folder / "refs") == [f"checkpoints/{SECOND}.lock", "checkpoints/next"]


@pytest.mark.parametrize("name", [b"config", b"refs/checkpoints/../../config", b"refs/x.lock/y"])
def test_a_ref_with_a_hostile_name_is_neither_read_nor_written(
    name: bytes, folder: Path, refs: Refs
) -> None:
    before = {path: (folder / path).read_bytes() for path in files_below(folder)}

    assert refs.read(name) is None
    for change in (
        lambda: refs.create(name, ONE),
        lambda: refs.replace(name, ONE, TWO),
        lambda: refs.remove(name, ONE),
    ):
        with pytest.raises(Refused, match="is not a valid ref name"):
            change()
    assert {path: (folder / path).read_bytes() for path in files_below(folder)} == before
    assert refs.checkpoint("../../config") is None


def test_checkpoints_are_listed_without_being_read(folder: Path, refs: Refs) -> None:
    put(folder, REF, ONE + b"\n")
    put(folder, "refs/checkpoints/broken", b"")
    put(folder, "refs/checkpoints/x.lock", b"")
    pack_refs(folder, **{f"refs/checkpoints/{SECOND}": TWO, REF.decode(): THREE})
    listed = refs.listed_checkpoints()

    assert set(listed.names) == {FIRST, SECOND, "broken"}
    found = {name: listed.commit_of(name) for name in (FIRST, SECOND, "broken", "absent")}
    assert found == {FIRST: ONE, SECOND: TWO, "broken": None, "absent": None}
    assert (refs.checkpoint(FIRST), refs.checkpoint(SECOND)) == (ONE, TWO)
    assert refs.checkpoint("absent") is None


# HEAD


@pytest.mark.parametrize("contents", [b"ref: refs/heads/main\n", b"ref: refs/heads/main"])
def test_head_on_a_branch(contents: bytes, folder: Path, refs: Refs) -> None:
    put(folder, "HEAD", contents)
    assert refs.head() == Head(MAIN, None)

    put(folder, MAIN, ONE + b"\n")
    assert refs.head() == Head(MAIN, ONE)


def test_head_on_a_packed_branch(folder: Path, refs: Refs) -> None:
    pack_refs(folder, **{"refs/heads/main": ONE})

    assert refs.head() == Head(MAIN, ONE)


def test_head_on_a_branch_that_is_a_link_to_another(folder: Path, refs: Refs) -> None:
    put(folder, "HEAD", b"ref: refs/heads/alias\n")
    put(folder, "refs/heads/alias", b"ref: refs/heads/main\n")
    put(folder, MAIN, ONE + b"\n")

    assert refs.head() == Head(b"refs/heads/alias", ONE)


def test_a_detached_head(folder: Path, refs: Refs) -> None:
    put(folder, "HEAD", ONE + b"\n")

    assert refs.head() == Head(None, ONE)


@pytest.mark.parametrize("contents", [b"", b"garbage\n", b"1" * 39, b"refs/heads/main\n"])
def test_a_broken_head_is_an_error(contents: bytes, folder: Path, refs: Refs) -> None:
    put(folder, "HEAD", contents)

    with pytest.raises(CkptError, match="neither a branch nor a commit") as caught:
        refs.head()
    command = (caught.value.hint or "").partition(": ")[2].replace("BRANCH", "main")
    subprocess.run(command, shell=True, check=True)
    assert refs.head().branch == b"refs/heads/main"


def test_each_worktree_has_its_own_head(folder: Path, refs: Refs, linked: Refs) -> None:
    put(folder, MAIN, ONE + b"\n")
    put(folder, "refs/heads/topic", TWO + b"\n")

    assert refs.head() == Head(MAIN, ONE)
    assert linked.head() == Head(b"refs/heads/topic", TWO)


def test_a_branch_checked_out_elsewhere_is_known(folder: Path, refs: Refs, linked: Refs) -> None:
    assert refs.other_worktree_with(b"refs/heads/topic") == str(folder / "worktrees/other")
    assert linked.other_worktree_with(MAIN) == str(folder)
    assert refs.other_worktree_with(MAIN) is None
    assert linked.other_worktree_with(b"refs/heads/topic") is None


@pytest.mark.parametrize(
    ("path", "contents"),
    [
        ("rebase-merge/head-name", b"refs/heads/busy\n"),
        ("rebase-apply/head-name", b"refs/heads/busy\n"),
        ("rebase-merge/update-refs", b"refs/heads/a\n1\n2\nrefs/heads/busy\n3\n4\n"),
        ("BISECT_START", b"busy\n"),
    ],
)
def test_a_branch_that_an_operation_elsewhere_returns_to_is_in_use(
    path: str, contents: bytes, folder: Path, refs: Refs, linked: Refs
) -> None:
    put(folder / "worktrees/other", path, contents)

    assert refs.other_worktree_with(b"refs/heads/busy") == str(folder / "worktrees/other")
    assert linked.other_worktree_with(b"refs/heads/busy") is None


def test_refs_that_lead_in_a_circle_are_an_error_and_no_crash(folder: Path, refs: Refs) -> None:
    put(folder, MAIN, b"ref: refs/heads/main\n")

    with pytest.raises(CkptError, match="refs/heads/main"):
        refs.head()


@pytest.mark.parametrize(
    "contents",
    [
        b"# pack-refs with: peeled \ngarbage\n",
        b"^" + ONE,
        b"^" + ONE + b"\n",
        ONE + b" refs/heads/other",
        ONE + b" refs/heads/other\n" + TWO + b"\n",
        ONE + b" refs/heads/other\n" + b"\0" * 50 + b"\n",
    ],
)
def test_damaged_packed_refs_are_an_error_and_no_crash(
    contents: bytes, folder: Path, refs: Refs
) -> None:
    (folder / "packed-refs").write_bytes(contents)

    with pytest.raises(CkptError):
        refs.read(MAIN)
    with pytest.raises(CkptError):
        refs.create(REF, ONE)


# Moving HEAD and branches


def reflog(folder: Path, ref: str) -> list[bytes]:
    lines = (folder / "logs" / ref).read_bytes().splitlines()
    return [b"%s %s %s" % (*line.split(b" ")[:2], line.partition(b"\t")[2]) for line in lines]


def test_a_branch_moves_from_the_value_that_was_read(folder: Path, refs: Refs) -> None:
    put(folder, MAIN, ONE + b"\n")
    refs.move_branch(MAIN, ONE, TWO, b"why")

    assert refs.read(MAIN) == TWO
    assert reflog(folder, "refs/heads/main") == [ONE + b" " + TWO + b" why"]
    assert not (folder / "refs/heads/main.lock").exists()


def test_a_branch_that_moved_meanwhile_is_left(folder: Path, refs: Refs) -> None:
    put(folder, MAIN, THREE + b"\n")

    with pytest.raises(Busy, match="'refs/heads/main' moved while the rollback ran"):
        refs.move_branch(MAIN, ONE, TWO, b"why")
    assert refs.read(MAIN) == THREE
    assert files_below(folder / "refs") == ["heads/main"]
    assert not (folder / "logs").exists()


def test_a_branch_that_another_process_has_locked_is_left(folder: Path, refs: Refs) -> None:
    put(folder, MAIN, ONE + b"\n")
    put(folder, MAIN + b".lock", b"")

    with pytest.raises(Busy, match="unable to lock"):
        refs.move_branch(MAIN, ONE, TWO, b"why")
    assert refs.read(MAIN) == ONE


def test_a_packed_branch_moves(folder: Path, refs: Refs) -> None:
    pack_refs(folder, **{"refs/heads/a/b": ONE})
    refs.move_branch(b"refs/heads/a/b", ONE, TWO, b"why")

    assert refs.read(b"refs/heads/a/b") == TWO


def test_a_branch_that_was_absent_is_made_and_taken_away_again(folder: Path, refs: Refs) -> None:
    refs.move_branch(b"refs/heads/a/b", None, ONE, b"why")
    assert refs.read(b"refs/heads/a/b") == ONE
    assert reflog(folder, "refs/heads/a/b") == [b"0" * 40 + b" " + ONE + b" why"]

    refs.move_branch(b"refs/heads/a/b", ONE, None, b"why")
    assert refs.read(b"refs/heads/a/b") is None


def test_a_branch_that_appeared_meanwhile_is_left(folder: Path, refs: Refs) -> None:
    put(folder, MAIN, THREE + b"\n")

    with pytest.raises(Busy):
        refs.move_branch(MAIN, None, ONE, b"why")
    with pytest.raises(Busy):
        refs.move_branch(MAIN, ONE, None, b"why")
    assert refs.read(MAIN) == THREE


def test_a_branch_that_need_not_move_is_not_touched(folder: Path, refs: Refs) -> None:
    put(folder, MAIN, ONE + b"\n")
    with observed() as seen:
        refs.move_branch(MAIN, ONE, ONE, b"why")

    assert seen == []


@pytest.mark.parametrize(
    "branch",
    [
        b"refs/heads/../../outside",
        b"refs/../HEAD",
        b"../outside",
        b"/outside",
        b"refs/heads/x.lock",
        b"refs/heads/.x",
        b"refs/heads/a\nb",
        b"refs/heads/a//b",
        b"refs/heads/",
        b"HEAD",
        b"config",
        b"",
    ],
)
def test_a_branch_with_a_hostile_name_is_never_written(
    branch: bytes, tmp_path: Path, folder: Path, refs: Refs
) -> None:
    """The name comes from a checkpoint, and that may have come from anywhere."""
    before = {path: (tmp_path / path).read_bytes() for path in files_below(tmp_path)}

    for act in (
        lambda: refs.move_branch(branch, None, ONE, b"why"),
        lambda: refs.set_head(Head(branch, ONE), UNBORN, b"why"),
        lambda: refs.check_branch(branch),
    ):
        with pytest.raises(Refused, match="is not a valid branch"):
            act()
    assert {path: (tmp_path / path).read_bytes() for path in files_below(tmp_path)} == before


@pytest.mark.parametrize("packed", [True, False])
def test_a_branch_above_or_below_stands_in_the_way(packed: bool, folder: Path, refs: Refs) -> None:
    if packed:
        pack_refs(folder, **{"refs/heads/a/b": ONE})
    else:
        put(folder, "refs/heads/a/b", ONE + b"\n")

    assert refs.obstacle_to(b"refs/heads/a") == "'refs/heads/a/b' exists"
    assert refs.obstacle_to(b"refs/heads/a/b/c") == "'refs/heads/a/b' exists"
    for free in (b"refs/heads/a/b", b"refs/heads/a/c", b"refs/heads/a/bc", b"refs/heads/x"):
        assert refs.obstacle_to(free) is None


def test_a_branch_that_is_a_link_is_not_written_through(folder: Path, refs: Refs) -> None:
    put(folder, MAIN, b"ref: refs/heads/other\n")

    assert refs.obstacle_to(MAIN) == "it is a symbolic ref"


def test_a_branch_that_goes_takes_its_reflog_along(folder: Path, refs: Refs) -> None:
    refs.move_branch(b"refs/heads/a", None, ONE, b"why")
    refs.move_branch(b"refs/heads/a", ONE, None, b"why")

    assert files_below(folder / "logs") == []


def test_without_reflogs_only_those_that_are_there_go_on(folder: Path, refs: Refs) -> None:
    refs.logs_updates = False
    put(folder, "logs/HEAD", b"")
    refs.move_branch(MAIN, None, ONE, b"why")
    refs.set_head(Head(None, ONE), Head(MAIN, ONE), b"why")

    assert files_below(folder / "logs") == ["HEAD"]
    assert len(reflog(folder, "HEAD")) == 1


def test_head_is_pointed_at_a_branch_with_a_reflog_entry(folder: Path, refs: Refs) -> None:
    put(folder, MAIN, ONE + b"\n")
    put(folder, "refs/heads/topic", TWO + b"\n")
    refs.set_head(Head(b"refs/heads/topic", TWO), Head(MAIN, ONE), b"why")

    assert (folder / "HEAD").read_bytes() == b"ref: refs/heads/topic\n"
    assert reflog(folder, "HEAD") == [ONE + b" " + TWO + b" why"]


def test_head_is_detached(folder: Path, refs: Refs) -> None:
    refs.set_head(Head(None, TWO), UNBORN, b"why")

    assert (folder / "HEAD").read_bytes() == TWO + b"\n"
    assert reflog(folder, "HEAD") == [b"0" * 40 + b" " + TWO + b" why"]


def test_the_head_of_a_linked_worktree_is_its_own(folder: Path, refs: Refs, linked: Refs) -> None:
    linked.set_head(Head(None, TWO), linked.head(), b"why")

    assert (folder / "HEAD").read_bytes() == b"ref: refs/heads/main\n"
    assert linked.head() == Head(None, TWO)
    assert reflog(folder / "worktrees/other", "HEAD") == [b"0" * 40 + b" " + TWO + b" why"]


def test_a_locked_head_is_left(folder: Path, refs: Refs) -> None:
    put(folder, "HEAD.lock", b"")

    with pytest.raises(Busy, match="unable to lock"):
        refs.set_head(Head(None, TWO), UNBORN, b"why")
    assert (folder / "HEAD").read_bytes() == b"ref: refs/heads/main\n"


@pytest.mark.parametrize("instead", [Head(None, THREE), Head(b"refs/heads/other", None)])
def test_a_head_that_moved_meanwhile_is_left(instead: Head, folder: Path, refs: Refs) -> None:
    put(folder, "HEAD", instead.contents)

    with pytest.raises(Busy, match="HEAD moved while the rollback ran"):
        refs.set_head(Head(None, TWO), UNBORN, b"why")
    assert refs.head() == instead
    assert not (folder / "HEAD.lock").exists()
    assert not (folder / "logs").exists()


@pytest.mark.parametrize("name", ["index", "HEAD", "packed-refs", "refs/heads/topic"])
def test_a_second_name_of_a_file_of_gits_that_a_dead_process_left_goes(
    name: str, folder: Path, refs: Refs
) -> None:
    """It is left where the disk did not let it go when the file had its new contents."""
    put(folder, name, b"new\n")
    (folder / "ckpt").mkdir()
    os.link(folder / name, folder / "ckpt/lock-0123456789abcdef")

    refs.clear_dead_locks()

    assert os.listdir(folder / "ckpt") == []
    assert (folder / name).read_bytes() == b"new\n"


def test_the_files_that_a_move_locks_are_those_it_writes(folder: Path, linked: Refs) -> None:
    assert linked.lock_candidates(MAIN, None) == [
        str(folder / "worktrees/other/HEAD"),
        str(folder / "packed-refs"),
        str(folder / "refs/heads/main"),
    ]


def test_in_a_shared_repository_new_branches_and_their_logs_are_shared(
    folder: Path, refs: Refs
) -> None:
    os.umask(0o077)
    refs.sharing = Sharing(0o660)
    refs.move_branch(b"refs/heads/a/new", None, ONE, b"why")

    paths = ("refs/heads/a", "refs/heads/a/new", "logs/refs/heads/a", "logs/refs/heads/a/new")
    bits = [stat.S_IMODE(os.stat(folder / path).st_mode) for path in paths]
    assert bits == [0o2770, 0o660, 0o2770, 0o660]
