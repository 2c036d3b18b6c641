# SPDX-License-Identifier: MIT
"""Refs are read from reftables as git wrote them, and never written."""

from __future__ import annotations

import base64
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reftables import Value, put_stack, table

from ckpt import disk
from ckpt.errors import CkptError, Refused
from ckpt.git.formats import ObjectID
from ckpt.git.refs import Head
from ckpt.git.reftable import CorruptReftable, ReftableRefs, Target, read_stack, read_table

ONE, TWO = b"1" * 40, b"2" * 40

# Two tables that git 2.55 wrote: a compacted one with reflogs, and a deletion.
BY_GIT = (
    "UkVGVAEAEAAAAAAAAAAAAQAAAAAAAAAGcgAAugAjSEVBRAAPcmVmcy9oZWFkcy9tYWluAHlyZWZzL2hlYWRzL21h"
    "aW4BhZyadNOcGhuM+FcFx2CQaeBtfjoLSXRvcGljL3R3bwWFnJp005waG4z4VwXHYJBp4G1+OgVydGFncy9hbm5v"
    "dGF0ZWQC/O86YdOeFGyCjS6FfbHWYk7Z526FnJp005waG4z4VwXHYJBp4G1+OgAAHAAAMwACZwABL3jaY8j0cHV0"
    "YfgPAX8ZsIDWObNKLs+Rku75Ec56PGFC5oPcOivGROZEh6Sm268mAxWIJOfn5maWKGhk5mWWZCbmaFopGHIxNDgW"
    "paYV62ekJqYU6+cmZubRwBLuBsGS/ILMZP2S8nyY8T/JMl4qqSgxLznDSsG5KDWxJDVFIa0oP1cB5GwuBgYWBoZY"
    "BiYAr1FlH1JFRlQBABAAAAAAAAAAAAEAAAAAAAAABgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAC6AAAA"
    "AAAAAACeAEQt",
    "UkVGVAEAEAAAAAAAAAAABwAAAAAAAAAHcgAAOQCAIHJlZnMvaGVhZHMvdG9waWMvdHdvAAAAHAABZwAAKXjaY2jI"
    "KEpNK9bPSE1MKdYvyS/ITNYvKc9n+A8BPxkYWBgYASjhEJtSRUZUAQAQAAAAAAAAAAAHAAAAAAAAAAcAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAOQAAAAAAAAAAvP0G7g==",
)


def read(data: bytes, hash_len: int = 20) -> dict[bytes, Target | None]:
    return dict(read_table(data, hash_len))


def test_tables_of_git_are_read_and_the_later_one_wins(tmp_path: Path) -> None:
    put_stack(tmp_path, *map(base64.b64decode, BY_GIT))
    commit = b"859c9a74d39c1a1b8cf85705c7609069e06d7e3a"

    assert read(base64.b64decode(BY_GIT[0]))[b"refs/heads/topic/two"] == (commit, False)
    assert read_stack(str(tmp_path), 20) == {
        b"HEAD": (b"refs/heads/main", True),
        b"refs/heads/main": (commit, False),
        b"refs/tags/annotated": (b"fcef3a61d39e146c828d2e857db1d6624ed9e76e", False),
    }


@pytest.mark.parametrize("hash_len", [20, 32])
@pytest.mark.parametrize("block_size", [0, 4096, 8192])
@pytest.mark.parametrize("per_block", [1, 3, 60])
def test_refs_in_any_number_of_blocks_are_read(
    hash_len: int, block_size: int, per_block: int
) -> None:
    refs: dict[bytes, Value] = {
        b"refs/%s/%d" % (b"x" * (number % 40), number): b"%02x" % number * hash_len
        for number in range(256)
    }
    refs[b"HEAD"] = b"ref: refs/heads/main"
    refs[b"refs/tags/t"] = (b"ab" * hash_len, b"cd" * hash_len)
    refs[b"refs/tags/u"] = None

    found = read(
        table(refs, hash_len=hash_len, block_size=block_size, per_block=per_block), hash_len
    )

    assert list(found) == sorted(refs)
    assert found[b"HEAD"] == (b"refs/heads/main", True)
    assert found[b"refs/tags/t"] == (b"ab" * hash_len, False)
    assert found[b"refs/tags/u"] is None
    assert found[b"refs/xxx/243"] == (b"f3" * hash_len, False)


def test_a_table_without_refs_has_none() -> None:
    assert read(table({})) == {}


