# SPDX-License-Identifier: MIT
"""Adds up what sweeps and attacks did and prints it at the end of a run,
whichever process did it."""

from __future__ import annotations

from collections import Counter

import pytest

PROPERTY = "figures"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    figures: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            for name, counted in report.user_properties:
                if name == PROPERTY:
                    figures.update(counted)
    if figures:
        terminalreporter.section("figures")
        for name, count in figures.items():
            terminalreporter.line(f"{count:6} {name}")
