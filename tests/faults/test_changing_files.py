# SPDX-License-Identifier: MIT
"""Files that change while they are saved: a checkpoint holds what was there at some moment.

Another process appends, truncates, overwrites, replaces, removes and moves without a pause. From
each content it can be told whether it ever was that of the file, or is made up of two of them; only
a checkpoint that says `partial` and names the path may leave it out.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults.striking import TORTURE, Sweep
from helpers import fsck, git, verified

from ckpt import CheckpointManager

Record = Callable[[str, object], None]
SECONDS = 30 if TORTURE else 4
PIECES = 6
PIECE = 40_000
RECORD = "%09d record\n"

# A piece is its generation, over and over, so that any part of it tells.
WRITER = f"""
import os, sys
top, pieces, size = sys.argv[1], {PIECES}, {PIECE}
os.chdir(top)
def piece(generation):
    return (b"%09d\\n" % generation) * (size // 10)
def in_place(generation):
    fd = os.open("in-place", os.O_WRONLY | os.O_CREAT)
    for number in range(pieces):
        os.pwrite(fd, piece(generation), number * size)
    os.close(fd)
def truncated(generation):
    with open("truncated", "wb", buffering=0) as file:
        for number in range(pieces):
            file.write(piece(generation))
def replaced(generation):
    with open("../new", "wb") as file:
        file.write(piece(generation) * pieces)
    os.rename("../new", "replaced")
def appended(generation):
    with open("appended", "wb" if generation % 2000 == 0 else "ab", buffering=0) as file:
        file.write({RECORD.encode()!r} % (generation % 2000))
def removed(generation):
    if os.path.exists("removed"):
        os.unlink("removed")
    else:
        with open("../other", "wb") as file:
            file.write(piece(generation) * pieces)
        os.rename("../other", "removed")
def moved(generation):
    names = ("folder", "moved/to/here")
    os.makedirs("moved/to", exist_ok=True)
    if generation == 0:
        os.makedirs("folder/deep")
        for path in ("folder/file", "folder/deep/file"):
            with open(path, "wb") as file:
                file.write(piece(0) * pieces)
    os.rename(*(names if generation % 2 == 0 else names[::-1]))
generation = 0
while True:
    for change in (in_place, truncated, replaced, appended, removed, moved):
        change(generation)
    if generation == 1:
        print("ready", flush=True)
    generation += 1
"""


@contextmanager
def writing(top: Path) -> Iterator[None]:
    """While somebody changes everything all the time."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", WRITER, str(top)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def generations(content: bytes) -> list[int]:
    """Of each line; a last one that is not whole, which only a cut can leave, does not count."""
    lines = content.split(b"\n")
    assert re.fullmatch(rb"\d{0,9}", lines[-1]), lines[-1]
    assert all(re.fullmatch(rb"\d{9}", line) for line in lines[:-1])
    return [int(line) for line in lines[:-1]]


def check_whole(content: bytes) -> None:
    assert len(content) == PIECES * PIECE
    assert len(set(generations(content))) == 1


def check_truncated(content: bytes) -> None:
    """It grows again from nothing."""
    assert len(set(generations(content))) <= 1


def check_in_place(content: bytes) -> None:
    """Written from its beginning to its end: the new, then what is left of the one before."""
    found = generations(content)
    newest = found[0] if found else 0
    assert found == sorted(found, reverse=True), sorted(set(found))
    assert newest - (found or [0])[-1] <= 1, sorted(set(found))


def check_appended(content: bytes) -> None:
    whole = "".join(RECORD % number for number in range(2000)).encode()
    assert whole.startswith(content)


CHECKS: dict[str, Callable[[bytes], None]] = {
    "in-place": check_in_place,
    "truncated": check_truncated,
    "replaced": check_whole,
    "appended": check_appended,
    "removed": check_whole,
    "folder/file": check_whole,
    "folder/deep/file": check_whole,
    "moved/to/here/file": check_whole,
    "moved/to/here/deep/file": check_whole,
}
# Those that are there at any moment.
STEADY = {"in-place", "truncated", "replaced", "appended"}


def test_a_checkpoint_holds_contents_that_there_were_or_says_that_it_is_partial(
    repo: Path, record_property: Record
) -> None:
    with Sweep(record_property) as sweep, writing(repo), CheckpointManager(repo) as manager:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            saved = manager.create().checkpoint
            assert saved is not None
            sweep.count("saves while everything changes")
            left = {entry.path for entry in saved.skipped}
            assert saved.partial or not left
            sweep.count("partial ones" if saved.partial else "whole ones")
            listed = git("ls-tree", "-r", "--name-only", saved.commit).splitlines()
            with sweep.trying((saved.id, left, listed)):
                assert set(listed) >= STEADY - left
            for path in CHECKS.keys() & set(listed):
                sweep.count("contents of changing files")
                with sweep.trying((saved.id, path, left)):
                    CHECKS[path](blob(saved.commit, path))
    assert fsck(repo) == []
    assert verified(repo) == []


def test_a_file_that_changes_while_it_is_read_is_read_again(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = repo / "torn"
    torn.write_bytes(b"1" * 1000)
    edits = [b"2" * 1000]

    class Torn(io.FileIO):
        def read(self, size: int = -1) -> bytes:
            if not edits or not os.path.samestat(os.fstat(self.fileno()), torn.stat()):
                return super().read(size)
            first = super().read(500)
            torn.write_bytes(edits.pop())
            return first + super().read(size - 500)

    monkeypatch.setattr(io, "FileIO", Torn)
    with CheckpointManager(repo) as manager:
        saved = manager.create().checkpoint

    assert saved is not None and edits == []
    assert blob(saved.commit, "torn") == b"2" * 1000


def blob(commit: str, path: str) -> bytes:
    return subprocess.run(
        ["git", "cat-file", "blob", f"{commit}:{path}"], capture_output=True, check=True
    ).stdout
