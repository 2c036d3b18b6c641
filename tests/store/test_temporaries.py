# SPDX-License-Identifier: MIT
"""What a killed process left in the object store goes, and what a living one is at stays."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from byhand import files_below, object_store
from seam import observe

from ckpt import disk
from ckpt.git import objects, temporaries
from ckpt.git.pack_writer import release_left_over
from ckpt.git.temporaries import (
    KEPT_BY_US,
    TEMPORARY_INDEX,
    TEMPORARY_OBJECT,
    Temporaries,
    clear_dead,
    dead_files,
)
from ckpt.locks import NOT_SHARED

STEM = "pack-" + 20 * "ab"
# Writes what a save writes, tells that it has, and waits for its end.
WRITER = """
import sys
from byhand import object_store
from pathlib import Path
from ckpt.git import objects as pending

pending._MOST_HELD = 100
store = object_store(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    store.add(b"blob", b"%d of a killed process" % number)
if sys.argv[3] == "flushed":
    store.flush()
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def writer(folder: Path, count: int, until: str = "written") -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(count), until],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def save(folder: Path) -> None:
    with closing(object_store(folder)) as store:
        store.add(b"blob", b"of the next one")
        store.flush()


def unfinished(folder: Path) -> list[str]:
    return [path for path in files_below(folder) if "tmp_" in path or path.endswith(".keep")]


@pytest.mark.parametrize("count", [20, 300])
def test_the_next_save_takes_away_what_a_killed_one_left(count: int, tmp_path: Path) -> None:
    with writer(tmp_path, count):
        pass
    assert len(unfinished(tmp_path)) >= 2

    save(tmp_path)
    assert unfinished(tmp_path) == []


def test_a_pack_that_is_finished_stays_and_is_git_s(tmp_path: Path) -> None:
    with writer(tmp_path, 300, "flushed"):
        pass
    assert [path for path in unfinished(tmp_path) if path.endswith(".keep")]

    save(tmp_path)
    assert unfinished(tmp_path) == []
    with closing(object_store(tmp_path)) as store:
        assert store.has(store.hash(b"blob", b"299 of a killed process"))


@pytest.mark.parametrize("count", [20, 300])
def test_of_a_living_process_nothing_goes(count: int, tmp_path: Path) -> None:
    with writer(tmp_path, count):
        before = unfinished(tmp_path)
        save(tmp_path)
        assert clear_dead(str(tmp_path)) == []
        assert unfinished(tmp_path) == before != []


def half_a_pack(folder: Path, noted: str = STEM) -> Temporaries:
    """As a process leaves it that died between the names of a pack and of its index."""
    (folder / "pack").mkdir()
    for suffix in (".pack", ".keep"):
        (folder / "pack" / (STEM + suffix)).write_bytes(KEPT_BY_US)
    made = Temporaries(str(folder), NOT_SHARED)
    index = folder / "pack" / made.name(TEMPORARY_INDEX)
    index.write_bytes(b"of that pack" + KEPT_BY_US[-20:] + bytes(20))
    made.note_pack(noted)
    return made


def forget(made: Temporaries) -> None:
    """All that a kill does to a lock."""
    os.close(made._fd)


def test_a_pack_without_an_index_goes(tmp_path: Path) -> None:
    forget(half_a_pack(tmp_path))
    clear_dead(str(tmp_path))

    assert files_below(tmp_path) == []


@pytest.mark.parametrize("index", [None, b"", b"of another" + bytes(40)])
def test_a_pack_that_had_an_index_stays_and_stays_kept_though_that_is_gone(
    index: bytes | None, tmp_path: Path
) -> None:
    forget(half_a_pack(tmp_path))
    (unfinished,) = (tmp_path / "pack").glob("tmp_idx_*")
    unfinished.unlink()
    if index is not None:
        unfinished.write_bytes(index)
    clear_dead(str(tmp_path))
    os.utime(tmp_path / f"pack/{STEM}.keep", (0, 0))

    assert release_left_over(str(tmp_path / "pack")) == []
    assert files_below(tmp_path) == [f"pack/{STEM}.keep", f"pack/{STEM}.pack"]


def test_a_pack_that_is_visible_only_loses_what_keeps_it_from_git(tmp_path: Path) -> None:
    forget(half_a_pack(tmp_path))
    (tmp_path / f"pack/{STEM}.idx").write_bytes(b"")
    clear_dead(str(tmp_path))

    assert files_below(tmp_path) == [f"pack/{STEM}.idx", f"pack/{STEM}.pack"]


@pytest.mark.parametrize("noted", ["../victim", "victim", "pack-12", "./" + STEM])
def test_a_mark_cannot_name_anything_but_a_pack(noted: str, tmp_path: Path) -> None:
    made = half_a_pack(tmp_path)
    victims = [f"pack/{noted}{suffix}" for suffix in (".pack", ".idx", ".keep")]
    for name in victims:
        (tmp_path / name).write_bytes(KEPT_BY_US)
    os.pwrite(made._fd, noted.encode().ljust(60) + b"\n", 0)
    forget(made)
    clear_dead(str(tmp_path))

    assert [name for name in victims if not (tmp_path / name).exists()] == []


def test_who_is_killed_while_clearing_up_leaves_the_rest_to_the_next(tmp_path: Path) -> None:
    with writer(tmp_path, 20):
        pass
    (left,) = dead_files(str(tmp_path))
    for path in left[:7]:
        os.unlink(path)

    assert clear_dead(str(tmp_path)) == left[7:]
    assert files_below(tmp_path) == []


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, end: str, times: int = 1) -> Iterator[None]:
    """A file of a name that ends so cannot be taken away, as a disk fails now and then."""
    failed: list[object] = []

    def fail(operation: str, path: str) -> None:
        if operation == "unlink" and str(path).endswith(end) and len(failed) < times:
            failed.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    observe(fail)
    yield
    assert len(failed) == times
    monkeypatch.undo()


