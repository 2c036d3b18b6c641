# SPDX-License-Identifier: MIT
"""The rows of the table: what is done, beside what, and what it may cost at most.

Rows without a goal are there for the curves: how the cost grows.
"""

from __future__ import annotations

from bench.growth import COMMANDS, after_saves
from bench.results import Goal, Row, Unit
from bench.work import (
    MEGABYTE,
    Measure,
    Task,
    create,
    disk_use,
    first_save,
    guard,
    listing,
    memory,
    memory_of_large_file,
    rollback,
    save,
    save_beside,
    save_through_git,
    unchanged,
)

PLUMBING = "plumbing"
STATUS = "git status --porcelain"


def _timed(
    key: str,
    work: str,
    goal: float | None,
    measure: Measure,
    against: str = PLUMBING,
    quick: bool = False,
) -> Task:
    row = Row(key, work, against, None if goal is None else Goal(goal))
    return Task((row,), measure, quick)


TASKS = (
    _timed("save-7000", "save, 7,000 files, 10 changed", 1.0, save(7000), quick=True),
    _timed("save-100000", "save, 100,000 files, 10 changed", 0.8, save(100_000)),
    _timed(
        "through-git-7000",
        "save through `git ckpt`, 7,000 files",
        1.0,
        save_through_git(7000),
        quick=True,
    ),
    _timed(
        "through-git-100000",
        "save through `git ckpt`, 100,000 files",
        0.8,
        save_through_git(100_000),
    ),
    _timed("create-7000", "manager.create(), 7,000 files", 0.4, create(7000), quick=True),
    _timed("create-100000", "manager.create(), 100,000 files", 0.6, create(100_000)),
    _timed("first-100000", "first save ever, 100,000 files", 1.5, first_save(100_000)),
    _timed("first-7000", "first save ever, 7,000 files", None, first_save(7000)),
    _timed(
        "unchanged-7000",
        "save with nothing changed, 7,000 files",
        2,
        unchanged(7000),
        STATUS,
        quick=True,
    ),
    _timed(
        "unchanged-auto-7000",
        "the same by a trigger (no new ref)",
        2,
        unchanged(7000, "--kind", "auto"),
        STATUS,
        quick=True,
    ),
    _timed(
        "rollback-7000",
        "rollback of 10 files, 7,000 files",
        1.5,
        rollback(7000),
        "read-tree --reset -u, clean -fd",
        quick=True,
    ),
    Task(
        (
            Row(
                "guard-7000",
                "guard on git status, 7,000 files",
                "git status",
                Goal(0.008, Unit.SECONDS_MORE),
            ),
        ),
        guard(7000),
        quick=True,
    ),
    Task(
        (
            Row(
                "guard-100000",
                "guard on git status, 100,000 files",
                "git status",
                Goal(6, Unit.PERCENT_MORE),
            ),
        ),
        guard(100_000),
    ),
    # Each of these three adds to the checkpoints of the one before.
    _timed("checkpoints-100", "save beside 100 checkpoints", None, save_beside(100)),
    _timed("list-1000", "list of 1,000 checkpoints", 3, listing(1000), "for-each-ref, same fields"),
    _timed("checkpoints-1000", "save beside 1,000 checkpoints", None, save_beside(1000)),
    Task(
        (
            Row(
                "memory-100000",
                "peak memory, 100,000 files",
                PLUMBING,
                Goal(150 * MEGABYTE, Unit.BYTES),
                values=Unit.BYTES,
            ),
        ),
        memory(100_000),
    ),
    Task(
        (
            Row(
                "memory-large",
                "peak memory: more for a large file",
                PLUMBING,
                Goal(8 * MEGABYTE, Unit.BYTES),
                values=Unit.BYTES,
            ),
        ),
        memory_of_large_file,
        quick=True,
    ),
    Task(
        (
            Row(
                "disk-7000",
                "200 checkpoints: bytes of objects and refs",
                PLUMBING,
                Goal(1.0),
                values=Unit.BYTES,
            ),
            Row(
                "disk-du-7000",
                "the same as du counts",
                PLUMBING,
                Goal(1.0),
                values=Unit.BYTES,
            ),
            Row(
                "disk-all-7000",
                "the same, by length, with the scan cache",
                PLUMBING,
                None,
                values=Unit.BYTES,
            ),
            Row(
                "disk-trees-7000",
                "200 checkpoints: trees stored again",
                "",
                Goal(0, Unit.COUNT),
                values=Unit.COUNT,
            ),
        ),
        disk_use(7000),
    ),
    Task(
        (
            *(
                Row(f"after-2000-{name}", f"git {name} after 2,000 saves", "a plain clone", None)
                for name, _ in COMMANDS
            ),
            Row("after-2000-refs", "checkpoints left of 2,000", "", None, values=Unit.COUNT),
        ),
        after_saves(2000),
    ),
    _timed("save-1000", "save, 1,000 files, 10 changed", None, save(1000), quick=True),
    _timed("changed-1", "save, 7,000 files, 1 changed", None, save(7000, 1)),
    _timed("changed-100", "save, 7,000 files, 100 changed", None, save(7000, 100)),
    _timed("changed-1000", "save, 7,000 files, 1,000 changed", None, save(7000, 1000)),
)

# Part of the contract, not built yet: no figures.
PLANNED: tuple[Row, ...] = ()

# What grows, and the rows in which it does.
CURVES = (
    ("files", "files in the repository", ("save-1000", "save-7000", "save-100000")),
    ("changed", "changed files", ("changed-1", "save-7000", "changed-100", "changed-1000")),
    ("checkpoints", "checkpoints", ("save-1000", "checkpoints-100", "checkpoints-1000")),
)
CURVE_POINTS = {
    "files": (1000, 7000, 100_000),
    "changed": (1, 10, 100, 1000),
    "checkpoints": (0, 100, 1000),
}
