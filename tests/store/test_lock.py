# SPDX-License-Identifier: MIT
"""Git's locks: one is left only if it is somebody else's."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from byhand import files_below
from seam import SETUP, failing, observe, observed

from ckpt.errors import Busy
from ckpt.locks import (
    check_free,
    clear_dead_locks,
    clear_own_locks,
    dead_locks,
    dead_unfinished,
    holding,
    holding_all,
    replace_locked,
)


@pytest.fixture
def private(tmp_path: Path) -> Path:
    return tmp_path / "git/ckpt"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    (tmp_path / "git").mkdir()
    (tmp_path / "git/index").write_bytes(b"old")
    return tmp_path / "git/index"


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

    operations = [operation for operation, _ in seen if operation != "unlink"]
    assert operations[-7:] == ["create", "chmod", "write", "fsync", "link", "rename", "fsync-dir"]
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


def test_a_lock_that_cannot_be_taken_away_is_later_known_for_ours(
    index: Path, private: Path
) -> None:
    """Though the private file could be, and with it what tells the lock from another's."""

    def fail(operation: str, path: str) -> None:
        if operation == "rename" or (operation, path) == ("unlink", f"{index}.lock"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    observe(fail)
    try:
        with pytest.raises(OSError):
            replace_locked(str(index), b"new", str(private))
    finally:
        observe(None)
    assert index.with_name("index.lock").exists()

    clear_own_locks(str(private), [str(index)])
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
        f"{SETUP}import os; from ckpt.locks import replace_locked\n"
        f"seam.observe(lambda operation, path: operation == {at!r} and os._exit(9))\n"
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
from ckpt.locks import holding
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
        named = f"held by process {process.pid}$" if Path("/proc/locks").exists() else "exists"
        with pytest.raises(Busy, match=named):
            replace_locked(str(index), b"new", str(private))
        assert index.with_name("index.lock").exists()
    finally:
        process.communicate(b"")

    assert process.returncode == 0
    assert files_below(index.parent) == ["index"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux tells who has it open")
def test_whoever_has_a_lock_of_gits_open_is_named(index: Path, private: Path) -> None:
    writing = "exec 3>index.lock; echo held; read line"
    with subprocess.Popen(
        ["sh", "-c", writing], cwd=index.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(Busy, match=rf"index\.lock' is held by process {process.pid}$"):
            check_free([str(index)], str(private), patience=0)
        process.communicate(b"\n")
    with pytest.raises(Busy, match=r"index\.lock' exists"):
        check_free([str(index)], str(private), patience=0)


def test_a_lock_that_goes_in_time_is_waited_for_and_a_dead_one_is_not(
    index: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = index.with_name("index.lock")
    lock.touch()
    monkeypatch.setattr(time, "sleep", lambda seconds: lock.unlink())
    check_free([str(index)], str(private), patience=60)

    killed(index, private, "rename")
    check_free([str(index)], str(private), patience=0)
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


def test_without_locks_of_the_kernels_files_are_replaced_and_nothing_counts_as_dead(
    index: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A living process's lock could not be told from a dead one's."""
    killed(index, private, "rename")
    before = files_below(index.parent)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    clear_own_locks(str(private), [str(index)])
    with pytest.raises(Busy):
        replace_locked(str(index), b"newer", str(private))
    assert files_below(index.parent) == before

    other = index.with_name("other")
    assert replace_locked(str(other), b"new", str(private))
    assert other.read_bytes() == b"new"


def test_a_private_file_that_somebody_looks_at_when_it_is_made_is_made_anew(
    index: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who clears up may have it open, and locked, before its process has."""
    system_lock, looked_at = fcntl.flock, []

    def be_second(fd: int, mode: int) -> None:
        if not looked_at:
            looked_at.append(os.open(next(private.iterdir()), os.O_RDONLY))
            system_lock(looked_at[0], mode)
        system_lock(fd, mode)

    monkeypatch.setattr(fcntl, "flock", be_second)

    assert replace_locked(str(index), b"new", str(private))
    assert files_below(index.parent) == ["index"]
    os.close(looked_at[0])


def test_what_killed_processes_left_is_seen_on_a_file_system_that_is_read_only(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private.mkdir(parents=True)
    for name in ("lock-0123456789abcdef", ".tmp-0123456789abcdef"):
        (private / name).touch()
    really_open = os.open

    def read_only(path: str, flags: int, *more: int) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return really_open(path, flags, *more)

    monkeypatch.setattr(os, "open", read_only)

    assert len(dead_locks(str(private))) == len([*dead_unfinished(str(private))]) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_users_private_file_is_left_and_stops_nobody(
    index: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private.mkdir()
    foreign = private / "lock-0123456789abcdef"
    foreign.touch(0o600)
    for folder in (index.parent, private):
        folder.chmod(0o777)
    monkeypatch.chdir(index.parent)  # into which others cannot come by its path
    os.seteuid(65534)
    try:
        clear_own_locks("./ckpt", ["./index"])
        assert replace_locked("./index", b"new", "./ckpt")
    finally:
        os.seteuid(0)

    assert index.read_bytes() == b"new"
    assert files_below(private) == [foreign.name]
