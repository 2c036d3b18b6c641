# SPDX-License-Identifier: MIT
"""The file of the scan cache: whatever is wrong with it, the next save is right."""

from __future__ import annotations

import errno
import marshal
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers import fsck, git
from saving import Saver, committed, content, paths, write_all
from seam import observing

from ckpt import disk
from ckpt.engine import scan_cache
from ckpt.engine.scan_cache import NEVER, Clock
from ckpt.manager import CheckpointManager

FILES = {"a": b"a\n", "d/x": b"x\n", "d/e/y": b"y\n", ".gitignore": b"*.log\n"}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = committed(tmp_path / "work", FILES)
    write_all(top, {"d/new": b"new\n"})
    return top


@pytest.fixture
def saver(top: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Saver]:
    saver = Saver(top, monkeypatch)
    saver.settle()
    yield saver
    saver.close()


def file(saver: Saver) -> Path:
    return saver.top / ".git/ckpt/scan"


def put(saver: Saver, data: bytes) -> None:
    """In a private file; another would not be believed anyway."""
    file(saver).write_bytes(data)
    file(saver).chmod(0o600)


def is_known(saver: Saver) -> bool:
    """Whether another process would know anything; then the file is as it was."""
    data = file(saver).read_bytes() if file(saver).is_file() else b""
    with CheckpointManager(saver.top) as other:
        found = scan_cache.load(other.repository)
    if data and found is not None:
        file(saver).write_bytes(data)
    return found is not None


def check(saver: Saver) -> None:
    """Another process saves what is there, and one after that knows it again."""
    write_all(saver.top, {"d/x": b"x 2\n"})
    saver.start_anew()
    saved = saver.save()
    assert content(saver.top, saved, "d/x") == b"x 2\n"
    assert content(saver.top, saved, "d/e/y") == b"y\n"
    saver.settle()
    saver.start_anew()
    saver.save()
    assert saver.read == []


# -- its content -------------------------------------------------------------------------


def test_another_process_knows_what_one_has_found(saver: Saver) -> None:
    assert is_known(saver)
    check(saver)


def test_no_damaged_byte_gets_through(saver: Saver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that were not verified must not even get to marshal, which they might crash."""
    whole = file(saver).read_bytes()

    def never(_: object) -> None:
        raise AssertionError("damaged bytes are parsed")

    with CheckpointManager(saver.top) as other, monkeypatch.context() as patch:
        patch.setattr(marshal, "loads", never)
        repo = other.repository
        for at in range(len(whole)):
            for damaged in (
                whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :],
                whole[:at],
                whole[:at] + whole[at + 1 :],
                whole[:at] + b"\0" + whole[at:],
            ):
                if damaged != whole:
                    put(saver, damaged)
                    assert scan_cache.load(repo) is None
        for more in (b"\0", b"x" * 5000):
            put(saver, whole + more)
            assert scan_cache.load(repo) is None

    assert not file(saver).exists()
    check(saver)


def with_other_number(data: bytes) -> bytes:
    end = data.index(b"\n")
    return data[: end - 1] + bytes([data[end - 1] ^ 1]) + data[end:]


@pytest.mark.parametrize(
    "change",
    [with_other_number, lambda data: b"", lambda data: bytes(len(data)), lambda data: data * 2],
)
def test_another_format_is_thrown_away(saver: Saver, change: Callable[[bytes], bytes]) -> None:
    file(saver).write_bytes(change(file(saver).read_bytes()))

    assert not is_known(saver)
    check(saver)


# -- whose it is -------------------------------------------------------------------------


def test_the_cache_of_a_copy_is_not_believed(saver: Saver, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", str(saver.top), str(copy)], check=True)
    saver.top = copy

    assert not is_known(saver)
    check(saver)


def test_the_cache_of_a_repository_that_was_moved_is_not_believed(
    saver: Saver, tmp_path: Path
) -> None:
    saver.top = saver.top.rename(tmp_path / "moved")

    assert not is_known(saver)
    check(saver)


def test_a_copy_that_was_put_in_the_place_of_the_original_is_noticed(
    saver: Saver, tmp_path: Path
) -> None:
    original = saver.top.rename(tmp_path / "original")
    subprocess.run(["cp", "-a", str(original), str(saver.top)], check=True)

    assert not is_known(saver)
    check(saver)


def test_nothing_that_came_with_an_archive_is_parsed(
    saver: Saver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole, and made to crash whoever reads it; but nobody knows where it is unpacked."""
    subprocess.run(["cp", "-a", str(saver.top), str(tmp_path / "copy")], check=True)
    monkeypatch.setattr(marshal, "loads", lambda _: pytest.fail("it is parsed"))

    with CheckpointManager(tmp_path / "copy") as other:
        assert scan_cache._read(other.repository) is None


def test_a_linked_worktree_has_its_own(saver: Saver, tmp_path: Path) -> None:
    git("worktree", "add", "-q", str(tmp_path / "linked"), cwd=saver.top)
    linked = tmp_path / "linked"
    with CheckpointManager(linked) as other:
        other.create()
        disk = Path(other.repository.private_dir)
        shutil.copyfile(file(saver), disk / "scan")
        os.chmod(disk / "scan", 0o600)

        assert scan_cache._read(other.repository) is None


def test_the_cache_goes_with_its_checkpoint(saver: Saver) -> None:
    for found in saver.manager.list():
        saver.manager.delete(found.id)

    assert not is_known(saver)
    assert not file(saver).exists()
    check(saver)


# -- what stands in its place ------------------------------------------------------------


def put_folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_bytes(b"")


@pytest.mark.parametrize(
    "put",
    [
        lambda path: path.symlink_to("whole"),
        put_folder,
        os.mkfifo,
        lambda path: path.touch(0o600),
    ],
    ids=["link", "folder", "fifo", "empty"],
)
def test_something_else_in_its_place_is_no_obstacle(
    saver: Saver, put: Callable[[Path], None]
) -> None:
    file(saver).rename(file(saver).with_name("whole"))
    put(file(saver))

    assert not is_known(saver)
    write_all(saver.top, {"d/x": b"x 2\n"})
    saver.start_anew()
    assert content(saver.top, saver.save(), "d/x") == b"x 2\n"


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o606])
def test_a_file_that_others_can_read_or_write_is_thrown_away(saver: Saver, mode: int) -> None:
    file(saver).chmod(mode)

    assert not is_known(saver)
    check(saver)
    assert file(saver).stat().st_mode & 0o777 == 0o600


