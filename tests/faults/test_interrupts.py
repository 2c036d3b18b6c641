# SPDX-License-Identifier: MIT
"""Ctrl-C, SIGTERM and SIGHUP at any moment, once or twice in a row: ended in order.

Real processes, and real time: the signal comes at a random moment of their life, so that it also
hits between two operations, where the sweeps with a blow at each operation cannot. With
CKPT_TORTURE=1 many more of them.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from faults.rollbacks import (
    SCENES,
    Scene,
    checkpoints,
    commit,
    has_journal,
    leftovers,
    look,
    repositories,
    save,
    temporary_objects,
)
from faults.striking import TORTURE, Driver, Sweep
from helpers import fsck, git, verified
from scenes import write

Record = Callable[[str, object], None]

TRIES = 60 if TORTURE else 3
ROLLBACKS = ["whole", "by path", "other branch"]
WAYS = ["--continue", "--abort"]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ORDERLY = {signal.SIGINT: 130, signal.SIGTERM: -signal.SIGTERM, signal.SIGHUP: -signal.SIGHUP}
PROGRAM = (sys.executable, "-I", "-c", "from ckpt.__main__ import program; program()")


@dataclass(frozen=True)
class Ended:
    code: int
    stderr: str
    sent: signal.Signals | None
    """None if it had ended before."""

    @property
    def has_begun(self) -> bool:
        """False if it was hit while Python was still starting, whose own affair that is."""
        return self.code in (0, 130) or self.stderr.startswith("interrupted\n")


class Interrupter:
    """Runs a command some times over and sends it a signal each time; the moments are drawn
    from its whole life, as far as that is known from the runs before."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._least = _seconds_of("--version")
        self._most = self._least * 2

    def run(self, cwd: Path, *words: str, twice: bool) -> Ended:
        number = self._random.choice(SIGNALS)
        delay = self._random.uniform(self._least, self._most)
        gap = self._random.choice((0.0, 0.0005, 0.002, 0.01))
        began = time.monotonic()
        process = subprocess.Popen(
            [*PROGRAM, *words],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(delay)
        in_time = process.poll() is None
        process.send_signal(number)
        if twice:
            time.sleep(gap)
            process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
        if process.returncode == 0:
            # It takes about so long; what comes later would tell nothing.
            self._most = max(self._least * 1.2, time.monotonic() - began)
        else:
            self._most *= 1.1
        return Ended(process.returncode, stderr, number if in_time else None)


def _seconds_of(*words: str) -> float:
    began = time.monotonic()
    subprocess.run([*PROGRAM, *words], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def check_end(ended: Ended) -> None:
    """In order, and by what was sent; not a word of Python's."""
    if ended.code == 0:
        return
    assert ended.sent is not None, ended
    if ended.has_begun:
        assert ended.code == ORDERLY[ended.sent], ended
        assert "Traceback" not in ended.stderr, ended
    else:
        assert ended.code in (1, -ended.sent), ended
        assert not ended.stderr.startswith("error:"), ended
        assert "ckpt/engine" not in ended.stderr and "ckpt/store" not in ended.stderr, ended


def count(sweep: Sweep, ended: Ended, command: str) -> None:
    sweep.count(f"interrupts of {command}" if ended.sent else "runs over before the signal")


def tries() -> Iterator[tuple[int, bool]]:
    for number in range(TRIES):
        yield number, number % 2 == 1


@pytest.mark.parametrize(
    ("name", "command"),
    [
        *((name, "rollback") for name in ROLLBACKS),
        *((name, "undo") for name in (ROLLBACKS if TORTURE else ROLLBACKS[:1])),
    ],
)
def test_an_interrupted_rollback_or_undo_is_finished_or_taken_back_exactly(
    name: str, command: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = SCENES[name](tmp_path / "before")
    if command == "undo":
        scene = _undoing(driver, scene)
    interrupter = Interrupter(f"{name} {command}")
    with Sweep(record_property) as sweep:
        for number, twice in tries():
            top = scene.copy()
            ended = interrupter.run(top, *scene.words, twice=twice)
            count(sweep, ended, command)
            with sweep.trying((number, ended)):
                check_end(ended)
                _recover(driver, scene, top, ended, WAYS[number // 2 % 2])
                commit(top)


def _undoing(driver: Driver, scene: Scene) -> Scene:
    """The way back, as a scene of its own."""
    gone = scene.copy("gone")
    assert driver.run(gone, *scene.words).code == 0
    return Scene(gone, ("undo",), scene.after, scene.before, checkpoints(gone))


def _recover(driver: Driver, scene: Scene, top: Path, ended: Ended, way: str) -> None:
    if has_journal(top):
        assert ended.code != 0
        recovered = driver.run(top, "rollback", way)
        assert recovered.code == 0, recovered
        return scene.check(top, scene.after if way == "--continue" else scene.before)
    if ended.code == 0:
        return scene.check(top, scene.after)
    assert not [path for path in leftovers(top) if path.endswith(".lock")]
    assert driver.run(top, "save", "next").code == 0
    # One or the other: the signal may have come when all was done.
    try:
        scene.check(top, scene.before)
    except AssertionError:
        scene.check(top, scene.after)
    return None


def test_an_interrupted_save_leaves_no_lock_and_no_half_checkpoint(
    driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = SCENES["whole"](tmp_path / "before")
    for number in range(300):
        write(scene.top, f"many/{number}", f"content {number}\n")
    before = look_again(scene)
    interrupter = Interrupter("save")
    with Sweep(record_property) as sweep:
        for number, twice in tries():
            top = before.copy()
            ended = interrupter.run(top, "save", "interrupted", twice=twice)
            count(sweep, ended, "save")
            with sweep.trying((number, ended)):
                check_end(ended)
                assert not [path for path in leftovers(top) if path.endswith(".lock")]
                assert temporary_objects(top) == []
                assert driver.run(top, "save", "again").code == 0
                before.check(top, before.before)


def look_again(scene: Scene) -> Scene:
    """The scene with what has been written into it since."""
    now = look(scene.top)
    return Scene(scene.top, ("save",), now, now, scene.checkpoints)


@pytest.mark.parametrize("command", ["prune", "gc"])
def test_an_interrupted_prune_or_gc_loses_nothing_and_the_next_one_ends_it(
    command: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    before = _many_sessions(driver, tmp_path / "before")
    words = ("prune",) if command == "prune" else ("gc",)
    every = _ids(before)
    interrupter = Interrupter(command)
    with Sweep(record_property) as sweep:
        for number, twice in tries():
            top = tmp_path / "run"
            shutil.rmtree(top, ignore_errors=True)
            shutil.copytree(before, top, symlinks=True)
            ended = interrupter.run(top, *words, twice=twice)
            count(sweep, ended, command)
            with sweep.trying((number, ended)):
                check_end(ended)
                assert not [path for path in leftovers(top) if path.endswith(".lock")]
                assert _ids(top) == every
                assert driver.run(top, *words).code == 0
                assert [path for path in leftovers(top) if not _is_private(path)] == []
                assert _ids(top) == every
                for place in repositories(top):
                    assert fsck(place) == []
                    assert verified(place) == []


def _is_private(path: str) -> bool:
    """The records that prune and gc leave for the next."""
    return path in (".git/ckpt/gc-lock", ".git/ckpt/space")


def _many_sessions(driver: Driver, top: Path) -> Path:
    top.mkdir()
    git("init", "-q", cwd=top)
    for number in range(8):
        write(top, "file", f"{number}\n" * 200)
        assert driver.run(top, "save", "--kind", "session").code == 0
        if number == 3:
            git("pack-refs", "--all", cwd=top)
    save(top, "kept")
    return top


def _ids(top: Path) -> set[str]:
    prefixes = ("refs/checkpoints", "refs/checkpoints-trash")
    refs = git("for-each-ref", "--format=%(refname)", *prefixes, cwd=top).split()
    return {os.path.basename(ref) for ref in refs}


def _wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("number", SIGNALS)
def test_a_save_that_waits_for_a_filter_ends_in_order_of_what_was_sent(
    number: signal.Signals, times: int, repo: Path, tmp_path: Path
) -> None:
    (repo / ".gitattributes").write_text("*.py filter=slow\n")
    git(
        "config",
        "filter.slow.clean",
        f"sleep 0.2; cd '{tmp_path}' && echo $$ >new && mv new pid && exec sleep 600",
    )
    (repo / "src/app.py").write_text("print('edited')\n")
    process = subprocess.Popen([*PROGRAM, "save"], stderr=subprocess.PIPE, text=True)
    _wait_for(tmp_path / "pid", process)

    for _ in range(times):
        process.send_signal(number)

    assert process.communicate(timeout=60)[1] == "interrupted\n"
    assert process.returncode == ORDERLY[number]
    assert leftovers(repo) == [] and temporary_objects(repo) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
