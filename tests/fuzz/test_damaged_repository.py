# SPDX-License-Identifier: MIT
"""Whatever has become of one file, each command works or says why it does not.

That nobody meets a traceback, nor a line that calls it a bug in ckpt, is what `ckpt_here` makes
sure of for itself. An error is one line and, at most, one of advice.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from fuzz.damage import Edit, damaged, edits
from helpers import ckpt, ckpt_here, git
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from seam import failing

from ckpt import CheckpointManager, CkptError

EXAMPLES = int(os.environ.get("CKPT_FUZZ_EXAMPLES", "12"))
EVENTS: dict[str, dict[str, object]] = {
    "claude-code": {
        "hook_event_name": "PreToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": "src/app.py"},
    },
    "codex": {"hook_event_name": "UserPromptSubmit", "prompt": "refactor"},
    "cursor": {"hook_event_name": "afterFileEdit", "conversation_id": "c", "file_path": "a"},
    "gemini": {"hook_event_name": "BeforeTool", "tool_name": "replace", "tool_input": {}},
}
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
    (repo / ".gitignore").write_text("*.o\n!/src/[a-z]*.o\n")
    (repo / ".gitattributes").write_text("*.txt text eol=crlf\n")
    (repo / "ckpt.toml").write_text("[retention]\nkeep_last = 5\n")
    ckpt_here("install", cwd=repo, code=0)
    ckpt_here("install", "--agent", "claude-code", cwd=repo, code=0)
    ckpt_here("hook", "pre-commit", cwd=repo, code=0)
    ckpt_here("gc", cwd=repo, code=0)
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
    *(".git/index", ".git/packed-refs", ".git/config", ".git/HEAD", ".git/info/exclude"),
    *(".git/objects/pack/*.pack", ".git/objects/pack/*.idx", ".git/objects/??/*"),
    *(".git/objects/info/alternates", ".git/hooks/pre-commit", ".git/ckpt/*"),
    *(".gitignore", ".gitattributes", "ckpt.toml", ".claude/*.json"),
)
as_often = settings(
    max_examples=EXAMPLES,
    derandomize="CKPT_FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@as_often
@given(
    name=st.sampled_from(FILES), turn=st.integers(0, 20), interrupted=st.booleans(), wanted=edits
)
def test_every_command_works_or_says_why_not(
    model: Path, name: str, turn: int, interrupted: bool, wanted: list[Edit]
) -> None:
    os.chdir(model.parent)
    with copied(model) as top:
        if interrupted:
            with failing("rename", path="/ckpt/last-rollback"):
                ckpt_here("rollback", "latest~2", "--yes", cwd=top, code=1)
        paths = sorted(path for path in top.glob(name) if path.is_file())
        assume(paths)  # the rollback may have removed it
        path = paths[turn % len(paths)]
        path.chmod(0o600)
        path.write_bytes(damaged(path.read_bytes(), wanted))

        for words in (("rollback", "--abort"), *COMMANDS) if interrupted else COMMANDS:
            _check(*words, top=top)


@as_often
@given(agent=st.sampled_from(sorted(EVENTS)), wanted=edits)
def test_no_agent_is_stopped_by_what_its_hook_cannot_read(
    repo: Path, agent: str, wanted: list[Edit]
) -> None:
    event = json.dumps({"session_id": "s", "cwd": str(repo), **EVENTS[agent]}).encode()

    ran = ckpt("hook", agent, stdin=damaged(event, wanted).decode("latin-1"), cwd=repo)

    assert (ran.code, "Traceback" in ran.stderr) == (0, False), ran


@as_often
@given(wanted=edits)
def test_a_damaged_bundle_is_imported_or_refused(repo: Path, wanted: list[Edit]) -> None:
    bundle = repo.parent / "bundle"
    with CheckpointManager(repo) as manager:
        if not len(manager):
            manager.create("one")
        manager.export(bundle)
        bundle.write_bytes(damaged(bundle.read_bytes(), wanted))
        with suppress(CkptError):
            manager.import_(bundle)
    assert ckpt_here("verify", "--all", cwd=repo).code == 0


def _check(*words: str, top: Path) -> None:
    ran = ckpt_here(*words, cwd=top)

    assert ran.code in (0, 1, 2, 3, 4), (words, ran)
    assert "Traceback" not in ran.stdout + ran.stderr, (words, ran)
    said = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == (ran.code != 0 and "--json" not in words), (words, ran)
