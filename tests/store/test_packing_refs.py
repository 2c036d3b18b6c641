# SPDX-License-Identifier: MIT
"""Refs into `packed-refs`: every other line stays to the byte, and nothing is lost on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from seam import observe

from ckpt.errors import Busy, CkptError
from ckpt.git.formats import ObjectID
from ckpt.git.refs import PackedRefs, Refs

A, B, C = (ObjectID(digit * 40) for digit in (b"a", b"b", b"c"))
OURS = ("refs/checkpoints/", "refs/checkpoints-trash/")
HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
TAG = b"%s refs/tags/v1\n^%s\n" % (B, C)
BRANCH = b"%s refs/heads/main\n" % A


@pytest.fixture
def git_dir(tmp_path: Path) -> Path:
    for name in OURS:
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


@pytest.fixture
def refs(git_dir: Path) -> Refs:
    return Refs(str(git_dir), str(git_dir), 40)


def write(git_dir: Path, name: str, value: bytes) -> None:
    (git_dir / name).parent.mkdir(exist_ok=True, parents=True)
    (git_dir / name).write_bytes(value + b"\n")


def pack(refs: Refs) -> int:
    return refs.pack(OURS, lambda value: True)


def test_refs_are_merged_in_order_and_all_other_lines_stay_to_the_byte(
    git_dir: Path, refs: Refs
) -> None:
    stale = b"%s refs/checkpoints/b\n" % C
    (git_dir / "packed-refs").write_bytes(HEADER + stale + BRANCH + TAG)
    write(git_dir, "refs/checkpoints/b", A)
    write(git_dir, "refs/checkpoints-trash/20261116/a", B)
    write(git_dir, "refs/heads/topic", C)

    assert pack(refs) == 2
    assert (git_dir / "packed-refs").read_bytes() == (
        HEADER
        + b"%s refs/checkpoints-trash/20261116/a\n" % B
        + b"%s refs/checkpoints/b\n" % A
        + BRANCH
        + TAG
    )
    assert refs.checkpoints() == {"b": A}
    assert refs.trash() == {"20261116/a": B}
    assert not (git_dir / "refs/checkpoints/b").exists()
    assert not (git_dir / "refs/checkpoints-trash/20261116").exists()
    assert (git_dir / "refs/heads/topic").exists()
    assert pack(refs) == 0


def test_the_first_refs_that_are_packed_get_a_header_as_git_writes_it(
    git_dir: Path, refs: Refs
) -> None:
    write(git_dir, "refs/checkpoints/a", A)

    assert pack(refs) == 1
    assert (git_dir / "packed-refs").read_bytes() == HEADER + b"%s refs/checkpoints/a\n" % A


@pytest.mark.parametrize("header", [b"# pack-refs with: peeled \n", b""])
def test_a_file_that_does_not_claim_to_be_sorted_keeps_its_order(header: bytes) -> None:
    packed = PackedRefs(header + TAG + BRANCH, 40)

    added = packed.with_refs({b"refs/checkpoints/b": B, b"refs/checkpoints/a": A})
    assert added == (
        header + TAG + BRANCH + b"%s refs/checkpoints/a\n" % A + b"%s refs/checkpoints/b\n" % B
    )


def test_a_file_that_is_not_sorted_though_it_says_so_is_left_alone(
    git_dir: Path, refs: Refs
) -> None:
    (git_dir / "packed-refs").write_bytes(HEADER + TAG + BRANCH)
    write(git_dir, "refs/checkpoints/a", A)

    assert pack(refs) == 0
    assert (git_dir / "packed-refs").read_bytes() == HEADER + TAG + BRANCH
    assert refs.checkpoints() == {"a": A}


@pytest.mark.parametrize("line", [b"rubbish\n", b"^%s\n" % C])
def test_a_damaged_file_is_an_error_and_stays(line: bytes, git_dir: Path, refs: Refs) -> None:
    (git_dir / "packed-refs").write_bytes(HEADER + line)
    write(git_dir, "refs/checkpoints/a", A)

    with pytest.raises(CkptError, match="damaged"):
        pack(refs)
    with pytest.raises(CkptError, match="damaged"):
        refs.move_all({b"refs/checkpoints/a": (A, b"refs/checkpoints-trash/20261116/a")})
    assert (git_dir / "packed-refs").read_bytes() == HEADER + line
    assert (git_dir / "refs/checkpoints/a").exists()
    assert not list(git_dir.rglob("*.lock"))


def test_a_file_that_several_repositories_share_by_a_link_stays_shared(
    git_dir: Path, refs: Refs, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared = tmp_path_factory.mktemp("main") / "packed-refs"
    shared.write_bytes(HEADER + b"%s refs/checkpoints/a\n" % A + BRANCH)
    (git_dir / "packed-refs").symlink_to(shared)
    write(git_dir, "refs/checkpoints/b", B)
    write(git_dir, "refs/checkpoints/c", C)

    assert refs.remove(b"refs/checkpoints/a", A)
    assert pack(refs) == 2
    assert refs.move_all({b"refs/checkpoints/b": (B, None)}) == {b"refs/checkpoints/b"}
    assert (git_dir / "packed-refs").is_symlink()
    assert shared.read_bytes() == HEADER + b"%s refs/checkpoints/c\n" % C + BRANCH
    shared.with_name("packed-refs.lock").touch()
    with pytest.raises(Busy):
        refs.remove(b"refs/checkpoints/c", C)


def test_only_plain_refs_of_the_right_kind_are_packed(git_dir: Path, refs: Refs) -> None:
    write(git_dir, "refs/checkpoints/link", b"ref: refs/heads/main")
    write(git_dir, "refs/checkpoints/empty", b"")
    write(git_dir, "refs/checkpoints/od~d", A)
    write(git_dir, "refs/checkpoints/tag", C)
    write(git_dir, "refs/checkpoints/a", A)

    assert refs.pack(OURS, lambda value: value != C) == 1
    assert (git_dir / "packed-refs").read_bytes() == HEADER + b"%s refs/checkpoints/a\n" % A
    left = {path.name for path in (git_dir / "refs/checkpoints").iterdir()}
    assert left == {"link", "empty", "od~d", "tag"}


def test_a_lock_of_gits_own_is_respected(git_dir: Path, refs: Refs) -> None:
    write(git_dir, "refs/checkpoints/a", A)
    (git_dir / "packed-refs.lock").touch()

    with pytest.raises(Busy):
        pack(refs)
    assert refs.checkpoints() == {"a": A}


def between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something once the refs are packed, before the first loose one goes."""
    waiting = [act]

    def look(operation: str, path: str) -> None:
        if operation == "link" and str(path).endswith("/a.lock") and waiting:
            waiting.pop()()

    observe(look)


def test_a_ref_that_is_pinned_meanwhile_keeps_its_new_value(
    git_dir: Path, refs: Refs, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(git_dir, "refs/checkpoints/a", A)
    write(git_dir, "refs/checkpoints/b", B)
    between(monkeypatch, lambda: refs.replace(b"refs/checkpoints/a", A, C))

    assert pack(refs) == 1
    assert refs.checkpoints() == {"a": C, "b": B}


def test_a_ref_that_is_dropped_meanwhile_does_not_come_back(
    git_dir: Path, refs: Refs, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(git_dir, "refs/checkpoints/a", A)
    between(monkeypatch, lambda: refs.remove(b"refs/checkpoints/a", A))

    assert pack(refs) == 0
    assert refs.checkpoints() == {}


def test_a_ref_that_is_dropped_and_brought_back_meanwhile_is_not_lost(
    git_dir: Path, refs: Refs, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(git_dir, "refs/checkpoints/a", A)

    def drop_and_restore() -> None:
        assert refs.remove(b"refs/checkpoints/a", A)
        assert refs.create(b"refs/checkpoints/a", A)

    between(monkeypatch, drop_and_restore)

    assert pack(refs) == 0
    assert refs.checkpoints() == {"a": A}
