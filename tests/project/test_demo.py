# SPDX-License-Identifier: MIT
"""demo/demo.sh does what it says, and notices if ckpt does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "demo/demo.sh"
BIN = Path(sys.executable).parent


def demo(folder: Path, scratch: Path) -> subprocess.CompletedProcess[str]:
    scratch.mkdir()
    return subprocess.run(
        ["sh", DEMO, folder],
        env={**os.environ, "TMPDIR": str(scratch)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_the_demo_ends_with_equal_bytes_and_leaves_nothing(tmp_path: Path) -> None:
    ran = demo(BIN, tmp_path / "scratch")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("\n$ git ckpt ") == 7
    assert ran.stdout.splitlines()[-1].startswith("All 8 files are equal, byte for byte")
    assert "\033" not in ran.stdout
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["printf ' ' >>src/app.py", "chmod -x check", "git add notes.txt"])
def test_the_demo_fails_if_a_rollback_is_not_exact(tmp_path: Path, harm: str) -> None:
    fake = tmp_path / "bin/git-ckpt"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\n{BIN}/git-ckpt "$@" || exit\ncase "$*" in "rollback latest") {harm} ;; esac\n'
    )
    fake.chmod(0o755)
    ran = demo(fake.parent, tmp_path / "scratch")

    assert ran.returncode == 1
    assert "FAILED: the state is not as it was" in ran.stderr
    assert list((tmp_path / "scratch").iterdir()) == []
