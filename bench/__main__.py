# SPDX-License-Identifier: MIT
"""`python -m bench`: builds what is missing, measures, prints, and keeps the results.

`--only` is for working on one thing: it measures some rows and writes nothing. The
repositories stay in a folder of the system's temporary one, or in that named by `--dir`
or CKPT_BENCH_DIR.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from time import perf_counter

from bench import picture, report, startup
from bench.processes import BenchError, isolated
from bench.results import Row
from bench.sides import CHECKOUT
from bench.tasks import PLANNED, TASKS
from bench.work import Bench, Task

STARTUP = "startup"


def main(words: Sequence[str] | None = None, tasks: Sequence[Task] = TASKS) -> int:
    given = _parser().parse_args(words)
    if given.list:
        print("\n".join([*(row.key for task in tasks for row in task.rows), STARTUP]))
        return 0
    try:
        return _run(given, _chosen(tasks, given.only, given.quick))
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    folder = os.environ.get("CKPT_BENCH_DIR") or os.path.join(tempfile.gettempdir(), "ckpt-bench")
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--list", action="store_true", help="the names of the rows")
    parser.add_argument(
        "--only",
        action="append",
        metavar="ROW",
        help="only this row, or those like 'save-*'; repeatable",
    )
    parser.add_argument("--quick", action="store_true", help="under a minute, 3 rounds")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often (default: 7)")
    parser.add_argument("--dir", type=_folder, default=folder, help="where the repositories are")
    parser.add_argument(
        "--output", type=_folder, metavar="DIR", help="write results.json and results.svg there"
    )
    parser.add_argument("--docs", action="store_true", help="and the table into docs/benchmarks.md")
    return parser


def _folder(word: str) -> Path:
    return Path(word).resolve()  # at once: the bench changes the current folder


def _run(given: argparse.Namespace, tasks: Sequence[Task]) -> int:
    bench = _bench(given)
    with _alone(bench.folder):
        rows = [row for task in tasks for row in _measure(bench, task)]
        wanted = not given.only or STARTUP in given.only
        started = startup.measure(bench) if wanted else None
    if given.output or not given.only:
        rows += PLANNED
    found = report.document(_in_order(rows), started, bench.rounds)
    print("\n".join(report.text(found)))
    if given.output:
        _write(given.output, found)
    if given.docs:
        report.put_into(CHECKOUT / "docs/benchmarks.md", found)
    return 1 if any(row.verdict == "failed" for row in rows) else 0


def _chosen(tasks: Sequence[Task], only: list[str] | None, quick: bool) -> list[Task]:
    if only is None:
        return [task for task in tasks if task.quick or not quick]
    chosen = [
        task
        for task in tasks
        if any(fnmatchcase(row.key, pattern) for row in task.rows for pattern in only)
    ]
    if not chosen and STARTUP not in only:
        raise BenchError(f"no row is called '{only[0]}'; --list shows the names")
    return chosen


def _bench(given: argparse.Namespace) -> Bench:
    bench = Bench(given.dir, isolated(given.dir / "home"), reuse=bool(given.only))
    if given.quick:
        bench = replace(bench, rounds=3, large_file=2**27, disk_checkpoints=20)
    return replace(bench, rounds=given.rounds) if given.rounds else bench


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with open(folder / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchError(f"another bench runs in '{folder}'; --dir takes another") from None
        yield


def _measure(bench: Bench, task: Task) -> list[Row]:
    """The task's rows, filled; what fails is told in them and stops nothing else."""
    started = perf_counter()
    print(f"{task.key} ...", end="", flush=True, file=sys.stderr)
    try:
        found = task.measure(bench)
    except (BenchError, OSError, UnicodeError) as error:
        rows = [replace(row, problem=str(error)) for row in task.rows]
    else:
        rows = [
            replace(row, ours=one.ours, theirs=one.theirs, note=one.note)
            for row, one in zip(task.rows, found, strict=True)
        ]
    print(f" {perf_counter() - started:.0f} s", file=sys.stderr)
    if rows[0].problem:
        print(f"error: {rows[0].problem}", file=sys.stderr)
    return rows


def _in_order(rows: list[Row]) -> list[Row]:
    """Goals first."""
    return sorted(rows, key=lambda row: row.goal is None)


def _write(folder: Path, found: report.Document) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=2) + "\n"
    (folder / "results.json").write_text(text, encoding="utf-8")
    (folder / "results.svg").write_text(picture.draw(found), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
