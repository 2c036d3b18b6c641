# SPDX-License-Identifier: MIT
"""What a command may import: every module is time that somebody waits for.

Real processes, one a command, asked at their end what they have loaded. How long that took
is for `bench/` to say.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from helpers import ckpt, git
from seam import SETUP

# Slow to import, and nothing that a plain command needs.
NEVER = {
    "argparse",
    "asyncio",
    "dataclasses",
    "difflib",
    "email",
    "importlib.metadata",
    "inspect",
    "locale",
    "logging",
    "pathlib",
    "random",
    "secrets",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "tokenize",
    "traceback",
    "typing",
    "urllib",
    "weakref",
}
# Needed where state, settings or attributes are read; not to say what there is.
TO_READ_MORE = {"json", "re", "hashlib"}
# Needed by whoever captures the worktree or changes it.
ENGINE = {
    "ckpt.engine.snapshot",
    "ckpt.engine.capture",
    "ckpt.engine.rollback",
    "ckpt.settings.settings",
}
# What only some repositories, or few commands, have a use for.
RARE = {
    "ckpt.cli",
    "ckpt.engine.prune",
    "ckpt.engine.recovery",
    "ckpt.engine.recurse",
    "ckpt.engine.retention",
    "ckpt.engine.trash",
    "ckpt.settings.policy",
    "ckpt.settings.settings",
    "ckpt.worktree.filters",
    "ckpt.worktree.scan",
}
BACK = {"ckpt.engine.rollback", "ckpt.engine.plan", "ckpt.engine.apply", "ckpt.worktree.write"}
WORK = ENGINE | RARE | BACK | {"ckpt.manager", "ckpt.models", "ckpt.store", "ckpt.worktree"}

TELL = "import sys; from ckpt.cli import main; main(); print(*sys.modules, file=sys.stderr)"


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of three files and a checkpoint, from which one has been changed."""
    top = tmp_path / "repo"
    top.mkdir()
    monkeypatch.chdir(top)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "true")  # a number would be read with `re`
    git("init", "-q")
    for name in ("a.txt", "sub/b.txt", ".gitignore"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text("*.log\n")
    git("add", ".")
    git("commit", "-qm", "one")
    ckpt("save", "before", code=0)
    (top / "a.txt").write_text("changed\n")
    return top


@cache
def at_the_start() -> frozenset[str]:
    """What Python itself, and how ckpt is installed here, loads before the first line."""
    return loaded("import sys; print(*sys.modules, file=sys.stderr)")


def loaded(code: str, *words: str, stdin: bytes = b"") -> frozenset[str]:
    command = [sys.executable, "-I", "-c", code, *words]
    ran = subprocess.run(command, input=stdin, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    return frozenset(ran.stderr.decode().split("\n")[-2].split())


def imported(*words: str, stdin: bytes = b"") -> frozenset[str]:
    return loaded(TELL, *words, stdin=stdin) - at_the_start()


@pytest.mark.parametrize(
    ("line", "unwanted"),
    [
        (
            "--version",
            {"dulwich"} | NEVER | TO_READ_MORE | WORK | {"collections", "enum", "functools"},
        ),
        ("-h", {"dulwich"} | NEVER | TO_READ_MORE | WORK | {"collections", "enum", "functools"}),
        ("list", NEVER | TO_READ_MORE | ENGINE | RARE | BACK),
        ("show", NEVER | {"hashlib"} | ENGINE | RARE | BACK),
        ("diff", (NEVER - {"typing"}) | {"hashlib"} | RARE | BACK),
        ("save", NEVER | {"hashlib", "json"} | RARE | BACK),
        ("save name -m text --pin", NEVER | {"hashlib", "json"} | RARE | BACK),
        ("rollback latest", (NEVER - {"typing"}) | {"hashlib"} | RARE),
        ("undo", (NEVER - {"typing"}) | {"hashlib"} | RARE),
        ("pin latest", NEVER | {"hashlib"} | ENGINE | RARE | BACK),
        ("drop latest", NEVER | ENGINE | (RARE - {"ckpt.engine.trash"}) | BACK),
        ("trash", NEVER | TO_READ_MORE | ENGINE | (RARE - {"ckpt.engine.trash"}) | BACK),
    ],
)
@pytest.mark.usefixtures("repo")
def test_a_command_imports_nothing_it_has_no_use_for(line: str, unwanted: set[str]) -> None:
    if line == "undo":
        ckpt("rollback", code=0)

    assert imported(*line.split()) & unwanted == set()


EVENT = '{"session_id": "s", "cwd": "%s", "hook_event_name": "%s", "tool_name": "%s", %s}'


@pytest.mark.parametrize(
    ("event", "tool", "more", "unwanted"),
    [
        (
            "Stop",
            "",
            '"x": 1',
            {"dulwich"} | NEVER | TO_READ_MORE | WORK - {"ckpt.settings.settings"},
        ),
        (
            "PreToolUse",
            "Read",
            '"x": 1',
            {"dulwich"} | NEVER | TO_READ_MORE | WORK - {"ckpt.settings.settings"},
        ),
        (
            "PreToolUse",
            "Bash",
            '"tool_input": {"command": "git status | cat"}',
            NEVER | TO_READ_MORE | WORK - {"ckpt.settings.settings"},
        ),
        ("PreToolUse", "Write", '"tool_input": {"file_path": "x"}', NEVER | {"json"} | RARE | BACK),
        ("UserPromptSubmit", "", '"x": 1', NEVER | {"json"} | RARE | BACK),
    ],
)
def test_an_event_of_an_agent_that_does_not_matter_ends_at_once(
    repo: Path, event: str, tool: str, more: str, unwanted: set[str]
) -> None:
    text = EVENT % (repo, event, tool, more)

    assert imported("hook", "claude-code", stdin=text.encode()) & unwanted == set()


@pytest.mark.usefixtures("repo")
def test_what_is_watched_here_is_what_commands_may_import() -> None:
    """A module that was renamed would never be found among those that are unwanted."""
    for name in ENGINE | RARE | BACK:
        assert name in loaded(f"import sys, {name}; print(*sys.modules, file=sys.stderr)")
    assert "ckpt.engine.snapshot" in imported("save")
    assert "ckpt.engine.rollback" in imported("rollback")
    assert "argparse" in imported("save", "-h")
    assert "json" in imported("list", "--json")


@pytest.mark.parametrize("line", ["rollback", "rollback --json", "undo", "rollback --head"])
@pytest.mark.usefixtures("repo")
def test_a_rollback_has_imported_everything_before_it_changes_a_file(line: str) -> None:
    """The files may be ckpt's own: from then on another version may lie there."""
    if line == "undo":
        ckpt("rollback", code=0)
    code = f"""if True:
        {SETUP}
        from ckpt import cli
        then = []
        def look(operation, path):
            if operation == "rename" and path.endswith("/journal"):
                then.extend(sys.modules)
        seam.observe(look)
        cli.main()
        late = [name for name in sys.modules if name.startswith("ckpt") and name not in then]
        print(bool(then), *late, file=sys.stderr)
    """
    ran = subprocess.run([sys.executable, "-I", "-c", code, *line.split()], capture_output=True)

    assert ran.stderr.split() == [b"True"]


def test_a_recovery_can_save_a_file_it_comes_upon_with_what_it_has_imported() -> None:
    to_save_it = {"ckpt.engine.rules", "ckpt.worktree.scan"}
    code = "import sys, ckpt.engine.recovery; print(*sys.modules, file=sys.stderr)"

    assert to_save_it <= loaded(code)