def test_a_file_of_another_owner_is_thrown_away(
    saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: file(saver).stat().st_uid + 1)
        with pytest.raises(PermissionError):
            disk.read_private(str(file(saver)))


@pytest.mark.parametrize("operation", ["create", "write", "rename"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_cache_that_cannot_be_written_stops_no_save(
    saver: Saver, operation: str, error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str, path: str) -> None:
        if name == operation and os.fsdecode(path).endswith(("/ckpt/scan", "/ckpt/scan.new")):
            raise OSError(error, os.strerror(error))

    write_all(saver.top, {"d/x": b"x 1\n"})
    with observing(fail):
        saved = saver.save(check=False)

    assert content(saver.top, saved, "d/x") == b"x 1\n"
    assert not file(saver).with_name("scan.new").exists()
    check(saver)


def test_a_clock_that_cannot_be_asked_makes_no_cache(
    saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: object, *_: object) -> None:
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(os, "utime", fail)

    assert scan_cache.clock(saver.manager.repository) is NEVER


# -- several at once ---------------------------------------------------------------------


def test_two_managers_take_turns(saver: Saver) -> None:
    with CheckpointManager(saver.top) as other:
        for number in range(6):
            write_all(saver.top, {"d/x": b"x %d\n" % number, f"n{number}": b"n\n"})
            found = other.create().checkpoint if number % 2 else saver.save(check=False)
            assert found is not None
            assert content(saver.top, found, "d/x") == b"x %d\n" % number
            time.sleep(0.02)
    saver.save()


def test_several_processes_save_at_once(saver: Saver) -> None:
    code = """
import sys, time
from ckpt.manager import CheckpointManager
with CheckpointManager(sys.argv[1]) as manager:
    for number in range(8):
        with open(f"{sys.argv[1]}/d/{sys.argv[2]}", "w") as file:
            file.write(str(number))
        manager.create()
"""
    words = [sys.executable, "-c", code, str(saver.top)]
    running = [subprocess.Popen([*words, f"by{number}"]) for number in range(4)]

    assert [process.wait() for process in running] == [0] * 4
    saved = saver.save()
    assert {f"d/by{number}" for number in range(4)} <= paths(saver.top, saved)
    assert not file(saver).with_name("scan.new").exists()
    assert fsck(saver.top) == []
    check(saver)


# -- the clock ---------------------------------------------------------------------------

SECOND = 10**9
NOW = 1_800_000_000 * SECOND + 123_456_789


def status(mtime_ns: int, ctime_ns: int) -> os.stat_result:
    return os.stat_result(
        (0o100644, 1, 1, 1, 0, 0, 1, 0, mtime_ns // SECOND, ctime_ns // SECOND),
        {"st_mtime_ns": mtime_ns, "st_ctime_ns": ctime_ns},
    )


@pytest.mark.parametrize(
    ("mtime", "ctime", "is_settled"),
    [
        (NOW - SECOND, NOW - SECOND, True),
        (NOW - 200_000_000, NOW - 200_000_000, True),
        (NOW - 50_000_000, NOW - 50_000_000, False),
        (NOW, NOW, False),
        (NOW - SECOND, NOW, False),  # its time was set back
        (NOW, NOW - SECOND, False),
        (NOW + SECOND, NOW - SECOND, False),  # its time was set forward
        (NOW - SECOND, NOW + SECOND, False),  # the clock was
        (NOW // SECOND * SECOND - SECOND, NOW // SECOND * SECOND - SECOND, False),
        (NOW // SECOND * SECOND - 3 * SECOND, NOW // SECOND * SECOND - 3 * SECOND, True),
        (0, NOW - SECOND, True),
        (-SECOND, NOW - SECOND, True),
        (-(1 << 63), NOW - SECOND, False),  # which no listing can hold
    ],
)
def test_a_time_is_settled_when_no_further_change_could_have_the_same(
    mtime: int, ctime: int, is_settled: bool
) -> None:
    assert Clock(NOW).is_settled(status(mtime, ctime)) == is_settled


def test_by_no_clock_nothing_is_settled() -> None:
    assert not NEVER.is_settled(status(1, 1))


@pytest.mark.parametrize("ahead", [-3600 * SECOND, 3600 * SECOND])
def test_of_two_clocks_the_one_that_is_behind_counts(
    saver: Saver, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one of the file system may be another machine's."""
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + ahead)
    began = scan_cache.clock(saver.manager.repository).began

    assert abs(began - now - min(ahead, 0)) < 60 * SECOND
