# SPDX-License-Identifier: MIT
"""What a long life with ckpt costs everybody else: thousands of saves, then plain git.

An agent works all day: so many checkpoints of kind `auto`, three files changed before each, in
sessions one after the other, with default settings. Then git's own commands that look at every
ref or file are timed beside a clone that has never heard of ckpt.
"""

from __future__ import annotations

from bench import disk
from bench.processes import git_program, run
from bench.repositories import Clone, Pair
from bench.results import size
from bench.sides import Worker
from bench.work import Bench, Measure, Measured, Turn, alternate

_CHANGED = 3
_SESSIONS = 10
COMMANDS = (
    ("status", ("status", "--porcelain")),
    ("log", ("log", "--all", "--oneline")),
    ("fetch", ("fetch", "origin")),
)


def after_saves(number: int) -> Measure:
    """A row for each command, and one for the refs that are left."""

    def measure(bench: Bench) -> list[Measured]:
        both = bench.pair(bench.few_files)
        left = _live(both, number)
        both.ckpt.git("checkout", "-q", "-f")
        both.settle(bench.pause)
        rows = []
        for _, words in COMMANDS:
            ours, theirs = _timed(both.ckpt, words), _timed(both.git, words)
            rows.append(alternate(bench.rounds, lambda turn: None, ours, theirs))
        return [*rows, left]

    return measure


def _live(both: Pair, number: int) -> Measured:
    """Take the checkpoints; tells how many refs are left, and of what else there is more."""
    before = disk.usage(both.ckpt.git_dir)
    for session in range(_SESSIONS):
        with Worker(both.ckpt, f"session-{session}") as worker:
            for turn in range(session, number, _SESSIONS):
                files = both.ckpt.some_files(_CHANGED, turn * _CHANGED)
                both.ckpt.edit(files, f"turn {turn}")
                worker.save()
    grown = disk.usage(both.ckpt.git_dir) - before
    refs = both.ckpt.git("for-each-ref", "--format=x", "refs/checkpoints").count("x")
    trash = both.ckpt.git("for-each-ref", "--format=x", "refs/checkpoints-trash").count("x")
    loose = sum(1 for _ in (both.ckpt.git_dir / "objects").glob("??/*"))
    note = f"{trash:,} in the trash, {loose:,} loose objects, {grown.packs} packs"
    return Measured([float(refs)], [], f"{note}, {size(grown.length)} more in all")


def _timed(clone: Clone, words: tuple[str, ...]) -> Turn:
    return lambda turn: run([git_program(), *words], clone.top, clone.env).seconds
