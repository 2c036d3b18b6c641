# SPDX-License-Identifier: MIT
"""Locks: ours dies with its process, git's is left only if it is somebody else's."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from byhand import failing, files_below, observed

from ckpt.errors import Busy
from ckpt.store.lock import (
    clear_dead_locks,
    clear_own_locks,
    gc_lock,
    holding,
    holding_all,
    prune_lock,
    replace_locked,
    worktree_lock,
)

CommonLock = Callable[..., AbstractContextManager[None]]

HOLD = """
import sys
from ckpt.store.lock import worktree_lock
with worktree_lock(sys.argv[1], exclusive=sys.argv[2] == "exclusive", timeout=0):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def private(tmp_path: Path) -> Path:
    return tmp_path / "git/ckpt"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    (tmp_path / "git").mkdir()
    (tmp_path / "git/index").write_bytes(b"old")
    return tmp_path / "git/index"


@contextmanager
def held_elsewhere(private: Path, mode: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(private), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def can_lock(private: Path, *, exclusive: bool) -> bool:
    try:
        with worktree_lock(str(private), exclusive=exclusive, timeout=0):
            return True
    except Busy:
        return False


# Ours


def test_a_rollback_shuts_everyone_out(private: Path) -> None:
    with held_elsewhere(private, "exclusive"):
        assert not can_lock(private, exclusive=True)
        assert not can_lock(private, exclusive=False)


def test_saves_go_together_and_keep_a_rollback_out(private: Path) -> None:
    with held_elsewhere(private, "shared"):
        assert can_lock(private, exclusive=False)
        assert not can_lock(private, exclusive=True)


def test_the_lock_of_a_killed_process_is_free(private: Path) -> None:
    with held_elsewhere(private, "exclusive") as process:
        process.kill()
        process.wait()

        assert can_lock(private, exclusive=True)


def test_whoever_waits_gets_the_lock_when_it_is_free(private: Path) -> None:
    with held_elsewhere(private, "exclusive") as process:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
        with worktree_lock(str(private), exclusive=True, timeout=60):
            pass


def test_the_process_that_holds_the_lock_is_named(private: Path) -> None:
    with (
        held_elsewhere(private, "exclusive") as process,
        pytest.raises(Busy, match=rf"another ckpt command .* \(process {process.pid}\)"),
        worktree_lock(str(private), exclusive=False, timeout=0),
    ):
        pass


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux tells who holds a lock")
def test_who_holds_the_lock_is_named_and_not_who_held_it_before(private: Path) -> None:
    """A rollback that was killed has left its number, which may be anybody's by now."""
    with held_elsewhere(private, "exclusive") as killed:
        pass
    assert (private / "lock").read_text() == f"{killed.pid}\n"
    with (
        held_elsewhere(private, "shared") as process,
        pytest.raises(Busy, match=rf"\(process {process.pid}\)"),
        worktree_lock(str(private), exclusive=True, timeout=0),
    ):
        pass


@pytest.mark.parametrize("lock", [prune_lock, gc_lock])
def test_whoever_prunes_or_collects_is_named_too(lock: CommonLock, tmp_path: Path) -> None:
    with (
        lock(str(tmp_path), timeout=0),
        pytest.raises(Busy, match=rf"in this repository( \(process {os.getpid()}\))?$"),
        lock(str(tmp_path), timeout=0),
    ):
        pass


def test_the_lock_is_free_after_an_error(private: Path) -> None:
    with pytest.raises(KeyError), worktree_lock(str(private), exclusive=True, timeout=0):
        raise KeyError

    assert can_lock(private, exclusive=True)


def test_two_threads_of_one_process_shut_each_other_out_too(private: Path) -> None:
    with worktree_lock(str(private), exclusive=True, timeout=0):
        assert not can_lock(private, exclusive=True)


def test_a_fork_that_lives_on_does_not_hold_the_lock_of_its_parent(private: Path) -> None:
    reader, writer = os.pipe()
    with worktree_lock(str(private), exclusive=True, timeout=0):
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
    with worktree_lock(str(private), exclusive=True, timeout=0):
        pass

    for fd in (reader, writer):
        os.close(fd)
    assert os.waitpid(child, 0)[1] == 0


def test_the_lock_file_is_private(private: Path) -> None:
    private.parent.mkdir()
    with worktree_lock(str(private), exclusive=True, timeout=0):
        assert private.stat().st_mode & 0o777 == 0o700
        assert (private / "lock").stat().st_mode & 0o777 == 0o600


def test_a_link_in_place_of_the_lock_file_is_not_followed(private: Path, tmp_path: Path) -> None:
    private.mkdir(parents=True)
    (private / "lock").symlink_to(tmp_path / "victim")

    with pytest.raises(OSError), worktree_lock(str(private), exclusive=True, timeout=0):
        pass
    assert not (tmp_path / "victim").exists()


# Git's


def test_a_file_is_replaced_whole_under_the_lock(index: Path, private: Path) -> None:
    seen: list[tuple[bytes, bytes]] = []

    def look() -> bool:
        seen.append((index.read_bytes(), index.with_name("index.lock").read_bytes()))
        return True

    assert replace_locked(str(index), b"new", str(private), look)
    assert seen == [(b"old", b"new")]
    assert index.read_bytes() == b"new"
    assert files_below(index.parent) == ["index"]


def test_the_content_is_durable_before_the_file_has_it(index: Path, private: Path) -> None:
    with observed() as seen:
        replace_locked(str(index), b"new", str(private))

    operations = [operation for operation, _ in seen]
    assert operations[-6:] == ["create", "write", "fsync", "link", "rename", "fsync-dir"]
    assert seen[-1] == ("fsync-dir", str(index.parent))


def test_a_file_that_changed_meanwhile_is_left(index: Path, private: Path) -> None:
    assert not replace_locked(str(index), b"new", str(private), lambda: False)
    assert index.read_bytes() == b"old"
    assert files_below(index.parent) == ["index"]


def test_a_lock_of_git_is_respected_and_left(index: Path, private: Path) -> None:
    index.with_name("index.lock").write_bytes(b"git's")

    with pytest.raises(Busy, match=r"unable to lock .*index\.lock' exists"):
        replace_locked(str(index), b"new", str(private))
    assert index.read_bytes() == b"old"
    assert index.with_name("index.lock").read_bytes() == b"git's"
    assert files_below(index.parent) == ["index", "index.lock"]


@pytest.mark.parametrize("operation", ["create", "write", "fsync", "link", "rename"])
def test_a_failure_leaves_neither_lock_nor_private_file(
    operation: str, index: Path, private: Path
) -> None:
    with failing(operation), pytest.raises(OSError):
        replace_locked(str(index), b"new", str(private))

    assert index.read_bytes() == b"old"
    assert files_below(index.parent) == ["index"]


def test_an_error_while_looking_leaves_no_lock(index: Path, private: Path) -> None:
    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_locked(str(index), b"new", str(private), interrupted)
    assert files_below(index.parent) == ["index"]


def test_a_file_keeps_its_permissions(index: Path, private: Path) -> None:
    """In a repository that several users share, the index must stay writable to them."""
    for mode in (0o644, 0o664, 0o600):
        index.chmod(mode)
        replace_locked(str(index), b"new", str(private))

        assert index.stat().st_mode & 0o777 == mode


def test_a_new_file_gets_the_usual_permissions(index: Path, private: Path) -> None:
    replace_locked(str(index.with_name("new")), b"new", str(private))

    assert index.with_name("new").stat().st_mode & 0o777 == 0o644


# What a killed process left


def killed(index: Path, private: Path, at: str) -> None:
    """Run `replace_locked` in a process that dies before an operation."""
    script = (
        "import os, sys; from ckpt import disk; from ckpt.store.lock import replace_locked\n"
        f"disk.observer = lambda operation, path: os._exit(9) if operation == {at!r} else None\n"
        "replace_locked(sys.argv[1], b'new', sys.argv[2])"
    )
    ran = subprocess.run([sys.executable, "-c", script, str(index), str(private)])
    assert ran.returncode == 9


@pytest.mark.parametrize("at", ["write", "fsync", "link", "rename", "fsync-dir"])
def test_whatever_a_killed_process_left_is_cleared(at: str, index: Path, private: Path) -> None:
    killed(index, private, at)
    clear_own_locks(str(private), [str(index), str(index.with_name("HEAD"))])

    assert files_below(index.parent) == ["index"]
    assert index.read_bytes() == (b"new" if at == "fsync-dir" else b"old")


def test_a_lock_that_is_not_ours_is_never_cleared(index: Path, private: Path) -> None:
    killed(index, private, "link")
    index.with_name("index.lock").write_bytes(b"new")
    clear_own_locks(str(private), [str(index)])

    assert index.with_name("index.lock").read_bytes() == b"new"
    assert files_below(private) == []


def test_a_lock_is_told_by_its_inode_among_several(index: Path, private: Path) -> None:
    killed(index, private, "rename")
    head = index.with_name("HEAD")
    head.with_name("HEAD.lock").write_bytes(b"git's")
    clear_own_locks(str(private), [str(head), str(index)])

    assert files_below(index.parent) == ["HEAD.lock", "index"]


def test_a_lock_of_a_killed_process_is_in_nobodys_way(index: Path, private: Path) -> None:
    killed(index, private, "rename")
    assert index.with_name("index.lock").exists()

    assert replace_locked(str(index), b"newer", str(private))
    assert index.read_bytes() == b"newer"
    assert files_below(index.parent) == ["index"]


HOLD_A_FILE = """
import sys
from ckpt.store.lock import holding
with holding(sys.argv[1], sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_of_a_living_process_is_never_cleared(index: Path, private: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD_A_FILE, str(index), str(private)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        clear_own_locks(str(private), [str(index)])
        with pytest.raises(Busy):
            replace_locked(str(index), b"new", str(private))
        assert index.with_name("index.lock").exists()
    finally:
        process.communicate(b"")

    assert process.returncode == 0
    assert files_below(index.parent) == ["index"]


def test_the_file_can_be_replaced_while_its_lock_is_held(index: Path, private: Path) -> None:
    with holding(str(index), str(private)) as lock:
        lock.replace(b"new")

        assert index.read_bytes() == b"new"
        assert index.with_name("index.lock").exists()
    assert files_below(index.parent) == ["index"]


@pytest.mark.parametrize("problem", [errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP])
def test_where_a_file_has_one_name_only_a_lock_is_made_as_git_does(
    problem: int, index: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(problem, os.strerror(problem))

    monkeypatch.setattr(os, "link", refuse)
    seen: list[bytes] = []

    def look() -> bool:
        seen.append(index.with_name("index.lock").read_bytes())
        return True

    assert replace_locked(str(index), b"new", str(private), look)
    assert seen == [b"new"]
    assert index.read_bytes() == b"new"
    index.with_name("index.lock").touch()
    with pytest.raises(Busy):
        replace_locked(str(index), b"newer", str(private))
    assert files_below(index.parent) == ["index", "index.lock"]


def test_half_a_private_file_is_cleared_and_others_stay(index: Path, private: Path) -> None:
    private.mkdir()
    for name in (".tmp-0123", "lock-0123", "lock", "journal", "last-rollback"):
        (private / name).write_bytes(b"")
    clear_own_locks(str(private), [str(index)])

    assert files_below(private) == ["journal", "last-rollback", "lock"]


def test_without_a_private_folder_there_is_nothing_to_clear(index: Path, private: Path) -> None:
    clear_own_locks(str(private), [str(index)])

    assert not private.exists()
    assert os.listdir(index.parent) == ["index"]


def test_a_dead_lock_stays_ours_until_somebody_comes_who_knows_its_file(
    index: Path, private: Path
) -> None:
    killed(index, private, "rename")
    clear_dead_locks(str(private), lambda: [str(index.with_name("other"))])
    assert index.with_name("index.lock").exists()
    clear_dead_locks(str(private), lambda: [str(index)])

    assert not index.with_name("index.lock").exists()
    assert files_below(private) == []


def test_of_several_locks_those_are_held_that_nobody_else_holds(index: Path, private: Path) -> None:
    places = [str(index.with_name(name)) for name in ("a", "b", "c")]
    Path(places[1] + ".lock").touch()
    with holding_all(places, str(private)) as held:
        assert held == [places[0], places[2]]
        assert all(Path(place + ".lock").exists() for place in held)

    assert [name for name in files_below(index.parent) if name.endswith(".lock")] == ["b.lock"]