def test_what_could_not_be_taken_away_once_goes_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writer(tmp_path, 20):
        pass
    with failing(monkeypatch, "_1"):
        clear_dead(str(tmp_path))

    assert len(files_below(tmp_path)) == 2
    clear_dead(str(tmp_path))
    assert files_below(tmp_path) == []


def test_nor_is_what_a_process_could_not_take_away_forgotten_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_MOST_HELD", 10)
    with closing(object_store(tmp_path)) as store:
        for number in range(3):
            store.add(b"blob", b"%d that nobody needs" % number)
        with failing(monkeypatch, "_1", times=2):  # it is tried once more at the end
            store.discard()

    assert len(files_below(tmp_path)) == 2
    clear_dead(str(tmp_path))
    assert files_below(tmp_path) == []


def test_nor_is_what_keeps_a_pack_from_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(object_store(tmp_path)) as store:
        store.add_kept(b"blob", b"in a pack of its own")
        with failing(monkeypatch, ".keep"), pytest.raises(OSError):
            store.discard()

    kept = [path for path in files_below(tmp_path) if path.endswith(".keep")]
    assert len(kept) == 1
    clear_dead(str(tmp_path))
    assert {path.rpartition(".")[2] for path in files_below(tmp_path)} == {"pack", "idx"}


def test_files_of_git_and_of_nobody_stay(tmp_path: Path) -> None:
    forget(half_a_pack(tmp_path, "pack-none"))
    names = ["tmp_obj_Xy12Zz", "tmp_obj_0123456789abcdef_1", "ab/tmp_obj_Xy12Zz"]
    (tmp_path / "ab").mkdir()
    for name in names:
        (tmp_path / name).write_bytes(b"half")
    clear_dead(str(tmp_path))

    assert {*names} <= {*files_below(tmp_path)}


def test_a_mark_that_somebody_took_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    marks: list[str] = []

    def taken_before(lock: Callable[[int, int], None]) -> Callable[[int, int], None]:
        def flock(fd: int, mode: int) -> None:
            marks.extend(files_below(tmp_path))
            if len(marks) == 1:
                (tmp_path / marks[0]).unlink()
            lock(fd, mode)

        return flock

    monkeypatch.setattr(fcntl, "flock", taken_before(fcntl.flock))
    made = Temporaries(str(tmp_path), NOT_SHARED)
    made.name(TEMPORARY_OBJECT)
    monkeypatch.undo()

    assert len(marks) == 2
    assert files_below(tmp_path) == marks[1:]
    assert clear_dead(str(tmp_path)) == []
    made.end()
    assert files_below(tmp_path) == []


def test_a_mark_that_somebody_looks_at_when_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = iter([False, True])
    monkeypatch.setattr(temporaries, "try_lock", lambda fd, mode: next(locks))
    made = Temporaries(str(tmp_path), NOT_SHARED)
    made.name(TEMPORARY_OBJECT)

    assert len(files_below(tmp_path)) == 1
    assert [*locks] == []
    made.end()


@pytest.mark.parametrize("nth", [1, 2])
def test_an_interrupt_just_after_a_file_was_made_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """The first is the mark. Nobody has the handle of either yet."""
    create, made = disk.create, []

    def interrupted(path: str, *rest: int) -> int:
        made.append(create(path, *rest))
        if len(made) == nth:
            raise KeyboardInterrupt
        return made[-1]

    monkeypatch.setattr(disk, "create", interrupted)
    with closing(object_store(tmp_path)) as store, pytest.raises(KeyboardInterrupt):
        store.add(b"blob", b"hello\n")
        store.flush()
    for fd in made[nth - 1 :]:
        os.close(fd)

    assert len(made) == nth
    assert files_below(tmp_path) == []


def test_what_cannot_be_taken_away_is_in_nobodys_way(tmp_path: Path) -> None:
    token = 8 * "ab"
    (tmp_path / f"{TEMPORARY_OBJECT}{token}").write_bytes(b"")
    (tmp_path / f"{TEMPORARY_OBJECT}{token}_1").mkdir()
    os.mkfifo(tmp_path / f"{TEMPORARY_OBJECT}{8 * 'cd'}")
    (tmp_path / f"{TEMPORARY_OBJECT}{8 * 'ef'}").mkdir()

    assert clear_dead(str(tmp_path)) == [str(tmp_path / f"{TEMPORARY_OBJECT}{token}")]
    save(tmp_path)


def test_a_pack_that_somebody_else_keeps_stays_kept(tmp_path: Path) -> None:
    forget(half_a_pack(tmp_path))
    (tmp_path / f"pack/{STEM}.idx").write_bytes(b"")
    (tmp_path / f"pack/{STEM}.keep").write_bytes(b"for a clone that borrows it\n")
    clear_dead(str(tmp_path))

    assert (tmp_path / f"pack/{STEM}.keep").exists()


def test_a_process_that_sleeps_for_hours_keeps_its_pack(tmp_path: Path) -> None:
    made = half_a_pack(tmp_path)
    os.utime(tmp_path / f"pack/{STEM}.keep", (0, 0))

    assert release_left_over(str(tmp_path / "pack")) == []
    made.end()
    assert len(release_left_over(str(tmp_path / "pack"))) == 2
