# SPDX-License-Identifier: MIT
"""A full disk leaves compiled modules of which only the beginning is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def listed(repo: Path, compiled: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-X", f"pycache_prefix={compiled}", "-m", "ckpt", "list"]
    return subprocess.run(words, cwd=repo, capture_output=True, text=True)


@pytest.mark.parametrize("module", ["ckpt/cli", "ckpt/errors", "ckpt/manager", "ckpt/store/refs"])
def test_the_next_command_works_where_a_module_was_cut_off(
    module: str, repo: Path, tmp_path: Path
) -> None:
    compiled = tmp_path / "compiled"
    assert listed(repo, compiled).returncode == 0
    folder, _, name = module.rpartition("/")
    (cut,) = compiled.glob(f"**/{folder}/{name}.*.pyc")
    cut.write_bytes(cut.read_bytes()[:100])

    failed = listed(repo, compiled)

    assert failed.returncode == 1
    assert failed.stderr == f"error: Python has written only a part of '{cut}'\nhint: try again\n"
    again = listed(repo, compiled)
    assert (again.returncode, again.stderr) == (0, "")
