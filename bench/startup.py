# SPDX-License-Identifier: MIT
"""What starting costs before any work is done: `python -X importtime`, added up.

That option slows imports down, so the seconds of single modules are for comparison with
one another; the time of the bare interpreter and of `git-ckpt --version` are true ones.
"""

from __future__ import annotations

import re
import sys
from statistics import median
from typing import Any

from bench.processes import run
from bench.repositories import Clone
from bench.sides import ckpt_program, with_ckpt
from bench.work import Bench

_LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \| *(\S+)")
_TOP = 10
_FILES = 100  # their number does not matter here


def measure(bench: Bench) -> dict[str, Any]:
    """For a save, which needs the most."""
    both = bench.pair(_FILES)
    both.edit(1, 0)
    clone = both.ckpt
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "git-ckpt --version": [*ckpt_program(), "--version"],
    }
    seconds = {name: _median(bench, clone, words) for name, words in commands.items()}
    program, *words = ckpt_program()
    words = [program, "-X", "importtime", *words, "save"]
    imported = _imported(run(words, clone.top, with_ckpt(clone.env)).err)
    top = sorted(imported.items(), key=lambda item: -item[1])[:_TOP]
    return {
        "seconds": seconds,
        "modules": len(imported),
        "import_seconds": round(sum(imported.values()), 5),
        "top": [{"module": name, "seconds": round(value, 5)} for name, value in top],
    }


def _median(bench: Bench, clone: Clone, words: list[str]) -> float:
    env = with_ckpt(clone.env)
    return round(median(run(words, clone.top, env).seconds for _ in range(bench.rounds)), 5)


def _imported(text: str) -> dict[str, float]:
    return {name: int(spent) / 10**6 for spent, name in _LINE.findall(text)}
