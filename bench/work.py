# SPDX-License-Identifier: MIT
"""The work that is measured, ckpt and the alternative in turn.

Every task starts from repositories in the state in which they were built, does each turn
once for warmth without counting it, and changes who goes first from turn to turn. After a
turn both must have come to the same tree: what is quick and wrong counts as failed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import disk
from bench.processes import BenchError, Environment, git_program, run
from bench.repositories import Clone, Pair, pair
from bench.results import Row, size
from bench.sides import (
    Saved,
    Worker,
    ckpt,
    ckpt_save,
    ckpt_save_through_git,
    plumbing_save,
    tree_of,
)

CHANGED = 10
MEGABYTE = 10**6

_LIST_FORMAT = "%(refname:lstrip=2) %(creatordate:relative) %(contents:subject)" + "".join(
    f" %(trailers:key=Ckpt-{key},valueonly,separator=%x2C)"
    for key in ("Kind", "Stats", "Session", "Pinned", "Partial", "During-Rollback")
)


@dataclass(frozen=True, slots=True)
class Measured:
    ours: list[float]
    theirs: list[float]
    note: str = ""


@dataclass
class Bench:
    """Where, how often and how thoroughly."""

    folder: Path
    env: Environment
    rounds: int = 7
    large_file: int = 2**30
    disk_checkpoints: int = 200
    pause: float = 1.1
    """So long that git, which looks at whole seconds, trusts its index."""
    few_files: int = 1000
    """In the repository where their number does not matter."""
    reuse: bool = False
    """Whether checkpoints that are there already will do where many are needed."""

    def pair(self, files: int) -> Pair:
        """The repositories as they were built."""
        both = pair(self.folder, files, self.env)
        both.make_pristine()
        both.settle(self.pause)
        return both

    def pair_with_checkpoints(self, number: int) -> Pair:
        """The small repository with so many checkpoints on one side, refs on the other."""
        both = pair(self.folder, self.few_files, self.env)
        there = _count_refs(both.ckpt, "refs/checkpoints")
        if not self.reuse or there > 1.1 * number:
            both = self.pair(self.few_files)
            there = 0
        self.reuse = True  # by the next task: these are of this run
        # Of an earlier run, it may be the cache of another ckpt under the same number.
        shutil.rmtree(both.ckpt.git_dir / "ckpt", ignore_errors=True)
        with Worker(both.ckpt) as worker:
            for turn in range(there, number):
                both.edit(1, turn)
                worker.save()
        _make_refs(both.git, number)
        both.settle(self.pause)
        return both


Measure = Callable[[Bench], list[Measured]]
Turn = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Task:
    """What is measured together, and the rows of the table that it fills."""

    rows: tuple[Row, ...]
    measure: Measure
    quick: bool = False

    @property
    def key(self) -> str:
        return self.rows[0].key


def alternate(rounds: int, prepare: Callable[[int], None], ours: Turn, theirs: Turn) -> Measured:
    measured = Measured([], [])
    sides = [(ours, measured.ours), (theirs, measured.theirs)]
    for turn in range(rounds + 1):
        prepare(turn)
        for side, seconds in sides:
            seconds.append(side(turn))
        sides.reverse()
    return Measured(measured.ours[1:], measured.theirs[1:])


# Saving


def saves(
    bench: Bench,
    both: Pair,
    ours: Callable[[], Saved],
    changed: int = CHANGED,
    before: Callable[[], None] = lambda: None,
) -> Measured:
    """Each turn edits the same files anew, so that always as many differ from HEAD.

    Both sides save, and must have saved the same.
    """
    made: dict[str, Saved] = {}

    def prepare(turn: int) -> None:
        finish()
        before()
        both.edit(changed, turn)

    def save(turn: int) -> float:
        made["ckpt"] = ours()
        return made["ckpt"].seconds

    def plumb(turn: int) -> float:
        made["git"] = plumbing_save(both.git, f"turn-{turn}")
        return made["git"].seconds

    def finish() -> None:
        if made:
            _check_same_tree(both, made["ckpt"], made["git"])

    measured = alternate(bench.rounds, prepare, save, plumb)
    finish()
    return measured


def _check_same_tree(both: Pair, ours: Saved, theirs: Saved) -> None:
    mine, other = tree_of(both.ckpt, ours.ref), tree_of(both.git, theirs.ref)
    if mine != other:
        raise BenchError(f"ckpt saved the tree {mine}, git {other}")


def save(files: int, changed: int = CHANGED) -> Measure:
    def measure(bench: Bench) -> list[Measured]:
        both = bench.pair(files)
        return [saves(bench, both, lambda: ckpt_save(both.ckpt), changed)]

    return measure


def save_through_git(files: int) -> Measure:
    def measure(bench: Bench) -> list[Measured]:
        both = bench.pair(files)
        return [saves(bench, both, lambda: ckpt_save_through_git(both.ckpt))]

    return measure


def create(files: int) -> Measure:
    def measure(bench: Bench) -> list[Measured]:
        both = bench.pair(files)
        with Worker(both.ckpt) as worker:
            return [saves(bench, both, worker.save)]

    return measure


def first_save(files: int) -> Measure:
    """Every turn begins as in a fresh clone."""

    def measure(bench: Bench) -> list[Measured]:
        both = bench.pair(files)

        def renew() -> None:
            both.make_pristine()
            both.settle(bench.pause)

        return [saves(bench, both, lambda: ckpt_save(both.ckpt), before=renew)]

    return measure


def save_beside(checkpoints: int) -> Measure:
    def measure(bench: Bench) -> list[Measured]:
        both = bench.pair_with_checkpoints(checkpoints)
        return [saves(bench, both, lambda: ckpt_save(both.ckpt))]

    return measure


def unchanged(files: int, *words: str) -> Measure:
    def measure(bench: Bench) -> list[Measured]:
        both = bench.pair(files)
        ckpt_save(both.ckpt)
        both.settle(2 * bench.pause)

        def status(turn: int) -> float:
            return run([git_program(), "status", "--porcelain"], both.git.top, bench.env).seconds

        def save(turn: int) -> float:
            return ckpt_save(both.ckpt, *words).seconds

        return [alternate(bench.rounds, lambda turn: None, save, status)]

    return measure


# What every `git status` pays for the guard


def guard(files: int) -> Measure:
    """One clone has the guard, the other has not; in both, git looks at every file."""

    def measure(bench: Bench) -> list[Measured]:
        both = bench.pair(files)

        def status(clone: Clone) -> Turn:
            words = [git_program(), "status", "--porcelain"]
            return lambda turn: run(words, clone.top, bench.env).seconds

        ckpt(both.ckpt, "install", "--guard", "--hooks", "none")
        try:
            both.settle(bench.pause)
            ours, theirs = status(both.ckpt), status(both.git)
            return [alternate(3 * bench.rounds, lambda turn: None, ours, theirs)]
        finally:
            ckpt(both.ckpt, "uninstall")

    return measure


# Going back, looking


def rollback(files: int) -> Measure:
    """Eight files edited, one removed, one new."""

    def measure(bench: Bench) -> list[Measured]:
        both = bench.pair(files)
        target = ckpt_save(both.ckpt).ref.removeprefix("refs/checkpoints/")
        git = git_program()

        def wreck(turn: int) -> None:
            for clone in (both.ckpt, both.git):
                *edited, gone = clone.some_files(CHANGED - 1, turn * CHANGED)
                clone.edit(edited, f"turn {turn}")
                (clone.top / gone).unlink()
                (clone.top / f"src/new{turn}.py").write_text("new\n")

        def ours(turn: int) -> float:
            seconds = ckpt(both.ckpt, "rollback", target).seconds
            return _check_clean(both.ckpt, seconds)

        def theirs(turn: int) -> float:
            commands = (["read-tree", "--reset", "-u", "HEAD^{tree}"], ["clean", "-fd"])
            ran = [run([git, *words], both.git.top, bench.env) for words in commands]
            return _check_clean(both.git, sum(one.seconds for one in ran))

        return [alternate(bench.rounds, wreck, ours, theirs)]

    return measure


def _check_clean(clone: Clone, seconds: float) -> float:
    left = clone.git("status", "--porcelain")
    if left:
        raise BenchError(f"after going back, git status still shows\n{left}")
    return seconds


def listing(number: int) -> Measure:
    def measure(bench: Bench) -> list[Measured]:
        clone = bench.pair_with_checkpoints(number).ckpt
        refs = [git_program(), "for-each-ref", "--sort=-refname", f"--format={_LIST_FORMAT}"]

        def ours(turn: int) -> float:
            ran = ckpt(clone, "list", "-n", "0")
            if len(ran.out.splitlines()) < number:
                raise BenchError(f"'git ckpt list' shows fewer than {number} checkpoints")
            return ran.seconds

        def theirs(turn: int) -> float:
            return run([*refs, "refs/checkpoints"], clone.top, bench.env).seconds

        return [alternate(bench.rounds, lambda turn: None, ours, theirs)]

    return measure


def _count_refs(clone: Clone, prefix: str) -> int:
    return len(clone.git("for-each-ref", "--format=x", prefix).splitlines())


def _make_refs(clone: Clone, number: int) -> None:
    head = clone.git("rev-parse", "HEAD")
    folder = clone.git_dir / "refs/bench"
    folder.mkdir(parents=True, exist_ok=True)
    for place in range(number):
        (folder / f"old-{place}").write_text(head)


# Memory, disk


def memory(files: int) -> Measure:
    """The first save ever, and one with a cache."""

    def measure(bench: Bench) -> list[Measured]:
        both = bench.pair(files)
        ours, theirs = [], []
        for turn in range(2):
            both.edit(CHANGED, turn)
            ours.append(float(ckpt_save(both.ckpt).peak))
            theirs.append(float(plumbing_save(both.git, f"turn-{turn}").peak))
        return [Measured(ours, theirs)]

    return measure


def memory_of_large_file(bench: Bench) -> list[Measured]:
    """How much more a save needs with one large new file than with a small one."""
    both = bench.pair(bench.few_files)
    limits = {"CKPT_MAX_FILE_SIZE": "64GiB", "CKPT_MAX_NEW_BYTES": "64GiB"}
    peaks: dict[str, list[int]] = {"ckpt": [], "git": []}
    for length in (2**20, bench.large_file):
        for clone in (both.ckpt, both.git):
            disk.write_large_file(clone.top / "large.bin", length)
        saved = ckpt_save(both.ckpt, env=limits), plumbing_save(both.git, f"large-{length}")
        _check_same_tree(both, *saved)
        peaks["ckpt"].append(saved[0].peak)
        peaks["git"].append(saved[1].peak)
    both.make_pristine()
    ours, theirs = (max(0.0, float(large - small)) for small, large in peaks.values())
    shown = " and ".join(size(peak) for peak in peaks["ckpt"])
    note = f"{shown} with one new file of 1 and of {bench.large_file >> 20} MiB"
    return [Measured([ours], [theirs], note)]


def disk_use(files: int) -> Measure:
    """Bytes by length and as the file system allots them, and trees written once more.

    The scan cache is there once, however many checkpoints there are: it is counted apart.
    """

    def measure(bench: Bench) -> list[Measured]:
        both = bench.pair(files)
        existing = disk.trees(both.ckpt)
        before = [disk.usage(clone.git_dir) for clone in (both.ckpt, both.git)]
        own_before = disk.usage(both.ckpt.git_dir / "ckpt")
        with Worker(both.ckpt) as worker:
            for turn in range(bench.disk_checkpoints):
                both.edit(CHANGED, turn, first=turn * CHANGED)
                saved = worker.save(), plumbing_save(both.git, f"turn-{turn}")
        _check_same_tree(both, *saved)
        after = [disk.usage(clone.git_dir) for clone in (both.ckpt, both.git)]
        ours, theirs = (end - start for start, end in zip(before, after, strict=True))
        own = disk.usage(both.ckpt.git_dir / "ckpt") - own_before
        kept = ours - own
        note = f"{kept.files} files, {kept.packs} packs; git {theirs.files}, {theirs.packs} packs"
        again = disk.stored_again(both.ckpt, existing)
        return [
            Measured([kept.length], [theirs.length], note),
            Measured([kept.allotted], [theirs.allotted]),
            Measured([ours.length], [theirs.length], f"{size(own.length)} in .git/ckpt"),
            Measured([float(again)], []),
        ]

    return measure
