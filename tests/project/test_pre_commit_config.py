# SPDX-License-Identifier: MIT
"""Our own .pre-commit-config.yaml: valid, and nothing in it is downloaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFIG = Path(__file__).resolve().parents[2] / ".pre-commit-config.yaml"


def test_pre_commit_accepts_the_config() -> None:
    words = [sys.executable, "-m", "pre_commit", "validate-config", CONFIG]
    ran = subprocess.run(words, capture_output=True, text=True)

    assert (ran.returncode, ran.stderr) == (0, "")


def test_every_hook_is_local_and_runs_what_make_installed() -> None:
    lines = [line.strip() for line in CONFIG.read_text(encoding="utf-8").splitlines()]

    assert {line for line in lines if line.startswith("- repo:")} == {"- repo: local"}
    entries = [line for line in lines if line.startswith("entry:")]
    assert entries
    assert all(line.startswith("entry: .venv/bin/") for line in entries)
    assert lines.count("language: system") == len(entries)
