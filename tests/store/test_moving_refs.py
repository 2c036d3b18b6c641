# SPDX-License-Identifier: MIT
"""Many refs to other names at once: all that are still the same, each held at every moment."""

from __future__ import annotations

from pathlib import Path

import pytest
from byhand import files_below
from seam import failing, observed

from ckpt.errors import Busy, CkptError
from ckpt.git.formats import ObjectID
from ckpt.git.refs import Refs

A, B, C = (ObjectID(digit * 40) for digit in (b"a", b"b", b"c"))
HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
BRANCH = b"%s refs/heads/main\n" % A
TAG = b"%s refs/tags/v1\n^%s\n" % (B, C)
ONE, TWO = b"refs/checkpoints/one", b"refs/checkpoints/two"
ASIDE = b"refs/checkpoints-trash/20261116/"


@pytest.fixture
def git_dir(tmp_path: Path) -> Path:
    (tmp_path / "refs/checkpoints").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def refs(git_dir: Path) -> Refs:
    return Refs(str(git_dir), str(git_dir), 40)


def write(git_dir: Path, name: bytes, value: bytes) -> None:
    path = git_dir / name.decode()
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(value + b"\n")


def aside(ref: bytes) -> bytes:
    return ASIDE + ref.rsplit(b"/", 1)[1]


def test_loose_and_packed_ones_go_in_one_step_and_other_lines_stay(
    git_dir: Path, refs: Refs
) -> None:
    (git_dir / "packed-refs").write_bytes(HEADER + b"%s %s\n" % (B, TWO) + BRANCH + TAG)
    write(git_dir, ONE, A)
    with observed() as seen:
        assert refs.move_all({ONE: (A, aside(ONE)), TWO: (B, aside(TWO))}) == {ONE, TWO}

    new = b"%s %s\n%s %s\n" % (A, aside(ONE), B, aside(TWO))
    assert (git_dir / "packed-refs").read_bytes() == HEADER + new + BRANCH + TAG
    assert refs.checkpoints() == {} and len(refs.trash()) == 2
    assert files_below(git_dir / "refs") == []
    names = [f"{operation} {Path(path).name}" for operation, path in seen]
    assert names.index("rename packed-refs") < names.index("unlink one")
    assert f"fsync-dir {git_dir.name}" in names[: names.index("unlink one")]


def test_what_has_changed_or_is_locked_or_gone_stays(git_dir: Path, refs: Refs) -> None:
    locked, gone = b"refs/checkpoints/locked", b"refs/checkpoints/gone"
    for ref in (ONE, TWO, locked):
        write(git_dir, ref, A)
    write(git_dir, locked + b".lock", b"")
    moved = {ref: (A, aside(ref)) for ref in (ONE, locked, gone)} | {TWO: (B, aside(TWO))}

    assert refs.move_all(moved) == {ONE}
    assert refs.checkpoints() == {"two": A, "locked": A}
    assert refs.trash() == {"20261116/one": A}
    assert (git_dir / (locked + b".lock").decode()).exists()


def test_a_new_name_that_is_there_already_must_hold_the_same(git_dir: Path, refs: Refs) -> None:
    """As after a drop that was interrupted."""
    for ref, held in ((ONE, A), (TWO, B)):
        write(git_dir, ref, A)
        write(git_dir, aside(ref), held)

    assert refs.move_all({ref: (A, aside(ref)) for ref in (ONE, TWO)}) == {ONE}
    assert refs.checkpoints() == {"two": A}
    assert refs.trash() == {"20261116/one": A, "20261116/two": B}


def test_refs_can_be_taken_away_likewise(git_dir: Path, refs: Refs) -> None:
    (git_dir / "packed-refs").write_bytes(HEADER + b"%s %s\n" % (B, TWO) + BRANCH)
    write(git_dir, ONE, A)

    assert refs.move_all({ONE: (A, None), TWO: (A, None)}) == {ONE}
    assert refs.move_all({TWO: (B, None)}) == {TWO}
    assert (git_dir / "packed-refs").read_bytes() == HEADER + BRANCH
    assert refs.checkpoints() == {}


def test_a_file_that_says_nothing_does_not_hide_what_was_moved(git_dir: Path, refs: Refs) -> None:
    write(git_dir, ONE, A)
    write(git_dir, aside(ONE), b"garbage")
    write(git_dir, TWO, A)
    (git_dir / aside(TWO).decode()).mkdir()

    assert refs.move_all({ref: (A, aside(ref)) for ref in (ONE, TWO)}) == {TWO}
    assert (refs.checkpoints(), refs.trash()) == ({"one": A}, {"20261116/two": A})


def test_a_packed_ref_in_the_way_leaves_all_as_it_was(git_dir: Path, refs: Refs) -> None:
    write(git_dir, ONE, A)
    for name in (ASIDE[:-1], aside(ONE) + b"/below"):
        (git_dir / "packed-refs").write_bytes(HEADER + b"%s %s\n" % (B, name))
        with pytest.raises(Busy, match=f"'{name.decode()}' exists"):
            refs.move_all({ONE: (A, aside(ONE))})

    assert refs.checkpoints() == {"one": A}


@pytest.mark.parametrize("obstacle", ["refs/checkpoints-trash", "refs/checkpoints-trash/20261116"])
def test_a_name_that_cannot_be_leaves_all_as_it_was(
    obstacle: str, git_dir: Path, refs: Refs
) -> None:
    write(git_dir, ONE, A)
    write(git_dir, obstacle.encode(), B)
    before = files_below(git_dir)

    with pytest.raises(Busy, match=f"'{obstacle}' exists"):
        refs.move_all({ONE: (A, aside(ONE))})
    assert [name for name in files_below(git_dir) if "ckpt" not in name] == before


def test_with_packed_refs_locked_or_in_disorder_nothing_is_done(git_dir: Path, refs: Refs) -> None:
    write(git_dir, ONE, A)
    (git_dir / "packed-refs").write_bytes(HEADER + TAG + BRANCH)
    with pytest.raises(CkptError, match="not sorted"):
        refs.move_all({ONE: (A, aside(ONE))})
    (git_dir / "packed-refs.lock").touch()
    with pytest.raises(Busy, match=r"packed-refs\.lock' exists"):
        refs.move_all({ONE: (A, aside(ONE))})

    assert refs.checkpoints() == {"one": A} and refs.trash() == {}


@pytest.mark.parametrize("operation", ["create", "link", "write", "fsync", "rename"])
def test_a_full_disk_leaves_all_as_it_was(operation: str, git_dir: Path, refs: Refs) -> None:
    write(git_dir, ONE, A)
    with failing(operation), pytest.raises(OSError, match="No space"):
        refs.move_all({ONE: (A, aside(ONE))})

    assert refs.checkpoints() == {"one": A} and refs.trash() == {}
    assert not [name for name in files_below(git_dir) if "lock" in name]
