# SPDX-License-Identifier: MIT
"""Refs change by git's own protocol: beside git, and beside each other, nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import fsck, git

from ckpt.git.objects import ObjectID
from ckpt.git.refs import Refs

# Each of several processes waits for the file `go`, then does its part.
PART = """
import os, sys, time
from ckpt.errors import Busy
from ckpt.git.refs import Refs
git_dir, go, number, first, second = sys.argv[1:]
refs = Refs(git_dir, git_dir, 40)
first, second = first.encode(), second.encode()
print("ready", flush=True)
while not os.path.exists(go):
    time.sleep(0.001)
def patiently(change, *arguments):
    while True:
        try:
            return change(*arguments)
        except Busy:
            time.sleep(0.001)
"""
CREATE = """
for turn in range(40):
    if patiently(refs.create, b"refs/checkpoints/same-%d" % turn, first):
        print("won", turn, flush=True)
"""
COUNT = """
for turn in range(25):
    ref = b"refs/checkpoints/%d-%s" % (turn, number.encode())
    assert patiently(refs.create, ref, first)
    assert patiently(refs.change, {ref: (first, (ref, second))}) == {ref}
    assert patiently(refs.change, {ref: (first, (ref, second))}) == set()
    if turn % 2:
        assert patiently(refs.remove, ref, second)
        assert refs.read(ref) is None, ref
    else:
        assert refs.read(ref) == second, ref
"""


@pytest.fixture
def commits(repo: Path) -> tuple[ObjectID, ObjectID]:
    head = git("rev-parse", "HEAD").strip()
    other = git("commit-tree", "-m", "other", "-p", head, "HEAD^{tree}").strip()
    return ObjectID(head.encode()), ObjectID(other.encode())


@pytest.fixture
def refs(repo: Path) -> Refs:
    return Refs(str(repo / ".git"), str(repo / ".git"), 40)


def listed_by_git(prefix: str = "refs/checkpoints") -> dict[str, str]:
    lines = git("for-each-ref", "--format=%(refname) %(objectname)", prefix).splitlines()
    return dict(line.split(" ") for line in lines)


def together(
    repo: Path, count: int, script: str, commits: tuple[ObjectID, ObjectID]
) -> list[list[str]]:
    """What processes print that begin at the same moment; all must succeed."""
    go = repo / ".git/go"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PART + script, repo / ".git", go, str(number), *commits],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    go.touch()
    printed = [process.communicate()[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0] * count
    return printed


@contextmanager
def meanwhile(command: str) -> Iterator[None]:
    """Run a shell command again and again; it may fail where it meets a lock."""
    stop = Path(".git/stop")
    process = subprocess.Popen(
        ["sh", "-c", f"while [ ! -e {stop} ]; do {command}; done"], stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        stop.touch()
        process.wait()


def no_litter(repo: Path) -> bool:
    left = [*(repo / ".git").rglob("*.lock"), *(repo / ".git/ckpt").glob("lock-*")]
    return not left and not (repo / ".git/packed-refs.new").exists()


# Beside others


def test_of_many_that_create_a_ref_exactly_one_wins(
    repo: Path, commits: tuple[ObjectID, ObjectID]
) -> None:
    printed = together(repo, 6, CREATE, commits)

    assert sorted(line for lines in printed for line in lines) == sorted(
        f"won {turn}" for turn in range(40)
    )
    assert len(listed_by_git()) == 40
    assert no_litter(repo)
    assert fsck(repo) == []


def test_while_git_packs_refs_none_is_lost_and_none_comes_back(
    repo: Path, commits: tuple[ObjectID, ObjectID]
) -> None:
    with meanwhile("git pack-refs --all --prune"):
        together(repo, 3, COUNT, commits)

    expected = {
        f"refs/checkpoints/{turn}-{number}": commits[1].decode()
        for turn in range(0, 25, 2)
        for number in range(3)
    }
    assert listed_by_git() == expected
    assert no_litter(repo)
    assert fsck(repo) == []


def test_while_git_writes_and_deletes_refs_ours_are_as_we_left_them(
    repo: Path, commits: tuple[ObjectID, ObjectID]
) -> None:
    git("update-ref", "refs/checkpoints/kept/deep", "HEAD")
    with meanwhile(
        "git update-ref refs/checkpoints/a HEAD; git update-ref -d refs/checkpoints/a; "
        "git update-ref refs/tags/b/c HEAD; git pack-refs --all; git update-ref -d refs/tags/b/c"
    ):
        together(repo, 2, COUNT, commits)

    found = listed_by_git()
    found.pop("refs/checkpoints/a", None)
    assert found.pop("refs/checkpoints/kept/deep")
    assert len(found) == 26
    assert fsck(repo) == []


# The same at the worst moment


def at(operation: str, end: str, act: Callable[[], object]) -> Callable[[str, str | bytes], None]:
    """An observer of the disk that does something once, before an operation on a path."""
    left = [act]

    def observer(seen: str, path: str) -> None:
        if left and seen == operation and os.fsdecode(path).endswith(end):
            left.pop()()

    return observer


@pytest.mark.parametrize("lock", ["refs/checkpoints/a.lock", "packed-refs.lock"])
def test_a_lock_that_git_holds_for_a_moment_is_waited_for(
    lock: str, repo: Path, refs: Refs, commits: tuple[ObjectID, ObjectID]
) -> None:
    refs.create(b"refs/checkpoints/a", commits[0])
    held = repo / ".git" / lock
    held.touch()
    release = threading.Timer(0.03, held.unlink)
    release.start()

    assert refs.remove(b"refs/checkpoints/a", commits[0])
    release.join()
    assert no_litter(repo)


# As git has it


def test_a_removed_ref_is_gone_for_git_and_its_neighbours_are_not(
    repo: Path, refs: Refs, commits: tuple[ObjectID, ObjectID]
) -> None:
    git("tag", "-a", "-m", "annotated", "v1")
    for name in ("a", "b", "c/d"):
        assert refs.create(f"refs/checkpoints/{name}".encode(), commits[0])
    git("pack-refs", "--all")
    before = git("for-each-ref", "--format=%(refname) %(objectname) %(*objectname)")

    assert refs.remove(b"refs/checkpoints/b", commits[0])
    assert refs.remove(b"refs/checkpoints/c/d", commits[0])
    after = git("for-each-ref", "--format=%(refname) %(objectname) %(*objectname)")
    assert [line for line in before.splitlines() if line not in after.splitlines()] == [
        f"refs/checkpoints/{name} {commits[0].decode()} " for name in ("b", "c/d")
    ]
    assert git("rev-parse", "--verify", "v1^{commit}").strip() == commits[0].decode()
    assert fsck(repo) == []


def test_packed_refs_stay_as_git_wants_them(
    repo: Path, refs: Refs, commits: tuple[ObjectID, ObjectID]
) -> None:
    for name in ("x", "y"):
        git("update-ref", f"refs/checkpoints/{name}", "HEAD")
    git("pack-refs", "--all")
    os.chmod(".git/packed-refs", 0o640)
    refs.remove(b"refs/checkpoints/x", commits[0])

    packed = Path(".git/packed-refs").read_bytes()
    assert packed.startswith(b"# pack-refs with: peeled fully-peeled sorted \n")
    assert os.stat(".git/packed-refs").st_mode & 0o777 == 0o640
    git("pack-refs", "--all")
    assert Path(".git/packed-refs").read_bytes() == packed
