# SPDX-License-Identifier: MIT
"""What the bench says: the table on the terminal and in docs/benchmarks.md, and the JSON document.

Works from the document alone, so that a table can be made again from an old one. It holds
nothing that tells where on the machine anything is.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.processes import BenchError, git_program
from bench.results import Row, Unit, amount, duration
from bench.tasks import CURVE_POINTS, CURVES

SCHEMA = 1
BEGIN, END = "<!-- from bench/results.json -->", "<!-- end -->"

Document = Mapping[str, Any]


def document(rows: Sequence[Row], startup: Document | None, rounds: int) -> dict[str, Any]:
    listed = [row.to_json() for row in rows]
    return {
        "schema": SCHEMA,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "rounds": rounds,
        "machine": machine(),
        "versions": versions(),
        "rows": listed,
        "growth": [curve for name, title, _ in CURVES if (curve := _curve(name, title, listed))],
        "startup": startup,
    }


def _curve(name: str, title: str, rows: Sequence[Document]) -> dict[str, Any] | None:
    """The points that were measured; fewer than two are no curve."""
    found = {row["key"]: row for row in rows if row["ours"] and row["theirs"]}
    keys = next(keys for known, _, keys in CURVES if known == name)
    points = [
        {"at": at, "ours": found[key]["ours"]["median"], "theirs": found[key]["theirs"]["median"]}
        for at, key in zip(CURVE_POINTS[name], keys, strict=True)
        if key in found
    ]
    return {"key": name, "title": title, "points": points} if len(points) > 1 else None


def machine() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_at_the_end": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.processor()


def versions() -> dict[str, str]:
    import ckpt

    said = subprocess.run([git_program(), "--version"], capture_output=True, text=True).stdout
    return {
        "ckpt": ckpt.__version__,
        "python": platform.python_version(),
        "git": said.removeprefix("git version ").strip(),
        "dulwich": version("dulwich"),
    }


# The table


HEAD = ("work", "beside", "at most", "measured", "", "ckpt", "beside it")


def cells(row: Document) -> tuple[str, ...]:
    goal, unit = "", Unit.SHARE
    if row["goal"]:
        unit = Unit(row["goal"]["unit"])
        goal = amount(row["goal"]["limit"], unit)
    measured = "" if row["measured"] is None else amount(row["measured"], unit)
    values = Unit(row["values"])
    sides = [_side(row[side], values) for side in ("ours", "theirs")]
    return (row["work"], row["against"] or "", goal, measured, row["verdict"] or "", *sides)


def _side(summary: Document | None, values: Unit) -> str:
    if summary is None:
        return ""
    if values is Unit.SECONDS:
        return f"{duration(summary['median'])} (min {duration(summary['min'])})"
    return amount(max(summary["all"]), values)


def text(report: Document) -> Iterator[str]:
    """For the terminal."""
    rows = [HEAD, *(cells(row) for row in report["rows"])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()
    yield ""
    for row in report["rows"]:
        if row["note"]:
            yield f"{row['key']}: {row['note']}"
        if row["problem"] and row["verdict"] == "failed":
            yield f"{row['key']}: {row['problem']}"
    for curve in report["growth"]:
        yield from _curve_lines(curve)
    if report["startup"]:
        yield from _startup_lines(report["startup"])
    yield summary(report)


def _curve_lines(curve: Document) -> Iterator[str]:
    yield f"save, by {curve['title']}:"
    for point in curve["points"]:
        sides = f"ckpt {duration(point['ours']):>8}   git {duration(point['theirs']):>8}"
        yield f"  {point['at']:>7,}   {sides}"


def _startup_lines(startup: Document) -> Iterator[str]:
    for name, seconds in startup["seconds"].items():
        yield f"{name}: {duration(seconds)}"
    spent = duration(startup["import_seconds"])
    yield f"imports of a save: {startup['modules']} modules, {spent} (under -X importtime), most in"
    for entry in startup["top"]:
        yield f"  {duration(entry['seconds']):>8}  {entry['module']}"


def summary(report: Document) -> str:
    verdicts = [row["verdict"] for row in report["rows"] if row["verdict"]]
    counts = [f"{verdicts.count(word)} {word}" for word in ("pass", "miss", "failed", "not yet")]
    used = report["versions"]
    with_what = f"Python {used['python']}, git {used['git']}, dulwich {used['dulwich']}"
    return f"{', '.join(counts)}; {report['rounds']} rounds, medians; {with_what}"


def markdown(report: Document) -> str:
    """For docs/benchmarks.md: the rows that have a goal."""
    rows = [cells(row) for row in report["rows"] if row["goal"]]
    lines = [f"| {' | '.join(row)} |" for row in ((*HEAD[:4], "goal", *HEAD[5:]), *rows)]
    lines.insert(1, "|---" * len(HEAD) + "|")
    used, on = report["versions"], report["machine"]
    lines += [
        "",
        f"Measured on {report['date'][:10]} with git {used['git']}, Python {used['python']} and "
        f"dulwich {used['dulwich']},",
        f"{on['cores']} cores ({on['processor']}), {report['rounds']} rounds, medians.",
    ]
    return re.sub(r" +", " ", "\n".join(lines))


def put_into(page: Path, report: Document) -> None:
    """Replace what stands between the two marks."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise BenchError(f"'{page.name}' has no place for the table")
    parts = (before, begin, "\n\n", markdown(report), "\n\n", end, after)
    page.write_text("".join(parts), encoding="utf-8")
