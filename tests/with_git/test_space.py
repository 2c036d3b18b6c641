# SPDX-License-Identifier: MIT
"""`status` tells how much of the disk checkpoints take, and what waits in the trash."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt_here, git


def save(repo: Path, content: bytes, *words: str) -> str:
    (repo / "src/data.bin").write_bytes(content)
    return str(ckpt_here("save", *words, "--json", code=0).json["checkpoint"]["id"])


def space() -> dict[str, Any]:
    found: dict[str, Any] = ckpt_here("status", "--json", code=0).json["space"]
    return found


def test_what_several_checkpoints_hold_counts_once(repo: Path) -> None:
    noise = os.urandom(50_000)
    save(repo, noise)
    save(repo, noise, "again")

    assert 50_000 < space()["total"] < 53_000


def test_what_was_committed_since_is_gits(repo: Path) -> None:
    save(repo, os.urandom(50_000))
    git("commit", "-qam", "noise")

    assert space()["total"] < 3_000


def test_what_is_packed_counts_as_it_is_packed(repo: Path) -> None:
    save(repo, b"alike\n" * 50_000)
    git("gc", "-q")

    assert space()["total"] < 5_000


def test_what_waits_in_the_trash_is_told_apart(repo: Path) -> None:
    save(repo, os.urandom(30_000))
    ckpt_here("drop", save(repo, os.urandom(10_000)), code=0)
    found = space()

    assert 30_000 < found["total"] < 33_000
    assert 10_000 < found["trash"] < 13_000


def test_a_repository_of_sha256_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("init", "-q", "--object-format=sha256", "long")
    monkeypatch.chdir("long")
    os.mkdir("src")
    save(Path(), os.urandom(9_000))

    assert 9_000 < space()["total"] < 11_000


@pytest.mark.parametrize("left", [0, 40])
def test_a_pack_that_was_cut_off_does_not_keep_status_from_telling_the_rest(
    repo: Path, left: int
) -> None:
    save(repo, os.urandom(9_000))
    git("gc", "-q")
    (pack,) = (repo / ".git/objects/pack").glob("*.pack")
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:left])

    assert space()["total"] is not None