def test_without_tables_there_are_no_refs(tmp_path: Path) -> None:
    assert read_stack(str(tmp_path), 20) == {}


def test_tables_that_git_joins_meanwhile_are_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_stack(tmp_path, table({b"refs/heads/a": ONE}))
    (tmp_path / "tables.list").rename(tmp_path / "later")
    (tmp_path / "tables.list").write_text("gone.ref\n")
    really_opened = disk.opened

    def joining(path: str) -> int:
        if path.endswith("gone.ref"):
            os.replace(tmp_path / "later", tmp_path / "tables.list")
        return really_opened(path)

    monkeypatch.setattr(disk, "opened", joining)

    assert list(read_stack(str(tmp_path), 20)) == [b"refs/heads/a"]


def test_a_table_that_stays_away_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tables.list").write_text("gone.ref\n")

    with pytest.raises(CorruptReftable):
        read_stack(str(tmp_path), 20)


@pytest.mark.parametrize("names", ["../../x.ref\n", "a.ref\n\nb.ref\n"])
def test_a_list_that_names_no_tables_is_an_error(names: str, tmp_path: Path) -> None:
    (tmp_path / "tables.list").write_text(names)

    with pytest.raises(CorruptReftable):
        read_stack(str(tmp_path), 20)


@given(st.data())
def test_damaged_tables_raise_nothing_but_corrupt_reftable(data: st.DataObject) -> None:
    whole = table({b"refs/heads/%d" % number: ONE for number in range(9)}, per_block=4)
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole)))
    damaged = whole[:start] + data.draw(st.binary(max_size=8)) + whole[stop:]

    try:
        list(read_table(damaged, 20))
    except (ValueError, IndexError, struct.error):
        pass


# As refs


@pytest.fixture
def refs(tmp_path: Path) -> ReftableRefs:
    put_stack(
        tmp_path / "reftable",
        table(
            {
                b"HEAD": b"ref: refs/heads/main",
                b"refs/heads/main": ONE,
                b"refs/heads/link": b"ref: refs/heads/main",
                b"refs/heads/circle": b"ref: refs/heads/circle",
                b"refs/checkpoints/a": ONE,
                b"refs/checkpoints/b": ONE,
                b"refs/checkpoints-trash/20260102/c": TWO,
            }
        ),
        table({b"refs/checkpoints/a": TWO, b"refs/checkpoints/b": None}),
    )
    return ReftableRefs(str(tmp_path), str(tmp_path), 40)


def test_checkpoints_and_trash_are_listed(refs: ReftableRefs) -> None:
    assert refs.checkpoints() == {"a": TWO}
    assert refs.trash() == {"20260102/c": TWO}


def test_links_are_followed_and_circles_are_an_error(refs: ReftableRefs) -> None:
    assert refs.read(b"refs/heads/link") == ONE
    assert refs.read(b"refs/heads/none") is None
    with pytest.raises(CkptError, match="circle"):
        refs.read(b"refs/heads/circle")


def test_head_is_in_the_tables_and_each_worktree_has_its_own(
    tmp_path: Path, refs: ReftableRefs
) -> None:
    own = tmp_path / "worktrees/linked"
    own.mkdir(parents=True)
    linked = ReftableRefs(str(own), str(tmp_path), 40)
    assert refs.head() == Head(b"refs/heads/main", ObjectID(ONE))
    with pytest.raises(CkptError, match="no HEAD"):
        linked.head()

    put_stack(own / "reftable", table({b"HEAD": TWO, b"refs/bisect/bad": TWO}))
    assert linked.head() == Head(None, ObjectID(TWO))
    assert linked.read(b"refs/bisect/bad") == TWO
    assert linked.read(b"refs/heads/main") == ONE
    assert refs.read(b"refs/bisect/bad") is None


def test_no_ref_is_written(refs: ReftableRefs) -> None:
    head = Head(b"refs/heads/main", ObjectID(ONE))
    for change in (
        lambda: refs.check_writable(),
        lambda: refs.create(b"refs/checkpoints/new", ObjectID(ONE)),
        lambda: refs.replace(b"refs/checkpoints/a", ObjectID(TWO), ObjectID(ONE)),
        lambda: refs.remove(b"refs/checkpoints/a", ObjectID(TWO)),
        lambda: refs.move_branch(b"refs/heads/main", ObjectID(ONE), ObjectID(TWO), b""),
        lambda: refs.set_head(head, head, b""),
    ):
        with pytest.raises(Refused, match="reftables"):
            change()
