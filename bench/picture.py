# SPDX-License-Identifier: MIT
"""The results as a picture, for docs/benchmarks.md: SVG, written by hand, for light and dark pages.

Above, what each kind of work costs as a share of what the alternative costs, with the
goal; below, how a save grows. Works from the document that results.json holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any

from bench.results import Unit, amount

Document = Mapping[str, Any]

_TITLE = "Time that ckpt takes, beside git doing the same in the same run"

WIDTH = 860
_EDGE = 24
_BARS_LEFT, _BARS_RIGHT = 330, 700
_ROW = 34
_BAR = 14
_TOP = 92
_LONGEST = 4.0  # shares above that are cut off: the number beside the bar tells
_CHART_HEIGHT = 150
_CHART_GAP = 76

_STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.small { font-size: 11px; fill: #59636e }
.page { fill: #ffffff }
.ours { fill: #2563c9; stroke: #2563c9 }
.theirs { fill: #8a6d1f; stroke: #8a6d1f }
.line { fill: none; stroke-width: 2 }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.one { stroke: #8a6d1f; stroke-width: 2 }
.goal { stroke: #1f2328; stroke-width: 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .small { fill: #9198a1 }
  .page { fill: #0d1117 }
  .ours { fill: #6ca4ff; stroke: #6ca4ff }
  .theirs { fill: #d5b04c; stroke: #d5b04c }
  .grid { stroke: #3d444d }
  .one { stroke: #d5b04c }
  .goal { stroke: #e6edf3 }
}
"""


def draw(report: Document) -> str:
    rows = [row for row in report["rows"] if _is_drawn(row)]
    below = _TOP + len(rows) * _ROW + 40
    curves = report["growth"]
    height = below + (_CHART_HEIGHT + 84 if curves else 0)
    parts = [*_heading(), *_bars(rows), *_charts(curves, below + 44)]
    return "\n".join([*_frame(height), *parts, "</svg>", ""])


def _is_drawn(row: Document) -> bool:
    """Times that have a goal: memory and disk are in the table."""
    is_share = row["goal"] is not None and row["goal"]["unit"] == "share"
    return is_share and row["values"] == "seconds" and row["measured"] is not None


def _frame(height: int) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title">'
    )
    yield f'<title id="title">{_TITLE}</title>'
    yield f"<style>{_STYLE}</style>"
    yield f'<rect class="page" width="{WIDTH}" height="{height}" rx="6"/>'


def _heading() -> Iterator[str]:
    yield _text(_EDGE, 32, _TITLE, "title")
    yield '<rect class="ours" x="24" y="47" width="12" height="12" rx="2"/>'
    yield _text(42, 57, "ckpt")
    yield '<rect class="theirs" x="92" y="47" width="12" height="12" rx="2"/>'
    yield _text(110, 57, "git = 1")
    yield _line("goal", 174, 46, 174, 60)
    yield _text(184, 57, "at most (the goal)")


# The bars


def _bars(rows: Sequence[Document]) -> Iterator[str]:
    longest = max([1.0, *(min(_LONGEST, _largest(row)) for row in rows)])
    scale = (_BARS_RIGHT - _BARS_LEFT) / longest
    bottom = _TOP + len(rows) * _ROW
    for number in range(ceil(longest) + 1):
        if number <= longest:
            x = _BARS_LEFT + number * scale
            yield _line("grid", x, _TOP - 8, x, bottom)
            yield _text(x, bottom + 16, str(number), "small", "middle")
    one = _BARS_LEFT + scale
    for place, row in enumerate(rows):
        yield from _bar(row, _TOP + place * _ROW, scale)
    yield _line("one", one, _TOP - 8, one, bottom)
    for place, row in enumerate(rows):
        x, y = _BARS_LEFT + row["goal"]["limit"] * scale, _TOP + place * _ROW
        yield _line("goal", x, y - 1, x, y + _BAR + 7)


def _largest(row: Document) -> float:
    return max(float(row["measured"]), float(row["goal"]["limit"]))


def _bar(row: Document, y: float, scale: float) -> Iterator[str]:
    full = row["measured"] * scale
    shown = min(full, _BARS_RIGHT - _BARS_LEFT)
    yield _text(_BARS_LEFT - 12, y + 10, row["work"].replace("`", ""), anchor="end")
    yield _text(_BARS_LEFT - 12, y + 24, f"beside {row['against']}", "small", "end")
    yield (
        f'<rect class="ours" x="{_BARS_LEFT}" y="{y + 3:g}" width="{shown:.1f}" '
        f'height="{_BAR}" rx="2"/>'
    )
    if full > shown:
        yield _text(_BARS_RIGHT + 4, y + 15, "\N{RIGHTWARDS ARROW}")
    yield _text(_BARS_RIGHT + 60, y + 15, amount(row["measured"], Unit.SHARE), anchor="end")
    yield _text(_BARS_RIGHT + 72, y + 15, row["verdict"])


# The curves


def _charts(curves: Sequence[Document], top: float) -> Iterator[str]:
    if not curves:
        return
    low, high = _decades(curves)
    width = (WIDTH - 2 * _EDGE - (len(curves) - 1) * _CHART_GAP - 40) / len(curves)
    for place, curve in enumerate(curves):
        left = _EDGE + 40 + place * (width + _CHART_GAP)
        yield _text(left, top - 14, f"save, by {curve['title']}")
        yield from _axis(left, top, width, low, high)
        yield from _lines(curve["points"], left, top, width, low, high)


def _decades(curves: Sequence[Document]) -> tuple[int, int]:
    """The powers of ten, in seconds, between which all times lie."""
    times = [point[side] for c in curves for point in c["points"] for side in ("ours", "theirs")]
    low, high = floor(log10(min(times))), ceil(log10(max(times)))
    return low, max(high, low + 1)


def _axis(left: float, top: float, width: float, low: int, high: int) -> Iterator[str]:
    for power in range(low, high + 1):
        y = _height(10.0**power, top, low, high)
        yield _line("grid", left, y, left + width, y)
        label = f"{10**power} s" if power >= 0 else f"{10 ** (power + 3):g} ms"
        yield _text(left - 6, y + 4, label, "small", "end")


def _lines(
    points: Sequence[Document], left: float, top: float, width: float, low: int, high: int
) -> Iterator[str]:
    step = (width - 40) / (len(points) - 1)
    places = [left + 20 + number * step for number in range(len(points))]
    for x, point in zip(places, points, strict=True):
        yield _text(x, top + _CHART_HEIGHT + 18, f"{point['at']:,}", "small", "middle")
    for side in ("theirs", "ours"):
        heights = [_height(point[side], top, low, high) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(places, heights, strict=True))
        yield f'<polyline class="{side} line" style="fill:none" points="{path}"/>'
        for x, y in zip(places, heights, strict=True):
            yield f'<circle class="{side}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'


def _height(seconds: float, top: float, low: int, high: int) -> float:
    return top + _CHART_HEIGHT * (high - log10(seconds)) / (high - low)


# Marks


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
