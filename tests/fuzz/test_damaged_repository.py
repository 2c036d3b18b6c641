# SPDX-License-Identifier: MIT
"""Whatever has become of one file in the git dir, each command works or says why it does not.

That nobody meets a traceback, nor a line that calls it a bug in ckpt, is what `ckpt_here` makes
sure of for itself. An error is one line and, at most, one of advice.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fuzz.damage import Edit, damaged, edits
from helpers import ckpt_here, git
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("CKPT_FUZZ_EXAMPLES", "12"))
COMMANDS = (
    ("list", "--json"),
    ("status",),
    ("save", "again"),
    ("rollback", "latest~1"),
    ("undo",),
    ("uninstall",),
)


@pytest.fixture
def model(repo: Path, tmp_path: Path) -> Path:
    """A repository in which there is one of nearly every file."""
    for number in range(3):
        (repo / "src/app.py").write_text(f"print({number})\n")
        (repo / f"new-{number}").write_text("new\n")
        ckpt_here("save", f"number {number}", cwd=repo, code=0)
    (repo / ".git/objects/info/alternates").write_text("../../../elsewhere/objects\n")
    (repo / ".git/info/exclude").write_text("*.log\n!keep\n")
    git("tag", "-a", "-m", "x", "v1", cwd=repo)
    git("pack-refs", "--all", cwd=repo)
    git("repack", "-q", "-a", "-d", cwd=repo)
    ckpt_here("rollback", "latest~1", cwd=repo, code=0)
    ckpt_here("install", cwd=repo, code=0)
    ckpt_here("hook", "pre-commit", cwd=repo, code=0)
    ckpt_here("gc", cwd=repo, code=0)
    ckpt_here("list", "--size", cwd=repo, code=0)
    return repo


@contextmanager
def copied(model: Path) -> Iterator[Path]:
    """The same repository at the same place, which caches ask for, and all as it was after."""
    kept = model.with_name("kept")
    shutil.copytree(model, kept, symlinks=True)
    try:
        yield model
    finally:
        shutil.rmtree(model)
        kept.rename(model)


FILES = (
    "ckpt/installed.json",
    "ckpt/last-rollback",
    "ckpt/lock",
    "ckpt/made-here",
    "ckpt/saves",
    "ckpt/scan",
    "ckpt/space",
    "ckpt/triggers",
    "index",
    "packed-refs",
    "config",
    "HEAD",
    "objects/pack/*.pack",
    "objects/pack/*.idx",
    "objects/info/alternates",
    "info/exclude",
    "hooks/pre-commit",
)


@settings(
    max_examples=EXAMPLES,
    derandomize="CKPT_FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(name=st.sampled_from(FILES), wanted=edits)
def test_every_command_works_or_says_why_not(model: Path, name: str, wanted: list[Edit]) -> None:
    os.chdir(model.parent)
    with copied(model) as top:
        path = next((top / ".git").glob(name))
        path.chmod(0o600)
        path.write_bytes(damaged(path.read_bytes(), wanted))

        for words in COMMANDS:
            _check(*words, top=top)


def _check(*words: str, top: Path) -> None:
    ran = ckpt_here(*words, cwd=top)

    assert ran.code in (0, 1, 2, 3, 4), (words, ran)
    assert "Traceback" not in ran.stdout + ran.stderr, (words, ran)
    said = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == (ran.code != 0 and "--json" not in words), (words, ran)
