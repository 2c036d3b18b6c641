# SPDX-License-Identifier: MIT
"""Our own locks: they die with their process, and everyone gets a turn."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from ckpt.errors import Busy
from ckpt.git.temporaries import clear_dead
from ckpt.locks import clear_dead_locks, gc_lock, prune_lock, worktree_lock

CommonLock = Callable[..., AbstractContextManager[None]]

# Tells when it has to wait, and when it has the lock; then it keeps that.
HOLD = """
import sys, time
sleep, told = time.sleep, []
def wait(seconds):
    if not told:
        told.append(print("waits", flush=True))
    sleep(seconds)
time.sleep = wait
from ckpt.locks import worktree_lock
with worktree_lock(sys.argv[1], exclusive=sys.argv[2] == "exclusive", timeout=60):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def private(tmp_path: Path) -> Path:
    (tmp_path / "git").mkdir()
    return tmp_path / "git/ckpt"


@contextmanager
def held_elsewhere(
    private: Path, mode: str, says: bytes = b"held\n"
) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock, or waits for it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(private), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == says
        yield process
    finally:
        process.kill()
        process.communicate()


def let_go(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None


def waits_no_more(process: subprocess.Popen[bytes]) -> bool:
    """Once it holds the lock; blocks until then."""
    assert process.stdout is not None
    return process.stdout.readline() == b"held\n"


def can_lock(private: Path, *, exclusive: bool) -> bool:
    try:
        with worktree_lock(str(private), exclusive=exclusive, timeout=0):
            return True
    except Busy:
        return False


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
        let_go(process)
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
    with worktree_lock(str(private), exclusive=True, timeout=0):
        assert private.stat().st_mode & 0o777 == 0o700
        assert (private / "lock").stat().st_mode & 0o777 == 0o600


def test_a_link_in_place_of_the_lock_file_is_not_followed(private: Path, tmp_path: Path) -> None:
    private.mkdir(parents=True)
    (private / "lock").symlink_to(tmp_path / "victim")

    with pytest.raises(OSError), worktree_lock(str(private), exclusive=True, timeout=0):
        pass
    assert not (tmp_path / "victim").exists()


# Everyone gets a turn


WAITS = b"waits\n"


def test_a_save_lets_a_rollback_go_first_that_waits(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    with (
        held_elsewhere(private, "shared") as save,
        held_elsewhere(private, "exclusive", WAITS) as rollback,
    ):

        def let_the_rollback_have_it(seconds: float) -> None:
            if not events:
                let_go(save)
                assert waits_no_more(rollback)
                events.append("rollback")
                let_go(rollback)

        monkeypatch.setattr(time, "sleep", let_the_rollback_have_it)
        with worktree_lock(str(private), exclusive=False, timeout=60):
            events.append("save")

    assert events == ["rollback", "save"]


def test_a_save_that_has_no_time_to_wait_goes_before_a_rollback_that_waits(private: Path) -> None:
    with (
        held_elsewhere(private, "shared") as save,
        held_elsewhere(private, "exclusive", WAITS) as rollback,
    ):
        assert can_lock(private, exclusive=False)
        let_go(save)
        assert waits_no_more(rollback)


def test_a_rollback_that_dies_while_it_waits_is_in_nobodys_way(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held_elsewhere(private, "shared"):
        with held_elsewhere(private, "exclusive", WAITS):
            pass
        monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it waits"))
        with worktree_lock(str(private), exclusive=False, timeout=60):
            pass


def test_of_two_rollbacks_that_wait_both_get_their_turn(private: Path) -> None:
    with (
        held_elsewhere(private, "shared") as save,
        held_elsewhere(private, "exclusive", WAITS) as first,
        held_elsewhere(private, "exclusive", WAITS) as second,
    ):
        let_go(save)
        assert waits_no_more(first)
        let_go(first)
        assert waits_no_more(second)


def test_where_folders_cannot_be_locked_the_lock_alone_decides(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system_lock = fcntl.flock

    def refuse_folders(fd: int, mode: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        system_lock(fd, mode)

    monkeypatch.setattr(fcntl, "flock", refuse_folders)
    with held_elsewhere(private, "shared"):
        assert can_lock(private, exclusive=False)
        assert not can_lock(private, exclusive=True)


@pytest.mark.parametrize("problem", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_where_the_file_system_has_no_locks_work_goes_on_without(
    problem: int, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(problem, os.strerror(problem))

    monkeypatch.setattr(fcntl, "flock", refuse)

    assert can_lock(private, exclusive=True) and can_lock(private, exclusive=False)
    for lock in (prune_lock, gc_lock):
        with lock(str(private), timeout=0):
            pass


def test_other_trouble_with_the_lock_is_an_error(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        can_lock(private, exclusive=True)


@contextmanager
def killed_beside_a_fork(script: str, *words: str) -> Iterator[None]:
    """A process that dies in the middle of something, and a fork of it that goes on living."""
    code = f"""
import os, signal, sys

def die():
    if os.fork() == 0:
        os.dup2(os.open(os.devnull, os.O_RDWR), 2)
        print("here", flush=True)
        os.read(0, 1)
        os._exit(0)
    signal.pause()

{script}
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    process.kill()
    process.wait()
    yield
    process.stdin.close()
    process.stdout.read()  # until the fork has ended
    process.stdout.close()


def test_the_lock_of_a_dead_process_is_free_though_a_fork_of_it_lives(private: Path) -> None:
    script = """
from ckpt.locks import worktree_lock
with worktree_lock(sys.argv[1], exclusive=True, timeout=0):
    die()
"""
    with killed_beside_a_fork(script, str(private)):
        assert can_lock(private, exclusive=True)


def test_and_so_is_its_lock_of_git_s_and_what_it_had_begun_to_write(private: Path) -> None:
    script = """
from ckpt.locks import holding
from ckpt.locks import NOT_SHARED
from ckpt.git.temporaries import TEMPORARY_OBJECT, Temporaries
folder = os.path.dirname(sys.argv[1])
Temporaries(folder + "/objects", NOT_SHARED).name(TEMPORARY_OBJECT)
with holding(folder + "/index", sys.argv[1]):
    die()
"""
    with killed_beside_a_fork(script, str(private)):
        objects = private.parent / "objects"
        assert [*objects.iterdir()] != []
        clear_dead(str(objects))
        assert [*objects.iterdir()] == []
        assert (private.parent / "index.lock").exists()
        clear_dead_locks(str(private), lambda: [str(private.parent / "index")])
        assert not (private.parent / "index.lock").exists()


def test_a_fork_in_the_midst_of_it_closes_no_file_but_its_own(private: Path) -> None:
    with worktree_lock(str(private), exclusive=True, timeout=0):
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert not can_lock(private, exclusive=True)
    assert os.waitpid(child, 0)[1] == 0
    assert can_lock(private, exclusive=True)
