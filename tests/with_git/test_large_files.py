# SPDX-License-Identifier: MIT
"""Large files are saved and come back, wherever git keeps them, in little memory.

With CKPT_TORTURE=1 the files that are measured have 1 GiB.
"""

from __future__ import annotations

import os
import random
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from byhand import files_below
from helpers import ckpt, ckpt_here, fsck, git

TORTURE = os.environ.get("CKPT_TORTURE") == "1"
MEBIBYTE = 1 << 20
# More than is read into memory in one piece.
LARGE, PIECE = MEBIBYTE, MEBIBYTE // 4
MOST_MEMORY = 100 * MEBIBYTE  # less than any of the files that are measured
FORMATS = ["sha1", "sha256"]

# Runs a program, and writes down how much memory it had at most.
MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
open(sys.argv[1], "w").write(str(peak if sys.platform == "darwin" else peak * 1024))
sys.exit(code)
"""


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def fill(path: Path, size: int, seed: int) -> None:
    """A file of holes and, every 16 MiB, a few bytes that are in no other."""
    with open(path, "wb") as file:
        file.truncate(size)
        for number, place in enumerate(range(0, size, 16 * MEBIBYTE)):
            file.seek(place + seed)
            file.write(noise(PIECE // 8 + 1, seed + number))


def checksum(path: Path) -> str:
    digest = sha256()
    with open(path, "rb") as file:
        while piece := file.read(MEBIBYTE):
            digest.update(piece)
    return digest.hexdigest()


def committed(top: Path, object_format: str, **files: bytes) -> Path:
    git("init", "--quiet", f"--object-format={object_format}", str(top))
    for name, data in files.items():
        (top / name).write_bytes(data)
    git("add", ".", cwd=top)
    git("commit", "--quiet", "--message=large", cwd=top)
    return top


# Where git keeps them


@pytest.mark.parametrize("object_format", FORMATS)
@pytest.mark.parametrize(
    ("packing", "deltas"),
    [
        ([], False),
        (["repack", "-adfq", "--window=0"], False),
        (["repack", "-adfq"], True),
        (["-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq"], True),
    ],
    ids=["loose", "packed", "deltas", "deltas by id"],
)
def test_a_large_file_comes_back_in_each_of_its_versions(
    packing: list[str], deltas: bool, object_format: str, tmp_path: Path
) -> None:
    first = noise(LARGE + 3 * PIECE)
    contents = [first, b"new" + first, first[:LARGE] + first + b"end", first[PIECE:] + noise(9, 1)]
    top = committed(tmp_path / "repo", object_format, file=b"small")
    for number, data in enumerate(contents):
        (top / "file").write_bytes(data)
        ckpt_here("save", f"version-{number}", cwd=top, code=0)
    if packing:
        git(*packing, cwd=top)
        git("prune-packed", cwd=top)
    assert has_large_deltas(top) == deltas
    before = all_objects(top)
    for number, data in reversed(list(enumerate(contents))):
        (top / "file").write_bytes(data + b"x" if number % 2 else b"x")
        ckpt_here("rollback", f"version-{number}", cwd=top, code=0)
        assert (top / "file").read_bytes() == data

    assert not [path for path in files_below(top / ".git/objects") if "tmp_" in path]
    assert before <= all_objects(top)
    assert fsck(top) == []


def all_objects(top: Path) -> set[str]:
    words = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]
    return set(git(*words, cwd=top).split())


def has_large_deltas(top: Path) -> bool:
    """Whether git keeps any large object as a delta; the base of one that is none is 0."""
    words = ["cat-file", "--batch-all-objects", "--batch-check=%(objectsize) %(deltabase)"]
    lines = (line.split() for line in git(*words, cwd=top).splitlines())
    return any(int(size) > LARGE and base.strip("0") for size, base in lines)


@pytest.mark.parametrize("object_format", FORMATS)
@pytest.mark.parametrize("packed", [True, False])
def test_a_large_file_comes_back_from_a_borrowed_repository(
    packed: bool, object_format: str, tmp_path: Path
) -> None:
    lender = committed(tmp_path / "lender", object_format, file=noise(LARGE + 1))
    if packed:
        git("repack", "-adq", cwd=lender)
    git("clone", "--quiet", "--shared", str(lender), str(tmp_path / "clone"))
    top = tmp_path / "clone"
    os.utime(top / "file", (1, 1))
    ckpt_here("save", "here", cwd=top, code=0)
    assert sum(path.stat().st_size for path in (top / ".git/objects").rglob("*")) < LARGE

    (top / "file").unlink()
    ckpt_here("rollback", "here", "--yes", cwd=top, code=0)
    assert (top / "file").read_bytes() == noise(LARGE + 1)


# What is said of them


def test_a_tracked_file_is_saved_however_large_and_another_only_within_bounds(repo: Path) -> None:
    for name in ("tracked", "other"):
        fill(repo / name, 51 * MEBIBYTE, 1)
    git("add", "tracked")
    ckpt_here("save", "now", code=0)
    shown = ckpt_here("show", "now", "--json", code=0).json["checkpoint"]

    assert [entry["path"] for entry in shown["skipped"]] == ["other"]
    (repo / "tracked").unlink()
    ckpt_here("rollback", "now", code=0)
    assert checksum(repo / "tracked") == checksum(repo / "other")


# Memory


@pytest.mark.slow
@pytest.mark.parametrize("size", [1024 if TORTURE else 120])
def test_memory_does_not_grow_with_a_file(size: int, repo: Path, tmp_path: Path) -> None:
    """But for large deltas, which git makes of files up to `core.bigFileThreshold`."""

    def run(*words: str) -> int:
        under = [sys.executable, "-c", MEASURED, str(tmp_path / "peak")]
        ckpt(*words, cwd=repo, under=under, code=0)
        return int((tmp_path / "peak").read_text())

    git("config", "core.compression", "1")
    large, peaks, wanted = repo / "src/data.bin", {}, {}
    for number, name in enumerate(["one", "two"]):
        fill(large, size * MEBIBYTE, number)
        if name == "one":
            git("-c", "core.bigFileThreshold=100m", "commit", "--quiet", "--all", "--message=large")
        peaks["save " + name] = run("save", name)
        wanted[name] = checksum(large)
    large.write_bytes(b"destroyed")
    peaks["from a loose object"] = run("rollback", "two")
    assert checksum(large) == wanted["two"]

    git("-c", "core.bigFileThreshold=100m", "repack", "-adq")
    assert not has_large_deltas(repo)
    for name in ("one", "two"):
        fill(large, size * MEBIBYTE, 7)
        peaks[f"from a pack, {name}"] = run("rollback", name)
        assert checksum(large) == wanted[name]
    peaks["undo"] = run("undo")
    peaks["diff"] = run("diff", "one")

    assert {what: peak for what, peak in peaks.items() if peak > MOST_MEMORY} == {}
