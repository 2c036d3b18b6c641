# SPDX-License-Identifier: MIT
"""The bench runs and tells what it saw; how long anything took is no matter here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench import __main__ as program
from bench import picture, report
from bench.processes import BenchError, isolated, run
from bench.repositories import Pair, pair
from bench.results import Goal, Row, Unit
from bench.tasks import CURVE_POINTS, CURVES, PLANNED, TASKS
from bench.work import (
    Bench,
    Measured,
    Task,
    create,
    disk_use,
    first_save,
    guard,
    listing,
    memory,
    rollback,
    save,
    save_through_git,
    unchanged,
)

TOP = Path(__file__).resolve().parents[2]
FILES = 60


def tiny(measure: Callable[[Bench], list[Measured]]) -> Callable[[Bench], list[Measured]]:
    def measured(bench: Bench) -> list[Measured]:
        return measure(replace(bench, few_files=FILES, disk_checkpoints=2, pause=0))

    return measured


def task(key: str, measure: Callable[[Bench], list[Measured]], *more: Row) -> Task:
    return Task((Row(key, f"work of {key}", "git", Goal(1.0)), *more), tiny(measure), quick=True)


def failing(bench: Bench) -> list[Measured]:
    run(["/bin/sh", "-c", "echo no luck >&2; exit 7"], bench.folder, bench.env)
    return []


@pytest.fixture
def both(tmp_path: Path) -> Pair:
    return pair(tmp_path / "work", FILES, isolated(tmp_path / "work/home"))


def test_the_repositories_are_the_same_each_time(both: Pair, tmp_path: Path) -> None:
    again = pair(tmp_path / "again", FILES, both.git.env)

    assert both.git.git("rev-parse", "HEAD") == again.ckpt.git("rev-parse", "HEAD")
    assert both.git.files == again.ckpt.files


def test_a_repository_is_made_as_it_was(both: Pair) -> None:
    both.make_pristine()
    before = sorted(str(path) for path in both.git.top.rglob("*"))
    both.edit(3, 0)
    (both.git.top / "new.txt").write_text("new\n")
    both.git.git("add", "-A")
    both.git.git("update-ref", "refs/bench/x", "HEAD")
    (both.git.git_dir / "ckpt").mkdir()

    both.make_pristine()
    assert before == sorted(str(path) for path in both.git.top.rglob("*"))
    assert both.git.git("status", "--porcelain") == ""


@pytest.mark.slow
def test_a_small_bench_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = [
        task("save", save(FILES, 2)),
        task("through-git", save_through_git(FILES)),
        task("create", create(FILES)),
        task("first", first_save(FILES)),
        task("unchanged", unchanged(FILES, "--kind", "auto")),
        task("rollback", rollback(FILES)),
        task("guard", guard(FILES)),
        task("list", listing(2)),
        task("memory", memory(FILES)),
        task(
            "disk",
            disk_use(FILES),
            Row("du", "du", "git", None),
            Row("all", "", "git", None),
            Row("trees", "", "", None),
        ),
        task("broken", failing),
    ]
    words = ["--dir", str(tmp_path / "work"), "--rounds", "1", "--output", str(tmp_path / "out")]

    assert program.main(words, tasks) == 1
    printed = capsys.readouterr()
    assert "no luck" in printed.err
    document = json.loads((tmp_path / "out/results.json").read_text())
    rows = {row["key"]: row for row in document["rows"]}
    problems = {key: row["problem"] for key, row in rows.items() if row["problem"]}
    assert problems.pop("broken") == "'sh -c echo no luck >&2; exit 7' failed (exit code 7)"
    assert problems == {}
    for key in ("save", "create", "rollback", "list"):
        assert len(rows[key]["ours"]["all"]) == len(rows[key]["theirs"]["all"]) == 1
        assert rows[key]["verdict"] in ("pass", "miss")
    assert rows["trees"]["ours"]["median"] == 0
    assert len(document["startup"]["top"]) == 10
    assert str(tmp_path) not in json.dumps(document)
    assert str(TOP) not in json.dumps(document)
    ElementTree.parse(tmp_path / "out/results.svg")


def test_one_row_can_be_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    seen = []

    def measure(bench: Bench) -> list[Measured]:
        seen.append(bench.reuse)
        return [Measured([1.0, 3.0, 2.0], [4.0, 4.0, 4.0])]

    tasks = [task("mine", measure), task("other", failing)]

    assert program.main(["--dir", str(tmp_path / "work"), "--only", "mi*"], tasks) == 0
    assert seen == [True]
    table = capsys.readouterr().out
    assert "0.50" in table
    assert "pass" in table
    assert "other" not in table


def test_an_unknown_row_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert program.main(["--dir", str(tmp_path), "--only", "teleport"]) == 1

    assert "teleport" in capsys.readouterr().err


def test_two_at_once_would_disturb_each_other(tmp_path: Path) -> None:
    with (
        program._alone(tmp_path),
        pytest.raises(BenchError, match="another bench"),
        program._alone(tmp_path),
    ):
        pass


def row(**changes: Any) -> Row:
    return replace(Row("key", "work", "git", Goal(0.5)), **changes)


def test_a_verdict_needs_a_measurement() -> None:
    assert row().verdict == ""
    assert row(ours=[1.0], theirs=[2.0]).verdict == "pass"
    assert row(ours=[1.1], theirs=[2.0]).verdict == "miss"
    assert row(ours=[1.0], theirs=[2.0], problem="it fell over").verdict == "failed"


def test_of_memory_the_worst_counts() -> None:
    limited = Goal(100, Unit.BYTES)

    assert row(goal=limited, ours=[90, 101]).verdict == "miss"
    assert row(goal=limited, ours=[90, 100]).verdict == "pass"


def test_what_comes_on_top_is_told_turn_by_turn() -> None:
    times = {"ours": [1.1, 9.2, 1.3], "theirs": [1.0, 9.0, 1.0]}

    more = row(goal=Goal(0.2, Unit.SECONDS_MORE), **times)
    assert (round(more.value or 0, 3), more.verdict) == (0.2, "pass")
    share = row(goal=Goal(9, Unit.PERCENT_MORE), **times)
    assert (round(share.value or 0), share.verdict) == (10, "miss")


def test_what_is_not_built_has_no_figures() -> None:
    for planned in PLANNED:
        assert planned.verdict == "not yet"
        assert planned.value is None
        assert not planned.ours


def test_every_goal_of_the_table_has_its_own_name() -> None:
    keys = [row.key for task in TASKS for row in task.rows] + [row.key for row in PLANNED]

    assert len(keys) == len(set(keys))
    for name, _, points in CURVES:
        assert len(points) == len(CURVE_POINTS[name])
        assert set(points) <= set(keys)


def kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((TOP / "bench/results.json").read_text(encoding="utf-8"))
    return found


def test_the_page_of_benchmarks_shows_the_results_that_are_kept() -> None:
    page = (TOP / "docs/benchmarks.md").read_text(encoding="utf-8")

    assert f"{report.BEGIN}\n\n{report.markdown(kept())}\n\n{report.END}" in page


def test_the_picture_is_that_of_the_results_that_are_kept() -> None:
    drawn = (TOP / "bench/results.svg").read_text(encoding="utf-8")

    assert drawn == picture.draw(kept())
